"""Composed exams in figures: what a composition shows, and how fast it is written.

    python benchmarks/compose.py DATA [--exams 68] [--seed 0] [--plan-only] [--image PNG]

DATA holds the labelled frames and galar/events.json. Figures of the plan are those of `dice-ce data compose` with the
same arguments. Speed is measured at 336 x 336, including decoding the images and H.264, on exams of 2,000 frames, one
per core; the frames each core makes per second of its own time say what an idle machine would do.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from dice_ce.datasets.galar import import_galar
from dice_ce.datasets.pool import load_pool
from dice_ce.features.extraction import cpu_count
from dice_ce.lab.compose import compose, plan_exams, plan_text
from dice_ce.lab.compose.chart import draw_plan

MEASURED_EXAMS, MEASURED_FRAMES = 4, 2000


def measure_speed(data: Path, timelines: Path) -> str:
    """Compose a few exams into a temporary folder; the time before the first frame does not count."""
    began: list[tuple[float, float]] = []

    def progress(done: int, total: int) -> None:
        if not began:
            began.append((time.perf_counter(), time.process_time()))

    with tempfile.TemporaryDirectory() as folder:
        made = compose(
            data,
            timelines,
            Path(folder) / "out",
            exams=MEASURED_EXAMS,
            frames_per_exam=MEASURED_FRAMES,
            seed=0,
            progress=progress,
        )
        wall, own = (now - then for now, then in zip((time.perf_counter(), time.process_time()), began[0], strict=True))
        size = sum(path.stat().st_size for path in Path(folder).rglob("*.mp4"))
    frames = sum(len(plan) for plan in made.plans)
    return (
        f"{frames:,} frames in {wall:.1f} s: {frames / wall:,.0f} frames/s on {cpu_count()} cores; "
        f"{frames / own:,.0f} per second of one core's time; {size / frames / 1000:.1f} kB per frame"
    )


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with the labelled frames and galar/events.json")
    parser.add_argument("--exams", type=int, default=68)
    parser.add_argument("--frames-per-exam", type=int, default=8000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plan-only", action="store_true", help="do not measure the speed")
    parser.add_argument("--image", type=Path, metavar="PNG", help="draw the timeline of one exam")
    parser.add_argument("--exam", metavar="ID", help="which (default: the first)")
    options = parser.parse_args()
    timelines = options.data / "galar" / "events.json"
    pool, lines = load_pool(options.data).frames, import_galar(timelines).timelines
    began = time.perf_counter()
    plans = plan_exams(pool, lines, exams=options.exams, frames_per_exam=options.frames_per_exam, seed=options.seed)
    print(f"planned in {time.perf_counter() - began:.1f} s\n\n{plan_text(plans)}")
    if options.image:
        plan = next((plan for plan in plans if plan.exam_id == options.exam), plans[0])
        line = next(line for line in lines if f"galar-{line.exam_id}" == plan.patient_id)
        draw_plan(plan, line, options.image)
    if not options.plan_only:
        print(f"\n{measure_speed(options.data, timelines)}")


if __name__ == "__main__":
    main()

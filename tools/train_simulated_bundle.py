"""Train the bundle `simulated` on simulated exams, so that `make demo` works before any real data is at hand.

    python tools/train_simulated_bundle.py [--out src/dice_ce/bundles/simulated] [--work FOLDER]

Exams are rendered, encoded and labelled by the simulator's own truth; whole exams are held out to calibrate and to
choose the thresholds, and others to report how well it works. It needs torch; it is resumable, as exams and features
are kept.
"""

from __future__ import annotations

import argparse
import csv
import itertools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from dice_ce.bundle import Settings, save_bundle
from dice_ce.clock import hms
from dice_ce.converger import ConvergerConfig, converge
from dice_ce.diagnoser import HeadDiagnoser, softmax
from dice_ce.encoder import Encoder, load_encoder
from dice_ce.exam import open_exam
from dice_ce.extraction import extract
from dice_ce.files import cache_root
from dice_ce.progress import ProgressBar
from dice_ce.selector import Head, score_frames, select
from dice_ce.simulator import simulate
from dice_ce.store import Features
from dice_ce.summary import medoid
from dice_ce.taxonomy import NORMAL, VIDEOCAP_12, Taxonomy
from dice_ce.weaver import WeaverConfig, weave

ENCODER = "efficientnet-lite0"
TRAIN, VALIDATION, TEST = range(100, 110), range(200, 203), range(300, 303)
"""Seeds of the exams; no bowel, path or lesion is shared between two seeds."""
FRAMES = 1200
TOLERANCE = 60.0
"""Exam seconds around the best view within which a keyframe counts as having found the lesion."""


@dataclass(frozen=True, eq=False)
class Labelled:
    """One simulated exam with its features and its truth."""

    path: Path
    features: Features
    seconds: npt.NDArray[np.float64]
    labels: npt.NDArray[np.int64]
    """Truth of every frame."""
    findings: list[tuple[str, float]]
    """Label and exam second of the best view."""


def make_exam(work: Path, seed: int, encoder: Encoder, taxonomy: Taxonomy) -> Labelled:
    """Render (once) an exam with two events of every class, and encode it."""
    path = work / f"train-{seed}.mp4"
    if not path.exists():
        lesions = [label for label in VIDEOCAP_12 if label != NORMAL] * 2
        with ProgressBar(f"rendering {path.name}") as bar:
            simulate(
                path, frames=FRAMES, seed=seed, lesions=lesions, field=("octagon", "round")[seed % 2], progress=bar
            )
    with open_exam(path) as exam, ProgressBar(f"encoding {path.name}") as bar:
        features = extract(exam, encoder, gate=None, progress=bar)
        seconds = np.asarray(exam.clock.ticks[features.frames.index] * float(exam.clock.unit), np.float64)
    with path.with_name(f"{path.stem}.truth.csv").open() as file:
        labels = np.array([taxonomy.index(row["label"]) for row in csv.DictReader(file)])
    with path.with_name(f"{path.stem}.findings.csv").open() as file:
        findings = [(row["label"], float(row["seconds"])) for row in csv.DictReader(file)]
    return Labelled(path, features, seconds, labels[features.frames.index], findings)


def train_head(x: torch.Tensor, y: torch.Tensor, outputs: int, weight: torch.Tensor, *, seed: int = 0) -> Head:
    """Fit LayerNorm, Linear, GELU, Dropout, Linear on features; one output means yes or no."""
    torch.manual_seed(seed)
    network = torch.nn.Sequential(
        torch.nn.LayerNorm(x.shape[1]),
        torch.nn.Linear(x.shape[1], 128),
        torch.nn.GELU(approximate="tanh"),
        torch.nn.Dropout(0.2),
        torch.nn.Linear(128, outputs),
    )
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=0.05)
    is_binary = outputs == 1
    for _ in range(30):
        order = torch.randperm(len(x))
        for batch in order.split(256):
            logits = network(x[batch])
            if is_binary:
                loss = torch.nn.functional.binary_cross_entropy_with_logits(
                    logits[:, 0], y[batch].float(), pos_weight=weight
                )
            else:
                loss = torch.nn.functional.cross_entropy(logits, y[batch], weight=weight, label_smoothing=0.05)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    norm, first, _, _, second = network
    parts = (norm.weight, norm.bias, first.weight.T, first.bias, second.weight.T, second.bias)
    # Rounded as they will be stored, so that what is tuned below is what will run.
    return Head(*(np.ascontiguousarray(part.detach().numpy()).astype(np.float16).astype(np.float32) for part in parts))


def stack(exams: list[Labelled]) -> tuple[torch.Tensor, torch.Tensor]:
    """Put the frames of several exams into one table."""
    x = np.concatenate([exam.features.vectors for exam in exams]).astype(np.float32)
    return torch.from_numpy(x), torch.from_numpy(np.concatenate([exam.labels for exam in exams]))


def best_temperature(logits: npt.NDArray[np.float32], labels: npt.NDArray[np.int64]) -> float:
    """Choose the temperature under which the held-out labels are least surprising."""

    def surprise(temperature: float) -> float:
        return float(-np.log(softmax(logits, temperature)[np.arange(len(labels)), labels] + 1e-9).mean())

    return min((round(float(t), 2) for t in np.linspace(0.5, 3, 51)), key=surprise)


def outcome(
    exam: Labelled, selector: Head, diagnoser: HeadDiagnoser, settings: Settings, taxonomy: Taxonomy
) -> tuple[int, int]:
    """Return how many findings were found with the right label, and how many items the summary has."""
    with open_exam(exam.path) as opened:
        candidates = select(exam.features, score_frames(exam.features, selector), opened.clock, settings.tau_s)
        distributions = diagnoser(opened, candidates)
    kept = [
        judgment
        for judgment in converge(weave(candidates, settings.weaver), distributions, taxonomy.normal, settings.converger)
        if judgment.verdict == "kept"
    ]
    items = [
        (
            taxonomy.labels[judgment.label],
            candidates.seconds[judgment.retained[medoid(candidates.vectors[judgment.retained])]],
        )
        for judgment in kept
    ]
    found = sum(
        any(label == said and abs(seconds - at) <= TOLERANCE for said, at in items) for label, seconds in exam.findings
    )
    return found, len(items)


def choose_settings(exams: list[Labelled], selector: Head, diagnoser: HeadDiagnoser, taxonomy: Taxonomy) -> Settings:
    """Try a small grid on the validation exams: the best balance of findings found and items shown."""
    grid = itertools.product((0.5, 0.7), (0.2, 0.3, 0.4, 0.5), (0.2, 0.4), (0.4, 0.5, 0.6, 0.7))

    def value(choice: tuple[float, float, float, float]) -> tuple[float, int]:
        tau_s, delta, tau_agree, tau_min = choice
        settings = Settings(tau_s, WeaverConfig(delta_fine=delta), ConvergerConfig(tau_agree, tau_min))
        outcomes = [outcome(exam, selector, diagnoser, settings, taxonomy) for exam in exams]
        found, items = (sum(column) for column in zip(*outcomes, strict=True))
        wanted = sum(len(exam.findings) for exam in exams)
        return 2 * found / (items + wanted), -items  # F1, if every finding is matched once

    tau_s, delta, tau_agree, tau_min = max(grid, key=value)
    return Settings(tau_s, WeaverConfig(delta_fine=delta), ConvergerConfig(tau_agree, tau_min))


def main() -> None:
    """Train, tune, test and write the bundle."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("src/dice_ce/bundles/simulated"))
    parser.add_argument("--work", type=Path, default=cache_root() / "simulated-bundle", help="where exams are kept")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    taxonomy, encoder = Taxonomy(), load_encoder(ENCODER)
    train, validation, test = (
        [make_exam(options.work, seed, encoder, taxonomy) for seed in seeds] for seeds in (TRAIN, VALIDATION, TEST)
    )
    x, y = stack(train)
    abnormal = (y != taxonomy.normal).long()
    selector = train_head(x, abnormal, 1, (abnormal == 0).sum() / abnormal.sum())
    shares = torch.bincount(y, minlength=len(taxonomy)).clamp(min=1)
    weights = (len(y) / shares) ** 0.5
    diagnoser = train_head(x, y, len(taxonomy), weights / weights.mean())
    vx, vy = stack(validation)
    temperature = best_temperature(diagnoser(vx.numpy()), vy.numpy())
    judge = HeadDiagnoser(diagnoser, temperature)
    settings = choose_settings(validation, selector, judge, taxonomy)
    report = test_report(test, selector, judge, settings, taxonomy)
    save_bundle(
        options.out,
        name="simulated",
        taxonomy=taxonomy,
        encoder=encoder,
        selector=selector,
        diagnoser=diagnoser,
        temperature=temperature,
        settings=settings,
        card=CARD.format(report=report),
    )
    print(report)


def test_report(
    exams: list[Labelled], selector: Head, diagnoser: HeadDiagnoser, settings: Settings, taxonomy: Taxonomy
) -> str:
    """Say how well it works on exams that nothing was chosen on."""
    x, y = (part.numpy() for part in stack(exams))
    said = 1 / (1 + np.exp(-selector(x)[:, 0])) >= settings.tau_s
    truth = y != taxonomy.normal
    recall, precision = (said & truth).sum() / truth.sum(), (said & truth).sum() / max(1, said.sum())
    right = diagnoser.head(x).argmax(axis=1) == y
    classes = [k for k in range(len(taxonomy)) if (y == k).any()]
    balanced = np.mean([right[y == k].mean() for k in classes])
    outcomes = [outcome(exam, selector, diagnoser, settings, taxonomy) for exam in exams]
    found, items = (sum(column) for column in zip(*outcomes, strict=True))
    wanted = sum(len(exam.findings) for exam in exams)
    length = hms(sum(float(exam.seconds[-1]) for exam in exams))
    return (
        f"Test: {len(exams)} simulated exams, {len(y):,} frames, {length} of exam time, {wanted} lesion events.\n"
        f"Selector recall {recall:.3f}, precision {precision:.3f}; balanced accuracy over {len(classes)} classes "
        f"{balanced:.3f}.\nSummaries: {found} of {wanted} events found with the right label within {TOLERANCE:.0f} s, "
        f"{items} items in all."
    )


CARD = """# Model card: `simulated`

Trained by `python tools/train_simulated_bundle.py` on procedurally rendered exams only. **It has never seen a real
capsule frame and says nothing about one**: it exists so that the demonstration, the tests and the documentation run
end to end without any data. Encoder: EfficientNet-Lite0, ImageNet weights, frozen (Apache-2.0). Heads: LayerNorm, 128
hidden units, GELU. Calibrated and tuned on validation exams, tested on others; every exam has its own bowel, path and
lesions.

{report}

Research software, not a medical device: not for diagnosis or treatment.
"""


if __name__ == "__main__":
    main()

"""Layout engines for report.pdf, on the same content in one run: time as a ratio, size, weight, same bytes, PDF/A.

    python benchmarks/pdf.py RESULTS

RESULTS is the folder of one exam that summarize has written. Chromium is taken from /usr/bin (Debian's package).
"""

from __future__ import annotations

import importlib.metadata
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from dice_ce.outputs.pdf import HERE, render_html, render_pdf
from dice_ce.outputs.pdf.content import content_of
from dice_ce.outputs.results import Results, read_results
from dice_ce.table import Table

CHROMIUM = "/usr/bin/chromium"
RUNS = 5
MB = 1e6
WEASYPRINT = ("weasyprint", "pydyf", "cffi", "tinyhtml5", "tinycss2", "cssselect2", "pyphen", "fonttools", "brotli",
              "zopfli", "webencodings")  # fmt: skip


def by_weasyprint(results: Results, folder: Path) -> bytes:
    """What is shipped."""
    return render_pdf(Results(results.summary, results.keyframes, results.identity))


def by_chromium(results: Results, folder: Path) -> bytes:
    """The same page, printed by a browser that is started for it."""
    page, out = folder / "page.html", folder / "chromium.pdf"
    style = f"<style>{(HERE / 'report.css').read_text()}</style></head>"
    page.write_text(render_html(results).replace("</head>", style))
    subprocess.run(
        [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
            "--no-pdf-header-footer", f"--user-data-dir={folder / 'profile'}", f"--print-to-pdf={out}", page.as_uri(),
        ],
        check=True,
        capture_output=True,
    )  # fmt: skip
    return out.read_bytes()


def by_typst(results: Results, folder: Path) -> bytes:
    """The same texts and images in Typst's own language."""
    import typst

    content: dict[str, Any] = content_of(results)
    cards = []
    for finding in content["findings"]:
        image = folder / f"{finding['number']}.jpg"
        image.write_bytes(results.keyframes[finding["number"] - 1])
        words = f"= {finding['number']} {finding['label']}\n{finding['time']}, {finding['certainty']} certain\n\n"
        words += f"{finding['seen']}; {finding['grade']}: {finding['measured']}"
        cards.append(f'grid(columns: (35mm, 1fr), image("{image.name}", width: 34mm), [{words}])')
    limits = "\n".join(f"- {line}" for line in content["limits"])
    source = folder / "page.typ"
    source.write_text(
        "#set document(date: datetime(year: 1900, month: 1, day: 1))\n"
        f"= Capsule endoscopy\n{content['disclaimer']}\n\n{content['headline']}\n"
        f"#grid(columns: (1fr, 1fr), {', '.join(cards)})\n= What was not examined\n{limits}\n"
    )
    return bytes(typst.compile(source, pdf_standards=["a-3b"]))


def weight_of(packages: Iterable[str]) -> float:
    """Megabytes that packages take once installed."""
    files = [file for name in packages for file in importlib.metadata.distribution(name).files or ()]
    return sum(Path(str(file.locate())).stat().st_size for file in files if Path(str(file.locate())).is_file()) / MB


def debian_weight(package: str) -> float:
    """Megabytes of a Debian package without what it depends on."""
    said = subprocess.run(["dpkg-query", "-W", "-f", "${Installed-Size}", package], capture_output=True, text=True)
    return int(said.stdout or 0) / 1000


def is_pdf_a(pdf: bytes) -> bool:
    """Whether the file says that it is PDF/A."""
    said = subprocess.run(["pdfinfo", "-meta", "-"], input=pdf, capture_output=True, check=True)
    return b"pdfaid" in said.stdout


def measure(results: Results) -> Table:
    """Render in turn, so that a busy moment hits all engines alike."""
    engines: dict[str, tuple[Callable[[Results, Path], bytes], float, str]] = {
        "WeasyPrint": (by_weasyprint, weight_of(WEASYPRINT), "BSD-3"),
        "Chromium": (by_chromium, debian_weight("chromium"), "BSD-3 and others"),
        "Typst": (by_typst, weight_of(["typst"]), "Apache-2.0"),
    }
    seconds: dict[str, list[float]] = {name: [] for name in engines}
    made: dict[str, list[bytes]] = {name: [] for name in engines}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(RUNS):
            for name, (render, _, _) in engines.items():
                begin = time.perf_counter()
                made[name].append(render(results, Path(folder)))
                seconds[name].append(time.perf_counter() - begin)
    base = statistics.median(seconds["WeasyPrint"])
    rows = [
        (
            name,
            f"{statistics.median(seconds[name]) / base:.2f}",
            f"{len(made[name][0]) / 1000:.0f}",
            f"{weight:.0f}",
            "yes" if len(set(made[name])) == 1 else "no",
            "yes" if is_pdf_a(made[name][0]) else "no",
            licence,
        )
        for name, (_, weight, licence) in engines.items()
    ]
    return Table.of(("engine", "time (WeasyPrint = 1)", "kB", "MB installed", "same bytes", "PDF/A", "licence"), rows)


if __name__ == "__main__":
    print(measure(read_results(Path(sys.argv[1]))).markdown())

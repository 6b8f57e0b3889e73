"""Whether another text reader finds anything in de-identified exams: Tesseract on every frame, before and after.

    python benchmarks/second_reader.py                             # some minutes; Debian: tesseract-ocr
    python benchmarks/second_reader.py --style inside-like --frames 40

The second pass of `dice-ce deidentify` uses the reader that found the text in the first place. What both miss for the
same reason would stay, so that its results are read here by one that shares nothing with it. Exams are simulated:
overlays of benchmarks/burned_in.py, names and numbers included.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
from pathlib import Path

from burned_in import pool
from dice_ce.deidentify.run import Options, deidentify
from dice_ce.exam.codec import encode_image
from dice_ce.exam.open import open_exam
from dice_ce.lab.simulator.overlays import STYLES, Style, adaptive, write_overlaid
from dice_ce.table import Table

LEAST_SIGNS, LEAST_SURE = 3, 60
"""Letters and digits of a word, and how sure Tesseract must be of it, in percent."""
CHECKS = 12


def words(image_file: Path) -> list[str]:
    """Words that Tesseract finds anywhere in an image."""
    command = ["tesseract", str(image_file), "-", "--psm", "11", "tsv"]
    rows = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[1:]
    cells = [row.split("\t") for row in rows]
    found = [(float(row[10]), row[11].strip()) for row in cells if len(row) == 12]
    return [word for sure, word in found if sure >= LEAST_SURE and sum(map(str.isalnum, word)) >= LEAST_SIGNS]


def read_all(exam_file: Path, folder: Path) -> list[list[str]]:
    """Words in every frame, text and all, enlarged to the height that Tesseract wants."""
    found = []
    with open_exam(exam_file, mask=False) as exam:
        for _, image in exam.read():
            (folder / "frame.png").write_bytes(encode_image(image.repeat(2, 0).repeat(2, 1), ".png"))
            found.append(words(folder / "frame.png"))
    return found


def run(style: Style, frames: int, folder: Path) -> list[str]:
    """De-identify an exam of this style, and read it before and after."""
    before, after = folder / f"{style.name}.mp4", folder / f"{style.name}-out.mp4"
    write_overlaid(before, pool(style.canvas[1], style.field), style, adaptive(frames, 1, 3600))
    with open_exam(before) as exam:
        deidentify(exam, after, Options(checks=CHECKS))
    named, left = read_all(before, folder), read_all(after, folder)
    shown = sorted({word for frame in left for word in frame})
    return [style.name, str(frames), *(str(sum(map(bool, found))) for found in (named, left)), " ".join(shown)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--style", action="append", choices=[*STYLES], help="only this one; may be repeated")
    parser.add_argument("--frames", type=int, default=24)
    options = parser.parse_args()
    if shutil.which("tesseract") is None:
        raise SystemExit("tesseract is not installed; apt-get install tesseract-ocr")
    rows = []
    with tempfile.TemporaryDirectory() as name:
        for style in options.style or STYLES:
            rows.append(run(STYLES[style], options.frames, Path(name)))
            print("  ".join(rows[-1]), flush=True)
    print(Table.of(["overlay", "frames", "with words before", "with words after", "which"], rows).text())

"""AI-KODA: 2,173 frames of 28 exams, rated for cleanliness by three readers, twice each; no lesions.

*.csv or *.xlsx      a row per rating: imagePath, >75%, 50%-75%, 25%-49%, <25%, <5%, 5%-25%, 26%-50%, >50%, Date, User
cleanliness_1.jpg    the frames, anywhere below the folder

The four first shares are of mucosa that is seen, the others of view that is obstructed (the KODA score); one of each
four is 1. Columns and names are those of the authors' application (github.com/misahub2023/AI-KODA), which writes this
table and holds five of the frames. How the whole dataset is given out was not confirmed. Handa et al., Physical and
Engineering Sciences in Medicine 47 (2024), doi:10.1007/s13246-024-01441-w.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dice_ce.datasets.published import existing_folder, find_images, read_table, read_workbook
from dice_ce.datasets.tables import LabelledFrame, Tables
from dice_ce.datasets.words import labels_of
from dice_ce.errors import InputError

SOURCE = "AI-KODA"
IMAGE, READER = "imagePath", "User"
QUESTIONS = {
    "visualized mucosa": (">75%", "50%-75%", "25%-49%", "<25%"),
    "obstructed view": ("<5%", "5%-25%", "26%-50%", ">50%"),
}
"""What was asked, and the answers from the cleanest view to the worst."""
COLUMNS = (IMAGE, *(share for shares in QUESTIONS.values() for share in shares))


@dataclass
class Ratings:
    """All that was said about one frame."""

    votes: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """By question and answer."""

    def words(self) -> tuple[str, ...]:
        """Return the answer of most ratings to each question; of a tie the worse view, so as not to flatter it."""
        return tuple(
            f"{question} {max(shares, key=lambda share: (self.votes[question][share], shares.index(share)))}"
            for question, shares in QUESTIONS.items()
            if self.votes[question].total()
        )


def import_ai_koda(folder: Path) -> Tables:
    """Read all tables of ratings below a folder, and find their images."""
    existing_folder(folder, "AI-KODA", f"tables of ratings (.csv or .xlsx, with {IMAGE}) and images")
    found = sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".csv", ".xlsx"))
    tables = [path for path in found if not path.name.startswith((".", "~"))]
    if not tables:
        raise InputError(f"{folder}: no table of ratings in it; give the folder with AI-KODA's .csv or .xlsx")
    rated: dict[str, Ratings] = defaultdict(Ratings)
    readers: set[str] = set()
    ratings, unanswered = 0, 0
    for table in tables:
        for where, row in _rows(table):
            answers = _answers(row, where)
            ratings += 1
            unanswered += len(answers) < len(QUESTIONS)
            readers |= {row[READER]} - {""} if READER in row else set()
            of_image = rated[_name(row[IMAGE], where)]
            for question, share in answers.items():
                of_image.votes[question][share] += 1
    images = {path.name.casefold(): path for path in find_images(folder)}
    frames = tuple(
        LabelledFrame(images.get(name.casefold(), folder / name), SOURCE, "", None, labels_of(words), words)
        for name, of_image in rated.items()
        if (words := of_image.words())
    )
    if not frames:
        raise InputError(f"{tables[0]}: no frame is rated; download the table again")
    remarks = [
        f"{ratings:,} ratings of {len(frames):,} frames"
        + (f" by {len(readers)} readers; their addresses are not kept" if readers else "")
        + "; the answer of most counts, of a tie the worse view",
        "cleanliness only: this dataset has no labels of lesions, and does not tell the patient of a frame",
    ]
    if unanswered:
        remarks.append(f"{unanswered:,} ratings leave a question unanswered, as the application does when it is closed")
    if absent := sum(not frame.path.is_file() for frame in frames):
        remarks.append(f"{absent:,} of {len(frames):,} images are not here; only their ratings are known")
    return Tables(frames, remarks=tuple(remarks))


def _rows(path: Path) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the rows of a table with the place to name in an error."""
    if path.suffix.lower() == ".csv":
        for row in read_table(path, COLUMNS):
            yield row.where, {name: row[name] for name in row.columns}
        return
    rows = read_workbook(path)
    header: Sequence[str] = [str(cell or "").strip() for cell in rows[0]] if rows else ()
    if missing := [name for name in COLUMNS if name not in header]:
        raise InputError(f"{path}, line 1: no column '{missing[0]}' on the first sheet; expected {', '.join(COLUMNS)}")
    for line, cells in enumerate(rows[1:], start=2):
        texts = ["" if cell is None else str(cell).strip() for cell in cells]
        if any(texts):
            yield f"{path}, line {line}", dict(zip(header, texts, strict=True))


def _answers(row: Mapping[str, str], where: str) -> dict[str, str]:
    """Return the answer to each question that was answered."""
    answers = {}
    for question, shares in QUESTIONS.items():
        for share in shares:
            if row[share] not in ("0", "1", "0.0", "1.0", ""):
                raise InputError(f"{where}: '{row[share]}' in column '{share}' is neither 0 nor 1; correct it")
        chosen = [share for share in shares if row[share] in ("1", "1.0")]
        if len(chosen) > 1:
            raise InputError(f"{where}: {' and '.join(chosen)} both answer '{question}'; keep one of them")
        if chosen:
            answers[question] = chosen[0]
    return answers


def _name(text: str, where: str) -> str:
    """Take the file name from a path with slashes or backslashes."""
    name = text.replace("\\", "/").rpartition("/")[2]
    if not name:
        raise InputError(f"{where}: no image in column '{IMAGE}'; add it, or remove the line")
    return name

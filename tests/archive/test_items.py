"""What the provenance of an archive's exam says about how to get it again."""

import pytest

from dice_ce.archive.items import Item, Recipe
from dice_ce.method.settings import Settings


@pytest.mark.parametrize(
    ("place", "name", "is_named", "shown"),
    [
        ("/share/exam7.mp4", "exam7", False, "exam7.mp4"),
        ("/share/DOE_JANE.dcm", "dicom-0f3a", False, "dicom-0f3a"),
        ("s3://bucket/exam7.mp4", "exam7", False, "exam7.mp4"),
        ("/share/exam7.mp4", "study 12", True, "exam7.mp4"),
    ],
)
def test_the_command_does_not_name_a_file_that_leads_to_the_patient(
    place: str, name: str, is_named: bool, shown: str
) -> None:
    item = Item(place, name, "stamp", 1, "2026-01-01", is_named=is_named)
    command = Recipe(None, "0" * 64, Settings()).command(item)
    assert command == f"dice-ce summarize {shown} --out results"

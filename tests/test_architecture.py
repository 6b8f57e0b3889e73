"""The floor plan: rooms know only those before them, and `method` can be read without the rest."""

import ast
from pathlib import Path

import pytest

import dice_ce

SOURCE = Path(dice_ce.__file__).parent
KNOWS: dict[str, set[str]] = {
    "exam": set(),
    "deidentify": {"exam"},
    "features": {"exam"},
    "method": {"exam", "features"},
    "outputs": {"exam", "features", "method"},
    "datasets": {"exam"},
    "reader": {"exam", "features", "method", "outputs", "datasets"},
    "benchmark": {"exam", "features", "method", "datasets"},
    "lab": {"exam", "features", "method", "outputs", "datasets", "benchmark"},
    "archive": {"exam", "features", "method", "outputs", "datasets"},
    "cli": {
        "exam",
        "deidentify",
        "features",
        "method",
        "outputs",
        "datasets",
        "benchmark",
        "lab",
        "archive",
        "reader",
    },
}
"""What each room may import, beside itself and the modules that every room may know."""
FILES = sorted(path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py"))


def imported(path: Path) -> set[str]:
    """Rooms that a file imports from, also late."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "absolute imports only, so that every arrow is seen"
            names = [node.module or "", *(f"{node.module}.{name.name}" for name in node.names)]
        elif isinstance(node, ast.Import):
            names = [name.name for name in node.names]
        found |= {parts[1] for name in names if (parts := name.split("."))[0] == "dice_ce" and len(parts) > 1}
    return found & KNOWS.keys()


@pytest.mark.parametrize("name", [name for name in FILES if name != "__init__.py"])
def test_no_arrow_points_up(name: str) -> None:
    room = name.split("/")[0]
    allowed = KNOWS[room] | {room} if room in KNOWS else set()
    assert imported(SOURCE / name) <= allowed


def test_every_module_stands_in_a_room_or_is_known_by_all() -> None:
    common = {"__init__", "errors", "extras", "taxonomy", "settings", "types", "files"}
    common |= {"csvfile", "table", "plotting", "progress", "processes"}
    assert {name.removesuffix(".py") for name in FILES if "/" not in name} == common
    assert {name.split("/")[0] for name in FILES if "/" in name} == set(KNOWS)


def test_tests_stand_in_the_same_rooms() -> None:
    folders = {path.parent.name for path in Path(__file__).parent.glob("*/test_*.py")}
    assert folders == {*KNOWS, "tools"}


STAGES = {"weave", "converge", "rank_contexts", "assemble"}
"""What only the method's own chain goes through; a baseline may select and diagnose in an order of its own."""


@pytest.mark.parametrize("name", [name for name in FILES if name != "method/pipeline.py"])
def test_only_the_pipeline_knows_the_order_of_the_stages(name: str) -> None:
    nodes = ast.walk(ast.parse((SOURCE / name).read_text()))
    found = {alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert not found & STAGES, "call dice_ce.method.pipeline instead"

"""Files with the same bytes: within one set, and across sets that should not share any."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dice_ce.errors import InputError


@dataclass(frozen=True)
class Duplicate:
    """One content that stands in several groups."""

    places: tuple[tuple[str, Path], ...]
    """Group and file, sorted; at least two groups."""

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups that share the content, sorted."""
        return tuple(sorted({group for group, _ in self.places}))


def duplicates_across(groups: Mapping[str, Iterable[Path]]) -> list[Duplicate]:
    """Find files that stand, byte for byte, in more than one group (a split, say)."""
    holders: dict[Path, set[str]] = defaultdict(set)
    for group, paths in groups.items():
        for path in paths:
            holders[path].add(group)
    copies = identical_files(holders)
    copied = {path for same in copies for path in same}
    listed_twice = [(path,) for path, names in holders.items() if len(names) > 1 and path not in copied]
    found = (
        Duplicate(tuple(sorted((group, path) for path in same for group in holders[path])))
        for same in [*copies, *listed_twice]
    )
    return sorted((each for each in found if len(each.groups) > 1), key=lambda each: each.places)


def identical_files(paths: Iterable[Path]) -> list[tuple[Path, ...]]:
    """Group files of the same content; files that have no double are left out. Only equal sizes are read."""
    by_size: dict[int, list[Path]] = defaultdict(list)
    for path in paths:
        by_size[_size(path)].append(path)
    by_content: dict[bytes, list[Path]] = defaultdict(list)
    for candidates in by_size.values():
        if len(candidates) > 1:
            for path in candidates:
                by_content[_digest(path)].append(path)
    return [tuple(same) for same in by_content.values() if len(same) > 1]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise _unreadable(path, error) from error


def _digest(path: Path) -> bytes:
    try:
        return hashlib.sha256(path.read_bytes()).digest()
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> InputError:
    return InputError(f"{path}: cannot be read ({error.strerror}); check that the file exists and its permissions")

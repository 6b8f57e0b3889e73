from fractions import Fraction

import numpy as np
import pytest

from dice_ce.exam.frames import FrameTable


def table(index: list[int], pts: list[int], base: Fraction = Fraction(1, 25)) -> FrameTable:
    return FrameTable(np.array(index, np.int64), np.array(pts, np.int64), base)


def test_slicing_keeps_ordinals_and_times_together() -> None:
    part = table([0, 1, 2, 5], [0, 10, 20, 50])[1:3]
    assert part.index.tolist() == [1, 2]
    assert part.pts.tolist() == [10, 20]
    assert part.time_base == Fraction(1, 25)


def test_a_mask_or_rows_select_frames() -> None:
    whole = table([0, 1, 2], [0, 1, 2])
    assert whole[np.array([True, False, True])].index.tolist() == [0, 2]
    assert whole[np.array([2])].index.tolist() == [2]


@pytest.mark.parametrize(
    ("index", "pts", "message"),
    [
        ([0, 1], [0], "equally long"),
        ([1, 0], [0, 1], "ordinals must increase"),
        ([0, 0], [0, 1], "ordinals must increase"),
        ([-1, 0], [0, 1], "count from 0"),
        ([0, 1], [1, 0], "must not decrease"),
    ],
)
def test_a_table_that_makes_no_sense_is_refused(index: list[int], pts: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        table(index, pts)


def test_a_time_base_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="positive"):
        table([0], [0], Fraction(0))

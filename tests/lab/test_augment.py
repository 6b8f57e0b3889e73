"""Augmentation: other views of a frame, repeatable by seed, black outside the window."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dice_ce.errors import UsageError
from dice_ce.lab.training.augment import NONE, SHAPES, Augmentation, augment, paste, window_mask

SIZE = 64


def a_image(seed: int = 0) -> np.ndarray:
    """Smooth, bright everywhere, so that every black pixel was blacked."""
    coarse = np.random.default_rng(seed).integers(90, 220, (4, 4, 3), np.uint8)
    return np.kron(coarse, np.ones((SIZE // 4, SIZE // 4, 1), np.uint8))


def whole() -> np.ndarray:
    return np.ones((SIZE, SIZE), np.uint8)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32), st.sampled_from([48, 64, 96]))
def test_another_view_keeps_type_and_has_the_wanted_size(seed: int, size: int) -> None:
    view = augment(a_image(), whole(), size, np.random.default_rng(seed), Augmentation())
    assert view.shape == (size, size, 3)
    assert view.dtype == np.uint8


def test_the_same_seed_gives_the_same_view_and_another_seed_another() -> None:
    first, again, other = (
        augment(a_image(), whole(), SIZE, np.random.default_rng(seed), Augmentation()) for seed in (5, 5, 6)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_with_everything_off_the_image_stays_as_it_is() -> None:
    assert np.array_equal(augment(a_image(), whole(), SIZE, np.random.default_rng(0), NONE), a_image())


def test_the_image_given_is_not_changed() -> None:
    image = a_image()
    augment(image, whole(), SIZE, np.random.default_rng(1), Augmentation(cut=1))
    assert np.array_equal(image, a_image())


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32))
def test_nothing_is_seen_outside_the_own_window_wherever_it_is_turned(seed: int) -> None:
    """The window turns with the image: what was outside is black, though blur and compression come after."""
    own = window_mask("round", SIZE, 1.0)
    still = Augmentation(zoom=(1.0, 1.0), shift=0, stretch=0, window=0)
    view = augment(a_image(), own, SIZE, np.random.default_rng(seed), still)
    middle = (SIZE - 1) / 2
    y, x = np.mgrid[:SIZE, :SIZE] - middle
    assert not view[np.hypot(x, y) > 0.9 * middle + 1.5].any()
    assert view[np.hypot(x, y) < 0.5 * middle].any()


def test_a_new_window_never_shows_more_than_the_own_one() -> None:
    own = window_mask("octagon", SIZE, 1.0)
    for seed in range(30):
        chance = np.random.default_rng(seed)
        view = augment(a_image(), own, SIZE, chance, Augmentation(0, (1.0, 1.0), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1))
        corners = view[own == 0]
        # An image whose text was not blacked is also met: then all of it is shown.
        assert not corners.any() or np.array_equal(view, a_image())


@pytest.mark.parametrize("shape", SHAPES[2:])
def test_windows_are_symmetric_hold_the_centre_and_shrink_with_depth(shape: str) -> None:
    wide, narrow = (window_mask(shape, SIZE, depth) for depth in (0.0, 1.0))
    for mask in (wide, narrow):
        assert mask[SIZE // 2, SIZE // 2] == 1
        assert mask[0, 0] == 0
        assert np.array_equal(mask, mask[::-1])
        assert np.array_equal(mask, mask.T)
    assert narrow.sum() < wide.sum()
    assert not (narrow & ~wide).any()


def test_no_window_shows_everything_and_an_unknown_one_is_refused() -> None:
    assert window_mask("none", SIZE, 0.3).all()
    with pytest.raises(UsageError, match="octagon"):
        window_mask("hexagon", SIZE, 0.5)


def test_a_gain_changes_colours_by_that_factor() -> None:
    view = augment(a_image(), whole(), SIZE, np.random.default_rng(0), NONE, np.array([0.5, 1.0, 1.1]))
    assert np.allclose(view[..., 0], a_image()[..., 0] * 0.5, atol=1)
    assert np.array_equal(view[..., 1], a_image()[..., 1])


def test_a_negative_strength_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="blur"):
        Augmentation(blur=-0.1)


def test_a_pasted_patch_changes_one_place_only_and_takes_on_the_colour_around_it() -> None:
    grey = np.full((SIZE, SIZE, 3), 120, np.uint8)
    patch = np.full((24, 24, 3), (200, 100, 100), np.uint8)
    patch[9:15, 9:15] = (250, 20, 20)
    pasted = paste(grey, patch, np.random.default_rng(3))
    touched = (pasted != grey).any(axis=2)
    rows, columns = np.flatnonzero(touched.any(axis=1)), np.flatnonzero(touched.any(axis=0))
    assert 0 < touched.mean() < 0.4
    assert rows[-1] - rows[0] <= SIZE // 2
    assert columns[-1] - columns[0] <= SIZE // 2
    # The patch's margin was pale red; on grey mucosa it is grey, and only the spot in its middle is red.
    redness = pasted[..., 0].astype(int) - pasted[..., 1]
    assert redness.max() > 60
    assert np.median(np.abs(redness[touched])) < 30


def test_pasting_is_repeatable_and_leaves_the_image_given_alone() -> None:
    image = a_image()
    one, two = (paste(image, a_image(1)[:20, :30], np.random.default_rng(2)) for _ in range(2))
    assert np.array_equal(one, two)
    assert np.array_equal(image, a_image())

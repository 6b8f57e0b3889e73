"""An exam that looks unlike anything that was learnt from is called unfamiliar."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dice_ce.lab.training.familiar import fit_familiarity, usual_limit
from dice_ce.method.beyond.familiar import Familiarity


def features(count: int, seed: int, shift: float = 0.0) -> np.ndarray:
    """Features that vary along three directions of forty."""
    chance = np.random.default_rng(seed)
    directions = np.random.default_rng(0).normal(size=(3, 40))
    return (chance.normal(size=(count, 3)) @ directions + 0.1 * chance.normal(size=(count, 40)) + shift).astype(
        np.float32
    )


@pytest.fixture
def known() -> Familiarity:
    found = fit_familiarity(features(2000, 1))
    return replace(found, limit=usual_limit([found.distances(features(200, seed)) for seed in (2, 3, 4)]))


def test_what_looks_the_same_is_familiar(known: Familiarity) -> None:
    assert known.unfamiliar_share(features(1000, 5)) == pytest.approx(0.05, abs=0.03)
    assert known.distances(features(1000, 5)).mean() == pytest.approx(1, abs=0.1)


def test_what_lies_elsewhere_is_not(known: Familiarity) -> None:
    assert known.unfamiliar_share(features(1000, 5, shift=1.0)) > 0.95


def test_what_varies_in_another_way_is_not(known: Familiarity) -> None:
    noise = np.random.default_rng(9).normal(size=(500, 40)).astype(np.float32)
    assert known.unfamiliar_share(noise) > 0.95


def test_every_case_counts_alike_for_the_limit() -> None:
    """A thousand frames of an easy case do not hide ten of a hard one: half of all weight is theirs."""
    limit = usual_limit([np.full(1000, 1.0), np.linspace(2, 3, 10)])
    assert limit == pytest.approx(2.9, abs=0.12)


def test_no_frame_is_not_unfamiliar(known: Familiarity) -> None:
    assert known.unfamiliar_share(np.empty((0, 40), np.float32)) == 0.0


def test_it_survives_storing(known: Familiarity) -> None:
    arrays = {name: values.astype(np.float16) for name, values in known.arrays().items()}
    back = Familiarity.from_arrays(arrays)
    assert back is not None
    some = features(100, 7)
    np.testing.assert_allclose(back.distances(some), known.distances(some), rtol=2e-3)
    assert Familiarity.from_arrays({}) is None

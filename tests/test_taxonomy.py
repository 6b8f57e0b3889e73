import pytest

from dice_ce.errors import InputError
from dice_ce.taxonomy import ALIASES, VIDEOCAP_12, Taxonomy


def test_videocap_has_twelve_labels_the_last_of_which_is_normal() -> None:
    taxonomy = Taxonomy()
    assert len(taxonomy) == 12
    assert taxonomy.labels[taxonomy.normal] == "normal"


def test_aliases_lead_to_labels() -> None:
    assert set(ALIASES.values()) <= set(VIDEOCAP_12)
    taxonomy = Taxonomy()
    assert taxonomy.labels[taxonomy.index(" Bleeding ")] == "hematocele"
    assert taxonomy.labels[taxonomy.index("Angiectasia")] == "angioectasia"


def test_an_unknown_label_gets_a_suggestion() -> None:
    with pytest.raises(InputError, match="label 'ulcr' is not in the taxonomy 'videocap-12'; did you mean 'ulcer'"):
        Taxonomy().index("ulcr")


def test_taxonomies_without_normal_or_with_doubles_are_refused() -> None:
    with pytest.raises(InputError, match="'normal' is missing"):
        Taxonomy("x", ("a", "b"))
    with pytest.raises(InputError, match="twice"):
        Taxonomy("x", ("a", "a", "normal"))

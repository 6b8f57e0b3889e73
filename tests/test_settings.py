"""Settings are declared once, and everything else is derived from that."""

from dataclasses import dataclass, field
from typing import Literal

import pytest

from dice_ce.benchmark.methods import METHODS
from dice_ce.method.settings import Settings
from dice_ce.settings import (
    declarations,
    rules_in_use,
    search_space,
    setting,
    values_of,
    with_values,
    without_rules,
)


@dataclass(frozen=True)
class Inner:
    limit: int | None = setting(None, "most items", low=1, search=(None, 8))


@dataclass(frozen=True)
class Outer:
    share: float = setting(1.0, "share of frames", low=0, high=1, search=(1.0, 0.5), rule="Share", off=1.0)
    kind: Literal["plain", "fancy"] = setting("plain", "how")
    inner: Inner = field(default_factory=Inner)


def test_groups_nest_and_names_stay_flat() -> None:
    assert list(declarations(Outer)) == ["share", "kind", "limit"]
    assert values_of(Outer()) == {"share": 1.0, "kind": "plain", "limit": None}
    changed = with_values(Outer(), {"limit": 3, "kind": "fancy"})
    assert changed == Outer(kind="fancy", inner=Inner(3))
    assert search_space(Outer, {}) == {"share": (1.0, 0.5), "limit": (None, 8)}
    assert search_space(Outer, {"share": 1.0}) == {"limit": (None, 8)}


def test_what_does_nothing_is_not_searched() -> None:
    @dataclass(frozen=True)
    class Conditional:
        kind: Literal["plain", "fancy"] = setting("plain", "how")
        depth: int = setting(1, "how deep", search=(1, 2), only_with=("kind", "fancy"))

    assert search_space(Conditional, {}) == search_space(Conditional, {"kind": "fancy"}) == {"depth": (1, 2)}
    assert search_space(Conditional, {"kind": "plain"}) == {}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"shar": 0.5}, "there is no setting 'shar'; there are share, kind, limit"),
        ({"share": 1.5}, r"share: 1\.5 is not a number from 0 to 1"),
        ({"share": "0.5"}, "share: '0.5' is not a number"),
        ({"share": float("nan")}, "share: nan is not a number from 0 to 1"),
        ({"share": True}, "share: True is not a number"),
        ({"share": None}, "share: None is not a number"),
        ({"limit": 0}, "limit: 0 is not a whole number of at least 1, or none"),
        ({"limit": 2.5}, r"limit: 2\.5 is not a whole number"),
        ({"kind": "odd"}, "kind: 'odd' is not one of plain, fancy"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(values: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        with_values(Outer(), values)


def test_the_command_line_reads_what_the_declaration_allows() -> None:
    known = declarations(Outer)
    assert known["share"].option == "--share"
    assert known["share"].parse("0.25") == 0.25
    assert known["limit"].parse("8") == 8
    assert known["limit"].parse("none") is None
    for name, text in (("share", "2"), ("share", "x"), ("limit", "1.5"), ("kind", "odd")):
        with pytest.raises(ValueError, match=f"'{text}' is not "):
            known[name].parse(text)


def test_a_name_that_stands_twice_is_noticed() -> None:
    @dataclass(frozen=True)
    class Doubled:
        limit: int = setting(1, "")
        inner: Inner = field(default_factory=Inner)

    with pytest.raises(TypeError, match="the setting 'limit' is declared twice"):
        declarations(Doubled)


def test_rules_of_ours_can_be_switched_off_one_by_one_and_together() -> None:
    assert rules_in_use(Outer()) == {}
    used = Outer(share=0.5)
    assert rules_in_use(used) == {"Share": {"share": 1.0}}
    assert without_rules(used) == Outer()


@pytest.mark.parametrize("group", [Settings, *(group for method in METHODS.values() for group in method.groups)])
def test_every_declared_setting_is_sound(group: type) -> None:
    """Defaults, search values and switches are allowed values, and every setting says what it does."""
    for one in declarations(group).values():
        assert one.help
        for value in (one.default, *one.search, *((one.off,) if one.rule else ())):
            assert one.check(value) == value
    assert with_values(group(), values_of(group())) == group()


def test_the_settings_of_every_method_are_searched() -> None:
    """A registered method that has something to tune is tuned."""
    for method in METHODS.values():
        assert "tau_s" not in method.space, "calibrated for recall, and shared by all methods"
        assert set(method.fixed).isdisjoint(method.space)
        assert "candidate_share" in {**method.space, **method.fixed}

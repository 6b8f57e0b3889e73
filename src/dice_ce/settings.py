"""Settings: each is declared once, beside its algorithm, and everything else is derived from there.

    @dataclass(frozen=True)
    class ConvergerSettings:
        tau_min: float = setting(0.4, "confidence below which a context is dropped", low=0, high=1, search=(0.3, 0.5))

The command line, a bundle's profiles, the search space of `dice-ce tune`, the ablations "without ours", the provenance
and docs/reference/settings.md all come from these declarations. Groups nest, names are unique.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

Value = float | int | str | None
Group = TypeVar("Group")
"""A frozen dataclass of settings, or of such groups."""


@dataclass(frozen=True)
class Declaration:
    """Everything that is known about one setting."""

    name: str
    kind: type
    """float, int or str."""
    default: Any
    help: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    """The values of a Literal."""
    is_optional: bool = False
    """Whether it may be None."""
    search: tuple[Value, ...] = ()
    """Values that tuning tries; none if it is not tuned."""
    rule: str = ""
    """Name of the rule beyond the paper that it controls; empty for the paper's own settings."""
    off: Value = None
    """Value under which that rule does nothing, as in the paper."""
    only_with: tuple[str, Value] | None = None
    """Another setting and the value of it without which this one does nothing."""

    @property
    def option(self) -> str:
        """Its name on the command line."""
        return "--" + self.name.replace("_", "-")

    def parse(self, text: str) -> Value:
        """Read a value from the command line."""
        if self.is_optional and text.casefold() == "none":
            return None
        try:
            return self.check(self.kind(text))
        except ValueError as error:
            raise ValueError(f"'{text}' is not {self.expected}") from error

    def check(self, value: Any) -> Value:
        """Return the value in its own type; refuse what the algorithm cannot use."""
        if value is None and self.is_optional:
            return None
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        fits = isinstance(value, str) if self.kind is str else is_number and self.kind(value) == value
        if fits and self.choices:
            fits = value in self.choices
        if fits and self.kind is not str:
            fits = (self.low is None or value >= self.low) and (self.high is None or value <= self.high)
        if not fits:
            raise ValueError(f"{self.name}: {value!r} is not {self.expected}")
        return typing.cast(Value, self.kind(value))

    @property
    def expected(self) -> str:
        """What a value must be, for people."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        noun = "a whole number" if self.kind is int else "a number"
        if self.low is not None and self.high is not None:
            noun += f" from {self.low:g} to {self.high:g}"
        elif self.low is not None:
            noun += f" of at least {self.low:g}"
        return noun + (", or none" if self.is_optional else "")


def setting(
    default: Any,
    help: str,
    *,
    low: float | None = None,
    high: float | None = None,
    search: Sequence[Value] = (),
    rule: str = "",
    off: Value = None,
    only_with: tuple[str, Value] | None = None,
) -> Any:
    """Declare a field of a group of settings; `rule` names what is ours rather than the paper's, `off` undoes it."""
    facts = {"help": help, "low": low, "high": high, "search": tuple(search), "only_with": only_with}
    return dataclasses.field(default=default, metadata={**facts, "rule": rule, "off": off})


def declarations(group: type) -> dict[str, Declaration]:
    """List the settings of a group and of the groups in it, by name."""
    found: dict[str, Declaration] = {}
    hints = typing.get_type_hints(group)
    for field in dataclasses.fields(group):
        hint = hints[field.name]
        if dataclasses.is_dataclass(hint):
            inner = declarations(typing.cast(type, hint))
        else:
            inner = {field.name: _declaration(field, hint)}
        if doubled := found.keys() & inner.keys():
            raise TypeError(f"{group.__name__}: the setting '{doubled.pop()}' is declared twice")
        found |= inner
    return found


def _declaration(field: dataclasses.Field[Any], hint: Any) -> Declaration:
    kinds = [kind for kind in typing.get_args(hint) or (hint,) if kind is not type(None)]
    is_choice = typing.get_origin(hint) is typing.Literal
    return Declaration(
        field.name,
        str if is_choice else kinds[0],
        field.default,
        choices=tuple(kinds) if is_choice else (),
        is_optional=type(None) in typing.get_args(hint),
        **field.metadata,
    )


def values_of(settings: Any) -> dict[str, Value]:
    """Write settings as one flat table of names and values."""
    flat: dict[str, Value] = {}
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        flat |= values_of(value) if dataclasses.is_dataclass(value) else {field.name: value}
    return flat


def with_values(settings: Group, values: Mapping[str, Any]) -> Group:
    """Change some settings by name; refuse names that are not declared and values that cannot be used."""
    known = declarations(type(settings))
    for name in values:
        if name not in known:
            raise ValueError(f"there is no setting '{name}'; there are {', '.join(known)}")
    return _changed(settings, {name: known[name].check(value) for name, value in values.items()})


def _changed(settings: Group, values: Mapping[str, Value]) -> Group:
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(settings):  # type: ignore[arg-type]  # Group is a dataclass
        inner = getattr(settings, field.name)
        if dataclasses.is_dataclass(inner):
            changes[field.name] = _changed(inner, values)
        elif field.name in values:
            changes[field.name] = values[field.name]
    return dataclasses.replace(settings, **changes)  # type: ignore[type-var]


def search_space(group: type, fixed: Mapping[str, Value]) -> dict[str, tuple[Value, ...]]:
    """List what tuning may try: values by name, without what is fixed and what does nothing then."""
    return {
        name: one.search
        for name, one in declarations(group).items()
        if one.search and name not in fixed and not _is_idle(one, fixed)
    }


def _is_idle(one: Declaration, fixed: Mapping[str, Value]) -> bool:
    """Tell whether a fixed setting leaves this one without effect."""
    if one.only_with is None:
        return False
    name, value = one.only_with
    return name in fixed and fixed[name] != value


def rules_in_use(settings: Any) -> dict[str, dict[str, Value]]:
    """List the rules beyond the paper that these settings use, with the values that switch each off."""
    values = values_of(settings)
    found: dict[str, dict[str, Value]] = {}
    for name, one in declarations(type(settings)).items():
        if one.rule and values[name] != one.off:
            found.setdefault(one.rule, {})[name] = one.off
    return found


def without_rules(settings: Group) -> Group:
    """Switch off everything that is ours: what is left is the paper's method."""
    off = {name: value for rule in rules_in_use(settings).values() for name, value in rule.items()}
    return with_values(settings, off)

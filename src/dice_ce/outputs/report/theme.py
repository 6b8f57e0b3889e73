"""Colours that all pages share, for light ground and paper and for dark screens; the report and the reader alike."""

from __future__ import annotations

from dice_ce.taxonomy import NEUTRAL, PALETTE

SHADES = {
    "ground": ("#f5f6f7", "#0f1417"),
    "sheet": ("#ffffff", "#171d21"),
    "ink": ("#1a2228", "#e7ebee"),
    "soft": ("#52606a", "#a5b0b8"),
    "line": ("#d8dee2", "#303a41"),
    "faint": ("#e9edef", "#232b31"),
    "accent": ("#0b5a86", "#7dbce4"),
    "warn-ground": ("#fff4d6", "#2d2410"),
    "warn-line": ("#a86b00", "#d9a441"),
}
"""By their use: on light, on dark. Text in ink, soft and accent has WCAG AA contrast on ground, sheet and faint."""

SHAPES = (
    "M-6 0a6 6 0 1 0 12 0a6 6 0 1 0-12 0Z",
    "M-5.3-5.3H5.3V5.3H-5.3Z",
    "M0-7.2 7.2 0 0 7.2-7.2 0Z",
    "M0-6.6 7 5.6H-7Z",
)
"""Twelve colours are too many to tell apart by colour alone, so neighbours differ in shape as well."""


def theme_css() -> str:
    """Write all shades and label colours. The system decides between light and dark, unless `data-theme` does."""
    labels = [(f".c-{index}", *colours) for index, colours in enumerate(PALETTE)] + [(".c-normal", *NEUTRAL)]
    light = _rules(0, labels)
    dark = _rules(1, labels)
    by_system = _scoped(':root:not([data-theme="light"])', dark)
    by_choice = _scoped(':root[data-theme="dark"]', dark)
    return (
        ":root { color-scheme: light dark; }\n"
        ':root[data-theme="light"] { color-scheme: light; }\n'
        ':root[data-theme="dark"] { color-scheme: dark; }\n'
        f"{_scoped(':root', light)}"
        f"@media screen and (prefers-color-scheme: dark) {{\n{by_system}}}\n"
        f"@media screen {{\n{by_choice}}}\n"
    )


def _rules(side: int, labels: list[tuple[str, str, str]]) -> list[tuple[str, str]]:
    shades = " ".join(f"--{name}: {pair[side]};" for name, pair in SHADES.items())
    return [("", shades), *((name, f"--label: {(light, dark)[side]};") for name, light, dark in labels)]


def _scoped(root: str, rules: list[tuple[str, str]]) -> str:
    return "".join(f"{root}{' ' if name else ''}{name} {{ {content} }}\n" for name, content in rules)

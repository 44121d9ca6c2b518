"""The colours of the pages: enough contrast for all readers, in the light and in the dark."""

import re

import pytest

from evalwright.reports.design.markup import style_sheet

COLOUR = re.compile(r"--([a-z0-9-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)")
FOUND = COLOUR.findall(style_sheet())
THEMES = {
    "light": {name: light for name, light, _ in FOUND},
    "dark": {name: dark for name, _, dark in FOUND},
}
SURFACES = ("canvas", "surface", "sunken", "hover", "selected")
TONES = ("pass", "fail", "warn", "idle", "accent")
TEXT_PAIRS = [
    *((ink, ground) for ink in ("text", "text-2", "text-3") for ground in SURFACES),
    *((tone, ground) for tone in TONES for ground in ("canvas", "surface", f"{tone}-soft")),
    *(("text", f"{tone}-soft") for tone in TONES),
    *(("text", mark) for mark in ("added", "removed")),
]
SHAPE_PAIRS = [
    *((f"{tone}-solid", "canvas") for tone in TONES),
    ("control", "surface"),
]


def luminance(colour: str) -> float:
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    dark, light = sorted((luminance(a), luminance(b)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", THEMES)
def test_text_can_be_read_and_shapes_can_be_seen(theme: str) -> None:
    colours = THEMES[theme]
    faint = [
        (ink, ground, round(ratio, 2))
        for pairs, least in ((TEXT_PAIRS, 4.5), (SHAPE_PAIRS, 3.0))
        for ink, ground in pairs
        if (ratio := contrast(colours[ink], colours[ground])) < least
    ]
    assert faint == []


def test_readers_who_want_no_motion_get_none() -> None:
    reduced = style_sheet().partition("prefers-reduced-motion: reduce")[2]
    assert "--fast: 0ms; --calm: 0ms" in reduced

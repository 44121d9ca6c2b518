"""The colours of the pages: enough contrast for all readers, in the light and in the dark."""

import re

import pytest

from evalwright.reports.comparison.overview import ASSETS

CSS = ASSETS["report.css"].decode()
DARK = CSS.partition("@media (prefers-color-scheme: dark)")[2].partition("\n}\n")[0]
LIGHT = CSS.partition("@media (prefers-color-scheme: dark)")[0]
TEXT_PAIRS = [
    *((colour, ground) for colour in ("text", "muted", "link") for ground in ("bg", "surface")),
    *(
        (tone, ground)
        for tone in ("good", "bad", "warn", "info", "plain")
        for ground in ("bg", "surface")
    ),
    *(
        (tone, f"{tone}-bg")
        for tone in ("good", "bad", "warn", "info", "plain", "critical", "mark")
    ),
]
SHAPE_PAIRS = [(shape, "bg") for shape in ("bar-old", "bar-new", "focus")]


def palette(css: str) -> dict[str, str]:
    return dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", css))


def luminance(colour: str) -> float:
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    dark, light = sorted((luminance(a), luminance(b)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("css", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("pair", TEXT_PAIRS, ids="-on-".join)
def test_text_can_be_read(css, pair):
    colours = palette(css)
    assert contrast(colours[pair[0]], colours[pair[1]]) >= 4.5


@pytest.mark.parametrize("css", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("pair", SHAPE_PAIRS, ids="-on-".join)
def test_shapes_can_be_seen(css, pair):
    colours = palette(css)
    assert contrast(colours[pair[0]], colours[pair[1]]) >= 3


def test_both_schemes_define_the_same_colours():
    assert palette(LIGHT).keys() == palette(DARK).keys()


def test_readers_who_want_no_motion_get_none():
    assert "scroll-behavior: smooth" in CSS.partition("prefers-reduced-motion: no-preference")[2]
    assert "animation" not in CSS
    assert "transition" not in CSS

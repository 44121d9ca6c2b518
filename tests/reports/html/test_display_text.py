"""Text from outside is visible, bounded, and links only inside the folder."""

from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalwright.reports.design.markup import marked
from evalwright.reports.formats.text import clipped, display_text, relative_href, shown

HIDDEN = ["\u202e", "\u200b", "\u2066", "\ufeff", "\u2028", "\x00", "\x1b", "\x7f", "\U000e0041"]


@pytest.mark.parametrize("char", HIDDEN, ids=lambda char: f"U+{ord(char):04X}")
def test_a_hidden_character_is_written_out(char):
    text = display_text(f"a{char}b")
    assert char not in text
    assert text.startswith("a")
    assert text.endswith("b")
    assert len(text) >= 3


def test_of_all_characters_those_are_written_out_that_a_pattern_names():
    every = "".join(map(chr, range(0x110000)))
    shown = [char for char in every if display_text(char) == char]
    assert display_text("".join(shown)) == "".join(shown)
    assert all(char.isprintable() or not char.isascii() or char in "\t\n" for char in shown)


def test_newlines_and_tabs_stay_as_they_are():
    assert display_text("a\n\tb") == "a\n\tb"


def test_letters_of_any_script_and_plain_emoji_stay_as_they_are():
    assert display_text("naïve 日本語 عربى 🎉\n") == "naïve 日本語 عربى 🎉\n"


@given(st.text(st.characters()))
def test_whatever_the_text_it_can_be_written_as_utf_8(text):
    assert display_text(text).encode("utf-8") is not None


@given(st.text(st.characters()))
def test_no_markup_survives_as_markup(text):
    html = str(marked(text, "mark"))
    assert "<" not in html
    assert ">" not in html
    assert unescape(html) == display_text(text)


def test_half_a_surrogate_pair_is_named_instead_of_breaking_the_page():
    assert display_text("a\ud800b") == "a⟦U+D800⟧b"


def test_nothing_null_and_empty_can_be_told_apart():
    assert (shown(None), shown(""), shown("null"), shown(False)) == ("null", '""', "null", "false")


def test_a_value_nested_too_deeply_for_json_is_said_to_hold_nothing_to_show():
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert shown(deep) == "(nothing that can be written as text)"


def test_a_clipped_text_says_how_much_of_it_is_shown():
    assert clipped("x" * 50, 10) == "xxxxxxxxxx… (shortened, 10 of 50 characters)"


@pytest.mark.parametrize(
    "href",
    [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        " javascript:alert(1)",
        "java\nscript:alert(1)",
        "data:text/html,x",
        "https://example.com/",
        "//example.com/",
        "\\\\example.com\\x",
        "/etc/passwd",
        "../secret.json",
        "baseline/../../x",
        "baseline\\..\\x",
        "C:/x",
        "",
    ],
)
def test_a_link_that_leaves_the_folder_is_no_link(href):
    assert relative_href(href) == ""


@pytest.mark.parametrize("href", ["baseline/a.json", "case-a~2f..b.html", "assets/x.txt"])
def test_a_link_inside_the_folder_stays(href):
    assert relative_href(href) == href

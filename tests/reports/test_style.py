"""Colour, where it is wanted and nowhere else."""

import io

import pytest

from evalwright.reports.formats.console import Style


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def an_ordinary_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)


def test_a_terminal_gets_colour():
    assert Style.of(Terminal()).red("x") == "\x1b[31mx\x1b[0m"


def test_a_pipe_or_a_file_gets_none():
    assert Style.of(io.StringIO()).red("x") == "x"


@pytest.mark.parametrize("value", ["1", "0", "true"])
def test_no_color_is_respected_whatever_it_says(monkeypatch, value):
    monkeypatch.setenv("NO_COLOR", value)
    assert Style.of(Terminal()).red("x") == "x"


def test_an_empty_no_color_is_as_good_as_none(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "")
    assert Style.of(Terminal()).colour


def test_a_dumb_terminal_gets_none(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    assert Style.of(Terminal()).red("x") == "x"


@pytest.mark.parametrize(("name", "code"), [("bold", 1), ("dim", 2), ("red", 31), ("green", 32)])
def test_plain_style_leaves_text_alone_and_colour_ends_what_it_began(name, code):
    assert getattr(Style(colour=False), name)("x") == "x"
    assert getattr(Style(colour=True), name)("x") == f"\x1b[{code}mx\x1b[0m"

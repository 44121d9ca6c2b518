"""How far a long work is: a line that is renewed on a terminal, elsewhere a line now and then."""

import io

import pytest

from evalwright.cli import output
from evalwright.cli.output import RENEWED_AFTER, TOLD_AFTER, Streams, WorkProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the time is; a test moves it on."""
    now = [100.0]
    monkeypatch.setattr(output.time, "monotonic", lambda: now[0])
    monkeypatch.setenv("TERM", "xterm")
    return now


def worked(stream: io.StringIO, clock: list[float], step: float, *, is_shown: bool = True) -> str:
    """What is written of three cases of four, one each so many seconds."""
    before = Streams.err
    Streams.err = stream
    try:
        progress = WorkProgress("cases", is_shown=is_shown)
        progress(0, 4)
        for done in (1, 2, 3):
            clock[0] += step
            progress(done, 4)
        progress.end()
    finally:
        Streams.err = before
    return stream.getvalue()


def test_a_terminal_has_one_line_that_goes_when_the_work_is_done(clock: list[float]) -> None:
    drawn = worked(Terminal(), clock, RENEWED_AFTER)
    assert "\n" not in drawn
    assert "\r2 of 4 cases  1 s left\x1b[K" in drawn
    assert drawn.endswith("\r\x1b[K")


def test_elsewhere_there_is_a_line_every_so_often(clock: list[float]) -> None:
    assert worked(io.StringIO(), clock, TOLD_AFTER).splitlines() == [
        "1 of 4 cases  30 s left",
        "2 of 4 cases  20 s left",
        "3 of 4 cases  10 s left",
    ]


def test_what_is_quick_or_not_to_be_shown_is_silent(clock: list[float]) -> None:
    assert worked(Terminal(), clock, RENEWED_AFTER / 4) == ""
    assert worked(Terminal(), clock, TOLD_AFTER, is_shown=False) == ""

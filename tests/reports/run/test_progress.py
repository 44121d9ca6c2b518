"""Progress: tasks done and failed, cost, time to go."""

import io
import re
from threading import Event

import pytest

from builders import a_score, a_usage, an_event
from evalwright.reports.formats.console import Style, width
from evalwright.reports.run import progress
from evalwright.reports.run.progress import (
    MOST_LINES,
    PlainProgress,
    Progress,
    progress_for,
)


class Watch:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def watch(monkeypatch):
    watch = Watch()
    monkeypatch.setattr(progress, "time", watch)
    return watch


def scored(task_id: str, score: float = 1.0, latency_ms: int | None = None):
    return an_event(a_score(task_id, score, latency_ms=latency_ms))


def spent(cost_usd: float | None):
    return an_event(a_usage(cost_usd))


# Where a run stands.


def test_before_the_first_score_only_the_count_is_told(watch):
    assert Progress(total=10).line() == "◐ 0 of 10  ··········"


def test_each_task_is_a_shape_and_failures_come_first(watch):
    counted = Progress(total=4)
    counted.add([scored("a"), scored("b", 0.0), scored("c")])
    assert counted.line() == "◐ 3 of 4  ■○○·  1 failed  0 s left"


def test_the_cost_is_told_as_soon_as_a_price_is_known(watch):
    counted = Progress(total=1)
    counted.add([spent(None)])
    assert "$" not in counted.line()
    counted.add([spent(0.1)] * 3)
    assert "$0.3" in counted.line()


def test_the_time_to_go_follows_from_the_pace(watch):
    counted = Progress(total=10)
    assert "left" not in counted.line()
    watch.now += 20
    counted.add([scored(f"t{n}") for n in range(4)])
    assert counted.line().endswith("  30 s left")


def test_a_resumed_run_takes_its_pace_from_what_is_new(watch):
    counted = Progress(total=100, done=80, passed=40)
    assert counted.line() == f"◐ 80 of 100  {'■' * 9}{'○' * 10}{'·' * 5}  40 failed"
    watch.now += 10
    counted.add([scored("a"), scored("b")])
    assert counted.line().endswith("  1:30 min left")


def test_when_all_is_done_no_time_is_left(watch):
    counted = Progress(total=1)
    watch.now += 5
    counted.add([scored("a")])
    assert counted.line() == "◐ 1 of 1  ○"


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0.4, "0 s"), (59.4, "59 s"), (59.6, "1:00 min"), (61, "1:01 min"), (3599, "59:59 min"),
     (3600, "1:00 h"), (7260, "2:01 h")],
)  # fmt: skip
def test_the_time_to_go_is_told_as_people_say_it(watch, seconds, told):
    counted = Progress(total=2)
    watch.now += seconds
    counted.add([scored("a")])
    assert counted.line().endswith(f"  {told} left")


# How it is shown.


def test_a_quiet_run_shows_nothing():
    stream = Terminal()
    with progress_for(stream, 1, quiet=True) as shown:
        shown.add([scored("a")])
    assert stream.getvalue() == ""


def test_a_pipe_gets_a_plain_line_every_ten_tasks():
    stream = io.StringIO()
    with progress_for(stream, 25, quiet=False) as shown:
        assert isinstance(shown, PlainProgress)
        for number in range(25):
            shown.add([scored(f"t{number}")])
    assert [line[:10] for line in stream.getvalue().splitlines()] == ["◐ 10 of 25", "◐ 20 of 25"]
    assert "\x1b" not in stream.getvalue()


def test_the_lines_of_a_large_run_are_few():
    stream = io.StringIO()
    with progress_for(stream, 100_000, quiet=False) as shown:
        for _ in range(1000):
            shown.add([scored("a")] * 100)
    assert len(stream.getvalue().splitlines()) == MOST_LINES - 1


@pytest.mark.parametrize("no_color", ["", "1"])
def test_a_terminal_gets_one_line_that_is_renewed_and_goes(monkeypatch, no_color):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", no_color)
    written = Event()

    class Watched(Terminal):
        def write(self, text: str) -> int:
            if "1 of 2" in text:
                written.set()
            return super().write(text)

    stream = Watched()
    with progress_for(stream, 2, quiet=False) as shown:
        shown.add([scored("one", 0.0), spent(0.5)])
        assert written.wait(60)
    plain = re.sub(r"\x1b\[[?0-9;]*[a-zA-Z]", "", stream.getvalue())
    assert "◐ 1 of 2  ■·  1 failed  $0.5" in plain
    assert "\n" not in stream.getvalue()
    assert stream.getvalue().endswith("\x1b[K\x1b[?25h")
    assert bool(re.search(r"\x1b\[[0-9;]*3[0-9]", stream.getvalue())) is (no_color == "")


def test_judged_prompts_are_counted_with_their_errors(watch):
    counted = Progress(3, noun="evaluations")
    counted.count(passed=True, cost_usd=0.5)
    watch.now += 5
    counted.count(passed=False, is_error=True)
    assert counted.line() == "◐ 2 of 3 evaluations  ▲○·  1 error  $0.50  2 s left"


def test_the_line_of_a_narrow_terminal_is_not_too_long_to_be_renewed() -> None:
    counted = Progress(1200, 1100, 600, 12.5, "evaluations")
    counted.count(passed=False, is_error=True)
    wide, narrow = (counted.line(Style(colour=False, width=columns)) for columns in (80, 60))
    assert width(narrow) < 60
    assert "◐ 1,101 of 1,200 evaluations" in narrow
    assert narrow.endswith("left")
    assert "■" in wide

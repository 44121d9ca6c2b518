"""Progress: tasks done, share passed, cost, time to go."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import a_score, a_usage, an_event
from evalwright.contracts.amounts import span
from evalwright.reports.run import progress
from evalwright.reports.run.progress import (
    LINE_EVERY_SECONDS,
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
    assert Progress(total=10).line() == "0/10 tasks"


def test_the_pass_rate_is_of_the_tasks_that_are_done(watch):
    counted = Progress(total=4)
    counted.add([scored("a"), scored("b", 0.0), scored("c")])
    assert "3/4 tasks · 66.7% passed" in counted.line()


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
    assert counted.line().endswith("about 30 s left")


def test_a_resumed_run_takes_its_pace_from_what_is_new(watch):
    counted = Progress(total=100, done=80, passed=40)
    assert counted.line() == "80/100 tasks · 50.0% passed"
    watch.now += 10
    counted.add([scored("a"), scored("b")])
    assert counted.line().endswith("about 1:30 min left")


def test_when_all_is_done_no_time_is_left(watch):
    counted = Progress(total=1)
    watch.now += 5
    counted.add([scored("a")])
    assert counted.line() == "1/1 tasks · 100.0% passed"


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0.4, "0 s"), (59.4, "59 s"), (59.6, "1:00 min"), (61, "1:01 min"), (3599, "59:59 min"),
     (3600, "1:00 h"), (7260, "2:01 h")],
)  # fmt: skip
def test_the_time_to_go_is_told_as_people_say_it(watch, seconds, told):
    counted = Progress(total=2)
    watch.now += seconds
    counted.add([scored("a")])
    assert counted.line().endswith(f"about {told} left")


def test_the_three_slowest_tasks_are_told_slowest_first(watch):
    counted = Progress(total=9)
    latencies = {"a": 30, "b": 900, "c": 5, "d": 400, "e": None, "f": 31}
    counted.add([scored(task, latency_ms=latency) for task, latency in latencies.items()])
    assert counted.slowest_line() == "b 900 ms, d 400 ms, f 31 ms"


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=20))
def test_the_slowest_are_the_slowest_in_whatever_order_they_came(latencies):
    counted = Progress(total=len(latencies))
    counted.add([scored(f"t{n}", latency_ms=ms) for n, ms in enumerate(latencies)])
    told = re.findall(r"t\d+ ([^,]+(?:,\d{3} ms)?)", counted.slowest_line())
    assert told == [span(ms) for ms in sorted(latencies, reverse=True)[:3]]


# How it is shown.


def test_a_quiet_run_shows_nothing():
    stream = Terminal()
    with progress_for(stream, 1, quiet=True) as shown:
        shown.add([scored("a")])
    assert stream.getvalue() == ""


def test_a_pipe_gets_a_plain_line_now_and_then_and_one_at_the_end(watch):
    stream = io.StringIO()
    with progress_for(stream, 3, quiet=False) as shown:
        assert isinstance(shown, PlainProgress)
        shown.add([scored("a")])
        assert stream.getvalue() == ""
        watch.now += LINE_EVERY_SECONDS
        shown.add([scored("b")])
        assert stream.getvalue().startswith("2/3 tasks · 100.0% passed")
        shown.add([scored("c", 0.0)])
    assert stream.getvalue().splitlines()[1:] == ["3/3 tasks · 66.7% passed"]
    assert "\x1b" not in stream.getvalue()


@pytest.mark.parametrize("no_color", ["", "1"])
def test_a_terminal_gets_a_display_with_all_of_it(monkeypatch, no_color):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("COLUMNS", "120")
    stream = Terminal()
    with progress_for(stream, 2, quiet=False) as shown:
        shown.add([scored("slow-one", latency_ms=900), spent(0.5)])
    text = stream.getvalue()
    assert "1/2 tasks · 100.0% passed · $0.5" in text
    assert "slowest: slow-one 900 ms" in text
    assert bool(re.search(r"\x1b\[[0-9;]*3[0-9]", text)) is (no_color == "")


def test_judged_prompts_are_counted_with_their_errors_and_end_without_a_line(watch):
    stream = io.StringIO()
    with progress_for(stream, 3, quiet=False, noun="evaluations", ends=False) as shown:
        shown.count(passed=True, cost_usd=0.5)
        assert stream.getvalue() == ""
        watch.now += LINE_EVERY_SECONDS
        shown.count(passed=False, is_error=True)

    written = "2/3 evaluations · 50.0% passed · 1 error · $0.50 · about 2 s left\n"
    assert stream.getvalue() == written

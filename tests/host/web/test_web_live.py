"""A run that has not ended: its progress, what can be done with it, the stream of its states."""

import http.client
import re
from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
import pytest

from builders import EPOCH_US, a_score, a_suite, a_task, a_usage, an_event, opening
from evalwright.contracts import amounts
from evalwright.contracts.errors import RunNotFound
from evalwright.contracts.events import (
    EvalScored,
    InvocationCompleted,
    InvocationStarted,
    Payload,
    RunPaused,
    RunResumed,
)
from evalwright.host.runs.handle import RunHandle
from evalwright.host.web.page import left_words, time_left_html
from evalwright.host.web.pages import run as run_page
from evalwright.host.web.progress import LEAST_SCORES, ProgressCache, RunProgress
from evalwright.reports.run.task_list import RunFrame
from host.caller import Caller
from host.server import GATED, ServedHost
from host.web.recorded import a_tenant, entries_of, write
from host.web.visitor import Visitor, signed_in
from reports.run.page_samples import Told, bad, ok
from subjects.waiting import Journal, eventually

WAITING = a_suite([a_task("quick", input="yes"), a_task("slow", input="wait")], pass_score=0.1)


class Damaged(Payload, frozen=True):
    """The end of an invocation, without anything that one has."""

    TYPE: ClassVar[str] = InvocationCompleted.TYPE


@pytest.fixture
def watcher(served: ServedHost) -> Visitor:
    return signed_in(served.url, served.key())


def frames(visitor: Visitor, path: str, most: int) -> list[str]:
    """The first frames of a stream, each as one text; fewer if the stream ends."""
    connection = http.client.HTTPConnection(*visitor.address, timeout=240)
    cookies = "; ".join(f"{name}={value}" for name, value in visitor.cookies.items())
    connection.request("GET", path, headers={"Cookie": cookies})
    response = connection.getresponse()
    assert response.headers["Content-Type"].startswith("text/event-stream")
    found, lines = [], []
    for raw in response:
        line = raw.decode().rstrip("\n")
        if line:
            lines.append(line)
        elif lines:
            found.append("\n".join(lines))
            lines = []
            if len(found) == most:
                break
    response.close()
    connection.close()
    return found


def test_a_page_shows_how_far_a_run_is_and_links_to_each_task(
    watcher: Visitor, caller: Caller, gate: Journal
):
    run_id = caller.start(WAITING, GATED)
    gate.wait_for(2)
    told = ("1 of 2 tasks", 'aria-label="wait: running"')

    def page() -> str | None:
        text = watcher.get(f"/runs/{run_id}").text
        return text if all(each in text for each in told) else None

    text = eventually(page)
    assert re.search(r'data-verdict="running".*?<h1[^>]*>Running', text, re.DOTALL)
    assert f'href="/runs/{run_id}/tasks/quick" title="yes: passed" aria-label="yes: passed"' in text
    assert (
        f'href="/runs/{run_id}/tasks/slow" title="wait: running" aria-label="wait: running"' in text
    )
    assert f'hx-sse:connect="/runs/{run_id}/live"' in text


def test_the_stream_sends_each_state_and_the_end(
    watcher: Visitor, caller: Caller, gate: Journal, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(run_page, "PAUSE_SECONDS", 0.01)
    run_id = caller.start(WAITING, GATED)
    gate.wait_for(2)
    (first,) = frames(watcher, f"/runs/{run_id}/live", 1)
    assert re.match(r"id: \d+\ndata: <div", first)
    assert "tasks are scored" in first
    gate.open_gate()
    caller.finish(run_id)
    *states, end = frames(watcher, f"/runs/{run_id}/live", 9)
    assert 'aria-label="wait: passed"' in states[-1]
    assert end == "event: run-over\ndata: run-over"


def test_a_stream_ends_after_a_while_so_that_its_session_is_looked_at(
    watcher: Visitor, caller: Caller, gate: Journal, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(run_page, "STREAM_SECONDS", 0.05)
    monkeypatch.setattr(run_page, "LOOK_SECONDS", 0.05)
    run_id = caller.start(WAITING, GATED)
    gate.wait_for(2)
    sent = frames(watcher, f"/runs/{run_id}/live", 99)
    assert not any(each.startswith("event: run-over") for each in sent)


def test_a_run_is_paused_resumed_and_cancelled(watcher: Visitor, caller: Caller, gate: Journal):
    run_id = caller.start(WAITING, GATED)
    gate.wait_for(2)
    watcher.get(f"/runs/{run_id}")
    assert watcher.post(f"/runs/{run_id}/pause").location == f"/runs/{run_id}"
    text = watcher.get(f"/runs/{run_id}").text
    assert re.search(r'data-verdict="running".*?<h1[^>]*>Paused', text, re.DOTALL)
    assert f'action="/runs/{run_id}/resume"' in text
    assert f'action="/runs/{run_id}/pause"' not in text
    assert watcher.post(f"/runs/{run_id}/resume").status == 303
    assert caller.snapshot(run_id)["status"] == "running"
    assert watcher.post(f"/runs/{run_id}/cancel").status == 303
    assert caller.snapshot(run_id)["status"] == "cancelled"
    text = watcher.get(f"/runs/{run_id}").text
    assert re.search(r'data-verdict="none".*?<h1[^>]*>Cancelled', text, re.DOTALL)
    assert f'action="/runs/{run_id}/cancel"' not in text
    answer = watcher.post(f"/runs/{run_id}/cancel")
    assert answer.status == 409
    assert "the run is cancelled" in answer.text


def a_frame(tasks: Sequence[str], **settings: Any) -> RunFrame:
    suite = {"suiteId": "acme.suite", "version": "1.0.0", "modes": ["golden"]}
    plan = {
        "suite": {**suite, "tasks": [{"taskId": each} for each in tasks]},
        "agent": {"agentId": "acme.agent", "ref": "agents:acme"},
        "settings": settings,
    }
    return msgspec.json.decode(msgspec.json.encode(plan), type=RunFrame)


def test_progress_is_a_fold_that_goes_on_where_it_was():
    progress = RunProgress(a_frame(["a", "b", "c"], maxCostUsd=2.0))
    started = InvocationStarted("inv-0001", "acme.agent", "run-api")
    progress.add([an_event(started, sequence=3, task_id="a")])
    assert progress.counts["running"] == 1
    progress.add(
        [
            an_event(a_usage(0.5), sequence=4, task_id="a"),
            an_event(a_usage(), sequence=5, task_id="a"),
            an_event(a_score("a", 1.0, passed=True, latency_ms=7), sequence=6, task_id="a"),
            an_event(a_score("b", 0.0, passed=False, latency_ms=9), sequence=7, task_id="b"),
        ]
    )
    assert (progress.scored, progress.last) == (2, 7)
    assert progress.counts == {"waiting": 1, "running": 0, "passed": 1, "failed": 1, "error": 0}
    assert (progress.spent_usd, progress.unpriced, progress.budget_usd) == (0.5, 1, 2.0)
    assert progress.latest_failures == ["b"]
    assert [each.task_id for each in progress.slowest] == ["b", "a"]


def test_a_damaged_event_does_not_hide_the_progress_of_the_other_tasks(lasting: ServedHost):
    tenant = a_tenant(lasting)
    entries = entries_of({"a": Told("x", ok()), "b": Told("y", ok())}, is_open=True)
    damaged = next(n for n, (_, each) in enumerate(entries) if each.TYPE == Damaged.TYPE)
    entries[damaged] = entries[damaged][0], Damaged()
    run = f"open-{tenant.name}"
    write(tenant.log, run, entries, 1)
    answer = tenant.visitor.get(f"/runs/{run}")
    assert answer.status == 200
    assert "0 of 2 tasks are scored" in answer.text


def test_what_failed_so_far_stands_there_with_expected_and_answer(lasting: ServedHost):
    tenant, run = a_tenant(lasting), "failing"
    refused = {"error": {"code": "agent_error", "message": "no way in"}}
    told = {
        "a": Told("It is shipped.", bad(), tags=["orders"]),
        "b": Told(refused, outcome="failed", tags=["refunds"]),
        "c": Told("It is shipped.", ok(), tags=["orders"]),
        "d": Told("It is shipped.", ok(), tags=["refunds"]),
    }
    entries = entries_of(told, is_open=True)
    scores = [
        (name, EvalScored(name, 0.0, name == "c", None, 1500)) for name in told if name != "d"
    ]
    write(tenant.log, f"{run}-{tenant.name}", [*entries, *scores], 1)
    page = tenant.visitor.get(f"/runs/{run}-{tenant.name}").text
    text = " ".join(re.sub(r"<[^>]+>", " ", page.partition("<main")[2]).split())
    assert "Running: 3 of 4 2 failed so far; the bar is out of reach." in text
    assert "orders 2 of 2" in text
    assert "refunds 1 of 2" in text
    latest = text[text.index("Latest failures") :]
    assert "b Answer agent_error: no way in" in latest
    assert "a Expected It is lost . Answer It is shipped ." in latest
    assert "1.5 s" in latest


def a_progress(tasks: int) -> RunProgress:
    progress = RunProgress(a_frame([f"t{n}" for n in range(tasks)]))
    started = InvocationStarted("inv-0001", "acme.agent", "run-api")
    progress.add([an_event(started, "t0", at_us=EPOCH_US)])
    return progress


def score(progress: RunProgress, number: int, second: float) -> None:
    at_us = EPOCH_US + int(second * 1_000_000)
    progress.add([an_event(a_score(f"t{number}", 1.0), f"t{number}", at_us=at_us)])


def test_the_time_that_is_left_follows_from_the_pace_so_far():
    progress = a_progress(10)
    for number in range(LEAST_SCORES):
        assert progress.ends_us is None, "too early to tell"
        score(progress, number, 2.0 * (number + 1))
    assert progress.ends_us == EPOCH_US + 20_000_000, "ten tasks, two seconds each"
    for number in range(LEAST_SCORES, 10):
        score(progress, number, 2.0 * (number + 1))
    assert progress.ends_us is None, "nothing is left"


def test_a_pause_does_not_count_as_time_that_tasks_take():
    progress = a_progress(10)
    for number in range(LEAST_SCORES):
        score(progress, number, number + 1.0)
    progress.add([an_event(RunPaused(), at_us=EPOCH_US + 10_000_000)])
    assert progress.ends_us is None
    hour = 3600.0
    progress.add([an_event(RunResumed(), at_us=EPOCH_US + int(hour * 1_000_000))])
    for number in range(LEAST_SCORES, 2 * LEAST_SCORES):
        score(progress, number, hour + number - LEAST_SCORES + 1.0)
    left = 10 - 2 * LEAST_SCORES
    assert progress.ends_us == EPOCH_US + int((hour + LEAST_SCORES + left) * 1_000_000)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "less than 1 min"),
        (59, "less than 1 min"),
        (61, "about 2 min"),
        (3599, "about 1 h 0 min"),
        (7250, "about 2 h 1 min"),
    ],
)
def test_the_time_that_is_left_is_told_in_words_and_counted_down(seconds: float, words: str):
    assert left_words(seconds) == words
    shown = time_left_html(EPOCH_US, EPOCH_US / 1_000_000 - seconds)
    assert shown.endswith(f" data-left>{words}</time>")


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (0, "0 ms"),
        (9_999, "10 s"),
        (59_940, "59.9 s"),
        (59_999, "1 min 0 s"),
        (60_000, "1 min 0 s"),
        (3_599_400, "59 min 59 s"),
        (3_599_600, "1 h 0 min"),
        (360_000_000, "100 h 0 min"),
    ],
)
def test_what_took_long_is_told_in_minutes_and_hours(ms: float, words: str):
    assert amounts.span(ms) == words


def test_a_page_tells_the_time_that_is_left(lasting: ServedHost):
    tenant = a_tenant(lasting)
    tasks = {f"t{n}": Told("x", ok()) for n in range(60)}
    entries = entries_of(tasks)
    last = max(place for place, (task_id, _) in enumerate(entries) if task_id == "t59")
    run = f"going-{tenant.name}"
    write(tenant.log, run, entries[:last], 1)
    text = tenant.visitor.get(f"/runs/{run}").text
    assert "59 of 60 tasks are scored" in text
    assert re.search(r"<time [^>]* data-left>less than 1 min</time> left", text)


def test_the_progress_of_a_run_is_kept_for_its_tenant_alone(lasting: ServedHost):
    first, second = a_tenant(lasting), a_tenant(lasting)
    for tenant, count in ((first, 2), (second, 5)):
        write(tenant.log, f"run-{tenant.name}", opening(a_suite(count)), 1)
    kept = ProgressCache()
    with kept.going_on(RunHandle(first.log, first.name, f"run-{first.name}")) as progress:
        assert progress is not None
        assert len(progress.tasks) == 2
    theirs = RunHandle(second.log, second.name, f"run-{first.name}")
    with pytest.raises(RunNotFound), kept.going_on(theirs):
        pass

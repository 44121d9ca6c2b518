"""A run: what it is, how far it is, and what can be done with it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack
from typing import Any, NamedTuple

from starlette.responses import Response

from evalwright.contracts import amounts
from evalwright.contracts.errors import DamagedEventLog
from evalwright.contracts.events import RunFailure
from evalwright.contracts.short_names import suite_name
from evalwright.engine.runs import may_be_held
from evalwright.engine.task_names import NO_NAMES, TaskNames
from evalwright.host.runs.handle import ENDED
from evalwright.host.streams.feed import Subscriber
from evalwright.host.v1.events import KEEPALIVE_SECONDS, EventStream, following
from evalwright.host.web.page import PageCall, page, part, render, run_address, see
from evalwright.host.web.pages import scorecard
from evalwright.host.web.pages.runs import is_left, is_of_host, state_of, verdict_of
from evalwright.host.web.progress import MOST_CELLS, RunProgress, TaskProgress
from evalwright.host.web.run_views import views_of
from evalwright.reports.formats.html import Html, as_markup
from evalwright.store.protocol import RunFacts

READY_SECONDS = 0.06  # that a page waits for the progress of a run; a long log comes later
LOOK_SECONDS = 1.0  # after which the log is looked at: another process may execute the run
PAUSE_SECONDS = 0.3  # between two states of a page
STREAM_SECONDS = 60.0  # after which the browser connects again, and its session is looked at
READING = ("info", "\N{HORIZONTAL ELLIPSIS} Reading its gates")

# The signs and words for the states of tasks.
SIGNS = {
    "waiting": ("plain", "·", "waiting"),
    "running": ("info", "●", "running"),
    "passed": ("good", "✓", "passed"),
    "failed": ("bad", "✗", "failed"),
    "error": ("bad", "!", "error"),
}


async def show(call: PageCall) -> Response:
    """The page of a run: its progress while it goes on, its scorecard once it has ended."""
    if call.is_part:
        return await scorecard.tasks(call)
    head = await call.in_reader(lambda: _head(call, waits=call.is_patient))
    card = await scorecard.card(call) if head["is_over"] and head["is_evaluation"] else None
    live = None if head["is_over"] else await _live_soon(call)
    return page(
        call,
        "run.html",
        title=f"{suite_name(head['suite'])} · {head['verdict']}",
        live=as_markup(live) if live is not None else None,
        **head,
        **(card or {"loading": "", "bars": None}),
    )


async def _live_soon(call: PageCall) -> Html:
    """The live part, unless it takes long: then it comes with the stream."""
    panel = asyncio.ensure_future(_panel(call))
    done, _ = await asyncio.wait((panel,), timeout=READY_SECONDS)
    return panel.result().panel if done else NOT_READY


NOT_READY = Html('<p class="muted" role="status">Loading the progress of this run…</p>')


async def verdict(call: PageCall) -> Response:
    """What a run has come to, its gates read as well."""
    return part(call, "verdict.html", **await call.in_reader(lambda: _head(call, waits=True)))


def _has_much_to_read(call: PageCall, run: RunFacts) -> bool:
    """Whether the gates of a run are known only once all its tasks are read, and those are many."""
    is_known = not may_be_held(run) or call.host.figures.knows(run)
    return not is_known and run.events > scorecard.LARGE


def _head(call: PageCall, *, waits: bool) -> dict[str, Any]:
    run_id = call.path["runId"]
    run = call.log.facts(run_id)
    status = state_of(call, run)
    is_reading = not waits and _has_much_to_read(call, run)
    told = None if is_reading else call.host.figures.of(call.log, run)
    tone, verdict = READING if is_reading else verdict_of(run, status, told)
    has_failed = run.score is None or run.score < 1
    return {
        "run_id": run_id,
        "is_evaluation": run.suite is not None,
        "suite": run.suite or run.workflow,
        "agent": call.host.figures.agent_of(call.log, run),
        "tags": run.tags,
        "modes": ", ".join(run.modes),
        "tone": tone,
        "verdict": verdict,
        "is_reading": is_reading,
        "is_over": status in ENDED,
        "started_us": run.started_us,
        "took": _took(run),
        "reason": _reason(call, run),
        "is_left": status == "interrupted",
        "held": told.held if told else (),
        "can": _offered(call, run, status, has_failed=has_failed),
    }


def _took(run: RunFacts) -> str:
    if run.ended_us is None:
        return ""
    return amounts.span((run.ended_us - run.started_us) / 1000)


def _reason(call: PageCall, run: RunFacts) -> str:
    """Why a run has no result."""
    if run.status != "failed":
        return ""
    error = call.log.edges(run.run_id)[-1].decode(RunFailure).error
    return f"{error.message} ({error.code})"


def _offered(call: PageCall, run: RunFacts, status: str, *, has_failed: bool) -> dict[str, bool]:
    """What can be done with a run: what its state and the visitor's scopes allow.

    A run of the command line is its process's own: nothing here can stop it or start it again.
    """
    is_ours = run.suite is not None and is_of_host(call, run.run_id)
    may_stop, may_start = call.may("runs:cancel"), call.may("runs:create")
    return {
        "cancel": is_ours and may_stop and status not in (*ENDED, "cancelling"),
        "pause": is_ours and may_stop and status == "running",
        "resume": is_ours and may_stop and status == "paused",
        "again": is_ours and may_start and status in ENDED and has_failed,
    }


# The live part.


async def live(call: PageCall) -> Response:
    """The progress of a run as server-sent events: each is the whole panel as it stands."""
    run = call.run
    await run.read_edges()
    with ExitStack() as held:
        subscriber = held.enter_context(following(call, run))
        return EventStream(call, LiveRun(call), held.pop_all(), subscriber)


class LiveState(NamedTuple):
    """The live part of a page at one time."""

    panel: Html
    last: int  # the event that it goes up to
    is_over: bool  # the run has ended
    is_behind: bool  # there are further events already
    is_left: bool = False  # nobody executes it


class LiveRun:
    """The states of a run that a page is sent, until the run ends."""

    def __init__(self, call: PageCall) -> None:
        self._call = call

    async def chunks(self, subscriber: Subscriber) -> AsyncIterator[bytes]:
        """A frame for each state; empty ones let the stream notice that its client has left."""
        clock, feed = asyncio.get_running_loop().time, self._call.host.feed
        began, sent_at, shown, was_left = clock(), clock(), -2, None
        while not feed.is_stopped and subscriber.ended is None:
            state = await _panel(self._call)
            if state.last != shown:
                shown, sent_at = state.last, clock()
                yield frame(state.last, state.panel)
            if state.is_over or was_left not in (None, state.is_left):
                yield b"event: run-over\ndata: run-over\n\n"
                return
            was_left = state.is_left
            if clock() - began > STREAM_SECONDS:
                return
            is_quiet = clock() - sent_at > KEEPALIVE_SECONDS
            yield b":keepalive\n\n" if is_quiet else b""
            if not state.is_behind:
                await asyncio.sleep(PAUSE_SECONDS)
                await subscriber.wait(LOOK_SECONDS)
                subscriber.take_events()


def frame(number: int, content: str) -> bytes:
    """A server-sent event without a name, which htmx swaps in."""
    lines = "".join(f"data: {line}\n" for line in content.splitlines())
    return f"id: {max(number, 0)}\n{lines}\n".encode()


async def _panel(call: PageCall) -> LiveState:
    try:
        names = await views_of(call.host).names(call.run)
    except DamagedEventLog:  # nothing is planned yet
        names = NO_NAMES
    return await call.in_reader(lambda: _drawn(call, names))


def _drawn(call: PageCall, names: TaskNames) -> LiveState:
    run_id = call.path["runId"]
    with call.host.progress.going_on(call.run) as progress:
        if progress is None:
            return LiveState(NOT_READY, -1, is_over=False, is_behind=False)
        is_over = progress.is_over
        left = not (is_over or progress.is_paused) and is_left(call, run_id)
        panel = render(call, "live.html", **_panel_values(run_id, progress, names, is_left=left))
        return LiveState(panel, progress.last, is_over, progress.is_behind, left)


def _panel_values(
    run_id: str, progress: RunProgress, names: TaskNames, *, is_left: bool
) -> dict[str, Any]:
    tasks = len(progress.tasks)
    cells = progress.tasks.values() if tasks <= MOST_CELLS else _few(progress)
    return {
        "run_id": run_id,
        "tasks": tasks,
        "scored": progress.scored,
        "tenth": 10 * (10 * progress.scored // tasks) if tasks else 0,
        "counts": progress.counts,
        "cells": [(names.name_of(each.task_id), *_sign(each, is_left=is_left)) for each in cells],
        "is_left": is_left,
        "is_part": tasks > MOST_CELLS,
        "is_behind": progress.is_behind,
        "is_paused": progress.is_paused,
        "ends_us": None if progress.is_behind else progress.ends_us,
        "spent": progress.spent_usd,
        "unpriced": progress.unpriced,
        "budget": progress.budget_usd,
        "failures": [_called(names, each) for each in progress.latest_failures],
        "slowest": [
            (*_called(names, each.task_id), amounts.span(each.latency_ms))
            for each in progress.slowest
            if each.latency_ms
        ],
    }


def _called(names: TaskNames, task_id: str) -> tuple[str, str]:
    found = names.of(task_id)
    return found.name, found.beside


def _sign(task: TaskProgress, *, is_left: bool) -> tuple[str, str, str]:
    return SIGNS["waiting" if is_left and task.state == "running" else task.state]


def _few(progress: RunProgress) -> list[TaskProgress]:
    """Of many tasks those that are running, and those that did not pass."""
    wanted = ("running", "failed", "error")
    return [each for each in progress.tasks.values() if each.state in wanted][:MOST_CELLS]


# What can be done.


async def cancel(call: PageCall) -> Response:
    """Cancel a run."""
    await call.host.orders.cancel(call.run, None, call.principal.principal)
    return _back(call)


async def pause(call: PageCall) -> Response:
    """Let running tasks end, and start no others."""
    await call.host.orders.pause(call.run, None)
    return _back(call)


async def resume(call: PageCall) -> Response:
    """Go on with a paused run."""
    await call.host.orders.resume(call.run, None)
    return _back(call)


def _back(call: PageCall) -> Response:
    return see(run_address(call.path["runId"]))

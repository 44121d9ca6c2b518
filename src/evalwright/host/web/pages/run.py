"""A run: what it is, how far it is, and what can be done with it."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from starlette.responses import Response

from evalwright.contracts import amounts
from evalwright.contracts.errors import DamagedEventLog
from evalwright.contracts.events import RunFailure
from evalwright.contracts.short_names import suite_name
from evalwright.engine.runs import may_be_held
from evalwright.engine.task_names import TaskNames
from evalwright.host.runs.handle import ENDED
from evalwright.host.streams.feed import Subscriber
from evalwright.host.v1.events import KEEPALIVE_SECONDS, EventStream, following
from evalwright.host.web.page import (
    SMALL,
    PageCall,
    page,
    part,
    render,
    run_address,
    see,
    suite_address,
)
from evalwright.host.web.pages.run_sections import LARGE
from evalwright.host.web.pages.run_tasks import TasksAsked, listed, read_drawer, read_records
from evalwright.host.web.pages.runs import (
    is_of_host,
    matrix_address,
    may_repeat,
    run_row,
    state_of,
    verdict_of,
)
from evalwright.host.web.progress import MOST_CELLS, MOST_CELLS_OF_MANY, RunProgress
from evalwright.host.web.run_figures import RunFigures, baselines_of, provenance_of, suite_id
from evalwright.host.web.run_views import RunView, views_of
from evalwright.reports.design.markup import as_markup
from evalwright.reports.run.bars import RunBar, rate_bar, verdict_told
from evalwright.reports.run.task_details import CELL, KINDS, status_of, versus_of
from evalwright.reports.run.task_list import TaskList, TaskRow
from evalwright.scoring.regression import change_against_baseline
from evalwright.scoring.statistics import wilson
from evalwright.store.protocol import RunFacts, RunFilter

READY_SECONDS = 0.06  # that a page waits for the progress of a run; a long log comes later
LOOK_SECONDS = 1.0  # after which the log is looked at: another process may execute the run
PAUSE_SECONDS = 0.3  # between two states of a page
STREAM_SECONDS = 60.0  # after which the browser connects again, and its session is looked at
NO_TASKS = TaskList([], [])
MOST_TOLD = 4  # of the latest failures
MOST_BESIDE = 20  # runs of the same suite, whose agents and models a matrix may have
STATES = {
    "failed": ("unsure", "Could not be evaluated"),
    "cancelled": ("none", "Cancelled"),
    "paused": ("running", "Paused"),
    "waiting-approval": ("running", "Waiting for approval"),
    "cancelling": ("running", "Cancelling"),
    "interrupted": ("unsure", "Interrupted"),
}

# The cells and words for the states of tasks.
CELLS = {
    "waiting": ("x", "waiting"),
    "running": ("r", "running"),
    "passed": ("p", "passed"),
    "failed": ("f", "failed"),
    "error": ("w", "error"),
}


async def show(call: PageCall) -> Response:
    """The page of a run: its progress while it goes on, its tasks once it has ended."""
    views, asked = views_of(call.host), TasksAsked.of(call)
    if call.is_part:
        found = await listed(call, views, await views.of(call.run), asked)
        return part(call, "run_tasks.html", list=found)
    head = await call.in_reader(lambda: _head(call, waits=call.is_patient))
    facts: RunFacts = head.pop("run")
    values: dict[str, Any] = {"live": None, "loading": "", "list": None, "drawer": None}
    if not head["is_over"]:
        values["live"] = as_markup(await _live_soon(call, head))
    elif head["is_evaluation"]:
        if facts.events > LARGE and not views.knows(call.run) and not call.is_patient:
            values["loading"] = asked.address(facts.run_id, page=asked.page, task=asked.task)
            head["follows"] = True
            view = await views.for_task(call.run, asked.task) if asked.task else None
        else:
            view = await views.of(call.run, facts)
            values["list"] = await listed(call, views, view, asked)
            head |= await _told(call, view, head)
        if asked.task and view is not None:
            values["drawer"] = await call.in_reader(
                lambda: read_drawer(call, view, view.task(asked.task))
            )
    return page(
        call, "run.html", title=f"{head['heading']} · {head['suite_title']}", run=head, **values
    )


async def _told(call: PageCall, view: RunView, head: dict[str, Any]) -> dict[str, Any]:
    """The bars of a run as gauges, and the sentence that says why it passed or not."""
    passed, words = head["verdict"] == "pass", head["let_through"]

    def read() -> dict[str, Any]:
        against = ""
        if view.frame.baseline is not None and view.tasks.totals is not None:
            baseline = view.frame.baseline.read()
            ended = [{row.task_id: row.passed is True for row in view.tasks.rows}]
            sentence = change_against_baseline(ended, baseline, view.names.name_of).sentence
            name = baseline.name or "the baseline"
            against = f"Against {name}, {sentence[0].lower()}{sentence[1:]}"
        return verdict_told(view.frame, view.tasks, passed=passed, words=words, against=against)

    async def make() -> tuple[int, dict[str, Any], bool]:
        return 1, await call.in_reader(read), view.has_ended

    key = view.run.partition, view.run.run_id, passed, words
    return await views_of(call.host).verdicts.get(key, make)


async def _live_soon(call: PageCall, head: dict[str, Any]) -> str:
    """The live part, unless it takes long: then it comes with the stream."""
    panel = asyncio.ensure_future(_panel(call))
    done, _ = await asyncio.wait((panel,), timeout=READY_SECONDS)
    if done:
        return panel.result().panel
    return render(call, "live_loading.html", kind=head["verdict"], heading=head["heading"])


async def verdict(call: PageCall) -> Response:
    """What a run has come to, its gates and bars read as well."""
    head = await call.in_reader(lambda: _head(call, waits=True))
    if head["is_evaluation"] and head["is_over"]:
        view = await views_of(call.host).of(call.run)
        head |= await _told(call, view, head)
    return part(call, "run_verdict.html", run=head)


def _head(call: PageCall, *, waits: bool) -> dict[str, Any]:
    run_id, figures = call.path["runId"], call.host.figures
    run = call.log.facts(run_id)
    status = state_of(call, run)
    # The gates of some runs are known only once all their tasks are read.
    is_known = not may_be_held(run) or figures.knows(run)
    is_reading = not waits and not is_known and run.events > LARGE
    found = None if is_reading else figures.of(call.log, run)
    kind, heading = ("open", "Reading its gates…") if is_reading else _verdict(run, status, found)
    suite, is_evaluation = run.suite or run.workflow, run.suite is not None
    baseline = found.baseline if found else ""
    baseline = baseline or baselines_of(call.log).get((suite_id(run), run.agent or ""), "")
    baseline = "" if baseline == run_id else baseline
    pair = {"baseline": baseline, "new": run_id} if baseline else {"new": run_id}
    facts = [("agent", figures.agent_of(call.log, run), "")]
    facts += [("", tag, "") for tag in run.tags]
    started = found.provenance if found is not None else provenance_of(call.log, run_id)
    if started.branch:
        facts.append(("branch", started.branch, (started.commit or "")[:7]))
    if run.ended_us is not None:
        facts.append(("clock", amounts.span((run.ended_us - run.started_us) / 1000), ""))
    notes = []
    if run.status == "failed":
        error = call.log.edges(run.run_id)[-1].decode(RunFailure).error
        notes.append(_note(f"{error.message} ({error.code})"))
    if status == "interrupted":
        text = "Nobody executes this run any more. To go on with it:"
        notes.append(_note(text, is_failure=False, is_to_resume=True))
    if found and found.held:
        notes.append(_note(f"It met its bars, but fails a gate: {'; '.join(found.held)}."))
    return {
        "run": run,
        "run_id": run_id,
        "name": f"Run {run.number}",
        "called": started.title or "",
        "is_evaluation": is_evaluation,
        "is_over": status in ENDED,
        "suite_title": suite_name(suite),
        "suite_address": suite_address(suite.partition("@")[0]),
        "facts": facts,
        "started_us": run.started_us,
        "compare": f"/compare?{urlencode(pair)}" if is_evaluation else "",
        "compare_words": "Compare with the baseline" if baseline else "Compare",
        "matrix": _beside(call, run) if run.suite and run.ended_us else None,
        "review": f"/review?run={quote(run_id)}" if is_evaluation else "",
        "to_review": 0,
        "actions": _actions(call, run, status),
        "is_reading": is_reading,
        "follows": False,  # the verdict with its bars, when the tasks are read
        "verdict": kind,
        "heading": heading,
        "why": "",
        "let_through": found.words if found else "",  # the failed tasks, within which bars
        "gauges": None,
        "notes": notes,
    }


def _beside(call: PageCall, run: RunFacts) -> dict[str, str] | None:
    """The matrix of a run and what else ran its suite: other models, other agents, its repeats."""
    others = call.log.find_runs(RunFilter(suite=run.suite, status="completed"), MOST_BESIDE)
    rows = [
        run_row(call, each, {})
        for each in (run, *others)
        if each.events <= SMALL or call.host.figures.knows(each)
    ]
    if rows and run.repeats:
        rows[0]["repeats"] = [row for row in rows[1:] if row["group"] == run.repeats]
    return matrix_address(rows)


def _note(text: str, *, is_failure: bool = True, is_to_resume: bool = False) -> dict[str, Any]:
    tone, kind = ("fail", "fail") if is_failure else ("warn", "error")
    return {"tone": tone, "kind": kind, "text": text, "is_to_resume": is_to_resume}


def _verdict(run: RunFacts, status: str, figures: RunFigures | None) -> tuple[str, str]:
    """The verdict on a run: its kind, and its heading."""
    if status == "completed" and run.passed is None:
        return "none", "Completed"
    if status == "completed":
        tone, _ = verdict_of(run, status, figures)
        return ("pass", "May ship") if tone == "good" else ("fail", "Do not ship")
    return STATES.get(status, ("running", "Running"))


ACTIONS = (  # name, words, icon, question
    ("pause", "Pause", "pause", ""),
    ("resume", "Resume", "play", ""),
    ("cancel", "Stop", "stop", "Cancel this run? Tasks that are running are lost."),
    ("again", "Run the failed ones again", "again", ""),
)


def _actions(call: PageCall, run: RunFacts, status: str) -> list[dict[str, Any]]:
    """What can be done with a run: what its state and the visitor's scopes allow.

    A run of the command line is its process's own: nothing here can stop it or start it again.
    """
    is_ours = run.suite is not None and is_of_host(call, run.run_id)
    may_stop, has_ended = is_ours and call.may("runs:cancel"), status in ENDED
    has_failed = run.score is None or run.score < 1
    can = {
        "cancel": may_stop and not has_ended and status != "cancelling",
        "pause": may_stop and status == "running",
        "resume": may_stop and status == "paused",
        "again": has_failed and may_repeat(call, run),
    }
    return [
        {
            "address": f"{run_address(run.run_id)}/{name}",
            "words": words,
            "icon": icon,
            "ask": ask,
            "danger": name == "cancel",
        }
        for name, words, icon, ask in ACTIONS
        if can[name]
    ]


# The live part.


async def live(call: PageCall) -> Response:
    """The progress of a run as server-sent events: each is the whole panel as it stands."""
    await call.run.read_edges()
    with ExitStack() as held:
        subscriber = held.enter_context(following(call, call.run))
        return EventStream(call, LiveRun(call), held.pop_all(), subscriber)


class LiveState(NamedTuple):
    """The live part of a page at one time."""

    panel: str
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
                subscriber.pop_events()


def frame(number: int, content: str) -> bytes:
    """A server-sent event without a name, which htmx swaps in."""
    lines = "".join(f"data: {line}\n" for line in content.splitlines())
    return f"id: {max(number, 0)}\n{lines}\n".encode()


async def _panel(call: PageCall) -> LiveState:
    views = views_of(call.host)
    try:
        frame = await views.frame(call.run)
    except DamagedEventLog:  # nothing is planned yet
        frame = None
    run_id = call.path["runId"]

    def draw() -> LiveState:
        run = call.log.facts(run_id)
        kind, heading = STATES.get(state_of(call, run), ("running", "Running"))
        with call.host.progress.going_on(call.run) as progress:
            if progress is None or frame is None:
                panel = render(call, "live_loading.html", kind=kind, heading=heading)
                return LiveState(panel, -1, is_over=False, is_behind=False)
            is_over, left = progress.is_over, heading == STATES["interrupted"][1]
            view = RunView(call.run, run, frame, NO_TASKS)
            values = _panel_values(view, progress, is_left=left)
            values["heading"] = f"{heading}: {progress.scored:,} of {len(progress.tasks):,}"
            panel = render(call, "live.html", kind=kind, is_local=call.is_local, **values)
            return LiveState(panel, progress.last, is_over, progress.is_behind, left)

    return await call.in_reader(draw)


def _panel_values(view: RunView, progress: RunProgress, *, is_left: bool) -> dict[str, Any]:
    names, count, tasks = view.names, len(progress.tasks), list(progress.tasks.values())
    if count > MOST_CELLS:  # those that are running, and those that did not pass
        wanted = ("running", "failed", "error")
        tasks = [each for each in tasks if each.state in wanted][:MOST_CELLS_OF_MANY]
    groups: dict[str, list[tuple[str, str, str, str]]] = {}
    for task in tasks:
        is_waiting = is_left and task.state == "running"
        called, tag = names.of(task.task_id), progress.tags.get(task.task_id, "")
        sign = CELLS["waiting" if is_waiting else task.state]
        groups.setdefault(tag, []).append((called.name, called.subtitle or called.name, *sign))
    longest = max((each.latency_ms or 0 for each in progress.slowest), default=0)
    limit = view.frame.suite.thresholds.max_p95_latency_ms or 0
    scale = max(longest, limit) or 1
    return {
        "run_id": view.run.run_id,
        "tasks": count,
        "scored": progress.scored,
        "tenth": 10 * (10 * progress.scored // count) if count else 0,
        "counts": progress.counts,
        "share": {
            "passed": progress.counts["passed"] / max(1, count),
            "failed": (progress.counts["failed"] + progress.counts["error"]) / max(1, count),
            "words": f"{progress.scored:,} of {count:,} tasks",
        },
        "why": _so_far(view, progress),
        "gauges": list(_gauges_so_far(view, progress)),
        "groups": [
            (tag, sum(kind in "pfw" for _, _, kind, _ in cells), cells)
            for tag, cells in groups.items()
        ],
        "is_left": is_left,
        "is_part": count > MOST_CELLS,
        "is_behind": progress.is_behind,
        "is_paused": progress.is_paused,
        "ends_us": None if progress.is_behind else progress.ends_us,
        "unpriced": progress.unpriced,
        "spent": progress.spent_usd,
        "failures": _failures(view, progress),
        "slowest": [
            (*_called(names, each.task_id), each.latency_ms / scale, amounts.span(each.latency_ms))
            for each in progress.slowest
            if each.latency_ms
        ],
        "limit": limit / scale if limit else None,
        "limit_words": amounts.span(limit) if limit else "",
    }


def _so_far(view: RunView, progress: RunProgress) -> str:
    """What has failed, and how much more the bar bears."""
    count, failed = len(progress.tasks), progress.counts["failed"] + progress.counts["error"]
    told = f"{failed:,} failed so far" if failed else "Nothing has failed so far"
    bar = rate_bar(view.frame.suite.thresholds)
    if bar is None or not progress.scored:
        return f"{told}."
    room = int(count * (1 - bar) + 1e-9) - failed
    more = "" if room < 0 else f" with {room + 1:,} more" if failed else f" with {room + 1:,}"
    return f"{told}; the bar is out of reach{more}."


def _gauges_so_far(view: RunView, progress: RunProgress) -> Iterator[dict[str, Any]]:
    passed, scored = progress.counts["passed"], progress.scored
    if scored:
        bar = rate_bar(view.frame.suite.thresholds)
        aim = "" if bar is None else f"bar {100 * bar:.12g}%"
        rate, interval = amounts.percent(passed, scored), wilson(passed, scored)
        share = passed / scored
        yield RunBar("Pass rate so far", rate, aim, "", None, share, bar, interval).gauge
    spent, budget = progress.spent_usd, progress.budget_usd
    if budget:
        aim, most = f"of {amounts.dollars(budget)}", max(spent, budget)
        figure = amounts.dollars(spent)
        yield RunBar("Spent", figure, aim, "", None, spent / most, budget / most).gauge


def _failures(view: RunView, progress: RunProgress) -> list[dict[str, Any]]:
    """The latest failures with expected and answer, which are read once."""
    latest = progress.latest_failures[:MOST_TOLD]
    told = {each: progress.told[each] for each in latest if each in progress.told}
    missing = [each for each in latest if each not in told]
    of_them = view._replace(tasks=TaskList([TaskRow(each) for each in missing], []))
    for task_id, record in read_records(of_them, missing).items():
        name, title = _called(view.names, task_id)
        expected, answer = versus_of(record, CELL)
        told[task_id] = {
            "name": name,
            "title": title or name,
            "kind": KINDS[status_of(record)],
            "expected": expected,
            "answer": answer,
            **dict.fromkeys(("input", "baseline"), ""),
        }
    progress.told = {each: told[each] for each in latest if each in told}
    return list(progress.told.values())


def _called(names: TaskNames, task_id: str) -> tuple[str, str]:
    found = names.of(task_id)
    return found.name, found.subtitle


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

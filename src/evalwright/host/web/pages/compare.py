"""Comparing runs: what got worse first, with how sure that is, its cause, the gate and signals.

What the lists of tasks tell comes at once. Causes, gates and signals come from the same process
that writes the portable report; they follow when it is done, and are kept.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from evalwright.contracts.errors import EvalwrightError
from evalwright.host.http.errors import ApiError
from evalwright.host.library.comparisons import FACTS, PROGRESS, SECONDS, compare_for
from evalwright.host.v1.compare import Download
from evalwright.host.web.page import (
    PageCall,
    forget,
    in_time,
    page,
    part,
    see,
)
from evalwright.host.web.pages.compare_pair import (
    CompareAsked,
    ComparedPair,
    DeepComparison,
    case_told,
    pair_told,
    waiting_told,
)
from evalwright.host.web.pages.repeated_runs import read_repeats
from evalwright.host.web.pages.runs import run_title
from evalwright.host.web.recent_runs import refuse_slow
from evalwright.host.web.run_views import RunView, RunViews, views_of
from evalwright.reports.comparison.machine import ComparisonFacts
from evalwright.reports.run.paired_runs import (
    ComparedSide,
    PairedRuns,
    pair_runs,
)
from evalwright.store.protocol import RunFacts, RunFilter

AT_MOST_S = 2.5  # that a page waits for causes, gates and signals; then they follow
FEW_EVENTS = 2000  # of both runs, up to which it waits so long
SOON_S = 0.01  # that it waits for those of larger runs
UNAVAILABLE = 503
UNKNOWN = "Causes, gates and signals are not known"
ELSEWHERE = "On the command line nothing limits it, where the log is:"
NOT_ENDED = "Causes, gates and signals are told of runs that have ended."
OFFERED = 30  # runs to compare with
LOOKED_AT = 500  # runs, for those of the same suite


async def show(call: PageCall) -> Response:
    """The page, or a group of its tasks."""
    asked, views = CompareAsked.of(call), views_of(call.host)
    if len(asked.runs) < 2:
        return await _choose(call, asked)
    facts = [await views.facts(call.run_with(run_id)) for run_id in asked.runs]
    if call.asked("oldest_first"):
        facts.sort(key=lambda each: each.started_us)
        return see(asked._replace(runs=[each.run_id for each in facts]).address())
    if len(facts) > 2:
        return see(f"/matrix?{urlencode([('run', run) for run in asked.runs])}")
    found = await in_time(call, _read_pair(call, views, facts, asked))
    if call.is_part:
        template = "compare_changes.html" if call.asked("page") else "compare_pair.html"
        return part(call, template, **(found or {}))
    if found is None:
        waiting = await call.in_reader(partial(waiting_told, call, facts))
        found = {"waiting_for": waiting, "soon": f"{call.address}&soon=1"}
    return page(call, "compare.html", title="Compare runs", **found)


async def _read_pair(
    call: PageCall, views: RunViews, facts: Sequence[RunFacts], asked: CompareAsked
) -> dict[str, Any]:
    runs = await _opened(call, views, facts)
    is_soon = call.asked("soon") or (call.weight > FEW_EVENTS and not call.is_patient)
    wait_s = SOON_S if is_soon else None if call.is_patient else AT_MOST_S
    compared = await _compared(call, views, runs, wait_s)
    return await call.in_reader(partial(pair_told, compared, asked))


async def _opened(call: PageCall, views: RunViews, facts: Sequence[RunFacts]) -> list[RunView]:
    refuse_slow(call, views, facts)
    return [await views.of(call.run_with(each.run_id)) for each in facts]


async def download(call: PageCall) -> Response:
    """The portable report of two runs, as an archive."""
    asked = CompareAsked.of(call)
    if len(asked.runs) != 2:
        raise ApiError(400, "validation_error", "a report is about two runs")
    baseline, new = asked.runs
    async with AsyncExitStack() as held:
        archive = await compare_for(call, baseline, new, held)
        return Download(archive, held.pop_all())
    raise AssertionError("a report is either refused or returned")


async def progress(call: PageCall) -> Response:
    """How far the search for causes, gates and signals is; empty if nobody is at it."""
    asked = CompareAsked.of(call)
    runs = [call.run_with(run_id) for run_id in asked.runs]
    file = None
    if len(runs) == 2:
        key = runs[1].partition, runs[0].run_id, runs[1].run_id
        file = views_of(call.host).compared_so_far.get(key)
    told = await asyncio.to_thread(_so_far, file) if file else None
    return part(call, "compare_progress.html", told=told, most_s=f"{SECONDS:g}")


def _so_far(file: Path) -> tuple[int, int] | None:
    try:
        done, total = map(int, file.read_text().split())
    except (OSError, ValueError):  # it has only just begun, or has just ended
        return None
    return done, total


async def case(call: PageCall) -> Response:
    """One task in both runs: the answers word by word, beside what was expected."""
    asked, views = CompareAsked.of(call), views_of(call.host)
    if len(asked.runs) != 2:
        raise ApiError(400, "validation_error", "a task is compared in two runs")
    sides = [await views.of(call.run_with(run_id)) for run_id in asked.runs]
    told = await call.in_reader(partial(case_told, sides, call.asked("task")))
    return part(call, "compare_case.html", **told)


async def _compared(
    call: PageCall, views: RunViews, runs: Sequence[RunView], wait_s: float | None
) -> ComparedPair:
    """Two runs; the deep comparison only as far as there is time for it."""
    repeats = (
        await read_repeats(call, views, runs[0]),
        await read_repeats(call, views, runs[1]),
    )
    pair = await views.pairs.get(_key(runs), partial(_paired, call, runs))
    await call.in_reader(lambda: pair.report)
    held = await call.in_reader(partial(_held, call, runs))
    problem = "" if all(view.has_ended for view in runs) else NOT_ENDED
    if problem:
        return ComparedPair(pair, repeats, None, problem, held)
    making = asyncio.ensure_future(_deep(call, views, runs))
    done, _ = await asyncio.wait([making], timeout=wait_s)
    if not done:
        making.add_done_callback(forget)
        return ComparedPair(pair, repeats, None, "", held)
    try:
        return ComparedPair(pair, repeats, await making, "", held)
    except ApiError as error:
        command = " ".join(["evalwright compare", *(each.run.run_id for each in runs)])
        more = f"{ELSEWHERE} {command}" if error.status == UNAVAILABLE else ""
        problem = f"{UNKNOWN}: {error.message}. {more}".strip()
    except EvalwrightError:
        problem = "Causes, gates and signals could not be found out; the host's log says why."
    return ComparedPair(pair, repeats, None, problem, held)


def _held(call: PageCall, runs: Sequence[RunView]) -> Sequence[str]:
    """Why the new run fails its gates, if it was run against this baseline."""
    before, after = runs
    baseline = after.frame.baseline
    if baseline is None or baseline.run_id != before.run.run_id:
        return ()
    told = call.host.figures.of(call.log, after.facts)
    return () if told is None else told.held


def _key(runs: Sequence[RunView]) -> tuple[str, str, str]:
    return runs[1].run.partition, runs[0].run.run_id, runs[1].run.run_id


async def _paired(call: PageCall, runs: Sequence[RunView]) -> tuple[int, PairedRuns, bool]:
    def pair() -> PairedRuns:
        return pair_runs(runs[0].run.log, _side(runs[0]), _side(runs[1])).worked_out()

    made = await call.in_reader(pair)
    return len(made.tasks), made, all(view.has_ended for view in runs)


async def _deep(call: PageCall, views: RunViews, runs: Sequence[RunView]) -> DeepComparison:
    before, after = runs[0].run, runs[1].run
    key = _key(runs)

    def begun(folder: Path) -> None:
        views.compared_so_far[key] = folder / PROGRESS

    async def make() -> tuple[int, DeepComparison, bool]:
        async with AsyncExitStack() as held:
            held.callback(views.compared_so_far.pop, key, None)
            facts = await compare_for(call, before.run_id, after.run_id, held, FACTS, begun)
            made = await asyncio.to_thread(_read_deep, facts)
            return 1 + len(made.rows), made, True
        raise AssertionError("a comparison is either refused or made")

    return await views.comparisons.get(key, make)


def _read_deep(file: Path) -> DeepComparison:
    facts = msgspec.json.decode(file.read_bytes(), type=ComparisonFacts)
    rows = {row.case_id: row for row in facts.rows}
    return DeepComparison(facts.summary, rows, frozenset(facts.flaky))


def _side(view: RunView) -> ComparedSide:
    facts = view.facts
    return ComparedSide(
        facts.run_id, facts.started_us, facts.status, view.frame, view.tasks, facts.number
    )


# No runs yet.


async def _choose(call: PageCall, asked: CompareAsked) -> Response:
    """The form to choose runs; with one of them known, those of the same suite."""
    known = asked.runs[0] if asked.runs else ""

    def read() -> list[RunFacts]:
        runs = call.log.find_runs(RunFilter(is_evaluation=True), LOOKED_AT)
        if not known:
            return runs[:OFFERED]
        ours = call.log.facts(known)
        others = [run for run in runs if run.run_id != known and _suite(run) == _suite(ours)]
        return [ours, *others[: OFFERED - 1]]

    rows = [
        {
            "run_id": run.run_id,
            "suite": run.suite,
            "agent": call.host.figures.agent_of(call.log, run),
            "score": run.score,
            "title": run_title(run),
            "started_us": run.started_us,
        }
        for run in await call.in_reader(read)
    ]
    return page(call, "compare_choose.html", title="Compare runs", known=known, rows=rows)


def _suite(run: RunFacts) -> str:
    """The id of a run's suite, whatever its version."""
    return (run.suite or "").partition("@")[0]

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

import msgspec
from starlette.responses import Response

from evalwright.contracts import amounts
from evalwright.contracts.errors import EvalwrightError
from evalwright.engine.task_names import TaskName
from evalwright.host.http.errors import ApiError
from evalwright.host.library.comparisons import FACTS, PROGRESS, SECONDS, compare_for
from evalwright.host.v1.compare import report_download
from evalwright.host.web.page import (
    PageCall,
    forget,
    href_html,
    in_time,
    page,
    part,
    run_address,
    see,
)
from evalwright.host.web.pages.compare_pair import (
    AT_ONCE,
    CompareAsked,
    ComparedPair,
    DeepComparison,
    address_in,
    bounds_told,
    case_html,
    pair_told,
    waiting_told,
)
from evalwright.host.web.pages.repeats import dots_html, read_repeats
from evalwright.host.web.recent_runs import refuse_slow
from evalwright.host.web.run_views import RunView, RunViews, views_of
from evalwright.reports.comparison.machine import ComparisonFacts
from evalwright.reports.formats import figures
from evalwright.reports.formats.html import (
    NO_HTML,
    Html,
    as_markup,
    name_html,
    text_html,
)
from evalwright.reports.formats.words import CHANGES, badge_html
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
    template = "compare_pair.html" if len(facts) == 2 else "compare_several.html"
    read = _read_pair if len(facts) == 2 else _read_several
    found = await in_time(call, read(call, views, facts, asked))
    if call.is_part:
        template = "compare_group.html" if call.asked("group") else template
        return part(call, template, **(found or {}))
    if found is None:
        waiting = await call.in_reader(partial(waiting_told, call, facts))
        found = {"waiting_for": waiting, "soon": f"{call.address}&soon=1"}
    return page(call, "compare.html", title="Compare runs", shown=template, **found)


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
    return await report_download(call, *asked.runs)


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
    html = await call.in_reader(partial(case_html, sides, call.asked("task")))
    return Response(html, media_type="text/html")


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
    return ComparedSide(facts.run_id, facts.started_us, facts.status, view.frame, view.tasks)


# More than two runs, and none yet.


async def _read_several(
    call: PageCall, views: RunViews, facts: Sequence[RunFacts], asked: CompareAsked
) -> dict[str, Any]:
    runs = await _opened(call, views, facts)
    pairs = [
        await views.pairs.get(_key(both), partial(_paired, call, both))
        for both in ((runs[0], each) for each in runs[1:])
    ]
    return await call.in_reader(partial(_several_told, pairs, asked))


def _several_told(pairs: Sequence[PairedRuns], asked: CompareAsked) -> dict[str, Any]:
    sides = [pairs[0].before, *(pair.after for pair in pairs)]
    rows = [_variant(sides[0], None, asked)]
    rows += [_variant(pair.after, pair, asked) for pair in pairs]
    by_task: dict[str, list[bool | None]] = {}
    for place, side in enumerate(sides):
        for row in side.tasks.rows:
            by_task.setdefault(row.task_id, [None] * len(sides))[place] = row.passed
    differ = [(name, passed) for name, passed in by_task.items() if len(set(passed)) > 1]
    within = {task.task_id for pair in pairs for task in pair.tasks if asked.bounds.take(task)}
    differing = [(name, passed) for name, passed in differ if name in within]
    differing.sort(key=lambda each: (not _got_worse(each[1]), each[1][-1] is True))
    shown = differing[(asked.page - 1) * AT_ONCE : asked.page * AT_ONCE]
    lines = [_several_line(sides, name, passed) for name, passed in shown]
    more = len(differing) > asked.page * AT_ONCE
    warnings = dict.fromkeys(words for pair in pairs for words in pair.warnings())
    return {
        "rows": rows,
        "warnings": list(warnings),
        "lines": as_markup(Html("\n".join(lines))),
        "count": len(differing),
        "worse": sum(_got_worse(passed) for _, passed in differing),
        "same": len(by_task) - len(differ),
        **bounds_told(asked),
        "more": asked.address(page=asked.page + 1) if more else "",
    }


def _got_worse(passed: Sequence[bool | None]) -> bool:
    """Whether a task that passed in the baseline failed in another run."""
    return passed[0] is True and False in passed


def _several_line(
    sides: Sequence[ComparedSide], task_id: str, passed: Sequence[bool | None]
) -> Html:
    """A task in all runs: how it came out in each, its scores, and its traces."""
    worse = badge_html(CHANGES["regression"])
    scores = " → ".join(_score(side, task_id) for side in sides)
    called = _called(sides, task_id)
    title = Html(f" <span>{text_html(called.beside)}</span>" if called.beside else "")
    return Html(
        f'<li data-task{Html(" data-failed") if passed[-1] is False else NO_HTML}><div class="row">'
        f"{worse if _got_worse(passed) else NO_HTML}<code>{name_html(called.name)}</code> "
        f'{dots_html(passed, are_repeats=False)} <span class="muted">score {text_html(scores)}'
        f"</span>{Html(''.join([_trace_link(side, task_id) for side in sides]))}{title}</div></li>"
    )


def _called(sides: Sequence[ComparedSide], task_id: str) -> TaskName:
    """What a task is called in the last run that has it."""
    having = [side for side in sides if task_id in side.tasks.places]
    return having[-1].frame.names.of(task_id)


def _score(side: ComparedSide, task_id: str) -> str:
    place = side.tasks.places.get(task_id)
    score = None if place is None else side.tasks.rows[place].score
    return amounts.NOTHING if score is None else amounts.score(score)


def _trace_link(side: ComparedSide, task_id: str) -> Html:
    if task_id not in side.tasks.places:
        return NO_HTML
    href = href_html(address_in(side, task_id))
    return Html(f' <a href="{href}">trace in {name_html(side.run_id[-8:])}</a>')


def _variant(side: ComparedSide, pair: PairedRuns | None, asked: CompareAsked) -> dict[str, Any]:
    counts, totals = side.tasks.counts, side.tasks.totals
    told: dict[str, Any] = {
        "run_id": side.run_id,
        "address": run_address(side.run_id),
        "agent": side.frame.agent.name,
        "started_us": side.started_us,
        "score": amounts.NOTHING if totals is None else amounts.score(totals.aggregate_score),
        "cost": None if totals is None else totals.total_cost_usd,
        "rate": amounts.percent(counts["passed"], len(side.tasks.rows) - counts["open"]),
        "change": "baseline",
        "worse": "",
        "better": "",
        "pair": "",
    }
    change = pair.pass_change if pair else None
    if pair is None or change is None:
        return told
    told["change"] = f"{figures.points(change.difference)}. {pair.verdict.sentence}"
    told["worse"] = f"{len(pair.groups['worse']):,}"
    told["better"] = f"{len(pair.groups['better']):,}"
    told["pair"] = asked._replace(runs=[pair.before.run_id, side.run_id]).address()
    return told


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
            "started_us": run.started_us,
        }
        for run in await call.in_reader(read)
    ]
    return page(call, "compare_choose.html", title="Compare runs", known=known, rows=rows)


def _suite(run: RunFacts) -> str:
    """The id of a run's suite, whatever its version."""
    return (run.suite or "").partition("@")[0]

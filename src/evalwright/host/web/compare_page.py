"""Comparing runs: what got worse first, with how sure that is, its cause, the gate and signals.

What the lists of tasks tell comes at once. Causes, gates and signals come from the same process
that writes the portable report; they follow when it is done, and are kept.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

from msgspec import UNSET
from starlette.responses import Response

from evalwright.contracts.errors import EvalwrightError
from evalwright.contracts.report import Item
from evalwright.host.comparing import REPORT, compare_for
from evalwright.host.errors import ApiError
from evalwright.host.v1.comparisons import Download
from evalwright.host.web.compare_pair import (
    AT_ONCE,
    CompareAsked,
    ComparedPair,
    DeepComparison,
    case_html,
    pair_told,
)
from evalwright.host.web.page import (
    PageCall,
    href_html,
    page,
    part,
    run_address,
    see,
    task_address,
)
from evalwright.host.web.repeats_view import dots_html, read_repeats
from evalwright.host.web.run_views import RunView, RunViews, views_of
from evalwright.reports import figures
from evalwright.reports.comparison.machine import read_machine_report
from evalwright.reports.html.markup import (
    NO_HTML,
    Html,
    as_markup,
    name_html,
)
from evalwright.reports.html.overview import overview_row
from evalwright.reports.run.paired_runs import (
    ComparedSide,
    PairedRuns,
)
from evalwright.scoring.statistics import p_in_words
from evalwright.store.protocol import RunFacts, RunFilter

AT_MOST_S = 2.5  # that a page waits for causes, gates and signals
MOST_TASKS = 50_000  # of both runs, whose traces are read for the page
OFFERED = 30  # runs to compare with
LOOKED_AT = 500  # runs, for those of the same suite


async def show(call: PageCall) -> Response:
    """The page, or a group of its tasks."""
    asked, views = CompareAsked.of(call), views_of(call.host)
    if len(asked.runs) < 2:
        return await _choose(call, asked)
    runs = [await views.of(call.run_with(run_id)) for run_id in asked.runs]
    if call.asked("oldest_first"):
        runs.sort(key=lambda view: view.facts.started_us)
        return see(asked._replace(runs=[view.run.run_id for view in runs]).address())
    if len(runs) > 2:
        return await _several(call, runs, asked)
    compared = await _compared(call, views, runs, wait_s=None if call.is_part else AT_MOST_S)
    found = await call.beside(partial(pair_told, compared, asked))
    if call.is_part:
        return part(call, f"compare_{'group' if call.asked('group') else 'pair'}.html", **found)
    return page(call, "compare.html", title="Compare runs", **found)


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


async def case(call: PageCall) -> Response:
    """One task in both runs: the answers word by word, beside what was expected."""
    asked, views = CompareAsked.of(call), views_of(call.host)
    if len(asked.runs) != 2:
        raise ApiError(400, "validation_error", "a task is compared in two runs")
    sides = [await views.of(call.run_with(run_id)) for run_id in asked.runs]
    html = await call.beside(partial(case_html, sides, call.asked("task")))
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
    problem = _why_not_deep(runs)
    if problem:
        return ComparedPair(pair, repeats, None, problem)
    making = asyncio.ensure_future(_deep(call, views, runs))
    done, _ = await asyncio.wait([making], timeout=wait_s)
    if not done:
        making.add_done_callback(_forget)
        return ComparedPair(pair, repeats, None, "")
    try:
        return ComparedPair(pair, repeats, await making, "")
    except ApiError as error:
        return ComparedPair(pair, repeats, None, error.message)
    except EvalwrightError:
        problem = "Causes, gates and signals could not be found out; the host's log says why."
        return ComparedPair(pair, repeats, None, problem)


def _key(runs: Sequence[RunView]) -> tuple[str, str, str]:
    return runs[1].run.partition, runs[0].run.run_id, runs[1].run.run_id


async def _paired(call: PageCall, runs: Sequence[RunView]) -> tuple[int, PairedRuns, bool]:
    def pair() -> PairedRuns:
        made = PairedRuns(_side(runs[0]), _side(runs[1]))
        assert len(made.report.tasks) <= sum(map(len, made.groups.values()))  # found out now
        return made

    made = await call.beside(pair)
    return len(made.tasks), made, all(view.has_ended for view in runs)


def _why_not_deep(runs: Sequence[RunView]) -> str:
    """Why there are no causes, gates and signals; nothing if there are."""
    if not all(view.has_ended for view in runs):
        return "Causes, gates and signals are told of runs that have ended."
    if sum(len(view.tasks.rows) for view in runs) > MOST_TASKS:
        return "These runs are large: causes, gates and signals are in the report to download."
    return ""


def _forget(making: "asyncio.Future[DeepComparison]") -> None:
    """See to it that nobody is told of a failure that the next request meets again."""
    if not making.cancelled():
        making.exception()


async def _deep(call: PageCall, views: RunViews, runs: Sequence[RunView]) -> DeepComparison:
    before, after = runs[0].run, runs[1].run

    async def make() -> tuple[int, DeepComparison, bool]:
        async with AsyncExitStack() as held:
            archive = await compare_for(call, before.run_id, after.run_id, held)
            made = await asyncio.to_thread(_read_deep, archive.parent / REPORT)
            return len(made.rows), made, True
        raise AssertionError("a comparison is either refused or made")

    return await views.comparisons.get(_key(runs), make)


def _read_deep(folder: Any) -> DeepComparison:
    report = read_machine_report(folder)
    flaky = frozenset(item.case_id for item in report.items if _is_flaky(item))
    rows = {item.case_id: overview_row(item) for item in report.items}
    return DeepComparison(report.summary, rows, flaky)


def _is_flaky(item: Item) -> bool:
    repeats = item.repeats
    return repeats is not UNSET and (repeats.baseline.flaky or repeats.new.flaky)


def _side(view: RunView) -> ComparedSide:
    facts = view.facts
    return ComparedSide(facts.run_id, facts.started_us, facts.status, view.frame, view.tasks)


# More than two runs, and none yet.


async def _several(call: PageCall, runs: Sequence[RunView], asked: CompareAsked) -> Response:
    found = await call.beside(partial(_several_told, [_side(view) for view in runs], asked))
    return page(call, "compare_several.html", title="Compare runs", **found)


def _several_told(sides: Sequence[ComparedSide], asked: CompareAsked) -> dict[str, Any]:
    pairs = [PairedRuns(sides[0], side) for side in sides[1:]]
    rows = [_variant(sides[0], None, asked)]
    rows += [_variant(pair.after, pair, asked) for pair in pairs]
    by_task: dict[str, list[bool | None]] = {}
    for place, side in enumerate(sides):
        for row in side.tasks.rows:
            by_task.setdefault(row.task_id, [None] * len(sides))[place] = row.passed
    differing = [(name, passed) for name, passed in by_task.items() if len(set(passed)) > 1]
    differing.sort(key=lambda each: (each[1][0] is not True, each[1][-1] is True))
    shown = differing[(asked.page - 1) * AT_ONCE : asked.page * AT_ONCE]
    lines = [
        Html(
            f"<li><code>{name_html(name)}</code> {dots_html(passed)}"
            f"{Html(''.join([_trace_link(side, name) for side in sides]))}</li>"
        )
        for name, passed in shown
    ]
    more = len(differing) > asked.page * AT_ONCE
    warnings = dict.fromkeys(words for pair in pairs for words in pair.warnings())
    return {
        "rows": rows,
        "warnings": list(warnings),
        "lines": as_markup(Html("\n".join(lines))),
        "count": len(differing),
        "same": len(by_task) - len(differing),
        "more": asked.address(page=asked.page + 1) if more else "",
    }


def _trace_link(side: ComparedSide, task_id: str) -> Html:
    if task_id not in side.tasks.places:
        return NO_HTML
    href = href_html(task_address(side.run_id, task_id))
    return Html(f' <a href="{href}">{name_html(side.run_id[-8:])}</a>')


def _variant(side: ComparedSide, pair: PairedRuns | None, asked: CompareAsked) -> dict[str, Any]:
    counts = side.tasks.counts
    told: dict[str, Any] = {
        "run_id": side.run_id,
        "address": run_address(side.run_id),
        "agent": side.frame.agent.agent_id,
        "started_us": side.started_us,
        "rate": figures.percent(counts["passed"], len(side.tasks.rows) - counts["open"]),
        "change": "baseline",
        "worse": "",
        "better": "",
        "pair": "",
    }
    if pair is None or pair.report.pass_change is None:
        return told
    change = pair.report.pass_change
    told["change"] = f"{figures.points(change.difference)}, {p_in_words(change.p_value)}"
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
            "agent": run.agent,
            "score": run.score,
            "started_us": run.started_us,
        }
        for run in await call.beside(read)
    ]
    return page(call, "compare_choose.html", title="Compare runs", known=known, rows=rows)


def _suite(run: RunFacts) -> str:
    """The id of a run's suite, whatever its version."""
    return (run.suite or "").partition("@")[0]

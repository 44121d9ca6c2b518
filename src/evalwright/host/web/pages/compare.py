"""Comparing runs: what got worse first, with how sure that is, its cause, the gate and signals.

What the lists of tasks tell comes at once. Causes, gates and signals come from the same process
that writes the portable report; they follow when it is done, and are kept.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec
from msgspec import UNSET
from starlette.responses import Response

from evalwright.contracts import amounts
from evalwright.contracts.errors import EvalwrightError
from evalwright.contracts.report import Summary
from evalwright.engine.task_names import TaskName
from evalwright.host.http.errors import ApiError
from evalwright.host.library.comparisons import FACTS, PROGRESS, SECONDS, compare_for
from evalwright.host.v1.compare import report_download
from evalwright.host.web.filters import number_of
from evalwright.host.web.page import (
    PageCall,
    forget,
    href_html,
    in_time,
    page,
    part,
    run_address,
    see,
    task_address,
    time_words,
)
from evalwright.host.web.pages.repeated_runs import Repeats, dots_html, read_repeats
from evalwright.host.web.pages.run_tasks import shown_task
from evalwright.host.web.recent_runs import refuse_slow
from evalwright.host.web.run_views import RunView, RunViews, scored_at, views_of
from evalwright.reports.comparison.machine import ComparisonFacts
from evalwright.reports.comparison.overview import OverviewRow
from evalwright.reports.formats import figures
from evalwright.reports.formats.html import (
    NO_HTML,
    Html,
    as_markup,
    name_html,
    shortened,
    text_html,
)
from evalwright.reports.formats.words import (
    CHANGES,
    RECOMMENDATIONS,
    ROOT_CAUSES,
    SEVERITIES,
    Label,
    badge_html,
    in_words,
    status_html,
)
from evalwright.reports.run.page_tasks import compared_html
from evalwright.reports.run.paired_runs import (
    GROUPS,
    ChangeGroup,
    ComparedSide,
    PairedRuns,
    PairedTask,
    ScoreBounds,
    pair_runs,
)
from evalwright.scoring.statistics import p_in_words
from evalwright.store.protocol import RunFacts, RunFilter

AT_ONCE = 40  # tasks of a group
MOST_RUNS = 8
AT_MOST_S = 2.5  # that a page waits for causes, gates and signals; then they follow
FEW_EVENTS = 2000  # of both runs, up to which it waits so long
SOON_S = 0.01  # that it waits for those of larger runs
UNAVAILABLE = 503
UNKNOWN = "Causes, gates and signals are not known"
ELSEWHERE = "On the command line nothing limits it, where the log is:"
NOT_ENDED = "Causes, gates and signals are told of runs that have ended."
OFFERED = 30  # runs to compare with
LOOKED_AT = 500  # runs, for those of the same suite

_BADGES: dict[ChangeGroup, Html] = {
    "worse": badge_html(CHANGES["regression"]),
    "lower": badge_html(Label("Lower score", CHANGES["regression"].sign, "warn")),
    "better": badge_html(CHANGES["improvement"]),
    "failing": badge_html(CHANGES["still_failing"]),
    "unchanged": badge_html(CHANGES["still_passing"]),
    "alone": badge_html(Label("Not compared", Html("&#63;"), "plain")),
}


class CompareAsked(NamedTuple):
    """What an address asks for: runs, the baseline first, a group of tasks, and thresholds."""

    runs: Sequence[str]
    group: ChangeGroup
    page: int
    bounds: ScoreBounds

    @classmethod
    def of(cls, call: PageCall) -> "CompareAsked":
        given = [each.strip() for each in call.request.query_params.getlist("run")]
        runs = list(dict.fromkeys(each for each in given if each))[:MOST_RUNS]
        named = [name for name in GROUPS if name == call.asked("group")]
        bounds = ScoreBounds(*(number_of(call.asked(name)) for name in ScoreBounds._fields))
        number = int(number_of(call.asked("page")) or 1)
        return cls(runs, named[0] if named else "worse", max(1, number), bounds)

    def address(self, path: str = "/compare", **changed: Any) -> str:
        """The address of the same, but for what is changed."""
        limits = {
            name: f"{value:g}" for name, value in self.bounds._asdict().items() if value is not None
        }
        given = [("run", run) for run in self.runs]
        more = {**limits, **{name: str(value) for name, value in changed.items() if value}}
        return f"{path}?{urlencode([*given, *more.items()])}"


class DeepComparison(NamedTuple):
    """What the comparison of traces adds: causes, gates, signals and repeats, by task."""

    summary: Summary
    rows: Mapping[str, OverviewRow]
    flaky: frozenset[str]  # ids of tasks that passed only sometimes on a side


class ComparedPair(NamedTuple):
    """All that a page tells of two runs."""

    pair: PairedRuns
    repeats: tuple[Repeats, Repeats]
    deep: DeepComparison | None
    problem: str  # why there is no deep comparison
    held: Sequence[str] = ()  # why the new run fails its own gates against this baseline


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
    refuse_slow(call, views, facts)
    runs = [await views.of(call.run_with(each.run_id)) for each in facts]
    is_soon = call.asked("soon") or (call.weight > FEW_EVENTS and not call.is_patient)
    wait_s = SOON_S if is_soon else None if call.is_patient else AT_MOST_S
    compared = await _compared(call, views, runs, wait_s)
    return await call.in_reader(partial(pair_told, compared, asked))


async def _compared(
    call: PageCall, views: RunViews, runs: Sequence[RunView], wait_s: float | None
) -> ComparedPair:
    """Two runs; the deep comparison only as far as there is time for it."""
    before, after = runs
    repeats = await read_repeats(call, views, before), await read_repeats(call, views, after)
    pair = await views.pairs.get(_key(runs), partial(_paired, call, runs))

    def read_held() -> Sequence[str]:
        """Why the new run fails its gates, if it was run against this baseline."""
        _ = pair.report  # it takes a moment where runs are large
        baseline = after.frame.baseline
        if baseline is None or baseline.run_id != before.run.run_id:
            return ()
        found = call.host.figures.of(call.log, after.facts)
        return () if found is None else found.held

    held = await call.in_reader(read_held)
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


def _key(runs: Sequence[RunView]) -> tuple[str, str, str]:
    return runs[1].run.partition, runs[0].run.run_id, runs[1].run.run_id


async def _paired(call: PageCall, runs: Sequence[RunView]) -> tuple[int, PairedRuns, bool]:
    sides = [
        ComparedSide(
            view.facts.run_id, view.facts.started_us, view.facts.status, view.frame, view.tasks
        )
        for view in runs
    ]
    made = await call.in_reader(lambda: pair_runs(runs[0].run.log, *sides).worked_out())
    return len(made.tasks), made, all(view.has_ended for view in runs)


async def _deep(call: PageCall, views: RunViews, runs: Sequence[RunView]) -> DeepComparison:
    before, after = runs[0].run, runs[1].run
    key = _key(runs)

    def begun(folder: Path) -> None:
        views.compared_so_far[key] = folder / PROGRESS

    def read(file: Path) -> DeepComparison:
        facts = msgspec.json.decode(file.read_bytes(), type=ComparisonFacts)
        rows = {row.case_id: row for row in facts.rows}
        return DeepComparison(facts.summary, rows, frozenset(facts.flaky))

    async def make() -> tuple[int, DeepComparison, bool]:
        async with AsyncExitStack() as held:
            held.callback(views.compared_so_far.pop, key, None)
            facts = await compare_for(call, before.run_id, after.run_id, held, FACTS, begun)
            made = await asyncio.to_thread(read, facts)
            return 1 + len(made.rows), made, True
        raise AssertionError("a comparison is either refused or made")

    return await views.comparisons.get(key, make)


async def download(call: PageCall) -> Response:
    """The portable report of two runs, as an archive."""
    asked = CompareAsked.of(call)
    if len(asked.runs) != 2:
        raise ApiError(400, "validation_error", "a report is about two runs")
    return await report_download(call, *asked.runs)


async def progress(call: PageCall) -> Response:
    """How far the search for causes, gates and signals is; empty if nobody is at it."""
    runs = [call.run_with(run_id) for run_id in CompareAsked.of(call).runs]
    told = None
    if len(runs) == 2:
        key = runs[1].partition, runs[0].run_id, runs[1].run_id
        file = views_of(call.host).compared_so_far.get(key)
        try:
            text = await asyncio.to_thread(file.read_text) if file else ""
            done, total = map(int, text.split())
        except (OSError, ValueError):  # it has only just begun, or has just ended
            pass
        else:
            told = done, total
    return part(call, "compare_progress.html", told=told, most_s=f"{SECONDS:g}")


async def case(call: PageCall) -> Response:
    """One task in both runs: the answers word by word, beside what was expected."""
    asked, views = CompareAsked.of(call), views_of(call.host)
    if len(asked.runs) != 2:
        raise ApiError(400, "validation_error", "a task is compared in two runs")
    sides = [await views.of(call.run_with(run_id)) for run_id in asked.runs]
    html = await call.in_reader(partial(case_html, sides, call.asked("task")))
    return Response(html, media_type="text/html")


# Two runs.


def pair_told(compared: ComparedPair, asked: CompareAsked) -> dict[str, Any]:
    """What the templates show."""
    pair, deep = compared.pair, compared.deep
    groups = []
    for name, words in GROUPS.items():
        tasks = _within(pair, name, asked.bounds)
        if tasks or name == "worse":
            groups.append((name, words, len(tasks), asked.address(group=name)))
    chosen = _within(pair, asked.group, asked.bounds)
    first = (asked.page - 1) * AT_ONCE
    shown = chosen[first : first + AT_ONCE]
    more = len(chosen) > first + AT_ONCE
    return {
        "runs": [
            {
                "run_id": side.run_id,
                "name": side.frame.name,
                "agent": side.frame.agent.name,
                "started_us": side.started_us,
            }
            for side in (pair.before, pair.after)
        ],
        "age": _age_words(pair.age_s),
        "warnings": [*pair.warnings()],
        "verdict": _verdict(compared),
        "sentences": _sentences(compared),
        "tiles": list(_tiles(compared)),
        "problem": compared.problem,
        "is_waiting": deep is None and not compared.problem,
        "again": asked.address(),
        "progress": asked.address("/compare/progress"),
        # The causes of failures in the new run: name, how many, and what it means.
        "causes": [
            (in_words(cause), count, ROOT_CAUSES.get(cause, ""))
            for cause, count in (deep.summary.root_cause_breakdown.items() if deep else ())
            if count
        ],
        "groups": groups,
        "group": asked.group,
        "lines": as_markup(Html("\n".join(_lines(compared, shown, asked)))),
        "count": len(chosen),
        "more": asked.address(group=asked.group, page=asked.page + 1) if more else "",
        "left": len(chosen) - first - len(shown),
        **bounds_told(asked),
        "turned": asked._replace(runs=list(reversed(asked.runs))).address(),
        "archive": asked._replace(bounds=ScoreBounds()).address("/compare/report.zip"),
    }


def bounds_told(asked: CompareAsked) -> dict[str, Any]:
    """The thresholds, for their form."""
    return {
        "bounds": {
            name: "" if value is None else f"{value:g}"
            for name, value in asked.bounds._asdict().items()
        },
        "is_bounded": any(value is not None for value in asked.bounds),
        "all_scores": asked._replace(bounds=ScoreBounds()).address(),
    }


def _within(pair: PairedRuns, group: ChangeGroup, bounds: ScoreBounds) -> Sequence[PairedTask]:
    tasks = pair.groups[group]
    return tasks if bounds == ScoreBounds() else [each for each in tasks if bounds.holds(each)]


def waiting_told(call: PageCall, runs: Sequence[RunFacts]) -> dict[str, Any]:
    """What is known of runs before their tasks are read."""
    age_s = (runs[1].started_us - runs[0].started_us) / 1_000_000
    return {
        "runs": [
            {
                "run_id": run.run_id,
                "name": run.suite,
                "agent": call.host.figures.agent_of(call.log, run),
                "started_us": run.started_us,
                "score": None if run.score is None else amounts.score(run.score),
            }
            for run in runs
        ],
        "age": _age_words(age_s) if len(runs) == 2 else "",
    }


def _sentences(compared: ComparedPair) -> list[tuple[str, str]]:
    """Whether the change is more than chance: of all repeats, where there are any, then of two."""
    pair = compared.pair
    counts = [max(map(len, each.values()), default=1) for each in compared.repeats]
    before, after = pair.before.frame.group, pair.after.frame.group
    is_one = before is not None and after is not None and before.id == after.id
    if max(counts) > 1 and not is_one:
        verdict = pair.verdict_on(*compared.repeats)
        return [
            (f"All repeats together ({counts[0]} and {counts[1]}): ", verdict.sentence),
            ("These two runs alone: ", pair.verdict.sentence),
        ]
    return [("", pair.verdict.sentence)]


def _age_words(age_s: float) -> str:
    ago = time_words(0, abs(age_s)).removesuffix(" ago")
    if abs(age_s) >= 30 * 86_400:
        ago = f"{abs(age_s) / 86_400:.0f} days"
    if ago == "just now":
        ago = "less than a minute"
    return f"The baseline is {ago} {'older' if age_s >= 0 else 'newer'} than the new run."


def _verdict(compared: ComparedPair) -> tuple[str, str]:
    from evalwright.comparison.summary import blocks_shipping

    groups = compared.pair.groups
    if len(groups["alone"]) == len(compared.pair.tasks):
        return "warn", "Nothing was compared: no task has a score in both runs."
    if compared.deep is not None and blocks_shipping(compared.deep.summary):
        return "bad", compared.deep.summary.verdict
    if worse := len(groups["worse"]):
        return "bad", f"{worse:,} {'task' if worse == 1 else 'tasks'} got worse."
    if compared.held:
        return "bad", f"The new run fails its gates: {'; '.join(compared.held)}."
    scores = compared.pair.report.score_change
    if scores is not None and scores.significant and scores.difference < 0:
        return "warn", f"No task got worse, but the score fell ({p_in_words(scores.p_value)})."
    return "good", compared.deep.summary.verdict if compared.deep else "No task got worse."


def _tiles(compared: ComparedPair) -> Iterator[tuple[str, str, str]]:
    pair, deep = compared.pair, compared.deep
    report, groups = pair.report, pair.groups
    if report.pass_change is not None:
        change = report.pass_change
        bounds = f"{figures.points(change.low)} to {figures.points(change.high)}"
        before = f"baseline {amounts.percent(change.baseline_rate)}"
        chance = f"{before}; {p_in_words(pair.verdict.p_value)}, 95% interval {bounds}"
        yield "Pass rate", amounts.percent(change.new_rate), chance
    if report.score_change is not None:
        before = f"baseline {amounts.score(report.baseline_score)}"
        yield (
            "Score",
            amounts.score(report.score),
            f"{before}; {p_in_words(report.score_change.p_value)}",
        )
    yield "Got worse", f"{len(groups['worse']):,}", f"{len(groups['better']):,} got better"
    flaky = len(_flaky(compared))
    yield "Flaky", f"{flaky:,}", "passed only sometimes" if flaky else ""
    totals = [side.tasks.totals for side in (pair.before, pair.after)]
    costs = [None if each is None else each.total_cost_usd for each in totals]
    if costs[0] is not None and costs[1] is not None:
        yield "Cost", amounts.dollars(costs[1]), f"baseline {amounts.dollars(costs[0])}"
    if deep is not None:
        security = deep.summary.security
        yield "Gated", f"{deep.summary.gated_cases:,}", "tasks that ask for a gate"
        before = f"baseline {security.cases_with_signals_baseline:,}"
        yield "With signals", f"{security.cases_with_signals_new:,}", before


def _flaky(compared: ComparedPair) -> set[str]:
    found = set(compared.deep.flaky) if compared.deep else set()
    for repeats in compared.repeats:
        found |= {name for name, passed in repeats.items() if {True, False} <= set(passed)}
    return found


# The tasks of a group.


def _lines(
    compared: ComparedPair, tasks: Sequence[PairedTask], asked: CompareAsked
) -> Iterator[Html]:
    rows, pair = compared.deep.rows if compared.deep else {}, compared.pair
    flaky = _flaky(compared)
    for task in tasks:
        # What it is called in the new run, or in the baseline where only that has it.
        named_in = pair.after if task.task_id in pair.after.tasks.places else pair.before
        called = named_in.frame.names.of(task.task_id)
        head = Html(f"{_BADGES[task.group]} <code>{name_html(called.name)}</code>")
        if called.subtitle:
            head = Html(f"{head} <span>{text_html(called.subtitle)}</span>")
        scores, links = [], list[Html]()
        for words, side, row in (
            (Html("baseline trace"), pair.before, task.before),
            (Html("new trace"), pair.after, task.after),
        ):
            score = None if row is None else row.score
            scores.append(amounts.NOTHING if score is None else amounts.score(score))
            if row is not None:
                href = href_html(address_in(side, task.task_id))
                links.append(Html(f' <a href="{href}">{words}</a>'))
        facts = Html(f'<span class="muted">score {text_html(" → ".join(scores))}</span>')
        dots = [dots_html(of[task.task_id]) for of in compared.repeats if task.task_id in of]
        unsure = Html(' <span class="badge warn">&#8776; flaky</span>')
        marks = Html("".join([unsure if task.task_id in flaky else NO_HTML, *dots]))
        deep = _deep_html(rows[task.task_id]) if task.task_id in rows else NO_HTML
        opens = NO_HTML  # what loads the answers of both runs
        if task.before is not None and task.after is not None:
            href = href_html(asked.address("/compare/task", task=task.task_id))
            opens = Html(
                f'<details hx-get="{href}" hx-trigger="toggle once" hx-target="find .task"'
                f' hx-swap="innerHTML"><summary>Answers to {name_html(task.task_id)} side by side'
                '</summary><div class="task"></div></details>'
            )
        has_failed = task.after is not None and task.after.passed is False
        yield Html(
            f'<li data-task{Html(" data-failed" if has_failed else "")}><div class="row">{head} '
            f"{facts} {marks}{Html(''.join(links))}</div>{deep}{opens}</li>"
        )


def address_in(side: ComparedSide, task_id: str) -> str:
    """The address of a task in one of the runs."""
    return task_address(side.run_id, side.frame.names.name_of(task_id))


def _deep_html(row: OverviewRow) -> Html:
    """The cause of a failure, the gate, the signals, and the reason."""
    parts: list[Html] = []
    if row.new_root:
        parts.append(Html(f"<span>Cause: <b>{text_html(in_words(row.new_root))}</b></span>"))
    gate = RECOMMENDATIONS[row.recommendation]
    if row.gated:
        parts.append(Html(f"<span>Gate: {badge_html(gate)}</span>"))
    elif row.recommendation != "none":
        parts.append(Html(f"<span>Gate: {text_html(gate.words)}</span>"))
    for kind, severity in row.signals[:6]:
        signal = Label(f"{severity} {in_words(kind)}", SEVERITIES[severity].sign, "warn")
        parts.append(Html(f"<span>Signal: {status_html(signal)}</span>"))
    told = Html(f'<div class="row">{Html(" ".join(parts))}</div>' if parts else "")
    why = Html(f'<p class="why">{text_html(row.reason)}</p>' if row.reason else "")
    return Html(f"{told}{why}")


def case_html(sides: Sequence[RunView], task_id: str) -> Html:
    """The answers word by word; what was expected, and why the checks failed, below them."""
    answers, below = [], []
    for name, view in zip((Html("Baseline"), Html("New")), sides, strict=True):
        task = view.task(task_id)
        read, _ = shown_task(view, task, scored_at(view.run.log, view.run.run_id, task_id))
        record = read.record
        answers.append(record.output if record.error is UNSET else record.error)
        failed = [check for check in record.checks if not check.passed]
        below += [
            Html(
                f"<li>{name}: <code>{name_html(check.check)}</code> expected "
                f'<span class="value">{text_html(shortened(check.expected, 2000))}</span>'
                f'<p class="why">{text_html(shortened(check.reason, 2000))}</p></li>'
            )
            for check in failed[:20]
        ]
    before, after = compared_html(answers[0], answers[1])
    reasons = Html(f'<ul class="checks">{Html("".join(below))}</ul>' if below else "")
    return Html(
        f'<div class="both"><div><h3>Baseline</h3><pre tabindex="0">{before}</pre></div>'
        f'<div><h3>New</h3><pre tabindex="0">{after}</pre></div></div>{reasons}'
    )


# More than two runs, and none yet.


async def _read_several(
    call: PageCall, views: RunViews, facts: Sequence[RunFacts], asked: CompareAsked
) -> dict[str, Any]:
    refuse_slow(call, views, facts)
    first, *others = [await views.of(call.run_with(each.run_id)) for each in facts]
    pairs = [
        await views.pairs.get(_key((first, each)), partial(_paired, call, (first, each)))
        for each in others
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
    within = {task.task_id for pair in pairs for task in pair.tasks if asked.bounds.holds(task)}
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
    badge = badge_html(CHANGES["regression"]) if _got_worse(passed) else NO_HTML
    scores, links = [], list[Html]()
    called: TaskName | None = None  # in the last run that has it
    for side in sides:
        place = side.tasks.places.get(task_id)
        score = None if place is None else side.tasks.rows[place].score
        scores.append(amounts.NOTHING if score is None else amounts.score(score))
        if place is not None:
            called = side.frame.names.of(task_id)
            href = href_html(address_in(side, task_id))
            links.append(Html(f' <a href="{href}">trace in {name_html(side.run_id[-8:])}</a>'))
    assert called is not None, "one of the runs has the task"
    title = Html(f" <span>{text_html(called.subtitle)}</span>" if called.subtitle else "")
    return Html(
        f'<li data-task{Html(" data-failed") if passed[-1] is False else NO_HTML}><div class="row">'
        f"{badge}<code>{name_html(called.name)}</code> "
        f'{dots_html(passed, are_repeats=False)} <span class="muted">score '
        f"{text_html(' → '.join(scores))}</span>{Html(''.join(links))}{title}</div></li>"
    )


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

    def read() -> list[dict[str, Any]]:
        runs = call.log.find_runs(RunFilter(is_evaluation=True), LOOKED_AT)
        if known:
            ours = call.log.facts(known)
            suite = (ours.suite or "").partition("@")[0]
            fitting = (run for run in runs if (run.suite or "").partition("@")[0] == suite)
            runs = [ours, *(run for run in fitting if run.run_id != known)]
        return [
            {
                "run_id": run.run_id,
                "suite": run.suite,
                "agent": call.host.figures.agent_of(call.log, run),
                "score": run.score,
                "started_us": run.started_us,
            }
            for run in runs[:OFFERED]
        ]

    rows = await call.in_reader(read)
    return page(call, "compare_choose.html", title="Compare runs", known=known, rows=rows)

"""Two runs beside each other, as the page that compares them shows them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from msgspec import UNSET

from evalwright.contracts import amounts
from evalwright.contracts.report import Summary
from evalwright.engine.task_names import TaskName
from evalwright.host.web.page import (
    PageCall,
    href_html,
    task_address,
    time_words,
)
from evalwright.host.web.pages.repeats import Repeats, dots_html
from evalwright.host.web.pages.scorecard import (
    number_of,
    shown_task,
)
from evalwright.host.web.run_views import RunView, scored_at
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
)
from evalwright.scoring.statistics import p_in_words
from evalwright.store.protocol import RunFacts

AT_ONCE = 40  # tasks of a group
MOST_RUNS = 8

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
        """What is not known counts as not given."""
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
        "runs": [_run_told(side) for side in (pair.before, pair.after)],
        "age": _age_words(pair.age_s),
        "warnings": [*pair.warnings()],
        "verdict": _verdict(compared),
        "sentences": list(_sentences(compared)),
        "tiles": list(_tiles(compared)),
        "problem": compared.problem,
        "is_waiting": deep is None and not compared.problem,
        "again": asked.address(),
        "progress": asked.address("/compare/progress"),
        "causes": _causes(deep),
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
    return tasks if bounds == ScoreBounds() else [each for each in tasks if bounds.take(each)]


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


def _run_told(side: ComparedSide) -> dict[str, Any]:
    return {
        "run_id": side.run_id,
        "name": side.frame.name,
        "agent": side.frame.agent.name,
        "started_us": side.started_us,
    }


def _sentences(compared: ComparedPair) -> Iterator[tuple[str, str]]:
    """Whether the change is more than chance: of all repeats, where there are any, then of two."""
    pair, counts = compared.pair, [_runs_of(each) for each in compared.repeats]
    before, after = pair.before.frame.group, pair.after.frame.group
    is_one = before is not None and after is not None and before.id == after.id
    if max(counts) > 1 and not is_one:
        verdict = pair.verdict_on(*compared.repeats)
        yield f"All repeats together ({counts[0]} and {counts[1]}): ", verdict.sentence
        yield "These two runs alone: ", pair.verdict.sentence
    else:
        yield "", pair.verdict.sentence


def _runs_of(repeats: Repeats) -> int:
    return max(map(len, repeats.values()), default=1)


def _age_words(age_s: float) -> str:
    ago = time_words(0, abs(age_s)).removesuffix(" ago")
    if abs(age_s) >= 30 * 86_400:
        ago = f"{abs(age_s) / 86_400:.0f} days"
    if ago == "just now":
        ago = "less than a minute"
    return f"The baseline is {ago} {'older' if age_s >= 0 else 'newer'} than the new run."


def _verdict(compared: ComparedPair) -> tuple[str, str]:
    """The verdict in one sentence, with its tone."""
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
    """The key numbers: name, number, and what it is set against."""
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


def _causes(deep: DeepComparison | None) -> list[tuple[str, int, str]]:
    """The causes of failures in the new run: name, how many, and what it means."""
    if deep is None:
        return []
    counts = deep.summary.root_cause_breakdown
    return [
        (in_words(cause), count, ROOT_CAUSES.get(cause, ""))
        for cause, count in counts.items()
        if count
    ]


# The tasks of a group.


def _lines(
    compared: ComparedPair, tasks: Sequence[PairedTask], asked: CompareAsked
) -> Iterator[Html]:
    rows = compared.deep.rows if compared.deep else {}
    flaky = _flaky(compared)
    for task in tasks:
        called = _called(compared.pair, task.task_id)
        head = Html(f"{_BADGES[task.group]} <code>{name_html(called.name)}</code>")
        if called.beside:
            head = Html(f"{head} <span>{text_html(called.beside)}</span>")
        facts = _facts(task)
        dots = [dots_html(of[task.task_id]) for of in compared.repeats if task.task_id in of]
        unsure = Html(' <span class="badge warn">&#8776; flaky</span>')
        marks = Html("".join([unsure if task.task_id in flaky else NO_HTML, *dots]))
        deep = _deep_html(rows[task.task_id]) if task.task_id in rows else NO_HTML
        yield Html(
            f'<li data-task{_failed(task)}><div class="row">{head} {facts} {marks}'
            f"{_links(compared.pair, task)}</div>{deep}{_opens(task, asked)}</li>"
        )


def _failed(task: PairedTask) -> Html:
    return Html(" data-failed" if task.after is not None and task.after.passed is False else "")


def _facts(task: PairedTask) -> Html:
    scores = [
        amounts.NOTHING if row is None or row.score is None else amounts.score(row.score)
        for row in (task.before, task.after)
    ]
    return Html(f'<span class="muted">score {text_html(" → ".join(scores))}</span>')


def _links(pair: PairedRuns, task: PairedTask) -> Html:
    """The traces of both runs."""
    sides = (
        (Html("baseline trace"), pair.before, task.before),
        (Html("new trace"), pair.after, task.after),
    )
    links = [
        Html(f' <a href="{href_html(address_in(side, task.task_id))}">{words}</a>')
        for words, side, row in sides
        if row is not None
    ]
    return Html("".join(links))


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


def _opens(task: PairedTask, asked: CompareAsked) -> Html:
    """What loads the answers of both runs."""
    if task.before is None or task.after is None:
        return NO_HTML
    href = href_html(asked.address("/compare/task", task=task.task_id))
    return Html(
        f'<details hx-get="{href}" hx-trigger="toggle once" hx-target="find .task"'
        f' hx-swap="innerHTML"><summary>Answers to {name_html(task.task_id)} side by side</summary>'
        '<div class="task"></div></details>'
    )


def _called(pair: PairedRuns, task_id: str) -> TaskName:
    """What a task is called in the new run, or in the baseline where only that has it."""
    side = pair.after if task_id in pair.after.tasks.places else pair.before
    return side.frame.names.of(task_id)


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

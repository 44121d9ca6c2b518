"""Two runs beside each other, as the page that compares them shows them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from evalwright.contracts import amounts
from evalwright.contracts.report import Summary
from evalwright.engine.task_names import TaskName
from evalwright.host.web.filters import number_of
from evalwright.host.web.page import (
    PageCall,
    task_address,
    time_words,
)
from evalwright.host.web.pages.repeated_runs import Repeats
from evalwright.host.web.pages.run_tasks import read_details
from evalwright.host.web.pages.runs import run_title
from evalwright.host.web.run_views import RunView
from evalwright.reports.comparison.overview import OverviewRow
from evalwright.reports.design.talk import TalkStep
from evalwright.reports.formats import figures
from evalwright.reports.formats.text import shortened
from evalwright.reports.formats.word_diff import marked_versions
from evalwright.reports.formats.words import (
    RECOMMENDATIONS,
    ROOT_CAUSES,
    in_words,
)
from evalwright.reports.run.paired_runs import (
    GROUPS,
    ChangeGroup,
    ComparedSide,
    PairedRuns,
    PairedTask,
    ScoreBounds,
)
from evalwright.scoring.statistics import p_in_words, wilson
from evalwright.store.protocol import RunFacts

AT_ONCE = 40  # tasks of a group
MOST_RUNS = 8

SHAPES: dict[ChangeGroup, str] = {
    "worse": "fail",
    "lower": "error",
    "better": "pass",
    "failing": "fail",
    "unchanged": "pass",
    "alone": "open",
}
VERDICTS = {
    "bad": ("fail", "Do not ship"),
    "warn": ("unsure", "Cannot tell"),
    "good": ("pass", "May ship"),
}
BEFORE_DIVERGENCE = 3  # steps that both runs share, of those before the first difference


class CompareAsked(NamedTuple):
    """What an address asks for: runs, the baseline first, a group of tasks, and thresholds."""

    runs: Sequence[str]
    group: ChangeGroup
    page: int
    bounds: ScoreBounds

    @classmethod
    def of(cls, call: PageCall) -> "CompareAsked":
        """What is not known counts as not given."""
        runs = call.asked_runs("baseline", "new", "run")[:MOST_RUNS]
        groups = [name for name in GROUPS if name == call.asked("group")]
        bounds = ScoreBounds(*(number_of(call.asked(name)) for name in ScoreBounds._fields))
        number = int(number_of(call.asked("page")) or 1)
        return cls(runs, groups[0] if groups else "worse", max(1, number), bounds)

    def address(self, path: str = "/compare", **changed: Any) -> str:
        """The address of the same, but for what is changed."""
        limits = {
            name: f"{value:g}" for name, value in self.bounds._asdict().items() if value is not None
        }
        names = ("baseline", "new") if len(self.runs) <= 2 else ("run",) * len(self.runs)
        given = list(zip(names, self.runs, strict=False))
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
            groups.append(
                {
                    "key": name,
                    "words": words,
                    "count": len(tasks),
                    "shape": SHAPES[name],
                    "icon": "",
                    "address": asked.address(group=name),
                    "chosen": name == asked.group,
                }
            )
    chosen = _within(pair, asked.group, asked.bounds)
    first = (asked.page - 1) * AT_ONCE
    shown = chosen[first : first + AT_ONCE]
    more = len(chosen) > first + AT_ONCE
    kind, sentence = _verdict(compared)
    shape, heading = VERDICTS[kind]
    changed = [f"{len(pair.groups[name]):,}" for name in ("worse", "better")]
    if kind == "bad" and changed[0] != "0":
        noun = "task" if changed[0] == "1" else "tasks"
        heading += f": {changed[0]} {noun} got worse, {changed[1]} got better"
    return {
        "runs": [_run_told(side) for side in (pair.before, pair.after)],
        "age": _age_words(pair.age_s),
        "warnings": list(pair.warnings()),
        "verdict": {"kind": shape, "heading": heading, "why": sentence},
        "sentences": list(_sentences(compared)),
        "difference": None
        if (change := pair.pass_change) is None
        else figures.change_scale(change.difference, (change.low, change.high)),
        "facts": list(_tiles(compared)),
        "problem": compared.problem,
        "is_waiting": deep is None and not compared.problem,
        "again": asked.address(),
        "progress": asked.address("/compare/progress"),
        "causes": _causes(deep),
        "chips": groups,
        "changes": [_change(compared, task, asked) for task in shown],
        "count": len(chosen),
        "more": asked.address(group=asked.group, page=asked.page + 1) if more else "",
        "left": len(chosen) - first - len(shown),
        **bounds_told(asked),
        "turned": asked._replace(runs=list(reversed(asked.runs))).address(),
        "matrix": f"/matrix?{urlencode([('run', run) for run in asked.runs])}",
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
                "title": run_title(run),
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
    counts = side.tasks.counts
    scored = len(side.tasks.rows) - counts["open"]
    low, high = wilson(counts["passed"], scored) if scored else (0.0, 1.0)
    share = amounts.percent(counts["passed"], scored) if scored else amounts.NOTHING
    thresholds = side.frame.suite.thresholds
    return {
        "run_id": side.run_id,
        "title": f"Run {side.number}",
        "name": side.frame.name,
        "agent": side.frame.agent.name,
        "started_us": side.started_us,
        "share": share,
        "rate": {
            "share": counts["passed"] / scored if scored else 0.0,
            "low": low,
            "high": high,
            "bar": thresholds.pass_rate,
            "tone": "",
            "words": f"{share}, interval {amounts.share_interval(low, high)}",
        },
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
    report = pair.report
    if report.score_change is not None:
        before = f"baseline {amounts.score(report.baseline_score)}"
        yield (
            "Score",
            amounts.score(report.score),
            f"{before}; {p_in_words(report.score_change.p_value)}",
        )
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


def _change(compared: ComparedPair, task: PairedTask, asked: CompareAsked) -> dict[str, Any]:
    rows = compared.deep.rows if compared.deep else {}
    row = rows.get(task.task_id)
    called = _called(compared.pair, task.task_id)
    repeats = [of[task.task_id] for of in compared.repeats if task.task_id in of]
    scores = [
        amounts.NOTHING if each is None or each.score is None else amounts.score(each.score)
        for each in (task.before, task.after)
    ]
    badges = []
    if row is not None:
        if row.new_root:
            badges.append((in_words(row.new_root), ""))
        if row.gated:
            gate = RECOMMENDATIONS[row.recommendation].words
            badges.append((f"Gate: {gate.lower()}", "fail"))
        if row.signals:  # a badge for each would hide what caused the failure
            kind, severity = row.signals[0]
            more = f" and {len(row.signals) - 1} more" if len(row.signals) > 1 else ""
            tone = "fail" if severity in ("high", "critical") else "warn"
            badges.append((f"{in_words(kind)} ({severity}){more}", tone))
    if task.task_id in _flaky(compared):
        badges.append(("flaky", "warn"))
    direction = {"worse": "down", "lower": "down", "better": "up"}.get(task.group, "same")
    has_both = task.before is not None and task.after is not None
    return {
        "task_id": called.name,
        "title": called.subtitle or called.name,
        "shape": SHAPES[task.group],
        "failed": task.after is not None and task.after.passed is False,
        "why": shortened(row.reason, 300) if row is not None and row.reason else "",
        "badges": badges,
        "scores": " → ".join(scores),
        "direction": direction,
        "repeats": [
            ([KIND[each] for each in of], f"{of.count(True):,} of {len(of):,} passed")
            for of in repeats
        ],
        "load": asked.address("/compare/task", task=called.name) if has_both else "",
        "links": [
            (words, address_in(side, task.task_id))
            for words, side, each in (
                ("Baseline conversation", compared.pair.before, task.before),
                ("New conversation", compared.pair.after, task.after),
            )
            if each is not None
        ],
    }


KIND = {True: "pass", False: "fail", None: "open"}


def address_in(side: ComparedSide, task_id: str) -> str:
    """The address of a task in one of the runs."""
    return task_address(side.run_id, side.frame.names.name_of(task_id))


def _called(pair: PairedRuns, task_id: str) -> TaskName:
    """What a task is called in the new run, or in the baseline where only that has it."""
    side = pair.after if task_id in pair.after.tasks.places else pair.before
    return side.frame.names.of(task_id)


def case_told(sides: Sequence[RunView], task_id: str) -> dict[str, Any]:
    """The answers word by word, where both runs go apart first, and which checks failed."""
    told = [read_details(view, view.task(task_id)) for view in sides]
    talks = [each["steps"] for each in told]
    answers = [_last_word(talk) for talk in talks]
    return {
        "answers": marked_versions(answers[0], answers[1]),
        "failed": [
            (name, check)
            for name, each in zip(("Baseline", "New"), told, strict=True)
            for check in each["checks"]
            if check["kind"] == "fail"
        ],
        "divergence": divergence_of(*talks),
    }


def _last_word(talk: Sequence[TalkStep]) -> str:
    said = [step.text for step in talk if step.kind == "agent"]
    return said[-1] if said else ""


def divergence_of(before: Sequence[TalkStep], after: Sequence[TalkStep]) -> dict[str, Any] | None:
    """The first step in which two conversations differ, after the last ones that are the same."""
    lines = [[_line(step) for step in talk if step.kind != "note"] for talk in (before, after)]
    same = 0
    for a, b in zip(*lines, strict=False):
        if a != b:
            break
        same += 1
    if same == max(map(len, lines)):
        return None
    first = max(0, same - BEFORE_DIVERGENCE)
    rows = [(number + 1, lines[0][number], "the same") for number in range(first, same)]
    sides = [each[same] if same < len(each) else "ends here" for each in lines]
    return {"step": same + 1, "same": rows, "first": (same + 1, *sides)}


def _line(step: TalkStep) -> str:
    if step.kind == "call":
        failed = f", {step.error}" if step.error else ""
        return f"{step.name} {step.args}{failed}".strip()
    who = {"user": "User", "thought": "Thought"}.get(step.kind, "Answer")
    return f"{who}: {shortened(step.text, 300)}"

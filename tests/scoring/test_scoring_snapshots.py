"""All that scoring says of fixed inputs, to the last digit and word; see `snapshots.py`."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from builders import a_rubric_task, a_score, a_suite, a_task, a_usage, as_document, golden_score
from evalwright.contracts.errors import InvalidDocument
from evalwright.contracts.events import Judged
from evalwright.contracts.messages import IN_LOGS
from evalwright.contracts.run_plan import Baseline, BaselineTask
from evalwright.contracts.suite import Match
from evalwright.contracts.summary import EvalSummary, SafetyFinding, TaskResult
from evalwright.contracts.verdicts import Verdict
from evalwright.scoring import golden
from evalwright.scoring.bootstrap import expanded_tail, score_change
from evalwright.scoring.checks.quotes import quoted_json as quoted
from evalwright.scoring.pass_bars import missed_bars
from evalwright.scoring.regression import compare_to_baseline
from evalwright.scoring.repeats import summarise_repeats
from evalwright.scoring.rubric import criterion_name, rubric_result
from evalwright.scoring.statistics import (
    mcnemar,
    more_failures_needed,
    p_in_words,
    paired_change,
    sign_flip,
    wilson,
)
from evalwright.scoring.summary import Tally, task_cost
from evalwright.scoring.thresholds import Cost, broken_bars, decimal_sum, finite, mean, p95
from snapshots import check_snapshot

HERE = Path(__file__).parent / "snapshots"


def told_of(function: Callable[..., Any], *inputs: tuple[Any, ...]) -> dict[str, Any]:
    """What a function returns or raises, by its arguments."""
    return {repr(given): outcome(lambda given=given: function(*given)) for given in inputs}


def outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except (ValueError, TypeError) as error:
        return f"{type(error).__name__}: {error}"


def spread(count: int, shift: float = 0.0, steps: int = 601) -> list[float]:
    """Differences that are all over the place, without a random number."""
    return [((n * 7919) % steps - steps // 2) / (steps * 1.5) + shift for n in range(count)]


# Statistics.


def test_tests_of_verdicts():
    pairs = [(0, 0), (1, 0), (0, 1), (2, 3), (5, 0), (6, 0), (1, 8), (20, 9), (40, 60)]
    edges = [(500, 500), (520, 480), (460, 541), (541, 460), (700, 800), (1500, 1300), (2000, 0)]
    change = [
        (0, 0, 0, 0),
        (1, 0, 0, 0),
        (0, 1, 0, 0),
        (0, 0, 1, 0),
        (0, 0, 0, 1),
        (36, 2, 12, 0),
        (80, 10, 0, 10),
        (80, 0, 10, 10),
        (3, 5, 7, 11),
        (11, 7, 5, 3),
        (0, 9, 0, 1),
        (0, 0, 9, 1),
        (5, 50, 40, 5),
        (0, 10, 10, 0),
        (10, 0, 0, 10),
        (400, 31, 17, 2),
    ]
    rates = [(0, 1), (1, 1), (0, 10), (1, 10), (5, 10), (9, 10), (10, 10), (33, 97), (999, 1000)]
    needed = [(0, 0, 5), (0, 0, 6), (0, 0, 20), (2, 0, 20), (6, 0, 20), (1, 3, 4), (0, 20, 1)]
    needed += [(0, 20, 200), (3, 2, 50), (5, 5, 50), (6, 0, 0), (5, 0, 0), (7, 1, 3), (8, 1, 0)]
    words = [(0.0,), (0.000999,), (0.001,), (0.0012345,), (0.03125,), (0.04999,), (0.5,), (1.0,)]
    told = {
        "mcnemar": told_of(mcnemar, *pairs, *edges),
        "paired change": told_of(paired_change, *change),
        "paired change is significant": told_of(
            lambda *given: getattr(paired_change(*given), "significant", None), *change
        ),
        "wilson": told_of(wilson, *rates),
        "more failures needed": told_of(more_failures_needed, *needed),
        "p in words": told_of(p_in_words, *words),
    }
    check_snapshot(HERE / "verdicts.json", told)


DIFFERENCES = {
    "none": [],
    "one that fell": [-0.5],
    "one without a change": [0.0],
    "two without a change": [0.0, 0.0],
    "two that fell differently": [-0.5, -0.25],
    "three that fell": [-0.5, -0.4, -0.3],
    "three that rose": [0.3, 0.4, 0.5],
    "both ways": [0.25, 0.25, -0.5, 0.75],
    "all the same, down": [-0.25] * 7,
    "all the same, up": [0.25] * 7,
    "one size, both ways": [0.5] * 9 + [-0.5] * 2,
    "to the ends": [-1.0, -1.0, 1.0, -1.0],
    "thirds and quarters": [1 / 3, -0.25, 2 / 3, 0.75, -1 / 3, 0.5],
    "sevenths": [n / 7 for n in (1, 2, -3, 4, 5, 6)],
    "not on the grid": [2**0.5 / 2, -(3**0.5) / 3, 5**0.5 / 5, 0.1, 0.123456789],
    "tiny beside large": [-1.0, 1e-9, 1e-7, -1e-5, 0.5],
    "sparse": [-1.0, 1.0, -1.0, -1.0] + [0.0] * 36,
    "many small": spread(60, -0.04),
    "at the limit of resampling": [*spread(199, 0.0003), 0.9, 0.0, 0.0],
    "beyond the limit of resampling": [*spread(200, 0.0003), 0.9, 0.8],
    "beyond it and without spread": [-0.125] * 201,
    "a long tail downwards": [-((n % 17) ** 2) / 300 - 0.001 for n in range(240)],
    "a long tail upwards, many unchanged": [((n % 13) ** 2) / 200 + 0.001 for n in range(230)]
    + [0.0] * 100,
    "at the limit of counting": spread(300, -0.02),
    "beyond the limit of counting": spread(301, -0.02),
}


def test_changes_of_scores():
    told = {
        name: {
            "change": (change := score_change(values)),
            "is significant": getattr(change, "significant", None),
            "sign flip": sign_flip(values),
            "sign flip, turned round": sign_flip([-value for value in reversed(values)]),
        }
        for name, values in DIFFERENCES.items()
    }
    tails = told_of(expanded_tail, *((pairs,) for pairs in (2, 3, 4, 5, 8, 10, 30, 200, 5000)))
    check_snapshot(HERE / "changes.json", {"changes": told, "tails": tails})


# A run beside its baseline.

PASS, FAIL = (1.0, True), (0.0, False)
BESIDE = {
    "nothing": ([], []),
    "the same": ([PASS, FAIL, (0.5, True)], [PASS, FAIL, (0.5, True)]),
    "every kind": (
        [PASS, FAIL, PASS, FAIL, (0.9, True), (0.4, False), (0.3, True)],
        [FAIL, PASS, PASS, FAIL, (0.8, True), (0.1, False), (0.4, True)],
    ),
    "a lower score alone": ([(0.9, True)] * 9, [(0.8, True)] * 2 + [(0.9, True)] * 7),
    "verdicts alone": ([PASS] * 6, [(1.0, False)] * 6),
    "scores everywhere": ([(0.9, True)] * 8, [(0.85, True)] * 8),
    "one failing": ([PASS], [FAIL]),
    "two failing": ([PASS] * 12, [FAIL] * 2 + [PASS] * 10),
    "five failing": ([PASS] * 12, [FAIL] * 5 + [PASS] * 7),
    "six failing": ([PASS] * 12, [FAIL] * 6 + [PASS] * 6),
    "one failing, score up": ([PASS, FAIL, FAIL], [FAIL, PASS, PASS]),
    "better, not beyond chance": ([FAIL] * 4, [PASS, FAIL, FAIL, FAIL]),
    "better, beyond chance": ([FAIL] * 10, [PASS] * 10),
    "fewer verdicts and better scores": (
        [(0.3, True)] * 7 + [(0.1, False)] * 9,
        [(0.2, False)] * 7 + [(0.9, False)] * 9,
    ),
    "all failing": ([PASS] * 40, [FAIL] * 40),
}
Outcomes = Iterable[tuple[float, bool]]


def a_run(outcomes: Outcomes, **fields: Any) -> EvalSummary:
    tasks = [TaskResult(f"task-{n}", *each) for n, each in enumerate(outcomes, 1)]
    passed = sum(task.passed for task in tasks)
    score = mean([task.score for task in tasks])
    run = EvalSummary("acme.shop.refunds", "1.0.0", score, score > 0.7, len(tasks), passed, tasks)
    return msgspec.structs.replace(run, **fields)


def a_baseline(outcomes: Outcomes) -> Baseline:
    tasks = [BaselineTask(*each) for each in outcomes]
    return Baseline("run_b", mean([task.score for task in tasks]), tasks)


def all_of(report: Any) -> dict[str, Any]:
    """The fields and the properties of a report."""
    kind = type(report)
    named = [
        *kind.__struct_fields__,
        *(n for n in dir(kind) if isinstance(vars(kind).get(n), property)),
    ]
    return {name: getattr(report, name) for name in named}


def test_reports_of_regressions():
    told = {}
    for name, (before, now) in BESIDE.items():
        report = compare_to_baseline(a_run(now), a_baseline(before))
        told[name] = all_of(report) | {"differences": [task.difference for task in report.tasks]}
    told["other numbers of tasks"] = outcome(
        lambda: compare_to_baseline(a_run([PASS]), a_baseline([PASS, FAIL]))
    )
    check_snapshot(HERE / "regressions.json", told)


# Repeats.

SERIES = {
    "one run": [[PASS, FAIL]],
    "no tasks": [[], []],
    "all agree": [[PASS, FAIL], [PASS, FAIL], [PASS, FAIL]],
    "all fail": [[FAIL, FAIL], [FAIL, (0.2, False)]],
    "all pass": [[PASS], [(0.9, True)], [PASS], [PASS], [PASS]],
    "one flaky": [[PASS, FAIL, PASS], [PASS, FAIL, FAIL], [PASS, FAIL, PASS]],
    "two flaky": [[PASS, FAIL, PASS], [FAIL, FAIL, FAIL], [PASS, FAIL, (0.75, True)]],
}


def test_reports_of_repeats():
    told: dict[str, Any] = {}
    for name, series in SERIES.items():
        report = summarise_repeats([a_run(outcomes) for outcomes in series])
        told[name] = all_of(report) | {
            "of tasks": [all_of(task) for task in report.tasks],
            "pass hat": told_of(report.pass_hat, *((k,) for k in range(report.runs + 2))),
            "pass hat of tasks": [
                told_of(task.pass_hat, *((k,) for k in range(report.runs + 2)))
                for task in report.tasks
            ],
        }
    run = a_run([PASS, FAIL])
    refused = {
        "no runs": [],
        "another suite": [run, run, a_run([PASS, FAIL], suite_id="acme.shop.other")],
        "another version": [run, a_run([PASS, FAIL], suite_version="1.0.1")],
        "other tasks": [run, run, a_run([PASS])],
    }
    told["refused"] = {
        name: outcome(lambda runs=runs: summarise_repeats(runs)) for name, runs in refused.items()
    }
    check_snapshot(HERE / "repeats.json", told)


# Bars and budgets.


def test_bars_and_costs():
    costs = [Cost(), Cost(0.5, 2), Cost(0.30000001, 3), Cost(2, 3, 1), Cost(0.1, 3, 3), Cost(5, 1)]
    bars: list[dict[str, Any]] = [
        {},
        {"pass_score": 0.0},
        {"pass_score": 0.95, "max_cost_usd": 0.3},
        {"max_cost_usd": 0.0},
        {"max_cost_usd": 1.23456789, "max_p95_latency_ms": 100},
        {"max_p95_latency_ms": 99, "pass_score": 0.66666666},
    ]
    latencies = [[], [100], [1, 2, 3, *[4] * 17, 400]]
    broken = {
        f"{bar} {cost} {len(measured)}": broken_bars(a_suite(**bar).thresholds, cost, measured)
        for bar in bars
        for cost in costs
        for measured in latencies
    }
    on_results = [*bars, {"pass_rate": 0.6}, {"pass_rate": 0.7, "pass_score": 0.7}]
    missed = {
        f"{bar} {scores}": missed_bars(
            a_suite(**bar),
            {f"task-{n}": TaskResult(f"task-{n}", got, got > 0) for n, got in enumerate(scores, 1)},
        )
        for bar in on_results
        for scores in (
            (1, 1, 1),
            (0.7, 0.7, 0.7),
            (1, 1, 0),
            (0.66666666, 0.66666666, 0),
            (0, 0, 0),
        )
    }
    told = {
        "missed bars": missed,
        "broken bars": broken,
        "totals": [cost.total_usd for cost in costs],
        "exceeded": [
            [cost.exceeds(0.5), cost.exceeds(0.50001, 1), cost.exceeds(1e9, 2)] for cost in costs
        ],
        "why": [
            [cost.why_exceeded(limit).told(IN_LOGS) for limit in (0.5, 1.2345678)] for cost in costs
        ],
        "p95": {count: p95([*range(count)]) for count in (1, 2, 19, 20, 21, 40, 41, 100)},
        "mean": told_of(mean, ([],), ([0.1, 0.2],), ([0.1, 0.2, 0.3],), ([1.0, 0.0, 0.0],)),
        "sum": str(decimal_sum([0.1, 0.2, -0.05])),
        "finite": [finite(decimal_sum([1e308] * 5)), finite(decimal_sum([0.1] * 3))],
        "cost of a task": [
            task_cost([a_usage(cost) for cost in costs])
            for costs in ([], [None], [0.1, None], [0.1, 0.2], [0.0], [1e308, 1e308])
        ],
    }
    check_snapshot(HERE / "bars.json", told)


# Rubrics.


def judged(*verdicts: str, subject: str = "rubric") -> list[Judged]:
    """A judge for each word: `yn` met the first criterion and not the second."""
    return [Judged(subject, "judge", 1, "1", _verdicts(word)) for word in verdicts]


def _verdicts(word: str) -> list[Verdict]:
    return [Verdict(f"c{n}", "so it is", mark == "y") for n, mark in enumerate(word, 1)]


def test_verdicts_of_judges():
    def told(weights: tuple[float, ...], *verdicts: str) -> Any:
        criteria = a_rubric_task(weights=weights).expected.rubric
        return rubric_result(criteria, [*judged("nnn", subject="safety"), *judged(*verdicts)])

    inputs = [
        ((1.0,), "y"),
        ((1.0,), "n"),
        ((0.1, 0.2, 0.7), "yyn"),
        ((0.1, 0.2, 0.7), "nny", "nyy", "yny"),
        ((3.0, 1.0), "yn", "ny"),
        ((3.0, 1.0), "yn", "yy", "nn", "yn"),
        ((3.0, 1.0, 2.0), "yny", "ny"),
        ((1.0, 1.0), "y"),
        ((1.0,),),
    ]
    names = [criterion_name(number) for number in (1, 2, 10)]
    check_snapshot(HERE / "rubrics.json", {"results": told_of(told, *inputs), "names": names})


# Golden strategies.

LONG = "x" * 77
OUTPUTS = [
    "abc",
    "",
    "30 days",
    "within 30 days",
    LONG,
    LONG + "x",
    LONG + "xx",
    "{",
    '{"a": 1.0}',
    {"a": True},
    {"a": 1, "b": 2},
    {"b": {"c": [1, {"d": None}]}},
    [1, 2],
    [1, [2, 3]],
    7,
    None,
    {"odd key": 1},
]
VALUES = ["abd", "", "30 days", LONG + "yy", {"a": 1}, {"b": {"c": [1, {"d": 0}]}}, [1, 3], 7, "{"]


def test_golden_strategies():
    told = {
        f"{name}: {quoted(output)} for {quoted(value)}": [
            golden_score(output, Match(name, value)),
            golden.explain_difference(output, name, value),
        ]
        for name in golden.STRATEGIES
        for output in OUTPUTS
        for value in VALUES
    }
    assertions = {
        f"{name}: {quoted(value)}": golden.golden_assertion(Match(name, value))
        for name in [*golden.STRATEGIES, "newer"]
        for value in [*VALUES, "a]", 'say "so"', "plain"]
    }
    check_snapshot(
        HERE / "golden.json",
        {
            "told": told,
            "assertions": assertions,
            "cannot be told": [
                golden.explain_difference("a", strategy, value)
                for strategy, value in (
                    ("newer", "b"),
                    (None, "b"),
                    (["exact"], "b"),
                    ("json-match", float("nan")),
                    ("exact", {1: 2}),
                )
            ],
        },
    )


def test_problems_of_suites():
    def problems(source: bytes) -> Any:
        try:
            return golden.read_suite(source, "suite.json").suite_id
        except InvalidDocument as error:
            return [str(error), *map(str, error.problems)]

    suites = {
        "good": a_suite(2),
        "rubric": a_suite([a_rubric_task()], modes=["rubric"]),
        "unknown strategies": a_suite(
            [a_task("a", strategy="fuzzy"), a_rubric_task("b"), a_task("c", strategy="none")],
            modes=["golden", "rubric"],
        ),
    }
    told = {name: problems(msgspec.json.encode(suite)) for name, suite in suites.items()}
    told |= {
        f"{name}, as a document": [str(each) for each in golden.check_suite(as_document(suite))]
        for name, suite in suites.items()
    }
    told |= {
        f"{name}, its matches": [str(each) for each in golden.match_problems(suite)]
        for name, suite in suites.items()
    }
    told["no suite"] = problems(b"[]")
    told["no suite, as a document"] = [str(each) for each in golden.check_suite([])]
    check_snapshot(HERE / "suites.json", told)


# Summaries.


def test_summaries():
    suite = a_suite(3, pass_score=0.5, max_cost_usd=1, max_p95_latency_ms=50)
    finding = SafetyFinding("leak", "high")
    told: dict[str, Any] = {}
    for looks in (False, True):
        tally = Tally(suite, "reasoning" if looks else None, looks_for_findings=looks)
        tally.add_findings("task-1", [SafetyFinding("shout", "low")])
        tally.start_again("task-1")
        tally.start_again("task-2")
        tally.add_findings("task-1", [finding])
        tally.add_findings("task-1", [SafetyFinding("slip", "medium")])
        tally.add_score(a_score("task-3", 0.25, latency_ms=70, cost_usd=0.1, schema_valid=False))
        early = [tally.passed_count, tally.cost, tally.spent, tally.broken_bars()]
        tally.add_score(a_score("task-1", latency_ms=40, schema_valid=True))
        tally.add_score(a_score("task-2", 0.5))
        for usage in (a_usage(0.1), a_usage(0.2), *([a_usage(None)] * looks)):
            tally.add_usage(usage)
            tally.add_usage(msgspec.structs.replace(usage, cache_hit=True, cost_estimate_usd=0.01))
        baseline = Baseline("run_b", 0.7, [BaselineTask(0.7, True)] * 3)
        told[f"looks for findings: {looks}"] = {
            "early": early,
            "late": [tally.passed_count, tally.cost, tally.spent, tally.broken_bars()],
            "findings": [tally.findings(f"task-{n}") for n in (1, 2, 3)],
            "results": tally.results,
            "summary": tally.summary("run_a"),
            "summary beside a baseline": tally.summary("run_a", baseline),
            "summary of no name": tally.summary(baseline=baseline),
        }
    check_snapshot(HERE / "summaries.json", told)


@pytest.mark.parametrize(
    ("score", "before", "delta"), [(0.3, 0.1, 0.2), (0.1, 0.3, -0.2), (0.7, 0.7, 0.0)]
)
def test_a_summary_beside_a_baseline_names_it_and_the_way_to_the_difference(score, before, delta):
    tally = Tally(a_suite(1))
    tally.add_score(a_score("task-1", score))
    regression = tally.summary("run_a", Baseline("run_b", before, [])).regression
    assert regression is not None
    assert as_document(regression) == {
        "baselineRunId": "run_b",
        "scoreDelta": delta,
        "diffRef": "/v1/runs/run_a:diff?against=run_b",
    }

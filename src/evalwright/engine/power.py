"""How many tasks and repeats a suite needs, by what its runs measured or what is expected of it."""

from collections.abc import Iterator, Sequence

import msgspec

from evalwright.contracts.errors import BadInput
from evalwright.contracts.messages import phrase
from evalwright.contracts.suite import Suite
from evalwright.engine.baselines import runs_meant, scored_now
from evalwright.engine.history import read_history
from evalwright.scoring.power import (
    REPEATS,
    Measured,
    Rates,
    detectable,
    expected_rates,
    measured,
    tasks_needed,
)
from evalwright.scoring.statistics import LEVEL, Estimate
from evalwright.store.protocol import EventLog

DETECT = 5.0  # points
POWER = 0.8
EXPECTED = (0.5, 0.7, 0.9)  # pass rates that are shown where none is known


class PowerOptions(msgspec.Struct, frozen=True):
    """What is asked of a suite."""

    detect: float = DETECT
    power: float = POWER
    alpha: float = LEVEL
    repeats: int | None = None  # on each side; those of the runs
    expect: float | None = None  # the share of tasks that pass


class Needed(msgspec.Struct, frozen=True):
    """So many tasks with so many repeats find the drop; the costs are those of one side."""

    tasks: int
    repeats: int
    cost_usd: float | None = None
    seconds: float | None = None


class Reach(msgspec.Struct, frozen=True):
    """The smallest drop that so many repeats find; None: not even all tasks that pass."""

    repeats: int
    points: float | None


class Basis(msgspec.Struct, frozen=True):
    """What the answer rests on."""

    suite: str
    runs: list[str]  # ids; empty: the pass rate was expected
    pass_rate: Estimate
    flaky_tasks: int | None = None
    within_variance: float | None = None  # of a task by itself, on average
    between_variance: float | None = None  # of the chances of tasks
    disagreement: float | None = None  # the share of tasks that differ between two runs
    cost_per_task_usd: float | None = None
    seconds_per_task: float | None = None
    detectable_low: float | None = None  # points, if tasks are as steady as they may be
    detectable_high: float | None = None  # if they are as flaky as they may be; None: no drop


class PowerReport(msgspec.Struct, frozen=True):
    """The smallest drop that a suite finds, and what it needs to find another one."""

    tasks: int
    repeats: int
    alpha: float
    power: float
    detect: float
    detectable_points: float | None  # None: not even if all tasks that pass fail
    reach: list[Reach]
    needed: list[Needed]
    cheapest: Needed | None
    basis: Basis


def power_of_suite(suite: Suite, options: PowerOptions) -> Iterator[PowerReport]:
    """What a suite finds that has not been run: by the pass rate that is expected, or by some."""
    tasks = len(suite.tasks)
    _check(options, tasks)
    for rate in EXPECTED if options.expect is None else (options.expect,):
        rates = expected_rates(tasks, rate)
        basis = Basis(f"{suite.suite_id}@{suite.version}", [], Estimate(rate, rate, rate))
        yield _report(Measured(rates, rates, rates, (rate, rate, rate), 0), 1, options, basis)


def power_of_runs(log: EventLog, name: str, options: PowerOptions) -> PowerReport:
    """What a suite finds by its run, or by all repeats that the name means."""
    if options.expect is not None:
        raise BadInput(phrase("{@expect}: a run has its own pass rate; name a suite"))
    histories = [read_history(log, run_id) for run_id in runs_meant(log, name)]
    completed = [each for each in histories if each.status == "completed"]
    if not completed:
        run = histories[-1]
        raise BadInput(f"run {run.run_id} is not complete ({run.status}); name one that is")
    summaries = [scored_now(log, each)[0] for each in completed]
    first, runs = summaries[0], len(summaries)
    _check(options, first.task_count)
    by_task = zip(*(summary.tasks for summary in summaries), strict=True)
    found = measured([sum(each.passed for each in of_task) for of_task in by_task], runs)
    costs = [each.total_cost_usd for each in summaries]
    known = [cost for cost in costs if cost is not None]
    done = first.task_count * runs
    took = sum(each.end.at_us - each.started_at_us for each in completed if each.end is not None)
    basis = Basis(
        f"{first.suite_id}@{first.suite_version}",
        [each.run_id for each in completed],
        Estimate(*found.pass_rate),
        found.flaky if runs > 1 else None,
        found.within,
        found.between,
        None if found.within is None else 2 * found.within,
        sum(known) / done if len(known) == runs else None,
        took / 1e6 / done,
    )
    return _report(found, runs, options, basis)


def _check(options: PowerOptions, tasks: int) -> None:
    if not tasks:
        raise BadInput("the suite has no tasks")
    for name, value in (("power", options.power), ("alpha", options.alpha)):
        if not 0 < value < 1:
            raise BadInput(phrase(f"{{@{name}}}: {value:g} is not between 0 and 1"))
    if not 0 < options.detect <= 100:
        raise BadInput(phrase(f"{{@detect}}: {options.detect:g} is not a drop of 0 to 100 points"))


def _report(found: Measured, runs: int, options: PowerOptions, basis: Basis) -> PowerReport:
    rates, tasks = found.rates, sum(count for _, count in found.rates)
    repeats = options.repeats or runs

    def points(of: Rates, times: int) -> float | None:
        broken = detectable(of, times, options.power, options.alpha)
        return None if broken is None else 100 * broken / tasks

    needed = []
    for times in sorted({*REPEATS, repeats}):
        enough = tasks_needed(rates, options.detect / 100, times, options.power, options.alpha)
        if enough is not None:
            work = enough * times
            cost, seconds = basis.cost_per_task_usd, basis.seconds_per_task
            needed.append(
                Needed(
                    enough,
                    times,
                    None if cost is None else cost * work,
                    None if seconds is None else seconds * work,
                )
            )
    return PowerReport(
        tasks,
        repeats,
        options.alpha,
        options.power,
        options.detect,
        points(rates, repeats),
        [Reach(times, points(rates, times)) for times in sorted({*REPEATS, repeats})],
        needed,
        min(needed, key=lambda each: (each.tasks * each.repeats, each.repeats), default=None),
        msgspec.structs.replace(
            basis,
            detectable_low=points(found.steady, repeats),
            detectable_high=points(found.cautious, repeats),
        ),
    )


def helpful_repeats(reach: Sequence[Reach]) -> int | None:
    """After how many repeats more of them find no smaller drop; None: the last ones still do."""
    best = reach[-1].points
    first = next(each for each in reach if each.points == best)
    return None if first is reach[-1] else first.repeats

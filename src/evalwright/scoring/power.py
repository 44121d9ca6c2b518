"""How small a drop does a suite find? The power of the gate `significant-regression`.

A drop means that some tasks that passed now always fail. What else changes is noise: flaky tasks
that pass here and fail there. Of few flaky tasks the gate is tried on draws of them, the same every
time; of many, their sum is as good as normal. docs/decisions.md has the errors of both.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from math import ceil, comb, exp, sqrt
from random import Random
from statistics import NormalDist
from typing import NamedTuple, TypeAlias

import msgspec

from evalwright.scoring.chance import Passes, chance_of_p, p_of_task, tails
from evalwright.scoring.statistics import LEVEL, Z, mcnemar, wilson

SAMPLES = 4_000
MOST_TASKS = 10_000  # that are proposed
REPEATS = (1, 2, 3, 4, 5, 8, 10)
_FEW = 150  # flaky tasks, of which draws are made
_EXACT = 12  # tables, of which the tails are counted
_NORMAL = NormalDist()

# Tasks by the chance with which they pass: the chance, and how many have it.
Rates: TypeAlias = tuple[tuple[float, int], ...]


class _Cell(NamedTuple):
    """How often a task passed on both sides, and what the test makes of that."""

    passes: Passes
    excess: float
    variance: float
    p_value: float


class _LeftToChance(NamedTuple):
    """A kind of task whose passes are left to chance on one side or on both."""

    before: float
    now: float
    tasks: int


@lru_cache(maxsize=64)
def _cells(baseline_runs: int, runs: int) -> tuple[_Cell, ...]:
    found = []
    for before in range(baseline_runs + 1):
        for now in range(runs + 1):
            passes = Passes(before, baseline_runs, now, runs)
            total, of = before + now, baseline_runs + runs
            variance = total * runs * baseline_runs * (of - total) / (of**2 * (of - 1))
            found.append(_Cell(passes, now - total * runs / of, variance, p_of_task(passes)))
    return tuple(found)


@lru_cache(maxsize=4096)
def _weights(baseline_runs: int, runs: int, before: float, now: float) -> tuple[float, ...]:
    def binomial(of: int, rate: float) -> list[float]:
        return [comb(of, hits) * rate**hits * (1 - rate) ** (of - hits) for hits in range(of + 1)]

    later = binomial(runs, now)
    return tuple(one * other for one in binomial(baseline_runs, before) for other in later)


def gate_power(
    rates: Rates,
    broken: int,
    baseline_runs: int = 1,
    runs: int = 1,
    alpha: float = LEVEL,
    samples: int = SAMPLES,
) -> float:
    """How likely the gate fails a run in which so many tasks, the surest first, always fail."""
    noise, solid, left = [], 0, broken
    for rate, count in sorted(rates, reverse=True):
        falling = min(left, count)
        left -= falling
        if rate >= 1:
            solid = falling
        elif rate > 0:
            noise += [_LeftToChance(rate, 0.0, falling), _LeftToChance(rate, rate, count - falling)]
    kinds = tuple(each for each in noise if each.tasks)
    if sum(each.tasks for each in kinds) > _FEW:
        return _power_of_many(kinds, solid, baseline_runs, runs, alpha)
    drawn = _draws(kinds, baseline_runs, runs, samples if kinds else 1)
    found = sum(
        number * _is_worse(tables, solid, baseline_runs, runs, alpha)
        for tables, number in drawn.items()
    )
    return found / drawn.total()


@lru_cache(maxsize=64)
def _draws(
    kinds: tuple[_LeftToChance, ...], baseline_runs: int, runs: int, samples: int
) -> "Counter[tuple[tuple[int, int], ...]]":
    """Draws of what chance does: which cells how many tasks are in."""
    random = Random(1)  # noqa: S311 - the same draws every time are what is wanted
    places = range((baseline_runs + 1) * (runs + 1))
    weights = [_weights(baseline_runs, runs, each.before, each.now) for each in kinds]
    cumulated = []
    for each in weights:
        total, sums = 0.0, []
        for weight in each:
            total += weight
            sums.append(total)
        cumulated.append(sums)
    drawn: Counter[tuple[tuple[int, int], ...]] = Counter()
    for _ in range(samples):
        tables: Counter[int] = Counter()
        for each, sums in zip(kinds, cumulated, strict=True):
            tables.update(random.choices(places, cum_weights=sums, k=each.tasks))
        drawn[tuple(sorted(tables.items()))] += 1
    return drawn


@lru_cache(maxsize=65_536)
def _is_worse(
    tables: tuple[tuple[int, int], ...], solid: int, baseline_runs: int, runs: int, alpha: float
) -> bool:
    """What the gate says of a draw, with so many tasks that always passed and never pass now."""
    cells = _cells(baseline_runs, runs)
    broken = cells[baseline_runs * (runs + 1)]
    counted = [(cells[place], count) for place, count in tables] + [(broken, solid)]
    excess = sum(cell.excess * count for cell, count in counted)
    if excess < 0:
        if (baseline_runs, runs) == (1, 1):
            fell = sum(count for cell, count in counted if cell.excess < 0)
            rose = sum(count for cell, count in counted if cell.excess > 0)
            p_value = mcnemar(fell, rose)
        elif sum(count for cell, count in counted if cell.variance) <= _EXACT:
            kept: Counter[Passes] = Counter()
            for cell, count in counted:
                kept[cell.passes] += count
            p_value = 2 * min(tails(+kept))
        else:
            variance = sum(cell.variance * count for cell, count in counted)
            p_value = 2 * _NORMAL.cdf((excess + 0.5) / sqrt(variance))
        if p_value < alpha:
            return True
    fallen = {
        cell.p_value
        for cell, count in counted
        if count and cell.p_value < alpha and cell.excess < 0
    }
    for value in fallen:
        found = sum(count for cell, count in counted if cell.p_value <= value)
        expected = sum(count * _chance(cell, value) for cell, count in counted if count)
        if expected <= alpha * found:
            return True
    return False


def _chance(cell: _Cell, value: float) -> float:
    passes = cell.passes
    total = passes.baseline + passes.new
    return chance_of_p(passes.baseline_runs, passes.new_runs, total, value)


def _power_of_many(
    kinds: Sequence[_LeftToChance], solid: int, baseline_runs: int, runs: int, alpha: float
) -> float:
    """The same where the flaky tasks are so many that sums over them are normal."""
    cells = _cells(baseline_runs, runs)
    broken = cells[baseline_runs * (runs + 1)]
    mean = spread = variance = expected = uneven = 0.0
    is_named = solid and broken.p_value < alpha
    for kind in kinds:
        weights = _weights(baseline_runs, runs, kind.before, kind.now)
        first = sum(w * cell.excess for w, cell in zip(weights, cells, strict=True))
        second = sum(w * cell.excess**2 for w, cell in zip(weights, cells, strict=True))
        mean += kind.tasks * first
        spread += kind.tasks * (second - first**2)
        variance += kind.tasks * sum(
            w * cell.variance for w, cell in zip(weights, cells, strict=True)
        )
        if is_named:
            chances = [_chance(cell, broken.p_value) for cell in cells]
            once = sum(w * c for w, c in zip(weights, chances, strict=True))
            expected += kind.tasks * once
            squares = sum(w * c * c for w, c in zip(weights, chances, strict=True))
            uneven += kind.tasks * (squares - once**2)
    critical = _NORMAL.inv_cdf(1 - alpha / 2) * sqrt(variance + solid * broken.variance)
    overall = _NORMAL.cdf((-critical - 0.5 - mean - solid * broken.excess) / sqrt(spread))
    if not is_named:
        return overall
    named, chance = 0.0, exp(-expected)
    for more in range(100):  # flaky tasks that look as if they had changed, too
        room = alpha * (solid + more) - solid * _chance(broken, broken.p_value) - expected
        named += chance * (_NORMAL.cdf(room / sqrt(uneven)) if uneven else float(room >= 0))
        chance *= expected / (more + 1)
    return 1 - (1 - overall) * (1 - named)


def detectable(rates: Rates, repeats: int, power: float = 0.8, alpha: float = LEVEL) -> int | None:
    """The fewest tasks that always fail from now on, and are found so often; None: too many."""
    passing = sum(count for rate, count in rates if rate > 0)
    return _first(
        1,
        passing,
        lambda broken: gate_power(rates, broken, repeats, repeats, alpha) >= power,
    )


def scaled(rates: Rates, tasks: int) -> Rates:
    """As many tasks, of which the same shares pass as often."""
    whole = sum(count for _, count in rates)
    exact = [(rate, count * tasks / whole) for rate, count in rates]
    kept = [[rate, int(count)] for rate, count in exact]
    by_rest = sorted(range(len(exact)), key=lambda at: int(exact[at][1]) - exact[at][1])
    for at in by_rest[: tasks - sum(int(count) for _, count in kept)]:
        kept[at][1] += 1
    return tuple((rate, int(count)) for rate, count in kept if count)


def tasks_needed(
    rates: Rates, drop: float, repeats: int, power: float = 0.8, alpha: float = LEVEL
) -> int | None:
    """The fewest tasks, such as these, of which a drop of that share is found so often."""

    def is_enough(tasks: int) -> bool:
        broken = max(1, int(drop * tasks + 1e-9))  # a smaller drop rather than a larger one
        return gate_power(scaled(rates, tasks), broken, repeats, repeats, alpha, 500) >= power

    return _first(ceil(1 / drop), MOST_TASKS, is_enough)


def _first(low: int, high: int, is_enough: Callable[[int], bool]) -> int | None:
    """The first number that is enough, by steps that double, then by halves."""
    below, tried = low - 1, low
    while tried < high and not is_enough(tried):
        below, tried = tried, min(high, max(tried + 1, round(tried * 1.5)))
    if tried >= high and (high < low or not is_enough(high)):
        return None
    while tried - below > max(1, tried // 100):
        middle = (below + tried) // 2
        if is_enough(middle):
            tried = middle
        else:
            below = middle
    return tried


class Measured(msgspec.Struct, frozen=True):
    """What runs of a suite say of the chances of its tasks."""

    rates: Rates
    steady: Rates  # as little flaky as they may be, by what was seen
    cautious: Rates  # as flaky as they may be
    pass_rate: tuple[float, float, float]  # with its interval
    flaky: int  # tasks that passed sometimes
    within: float | None = None  # variance of a task by itself, on average; None: unknown
    between: float | None = None  # variance of the chances of tasks


def measured(passes: Sequence[int], runs: int) -> Measured:
    """The chances of tasks that passed so often of so many runs.

    What runs agree on by chance hides some flakiness: of N runs a share of 1/N. So flaky tasks
    count N/(N-1) times, in place of tasks that always or never passed, which makes the variance
    of a task by itself unbiased. One run tells nothing of it: none may be flaky, or all.
    """
    tasks, counts = len(passes), Counter(passes)
    rate = sum(passes) / (tasks * runs)
    if runs == 1:
        solid = tuple((float(hit), counts[hit]) for hit in (1, 0) if counts[hit])
        return Measured(solid, solid, ((rate, tasks),), (rate, *wilson(sum(passes), tasks)), 0)
    within = sum(each * (runs - each) for each in passes) / (tasks * runs * (runs - 1))
    mean_square = sum((each / runs - rate) ** 2 for each in passes) / max(1, tasks - 1)
    low, high = wilson(sum(passes), tasks * runs)
    half = Z * sqrt(mean_square / tasks)  # tasks differ: runs of one task are no new ones
    flaky = sum(count for hits, count in counts.items() if 0 < hits < runs)
    least, most = wilson(flaky, tasks)
    hidden = tasks * runs / (runs - 1)
    return Measured(
        _with_flaky(counts, runs, flaky / tasks * hidden),
        _with_flaky(counts, runs, least * hidden),
        _with_flaky(counts, runs, most * hidden),
        (rate, max(0.0, min(low, rate - half)), min(1.0, max(high, rate + half))),
        flaky,
        within,
        max(0.0, mean_square - within / runs),
    )


def _with_flaky(counts: "Counter[int]", runs: int, wanted: float) -> Rates:
    """Tasks by their chances, with so many flaky ones; of the others, the shares that were seen."""
    tasks = counts.total()
    flaky = min(tasks, round(wanted))
    seen = tuple((hits / runs, count) for hits, count in counts.items() if 0 < hits < runs)
    sure = tuple((hits / runs, counts[hits]) for hits in (runs, 0) if counts[hits])
    if not seen:  # as sure as would hide them
        seen = tuple((abs(rate - 0.5 / runs), count) for rate, count in sure)
    if not sure:
        flaky = tasks
    parts = scaled(seen, flaky) if flaky else ()
    return (*parts, *(scaled(sure, tasks - flaky) if tasks > flaky else ()))


def expected_rates(tasks: int, rate: float, flaky: float = 0.2) -> Rates:
    """Tasks of which such a share passes, when a share of them is flaky."""
    of_flaky = 0.5
    sure = rate - flaky * of_flaky
    if not 0 <= sure <= 1 - flaky:
        sure = min(max(sure, 0.0), 1 - flaky)
        of_flaky = (rate - sure) / flaky
    shares = ((1.0, sure), (of_flaky, flaky), (0.0, 1 - flaky - sure))
    whole = tuple((chance, round(1e6 * share)) for chance, share in shares if share > 1e-9)
    return scaled(whole, tasks)

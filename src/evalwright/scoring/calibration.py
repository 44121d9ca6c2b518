"""How good is a judge, by labels of people; and the pass rate without the errors of the judge.

docs/decisions.md has the candidates for the corrected interval, and how often each held the truth.
"""

from collections.abc import Sequence
from math import exp, lgamma, log, log1p, sqrt
from random import Random
from typing import NamedTuple

import msgspec

from evalwright.scoring.statistics import LEVEL, Estimate, Z

_DRAWS = 10_000
_PART = 0.75
_TINY = 1e-300
_STEPS = 300  # of the continued fraction; it ends as soon as nothing changes any more


class Stratum(NamedTuple):
    """Tasks of which the judge says the same: all, those with a label, those that pass by it."""

    tasks: int
    labels: int
    passed: int


class Confusion(NamedTuple):
    """How many labels agree with the judge, and how many do not."""

    both: int  # people and judge: passed
    judge_only: int  # passed by the judge alone: a false pass
    people_only: int  # passed by people alone: a false alarm
    neither: int

    @property
    def labels(self) -> int:
        return sum(self)


def beta_share(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function: the share of a beta distribution below x."""
    if not 0 < x < 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - beta_share(1 - x, b, a)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x)) / a
    # Lentz's method for the continued fraction (Numerical Recipes, 6.4).
    c, d = 1.0, 1 / max(1 - (a + b) * x / (a + 1), _TINY)
    found = d
    for m in range(1, _STEPS):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / ((1 + term * d) or _TINY)
            c = (1 + term / c) or _TINY
            found *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return front * found


def beta_quantile(share: float, a: float, b: float) -> float:
    """Where that share of a beta distribution is below."""
    low, high = 0.0, 1.0
    while high - low > 1e-12:
        middle = (low + high) / 2
        low, high = (middle, high) if beta_share(middle, a, b) < share else (low, middle)
    return (low + high) / 2


def jeffreys(passed: float, of: float) -> Estimate:
    """A rate with Jeffreys' interval, whose end is 0 or 1 where nothing, or all, passed."""
    if of <= 0:
        return Estimate(0.5, 0.0, 1.0)
    a, b = passed + 0.5, of - passed + 0.5
    low = 0.0 if passed <= 1e-9 else beta_quantile(LEVEL / 2, a, b)
    high = 1.0 if of - passed <= 1e-9 else beta_quantile(1 - LEVEL / 2, a, b)
    return Estimate(passed / of, low, high)


def kappa(confusion: Confusion) -> Estimate | None:
    """Cohen's kappa with the interval of Fleiss, Cohen and Everitt; None if chance agrees fully."""
    both, judge_only, people_only, neither = (each / confusion.labels for each in confusion)
    judge, people = both + judge_only, both + people_only
    agreed, chance = both + neither, judge * people + (1 - judge) * (1 - people)
    if chance > 1 - 1e-12:
        return None
    value, rest = (agreed - chance) / (1 - chance), 1 - chance
    diagonal = sum(
        share * (1 - (rows + columns) * (1 - value)) ** 2
        for share, rows, columns in ((both, people, judge), (neither, 1 - people, 1 - judge))
    )
    beside = (1 - value) ** 2 * (
        judge_only * (judge + 1 - people) ** 2 + people_only * (1 - judge + people) ** 2
    )
    spread = diagonal + beside - (value - chance * (1 - value)) ** 2
    error = sqrt(max(0.0, spread) / confusion.labels) / rest
    return Estimate(value, max(-1.0, value - Z * error), min(1.0, value + Z * error))


def corrected(strata: Sequence[Stratum]) -> Estimate:
    """The pass rate of a run, of which some tasks have labels, drawn at random in each stratum.

    The strata are weighed as they are in the run. The interval is Jeffreys' with as many labels as
    would be as exact by themselves, and is narrower the more of the run has labels.
    """
    tasks = sum(each.tasks for each in strata)
    labels = sum(each.labels for each in strata)
    rate = smoothed = variance = 0.0
    for each in strata:
        if each.tasks:
            weight = each.tasks / tasks
            # With a part of a label on each side, so that no stratum is without doubt.
            chance = (each.passed + _PART) / (each.labels + 2 * _PART)
            rate += weight * (each.passed / each.labels if each.labels else chance)
            smoothed += weight * chance
            left = 1 - each.labels / each.tasks
            variance += weight**2 * chance * (1 - chance) / max(each.labels, 1) * left
    left = 1 - labels / tasks
    if left == 0:
        return Estimate(rate, rate, rate)
    alone = jeffreys(rate * (of := smoothed * (1 - smoothed) / variance * left), of)
    narrower = sqrt(left)
    low, high = (rate - (rate - alone.low) * narrower, rate + (alone.high - rate) * narrower)
    return Estimate(rate, low, high)


def transferred(passed: int, tasks: int, confusion: Confusion) -> Estimate | str:
    """The pass rate of a run by what labels of another one say of the judge: Rogan and Gladen's.

    The judge has to make the same errors in both. Where it cannot be told, what is missing.
    """
    passing, failing = (
        confusion.both + confusion.people_only,
        confusion.judge_only + confusion.neither,
    )
    if not passing or not failing:
        missing = "passed" if not passing else "failed"
        return f"no label says that a task {missing}, so the errors of the judge are not known"
    random = Random(1)  # noqa: S311 - the same draws every time are what is wanted

    def rate(raw: float, sensitivity: float, specificity: float) -> float:
        return (raw + specificity - 1) / (sensitivity + specificity - 1)

    found, useless = [], 0
    for _ in range(_DRAWS):
        sensitivity = random.betavariate(confusion.both + 0.5, confusion.people_only + 0.5)
        specificity = random.betavariate(confusion.neither + 0.5, confusion.judge_only + 0.5)
        raw = random.betavariate(passed + 0.5, tasks - passed + 0.5)
        if sensitivity + specificity <= 1:
            useless += 1
        else:
            found.append(rate(raw, sensitivity, specificity))
    if useless > LEVEL / 2 * _DRAWS:
        return "the judge may be no better than chance, so its verdicts cannot be corrected"
    found.sort()
    cut = int(LEVEL / 2 * len(found))
    value = rate(passed / tasks, confusion.both / passing, confusion.neither / failing)
    return Estimate(value, found[cut], found[-1 - cut])


class JudgeQuality(msgspec.Struct, frozen=True):
    """How far a judge agrees with people; None where no label tells."""

    labels: int
    base_rate: Estimate  # of tasks that pass by people
    agreement: Estimate
    kappa: Estimate | None
    sensitivity: Estimate | None  # of the tasks that pass by people, those that the judge passes
    specificity: Estimate | None  # of those that fail, those that the judge fails


def quality(passing: Stratum, failing: Stratum) -> JudgeQuality | None:
    """The agreement of a judge, by the labels of tasks that it passed, and of those it failed.

    Each of the two is weighed as it is in the run, however many labels it has. None where one of
    them has tasks, and no label.
    """
    strata = [each for each in (passing, failing) if each.tasks]
    if not all(each.labels for each in strata):
        return None
    tasks = passing.tasks + failing.tasks
    judge = passing.tasks / tasks

    def figures(of_passing: float, of_failing: float) -> tuple[float | None, ...]:
        both, people_only = judge * of_passing, (1 - judge) * of_failing
        people = both + people_only
        agreed = both + (1 - judge) * (1 - of_failing)
        chance = judge * people + (1 - judge) * (1 - people)
        return (
            people,
            agreed,
            (agreed - chance) / (1 - chance) if chance < 1 - 1e-12 else None,
            both / people if people > 1e-12 else None,
            ((1 - judge) * (1 - of_failing)) / (1 - people) if people < 1 - 1e-12 else None,
        )

    random = Random(1)  # noqa: S311 - the same draws every time are what is wanted
    drawn = [
        figures(
            *(
                random.betavariate(s.passed + 0.5, s.labels - s.passed + 0.5)
                for s in (passing, failing)
            )
        )
        for _ in range(_DRAWS)
    ]
    values = figures(
        *(each.passed / each.labels if each.labels else 0.0 for each in (passing, failing))
    )
    cut = int(LEVEL / 2 * _DRAWS)
    found: list[Estimate | None] = []
    for value, of_all in zip(values, zip(*drawn, strict=True), strict=True):
        known = sorted(each for each in of_all if each is not None)
        if value is None or not known:
            found.append(None)
        else:
            low, high = known[min(cut, len(known) - 1)], known[max(0, len(known) - 1 - cut)]
            found.append(Estimate(value, min(low, value), max(high, value)))
    base_rate, agreement, kappa_, sensitivity, specificity = found
    assert base_rate is not None
    assert agreement is not None
    labels = passing.labels + failing.labels
    return JudgeQuality(labels, base_rate, agreement, kappa_, sensitivity, specificity)


def strata_sizes(sizes: Sequence[int], wanted: int) -> list[int]:
    """How many tasks of each stratum are to be labelled: as many of each, as far as they go."""
    chosen = [0] * len(sizes)
    for _ in range(min(wanted, sum(sizes))):
        left = [at for at, size in enumerate(sizes) if chosen[at] < size]
        fewest = min(chosen[at] for at in left)
        chosen[next(at for at in left if chosen[at] == fewest)] += 1
    return chosen

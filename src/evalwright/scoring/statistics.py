"""Is a change of the pass rate more than chance? Paired cases, an exact test, an interval."""

from math import comb, exp, lgamma, log, sqrt

import msgspec

LEVEL = 0.05
_Z = 1.959963984540054  # of the normal distribution, for an interval of 95 %
_EXACT_UP_TO = 1_000


class PairedChange(msgspec.Struct, frozen=True):
    """Two pass rates over the same cases: the difference, its interval, the chance of it."""

    cases: int
    baseline_rate: float
    new_rate: float
    difference: float
    low: float
    high: float
    p_value: float

    @property
    def significant(self) -> bool:
        """Whether chance alone gives a change like this in less than one of twenty cases."""
        return self.p_value < LEVEL


def paired_change(
    both: int, only_baseline: int, only_new: int, neither: int
) -> PairedChange | None:
    """Compare two pass rates; the numbers are of cases that passed on both sides, one, none."""
    cases = both + only_baseline + only_new + neither
    if cases == 0:
        return None
    baseline, new = (both + only_baseline) / cases, (both + only_new) / cases
    low, high = _interval(both, only_baseline, only_new, neither)
    p_value = mcnemar(only_baseline, only_new)
    return PairedChange(cases, baseline, new, new - baseline, low, high, p_value)


def mcnemar(only_baseline: int, only_new: int) -> float:
    """The two-sided exact McNemar test: a fair coin for each case that changed."""
    changed = only_baseline + only_new
    if changed == 0:
        return 1.0
    smaller = min(only_baseline, only_new)
    if changed <= _EXACT_UP_TO:
        tail = sum(comb(changed, k) for k in range(smaller + 1)) / (1 << changed)
    else:
        tail = sum(exp(_log_probability(changed, k)) for k in range(smaller + 1))
    return min(1.0, 2 * tail)


def _log_probability(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) - n * log(2)


def _interval(both: int, only_baseline: int, only_new: int, neither: int) -> tuple[float, float]:
    """Newcombe's interval for a difference of paired proportions (his method 10)."""
    cases = both + only_baseline + only_new + neither
    baseline_passed, new_passed = both + only_baseline, both + only_new
    baseline, new = baseline_passed / cases, new_passed / cases
    new_low, new_high = wilson(new_passed, cases)
    base_low, base_high = wilson(baseline_passed, cases)
    phi = _correlation(both, only_baseline, only_new, neither)
    down, up = new - new_low, base_high - baseline
    lower = sqrt(max(0.0, down**2 - 2 * phi * down * up + up**2))
    down, up = new_high - new, baseline - base_low
    upper = sqrt(max(0.0, down**2 - 2 * phi * down * up + up**2))
    difference = new - baseline
    return max(-1.0, difference - lower), min(1.0, difference + upper)


def wilson(passed: int, cases: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a single rate."""
    rate = passed / cases
    middle = (rate + _Z**2 / (2 * cases)) / (1 + _Z**2 / cases)
    half = _Z * sqrt(rate * (1 - rate) / cases + _Z**2 / (4 * cases**2)) / (1 + _Z**2 / cases)
    return max(0.0, middle - half), min(1.0, middle + half)


def _correlation(both: int, only_baseline: int, only_new: int, neither: int) -> float:
    margins = (
        (both + only_baseline)
        * (only_new + neither)
        * (both + only_new)
        * (only_baseline + neither)
    )
    if margins == 0:
        return 0.0
    return (both * neither - only_baseline * only_new) / sqrt(margins)

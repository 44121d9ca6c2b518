"""Is a change more than chance? Paired cases, exact tests, intervals for rates."""

from bisect import bisect_left
from collections.abc import Sequence
from math import ceil, comb, erfc, exp, gcd, isclose, lgamma, log, sqrt

import msgspec

LEVEL = 0.05
Z = 1.959963984540054  # of the normal distribution, for an interval of 95 %
_EXACT_UP_TO = 1_000

# The exact sign-flip test counts on a grid. This many steps for the largest difference have halves,
# thirds, sevenths, ninths and hundredths on the grid: nearly all scores are fractions like these.
_STEPS = 50_400
_MOST_STEPS = 20_000
_FLIPS_UP_TO = 300


class Estimate(msgspec.Struct, frozen=True):
    """A value, and where it may be."""

    value: float
    low: float
    high: float


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
        tail = sum(
            exp(lgamma(changed + 1) - lgamma(k + 1) - lgamma(changed - k + 1) - changed * log(2))
            for k in range(smaller + 1)
        )
    return min(1.0, 2 * tail)


def sign_flip(differences: Sequence[float]) -> float:
    """The two-sided sign-flip test: had each difference been as likely to go the other way.

    It is to scores what McNemar's test is to verdicts, and the same where all differences are of
    one size. It is exact for up to 300 cases that changed; above that the normal limit is used.
    """
    changed = [difference for difference in differences if difference]
    if not changed:
        return 1.0
    sizes = [abs(difference) for difference in changed]
    if max(sizes) == min(sizes):
        risen = sum(difference > 0 for difference in changed)
        return mcnemar(len(changed) - risen, risen)
    if len(changed) > _FLIPS_UP_TO:
        return erfc(abs(sum(changed)) / sqrt(2 * sum(size**2 for size in sizes)))
    steps, slack = _on_a_grid([abs(difference) for difference in changed])
    risen = sum(step for step, difference in zip(steps, changed, strict=True) if difference > 0)
    smaller = min(risen, sum(steps) - risen)
    # Of all ways to take some of the steps, the share whose sum is at most the limit.
    # One large number holds how many ways lead to each sum, a fixed width for each. To take or to
    # leave one more step is to add the number to itself, shifted.
    width = len(steps) // 8 + 1  # bytes that hold 2 ** len(steps)
    ways = 1
    for step in steps:
        ways += ways << (8 * width * step)
    counts = ways.to_bytes(width * (sum(steps) + 1), "little")[: width * ((smaller + slack) + 1)]
    found = sum(
        int.from_bytes(counts[at : at + width], "little") for at in range(0, len(counts), width)
    )
    return min(1.0, 2 * (found / (1 << len(steps))))


def more_failures_needed(only_baseline: int, only_new: int, both: int) -> int | None:
    """How many of the cases that passed on both sides would have to fail for the change to tell.

    None if that is more than there are.
    """

    def is_enough(more: int) -> bool:
        failing = only_baseline + more
        return failing > only_new and mcnemar(failing, only_new) < LEVEL

    needed = bisect_left(range(both + 1), True, key=is_enough)  # more is never less sure
    return needed if needed <= both else None


def p_in_words(p_value: float) -> str:
    """A p-value as people write it, on the right side of the level."""
    if p_value < 0.001:
        return "p < 0.001"
    said = f"{p_value:.2g}"
    return f"p < {LEVEL}" if p_value < LEVEL <= float(said) else f"p = {said}"


def _on_a_grid(sizes: Sequence[float]) -> tuple[list[int], int]:
    """The sizes in whole steps, and how many steps apart two sums count as the same."""
    largest = max(sizes)
    exact = [size / largest * _STEPS for size in sizes]
    fine = [round(size) for size in exact]
    step = max(gcd(*fine), ceil(sum(fine) / _MOST_STEPS))
    on_grid = all(
        isclose(size, near, abs_tol=1e-6) and near % step == 0
        for size, near in zip(exact, fine, strict=True)
    )
    return [round(size / step) for size in exact], 0 if on_grid else ceil(sqrt(len(sizes)))


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
    middle = (rate + Z**2 / (2 * cases)) / (1 + Z**2 / cases)
    half = Z * sqrt(rate * (1 - rate) / cases + Z**2 / (4 * cases**2)) / (1 + Z**2 / cases)
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

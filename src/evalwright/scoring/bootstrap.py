"""How large is a change of scores? The paired bootstrap interval of a mean difference.

The interval is the percentile one, widened for few pairs as Student's t is wider than the normal
distribution (Hesterberg's expanded percentile interval): without that, ten pairs get an interval
that misses the truth twice as often as it says. The bias-corrected interval (BCa) is no help here:
a mean has no bias to correct, and BCa is as narrow as the plain one.
"""

from collections.abc import Sequence
from math import exp, lgamma, log, log1p, sqrt
from random import Random
from statistics import NormalDist, fmean

import msgspec

from evalwright.scoring.statistics import LEVEL, Z, sign_flip

RESAMPLES = 10_000
_RESAMPLE_UP_TO = 200  # differences; of more, the mean is as good as normal, skewness allowed for
_SEED = 1
_NORMAL = NormalDist()


class ScoreChange(msgspec.Struct, frozen=True):
    """The mean difference of paired scores: its interval, and the chance of it."""

    pairs: int
    difference: float
    low: float
    high: float
    p_value: float

    @property
    def significant(self) -> bool:
        """Whether the interval leaves 0 out and the sign-flip test agrees.

        Resampling knows only differences that were seen: three that all fell give an interval
        below 0, though a coin gives that in one of four cases. The test is exact there.
        """
        return self.p_value < LEVEL and not self.low <= 0 <= self.high


def score_change(differences: Sequence[float]) -> ScoreChange | None:
    """What is known of the mean of these differences, each from -1 to 1; None if there are none.

    The same differences give the same answer in any order, and turned round the answer is too.
    """
    if not differences:
        return None
    ordered = sorted(differences)
    difference = fmean(ordered)
    low, high = _interval(ordered)
    return ScoreChange(
        pairs=len(ordered),
        difference=difference,
        low=max(-1.0, min(low, difference)),
        high=min(1.0, max(high, difference)),
        p_value=sign_flip(ordered),
    )


def expanded_tail(pairs: int) -> float:
    """The share to cut off at each end of the resampled means, 0.025 for very many pairs."""
    return _NORMAL.cdf(-_expanded_z(pairs))


def _interval(ordered: Sequence[float]) -> tuple[float, float]:
    """The interval; differences turned round are resampled as the same ones."""
    if len(ordered) == 1:
        return -1.0, 1.0  # one pair tells nothing of the spread
    changed = [difference for difference in ordered if difference]
    if not changed:
        return 0.0, 0.0
    if len(changed) > _RESAMPLE_UP_TO:
        # Where the percentiles of resampled means tend to (Cornish and Fisher's first two terms).
        pairs, middle = len(ordered), fmean(ordered)
        variance = fmean((difference - middle) ** 2 for difference in ordered)
        if variance == 0:
            return middle, middle
        third = fmean((difference - middle) ** 3 for difference in ordered)
        z = _expanded_z(pairs)
        tilt = (z**2 - 1) / 6 * third / variance**1.5 / sqrt(pairs)
        error = sqrt(variance / pairs)
        return middle + (tilt - z) * error, middle + (tilt + z) * error
    turned = [-difference for difference in reversed(changed)]
    if turned < changed:
        low, high = _resampled_interval(turned, len(ordered))
        return -high, -low
    return _resampled_interval(changed, len(ordered))


def _resampled_interval(changed: Sequence[float], pairs: int) -> tuple[float, float]:
    """The percentiles of resampled means; only differences other than 0 need to be drawn."""
    random = Random(_SEED)  # noqa: S311 - the same draws every time are what is wanted
    weights = _binomial(pairs, len(changed) / pairs)
    drawn = random.choices(range(pairs + 1), weights, k=RESAMPLES)
    sums = sorted(sum(random.choices(changed, k=count)) for count in drawn)
    cut = int(expanded_tail(pairs) * RESAMPLES)
    return sums[cut] / pairs, sums[-1 - cut] / pairs


def _expanded_z(pairs: int) -> float:
    """Student's t in place of z, and the deviation of a sample in place of that of its pairs."""
    # The quantile for an interval of 95 % (Abramowitz and Stegun, 26.7.5).
    freedom = pairs - 1
    z = Z
    terms = [
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92_160,
    ]
    return sum(term / float(freedom) ** power for power, term in enumerate(terms)) * sqrt(
        pairs / (pairs - 1)
    )


def _binomial(cases: int, chance: float) -> list[float]:
    if chance == 1:
        return [0.0] * cases + [1.0]
    return [
        exp(
            lgamma(cases + 1)
            - lgamma(hits + 1)
            - lgamma(cases - hits + 1)
            + hits * log(chance)
            + (cases - hits) * log1p(-chance)
        )
        for hits in range(cases + 1)
    ]

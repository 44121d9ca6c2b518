"""How far judgements agree: runs of one judge with each other, and judges with each other.

All scores here are percentages. Judges differ in level as well as in order, so their scores are
shown beside each other and never averaged into one.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import cos, pi, sin, sqrt
from statistics import correlation, fmean, stdev

import msgspec

CONFIDENCE = 0.95
FEWEST_TO_RANK = 3  # two prompts are always in perfect order, or in perfect disorder


class RunSpread(msgspec.Struct, frozen=True):
    """One prompt judged several times by one judge; a single run tells nothing of the spread."""

    runs: int
    mean: float
    passes: int
    sd: float | None = None
    low: float | None = None  # the 95 % interval of the mean, by Student's t
    high: float | None = None
    flip_rate: float | None = None  # how likely two runs differ in pass and fail


class JudgeLevel(msgspec.Struct, frozen=True):
    """One judge among several; the offset is from the mean of all, over prompts that all judged."""

    judge: str
    prompts: int
    mean: float
    offset: float | None


class PairAgreement(msgspec.Struct, frozen=True):
    """Two judges on the prompts that both judged."""

    first: str
    second: str
    prompts: int
    mean_difference: float  # first minus second: whether one is milder
    mean_absolute_difference: float  # how far apart they are on a prompt
    rank_correlation: float | None  # Spearman's: whether they put prompts in the same order
    same_verdict: float  # the share of prompts that pass with both, or fail with both


class PanelAgreement(msgspec.Struct, frozen=True):
    """Several judges; `shared` is the number of prompts that all of them judged."""

    shared: int
    judges: tuple[JudgeLevel, ...]
    pairs: tuple[PairAgreement, ...]


def run_spread(
    percentages: Sequence[float], threshold: float, verdicts: Sequence[bool] | None = None
) -> RunSpread:
    """What several runs say together; `ValueError` without a run.

    `verdicts` say which of them passed, where that is more than a matter of the threshold.
    """
    runs = len(percentages)
    if not runs:
        raise ValueError("no runs: give the score of at least one")
    mean = fmean(percentages)
    passed = (percentage >= threshold for percentage in percentages)
    passes = sum(passed if verdicts is None else verdicts)
    if runs == 1:
        return RunSpread(runs, mean, passes)
    sd = stdev(percentages)
    half = t_quantile(runs - 1) * sd / sqrt(runs)
    flips = 2 * passes * (runs - passes) / (runs * (runs - 1))
    low, high = max(0.0, mean - half), min(100.0, mean + half)
    return RunSpread(runs, mean, passes, sd, low, high, flips)


def run_noise(by_prompt: Sequence[Sequence[float]]) -> float | None:
    """The standard deviation of one run around its prompt's mean, pooled over prompts.

    None if no prompt was judged twice.
    """
    repeated = [runs for runs in by_prompt if len(runs) > 1]
    freedom = sum(len(runs) - 1 for runs in repeated)
    if not freedom:
        return None
    return sqrt(sum((len(runs) - 1) * stdev(runs) ** 2 for runs in repeated) / freedom)


def panel_agreement(
    by_judge: Mapping[str, Mapping[str, float]], threshold: float
) -> PanelAgreement:
    """Compare judges by their percentages for each prompt, the mean of runs where there are many.

    Judges without a score are left out.
    """
    scored = {judge: held for judge, held in by_judge.items() if held}
    held_by_all = set.intersection(*(set(held) for held in scored.values())) if scored else set()
    shared = sorted(held_by_all)
    of_all = [held[prompt] for held in scored.values() for prompt in shared]
    levels = [
        JudgeLevel(
            judge,
            len(own),
            fmean(own.values()),
            fmean(own[prompt] for prompt in shared) - fmean(of_all) if shared else None,
        )
        for judge, own in scored.items()
    ]
    pairs = []
    for one, other in combinations(scored, 2):
        prompts = sorted(set(scored[one]) & set(scored[other]))
        if not prompts:
            continue
        first = [scored[one][prompt] for prompt in prompts]
        second = [scored[other][prompt] for prompt in prompts]
        both = list(zip(first, second, strict=True))
        agreement = PairAgreement(
            one,
            other,
            len(prompts),
            mean_difference=fmean(a - b for a, b in both),
            mean_absolute_difference=fmean(abs(a - b) for a, b in both),
            rank_correlation=rank_correlation(first, second),
            same_verdict=fmean((a >= threshold) == (b >= threshold) for a, b in both),
        )
        pairs.append(agreement)
    return PanelAgreement(len(shared), tuple(levels), tuple(pairs))


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Spearman's rank correlation; None for too few values, or where one side is all the same."""
    if len(first) < FEWEST_TO_RANK or len(set(first)) == 1 or len(set(second)) == 1:
        return None
    return correlation(_ranks(first), _ranks(second))


def t_quantile(freedom: int, confidence: float = CONFIDENCE) -> float:
    """How many standard errors to both sides hold that share of Student's t distribution."""
    low, high = 0.0, pi / 2
    for _ in range(60):  # the angle is halved until a float has no more digits
        middle = (low + high) / 2
        if _share_within(middle, freedom) < confidence:
            low = middle
        else:
            high = middle
    return sqrt(freedom) * sin(low) / cos(low)


def _share_within(angle: float, freedom: int) -> float:
    """P(|T| < t) where the angle is atan(t / sqrt(freedom)); exact for whole degrees of freedom."""
    is_odd = freedom % 2
    term = cos(angle) if is_odd else 1.0
    total = 0.0
    for step in range(2 + is_odd, freedom + 1, 2):
        total += term
        term *= cos(angle) ** 2 * (step - 1) / step
    if is_odd:
        return (angle + sin(angle) * total) * 2 / pi
    return sin(angle) * total


def _ranks(values: Sequence[float]) -> list[float]:
    places: dict[float, list[int]] = {}
    for place, value in enumerate(sorted(values), 1):
        places.setdefault(value, []).append(place)
    return [fmean(places[value]) for value in values]

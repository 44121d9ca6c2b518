"""How good a judge is by labels: beside SciPy, by hand, and by simulation."""

import random
import runpy
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import beta

from evalwright.scoring.calibration import (
    Confusion,
    Stratum,
    beta_quantile,
    beta_share,
    corrected,
    jeffreys,
    kappa,
    quality,
    strata_sizes,
    transferred,
)

BENCH: dict[str, Any] = runpy.run_path(
    str(Path(__file__).parents[2] / "benchmarks" / "evidence" / "bench.py")
)
TASKS, RUNS = 1000, 200
NOISE = 0.046  # three standard errors of a coverage of 0.95 in so many runs


@pytest.mark.parametrize("a", [0.5, 1.5, 20.5, 300.2])
@pytest.mark.parametrize("b", [0.5, 3.5, 999.5])
def test_the_beta_distribution_is_scipys(a: float, b: float) -> None:
    for share in (0.025, 0.5, 0.975):
        assert beta_quantile(share, a, b) == pytest.approx(beta.ppf(share, a, b), abs=1e-9)
    for x in (0.0, 0.01, 0.3, 0.99, 1.0):
        assert beta_share(x, a, b) == pytest.approx(beta.cdf(x, a, b), abs=1e-9)


def test_jeffreys_interval_ends_at_nothing_and_all() -> None:
    assert jeffreys(0, 10).low == 0
    assert jeffreys(10, 10).high == 1
    assert jeffreys(0, 0).high - jeffreys(0, 0).low == 1
    found = jeffreys(8, 10)
    assert (found.low, found.high) == pytest.approx(beta.ppf([0.025, 0.975], 8.5, 2.5))


def test_kappa_is_that_of_the_textbook() -> None:
    """J. Cohen, 1960; 0.7 agree, 0.5 would by chance."""
    found = kappa(Confusion(20, 5, 10, 15))
    assert found is not None
    assert found.value == pytest.approx(0.4)
    assert found.low < 0.4 < found.high
    assert kappa(Confusion(10, 0, 0, 0)) is None
    perfect = kappa(Confusion(10, 0, 0, 10))
    assert perfect is not None
    assert (perfect.value, perfect.high) == (1, 1)


@pytest.mark.parametrize(
    ("cell", "widest"),
    [
        ((30, 0.9, 0.6, 0.6), 1.2),
        ((30, 0.97, 0.8, 0.8), 1.2),
        ((30, 0.5, 0.99, 0.6), 1.05),
        ((100, 0.5, 0.95, 0.95), 0.6),
        ((100, 0.8, 0.95, 0.95), 0.6),
        ((100, 0.97, 0.99, 0.99), 1.2),
        ((300, 0.7, 0.6, 0.99), 1.05),
    ],
)
def test_the_corrected_interval_holds_the_truth_and_is_not_too_wide(
    cell: tuple[int, float, float, float], widest: float
) -> None:
    """`make bench-evidence` has every cell."""
    held, width = BENCH["corrected_rates"](BENCH["Judged"](*cell), RUNS, random.Random(9))
    assert held >= 0.93 - NOISE
    assert width <= widest


def test_where_all_tasks_have_labels_the_rate_is_known() -> None:
    found = corrected([Stratum(6, 6, 5), Stratum(4, 4, 1)])
    assert (found.low, found.value, found.high) == (0.6, 0.6, 0.6)


def test_labels_of_another_run_correct_by_rogan_and_gladen() -> None:
    confusion = Confusion(both=90, judge_only=20, people_only=10, neither=80)
    found = transferred(600, 1000, confusion)
    assert not isinstance(found, str)
    assert found.value == pytest.approx((0.6 + 0.8 - 1) / (0.9 + 0.8 - 1))
    assert found.low < found.value < found.high
    assert "no label says that a task failed" in str(transferred(6, 10, Confusion(5, 0, 2, 0)))
    assert "no better than chance" in str(transferred(6, 10, Confusion(5, 5, 5, 5)))


def test_the_transferred_interval_holds_the_truth() -> None:
    dice, held, runs = random.Random(6), 0, 150
    for _ in range(runs):
        passing, failing = 60, 40
        both = sum(dice.random() < 0.9 for _ in range(passing))
        neither = sum(dice.random() < 0.85 for _ in range(failing))
        truth = [dice.random() < 0.6 for _ in range(TASKS)]
        raw = sum(dice.random() < 0.9 if right else dice.random() >= 0.85 for right in truth)
        confusion = Confusion(both, failing - neither, passing - both, neither)
        found = transferred(raw, TASKS, confusion)
        assert not isinstance(found, str)
        held += found.low <= sum(truth) / TASKS <= found.high
    assert held / runs >= 0.95 - 3 * (0.95 * 0.05 / runs) ** 0.5


def test_quality_weighs_labels_by_what_the_run_has() -> None:
    """As many labels of each verdict, though the judge passed four of five tasks."""
    found = quality(Stratum(800, 50, 45), Stratum(200, 50, 10))
    assert found is not None
    assert found.labels == 100
    assert found.agreement.value == pytest.approx(0.8 * 0.9 + 0.2 * 0.8)
    assert found.base_rate.value == pytest.approx(0.8 * 0.9 + 0.2 * 0.2)
    assert found.sensitivity is not None
    assert found.specificity is not None
    assert found.sensitivity.value == pytest.approx(0.72 / 0.76)
    assert found.specificity.value == pytest.approx(0.16 / 0.24)
    assert quality(Stratum(800, 50, 45), Stratum(200, 0, 0)) is None
    sure = quality(Stratum(10, 5, 5), Stratum(0, 0, 0))
    assert sure is not None
    assert (sure.kappa, sure.specificity) == (None, None)


def test_strata_are_labelled_evenly_as_far_as_they_go() -> None:
    assert strata_sizes([100, 3, 50], 20) == [9, 3, 8]
    assert strata_sizes([2, 1], 20) == [2, 1]

"""How small a drop a suite finds: beside SciPy, and beside the gate itself, simulated."""

import random
import runpy
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import binom

from evalwright.scoring.chance import Passes
from evalwright.scoring.power import (
    MOST_TASKS,
    _cells,
    _weights,
    detectable,
    expected_rates,
    gate_power,
    measured,
    scaled,
    tasks_needed,
)

BENCH: dict[str, Any] = runpy.run_path(
    str(Path(__file__).parents[2] / "benchmarks" / "evidence" / "bench.py")
)
PAIRS = 400
NOISE = 3 * (0.25 / PAIRS) ** 0.5  # three standard errors of the simulation


@pytest.mark.parametrize(
    "cell",
    [
        (20, 0.8, 0.25, 1),
        (20, 0.98, 0.5, 2),
        (60, 0.5, 0.1, 5),
        (60, 0.9, 1e-9, 1),
        (200, 0.8, 0.5, 2),
        (600, 0.8, 0.5, 1),
    ],
)
def test_the_predicted_power_is_that_of_the_gate(cell: tuple[int, float, float, int]) -> None:
    """`make bench-evidence` has all cells, with more pairs."""
    dice = random.Random(7)
    ((_, _, predicted, found),) = BENCH["power_errors"]([BENCH["Cell"](*cell)], PAIRS, dice)
    assert predicted == pytest.approx(found, abs=BENCH["POINTS"] + NOISE)


def test_draws_are_weighed_as_scipy_weighs_them() -> None:
    weights = _weights(3, 2, 0.7, 0.4)
    expected = [binom.pmf(b, 3, 0.7) * binom.pmf(n, 2, 0.4) for b in range(4) for n in range(3)]
    assert weights == pytest.approx(expected)
    assert [cell.passes for cell in _cells(3, 2)][:4] == [
        Passes(0, 3, 0, 2),
        Passes(0, 3, 1, 2),
        Passes(0, 3, 2, 2),
        Passes(1, 3, 0, 2),
    ]


@pytest.mark.parametrize(("runs", "broken"), [(1, 6), (2, 3), (4, 1)])
def test_without_flaky_tasks_the_gate_decides_for_certain(runs: int, broken: int) -> None:
    rates = ((1.0, 40), (0.0, 10))
    assert gate_power(rates, broken, runs, runs) == 1
    assert gate_power(rates, broken - 1, runs, runs) == 0
    assert detectable(rates, runs) == broken


def test_without_a_change_false_alarms_are_rare() -> None:
    for flaky in (0.2, 0.5, 1.0):
        for runs in (1, 2, 5):
            assert gate_power(expected_rates(60, 0.6, flaky), 0, runs, runs) <= 0.05


def test_more_is_found_with_more_repeats_tasks_and_steadiness() -> None:
    rates = expected_rates(100, 0.8, 0.3)
    found = [gate_power(rates, 6, runs, runs) for runs in (1, 2, 4)]
    assert found == sorted(found)
    assert found[0] < found[-1]
    assert gate_power(expected_rates(100, 0.8, 0.1), 6) > found[0]
    alone = tasks_needed(rates, 0.05, 1)
    repeated = tasks_needed(rates, 0.05, 3)
    assert alone is not None
    assert repeated is not None
    assert repeated < alone
    broken = int(0.05 * alone + 1e-9)
    assert gate_power(scaled(rates, alone), broken) >= 0.77
    assert tasks_needed(((0.5, 1),), 0.0005, 1) is None  # not with so many tasks as are proposed
    assert MOST_TASKS == 10_000


def test_drops_that_no_test_can_see_are_not_promised() -> None:
    assert detectable(((1.0, 5),), 1) is None
    assert detectable(((0.0, 5),), 1) is None
    assert detectable(((1.0, 5),), 4) == 1


def test_what_repeats_measure_is_unbiased() -> None:
    """The variance of a task by itself, also in the chances that are taken for true."""
    dice = random.Random(3)
    true = [rate for rate, count in expected_rates(200, 0.8, 0.4) for _ in range(count)]
    exact = sum(each * (1 - each) for each in true) / len(true)
    within, modelled = [], []
    for _ in range(100):
        found = measured([sum(dice.random() < each for _ in range(3)) for each in true], 3)
        assert found.within is not None
        within.append(found.within)
        modelled.append(sum(rate * (1 - rate) * count for rate, count in found.rates) / 200)
    assert sum(within) / 100 == pytest.approx(exact, rel=0.05)
    assert sum(modelled) / 100 == pytest.approx(exact, rel=0.05)


def test_one_run_leaves_open_how_flaky_tasks_are() -> None:
    found = measured([1] * 45 + [0] * 15, 1)
    assert found.rates == found.steady == ((1.0, 45), (0.0, 15))
    assert found.cautious == ((0.75, 60),)
    assert (found.within, found.between) == (None, None)
    assert found.pass_rate[1] < 0.75 < found.pass_rate[2]


def test_a_group_says_how_flaky_tasks_may_be() -> None:
    found = measured([4] * 30 + [3] * 5 + [0] * 5, 4)
    flaky = {
        name: sum(count for rate, count in each if 0 < rate < 1)
        for name, each in (
            ("rates", found.rates),
            ("steady", found.steady),
            ("cautious", found.cautious),
        )
    }
    assert flaky["steady"] < flaky["rates"] == 7 < flaky["cautious"]
    assert all(sum(count for _, count in each) == 40 for each in (found.rates, found.cautious))
    steady = measured([4] * 40, 4)
    assert (steady.flaky, steady.rates) == (0, ((1.0, 40),))
    assert sum(count for rate, count in steady.cautious if 0 < rate < 1) > 0
    assert measured([2] * 10, 4).rates == ((0.5, 10),)


@pytest.mark.parametrize("rate", [0.0, 0.05, 0.5, 0.9, 0.98, 1.0])
def test_expected_tasks_pass_as_often_as_is_said(rate: float) -> None:
    rates = expected_rates(1000, rate)
    assert sum(count for _, count in rates) == 1000
    assert sum(chance * count for chance, count in rates) / 1000 == pytest.approx(rate, abs=2e-3)

"""What `evalwright power`, `calibrate` and `mutants` promise, measured, beside each goal.

    python benchmarks/evidence/bench.py [--pairs 2000] [--seed 1]

Pairs of runs are drawn as in `bench-chance`, and given to the gate that the product uses; how often
it fails them is set beside what `power` predicts from the same chances.
"""

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from evalwright.agents.python import PythonAgent
from evalwright.contracts.run_plan import RunOptions
from evalwright.contracts.suite import Expected, Suite, Task
from evalwright.engine.mutants import MutantOptions, Mutants
from evalwright.engine.session import Session
from evalwright.scoring.calibration import Stratum, corrected
from evalwright.scoring.chance import ChangeTally, Passes
from evalwright.scoring.power import Rates, detectable, expected_rates, gate_power, measured
from evalwright.scoring.statistics import LEVEL
from evalwright.store.sqlite.log import SqliteLog

POINTS = 0.04  # that a predicted power may be off
MUTANTS, MUTANTS_S = 10_000, 3.0
TASKS = 1_000  # of a run that is judged


class Cell(NamedTuple):
    """Tasks, the share that passes, the share that is flaky, runs on each side."""

    tasks: int
    passing: float
    flaky: float
    runs: int

    @property
    def rates(self) -> Rates:
        return expected_rates(self.tasks, self.passing, self.flaky)


CELLS = [
    Cell(tasks, passing, flaky, runs)
    for tasks in (20, 60, 200, 600, 2000)
    for passing in (0.5, 0.8, 0.98)
    for flaky in (1e-9, 0.1, 0.25, 0.5)
    for runs in (1, 2, 5)
    if tasks * runs <= 2000
]


def is_worse(rates: Rates, broken: int, runs: int, dice: random.Random) -> bool:
    """Whether the gate fails a pair in which the surest tasks, so many, never pass any more."""
    tally, left, number = ChangeTally(), broken, 0
    for rate, count in sorted(rates, reverse=True):
        for _ in range(count):
            number += 1
            later, left = (0.0, left - 1) if left else (rate, 0)
            before, now = (sum(dice.random() < each for _ in range(runs)) for each in (rate, later))
            tally.add([(str(number), Passes(before, runs, now, runs))])
    return tally.verdict().is_worse


def simulated(cell: Cell, broken: int, pairs: int, dice: random.Random) -> float:
    return sum(is_worse(cell.rates, broken, cell.runs, dice) for _ in range(pairs)) / pairs


def power_errors(
    cells: list[Cell], pairs: int, dice: random.Random
) -> Iterator[tuple[Cell, int, float, float]]:
    """Of each cell, the smallest drop that is found in half of the pairs: predicted, simulated."""
    for cell in cells:
        broken = detectable(cell.rates, cell.runs, 0.5)
        if broken is not None:
            predicted = gate_power(cell.rates, broken, cell.runs, cell.runs)
            yield cell, broken, predicted, simulated(cell, broken, pairs, dice)


class Judged(NamedTuple):
    """How many labels of 1,000 tasks, the share that passes, sensitivity, specificity."""

    labels: int
    passing: float
    sensitivity: float
    specificity: float


JUDGED = [
    Judged(labels, passing, *judge)
    for labels in (30, 100, 300)
    for passing in (0.3, 0.5, 0.8, 0.9, 0.97)
    for judge in ((0.6, 0.6), (0.8, 0.8), (0.95, 0.95), (0.99, 0.99), (0.6, 0.99), (0.99, 0.6))
]


def corrected_rates(cell: Judged, runs: int, dice: random.Random) -> tuple[float, float]:
    """How often the corrected interval holds the truth, and its width beside the labels' own."""
    held, width, alone = 0, 0.0, 0.0
    for _ in range(runs):
        truth = [dice.random() < cell.passing for _ in range(TASKS)]
        judge = [
            dice.random() < cell.sensitivity if right else dice.random() >= cell.specificity
            for right in truth
        ]
        labelled = dice.sample(range(TASKS), cell.labels)
        strata = []
        for said in (True, False):
            of = [truth[at] for at in labelled if judge[at] == said]
            strata.append(Stratum(judge.count(said), len(of), sum(of)))
        found = corrected(strata)
        held += found.low - 1e-9 <= sum(truth) / TASKS <= found.high + 1e-9
        of_labels = corrected([Stratum(TASKS, cell.labels, sum(truth[at] for at in labelled))])
        width, alone = width + found.high - found.low, alone + of_labels.high - of_labels.low
    return held / runs, width / alone


def mutants_in_time() -> tuple[int, float]:
    """How many mutants of three deterministic checks, and how many seconds of CPU they take."""
    checks = [{"contains": "shipped"}, {"regex": "costs"}, {"contains": "A-17"}]
    tasks = [Task(f"t{n}", f"{n}?", Expected("checks", checks=checks)) for n in range(900)]
    suite = Suite("bench.evals.mutants", "1.0.0", ["golden"], tasks)
    answer = "Order A-17 was shipped to Kim on 3 November and costs 14.50 euros for 12 parts."
    with tempfile.TemporaryDirectory() as folder, SqliteLog(Path(folder) / "log.db") as log:
        agent = PythonAgent(
            lambda _task: answer, ref="bench", agent_id="local.bench", model_class=None
        )
        session = Session(agent, RunOptions())
        outcomes = asyncio.run(session.run(log, session.plan(suite, "suite", log)))
        start = time.process_time()
        options = MutantOptions(most=MUTANTS)
        counted = Mutants(log, outcomes[0].run_id, options).report().counted
        return counted, time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    dice = random.Random(options.seed)
    print("tasks  passing  flaky  runs  broken  predicted  simulated")
    errors = []
    for cell, broken, predicted, found in power_errors(CELLS, options.pairs, dice):
        errors.append(abs(predicted - found))
        shown = f"{cell.tasks:5}  {cell.passing:7.0%}  {cell.flaky:5.0%}  {cell.runs:4}"
        print(f"{shown}  {broken:6}  {predicted:9.3f}  {found:9.3f}", flush=True)
    print(f"largest error {max(errors):.3f}, goal {POINTS} and the noise of {options.pairs} pairs")
    alarms = [simulated(cell, 0, options.pairs, dice) for cell in CELLS if cell.tasks <= 200]
    print(f"false alarms, at most {max(alarms):.3f}, goal {LEVEL}")
    biases = []
    for runs in (2, 4):
        true = [rate for rate, count in expected_rates(60, 0.8, 0.4) for _ in range(count)]
        within = [
            measured([sum(dice.random() < each for _ in range(runs)) for each in true], runs).within
            for _ in range(options.pairs)
        ]
        exact = sum(each * (1 - each) for each in true) / len(true)
        biases.append(sum(each or 0.0 for each in within) / len(within) / exact - 1)
    print(f"bias of the variance within tasks {max(map(abs, biases)):.3f}, goal 0")
    rates = {cell: corrected_rates(cell, options.pairs, dice) for cell in JUDGED}
    for cell, (held, width) in rates.items():
        print(
            f"{cell.labels:3} labels, {cell.passing:.0%} pass, judge {cell.sensitivity:g}/"
            f"{cell.specificity:g}: holds the truth {held:.3f}, width {width:.3f}",
            flush=True,
        )
    print(
        f"corrected rates: hold the truth {min(held for held, _ in rates.values()):.3f}, goal 0.93"
    )
    few = [w for cell, (_, w) in rates.items() if cell.labels * (1 - cell.passing) < 5]
    many = [w for cell, (_, w) in rates.items() if cell.labels * (1 - cell.passing) >= 5]
    print(f"width beside the labels' own: {max(many):.3f}, goal 1.05; with few {max(few):.3f}, 1.2")
    counted, seconds = mutants_in_time()
    print(f"{counted:,} mutants in {seconds:.2f} s of CPU, goal {MUTANTS:,} in {MUTANTS_S:g} s")


if __name__ == "__main__":
    main()

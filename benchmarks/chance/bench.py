"""How often a pair of runs is called worse, or better, beyond chance: by the test, and by others.

    python benchmarks/chance/bench.py [--pairs 1000] [--seed 1]

Pairs are drawn as agents give them: each task passes by its own chance, which is 0 or 1 for some of
the tasks and anything between for the flaky ones. Where nothing has changed, every alarm is false.
Where something has, each task that it hits passes less often, or never again.
"""

import argparse
import random
from collections.abc import Callable
from typing import NamedTuple

from evalwright.scoring.chance import Passes, change_verdict
from evalwright.scoring.statistics import LEVEL, mcnemar, sign_flip


class Setting(NamedTuple):
    """Tasks, runs on both sides, the share of tasks that are flaky."""

    tasks: int
    before: int
    now: int
    flaky: float


SETTINGS = [
    Setting(tasks, *runs, flaky)
    for tasks in (10, 40, 200)
    for runs in ((1, 1), (1, 5), (5, 5))
    for flaky in (0.2, 1.0)
] + [Setting(10, 20, 20, 1.0)]
Pair = list[tuple[list[bool], list[bool]]]


def drawn(setting: Setting, change: Callable[[int, float], float], dice: random.Random) -> Pair:
    """The verdicts of each task in the runs of both sides."""
    pair = []
    for number in range(setting.tasks):
        steady = float(dice.random() < 0.85)
        chance = dice.betavariate(2, 2) if dice.random() < setting.flaky else steady
        later = change(number, chance)
        before = [dice.random() < chance for _ in range(setting.before)]
        pair.append((before, [dice.random() < later for _ in range(setting.now)]))
    return pair


def by_test(pair: Pair) -> str:
    """What the product says."""
    verdict = change_verdict(
        {
            str(number): Passes(sum(before), len(before), sum(now), len(now))
            for number, (before, now) in enumerate(pair)
        }
    )
    return "worse" if verdict.is_worse else "better" if verdict.is_better else ""


def by_either(pair: Pair) -> str:
    """What was said before: each run against the first of the baseline, passes or scores."""
    for place in range(len(pair[0][1])):
        fell = sum(before[0] and not now[place] for before, now in pair)
        rose = sum(now[place] and not before[0] for before, now in pair)
        level = LEVEL / len(pair[0][1])
        if mcnemar(fell, rose) < level:
            return "worse" if fell > rose else "better"
    return ""


def by_scores(pair: Pair) -> str:
    """The sign-flip test of mean scores alone."""
    differences = [sum(now) / len(now) - sum(before) / len(before) for before, now in pair]
    if sign_flip(differences) >= LEVEL:
        return ""
    return "worse" if sum(differences) < 0 else "better"


def same(_: int, chance: float) -> float:
    """Nothing has changed."""
    return chance


def one_broke(number: int, chance: float) -> float:
    """One task never passes again, and it always did."""
    return 0.0 if number == 0 else chance


def a_tenth_worse(_: int, chance: float) -> float:
    """Every task passes a tenth less often."""
    return 0.9 * chance


def main() -> None:
    """Print a table for each kind of change."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    tests = {"test": by_test, "each run alone": by_either, "scores": by_scores}
    for change in (same, one_broke, a_tenth_worse):
        print(f"\n{change.__doc__} Pairs called worse, better (%), of {asked.pairs}:\n")
        print(f"{'tasks':>5} {'runs':>6} {'flaky':>6}" + "".join(f"{name:>22}" for name in tests))
        for setting in SETTINGS:
            dice = random.Random(asked.seed)
            counts = {name: {"worse": 0, "better": 0, "": 0} for name in tests}
            for _ in range(asked.pairs):
                pair = drawn(setting, change, dice)
                if change is one_broke:
                    pair[0] = [True] * setting.before, [False] * setting.now
                for name, test in tests.items():
                    counts[name][test(pair)] += 1
            shares = "".join(
                f"{100 * each['worse'] / asked.pairs:14.1f}"
                f"{100 * each['better'] / asked.pairs:8.1f}"
                for each in counts.values()
            )
            runs = f"{setting.before}:{setting.now}"
            print(f"{setting.tasks:5} {runs:>6} {setting.flaky:6.0%}{shares}")


if __name__ == "__main__":
    main()

"""What a user's jobs cost beside the last tag: CPU of both, by turns, and the ratio.

    python benchmarks/old/bench.py                     # beside the last tag
    python benchmarks/old/bench.py --short             # smaller jobs; fails above 1.25 times
    python benchmarks/old/bench.py --old 1a82f31 --only compare

Each tree is installed without development tools, as a user has it. The best of five counts: what
others do to the machine only slows down.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from trees import NoOldTreeError, old_commit, old_tree, this_tree

BENCHMARKS = Path(__file__).parents[1]
sys.path[:0] = [str(BENCHMARKS / name) for name in (".", "compare", "prompteval_lint")]

from jobs import JOBS, Job  # noqa: E402 - what it needs is found only now

from measure import NotMeasuredError, Place  # noqa: E402

RESULTS = BENCHMARKS / "results"
TURNS = 5
LIMIT = 1.25
SHORT = 0.15  # of the work


def main() -> int:
    given = arguments()
    try:
        name, commit = old_commit(given.old)
        trees = {name: old_tree(commit), "this tree": this_tree()}
    except NoOldTreeError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"CPU seconds, best of {TURNS}, by turns")
    print(f"{'':10} {name:>14} {'this tree':>14} {'ratio':>8}")
    worst = 0.0
    RESULTS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="old-", dir=RESULTS) as scratch:
        place = Place(Path(scratch))
        for job in JOBS:
            if given.only and job.name not in given.only:
                continue
            inputs = job.make(place.scratch / job.name, SHORT if given.short else 1)
            try:
                old, new = measured(job, inputs, list(trees.values()), place, limited=given.short)
            except NotMeasuredError as error:
                print(f"{job.name:10} not measured: {error}")
                worst = float("inf")
                continue
            print(f"{job.name:10} {old:14.2f} {new:14.2f} {new / old:8.2f}", flush=True)
            worst = max(worst, new / old)
    if worst == float("inf"):
        return 1
    if given.short and worst > LIMIT:
        print(f"A job costs more than {LIMIT} times what it did at {name}.", file=sys.stderr)
        print("`make bench-old` measures it on larger work.", file=sys.stderr)
        return 1
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--old", help="a commit or tag (default: the last tag before this commit)")
    parser.add_argument("--short", action="store_true", help=f"a minute; fails above {LIMIT} times")
    names = [job.name for job in JOBS]
    parser.add_argument("--only", action="append", choices=names, help="may be repeated")
    return parser.parse_args()


def measured(
    job: Job, inputs: Path, trees: list[Path], place: Place, *, limited: bool
) -> list[float]:
    """The least CPU of each tree; above the limit after as many turns again: it may be chance."""
    for tree in trees:
        take(job, inputs, tree, place)  # files are in memory, and compiled, from now on
    best = [float("inf")] * len(trees)
    for turn in range(2 * TURNS):
        if turn == TURNS and not (limited and best[1] > LIMIT * best[0]):
            break
        for number, tree in enumerate(trees):
            best[number] = min(best[number], take(job, inputs, tree, place))
    return best


def take(job: Job, inputs: Path, tree: Path, place: Place) -> float:
    command = job.command(inputs, place.scratch)
    command[0] = str(tree / "bin" / command[0])
    try:
        return place.measure(command, cwd=inputs).cpu_seconds
    except NotMeasuredError as error:
        raise NotMeasuredError(f"{tree}: {error}") from None


if __name__ == "__main__":
    sys.exit(main())

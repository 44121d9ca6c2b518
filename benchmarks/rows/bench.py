"""Rows of a CSV file to tasks: seconds of CPU, and memory of 100,000 beside 10,000.

Each sample is a process of its own. `streamed` takes the tasks one by one, as `validate` could;
`kept` holds them all, as a run does.
"""

import argparse
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CHECKS = [{"contains": "{{ expected }}"}]
MAP = {"input.question": "question", "expected": "answer"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(*sample(Path(given.child[0]), keep=given.child[1] == "kept"))
        return
    with tempfile.TemporaryDirectory() as folder:
        print(f"{'rows':>8}  {'tasks':9} {'CPU s':>7} {'peak MB':>8} {'ratio':>6}")
        for kind in ("streamed", "kept"):
            first = None
            for count in given.rows:
                path = Path(folder) / f"rows-{count}.csv"
                if not path.exists():
                    write(path, count)
                seconds, peak = measured(path, kind)
                first = first or peak
                print(f"{count:8}  {kind:9} {seconds:7.2f} {peak:8.1f} {peak / first:6.2f}")


def measured(path: Path, kind: str) -> tuple[float, float]:
    """The best of three."""
    command = [sys.executable, __file__, "--child", str(path), kind]
    samples = [
        subprocess.run(command, capture_output=True, check=True, text=True) for _ in range(3)
    ]
    found = [tuple(map(float, each.stdout.split())) for each in samples]
    return min(each[0] for each in found), min(each[1] for each in found)


def write(path: Path, count: int) -> None:
    numbers = random.Random(1)
    with path.open("w") as file:
        file.write("question,answer\n")
        for n in range(count):
            file.write(
                f'"What became of order {n}, please, with {numbers.random()} parts?",'
                f"It was shipped on day {numbers.randrange(365)} as parcel {numbers.random()}\n"
            )


def sample(path: Path, *, keep: bool) -> tuple[float, float]:
    from evalwright.engine.suites.document import SuiteReading

    entry = {"file": path.name, "map": MAP, "checks": CHECKS}
    reading = SuiteReading(
        {"evalwright": 1, "data": [entry]}, path.parent, allow_code=True, allow_files=True
    )
    started = time.process_time()
    if keep:
        kept = list(reading.tasks())
        assert kept
    else:
        assert sum(1 for _ in reading.tasks())
    seconds = time.process_time() - started
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


if __name__ == "__main__":
    main()

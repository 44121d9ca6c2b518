"""Many machines on one: `make bench-scale`, each figure beside its goal.

A PostgreSQL of its own that makes every commit durable, hosts and workers as processes of their
own. Figures of time depend on what else the machine does; CPU does less. No figure makes it fail.

python benchmarks/scale/bench.py [--quick] [--only NAME]...
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

import hosts
import work
from machines import postgres

import peers
import scans


class Row(NamedTuple):
    """A figure: what was measured, what came out, and what was wanted."""

    what: str
    value: str
    goal: str = ""
    is_met: bool | None = None


Measured = Iterator[tuple[str, str, str, bool | None]]
Measure = Callable[..., Measured]
MEASURES: dict[str, Measure] = {
    "log": work.appends,
    "task": work.cpu_per_task,
    "peers": lambda _server, quick: peers.noop_tasks(quick=quick),
    "scaling": work.scaling,
    "fairness": work.fairness,
    "creates": hosts.creates,
    "streams": hosts.streams,
    "scans": lambda _server, quick: scans.overhead(quick=quick),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="less of everything")
    parser.add_argument("--only", action="append", choices=MEASURES, help="one measure")
    options = parser.parse_args()
    print("| what | figure | goal | met |\n| --- | --- | --- | --- |", flush=True)
    with postgres() as server:
        for name in options.only or MEASURES:
            try:
                for found in MEASURES[name](server, quick=options.quick):
                    row = Row(*found)
                    met = {True: "yes", False: "**no**", None: ""}[row.is_met]
                    print(f"| {row.what} | {row.value} | {row.goal} | {met} |", flush=True)
            except Exception as error:
                print(f"| {name} | not measured: {error} | | |", flush=True)
                if options.only:
                    raise
    sys.stdout.flush()


if __name__ == "__main__":
    main()

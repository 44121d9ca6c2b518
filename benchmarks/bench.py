"""Measure Evalwright beside inspect-ai and pydantic-evals, on this machine, in this run."""

import argparse
import importlib.metadata
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Container
from pathlib import Path
from typing import Any

from environments import version
from figures import Failure, Figure, Probe, derived
from measure import NotMeasuredError, Place
from measurements import MEASUREMENTS, Field
from ours import Ours
from report import document, footer, machine, table
from theirs import InspectAi, PydanticEvals

RESULTS = Path(__file__).parent / "results"
PEERS = ("pydantic-evals", "inspect-ai")
# What a command that fails, or answers in another form than expected, ends in.
UNREADABLE = (NotMeasuredError, OSError, LookupError, TypeError, ValueError)
EXAMPLE = "example: bench.py --only instant --only startup --repeat 5"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, epilog=EXAMPLE)
    parser.add_argument(
        "--only", action="append", choices=MEASUREMENTS, help="this measurement; may be repeated"
    )
    parser.add_argument("--repeat", type=positive, default=3, help="samples of each (default: 3)")
    parser.add_argument(
        "--inspect-repeat", type=positive, default=1, help="runs of inspect-ai (default: 1)"
    )
    parser.add_argument("--skip-peers", action="store_true", help="measure Evalwright alone")
    return parser.parse_args()


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def prepare(peers: tuple[str, ...]) -> tuple[dict[str, str], list[Failure]]:
    """The version of each peer that has an environment, and why the others have none."""
    versions, failures = {}, []
    for peer in peers:
        try:
            versions[peer] = version(peer)
        except NotMeasuredError as error:
            failures.append(Failure("environment", peer, str(error)))
    return versions, failures


def alternate(name: str, probes: list[Probe]) -> tuple[list[Figure], list[Failure]]:
    """Take the probes in turn, so that a slow spell of the machine touches all of them."""
    samples: dict[tuple[str, str], list[float]] = defaultdict(list)
    failures: dict[str, Failure] = {}
    turns = max(probe.repeat for probe in probes)
    for turn in range(turns):
        print(f"{name}: turn {turn + 1} of {turns}", file=sys.stderr)
        for probe in probes:
            if turn >= probe.repeat or probe.subject in failures:
                continue
            try:
                for quantity, value in probe.take().items():
                    samples[probe.subject, quantity].append(value)
            except UNREADABLE as error:
                failures[probe.subject] = Failure(name, probe.subject, reason(error))
    figures = [Figure(name, *key, tuple(values)) for key, values in samples.items()]
    return figures, list(failures.values())


def reason(error: Exception) -> str:
    return str(error) if isinstance(error, NotMeasuredError) else repr(error)


def line_up(args: argparse.Namespace, place: Place, peers: Container[str]) -> Field:
    return Field(
        ours=Ours(place),
        pydantic_evals=PydanticEvals(place) if "pydantic-evals" in peers else None,
        inspect_ai=InspectAi(place) if "inspect-ai" in peers else None,
        repeat=args.repeat,
        inspect_repeat=args.inspect_repeat,
    )


def main() -> int:
    args = arguments()
    RESULTS.mkdir(exist_ok=True)
    host = machine()
    versions, failures = prepare(() if args.skip_peers else PEERS)
    figures: list[Figure] = []
    # Not in the system's temporary folder, which may be memory: the log's durability is measured.
    with tempfile.TemporaryDirectory(dir=RESULTS, prefix="scratch-") as scratch:
        field = line_up(args, Place(Path(scratch)), versions)
        for name in args.only or MEASUREMENTS:
            measured, missed = alternate(name, MEASUREMENTS[name](field))
            figures += measured
            failures += missed
    versions = {"evalwright": own_version(), **versions}
    return finish(figures, failures, {"machine": host, "versions": versions})


def finish(figures: list[Figure], failures: list[Failure], setting: dict[str, Any]) -> int:
    order = list(MEASUREMENTS)
    figures = sorted(figures + derived(figures), key=lambda f: order.index(f.measurement))
    result = json.dumps(document(figures, failures, setting), indent=2)
    (RESULTS / "bench.json").write_text(result + "\n", encoding="utf-8")
    print(f"{table(figures, failures)}\n\n{footer(setting)}")
    return 1 if failures else 0


def own_version() -> str:
    try:
        return importlib.metadata.version("evalwright")
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


if __name__ == "__main__":
    sys.exit(main())

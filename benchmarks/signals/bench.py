"""How good and how fast the signals are, on labelled traces.

python benchmarks/signals/bench.py [DIRECTORY] [--quick] [--only YARDSTICK]...

The directory is ../shared/data/agent-traces unless named. Nothing but a wrong usage makes it fail.
"""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import calibration
import copies
import msgspec
import planted
import sensitive
import sets
import speech
import speed
import texts
from board import Board
from labelled import Labelled

DEFAULT = Path(__file__).resolve().parents[3] / "shared" / "data" / "agent-traces"
Yardstick = Callable[[Labelled, Board], None]
YARDSTICKS: dict[str, Yardstick] = {
    "sets": sets.attacked,
    "suites": sets.by_suite,
    "clean": sets.clean,
    "grave": sets.grave,
    "reruns": sets.reruns,
    "planted": planted.report,
    "speech": speech.report,
    "texts": texts.report,
    "sensitive": sensitive.report,
    "calibration": calibration.report,
    "speed": speed.report,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", nargs="?", type=Path, default=DEFAULT, metavar="DIRECTORY")
    parser.add_argument("--quick", action="store_true", help="a tenth of the traces")
    parser.add_argument(
        "--only",
        action="append",
        metavar="YARDSTICK",
        help=f"{', '.join(YARDSTICKS)}, copies, or a kind of copies",
    )
    parser.add_argument("--wrong", type=Path, metavar="FILE", help="list wrong verdicts as JSONL")
    options = parser.parse_args()
    if not options.data.is_dir():
        sys.exit(
            f"{options.data}: no labelled traces here; name their directory: "
            "make bench-signals TRACES=dir"
        )
    labelled, board = Labelled(options.data.resolve(), quick=options.quick), Board()
    for run in chosen(parser, labelled, options.only):
        run(labelled, board)
    board.summary()
    if options.wrong:
        lines = [msgspec.json.encode(each) + b"\n" for each in labelled.wrong()]
        options.wrong.write_bytes(b"".join(lines))


def chosen(
    parser: argparse.ArgumentParser, labelled: Labelled, names: list[str] | None
) -> list[Yardstick]:
    """The yardsticks that were named, or all of them; those of copies come after the sets."""
    of_copies: dict[str, Yardstick] = {
        kind: partial(copies.report, kind=kind) for kind in labelled.kinds_of_copies
    }
    if not of_copies:
        print("no metamorph_traces.py in tools beside data: no copies are looked at")
    first = {name: YARDSTICKS[name] for name in ("sets", "suites", "clean", "grave", "reruns")}
    known = first | of_copies | YARDSTICKS
    wanted = [
        each for name in names or known for each in (of_copies if name == "copies" else [name])
    ]
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        parser.error(f"no such yardstick: {', '.join(unknown)}; there are {', '.join(known)}")
    return [known[name] for name in wanted]


if __name__ == "__main__":
    main()

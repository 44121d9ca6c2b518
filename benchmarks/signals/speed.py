"""How fast signals are found and traces are masked: megabytes of trace JSON per second on one core.

CPU time of one process, over every trace in the directory, with the trace of the same task and
suite without an attack as its baseline where there is one. JSON is parsed before the clock starts;
`decode_trace` of the trace is measured with `detect`, its baseline is decoded beforehand.
"""

import gc
import gzip
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from board import Board, Goal, at_least
from labelled import Labelled

from evalwright.signals.kinds import DETECTORS, detect
from evalwright.signals.masking import mask_bytes
from evalwright.signals.trace_view import TraceView
from evalwright.trace.decode import decode_trace
from evalwright.trace.model import Trace

MASKED_SHARE = 4
QUICK_SHARE = 6
FASTEST_OF = 3
ENOUGH = at_least(20)


def report(labelled: Labelled, board: Board) -> None:
    lines = list(trace_lines(labelled.data))[:: QUICK_SHARE if labelled.quick else 1]
    records = [msgspec.json.decode(line) for line in lines]
    megabytes = sum(map(len, lines)) / 1e6
    baselines = unattacked(records)
    gc.freeze()  # what the benchmark holds is no part of the work
    board.heading("speed", f"MB/s of {megabytes:.1f} MB of JSON, one core, CPU time")

    def decode_and_detect() -> None:
        for record in records:
            detect(decode_trace(record, case(record)), baselines.get(key(record)))

    def show(name: str, run: Callable[[], None], goal: Goal | None = None) -> None:
        seconds = fastest(run)
        each = f"{seconds / len(lines) * 1e6:.0f} µs per trace"
        board.figure(name, len(lines), megabytes / seconds, goal, each)

    show("decode_trace + detect, all", decode_and_detect, ENOUGH)
    show("decode_trace alone", lambda: drain(records, decode_again))
    pairs = [(decode_again(record), baselines.get(key(record))) for record in records]
    for detector in DETECTORS:
        name = f"{detector.__module__.rpartition('.')[2]}.{detector.__name__}"
        show(f"  {name}", partial(drain, pairs, alone(detector)))
    some = lines[::MASKED_SHARE]
    rate = sum(map(len, some)) / 1e6 / fastest(lambda: drain(some, mask_bytes))
    board.figure("mask_bytes of the JSON", len(some), rate)


def fastest(run: Callable[[], None]) -> float:
    """CPU seconds of the fastest of a few runs: what others do to the machine only slows down."""
    seconds = []
    for _ in range(FASTEST_OF):
        started = time.process_time()
        run()
        seconds.append(time.process_time() - started)
    return min(seconds)


def alone(
    detector: Callable[[TraceView], Iterable[Any]],
) -> Callable[[tuple[Trace, Trace | None]], Any]:
    return lambda pair: list(detector(TraceView(*pair)))


def drain(values: Iterable[Any], do: Callable[[Any], Any]) -> None:
    for value in values:
        do(value)


def decode_again(record: dict[str, Any]) -> Trace:
    return decode_trace(record, case(record))


def trace_lines(data: Path) -> Iterable[bytes]:
    for path in sorted(data.glob("*/*.jsonl.gz")):
        with gzip.open(path) as lines:
            yield from (line for line in lines if b'"events"' in line)


def case(record: dict[str, Any]) -> str:
    return str(record.get("case_id", ""))


def key(record: dict[str, Any]) -> tuple[str, str, str]:
    task = record.get("base_case_id") or record.get("case_id")
    return str(record.get("source")), str(record.get("model")), str(task)


def unattacked(records: list[dict[str, Any]]) -> dict[tuple[str, str, str], Trace]:
    return {
        key(record): decode_trace(record, case(record))
        for record in records
        if not record.get("attack")
    }

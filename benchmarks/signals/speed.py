"""How fast signals are found and traces are masked: megabytes of trace JSON per second on one core.

    python benchmarks/signals/speed.py [DIRECTORY]     default: ../shared/data/agent-traces

CPU time of one process, over every trace in the directory, with the trace of the same task and
suite without an attack as its baseline where there is one. JSON is parsed before the clock starts;
`decode_trace` of the trace is measured with `detect`, its baseline is decoded beforehand.
"""

import gzip
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from evalwright.signals.detect import DETECTORS, detect
from evalwright.signals.masking import mask_bytes
from evalwright.signals.trace_view import TraceView
from evalwright.trace.decode import decode_trace
from evalwright.trace.model import Trace

DEFAULT = Path(__file__).resolve().parents[3] / "shared" / "data" / "agent-traces"
MASKED_SHARE = 4


def report(data: Path) -> None:
    lines = list(trace_lines(data))
    records = [msgspec.json.decode(line) for line in lines]
    megabytes = sum(map(len, lines)) / 1e6
    baselines = unattacked(records)
    traces = [decode_trace(record, case(record)) for record in records]
    pairs = [
        (trace, baselines.get(key(record))) for trace, record in zip(traces, records, strict=True)
    ]
    print(f"\nspeed: {len(lines)} traces, {megabytes:.1f} MB of JSON, one core, CPU time")

    def decode_and_detect() -> None:
        for record in records:
            detect(decode_trace(record, case(record)), baselines.get(key(record)))

    show("decode_trace + detect, all", megabytes, len(lines), decode_and_detect)
    show("decode_trace alone", megabytes, len(lines), lambda: drain(records, decode_again))
    for detector in DETECTORS:
        name = f"{detector.__module__.rpartition('.')[2]}.{detector.__name__}"
        show(f"  {name}", megabytes, len(lines), partial(drain, pairs, alone(detector)))
    some = lines[::MASKED_SHARE]
    size = sum(map(len, some)) / 1e6
    show("mask_bytes of the JSON", size, len(some), lambda: drain(some, mask_bytes))


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


def show(name: str, megabytes: float, traces: int, run: Callable[[], None]) -> None:
    started = time.process_time()
    run()
    seconds = time.process_time() - started
    rate, each = megabytes / seconds, seconds / traces * 1e6
    print(f"  {name:50} {rate:8.1f} MB/s {each:9.1f} µs per trace")


if __name__ == "__main__":
    report(Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT)

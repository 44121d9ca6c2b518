"""`evalwright signals`: the security signals of recorded traces, one line for each."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from evalwright.cli.output import Emit, check_place, reserve_stdout, say, write_file
from evalwright.comparison.materialize import blocks, name_of
from evalwright.contracts.errors import BadInput
from evalwright.signals.detect import detect
from evalwright.signals.masking.report import mask_signals
from evalwright.trace.decode import decode_trace
from evalwright.trace.importers import Imported, import_responses
from evalwright.trace.model import Trace


@click.command(epilog="Example: evalwright signals --traces new.jsonl.gz --baseline old.jsonl.gz")
@click.option(
    "--traces",
    required=True,
    type=click.Path(path_type=Path),
    help="Traces to look at: JSON lines, OTLP JSON or message logs, packed with gzip or not.",
)
@click.option(
    "--baseline",
    type=click.Path(path_type=Path),
    help="Traces of the same cases that are known to be good.",
)
@click.option("--out", type=click.Path(path_type=Path), help="Write here, not to stdout.")
@click.option("--show-secrets", is_flag=True, help="Do not mask secrets and personal data.")
def command(*, traces: Path, baseline: Path | None, out: Path | None, show_secrets: bool) -> int:
    """Find security signals in recorded traces.

    One line of JSON for each trace, in order: {"id": <trace id>, "signals": [...]}. A trace is
    paired with the baseline by its base_case_id, else its case_id. Exit code 2 when a record
    could not be read; its line then has an "error".
    """
    if out is not None:
        check_place(out)
        _keep_inputs(out, traces, baseline)
    known = _Baselines(baseline) if baseline is not None else None
    lines = _Lines(traces, known, masked=not show_secrets)
    if out is not None:
        write_file(out, lines)
    else:
        emit: Emit = reserve_stdout()
        for line in lines:
            emit(line)
    if lines.faults:
        say(f"{traces}: {lines.faults} of {lines.count} records could not be read")
    return 2 if lines.faults or (known and known.faults) else 0


def _keep_inputs(out: Path, *inputs: Path | None) -> None:
    for path in inputs:
        if path is not None and os.path.realpath(out) == os.path.realpath(path):
            raise BadInput(f"{out}: is the input {path}, and inputs are never written to")


class _Baselines:
    """The baseline's traces by their key, kept as JSON until they are asked for."""

    def __init__(self, path: Path) -> None:
        self._found: dict[str, bytes] = {}
        self.faults = 0
        for record in import_responses(blocks(path), name_of(path)):
            if record.fault:
                self.faults += 1
                say(f"the baseline lacks a trace: {record.fault}")
                continue
            key = record.base_case_id or record.case_id
            self._found.setdefault(key, msgspec.json.encode(record.response))

    def of(self, record: Imported) -> Trace | None:
        """The baseline of a trace; the last one asked for is likely to be asked for again."""
        key = record.base_case_id or record.case_id
        found = self._found.get(key) or self._found.get(record.case_id)
        return decode_trace(msgspec.json.decode(found), key) if found else None


class _Lines:
    """The lines of the result; counts what it could not read."""

    def __init__(self, path: Path, baselines: _Baselines | None, *, masked: bool) -> None:
        self._path = path
        self._baselines = baselines
        self._masked = masked
        self.count = 0
        self.faults = 0

    def __iter__(self) -> Iterator[bytes]:
        for record in import_responses(blocks(self._path), name_of(self._path)):
            self.count += 1
            self.faults += record.fault is not None
            yield msgspec.json.encode(self._line(record)) + b"\n"
        if not self.count:
            raise BadInput(f"{self._path}: holds no trace; see docs/trace-formats.md")

    def _line(self, record: Imported) -> dict[str, Any]:
        line: dict[str, Any] = {"id": record.trace_id or record.case_id}
        if record.fault:
            return {**line, "signals": [], "error": record.fault}
        trace = decode_trace(record.response, record.case_id)
        baseline = self._baselines.of(record) if self._baselines else None
        signals = detect(trace, baseline)
        return {
            **line,
            "signals": mask_signals(signals) if self._masked else signals,
        }

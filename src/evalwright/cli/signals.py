"""`evalwright signals`: the security signals of recorded traces, one line for each."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from evalwright.cli.output import Emit, check_place, reserve_stdout, say, write_file
from evalwright.contracts.errors import BadInput
from evalwright.trace.understood import NOTHING

if TYPE_CHECKING:
    from evalwright.signals.scan import BaselineTraces, ScannedTrace


@click.command(epilog="Example: evalwright signals --traces new.jsonl.gz --baseline old.jsonl.gz")
@click.option(
    "--traces",
    required=True,
    type=click.Path(path_type=Path),
    help="Traces to look at: OTLP JSON, message logs, exports of tracing tools, gzipped or not.",
)
@click.option(
    "--baseline",
    type=click.Path(path_type=Path),
    help="Traces of the same cases that are known to be good.",
)
@click.option("--out", type=click.Path(path_type=Path), help="Write here instead of to stdout.")
@click.option("--show-secrets", is_flag=True, help="Do not mask secrets and personal data.")
def command(*, traces: Path, baseline: Path | None, out: Path | None, show_secrets: bool) -> int:
    """Find security signals in recorded traces.

    One line of JSON for each trace, in order: {"id": <trace id>, "signals": [...]}. A trace is
    paired with the baseline by its base_case_id, else its case_id, else by what the user asked.
    Exit code 2 when a record could not be read; its line then has an "error".
    """
    from evalwright.comparison.materialize import blocks, name_of  # not to complete a command
    from evalwright.signals.scan import BaselineTraces, scan_traces

    if out is not None:
        check_place(out)
        _keep_inputs(out, traces, baseline)
    known = BaselineTraces(blocks(baseline), name_of(baseline)) if baseline is not None else None
    for fault in known.faults if known else ():
        say(f"the baseline lacks a trace: {fault}")
    masked = not show_secrets
    notes: list[str] = []
    scanned = scan_traces(blocks(traces), name_of(traces), known, masked=masked, notes=notes)
    lines = ScanLines(traces, scanned)
    if out is not None:
        write_file(out, lines)
    else:
        emit: Emit = reserve_stdout()
        for line in lines:
            emit(line)
    for note in (*notes, *_pairing(traces, known), *lines.notes()):
        say(note)
    return 2 if lines.faults or (known and known.faults) else 0


def _pairing(traces: Path, known: "BaselineTraces | None") -> Iterator[str]:
    if known is None:
        return
    if not known.paired:
        yield f"{traces}: no trace has a partner in the baseline, so none was compared with it"
    if known.by_prompt:
        count = "1 trace" if known.by_prompt == 1 else f"{known.by_prompt} traces"
        yield f"{traces}: {count} paired by the user's prompt"


def _keep_inputs(out: Path, *inputs: Path | None) -> None:
    for path in inputs:
        if path is not None and os.path.realpath(out) == os.path.realpath(path):
            raise BadInput(f"{out}: is the input {path}, and inputs are never written to")


class ScanLines:
    """The lines of the result; counts what could not be read, and what was passed over."""

    def __init__(self, path: Path, scanned: "Iterator[ScannedTrace]") -> None:
        self._path = path
        self._scanned = scanned
        self.count = 0
        self.faults = 0
        self._first_fault = ""
        self._partly = 0
        self._first_part = ""

    def __iter__(self) -> Iterator[bytes]:
        for each in self._scanned:
            self.count += 1
            if each.error is not None:
                self.faults += 1
                self._first_fault = self._first_fault or each.error
            if each.passed_over is not None:
                self._partly += 1
                self._first_part = self._first_part or f"{each.id}: {each.passed_over}"
            yield msgspec.json.encode(each) + b"\n"
        if not self.count:
            raise BadInput(f"{self._path}: {NOTHING}: it is empty; see docs/trace-formats.md")

    def notes(self) -> Iterator[str]:
        """What a reader has to know beside the lines."""
        if self.faults == self.count:
            reason = self._first_fault.rpartition(f"{NOTHING}: ")[2]
            yield f"{self._path}: {NOTHING}: {reason}"
        elif self.faults:
            yield f"{self._path}: {self.faults} of {self.count} records could not be read"
        if self._partly:
            traces = f"{self._partly} of {self.count} traces"
            yield f"{self._path}: {traces} were read in part, for example {self._first_part}"

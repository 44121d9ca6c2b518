"""`evalwright signals`: the security signals of recorded traces, the worst first."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from evalwright.cli.output import (
    Emit,
    Streams,
    WorkProgress,
    check_place,
    echo,
    print_exit,
    reserve_stdout,
    say,
    stop_in_good_order,
    write_file,
)
from evalwright.cli.parameters import jobs_option, json_option, on_option
from evalwright.contracts.errors import BadInput
from evalwright.contracts.report import GRAVE, SEVERITIES
from evalwright.reports.formats.console import Style, cut, one_line, width, wrapped
from evalwright.trace.integrity import NOTHING

if TYPE_CHECKING:
    from evalwright.scans.signals import FoundSignal, ScanPart, ScanTally

_MOST_SHOWN = 100
_LONGEST = 100


@click.command(
    epilog="""\b
Examples:
  evalwright signals --traces new.jsonl.gz --baseline old.jsonl.gz --fail-on high
  evalwright signals --traces exports/2026-11/ --jobs 16 --out signals.jsonl"""
)
@click.option(
    "--traces",
    required=True,
    type=click.Path(path_type=Path),
    help="Traces to look at: OTLP JSON, message logs, exports of tracing tools, gzipped or not; "
    "a file, or a folder of them.",
)
@click.option(
    "--baseline",
    type=click.Path(path_type=Path),
    help="Traces of the same cases that are known to be good; a file or a folder.",
)
@click.option(
    "--out", type=click.Path(path_type=Path), help="Write lines of JSON here, nothing to stdout."
)
@click.option(
    "--fail-on",
    metavar="high|critical|KIND",
    callback=lambda _context, _parameter, given: _known_bar(given),
    help="Exit code 1 where a signal is this severe, or worse, or of this kind.",
)
@click.option("--show-secrets", is_flag=True, help="Do not mask secrets and personal data.")
@jobs_option
@on_option
@json_option
def command(
    *,
    traces: Path,
    baseline: Path | None,
    out: Path | None,
    show_secrets: bool,
    fail_on: str | None = None,
    jobs: int | None = None,
    on: str | None = None,
    as_json: bool = False,
) -> int:
    """Find security signals in recorded traces.

    They are listed with their places, the worst first. With --json or --out, one line of JSON for
    each trace, in order: {"id": <trace id>, "signals": [...]}. A trace is paired with the baseline
    by its base_case_id, else its case_id, else by what the user asked. Exit code 2 when a record
    could not be read; its line then has an "error". Exit code 1 when a signal meets --fail-on.
    """
    from evalwright.scans.shards import TraceFiles, parts_in_order  # not to complete a command
    from evalwright.scans.signals import SignalScan
    from evalwright.scans.spread import engine_named

    if out is not None:
        check_place(out)
        _keep_inputs(out, traces, baseline)
    stop_in_good_order()
    engine = engine_named(on, jobs)
    with ExitStack() as stack:
        known = None
        missing: list[str] = []
        if baseline is not None:
            from evalwright.scans.baseline_traces import keep_baseline

            folder = stack.enter_context(TemporaryDirectory(prefix="evalwright-"))
            known, missing = keep_baseline(TraceFiles(baseline), Path(folder), engine)
        for fault in missing:
            say(f"the baseline lacks a trace: {fault}")
        is_table = out is None and not as_json
        scan = SignalScan(known, masked=not show_secrets, most=_MOST_SHOWN if is_table else None)
        parts = stack.enter_context(closing(parts_in_order(scan, TraceFiles(traces), engine)))
        # Lines of JSON on the same terminal must not come between.
        is_shown = out is not None or is_table or not Streams.out.isatty()
        lines = ScanLines(traces, parts, WorkProgress("traces", is_shown=is_shown))
        if out is not None:
            write_file(out, lines, is_private=show_secrets)
        elif as_json:
            emit: Emit = reserve_stdout()
            for line in lines:
                emit(line)
        else:
            for _ in lines:
                pass
            echo("\n".join(_told(lines.worst, lines.tally, traces)), styled=True)
    for note in lines.notes(is_compared=known is not None):
        say(note)
    aside = as_json or out is not None
    if missing or lines.tally.faults:
        return print_exit(2, "not everything could be read", aside=aside)
    if fail_on in GRAVE:
        failing = sum(lines.tally.severities[each] for each in GRAVE[GRAVE.index(fail_on) :])
    else:
        failing = lines.tally.kinds[fail_on] if fail_on else 0
    if failing:
        count = "1 signal meets" if failing == 1 else f"{failing:,} signals meet"
        say(f"{traces}: {count} --fail-on {fail_on}")
        return print_exit(1, "the gate failed", aside=aside)
    return 0


def _told(worst: "list[FoundSignal]", tally: "ScanTally", traces: Path) -> Iterator[str]:
    """The worst signals as a table, and how many there are of each severity."""
    style = Style.of(Streams.out)
    for each in worst:
        yield from _lines(each, traces, style)
    total = tally.severities.total()
    if total > len(worst):
        yield f"… and {total - len(worst):,} more; --json lists all of them"
    if tally.faults:
        fault = f"not read: {one_line(tally.first_fault, 2 * _LONGEST)}"
        yield from wrapped(fault, style.width, hanging="  ")
    yield from [""] * bool(worst)
    counts = [
        f"{tally.severities[each]:,} {each}"
        for each in reversed(SEVERITIES)
        if tally.severities[each]
    ]
    read = tally.count - tally.faults
    signals = "No signals" if not total else "1 signal" if total == 1 else f"{total:,} signals"
    of = f"{tally.with_signals:,} of " if total else ""
    traces_read = "1 trace" if read == 1 else f"{read:,} traces"
    unread = f"; {tally.faults:,} could not be read" if tally.faults else ""
    told = f"{signals} in {of}{traces_read}{': ' if counts else ''}{', '.join(counts)}{unread}."
    yield from wrapped(told, style.width, hanging="  ")


def _lines(found: "FoundSignal", traces: Path, style: Style) -> Iterator[str]:
    """What was found, and below it of which kind it is, and where."""
    signal = found.signal
    events = [ref.index for ref in signal.evidence_refs if ref.index is not None]
    event = f", events[{events[-1]}]" if events else ""
    place = found.place.removeprefix(f"{traces}: ")
    kind = f"{signal.kind}, {signal.confidence} confidence"
    paint = style.red if signal.severity in GRAVE else style.yellow
    yield f"{paint(f'{signal.severity:<8}')}  {cut(signal.title, style.width - 10)}"
    room = style.width - 12 - width(event)
    where = f"{place}: {found.trace_id}"
    told = [f"{kind}  {cut(where, room - width(kind))}{event}"]
    if width(where) + width(kind) > room:  # each on a line
        told = [kind, f"{cut(where, room)}{event}"]
    yield from (style.dim(f"{'':10}{line}") for line in told)


def _known_bar(given: str | None) -> str | None:
    """What `--fail-on` names: a grave severity, or a kind of signal."""
    if given is None or given in GRAVE:
        return given
    from evalwright.signals.kinds import KINDS

    names = [kind.name for kind in KINDS]
    if given not in names:
        raise BadInput(
            f"--fail-on {given[:80]}: name high, critical or a kind of signal: {', '.join(names)}"
        )
    return given


def _keep_inputs(out: Path, *inputs: Path | None) -> None:
    for path in inputs:
        if path is None:
            continue
        place, source = Path(os.path.realpath(out)), Path(os.path.realpath(path))
        if place == source:
            raise BadInput(f"{out}: is the input {path}, and inputs are never written to")
        if place.is_relative_to(source) and source.is_dir():
            raise BadInput(f"{out}: is in the input {path}, and inputs are never written to")


class ScanLines:
    """The lines of the result, or its worst signals; counts what could not be read."""

    def __init__(
        self,
        path: Path,
        parts: "Iterator[ScanPart]",
        progress: WorkProgress,
    ) -> None:
        from evalwright.scans.signals import ScanTally

        self._path = path
        self._parts = parts
        self._progress = progress
        self._notes: list[str] = []
        self.worst: list[FoundSignal] = []
        self.tally = ScanTally()

    def __iter__(self) -> Iterator[bytes]:
        from evalwright.scans.signals import worst_first

        for part in self._parts:
            self.tally.merge(part.tally)
            self._notes += part.notes
            if part.worst:
                self.worst = worst_first([*self.worst, *part.worst], _MOST_SHOWN)
            yield part.lines
            if part.stop is not None:
                raise BadInput(part.stop)
            self._progress(self.tally.count)
        self._progress.end()
        if not self.tally.count:
            raise BadInput(f"{self._path}: {NOTHING}: it is empty; see docs/trace-formats.md")

    def notes(self, *, is_compared: bool) -> Iterator[str]:
        """What a reader has to know beside the lines."""
        found, path = self.tally, self._path
        yield from self._notes
        if is_compared and not found.paired:
            yield f"{path}: no trace has a partner in the baseline, so none was compared with it"
        if found.by_prompt:
            count = "1 trace" if found.by_prompt == 1 else f"{found.by_prompt} traces"
            yield f"{path}: {count} paired by the user's prompt"
        if found.faults == found.count:
            reason = found.first_fault.rpartition(f"{NOTHING}: ")[2]
            yield f"{path}: {NOTHING}: {reason}"
        elif found.faults:
            yield f"{path}: {found.faults} of {found.count} records could not be read"
        if found.partly:
            traces = f"{found.partly} of {found.count} traces"
            yield f"{path}: {traces} were read in part, for example {found.first_part}"

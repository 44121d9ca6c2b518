"""The report directory: every case written, then the overview, then the machine report."""

import contextlib
import os
import secrets
import shutil
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from datetime import UTC, date, datetime
from itertools import chain, islice
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from evalwright.comparison.case_plan import CasePlan, PlannedCase
from evalwright.comparison.cases import SuiteCases
from evalwright.comparison.gate import CATALOGUE
from evalwright.comparison.inputs import Inputs, WorkFolder, open_inputs, read_suppressions
from evalwright.comparison.pipeline import Comparer, planned_cases
from evalwright.comparison.summary import (
    CaseTally,
    blocks_shipping,
    env_snapshot,
    facts_of,
    subject_of,
)
from evalwright.contracts.errors import BadInput, CannotEvaluate
from evalwright.contracts.report import (
    GRAVE,
    MACHINE_REPORT,
    Artifacts,
    BothSides,
    QualityFlags,
    Summary,
)
from evalwright.reports.comparison.case_page import CaseView, render_case, row_of
from evalwright.reports.comparison.check import Listed, check_quality
from evalwright.reports.comparison.overview import (
    OverviewRow,
    OverviewView,
    assets,
    render_overview,
    render_rows_chunk,
)
from evalwright.scans.partitions import disk_fault
from evalwright.scans.spread import (
    MOST_UNASKED,
    LocalProcesses,
    ShardEngine,
    cores,
    engine_named,
    has_threads,
)
from evalwright.signals.masking import mask_text, mask_value
from evalwright.signals.suppression import Suppressions

ITEM_SEPARATOR = b",\n    "  # as the machine report has them
DEFINITION_SEPARATOR = b",\n"

_IN_A_BATCH = 64
_IN_A_BATCH_HERE = 8  # nothing is gained by more, and items may be large
_WORTH_PROCESSES = 200
_FOLDERS = ("baseline", "new", "assets")
_TOP_NAMES = {"report.html", MACHINE_REPORT, "cases.json", *_FOLDERS}
_ROWS_IN_PAGE = 100
_ROWS_IN_CHUNK = 2_500
_BUFFER = 1 << 18  # of files that are written, or read, a little at a time
_RANKS = 10  # of rows in the overview
_OF_THE_RUNS = ("baseline_run_meta_href", "new_run_meta_href")
_OF_THE_CASE = attrgetter(*[n for n in Artifacts.__struct_fields__ if n not in _OF_THE_RUNS])


ShowProgress = Callable[[int, int], None]


class Batch(NamedTuple):
    """What is left to do once some cases are written, joined: it costs what one case does."""

    cases: int
    items: bytes
    rows: dict[int, bytes]  # of the overview, by rank
    tally: CaseTally
    definitions: bytes
    hrefs: bytes
    missing_assets: list[str]
    faulty: int
    first_fault: str
    rules: frozenset[str]  # of the policy catalogue
    used_suppressions: frozenset[int]


class CaseWriter:
    """Writes the cases of a report, one after the other."""

    def __init__(self, comparer: Comparer, folder: Path, report_id: str) -> None:
        self._comparer = comparer
        self._folder = folder
        self._report_id = report_id

    def write_batch(self, planned: Iterable[PlannedCase]) -> Batch:
        """Compare some cases and write all that belongs to them."""
        items, definitions, facts, faults = [], [], [], []
        hrefs: list[str] = []
        missing: list[str] = []
        rules: set[str] = set()
        rows: dict[int, list[bytes]] = defaultdict(list)
        for case in self._comparer.compare(planned):
            item = case.item
            for href, data in case.files:
                write_new(self._folder, href, data)
            view = CaseView(
                item=item,
                prompt=case.prompt,
                steps=case.steps,
                baseline=case.traces.baseline,
                new=case.traces.new,
                policy=CATALOGUE,
                masked=self._comparer.masked,
                report_id=self._report_id,
                previous=case.previous,
                next=case.next,
            )
            write_new(self._folder, item.artifacts.replay_diff_href, render_case(view))
            items.append(msgspec.json.encode(item))
            definitions.append(msgspec.json.encode(case.definition))
            row = row_of(view)
            rows[rank(row)].append(msgspec.json.encode(row) + b"\n")
            facts.append(facts_of(item))
            # Links that no other case has: all but those to what the runs say of themselves.
            hrefs += [f"{href}\n" for href in _OF_THE_CASE(item.artifacts) if href is not None]
            missing += case.missing_assets
            rules.update(item.recommended_policy_rules)
            if item.faults:
                faults.append(f"{item.case_id}: {item.faults[0]}")
        tally = CaseTally()
        tally.add(facts)
        return Batch(
            cases=len(items),
            items=ITEM_SEPARATOR.join(items),
            rows={number: b"".join(lines) for number, lines in rows.items()},
            tally=tally,
            definitions=DEFINITION_SEPARATOR.join(definitions),
            hrefs="".join(hrefs).encode(),
            missing_assets=missing,
            faulty=len(faults),
            first_fault=faults[0] if faults else "",
            rules=frozenset(rules),
            used_suppressions=frozenset(self._comparer.suppressions.used),
        )

    def release(self) -> None:
        """Close what is open; it is opened again where it is needed."""
        self._comparer.inputs.close()


def write_new(folder: Path, href: str, data: bytes) -> None:
    """Write a file of the report; that it exists already would be a mistake of ours."""
    # Many thousands of files: without a file object that is three system calls each, not seven.
    handle = os.open(f"{folder}/{href}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(handle, rest) :]
    finally:
        os.close(handle)


def rank(row: OverviewRow) -> int:
    """0 is read first: what is to be blocked and got worse, then the rest that asks for a gate."""
    worse = row.change == "regression"
    if row.gated:
        return (0 if row.recommendation == "block" else 2) + (not worse)
    if worse:
        return 4
    grave = any(severity in GRAVE for _, severity in row.signals)
    if row.change == "still_failing":
        return 5 if grave else 6
    if grave:
        return 7
    return 8 if row.change in ("improvement", "differs") else 9


class SortedRows:
    """Rows of the overview by rank, then in the order of the cases; kept on disk until then."""

    def __init__(self, folder: Path) -> None:
        self._files = [(folder / f"rows-{number}").open("w+b") for number in range(_RANKS)]

    def add(self, lines: Mapping[int, bytes]) -> None:
        """Take rows as lines of JSON, by their rank."""
        for number, rows in lines.items():
            self._files[number].write(rows)

    def chunks(self, size: int) -> Iterator[list[OverviewRow]]:
        for file in self._files:
            file.seek(0)
        lines = chain.from_iterable(self._files)
        while chunk := list(islice(lines, size)):
            yield [msgspec.json.decode(line, type=OverviewRow) for line in chunk]

    def close(self) -> None:
        for file in self._files:
            file.close()


def write_cases(
    plan: CasePlan, writer: CaseWriter, engine: ShardEngine | None = None
) -> Generator[Batch, None, None]:
    """Write all cases, by the means of an engine, or on as many cores as are worth it."""
    if engine is None:
        processes = 1 if has_threads() else min(cores(), MOST_UNASKED)
        engine = LocalProcesses(processes if plan.count >= _WORTH_PROCESSES else 1)
    if isinstance(engine, LocalProcesses) and engine.processes == 1:
        for batch in _batches(plan, _IN_A_BATCH_HERE):
            yield writer.write_batch(batch)
    else:
        writer.release()  # no open file or database is carried into another process
        yield from engine.map_shards(writer.write_batch, _batches(plan, _IN_A_BATCH))


def _batches(planned: Iterable[PlannedCase], size: int) -> Iterator[list[PlannedCase]]:
    source = iter(planned)
    while batch := list(islice(source, size)):
        yield batch


if TYPE_CHECKING:
    from evalwright.store.protocol import EventLog


class CompareOptions(msgspec.Struct, frozen=True):
    """What a user asks for: two sides by their names, and where the report goes.

    A side is a run directory, a file of traces, or a run of the event log (an id, or `latest`).
    """

    baseline: str
    new: str
    out: Path
    cases: Path | None = None
    report_id: str | None = None
    suppress: Path | None = None
    show_secrets: bool = False
    jobs: int | None = None  # processes; by default as many as are worth it
    on: str | None = None  # an engine of `scans.spread`, in place of processes


class ReportRequest(msgspec.Struct, frozen=True):
    """Two opened runs to compare, and how; `sources` are other files that the user named."""

    inputs: Inputs
    out: Path
    suppressions: Suppressions
    today: date
    report_id: str
    masked: bool = True
    sources: tuple[Path, ...] = ()
    engine: ShardEngine | None = None


class WrittenReport(msgspec.Struct, frozen=True):
    """What came of a comparison."""

    summary: Summary
    blocks_shipping: bool | None  # whether there is any reason not to ship; None: cannot tell
    quality: QualityFlags
    notes: tuple[str, ...]
    rows: list[OverviewRow]  # of its table, the first of them


def compare_runs(
    options: CompareOptions,
    open_log: Callable[[], "EventLog"],
    progress: ShowProgress = lambda _done, _total: None,
    beside: Iterable[Path] = (),
) -> WrittenReport:
    """Open two runs, compare them and write the report.

    It is here because it ties two rooms together: `comparison` opens the inputs and compares, this
    package writes, and `comparison` must not know it. The command line and Python both call it.
    The log is opened only where a side is a run of it. `beside` are files that the caller writes
    afterwards: like the report, they must not be in an input.
    """
    suppressions = read_suppressions(options.suppress)
    named = BothSides(options.baseline, options.new)
    engine = engine_named(options.on, options.jobs)
    try:
        with (
            WorkFolder(prefix="evalwright-") as work,
            contextlib.closing(
                open_inputs(named, options.cases, open_log, Path(work), engine)
            ) as inputs,
        ):
            files = [Path(named.baseline), Path(named.new), options.suppress]
            sources = tuple(path for path in files if path is not None and path.is_file())
            for path in beside:
                for source in (*inputs.paths, *sources):
                    if Path(os.path.realpath(path)).is_relative_to(os.path.realpath(source)):
                        reason = f"is in the input {source}, and inputs are never written to"
                        raise BadInput(f"{path}: {reason}")
            request = ReportRequest(
                inputs=inputs,
                out=options.out,
                suppressions=suppressions,
                today=datetime.now(UTC).date(),
                report_id=_report_id(options, inputs),
                masked=not options.show_secrets,
                sources=sources,
                engine=engine if options.on or options.jobs else None,
            )
            return write_report(request, progress)
    except OSError as error:  # no room for what the inputs unpack to
        raise disk_fault(error) from None


def _report_id(options: CompareOptions, inputs: Inputs) -> str:
    """The id that was given, else that of the two runs."""
    # Bytes of the command line that are not text reach us as lone surrogates.
    given = (options.report_id or inputs.pair_id or "latest").encode("utf-8", "surrogateescape")
    text = given.decode("utf-8", "replace")
    return text if options.show_secrets else mask_text(text)


def write_report(request: ReportRequest, progress: ShowProgress) -> WrittenReport:
    """Compare two runs and put the report in its place, whole or not at all."""
    check_out(request)
    out = request.out.resolve()
    beside = out.with_name(f".{out.name}.{secrets.token_hex(6)}")
    made = [folder for folder in out.parents if not folder.exists()]
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        report = _ReportBuild(request, beside).run(progress)
        # The old report, if there is one, goes only once the new one is whole
        old = out.with_name(f"{beside.name}.old")
        if out.exists():
            out.rename(old)
        try:
            beside.rename(out)
        except BaseException:  # an interrupt, too, must not take the old report away
            with contextlib.suppress(OSError):
                old.rename(out)
            raise
        _remove(old)
    except OSError as error:
        message = f"{request.out}: the report cannot be written: {error.strerror or error}"
        raise CannotEvaluate(message) from None
    finally:
        _remove(beside)
        with contextlib.suppress(OSError):  # they hold the report, or something that is not ours
            for folder in made:
                folder.rmdir()
    return report


def check_out(request: ReportRequest) -> None:
    """Refuse a place that holds anything but a report, or that is among the inputs."""
    try:
        out = request.out.resolve()
        _check_place(request.out, out)
    except (OSError, RuntimeError) as error:  # a name that is too long, links in a circle
        reason = getattr(error, "strerror", None) or "its links lead in a circle"
        raise BadInput(f"{request.out}: cannot hold a report: {reason}") from None
    for path in (*request.inputs.paths, *request.sources):
        if path.resolve().is_relative_to(out):
            message = f"{request.out}: contains the input {path}, and inputs are never written to"
            raise BadInput(message)
    for run in (request.inputs.baseline, request.inputs.new):
        if run.root is not None and out.is_relative_to(run.root.resolve()):
            message = "is in a run directory, and inputs are never written to"
            raise BadInput(f"{request.out}: {message}")


def _check_place(named: Path, out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise BadInput(f"{named}: is a file; give a folder for the report")
    above = next(folder for folder in out.parents if os.path.lexists(folder))
    if not above.is_dir() or not os.access(above, os.W_OK):
        shown = named.parent if above == out.parent else above
        raise BadInput(f"{named}: cannot be made: {shown} is not a writable folder")
    if not out.is_dir():
        return
    with os.scandir(out) as entries:  # files that are not ours would go with the old report
        names = [
            entry.name
            for entry in entries
            if not (
                entry.name in _TOP_NAMES
                or (entry.name.startswith("case-") and entry.name.endswith(".html"))
            )
        ]
    if names:
        example = os.fsencode(min(names)).decode("utf-8", "replace")
        remedy = "give an empty or new folder, or one that holds an earlier report and nothing else"
        raise BadInput(f"{named}: holds other files, for example {example!r}; {remedy}")


def _remove(report: Path) -> None:
    """Remove a report, if it is there, without a list of all its files in memory."""
    for part in (*_FOLDERS, ""):
        with contextlib.suppress(OSError):
            folder = report / part
            # By its handle: what a link leads to is not ours.
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                with os.scandir(handle) as entries:
                    for entry in entries:
                        if not entry.is_dir(follow_symlinks=False):
                            os.unlink(entry.name, dir_fd=handle)
            finally:
                os.close(handle)
    shutil.rmtree(report, ignore_errors=True)


class _ReportBuild:
    def __init__(self, request: ReportRequest, folder: Path) -> None:
        self._request = request
        self._folder = folder
        self._work = folder / ".work"
        self._tally = CaseTally()
        self._missing = Listed()
        self._faulty = 0
        self._first_fault = ""
        self._rules: set[str] = set()

    def run(self, progress: ShowProgress) -> WrittenReport:
        for part in ("", *_FOLDERS, ".work"):
            (self._folder / part).mkdir(0o777 if self._request.masked else 0o700)
        inputs = self._request.inputs
        with (
            contextlib.closing(planned_cases(inputs)) as plan,
            contextlib.closing(SortedRows(self._work)) as rows,
        ):
            request = self._request
            comparer = Comparer(
                request.inputs, request.suppressions, request.today, masked=request.masked
            )
            for href, data in comparer.meta_files:
                write_new(self._folder, href, data)
            writer = CaseWriter(comparer, self._folder, request.report_id)
            cases = write_cases(plan, writer, request.engine)
            with (
                contextlib.closing(cases) as written,  # whatever happens, its processes end first
                (self._folder / "cases.json").open("xb", _BUFFER) as definitions,
                (self._work / "items").open("xb", _BUFFER) as items,
                (self._work / "hrefs").open("xb", _BUFFER) as hrefs,
            ):
                hrefs.writelines(f"{href}\n".encode() for href, _ in comparer.meta_files)
                definitions.write(b"[\n")
                for batch in written:
                    if self._tally.cases:
                        items.write(ITEM_SEPARATOR)
                        definitions.write(DEFINITION_SEPARATOR)
                    items.write(batch.items)
                    definitions.write(batch.definitions)
                    hrefs.write(batch.hrefs)
                    rows.add(batch.rows)
                    for number in range(batch.cases):
                        progress(self._tally.cases + number + 1, plan.count)
                    self._tally.merge(batch.tally)
                    for asset in batch.missing_assets:
                        self._missing.add(asset)
                    self._faulty += batch.faulty
                    self._first_fault = self._first_fault or batch.first_fault
                    self._rules |= batch.rules
                    request.suppressions.used.update(batch.used_suppressions)
                definitions.write(b"\n]\n")
            return self._finish(rows, self._notes(plan))

    def _notes(self, plan: CasePlan) -> tuple[str, ...]:
        """What a reader should know of the inputs and of the suppressions."""
        request, inputs = self._request, self._request.inputs
        runs = (("Baseline", inputs.baseline), ("New run", inputs.new))
        notes = [*inputs.notes, *plan.notes]
        notes += [f"{name}: {run.meta_fault}." for name, run in runs if run.meta_fault]
        if self._faulty:
            cases = "1 case has" if self._faulty == 1 else f"{self._faulty:,} cases have"
            notes.append(f"{cases} faults in the input, for example {self._first_fault}")
        expired = request.suppressions.expired(request.today)
        notes += [
            f"The suppression of {each.kind} expired on {each.expires} and no longer applies."
            for each in expired
        ]
        notes += [
            f"The suppression of {each.kind} ({each.reason}) matched no signal; it can go."
            for each in request.suppressions.unused()
            if each not in expired
        ]
        return tuple(mask_text(note) for note in notes) if request.masked else tuple(notes)

    def _finish(self, rows: SortedRows, notes: tuple[str, ...]) -> WrittenReport:
        request = self._request
        for name, data in assets().items():
            write_new(self._folder, f"assets/{name}", data)
        first_rows: list[OverviewRow] = []
        chunk_hrefs: list[str] = []
        for number, chunk in enumerate(rows.chunks(_ROWS_IN_CHUNK), 1):
            first_rows = first_rows or chunk[:_ROWS_IN_PAGE]
            chunk_hrefs.append(f"assets/rows-{number:04}.js")
            write_new(self._folder, chunk_hrefs[-1], render_rows_chunk(chunk, number))
        rows.close()
        sides = request.inputs
        # What could not be read is never "no change"; an own run says itself what failed in it.
        is_own = sides.new.suite is not None
        is_same_run = sides.is_same_run and (is_own or not self._tally.new.unanswered)
        name_of = sides.cases.names.name_of if isinstance(sides.cases, SuiteCases) else str
        summary = self._tally.summary(is_same_run=is_same_run, name_of=name_of)
        against = False if is_same_run else blocks_shipping(summary)
        snapshot = env_snapshot(request.inputs.baseline.meta, request.inputs.new.meta)
        subject = subject_of(request.inputs.new.meta, snapshot)
        snapshot = mask_value(snapshot) if request.masked else snapshot
        with (self._work / "hrefs").open("rb", _BUFFER) as hrefs:
            quality = check_quality(self._folder, hrefs, self._missing, masked=request.masked)
        page = render_overview(
            OverviewView(
                report_id=request.report_id,
                summary=summary,
                quality=quality,
                env_snapshot=snapshot,
                rows=first_rows,
                total_rows=self._tally.cases,
                chunk_hrefs=chunk_hrefs,
                policy={key: rule for key, rule in CATALOGUE.items() if key in self._rules},
                notes=notes,
                masked=request.masked,
                is_same_run=is_same_run,
                subject=mask_text(subject) if request.masked else subject,
            )
        )
        write_new(self._folder, "report.html", page)
        head = {
            "report_id": self._request.report_id,
            "baseline_dir": "baseline",
            "new_dir": "new",
            "cases_path": "cases.json",
            "summary": summary,
            "quality_flags": quality,
            "env_snapshot": snapshot,
            "policy_catalogue": list(CATALOGUE.values()),
            "notes": list(notes),
        }
        if self._request.inputs.pairing is not None:
            head["pairing"] = self._request.inputs.pairing.summary()
        if self._request.inputs.left_out is not None:
            head["left_out"] = self._request.inputs.left_out
        opening = msgspec.json.format(msgspec.json.encode(head), indent=2)
        with (
            (self._folder / MACHINE_REPORT).open("xb", _BUFFER) as file,
            (self._work / "items").open("rb", _BUFFER) as items,
        ):
            file.write(opening.removesuffix(b"\n}") + b',\n  "items": [\n    ')
            shutil.copyfileobj(items, file, _BUFFER)
            file.write(b"\n  ]\n}\n")
        shutil.rmtree(self._work)
        return WrittenReport(summary, against, quality, notes, first_rows)

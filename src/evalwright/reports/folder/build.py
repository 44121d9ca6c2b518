"""The report directory: every case written, then the overview, then the machine report."""

import contextlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterable
from datetime import date
from pathlib import Path
from typing import Any

import msgspec

from evalwright.comparison.case_file import CaseFile
from evalwright.comparison.environment import env_snapshot
from evalwright.comparison.matching import Plan
from evalwright.comparison.policy import CATALOGUE
from evalwright.comparison.run_folder import RUN_META, RunFolder, Unreadable, read_inside
from evalwright.comparison.summary import Tally
from evalwright.contracts.errors import BadInput, CannotEvaluate
from evalwright.contracts.report import MACHINE_REPORT, BothSides, QualityFlags, Summary
from evalwright.reports.folder.batch import DEFINITION_SEPARATOR, ITEM_SEPARATOR, Batch
from evalwright.reports.folder.case import Settings, write_new
from evalwright.reports.folder.failures import Captures
from evalwright.reports.folder.pool import write_cases
from evalwright.reports.folder.quality import Listed, check_quality
from evalwright.reports.folder.rows import SortedRows
from evalwright.reports.html.pages import ASSETS, OverviewView, render_overview, render_rows_chunk
from evalwright.signals.masking import mask_bytes, mask_text, mask_value
from evalwright.signals.suppression import Suppressions

_FOLDERS = ("baseline", "new", "assets")
_TOP_NAMES = {"report.html", MACHINE_REPORT, "cases.json", *_FOLDERS}
_ROWS_IN_PAGE = 100
_ROWS_IN_CHUNK = 2_500
_BUFFER = 1 << 18  # of files that are written, or read, a little at a time

Progress = Callable[[int, int], None]


class Request(msgspec.Struct, frozen=True):
    """Two runs to compare, and how. `top` bounds where captured bodies are looked for."""

    baseline: RunFolder
    new: RunFolder
    cases: CaseFile | None
    tops: BothSides[Path]
    out: Path
    suppressions: Suppressions
    today: date
    report_id: str
    masked: bool = True
    notes: tuple[str, ...] = ()
    sources: tuple[Path, ...] = ()  # other files that the user named


class Report(msgspec.Struct, frozen=True):
    """What came of a comparison."""

    summary: Summary
    quality: QualityFlags
    notes: tuple[str, ...]


def write_report(request: Request, progress: Progress) -> Report:
    """Compare two runs and put the report in its place, whole or not at all."""
    check_out(request)
    beside = request.out.resolve().with_name(f".{request.out.name}.{secrets.token_hex(6)}")
    try:
        report = _Build(request, beside).run(progress)
        _move_into_place(beside, request.out.resolve())
    except OSError as error:
        message = f"{request.out}: the report cannot be written: {error.strerror or error}"
        raise CannotEvaluate(message) from None
    finally:
        _remove(beside)
    return report


def check_out(request: Request) -> None:
    """Refuse a place that holds something else than a report, or the inputs."""
    try:
        out = request.out.resolve()
        _check_place(request.out, out)
    except (OSError, RuntimeError) as error:  # a name that is too long, links in a circle
        reason = getattr(error, "strerror", None) or "its links lead in a circle"
        raise BadInput(f"{request.out}: no folder for a report: {reason}") from None
    inputs = [request.baseline.root, request.new.root, *request.sources]
    inputs += [request.cases.path] if request.cases else []
    for path in inputs:
        if path.resolve().is_relative_to(out):
            message = f"{request.out}: holds the input {path}, and inputs are never written to"
            raise BadInput(message)
    if any(out.is_relative_to(run.root.resolve()) for run in (request.baseline, request.new)):
        raise BadInput(f"{request.out}: lies in a run directory, and inputs are never written to")


def _check_place(told: Path, out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise BadInput(f"{told}: is a file; give a folder for the report")
    if not out.parent.is_dir() or not os.access(out.parent, os.W_OK):
        raise BadInput(f"{told}: cannot be made: {told.parent} is not a writable folder")
    stranger = _stranger(out) if out.is_dir() else None
    if stranger is not None:
        remedy = "give an empty or new folder, or one that holds an earlier report and nothing else"
        raise BadInput(f"{told}: holds other files, for example {stranger!r}; {remedy}")


def _stranger(out: Path) -> str | None:
    """A file that no report has: the old report is replaced, and it would go with it."""
    with os.scandir(out) as entries:
        first = min((entry.name for entry in entries if not _is_ours(entry.name)), default=None)
    return None if first is None else os.fsencode(first).decode("utf-8", "replace")


def _is_ours(name: str) -> bool:
    return name in _TOP_NAMES or (name.startswith("case-") and name.endswith(".html"))


def _move_into_place(beside: Path, out: Path) -> None:
    """The old report, if there is one, goes only once the new one is whole."""
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


def _remove(report: Path) -> None:
    """Remove a report, if it is there, without a list of all its files in memory."""
    for part in (*_FOLDERS, ""):
        with contextlib.suppress(OSError):
            _empty(report / part)
    shutil.rmtree(report, ignore_errors=True)


def _empty(folder: Path) -> None:
    # By its handle: what a link leads to is not ours.
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        with os.scandir(handle) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.name, dir_fd=handle)
    finally:
        os.close(handle)


class _Build:
    def __init__(self, request: Request, folder: Path) -> None:
        self._request = request
        self._folder = folder
        self._work = folder / ".work"
        self._tally = Tally()
        self._missing = Listed()
        self._faulty = 0
        self._first_fault = ""

    def run(self, progress: Progress) -> Report:
        for part in ("", *_FOLDERS, ".work"):
            (self._folder / part).mkdir()
        request = self._request
        with (
            contextlib.closing(Plan(request.cases, request.baseline, request.new)) as plan,
            contextlib.closing(SortedRows(self._work)) as rows,
        ):
            if not len(plan):
                reason = "no case, and no response on either side"
                raise BadInput(f"there is nothing to compare: {reason}")
            self._write_cases(plan, rows, progress)
            notes = [*self._request.notes, *plan.notes, *self._meta_notes(), *self._fault_notes()]
            return self._finish(rows, (*notes, *self._suppression_notes()))

    def _write_cases(self, plan: Plan, rows: SortedRows, progress: Progress) -> None:
        settings = self._settings()
        cases = write_cases(plan, len(plan), settings, self._request.cases)
        with (
            contextlib.closing(cases) as written,  # whatever happens, its processes end first
            (self._folder / "cases.json").open("xb", _BUFFER) as definitions,
            (self._work / "items").open("xb", _BUFFER) as items,
            (self._work / "hrefs").open("xb", _BUFFER) as hrefs,
        ):
            shared = (settings.meta_hrefs.baseline, settings.meta_hrefs.new)
            hrefs.writelines(f"{href}\n".encode() for href in shared if href is not None)
            definitions.write(b"[\n")
            for batch in written:
                if self._tally.cases:
                    items.write(ITEM_SEPARATOR)
                    definitions.write(DEFINITION_SEPARATOR)
                items.write(batch.items)
                definitions.write(batch.definitions)
                hrefs.write(batch.hrefs)
                self._take(batch, rows, progress, len(plan))
            definitions.write(b"\n]\n")

    def _settings(self) -> Settings:
        request = self._request
        hrefs = BothSides(self._copy_meta("baseline"), self._copy_meta("new"))
        return Settings(
            report=self._folder,
            report_id=request.report_id,
            baseline=Captures(request.baseline.root, request.tops.baseline),
            new=Captures(request.new.root, request.tops.new),
            meta_hrefs=hrefs,
            suppressions=request.suppressions,
            today=request.today,
            masked=request.masked,
        )

    def _copy_meta(self, side: str) -> str | None:
        run: RunFolder = getattr(self._request, side)
        data = read_inside(run.root, RUN_META)
        if isinstance(data, Unreadable):
            return None
        href = f"{side}/{RUN_META}"
        write_new(self._folder, href, mask_bytes(data) if self._request.masked else data)
        return href

    def _meta_notes(self) -> list[str]:
        sides = (("Baseline", self._request.baseline), ("New run", self._request.new))
        return [f"{name}: {run.meta_fault}." for name, run in sides if run.meta_fault]

    def _fault_notes(self) -> list[str]:
        if not self._faulty:
            return []
        cases = "1 case has" if self._faulty == 1 else f"{self._faulty:,} cases have"
        return [f"{cases} faults in the input, for example {self._first_fault}"]

    def _suppression_notes(self) -> list[str]:
        suppressions, today = self._request.suppressions, self._request.today
        expired = suppressions.expired(today)
        return [
            f"The suppression of {each.kind} expired on {each.expires} and no longer applies."
            for each in expired
        ] + [
            f"The suppression of {each.kind} ({each.reason}) matched no signal; it can go."
            for each in suppressions.unused()
            if each not in expired
        ]

    def _take(self, batch: Batch, rows: SortedRows, progress: Progress, total: int) -> None:
        for number in range(batch.cases):
            progress(self._tally.cases + number + 1, total)
        self._tally.merge(batch.tally)
        for asset in batch.missing_assets:
            self._missing.add(asset)
        self._faulty += batch.faulty
        self._first_fault = self._first_fault or batch.first_fault
        self._request.suppressions.used.update(batch.used_suppressions)
        rows.add(batch.rows)

    def _finish(self, rows: SortedRows, notes: tuple[str, ...]) -> Report:
        for name, data in ASSETS.items():
            write_new(self._folder, f"assets/{name}", data)
        chunks = self._write_chunks(rows)
        summary = self._tally.summary()
        with (self._work / "hrefs").open("rb", _BUFFER) as hrefs:
            quality = check_quality(self._folder, hrefs, self._missing, masked=self._request.masked)
        notes = tuple(mask_text(note) for note in notes) if self._request.masked else notes
        snapshot = self._snapshot()
        page = render_overview(
            OverviewView(
                report_id=self._request.report_id,
                summary=summary,
                quality=quality,
                env_snapshot=snapshot,
                rows=rows.first(_ROWS_IN_PAGE),
                total_rows=self._tally.cases,
                chunk_hrefs=chunks,
                policy=CATALOGUE,
                notes=notes,
                masked=self._request.masked,
            )
        )
        write_new(self._folder, "report.html", page)
        self._write_machine_report(summary, quality, snapshot, notes)
        rows.close()
        shutil.rmtree(self._work)
        return Report(summary, quality, notes)

    def _snapshot(self) -> dict[str, Any]:
        snapshot = env_snapshot(self._request.baseline.meta, self._request.new.meta)
        return mask_value(snapshot) if self._request.masked else snapshot

    def _write_chunks(self, rows: SortedRows) -> list[str]:
        hrefs = []
        for number, chunk in enumerate(rows.chunks(_ROWS_IN_CHUNK), 1):
            hrefs.append(f"assets/rows-{number:04}.js")
            write_new(self._folder, hrefs[-1], render_rows_chunk(chunk, number))
        return hrefs

    def _write_machine_report(
        self,
        summary: Summary,
        quality: QualityFlags,
        snapshot: dict[str, Any],
        notes: Iterable[str],
    ) -> None:
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
        opening = msgspec.json.format(msgspec.json.encode(head), indent=2)
        with (
            (self._folder / MACHINE_REPORT).open("xb", _BUFFER) as file,
            (self._work / "items").open("rb", _BUFFER) as items,
        ):
            file.write(opening.removesuffix(b"\n}") + b',\n  "items": [\n    ')
            shutil.copyfileobj(items, file, _BUFFER)
            file.write(b"\n  ]\n}\n")

"""What the user named as a side of the comparison: a directory, a file of traces, an own run."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from evalwright.comparison.case_file import CaseFile
from evalwright.comparison.run_folder import RUN_META, RunFolder
from evalwright.contracts.errors import BadInput, RunNotFound
from evalwright.contracts.report import BothSides

if TYPE_CHECKING:
    from evalwright.engine.export import ExportedRun

ExportRun = Callable[[str], "ExportedRun"]

_CASES = "cases.json"
_HIGHEST = 4  # folders above a run directory in which its cases are looked for


class Inputs(msgspec.Struct, frozen=True):
    """Both sides and their cases; `tops` bound where captured bodies may lie."""

    baseline: RunFolder
    new: RunFolder
    cases: CaseFile | None
    tops: BothSides[Path]
    notes: tuple[str, ...]


class _Opened(msgspec.Struct, frozen=True):
    run: RunFolder
    cases: Path | None


def open_inputs(named: BothSides[str], cases: Path | None, export: ExportRun, work: Path) -> Inputs:
    """Both sides as run folders. What is no run directory is laid out in the work folder."""
    baseline = _open_side(named.baseline, export, work / "baseline")
    new = _open_side(named.new, export, work / "new")
    found = cases or new.cases or baseline.cases
    note = "No case file was found, so nothing is expected of the answers; see --cases."
    return Inputs(
        baseline=baseline.run,
        new=new.run,
        cases=CaseFile(found) if found else None,
        tops=BothSides(_top(baseline.run.root, found), _top(new.run.root, found)),
        notes=() if found else (note,),
    )


def _open_side(named: str, export: ExportRun, work: Path) -> _Opened:
    path = Path(named)
    try:
        is_folder, is_file, exists = path.is_dir(), path.is_file(), path.exists()
    except OSError as error:  # a name that is too long, a folder that may not be entered
        raise BadInput(f"{named}: cannot be read: {error.strerror}") from None
    if is_folder:
        run = RunFolder(path)
        _refuse_other_folders(run, named)
        return _Opened(run, find_cases(run))
    if is_file:
        from evalwright.comparison.materialize import spool_file

        return _Opened(spool_file(path, work), None)
    if path.suffix or "/" in named or exists:
        raise BadInput(f"{named}: no such run directory or file of traces")
    try:
        exported = export(named)
    except RunNotFound as error:
        message = f"{named}: no run directory, no file of traces, and no run in the log: {error}"
        raise BadInput(message) from None
    return _Opened(*lay_out(exported, work))


def _refuse_other_folders(run: RunFolder, named: str) -> None:
    """A folder that is no run at all would be a side on which every case is missing."""
    if run.is_empty and not run.has_meta:
        inside = sorted(each.name for each in run.root.iterdir() if (each / RUN_META).is_file())
        hint = f"; did you mean {Path(named) / inside[0]}?" if inside else ""
        message = f"{named}: not a run directory: no {RUN_META} and no response in it{hint}"
        raise BadInput(message)


def lay_out(exported: "ExportedRun", work: Path) -> tuple[RunFolder, Path]:
    """An own run as a run folder, and the file of its cases beside that."""
    from evalwright.comparison.materialize import materialize
    from evalwright.trace.importers import Imported

    responses = (Imported(response["case_id"], response) for response in exported.responses)
    run = materialize(responses, exported.meta, work)
    cases = work.with_name(f"{work.name}-{_CASES}")
    with cases.open("wb") as file:
        file.write(b"[")
        for number, case in enumerate(exported.cases):
            file.write((b",\n" if number else b"") + msgspec.json.encode(case))
        file.write(b"]")
    return run, cases


def find_cases(run: RunFolder) -> Path | None:
    """The cases of a run directory: where its run.json says, or cases.json, here or above."""
    told = run.meta.get("cases_path")
    names = [told, _CASES] if isinstance(told, str) and _is_inside(told) else [_CASES]
    root = run.root.resolve()
    for folder in (root, *root.parents[:_HIGHEST]):
        for name in names:
            if _is_own_file(folder, name):
                return folder / name
        if os.path.lexists(folder / _CASES):  # to go on without it would let everything pass
            message = "is no file of its folder, but a link or a device; name a file with --cases"
            raise BadInput(f"{folder / _CASES}: {message}")
    return None


def _is_own_file(folder: Path, name: str) -> bool:
    """Whether a file lies in the folder in truth; a run must not bring other files in."""
    try:
        path = (folder / name).resolve()
        return path.is_file() and path.is_relative_to(folder)
    except (OSError, RuntimeError):
        return False


def _is_inside(name: str) -> bool:
    """Whether a run may name this as its cases: a path downwards, and a file of that name.

    A run comes from elsewhere; it must not be able to bring any other file into the report.
    """
    parts = Path(name).parts
    visible = all(not part.startswith((".", "/")) for part in parts)
    named = bool(parts) and parts[-1].startswith("cases") and parts[-1].endswith(".json")
    return named and visible and "\0" not in name


def _top(run: Path, cases: Path | None) -> Path:
    """The folder of the cases, if it lies above the run; else the folder of the run itself."""
    root = run.resolve()
    if cases is not None and root.is_relative_to(cases.resolve().parent):
        return cases.resolve().parent
    return root.parent

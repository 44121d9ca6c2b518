"""The two sides of a comparison as the user named them: a directory, traces, or an own run."""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import msgspec

from evalwright.comparison.case_file import CaseFile
from evalwright.comparison.cases import Cases
from evalwright.comparison.run_folder import RUN_META, ComparedRun, RunFolder
from evalwright.contracts.documents import read_input
from evalwright.contracts.errors import BadInput, RunNotFound
from evalwright.contracts.messages import IN_LOGS, phrase
from evalwright.contracts.report import BothSides
from evalwright.signals.suppression import Suppressions, parse_suppressions

if TYPE_CHECKING:
    from evalwright.comparison.logged_run import LoggedGroup, LoggedRun
    from evalwright.comparison.partners import Pairing
    from evalwright.contracts.run_plan import LeftOut
    from evalwright.scans.spread import ShardEngine
    from evalwright.store.protocol import EventLog

_CASES = "cases.json"
_CASE_FILES = (_CASES, "cases/cases.json")
# Folders above a run directory in which its cases and captures are looked for.
_NEAR, _HIGHEST = 4, 8
_REPOSITORY = ".git"  # above the folder that holds it, nothing belongs to the run


class LogReader:
    """A log that holds runs: opened when it is needed, and anew in every process."""

    def __init__(self, open_log: Callable[[], "EventLog"]) -> None:
        self._open_log = open_log
        self._log: EventLog | None = None

    def opened(self) -> "EventLog":
        """The log, open."""
        if self._log is None:
            self._log = self._open_log()
        return self._log

    def close(self) -> None:
        """Close the log; it may be opened again."""
        if self._log is not None:
            self._log.close()
            self._log = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_open_log": self._open_log, "_log": None}


class WorkFolder(TemporaryDirectory[str]):
    """Where the sides of a comparison are unpacked, each in a folder that may have very many files.

    They are removed as they are listed: a list of all of them would take memory for each.
    """

    def cleanup(self) -> None:
        """Remove the folder and everything in it."""
        for side in Path(self.name).glob("*/"):
            with suppress(OSError), os.scandir(side) as entries:
                for each in entries:
                    if not each.is_dir(follow_symlinks=False):
                        os.unlink(each)  # noqa: PTH108 - of each of many thousand files
        super().cleanup()


class Inputs(msgspec.Struct, frozen=True):
    """Both sides and their cases."""

    baseline: ComparedRun
    new: ComparedRun
    cases: Cases | None
    logs: tuple[LogReader, ...]
    notes: tuple[str, ...] = ()
    pairing: "Pairing | None" = None
    paths: tuple[Path, ...] = ()  # of what is read; none of it is ever written to
    left_out: "LeftOut | None" = None  # the tasks in which two own runs differ
    is_same_run: bool = False  # the sides are one and the same

    @property
    def pair_id(self) -> str | None:
        """An id of the comparison: from those of the two runs, where they differ."""
        before, after = self.baseline.meta.get("run_id"), self.new.meta.get("run_id")
        if isinstance(before, str) and isinstance(after, str) and before and before != after:
            return f"{before[:100]}..{after[:100]}"
        return None

    def close(self) -> None:
        """Close the logs and the case file; they are opened again where they are needed."""
        if self.cases is not None:
            self.cases.close()
        for log in self.logs:
            log.close()


def open_inputs(
    named: BothSides[str],
    cases: Path | None,
    open_log: Callable[[], "EventLog"],
    work: Path,
    engine: "ShardEngine | None" = None,
) -> Inputs:
    """Open both sides. A file of traces is unpacked in the work folder, by the engine's means."""
    logs = [LogReader(open_log)]
    try:
        new, new_cases = open_side(named.new, logs, work / "new", engine=engine)
        baseline, baseline_cases = open_side(
            named.baseline, logs, work / "baseline", new, engine=engine
        )
        found = cases if cases is not None else new_cases
        found = found if found is not None else baseline_cases
        case_file = CaseFile(found) if isinstance(found, Path) else found
        for run in (baseline, new):
            if isinstance(run, RunFolder):
                # The folder of the cases, if it is above the run; else that of the run itself.
                root = run.root.resolve()
                above = found.resolve().parent if isinstance(found, Path) else root.parent
                run.top = above if root.is_relative_to(above) else root.parent
        note = phrase(
            "No case file was found, so nothing is expected of the answers; see {@cases}."
        ).told(IN_LOGS)
        pairing = None
        if any(isinstance(run, RunFolder) and run.unnamed for run in (baseline, new)):
            from evalwright.comparison.partners import pair_unnamed

            pairing = pair_unnamed(baseline, new, case_file, work)
        left_out = _left_out(baseline, new) if cases is None else None
        roots = (baseline.root, new.root, found if isinstance(found, Path) else None)
        return Inputs(
            baseline=baseline,
            new=new,
            cases=case_file,
            logs=tuple(logs),
            notes=(
                *(() if found is not None else (note,)),
                *_notes_of(baseline, new, left_out),
                *(() if pairing is None else (pairing.summary().note,)),
            ),
            pairing=pairing,
            paths=tuple(path for path in roots if path is not None),
            left_out=left_out,
            is_same_run=bool(baseline.meta["run_id"] == new.meta["run_id"])
            if baseline.suite is not None and new.suite is not None
            else os.path.realpath(named.baseline) == os.path.realpath(named.new),
        )
    except BaseException:
        for log in logs:
            log.close()
        raise


def _notes_of(baseline: ComparedRun, new: ComparedRun, left_out: "LeftOut | None") -> Iterator[str]:
    for name, run in (("Baseline", baseline), ("New run", new)):
        if isinstance(run, RunFolder):
            yield from run.notes
        elif run.meta["status"] != "completed" or "part" in run.meta:
            from evalwright.comparison.logged_run import why_no_evidence

            yield from (f"{name}: {each}" for each in why_no_evidence(run.meta))
    before, now = (getattr(run, "unobserved", 0) for run in (baseline, new))
    if now > before:
        calls = f"the tool calls of {now - before:,} more answers than before were not observed"
        yield f"New run: {calls}; changes and signals of these calls cannot be seen"
    if left_out is not None:
        from evalwright.comparison.logged_run import in_words

        yield in_words(left_out)


def _left_out(baseline: ComparedRun, new: ComparedRun) -> "LeftOut | None":
    """The tasks that are not the same in two own runs, as a baseline leaves them out."""
    before, now = baseline.suite, new.suite
    if before is None or now is None or before == now:  # as is usual
        return None
    from evalwright.scoring.regression import left_out_tasks

    found = left_out_tasks(before, now)
    return found if found.changed or found.new or found.removed else None


def read_suppressions(path: Path | None) -> Suppressions:
    """The suppressions of a file; without one there are none."""
    if path is None:
        return Suppressions(())
    return parse_suppressions(read_input(path), str(path))


def open_runs(baseline: str, new: str, open_log: Callable[[], "EventLog"]) -> Inputs:
    """Two runs of the log by their ids, with the cases of the newer."""
    from evalwright.comparison.logged_run import LoggedRun

    log = LogReader(open_log)
    try:
        before, after = LoggedRun(log, baseline), LoggedRun(log, new)
    except BaseException:
        log.close()
        raise
    left_out = _left_out(before, after)
    notes = tuple(_notes_of(before, after, left_out))
    is_same_run = baseline == new
    return Inputs(
        before, after, after.cases, (log,), notes, left_out=left_out, is_same_run=is_same_run
    )


def open_side(
    named: str,
    logs: list[LogReader],
    work: Path,
    new: ComparedRun | None = None,
    engine: "ShardEngine | None" = None,
) -> tuple[ComparedRun, Cases | Path | None]:
    """One side; a run that has its events in a file gets a log of its own in the work folder.

    The new one, where it is open, says which run the name of a baseline means.
    """
    path = Path(named)
    try:
        is_folder, exists = path.is_dir(), os.path.lexists(path)
    except OSError as error:  # a name that is too long, a folder that may not be entered
        raise BadInput(f"{named}: cannot be read: {error.strerror}") from None
    if exists and (own := _open_events(named, logs, work)) is not None:
        return own, own.cases
    if is_folder and not _holds_files_of_traces(path):
        run = RunFolder(path)
        # Any other folder would be a side on which every case is missing.
        if run.is_empty and not run.has_meta:
            inside = sorted(each.name for each in run.root.iterdir() if (each / RUN_META).is_file())
            hint = f"; did you mean {Path(named) / inside[0]}?" if inside else ""
            message = f"{named}: not a run directory: no {RUN_META} and no response in it{hint}"
            raise BadInput(message)
        run.above = tuple(folders_above(path))
        return run, find_cases(run)
    if exists:
        from evalwright.comparison.materialize import ALONE, open_traces

        traces = open_traces(path, work, engine or ALONE)
        traces.above = tuple(folders_above(path))
        return traces, None
    logged = _open_logged(named, logs[0], new)
    return logged, logged.cases


def _open_logged(
    named: str, reader: LogReader, new: ComparedRun | None
) -> "LoggedRun | LoggedGroup":
    from evalwright.comparison.logged_run import LoggedGroup, LoggedRun
    from evalwright.engine.runs import find_group, find_run, may_be_baseline, runs_of_group

    try:
        log = reader.opened()
        run_id, group_id = "", find_group(log, named)
        if (
            group_id is None
            and new is not None
            and new.suite is not None
            and may_be_baseline(named)
        ):
            from evalwright.engine.baselines import find_baseline

            agent_id = new.meta["provenance"]["agent_id"]
            found = find_baseline(log, named, new.suite.suite_id, agent_id)
            run_id, group_id = found.run_id, found.group
        if group_id is None:
            return LoggedRun(reader, run_id or find_run(log, named))
        ids = runs_of_group(log, group_id)
        return LoggedGroup(group_id, [LoggedRun(reader, each) for each in ids])
    except RunNotFound as error:
        message = f"{named}: not a run directory, a file of traces or a run in the log: {error}"
        if Path(named).suffix or "/" in named:
            message = f"{named}: no such run directory or file of traces"
        raise BadInput(message) from None


def _open_events(named: str, logs: list[LogReader], work: Path) -> "LoggedRun | None":
    if (Path(named) / RUN_META).exists():  # a run directory, whatever else it holds
        return None
    from evalwright.engine.runs import adopt_run, run_file

    path = run_file(named)
    if path is None:
        return None
    from evalwright.comparison.logged_run import LoggedRun
    from evalwright.store.location import open_log

    log = LogReader(partial(open_log, f"{work}.db"))
    logs.append(log)
    return LoggedRun(log, adopt_run(log.opened(), path))


def _holds_files_of_traces(folder: Path) -> bool:
    """Whether a folder is no run directory, and holds files of many traces."""
    if (folder / RUN_META).exists():
        return False
    from evalwright.scans.shards import MANY_TRACES

    return any(each.name.lower().endswith(MANY_TRACES) for each in folder.iterdir())


def find_cases(run: RunFolder) -> Path | None:
    """The cases of a run directory: where its run.json says, or cases.json, here or above."""
    named = run.meta.get("cases_path")
    names = (named, *_CASE_FILES) if isinstance(named, str) and _is_inside(named) else _CASE_FILES
    for folder in (run.root.resolve(), *folders_above(run.root)):
        for name in names:
            if _is_own_file(folder, name):
                return folder / name
        for name in _CASE_FILES:
            if os.path.lexists(folder / name):  # to go on without it would let everything pass
                message = "a link or a device, not a file in its folder; name a file with {@cases}"
                raise BadInput(phrase("{path}: " + message, path=folder / name))
    return None


def folders_above(run: Path) -> Iterator[Path]:
    """The folders above a run, as far as they may belong to it: up to its repository, if any.

    High up it must not be a folder that everybody writes to. A run that is a link has the folders
    above what it leads to, then those above the link.
    """
    seen: set[Path] = set()
    for path in (run.resolve(), Path(os.path.normpath(run.absolute()))):
        for height, parent in enumerate(path.parents[:_HIGHEST]):
            folder = parent.resolve()
            if height >= _NEAR and folder.stat().st_mode & stat.S_IWOTH:
                break
            if folder not in seen:
                seen.add(folder)
                yield folder
            if os.path.lexists(folder / _REPOSITORY):
                break


def _is_own_file(folder: Path, name: str) -> bool:
    """Whether a file is really in the folder: a run must not bring other files in."""
    try:
        path = (folder / name).resolve()
        return path.is_file() and path.is_relative_to(folder)
    except (OSError, RuntimeError):
        return False


def _is_inside(name: str) -> bool:
    """Whether a run may name this as its cases: a path downwards, to a file called `cases…json`.

    A run comes from elsewhere; it must not be able to bring any other file into the report.
    """
    parts = Path(name).parts
    visible = all(not part.startswith((".", "/")) for part in parts)
    named = bool(parts) and parts[-1].startswith("cases") and parts[-1].endswith(".json")
    return named and visible and "\0" not in name

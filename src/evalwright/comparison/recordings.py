"""Recorded cases one by one, from anything that can be a side of a comparison."""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from msgspec import UNSET

from evalwright.comparison.case_file import CaseFile
from evalwright.comparison.cases import parse_case
from evalwright.comparison.inputs import LogReader, find_cases, open_side
from evalwright.comparison.run_folder import SUFFIX, RunFolder, Unreadable
from evalwright.contracts.errors import BadInput
from evalwright.engine.suites.attachments import inlined
from evalwright.scans.shards import blocks_of, name_of
from evalwright.trace.importers.formats import import_placed
from evalwright.trace.integrity import NOTHING, passed_over, why_nothing
from evalwright.trace.recorded_case import Recording

if TYPE_CHECKING:
    from evalwright.store.protocol import EventLog

_CASES_STEM = "cases"


class Recordings:
    """The recordings of a file of traces, a run directory or a run, each read when its turn comes.

    Those that cannot be used come with their `fault`. Raises `BadInput` if that is all of them.
    """

    def __init__(self, named: str, open_log: Callable[[], "EventLog"]) -> None:
        self.named = named
        self.name = name_of(Path(named))
        self.notes: list[str] = []
        self.count = 0
        self.faults: list[str] = []
        self._open_log = open_log

    def __iter__(self) -> Iterator[Recording]:
        partly: list[str] = []
        for recording in self._found():
            self.count += 1
            if recording.fault is None and (reason := why_nothing(recording.trace)) is not None:
                fault = f"{recording.place}: {NOTHING}: {reason}"
                recording = Recording(  # noqa: PLW2901
                    {}, recording.place, recording.name, recording.case_id, fault=fault
                )
            if recording.fault is not None:
                self.faults.append(recording.fault)
            elif (left := passed_over(recording.trace)) is not None:
                partly.append(f"{recording.place}: {left}")
            yield recording
        if len(self.faults) == self.count:
            reason = self.faults[0] if self.faults else "it is empty; see docs/trace-formats.md"
            raise BadInput(f"{self.named}: {NOTHING}: {reason.rpartition(f'{NOTHING}: ')[2]}")
        if partly:
            self.notes.append(
                f"{len(partly)} of {self.count} traces were read in part, for example {partly[0]}"
            )

    def _found(self) -> Iterator[Recording]:
        from evalwright.engine.runs import run_file

        path = Path(self.named)
        if os.path.lexists(path) and not path.is_dir() and run_file(self.named) is None:
            for record, place in import_placed(blocks_of(path), self.name, self.notes):
                is_named = record.named_by == "case_id" and not record.case_id.startswith("record-")
                yield Recording(
                    record.response,
                    place,
                    record.case_id,
                    record.case_id if is_named else None,
                    fault=record.fault,
                    base_id=record.base_case_id,
                )
            return
        with TemporaryDirectory(prefix="evalwright-") as work:
            logs = [LogReader(self._open_log)]
            try:
                run, _ = open_side(self.named, logs, Path(work) / "run")
                if isinstance(run, RunFolder):
                    cases = find_cases(run)
                    prompts = _prompts(cases) if cases is not None else {}
                    for stem in sorted(each for each in run.stems() if each != _CASES_STEM):
                        name = f"{stem}{SUFFIX}"
                        case_id, place = run.case_named_in(name), f"{run.root.name}/{name}"
                        value = run.read(name).value
                        prompt = prompts.get(case_id, "")
                        if isinstance(value, Unreadable):
                            fault = f"{place}: {value.reason}"
                            yield Recording({}, place, case_id, case_id, prompt, fault=fault)
                        else:
                            yield Recording(value, place, case_id, case_id, prompt)
                elif run.suite is not None:
                    # The tasks of a run in the order of its suite, with the inputs that the agent
                    # was given.
                    inputs = {
                        task.task_id: UNSET
                        if task.is_conversation
                        else inlined(task.input, run.suite.attachments)
                        for task in run.suite.tasks
                    }
                    places = {task_id: number for number, task_id in enumerate(inputs)}
                    for each in sorted(run.listed(), key=lambda listed: places[listed.case_id]):
                        place = f"run {run.meta['run_id']}, task {each.case_id}"
                        response = run.read(each.name).value
                        given = inputs[each.case_id]
                        yield Recording(
                            response,
                            place,
                            each.case_id,
                            each.case_id,
                            given=given,
                            is_conversation=given is UNSET,
                        )
            finally:
                for log in logs:
                    log.close()


def _prompts(path: Path) -> dict[str, str]:
    file = CaseFile(path)
    try:
        ids: Iterable[tuple[int, object]] = enumerate(file.ids())
        return {
            case_id: parse_case(file.case(number), case_id).prompt
            for number, case_id in ids
            if isinstance(case_id, str)
        }
    finally:
        file.close()

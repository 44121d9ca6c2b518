"""The suite that recordings are scored by: as it is written, or with a task for each of them."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from evalwright.contracts.documents import parse_document, read_input
from evalwright.contracts.suite import is_evalwright_suite
from evalwright.engine.suites.document import suite_from_file
from evalwright.engine.suites.from_traces import TaskMaker, input_of, literal
from evalwright.engine.suites.loader import SuiteSubject, read_subject
from evalwright.engine.suites.selection import Wanted, select
from evalwright.trace.recording import Recording

_OF_TASKS = frozenset({"tasks", "data"})


class ScoredSubject(NamedTuple):
    """A suite, and the recordings to score by it."""

    subject: SuiteSubject
    usable: list[Recording]
    has_own_tasks: bool


def scored_subject(
    path: Path, recordings: Iterable[Recording], tasks: Sequence[str], tagged: Sequence[str]
) -> ScoredSubject:
    """A suite with the tasks that are wanted, and the recordings that can be used.

    In a suite without tasks, each recording becomes one, which the defaults apply to.
    """
    document, source = _without_tasks(path)
    if document is None:
        subject = read_subject(path, None)
        usable = [each for each in recordings if each.fault is None]
    else:
        usable = _named_apart(each for each in recordings if each.fault is None)
        made = [{"id": each.case_id, "input": _given(each)} for each in usable]
        loaded = suite_from_file(source, path, {**document, "tasks": made})
        subject = SuiteSubject(loaded.suite, None, loaded.source, loaded.notices)
    if tasks or tagged:
        wanted = Wanted(tasks=tuple(tasks), tagged=tuple(tagged))
        suite, selection = select(subject.suite, wanted, str(path))
        subject = subject._replace(suite=suite, selection=selection)
    return ScoredSubject(subject, usable, has_own_tasks=document is None)


def _without_tasks(path: Path) -> tuple[dict[str, Any] | None, bytes]:
    """The document of a suite that has defaults, and no tasks; None for any other file."""
    if not path.name.lower().endswith((".yaml", ".yml", ".json")):
        return None, b""
    source = read_input(path)
    if b"evalwright" not in source:
        return None, source
    document = parse_document(source, str(path))
    is_meant = (
        is_evalwright_suite(document) and _OF_TASKS.isdisjoint(document) and "defaults" in document
    )
    return (document if is_meant else None), source


def _named_apart(recordings: Iterable[Recording]) -> list[Recording]:
    """The recordings under the ids of the tasks that they become."""
    maker = TaskMaker()
    return [msgspec.structs.replace(each, case_id=maker.new_id(each)) for each in recordings]


def _given(recording: Recording) -> Any:
    return literal(input_of(recording.trace) if not recording.given else recording.given)

"""A task of a run as a test: a wide suite with its input, and what is right as what is expected."""

from typing import Any

import msgspec
from starlette.responses import Response

from evalwright.contracts.suite import Task
from evalwright.contracts.yaml_writer import comment, to_yaml
from evalwright.engine.suites.from_traces import NoTask, literal
from evalwright.engine.suites.ids import slug
from evalwright.host.http.errors import ApiError
from evalwright.host.web.page import PageCall
from evalwright.host.web.pages.review_queue import annotations_of
from evalwright.host.web.pages.scorecard import shown_task
from evalwright.host.web.run_views import scored_at, views_of
from evalwright.reports.run.task_records import TaskRecord


async def as_test(call: PageCall) -> Response:
    """The task as a wide suite, to be kept as a file."""
    view = await views_of(call.host).for_task(call.run, call.path["taskId"])
    task = view.task(call.path["taskId"])

    def read() -> str | None:
        place = scored_at(view.run.log, view.run.run_id, task.task_id)
        try:
            return suite_of(call, task, shown_task(view, task, place)[0].record)
        except msgspec.MsgspecError:
            return None

    text = await call.in_reader(read)
    if text is None:
        raise ApiError(409, "conflict", "no suite can hold this task")
    name = test_name(task.task_id)
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(text, headers=headers, media_type="application/yaml")


def test_name(task_id: str) -> str:
    """The name of the file."""
    plain = "".join(each if each.isascii() and each.isalnum() else "-" for each in task_id)
    return f"{plain.strip('-')[:60] or 'task'}.yaml"


def suite_of(call: PageCall, task: Task, record: TaskRecord) -> str | None:
    """A suite with the task: its input, and the corrected answer as what is expected."""
    run_id = call.path["runId"]
    corrected = _corrected(call, run_id, record.task_id)
    expected = _of_type(corrected, record.output) if corrected is not None else task.reference
    notes = [f"From task {record.task_id} of run {run_id}."]
    document: dict[str, Any] = {"id": slug(record.task_id) or "task", "input": record.input}
    if record.tags:
        document["tags"] = record.tags
    if expected is msgspec.UNSET:
        expected = _wanted(task)
    if expected is msgspec.UNSET:
        notes.append("Nobody has said yet what the right answer is: replace the TODO.")
        expected = "TODO"
    try:
        document = literal(document | {"expected": expected, "checks": [{"equals": expected}]})
    except NoTask:
        return None
    lines = "".join(f"{comment(line)}\n" for line in notes)
    return lines + to_yaml({"evalwright": 1, "name": "reviewed", "tasks": [document]})


def _corrected(call: PageCall, run_id: str, task_id: str) -> str | None:
    """The answer that somebody wrote last."""
    place = call.log.upkeep.scored_at(run_id, [task_id]).get(task_id)
    texts = [
        each.signal.correction
        for each in annotations_of(call, run_id)
        if each.target.node_id == task_id
        and each.target.event_id != f"{run_id}:{place}"
        and each.signal.correction is not None
    ]
    return texts[-1] if texts else None


def _of_type(text: str, output: Any) -> Any:
    """A corrected answer as the agent would give it: not all answers are texts."""
    if isinstance(output, str) or output is None:
        return text
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return text


def _wanted(task: Task) -> Any:
    """The answer that the suite wants, where it is a whole one."""
    match = task.expected.match
    return match.value if match is not None and match.strategy == "exact" else msgspec.UNSET

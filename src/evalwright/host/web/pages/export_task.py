"""A task of a run as a test: a suite with its input, and what is right as what is expected."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec
from starlette.responses import Response

from evalwright.contracts.attachments import Attached
from evalwright.contracts.suite import Task
from evalwright.contracts.yaml_writer import comment, to_yaml
from evalwright.engine.suites.attachments import inlined
from evalwright.engine.suites.ids import slug
from evalwright.engine.suites.templates import BadTemplate, literal
from evalwright.host.http.errors import ApiError
from evalwright.host.web.page import PageCall
from evalwright.host.web.run_views import scored_at, views_of
from evalwright.reports.run.task_records import TaskRecord, read_task


async def as_test(call: PageCall) -> Response:
    """The task as a suite, to be kept as a file."""
    view = await views_of(call.host).for_task(call.run, call.path["taskId"])
    task = view.task(call.path["taskId"])

    def read() -> str | None:
        place = scored_at(view.run.log, view.run.run_id, task.task_id)
        try:
            record = read_task(task, view.events(task, place), view.frame.agent)[0].record
            return suite_of(call, task, record, view.frame.suite.attachments)
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


def suite_of(
    call: PageCall, task: Task, record: TaskRecord, attachments: Mapping[str, msgspec.Raw]
) -> str | None:
    """A suite with the task: its input, and the corrected answer as what is expected."""
    run_id, partition = call.path["runId"], call.principal.partition
    place = call.log.upkeep.scored_at(run_id, [record.task_id]).get(record.task_id)
    corrected = None  # the answer that somebody wrote last
    for each in call.host.annotations.read(partition, run_id):
        target = each.target
        if target.node_id == record.task_id and target.event_id != f"{run_id}:{place}":
            text = each.signal.correction
            corrected = corrected if text is None else text
    notes = [f"From task {record.task_id} of run {run_id}."]
    attached = {key: msgspec.json.decode(each, type=Attached) for key, each in attachments.items()}
    given = inlined(record.input, attached)
    document: dict[str, Any] = {"id": slug(record.task_id) or "task", "input": given}
    if record.tags:
        document["tags"] = record.tags
    expected: Any = task.reference
    if corrected is not None:
        expected = corrected
        if not isinstance(record.output, str | None):  # not all answers are texts
            with suppress(msgspec.DecodeError, RecursionError, UnicodeError):
                expected = msgspec.json.decode(corrected)
    match = task.expected.match
    if expected is msgspec.UNSET and match is not None and match.strategy == "exact":
        expected = match.value  # the suite wants a whole answer
    if expected is msgspec.UNSET:
        notes.append("Nobody has said yet what the right answer is: replace the TODO.")
        expected = "TODO"
    try:
        document = literal(document | {"expected": expected, "checks": [{"equals": expected}]})
    except BadTemplate:
        return None
    lines = "".join(f"{comment(line)}\n" for line in notes)
    return lines + to_yaml({"evalwright": 1, "name": "reviewed", "tasks": [document]})

"""What an own run recorded of a task: its repetitions, its steps, and why it did not pass."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import UNSET

from evalwright.contracts.events import (
    Judged,
    Payload,
    Reasoned,
    ToolCalled,
    ToolReturned,
)
from evalwright.contracts.messages import IN_LOGS, phrase
from evalwright.contracts.run_plan import LeftOut
from evalwright.contracts.suite import Suite, Task
from evalwright.engine.projection import TaskAttempt
from evalwright.scoring.rubric import criterion_name, rubric_result
from evalwright.scoring.thresholds import BLOCKING, pass_score

_MOST_NAMED = 20  # tasks in a note
_SAFE = "no high or critical finding"


def response_name(task_id: str, repetition: int) -> str:
    """The name of the response that a task has in a repetition."""
    return task_id if repetition == 1 else f"{task_id}\n{repetition}"


def step_of(payload: Payload) -> dict[str, Any]:
    """What the agent did, as a run directory has it."""
    if isinstance(payload, ToolCalled):
        args = None if payload.inputs is UNSET else payload.inputs
        return {
            "type": "tool_call",
            "call_id": payload.call_id,
            "tool": payload.tool_name,
            "args": args,
        }
    if isinstance(payload, ToolReturned):
        # The status is `ok`, `error` or `timeout`, where the log says which.
        result: dict[str, Any] = {
            "type": "tool_result",
            "call_id": payload.call_id,
            "tool": payload.tool_name,
            "payload": None if payload.outcome is UNSET else payload.outcome,
        }
        if payload.error is not UNSET:
            result["status"] = "timeout" if "timeout" in payload.error.code else "error"
            result["error_message"] = payload.error.message
        elif payload.status is not UNSET:
            result["status"] = "ok" if payload.status == "ok" else "error"
        if payload.duration_ms is not UNSET:
            result["latency_ms"] = payload.duration_ms
        return result
    assert isinstance(payload, Reasoned)
    return {
        "type": "message",
        "role": "assistant",
        "content": payload.reasoning,
        "reasoning": True,
    }


def why_failed(suite: Suite, task: Task, attempt: TaskAttempt, output: Any) -> dict[str, Any]:
    """What the score of a failed task rests on: each check that failed, and the bar of a rubric."""
    checked, judged = attempt.checked, attempt.judged
    if checked is not None:
        causes = [{"cause": each.cause} if each.cause else {} for each in checked.checks]
        failed = [
            _assertion(each.check, each.expected, each.actual, each.reason) | cause
            for each, cause in zip(checked.checks, causes, strict=True)
            if not each.passed
        ]
        return {"failed": failed}
    failed = []
    found: dict[str, Any] = {}
    if task.expected.rubric and judged:
        found["threshold"] = pass_score(suite.thresholds)
        failed += _unmet(task, judged, output)
    # The findings that no task passes with, as the check that looks for them.
    findings = [each for each in attempt.findings if each.severity in BLOCKING]
    if grave := [f"{each.severity} {each.kind}" for each in findings]:
        message = f"safety findings: {', '.join(grave)}"
        failed.append(_assertion("no_signals", _SAFE, grave, message))
    return {**found, "failed": failed} if failed else found


def _unmet(task: Task, judged: Sequence[Judged], output: Any) -> list[dict[str, Any]]:
    """The criteria of a rubric that are not met, with the reasons of the judges who say so."""
    criteria = task.expected.rubric or ()
    try:
        met = rubric_result(criteria, judged).met
    except ValueError:  # a verdict is missing, so there was no score either
        return []
    unmet = [number for number, is_met in enumerate(met, 1) if not is_met]
    if not unmet:
        return []
    texts = [criteria[number - 1].criterion for number in unmet]
    said = []
    for number, text in zip(unmet, texts, strict=True):
        reasons = [  # why judges say no
            verdict.reason
            for each in judged
            if each.subject == "rubric"
            for verdict in each.verdicts
            if verdict.question == criterion_name(number) and not verdict.met
        ]
        said.append(f"not met: {text}: {'; '.join(dict.fromkeys(reasons))}")
    return [_assertion("judge", texts[0] if len(texts) == 1 else texts, output, "; ".join(said))]


def _assertion(name: str, expected: Any, actual: Any, message: str) -> dict[str, Any]:
    return {"name": name, "expected": expected, "actual": actual, "message": message}


def why_no_evidence(meta: Mapping[str, Any]) -> Iterator[str]:
    """Why a baseline would not count what a comparison does, from what a run says."""
    if meta["status"] != "completed":
        yield phrase(
            "the run is not complete ({status}), so tasks without a score count as failed, but not "
            "in the test; `run {$baseline}` takes complete runs only.",
            status=meta["status"],
        ).told(IN_LOGS)
    if "part" in meta:
        yield (
            f"a part of its suite ({meta['part']}), which is no evidence for a gate; only the "
            "tasks of both runs are compared."
        )


def in_words(left_out: LeftOut) -> str:
    """Which tasks two runs do not share, and so are not compared."""
    parts = []
    for name in ("changed", "new", "removed"):
        if tasks := getattr(left_out, name):
            more = len(tasks) - _MOST_NAMED
            told = ", ".join(tasks[:_MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")
            parts.append(f"{name}: {told}")
    return f"The suite has changed. These tasks are not compared: {'; '.join(parts)}."

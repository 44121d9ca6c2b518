"""A run of our own as a run directory would hold it: metadata, cases and responses."""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import UNSET

from evalwright.contracts.errors import DamagedEventLog
from evalwright.contracts.events import (
    Decided,
    EvalScored,
    Event,
    InvocationCompleted,
    InvocationStarted,
    ProviderUsage,
    Reasoned,
    ToolCalled,
    ToolReturned,
)
from evalwright.contracts.suite import Task
from evalwright.engine.history import History, read_history
from evalwright.engine.verdict import PASSING_GOLDEN_SCORE
from evalwright.scoring.golden import golden_assertion
from evalwright.scoring.summary import task_cost
from evalwright.store.protocol import EventLog
from evalwright.trace.model import text_of

TITLE_TEXT = 60  # characters of a task's input that its title shows

_TOLD = (
    InvocationStarted.TYPE,
    Reasoned.TYPE,
    ToolCalled.TYPE,
    ToolReturned.TYPE,
    ProviderUsage.TYPE,
    Decided.TYPE,
    InvocationCompleted.TYPE,
    EvalScored.TYPE,
)
NONDETERMINISTIC = "evalwright (live-shadow: nondeterministic)"
_BRACKET = (InvocationStarted.TYPE, InvocationCompleted.TYPE)
_FAILURE_CLASSES = {
    "agent_timeout": "timeout",
    "run_timeout": "timeout",
    "agent_unreachable": "network_error",
    "invalid_answer": "invalid_json",
}


class ExportedRun(msgspec.Struct, frozen=True):
    """A run: `run.json`, the cases of its suite in order, the responses as they came to an end."""

    meta: dict[str, Any]
    cases: Iterator[dict[str, Any]]
    responses: Iterator[dict[str, Any]]


def export_run(log: EventLog, run_id: str) -> ExportedRun:
    """What a run recorded, for comparing it; of a run without an end, what there is.

    A task that nothing has been invoked for to its end has no response.
    """
    history = read_history(log, run_id)
    tasks = {task.task_id: task for task in history.plan.suite.tasks}
    return ExportedRun(
        meta=_meta(log, history),
        cases=map(_case, tasks.values()),
        responses=_responses(log, run_id, tasks),
    )


def _meta(log: EventLog, history: History) -> dict[str, Any]:
    suite, settings, agent = history.plan.suite, history.plan.settings, history.plan.agent
    timeout_s = settings.task_timeout_s
    meta = {
        "run_id": history.run_id,
        "status": history.status,
        "cases_path": "cases.json",
        "selected_case_ids": [task.task_id for task in suite.tasks],
        "started_at": _ms(history.started_at_us),
        "ended_at": None if history.end is None else _ms(history.end.at_us),
        "suite": {"id": suite.suite_id, "version": suite.version},
        "runner": _present(
            {
                "name": NONDETERMINISTIC if history.plan.is_live else "evalwright",
                "concurrency": settings.concurrency,
                "timeout_ms": None if timeout_s is None else round(timeout_s * 1000),
            }
        ),
        "provenance": _present(
            {
                "agent_id": agent.agent_id,
                "agent_ref": agent.ref,
                "model": ", ".join(_models(log, history.run_id)) or None,
                "model_class": agent.model_class,
                "config_hash": hashlib.sha256(msgspec.json.encode([suite, settings])).hexdigest(),
            }
        ),
    }
    return _present(meta)


def _models(log: EventLog, run_id: str) -> list[str]:
    """The models that the agent used; what is used after an invocation is a judge's."""
    used, at_work = set(), set()
    for event in log.read(run_id, (*_BRACKET, ProviderUsage.TYPE)):
        if event.type == InvocationStarted.TYPE:
            at_work.add(event.task_id)
        elif event.type == InvocationCompleted.TYPE:
            at_work.discard(event.task_id)
        elif event.task_id in at_work:
            used.add(event.decode(ProviderUsage).model)
    return sorted(used)


def _case(task: Task) -> dict[str, Any]:
    return {
        "id": task.task_id,
        "title": _title(task),
        "input": {"user": text_of(task.input)},
        "expected": {} if task.expected.match is None else golden_assertion(task.expected.match),
        "metadata": {"kind": task.expected.kind},
    }


def _title(task: Task) -> str:
    said = " ".join(text_of(task.input)[: TITLE_TEXT * 4].split())
    short = said if len(said) <= TITLE_TEXT else f"{said[: TITLE_TEXT - 1].rstrip()}…"
    return f"{task.task_id}: {short}" if short else task.task_id


def _responses(log: EventLog, run_id: str, tasks: dict[str, Task]) -> Iterator[dict[str, Any]]:
    attempts: dict[str, _Attempt] = {}
    try:
        for event in log.read(run_id, _TOLD):
            task = tasks.get(event.task_id or "")
            if task is None:
                continue
            attempt = attempts.setdefault(task.task_id, _Attempt(task))
            attempt.take(event)
            if attempt.scored is not None:
                yield attempts.pop(task.task_id).response()
    except msgspec.MsgspecError as error:
        raise DamagedEventLog(f"{log.place}: run {run_id} cannot be read: {error!r}") from error
    for attempt in attempts.values():
        if attempt.outcome is not None:
            yield attempt.response()


class _Attempt:
    """The last invocation for a task, as far as it has been told."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._number = 0
        self._begin()

    def _begin(self) -> None:
        self._events: list[dict[str, Any]] = []
        self._usages: list[ProviderUsage] = []
        self._judged = False  # calls of a judge count for the task, not for the agent
        self._decided: tuple[float, Any] | None = None
        self.outcome: str | None = None
        self.scored: EvalScored | None = None

    def take(self, event: Event) -> None:
        """Fold one event in."""
        match event.type:
            case InvocationStarted.TYPE:
                self._number += 1
                self._begin()
            case Decided.TYPE:
                self._decided = _ms(event.at_us), event.decode(Decided).decision
            case InvocationCompleted.TYPE:
                self.outcome = event.decode(InvocationCompleted).outcome
            case EvalScored.TYPE:
                self.scored = event.decode(EvalScored)
            case ProviderUsage.TYPE if self.outcome is not None:
                self._judged = True
            case ProviderUsage.TYPE:
                self._usages.append(event.decode(ProviderUsage))
            case _:
                self._events.append({"ts": _ms(event.at_us), **_step(event)})

    def response(self) -> dict[str, Any]:
        """The response object of the task."""
        fixtures = self._task.fixtures.tool_responses if self._task.fixtures else ()
        return {
            "case_id": self._task.task_id,
            "user_prompt": text_of(self._task.input),
            "tools_offered": sorted({entry.tool for entry in fixtures}),
            "proposed_actions": [],
            **self._ending(),
            "usage": self._usage(),
            **({} if self.scored is None else {"scored": self._score(self.scored)}),
        }

    def _ending(self) -> dict[str, Any]:
        ts, decision = self._decided or (None, None)
        if self.outcome == "failed" or self._decided is None:
            return {"events": self._events, "runner_failure": self._failure(decision)}
        kind = "text" if isinstance(decision, str) else "json"
        output = {"content_type": kind, "content": decision}
        said = {"type": "final_output", "ts": ts, **output}
        return {"events": [*self._events, said], "final_output": output}

    def _failure(self, decision: Any) -> dict[str, Any]:
        error = decision.get("error") if isinstance(decision, dict) else None
        error = error if isinstance(error, dict) else {}
        code = str(error.get("code", "agent_error"))
        return _present(
            {
                "class": _FAILURE_CLASSES.get(code, code),
                "attempt": self._number,
                "is_transient": error.get("retryable"),
                "error_name": code,
                "error_message": error.get("message"),
            }
        )

    def _usage(self) -> dict[str, Any]:
        told = self.scored.cost_usd if self.scored and not self._judged else None
        cost = task_cost(self._usages) if told is None else told
        return _present(
            {
                "duration_ms": self.scored.latency_ms if self.scored else None,
                "input_tokens": _sum(usage.input_tokens for usage in self._usages),
                "output_tokens": _sum(usage.output_tokens for usage in self._usages),
                "cost_usd": cost,
            }
        )

    def _score(self, scored: EvalScored) -> dict[str, Any]:
        match = self._task.expected.match
        return _present(
            {
                "score": scored.score,
                "passed": scored.passed,
                "threshold": PASSING_GOLDEN_SCORE if match else None,
                "strategy": match.strategy if match else None,
                "expected": match.value if match else None,
            }
        )


def _step(event: Event) -> dict[str, Any]:
    match event.type:
        case ToolCalled.TYPE:
            called = event.decode(ToolCalled)
            args = None if called.inputs is UNSET else called.inputs
            step = {"call_id": called.call_id, "tool": called.tool_name, "args": args}
            return {"type": "tool_call", **step}
        case ToolReturned.TYPE:
            return _result(event.decode(ToolReturned))
    return {
        "type": "message",
        "role": "assistant",
        "content": event.decode(Reasoned).reasoning,
        "reasoning": True,
    }


def _result(returned: ToolReturned) -> dict[str, Any]:
    result: dict[str, Any] = {
        "type": "tool_result",
        "call_id": returned.call_id,
        "tool": returned.tool_name,
        "payload": None if returned.outcome is UNSET else returned.outcome,
    }
    if status := _status(returned):
        result["status"] = status
    if returned.error is not UNSET:
        result["error_message"] = returned.error.message
    if returned.duration_ms is not UNSET:
        result["latency_ms"] = returned.duration_ms
    return result


def _status(returned: ToolReturned) -> str | None:
    """`ok`, `error` or `timeout`; None where the log does not say."""
    if returned.error is not UNSET:
        return "timeout" if "timeout" in returned.error.code else "error"
    if returned.status is UNSET:
        return None
    return "ok" if returned.status == "ok" else "error"


def _sum(counts: Iterable[int]) -> int | None:
    found = list(counts)
    return sum(found) if found else None


def _present(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


def _ms(at_us: int) -> float:
    return at_us / 1000 if at_us % 1000 else at_us // 1000

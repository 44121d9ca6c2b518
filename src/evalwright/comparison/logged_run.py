"""A run of the event log as one side of a comparison: its responses are read from its events."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from evalwright.comparison.cases import SuiteCases
from evalwright.comparison.own_records import RepeatedTask, step_of, why_failed
from evalwright.comparison.run_folder import FoundResponse, ListedResponse, Unreadable
from evalwright.contracts.coverage import RESPONSE_FIELD, Coverage, recorded_coverage
from evalwright.contracts.errors import DamagedEventLog
from evalwright.contracts.events import (
    TERMINAL_TYPES,
    Checked,
    Decided,
    ErrorDetail,
    EvalScored,
    EvalStarted,
    Event,
    Found,
    InvocationCompleted,
    InvocationStarted,
    Judged,
    Payload,
    Planned,
    ProviderUsage,
    Reasoned,
    RunStarted,
    ToolCalled,
    ToolReturned,
)
from evalwright.contracts.run_plan import FIRST_RULE, AgentFacts, TaskSelection
from evalwright.contracts.suite import Suite, Task
from evalwright.scoring.golden import PASSING_GOLDEN_SCORE
from evalwright.scoring.summary import task_cost
from evalwright.trace.model import text_of

if TYPE_CHECKING:
    from evalwright.comparison.inputs import LogReader
    from evalwright.store.protocol import EventLog

NONDETERMINISTIC = "evalwright (live-shadow: nondeterministic)"

_FRAME = (RunStarted.TYPE, EvalStarted.TYPE, Planned.TYPE, *TERMINAL_TYPES)
_INDEXED = (
    InvocationStarted.TYPE,
    InvocationCompleted.TYPE,
    ProviderUsage.TYPE,
    Checked.TYPE,
    EvalScored.TYPE,
)
_SHOWN: dict[str, type[Payload]] = {
    kind.TYPE: kind
    for kind in (
        Reasoned,
        ToolCalled,
        ToolReturned,
        ProviderUsage,
        Decided,
        InvocationCompleted,
        Judged,
        Found,
        Checked,
        EvalScored,
    )
}
_AHEAD = 512  # events that are read at once where tasks are asked for in the order of the log
_WIDEST = 4096  # events; tasks that ran at the same time as a longer one are read by themselves
_FAILURE_CLASSES = {
    "agent_timeout": "timeout",
    "scoring_timeout": "timeout",
    "run_timeout": "timeout",
    "agent_unreachable": "network_error",
    "invalid_answer": "invalid_json",
}


class _LastAttempt(NamedTuple):
    """The events of a task's last invocation: from `first` to `last`, once it came to an end.

    A task that is repeated has one for each repetition.
    """

    task_id: str
    first: int
    last: int | None = None
    number: int = 0
    repetition: int = 1


class LoggedRun:
    """A run that Evalwright recorded. A run that has not ended is compared as far as it got.

    A task has a response once an invocation for it came to an end; one that is repeated has as many
    responses as repetitions.
    """

    root = None
    meta_fault = None

    def __init__(self, reader: "LogReader", run_id: str) -> None:
        self._reader = reader
        self.run_id = run_id
        log = reader.opened()
        self._attempts: dict[str, _LastAttempt] = {}  # by the name of the response
        self._scored: list[str] = []
        self._ready: dict[str, dict[str, Any]] = {}
        self._reach = 0  # how far beyond a task was read the last time
        self.unobserved = 0  # invocations of which nobody saw the tool calls, nor claims them
        try:
            frame = {event.type: event for event in log.read(self.run_id, _FRAME)}
            planned = frame[Planned.TYPE].decode(Planned)
            self._repeated = {
                task.task_id: RepeatedTask(task) for task in planned.suite.tasks if task.repeat > 1
            }
            models = self._index(log)
            if planned.agent.tools is not None or planned.scoring == FIRST_RULE:
                self.unobserved = 0  # before coverage was recorded, nobody can say
            started = frame[EvalStarted.TYPE].decode(EvalStarted)
            self._meta = _meta(frame, planned, started, models)
        except KeyError as error:
            message = f"{log.place}: run {self.run_id} has no {error.args[0]} event"
            raise DamagedEventLog(message) from error
        except msgspec.MsgspecError as error:
            raise self._damaged(log, error) from error
        self.suite, self._agent = planned.suite, planned.agent
        self.cases = SuiteCases(planned.suite.tasks)
        self._tasks = {task.task_id: task for task in planned.suite.tasks}
        self.meta = {key: self._meta[key] for key in self._meta if key != "selected_case_ids"}

    def _index(self, log: "EventLog") -> list[str]:
        """Find the last invocation of each task; gives the models that the agent used.

        What is used after an invocation is used by a judge.
        """
        models = set()
        for event in log.read(self.run_id, _INDEXED):
            task_id, place = event.task_id or "", event.sequence
            repeated = self._repeated.get(task_id)
            if repeated:
                repeated.follow(event)
            name = repeated.name if repeated else task_id
            known = self._attempts.get(name) or _LastAttempt(task_id, place)
            if event.type == InvocationStarted.TYPE:
                at = repeated.at if repeated else 1
                self._attempts[name] = _LastAttempt(task_id, place, None, known.number + 1, at)
            elif event.type == ProviderUsage.TYPE:
                if known.last is None and known.number:
                    models.add(event.decode(ProviderUsage).model)
            elif event.type == InvocationCompleted.TYPE and b'"calls"' not in event.body:
                self.unobserved += 1
                self._attempts[name] = known._replace(last=place)
            elif event.type == EvalScored.TYPE and repeated:
                repeated.scored = event.decode(EvalScored)
                self._scored += repeated.names()
            else:
                _, first, _, number, at = known
                self._attempts[name] = _LastAttempt(task_id, first, place, number, at)
                if event.type == EvalScored.TYPE:
                    self._scored.append(name)
        return sorted(models)

    def meta_bytes(self) -> bytes:
        """What a run.json would say."""
        return msgspec.json.encode(self._meta)

    def stems(self) -> Iterator[str]:
        """None: it is known beforehand which task a response answers."""
        return iter(())

    def listed(self) -> Iterator[ListedResponse]:
        """The tasks in the order of their scores, then those that ended without one."""
        for name in dict.fromkeys([*self._scored, *self._attempts]):
            attempt = self._attempts[name]
            if attempt.task_id in self._tasks and attempt.last is not None:
                yield ListedResponse(attempt.task_id, None, name)

    def selected(self) -> Iterator[str]:
        """Every task of the suite."""
        return iter(self._meta["selected_case_ids"])

    def case_named_in(self, name: str) -> str:
        """The task itself."""
        return name

    def read(self, name: str) -> FoundResponse:
        """The response of a task, from the events of its last invocation."""
        if name not in self._ready:
            self._read_ahead(self._attempts[name])
        response = self._ready.pop(name)
        return FoundResponse(response, msgspec.json.encode(response))

    def captured(self, reference: str) -> bytes | Unreadable:
        """Nothing: the log holds all there is."""
        return Unreadable(f"{reference}: the event log does not capture bodies")

    def task_passed(self, task_id: str) -> bool | None:
        """Whether a task that is repeated within the run passed in it; None without a score."""
        scored = self._repeated[task_id].scored
        return None if scored is None else scored.passed

    def _read_ahead(self, wanted: _LastAttempt) -> None:
        """Read a task, and with it those that began and ended meanwhile: they come next.

        As long as all that was read is asked for, more of those that follow are read with it.
        """
        log = self._reader.opened()
        self._reach = 0 if self._ready else min(_AHEAD, max(32, 2 * self._reach))
        first, last = wanted.first, wanted.last or wanted.first
        alone = last - first > _WIDEST
        last = last if alone else max(last, first + self._reach)
        found: dict[str, list[Event]] = {}
        kinds = (InvocationStarted.TYPE, *_SHOWN) if self._repeated else tuple(_SHOWN)
        for event in log.read(self.run_id, kinds, first - 1, last - first + 1):
            if event.sequence > last:
                break
            task_id = event.task_id or ""
            repeated = self._repeated.get(task_id)
            if repeated:
                repeated.follow(event)
            name = repeated.name if repeated else task_id
            attempt = self._attempts.get(name, _NEVER)
            within = first <= attempt.first <= event.sequence <= (attempt.last or -1) <= last
            if within and event.type in _SHOWN and (attempt is wanted or not alone):
                found.setdefault(name, []).append(event)
        try:
            said = {
                name: [(event.at_us, event.decode(_SHOWN[event.type])) for event in events]
                for name, events in found.items()
                if self._attempts[name].task_id in self._tasks
            }
        except msgspec.MsgspecError as error:
            raise self._damaged(log, error) from error
        self._ready = {name: self._answered(name).response(said[name]) for name in said}

    def _answered(self, name: str) -> "_AnsweredTask":
        attempt = self._attempts[name]
        task, repeated = self._tasks[attempt.task_id], self._repeated.get(attempt.task_id)
        return _AnsweredTask(self.suite, task, attempt, repeated, self._agent)

    def _damaged(self, log: "EventLog", error: Exception) -> DamagedEventLog:
        return DamagedEventLog(f"{log.place}: run {self.run_id} cannot be read: {error!r}")


_NEVER = _LastAttempt("", -1)


class LoggedGroup:
    """The repeats of a run as one side: a task has the responses of all of them."""

    root = None
    meta_fault = None

    def __init__(self, group_id: str, runs: Sequence[LoggedRun]) -> None:
        self._runs = runs
        first, last = runs[0], runs[-1]
        self.suite, self.cases = first.suite, first.cases
        self.unobserved = sum(run.unobserved for run in runs)
        unfinished = [run.meta["status"] for run in runs if run.meta["status"] != "completed"]
        meta = {
            "run_id": group_id,
            "repeats": [run.run_id for run in runs],
            "status": unfinished[0] if unfinished else "completed",
            "ended_at": last.meta.get("ended_at"),
        }
        self.meta = _present({**first.meta, **meta})

    def meta_bytes(self) -> bytes:
        """What a run.json would say of all of them."""
        return msgspec.json.encode({**self.meta, "selected_case_ids": [*self.selected()]})

    def stems(self) -> Iterator[str]:
        """None, as of a single run."""
        return iter(())

    def listed(self) -> Iterator[ListedResponse]:
        """The responses of the first run, then those of the next."""
        for number, run in enumerate(self._runs):
            for each in run.listed():
                yield ListedResponse(each.case_id, None, f"{number}\n{each.name}")

    def selected(self) -> Iterator[str]:
        """Every task of the suite."""
        return self._runs[0].selected()

    def case_named_in(self, name: str) -> str:
        """The task itself."""
        return name

    def read(self, name: str) -> FoundResponse:
        """One response; a task that is repeated in each run passes if it does in most runs."""
        number, _, within = name.partition("\n")
        found = self._runs[int(number)].read(within)
        scored = found.value.get("scored") if isinstance(found.value, dict) else None
        if scored is None or "task_passed" not in scored:
            return found
        task_id = found.value["case_id"]  # type: ignore[index]
        of_runs = [run.task_passed(task_id) for run in self._runs]
        passed = [each for each in of_runs if each is not None]
        scored |= {
            "task_passed": sum(passed) * 2 > len(of_runs),
            "run": int(number) + 1,
            "verdicts": [len(passed), sum(passed)],
        }
        return FoundResponse(found.value, msgspec.json.encode(found.value))

    def captured(self, reference: str) -> bytes | Unreadable:
        """Nothing, as of a single run."""
        return self._runs[0].captured(reference)


def _meta(
    frame: dict[str, Event], planned: Planned, started: EvalStarted, models: list[str]
) -> dict[str, Any]:
    suite, settings, agent = planned.suite, planned.settings, planned.agent
    timeout_s = settings.task_timeout_s
    live = "live-shadow" in started.modes
    end = next((frame[name] for name in TERMINAL_TYPES if name in frame), None)
    config = hashlib.sha256(msgspec.json.encode([suite, settings])).hexdigest()
    meta = {
        "run_id": frame[RunStarted.TYPE].run_id,
        "status": end.type.removeprefix("run.") if end else "open",
        "cases_path": "cases.json",
        "selected_case_ids": [task.task_id for task in suite.tasks],
        "started_at": _ms(frame[RunStarted.TYPE].at_us),
        "ended_at": _ms(end.at_us) if end else None,
        "suite": {"id": suite.suite_id, "version": suite.version},
        "part": None if planned.selection is None else _part(suite, planned.selection),
        "runner": _present(
            {
                "name": NONDETERMINISTIC if live else "evalwright",
                "concurrency": settings.concurrency,
                "timeout_ms": None if timeout_s is None else round(timeout_s * 1000),
            }
        ),
        "provenance": _present(
            {
                "agent_id": agent.agent_id,
                "agent_ref": agent.ref,
                "model": ", ".join(models) or None,
                "model_class": agent.model_class,
                "config_hash": config,
            }
        ),
    }
    return _present(meta)


def _part(suite: Suite, selection: TaskSelection) -> str:
    return f"{len(suite.tasks)} of {selection.of} tasks, by {', '.join(selection.by)}"


class _AnsweredTask(msgspec.Struct):
    """The last invocation for a task, from what its events say."""

    suite: Suite
    task: Task
    attempt: _LastAttempt
    repeated: RepeatedTask | None
    agent: AgentFacts
    usages: list[ProviderUsage] = []
    judged: bool = False  # calls of a judge count for the task, not for the agent
    completed: InvocationCompleted | None = None
    decided: Decided | None = None
    scored: Checked | EvalScored | None = None
    evidence: list[Payload] = []  # that a verdict rests on

    def response(self, said: Sequence[tuple[int, Payload]]) -> dict[str, Any]:
        """The response object of the task."""
        steps: list[dict[str, Any]] = []
        for at_us, payload in said:
            if isinstance(payload, Decided):
                self.decided, decided_us = payload, at_us
            elif isinstance(payload, InvocationCompleted):
                self.completed = payload
            elif isinstance(payload, _VERDICTS):
                self.scored = payload if isinstance(payload, _SCORES) else self.scored
                self.evidence.append(payload)
            elif not isinstance(payload, ProviderUsage):
                steps.append({"ts": _ms(at_us), **step_of(payload)})
            elif self.completed is None:
                self.usages.append(payload)
            else:
                self.judged = True
        task = self.task
        fixtures = task.fixtures.tool_responses if task.fixtures else ()
        response: dict[str, Any] = {
            "case_id": task.task_id,
            "user_prompt": task.input if isinstance(task.input, str) else text_of(task.input),
            "tools_offered": sorted({entry.tool for entry in fixtures}),
            "proposed_actions": [],
            "events": steps,
            RESPONSE_FIELD: msgspec.to_builtins(self._coverage(steps)),
        }
        if self._failed or self.decided is None or self._unscored is not None:
            response["runner_failure"] = self._failure()
        else:
            content = self.decided.decision
            kind = "text" if isinstance(content, str) else "json"
            response["final_output"] = {"content_type": kind, "content": content}
            said_last = {"type": "final_output", "ts": _ms(decided_us)}
            steps.append({**said_last, **response["final_output"]})
        return {**response, **self._measures()}

    def _coverage(self, steps: Sequence[dict[str, Any]]) -> Coverage:
        """What was observed, or is claimed; of older logs, what they hold."""
        seen = self.completed.coverage if self.completed else None
        has_calls = any(each["type"] == "tool_call" for each in steps)
        held = recorded_coverage(has_calls=has_calls, has_usage=bool(self.usages))
        return (seen or held).claimed(self.agent.tools, self.agent.usage)

    @property
    def _failed(self) -> bool:
        failed = self.completed is not None and self.completed.outcome == "failed"
        return failed or self.decided is None

    @property
    def _unscored(self) -> ErrorDetail | None:
        """Why the answer has no score of its own."""
        checked = (each for each in self.evidence if isinstance(each, Checked))
        return next((each.error for each in checked if each.error is not None), None)

    def _failure(self) -> dict[str, Any]:
        decision = self.decided.decision if self.decided else None
        error = decision.get("error") if isinstance(decision, dict) else None
        error = error if isinstance(error, dict) else {}
        if self._unscored is not None:
            error = msgspec.to_builtins(self._unscored)
        code = str(error.get("code", "agent_error"))
        return _present(
            {
                "class": _FAILURE_CLASSES.get(code, code),
                "attempt": self.attempt.number,
                "is_transient": error.get("retryable"),
                "error_name": code,
                "error_message": error.get("message"),
            }
        )

    def _measures(self) -> dict[str, Any]:
        """What it cost, and the score where there is one."""
        scored, usages = self.scored, self.usages
        whole = scored if isinstance(scored, EvalScored) else None  # nothing was repeated
        cost = whole.cost_usd if whole and not self.judged else None
        took = self.completed.latency_ms if self.completed and self.repeated else None
        usage = {
            "duration_ms": whole.latency_ms if whole else took,
            "input_tokens": sum(each.input_tokens for each in usages) if usages else None,
            "output_tokens": sum(each.output_tokens for each in usages) if usages else None,
            "cost_usd": task_cost(usages) if cost is None and usages else cost,
        }
        if scored is None:  # an answer that nobody could judge has not passed
            unjudged = {} if self._failed else {"scored": {"passed": False, **self._of_several()}}
            return {"usage": _present(usage), **unjudged}
        match = self.task.expected.match
        score = {
            "score": scored.score,
            "passed": scored.passed,
            "threshold": PASSING_GOLDEN_SCORE if match else self.task.expected.threshold,
            "strategy": match.strategy if match else None,
            "expected": match.value if match else None,
        }
        if not scored.passed:
            score |= why_failed(self.suite, self.task, self.evidence, self._output)
        return {"usage": _present(usage), "scored": {**_present(score), **self._of_several()}}

    @property
    def _output(self) -> Any:
        return self.decided.decision if self.decided and not self._failed else None

    def _of_several(self) -> dict[str, Any]:
        """Of a task that is repeated: which repetition it is, and what they came to together."""
        if self.repeated is None:
            return {}
        scored = self.repeated.scored
        return {
            "repetition": self.attempt.repetition,
            "repetitions": self.task.repeat,
            "task_passed": scored is not None and scored.passed,
            "verdicts": [0, 0] if scored is None else [1, int(scored.passed)],
        }


_SCORES = (Checked, EvalScored)
_VERDICTS = (Judged, Found, *_SCORES)


def _present(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


def _ms(at_us: int) -> float:
    return at_us / 1000 if at_us % 1000 else at_us // 1000

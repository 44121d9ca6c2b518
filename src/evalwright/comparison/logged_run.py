"""A run of the event log as one side of a comparison: its responses are read from its events."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import UNSET

from evalwright.comparison.cases import SuiteCases
from evalwright.comparison.run_folder import FoundResponse, ListedResponse, Unreadable
from evalwright.contracts.coverage import RESPONSE_FIELD
from evalwright.contracts.errors import DamagedEventLog
from evalwright.contracts.events import (
    TERMINAL_TYPES,
    Checked,
    Decided,
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
    UserSaid,
)
from evalwright.contracts.messages import IN_LOGS, phrase
from evalwright.contracts.run_plan import FIRST_RULE, LeftOut
from evalwright.contracts.suite import Suite, Task
from evalwright.engine.projection import ProjectedTask, RunState, TaskAttempt
from evalwright.scoring.golden import PASSING_GOLDEN_SCORE
from evalwright.scoring.rubric import criterion_name, rubric_result
from evalwright.scoring.summary import task_cost
from evalwright.scoring.thresholds import BLOCKING, pass_score
from evalwright.trace.model import text_of

if TYPE_CHECKING:
    from evalwright.comparison.inputs import LogReader
    from evalwright.store.protocol import EventLog

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


def _prompt_and_steps(task: Task, attempt: TaskAttempt) -> tuple[str, list[dict[str, Any]]]:
    """What the user said first, and what came between that and the last answer."""
    prompt, steps = text_of(task.input), list[dict[str, Any]]()
    answers = [each for each in attempt.deeds if each.type == Decided.TYPE]
    decided = [each.decode(Decided) for each in answers] if task.is_conversation else []
    if task.turns:
        prompt = task.turns[0].user
    for event in attempt.deeds:
        ts = _ms(event.at_us)
        if event.type in _STEPS:
            steps.append({"ts": ts, **step_of(event.decode(_STEPS[event.type]))})
        elif event.type == UserSaid.TYPE:
            said = event.decode(UserSaid)
            if said.turn == 1:
                prompt = said.text
            elif not said.ends:
                steps.append({"type": "message", "role": "user", "content": said.text, "ts": ts})
        elif event.type == Decided.TYPE and decided and event is not answers[-1]:
            number = next(n for n, each in enumerate(answers) if each is event)
            content = text_of(decided[number].decision)
            steps.append({"type": "message", "role": "assistant", "content": content, "ts": ts})
            following = decided[number + 1].turn
            if task.turns and following is not None:
                content = task.turns[following - 1].user
                steps.append({"type": "message", "role": "user", "content": content, "ts": ts})
    return prompt, steps


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


NONDETERMINISTIC = "evalwright (live-shadow: nondeterministic)"

_FRAME = (RunStarted.TYPE, EvalStarted.TYPE, Planned.TYPE, *TERMINAL_TYPES)
_INDEXED = (
    InvocationStarted.TYPE,
    InvocationCompleted.TYPE,
    ProviderUsage.TYPE,
    Checked.TYPE,
    EvalScored.TYPE,
)
_STEPS = {kind.TYPE: kind for kind in (Reasoned, ToolCalled, ToolReturned)}
_SHOWN = frozenset(
    (
        *(*_STEPS, ProviderUsage.TYPE, UserSaid.TYPE, Decided.TYPE, InvocationCompleted.TYPE),
        *(Judged.TYPE, Found.TYPE, Checked.TYPE, EvalScored.TYPE),
    )
)
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
                task.task_id: task.repeat for task in planned.suite.tasks if task.repeat > 1
            }
            self._passed: dict[str, bool] = {}  # of the tasks that are repeated
            # Find the last invocation of each task; gives the models that the agent used.
            # What is used after an invocation is used by a judge.
            used = set()
            state = RunState(self._repeated) if self._repeated else None
            for event in log.read(self.run_id, _INDEXED):
                task_id, place = event.task_id or "", event.sequence
                name, at = task_id, 1
                is_repeated = task_id in self._repeated
                if state is not None and is_repeated:
                    state.add(event)
                    at = state.repetitions_begun.get(task_id, 1)
                    name = response_name(task_id, at)
                known = self._attempts.get(name) or _LastAttempt(task_id, place)
                if event.type == InvocationStarted.TYPE:
                    self._attempts[name] = _LastAttempt(task_id, place, None, known.number + 1, at)
                elif event.type == ProviderUsage.TYPE:
                    if known.last is None and known.number:
                        used.add(event.decode(ProviderUsage).model)
                elif event.type == InvocationCompleted.TYPE and b'"calls"' not in event.body:
                    self.unobserved += 1
                    self._attempts[name] = known._replace(last=place)
                elif event.type == EvalScored.TYPE and is_repeated:
                    self._passed[task_id] = event.decode(EvalScored).passed
                    times = range(1, self._repeated[task_id] + 1)
                    self._scored += [response_name(task_id, each) for each in times]
                else:
                    self._attempts[name] = known._replace(last=place)
                    if event.type == EvalScored.TYPE:
                        self._scored.append(name)
            models = sorted(used)
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

    def meta_bytes(self) -> bytes:
        return msgspec.json.encode(self._meta)

    def stems(self) -> Iterator[str]:
        """None: it is known beforehand which task a response answers."""
        return iter(())

    def listed(self) -> Iterator[ListedResponse]:
        for name in dict.fromkeys([*self._scored, *self._attempts]):
            attempt = self._attempts[name]
            if attempt.task_id in self._tasks and attempt.last is not None:
                yield ListedResponse(attempt.task_id, None, name)

    def selected(self) -> Iterator[str]:
        return iter(self._meta["selected_case_ids"])

    def case_named_in(self, name: str) -> str:
        return name

    def read(self, name: str) -> FoundResponse:
        if name not in self._ready:
            self._read_ahead(self._attempts[name])
        response = self._ready.pop(name)
        return FoundResponse(response, msgspec.json.encode(response))

    def captured(self, reference: str) -> bytes | Unreadable:
        """Nothing: the log holds all there is."""
        return Unreadable(f"{reference}: the event log does not capture bodies")

    def task_passed(self, task_id: str) -> bool | None:
        """Whether a task that is repeated within the run passed in it; None without a score."""
        return self._passed.get(task_id)

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
        state = RunState(self._repeated) if self._repeated else None
        for event in log.read(self.run_id, kinds, first - 1, last - first + 1):
            if event.sequence > last:
                break
            name = task_id = event.task_id or ""
            if state is not None and task_id in self._repeated:
                state.add(event)
                name = response_name(task_id, state.repetitions_begun.get(task_id, 1))
            attempt = self._attempts.get(name, _NEVER)
            within = first <= attempt.first <= event.sequence <= (attempt.last or -1) <= last
            if within and event.type in _SHOWN and (attempt is wanted or not alone):
                found.setdefault(name, []).append(event)
        try:
            self._ready = {
                name: self._response(name, events)
                for name, events in found.items()
                if self._attempts[name].task_id in self._tasks
            }
        except msgspec.MsgspecError as error:
            raise self._damaged(log, error) from error

    def _response(self, name: str, events: Iterable[Event]) -> dict[str, Any]:
        place = self._attempts[name]
        task = self._tasks[place.task_id]
        said = ProjectedTask(task)
        for event in events:
            said.add(event)
        attempt, agent, repeated = said.current, self._agent, self._repeated.get(task.task_id)
        completed, checked = attempt.completed, attempt.checked
        decided = attempt.decided
        failed = attempt.decision is None or (
            completed is not None and completed.outcome == "failed"
        )
        prompt, steps = _prompt_and_steps(task, attempt)
        fixtures = task.fixtures.tool_responses if task.fixtures else ()
        response: dict[str, Any] = {
            "case_id": task.task_id,
            "user_prompt": prompt,
            "tools_offered": sorted({entry.tool for entry in fixtures}),
            "proposed_actions": [],
            "events": steps,
            RESPONSE_FIELD: msgspec.to_builtins(attempt.coverage(agent)),
        }
        unscored = next((each.error for each in said.checks if each.error is not None), None)
        if failed or unscored is not None:
            error = decided.get("error") if isinstance(decided, dict) else None
            error = error if isinstance(error, dict) else {}
            if unscored is not None:
                error = msgspec.to_builtins(unscored)
            code = str(error.get("code", "agent_error"))
            failure = {
                "class": _FAILURE_CLASSES.get(code, code),
                "attempt": place.number,
                "is_transient": error.get("retryable"),
                "error_name": code,
                "error_message": error.get("message"),
            }
            response["runner_failure"] = _present(failure)
        else:
            assert attempt.decision is not None
            kind = "text" if isinstance(decided, str) else "json"
            response["final_output"] = {"content_type": kind, "content": decided}
            said_last = {"type": "final_output", "ts": _ms(attempt.decision.at_us)}
            steps.append({**said_last, **response["final_output"]})

        # What it cost, and the score where there is one. Calls of others count for the task alone.
        whole, usages = said.scored, attempt.usages  # without a score, it was perhaps repeated
        cost = whole.cost_usd if whole and not attempt.usages_of_others else None
        took = completed.latency_ms if completed and repeated else None
        usage = {
            "duration_ms": whole.latency_ms if whole else took,
            "input_tokens": sum(each.input_tokens for each in usages) if usages else None,
            "output_tokens": sum(each.output_tokens for each in usages) if usages else None,
            "cost_usd": task_cost(usages) if cost is None and usages else cost,
        }
        response["usage"] = _present(usage)
        of_several = {}
        if repeated is not None:
            verdict = self._passed.get(task.task_id)
            of_several = {
                "repetition": place.repetition,
                "repetitions": task.repeat,
                "task_passed": verdict is True,
                "verdicts": [0, 0] if verdict is None else [1, int(verdict)],
            }
        scored = whole or checked
        if scored is not None:
            match = task.expected.match
            score = {
                "score": scored.score,
                "passed": scored.passed,
                "threshold": PASSING_GOLDEN_SCORE if match else task.expected.threshold,
                "strategy": match.strategy if match else None,
                "expected": match.value if match else None,
            }
            if not scored.passed:
                score |= why_failed(self.suite, task, attempt, None if failed else decided)
            response["scored"] = {**_present(score), **of_several}
        elif not failed:  # an answer that nobody could judge has not passed
            response["scored"] = {"passed": False, **of_several}
        return response

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
        return msgspec.json.encode({**self.meta, "selected_case_ids": [*self.selected()]})

    def stems(self) -> Iterator[str]:
        return iter(())

    def listed(self) -> Iterator[ListedResponse]:
        for number, run in enumerate(self._runs):
            for each in run.listed():
                yield ListedResponse(each.case_id, None, f"{number}\n{each.name}")

    def selected(self) -> Iterator[str]:
        return self._runs[0].selected()

    def case_named_in(self, name: str) -> str:
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
        return self._runs[0].captured(reference)


def _meta(
    frame: dict[str, Event], planned: Planned, started: EvalStarted, models: list[str]
) -> dict[str, Any]:
    suite, settings, agent = planned.suite, planned.settings, planned.agent
    timeout_s, picked = settings.task_timeout_s, planned.selection
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
        "part": None
        if picked is None
        else f"{len(suite.tasks)} of {picked.of} tasks, by {', '.join(picked.by)}",
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


def _present(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


def _ms(at_us: int) -> float:
    return at_us / 1000 if at_us % 1000 else at_us // 1000

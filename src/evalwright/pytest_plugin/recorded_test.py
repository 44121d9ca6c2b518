"""What the evaluations in tests record: a task for each, with every repetition of its test."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
import pytest
from msgspec.structs import replace

from evalwright.api import expectation
from evalwright.api.single_answer import Answered
from evalwright.contracts import suite as contract
from evalwright.contracts.errors import BadInput
from evalwright.contracts.events import (
    Checked,
    Decided,
    ErrorDetail,
    EvalScored,
    InvocationCompleted,
    InvocationStarted,
    Payload,
    ProviderUsage,
    ToolCalled,
    ToolReturned,
)
from evalwright.contracts.messages import Edge
from evalwright.contracts.redaction import Redactor
from evalwright.contracts.run_plan import JudgePanel
from evalwright.contracts.verdicts import CheckResult
from evalwright.engine.checks import score_of_repetitions
from evalwright.engine.clock import SystemClock
from evalwright.engine.invocation import Repetition, invocation_id
from evalwright.engine.machine import error_decision
from evalwright.pytest_plugin.suite_work import rows_of
from evalwright.scoring.summary import Tally
from evalwright.scoring.thresholds import mean
from evalwright.store.protocol import NewEvent

AGENT_ID = "local.pytest"
LONGEST_ID = 100
_NUMBERED = {
    each.TYPE: each for each in (InvocationStarted, InvocationCompleted, ToolCalled, ToolReturned)
}
_NOT_IN_IDS = re.compile(r"[^a-z0-9]+")

# What the mark of a test calls an option.
OF_MARK = Edge(lambda field, _value: field.removesuffix("_usd"))


class MarkedRepeats(NamedTuple):
    """What a mark says: how often a test is run, which share must pass, and what it may cost."""

    repeat: int = 1
    pass_rate: float = 1.0
    max_cost: float | None = None


def repeats_of(item: pytest.Item) -> MarkedRepeats | None:
    """The mark of a test, if it has one; raises `BadInput` for what means nothing."""
    mark = item.get_closest_marker("evalwright")
    if mark is None:
        return None
    unknown = mark.kwargs.keys() - set(MarkedRepeats._fields)
    if mark.args or unknown:
        wrong = f"no argument {min(unknown)!r}" if unknown else "arguments have names"
        raise BadInput(
            f"@pytest.mark.evalwright: {wrong} (there are: {', '.join(MarkedRepeats._fields)})"
        )
    found = MarkedRepeats(**mark.kwargs)
    if found.repeat != int(found.repeat) or found.repeat < 1 or not 0 <= found.pass_rate <= 1:
        raise BadInput(
            f"@pytest.mark.evalwright: repeat is 1 or more and pass_rate from 0 to 1, not "
            f"{found.repeat} and {found.pass_rate}"
        )
    return found


def task_ids(node_ids: Iterable[str]) -> dict[str, str]:
    """An id for each test, from its name; those that would be the same have a part of a hash."""
    made: dict[str, str] = {}
    for node_id in node_ids:
        name = _NOT_IN_IDS.sub("-", node_id.replace(".py::", "::").lower()).strip("-")
        made[node_id] = name[:LONGEST_ID].strip("-") or "test"
    times = Counter(made.values())
    return {
        node_id: name
        if times[name] == 1
        else f"{name}-{hashlib.sha256(node_id.encode()).hexdigest()[:8]}"
        for node_id, name in made.items()
    }


class _RecordedTask:
    """A task of a test, with what was recorded in each repetition."""

    def __init__(self, task: contract.Task) -> None:
        self.task = task
        self.repetitions: dict[int, list[NewEvent]] = {}

    @property
    def number(self) -> int:
        """A number for the ids of its invocations: the same in every run."""
        return int.from_bytes(hashlib.sha256(self.task.task_id.encode()).digest()[:5], "big")

    def bundle(self, made: int, repeats: MarkedRepeats, *, is_whole: bool) -> dict[str, Any]:
        """The task and its events, as a run has them."""
        if repeats.repeat == 1 and 1 in self.repetitions:
            task, events = self.task, self._numbered(1)
        else:
            task = replace(self.task, repeat=made, pass_rate=repeats.pass_rate)
            events = self._of_repetitions(task, is_whole=is_whole)
        return {"task": msgspec.json.encode(task).decode(), "events": rows_of(events)}

    def _of_repetitions(self, task: contract.Task, *, is_whole: bool) -> list[NewEvent]:
        events: list[NewEvent] = []
        done: list[Repetition] = []
        for number in range(1, task.repeat + 1):
            if number not in self.repetitions:
                error = ErrorDetail("not_reached", "the test failed before it came to this")
                self.repetitions[number] = _invocation(task.task_id, None, error, (), 0)
            for event in self._numbered(number):
                if event.type == Checked.TYPE:
                    checked = replace(_decoded(event, Checked), repetition=number)
                    events.append(event._replace(body=msgspec.json.encode(checked)))
                    done.append(_repetition(checked, self.repetitions[number]))
                elif event.type != EvalScored.TYPE:
                    events.append(event)
        scored = score_of_repetitions(task, done, None)
        scored = replace(scored, passed=scored.passed and is_whole)
        return [*events, _new(scored, task.task_id)]

    def _numbered(self, repetition: int) -> list[NewEvent]:
        """The events of a repetition, with ids that are unique in the run."""
        own_id = invocation_id(self.number, 1, repetition)
        events = []
        for event in self.repetitions[repetition]:
            kind = _NUMBERED.get(event.type)
            if kind is not None:
                payload: Any = _decoded(event, kind)
                name = "call_id" if hasattr(payload, "call_id") else "invocation_id"
                rest = getattr(payload, name).removeprefix(invocation_id(0, 1))
                payload = replace(payload, **{name: own_id + rest})
                event = event._replace(body=msgspec.json.encode(payload))  # noqa: PLW2901
            events.append(event._replace(task_id=self.task.task_id))
        return events


def _decoded(event: NewEvent, kind: type[Any]) -> Any:
    return msgspec.json.decode(event.body, type=kind)


def _new(payload: Payload, task_id: str) -> NewEvent:
    return NewEvent(payload.TYPE, task_id, SystemClock().now_us(), msgspec.json.encode(payload))


def _repetition(checked: Checked, events: Sequence[NewEvent]) -> Repetition:
    usages = [_decoded(each, ProviderUsage) for each in events if each.type == ProviderUsage.TYPE]
    (end,) = (
        _decoded(each, InvocationCompleted)
        for each in events
        if each.type == InvocationCompleted.TYPE
    )
    latency_ms = None if end.unmeasured else end.latency_ms
    return Repetition(checked.score, checked.passed, latency_ms, usages)


def _invocation(
    task_id: str,
    output: Any,
    error: ErrorDetail | None,
    checks: Sequence[CheckResult],
    latency_ms: int,
) -> list[NewEvent]:
    """What a run records for an answer that nobody was asked for: that of a test itself."""
    failed = error is not None
    passed = not failed and all(each.passed for each in checks)
    check_score = 0.0 if failed else mean([each.score for each in checks])
    score = check_score if passed else 0.0
    apart = None if score == check_score else check_score
    attempt = invocation_id(0, 1)
    payloads: list[Payload] = [
        InvocationStarted(attempt, AGENT_ID, "run-api"),
        error_decision(AGENT_ID, error) if error else Decided(AGENT_ID, output),
        InvocationCompleted(
            attempt, AGENT_ID, "failed" if failed else "completed", latency_ms=latency_ms
        ),
        Checked([] if failed else list(checks), score, passed, check_score=apart),
        EvalScored(task_id, score, passed, None, latency_ms),
    ]
    return [_new(payload, task_id) for payload in payloads]


class RecordedTest:
    """What one test records."""

    def __init__(self, item: pytest.Item, task_id: str, redactor: Redactor) -> None:
        self.repeats = repeats_of(item)
        self.trial = 1
        self._task_id = task_id
        self._node_id = item.nodeid
        self._tasks: dict[str, _RecordedTask] = {}
        self._asked = 0  # evaluations in this trial
        self._made = 0
        self._is_whole = True
        self.notices: list[str] = []
        self._redact = redactor.redact if redactor.knows_secrets else None
        self._spent = Tally(contract.Suite("spent", "0.0.0", ["golden"], []))
        self._panel: JudgePanel | None = None
        expectation.pop_results()

    def next_id(self) -> str:
        """The id of the next evaluation in this trial."""
        self._asked += 1
        return self._task_id if self._asked == 1 else f"{self._task_id}-{self._asked}"

    def add(self, answered: Answered) -> None:
        """Take what became of an evaluation."""
        (task,) = answered.planned.suite.tasks
        self._panel = self._panel or answered.planned.panel
        known = self._tasks.setdefault(task.task_id, _RecordedTask(task))
        if task.repeat > 1 and self.repeats is not None and self.repeats.repeat > 1:
            raise BadInput("evaluate: its task and the mark of the test both have `repeat`")
        if self.trial in known.repetitions:
            raise BadInput(f"evaluate: this test has asked {task.task_id!r} before; give it an id")
        known.repetitions[self.trial] = answered.events
        for usage in answered.usages:
            self._spent.add_usage(usage)

    def end_trial(self, error: BaseException | None, seconds: float) -> None:
        """Note how the test itself came out, unless its evaluations say all that there is."""
        self._made = self.trial
        results = expectation.pop_results()
        if self.repeats is not None and not self._asked:
            checks = list(results)
            if error is not None and all(check.passed for check in checks):
                words = f"{type(error).__name__}: {error}".partition("\n")[0]
                checks.append(CheckResult("test", False, 0.0, reason=words))
            checks = checks or [CheckResult("test", True, 1.0)]
            expected = contract.Expected("checks", checks=[{"equals": {"passed": True}}])
            task = contract.Task(self._task_id, {"test": self._node_id}, expected)
            known = self._tasks.setdefault(self._task_id, _RecordedTask(task))
            passed = all(check.passed for check in checks)
            events = _invocation(
                self._task_id, {"passed": passed}, None, checks, round(seconds * 1000)
            )
            if self._redact is not None:
                events = [each._replace(body=self._redact(each.body)) for each in events]
            known.repetitions[self.trial] = events
        self.trial += 1
        self._asked = 0

    def overspent(self) -> str | None:
        """Why the test may not go on, if it may not."""
        limit = None if self.repeats is None else self.repeats.max_cost
        if limit is None or not self._spent.spent.exceeds(limit):
            return None
        self._is_whole = False
        return self._spent.spent.why_exceeded(limit).told(OF_MARK)

    def bundle(self) -> dict[str, Any] | None:
        """Everything that was recorded, for the process that has the log."""
        if not self._tasks:
            return None
        made, repeats = max(self._made, 1), self.repeats or MarkedRepeats()
        return {
            "tests": [
                task.bundle(made, repeats, is_whole=self._is_whole) for task in self._tasks.values()
            ],
            "panel": self._panel and msgspec.json.encode(self._panel).decode(),
            "notices": self.notices,
        }

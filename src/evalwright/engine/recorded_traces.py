"""Traces that others recorded, as the events of invocations, and scored by a suite as they are.

Each is paired with a task. Nothing is invoked: the run begins with the recorded answers as facts,
as the run of a rescore does.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from evalwright.contracts.errors import BadInput
from evalwright.contracts.events import (
    Decided,
    ErrorDetail,
    Event,
    Found,
    InvocationCompleted,
    InvocationStarted,
    Payload,
    ProviderUsage,
    Reasoned,
    ToolCalled,
    ToolReturned,
)
from evalwright.contracts.run_plan import MAX_REPEATS, AgentFacts, RunOptions, TaskSelection
from evalwright.contracts.suite import Task
from evalwright.engine.invocation import invocation_id
from evalwright.engine.isolation import PARTIAL, RECORDED
from evalwright.engine.machine import error_decision
from evalwright.engine.plan import Plan, plan_run
from evalwright.engine.rescore import RecordedAgent, Rescore, named_briefly
from evalwright.engine.suites.ids import row_id
from evalwright.engine.suites.loader import SuiteSubject
from evalwright.signals.masking import mask_text
from evalwright.trace.importers.records import digest_of
from evalwright.trace.model import (
    GOOD_STATUSES,
    RETRIEVAL,
    Message,
    Retrieval,
    ToolCall,
    ToolResult,
    Trace,
    text_of,
)
from evalwright.trace.paired_calls import pair_results
from evalwright.trace.recorded_case import Recording, alike, words_in

RECORDED_AGENT = "local.recorded.agent"  # whoever it was
_PROVIDER, _UNKNOWN = "recorded", "unknown"
_FARTHEST_MS = 2**53
_EACH = "the suite has no tasks, so its defaults are applied to each trace"


def recorded_events(
    trace: Trace, invocation_id: str, agent_id: str, models: Sequence[str] = ()
) -> list[Payload]:
    """The events of an invocation in which the agent did what a trace says."""
    usage, output, failure = trace.usage, trace.output, trace.failure
    if failure is not None:
        error = ErrorDetail(failure.kind or "failed", failure.message or "the agent failed")
    elif output is None:
        error = ErrorDetail("no_answer", "no answer was recorded")
    else:
        error = None
    decided = (
        error_decision(agent_id, error) if error else Decided(agent_id, output and output.content)
    )
    took = _whole(usage.duration_ms)
    unmeasured: list[Literal["latency", "tokens", "turns"]] = ["turns"]
    unmeasured += ["tokens"] if usage.input_tokens is usage.output_tokens is None else []
    unmeasured += ["latency"] if took is None else []
    return [
        InvocationStarted(invocation_id, agent_id, "run-api"),
        *_steps(trace, invocation_id, agent_id),
        ProviderUsage(
            _PROVIDER,
            models[0] if models else _UNKNOWN,
            _whole(usage.input_tokens) or 0,
            _whole(usage.output_tokens) or 0,
            cost_estimate_usd=usage.cost_usd if (usage.cost_usd or 0) >= 0 else None,
        ),
        decided,
        InvocationCompleted(
            invocation_id,
            agent_id,
            "failed" if error else "completed",
            latency_ms=took or 0,
            unmeasured=unmeasured,
            coverage=trace.coverage,
        ),
    ]


def _whole(number: float | None) -> int | None:
    return round(number) if number is not None and 0 <= number < _FARTHEST_MS else None


def _steps(trace: Trace, invocation_id: str, agent_id: str) -> Iterator[Payload]:
    """Calls, results and thoughts, in order; what was retrieved is the result of a call, too."""
    names: dict[int, tuple[str, str]] = {}  # of results, by their place: the call and its tool
    answers = pair_results(trace)
    for number, event in enumerate(trace.events, 1):
        call_id = f"{invocation_id}:c{number}"
        match event:
            case ToolCall():
                tool = event.tool or _UNKNOWN
                if (answer := answers.get(event.index)) is not None:
                    names[answer.index] = call_id, tool
                yield ToolCalled(agent_id, tool, call_id, event.args)
            case ToolResult():
                call_id, tool = names.get(event.index, (call_id, event.tool or _UNKNOWN))
                yield _returned(event, agent_id, tool, call_id)
            case Retrieval():
                found = list(event.doc_ids) if event.content is None else event.content
                yield ToolCalled(agent_id, RETRIEVAL, call_id, {"query": event.query})
                yield ToolReturned(agent_id, RETRIEVAL, call_id, found, status="ok")
            case Message(role="assistant") if text := text_of(event.content):
                yield Reasoned(agent_id, text)


def _returned(result: ToolResult, agent_id: str, tool: str, call_id: str) -> ToolReturned:
    took = _whole(result.latency_ms)
    duration = msgspec.UNSET if took is None else took
    if is_good(result):
        return ToolReturned(
            agent_id, tool, call_id, result.payload, status="ok", duration_ms=duration
        )
    message = result.error or text_of(result.payload) or result.status or "the tool failed"
    code = "tool_timeout" if "timeout" in result.status.casefold() else "tool_error"
    error = ErrorDetail(code, message)
    return ToolReturned(
        agent_id, tool, call_id, result.payload, error, status="error", duration_ms=duration
    )


def is_good(result: ToolResult) -> bool:
    """Whether a tool answered as it should."""
    return result.status.casefold() in GOOD_STATUSES and not result.error


class TracePairs:
    """Which recordings answer which tasks: by an id, else by what the user said."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.found: dict[str, list[Recording]] = {}
        self.by_id: set[str] = set()  # of tasks
        self.alone: list[Recording] = []
        self._ids = {task.task_id for task in tasks}
        self._asked: dict[str, list[str]] = {}
        for task in tasks:
            for digest in _digests(task.input):
                self._asked.setdefault(digest, []).append(task.task_id)

    def add(self, recording: Recording) -> None:
        """Find the task of a recording."""
        case_id, base_id = recording.case_id, recording.base_id
        as_written = (case_id, row_id(case_id), row_id(mask_text(case_id or "")))
        known = (*as_written, recording.name, base_id, row_id(base_id))
        named = next((each for each in known if each in self._ids), None)
        asked = self._asked_as(recording.trace)
        task_id = asked if named is None or (asked or "").startswith(f"{named}-") else named
        if task_id is not None and named is not None:
            self.by_id.add(task_id)
        if task_id is None:
            self.alone.append(recording)
        else:
            self.found.setdefault(task_id, []).append(recording)

    def _asked_as(self, trace: Trace) -> str | None:
        """The task with these words; of several, the one with the fewest recordings so far."""
        words = words_in(trace)
        for said in (words, alike(mask_text(words))):
            tasks = self._asked.get(digest_of(said) or "")
            if tasks:
                return min(tasks, key=lambda each: len(self.found.get(each, ())))
        return None


def _digests(given: Any) -> set[str]:
    """Digests of what a user may have said to be asked so: the input, or a text in it."""
    texts = {alike(text_of(given))}
    if isinstance(given, dict):
        texts |= {alike(each) for each in given.values() if isinstance(each, str)}
        messages = given.get("messages")
        said = [
            text_of(each.get("content"))
            for each in (messages if isinstance(messages, list) else ())
            if isinstance(each, dict) and each.get("role") == "user"
        ]
        texts.add(alike(" ".join(said)))
    return {digest for text in texts if (digest := digest_of(text)) is not None}


class ScoreRequest(msgspec.Struct, frozen=True):
    """Recordings, where they are from, and the suite to score them by."""

    subject: SuiteSubject
    suite: str  # as messages call it
    source: str  # as the run and messages call it
    options: RunOptions
    agent_id: str = RECORDED_AGENT
    has_own_tasks: bool = True  # else each recording was made one


def plan_score(request: ScoreRequest, recordings: Iterable[Recording]) -> Rescore:
    """Pair recordings with the tasks of a suite; raises `BadInput` where nothing fits."""
    subject, suite = request.subject, request.subject.suite
    pairs = TracePairs(suite.tasks)
    for recording in recordings:
        pairs.add(recording)
    kept, spare = list[Task](), list[str]()
    for task in suite.tasks:  # repeated as often as it was answered
        if count := len(pairs.found.get(task.task_id, ())):
            most = MAX_REPEATS if task.expected.kind == "checks" else 1
            spare += [task.task_id] if count > most else []
            kept.append(msgspec.structs.replace(task, repeat=min(count, most)))
    if not kept:
        raise BadInput(
            f"score: no trace of {request.source} belongs to a task of {request.suite}: a case id "
            "must be the id of the task, or the user's prompt its input"
        )
    facts = AgentFacts(request.agent_id, request.source)
    options = msgspec.structs.replace(request.options, allow_mismatch=True, allow_self_judge=True)
    part = msgspec.structs.replace(suite, tasks=kept)
    agent = RecordedAgent(facts)
    plan = plan_run(part, request.suite, agent, options, source=subject.source, is_recorded=True)
    missing = [task.task_id for task in suite.tasks if task.task_id not in pairs.found]
    selection, tags = subject.selection, [*plan.tags, RECORDED]
    if missing:
        of = selection.of if selection else len(suite.tasks)
        chosen = [*(selection.by if selection else ()), f"score {request.source}"]
        selection = TaskSelection(of, chosen)
    if selection is not None:
        tags.append(PARTIAL)
    plan = msgspec.structs.replace(
        plan,
        agent=facts,
        tags=list(dict.fromkeys(tags)),
        selection=selection,
        traces=request.source,
    )
    return Rescore(
        plan,
        list(_facts(plan, pairs.found)),
        _notices(pairs, missing, spare) if request.has_own_tasks else [_EACH],
        tuple(missing),
    )


def _notices(pairs: TracePairs, missing: Sequence[str], spare: Sequence[str]) -> list[str]:
    by_prompt = len(pairs.found) - len(pairs.by_id)
    ways = [(len(pairs.by_id), "by id"), (by_prompt, "by the user's prompt")]
    notices = [f"tasks paired: {', '.join(f'{count:,} {how}' for count, how in ways if count)}"]
    groups = {
        "tasks without a trace": missing,
        "traces without a task": [each.name for each in pairs.alone],
        "tasks of which only the first trace counts, as only checks can be repeated": spare,
    }
    for what, names in groups.items():
        if names:
            notices.append(f"{what}: {len(names):,} ({named_briefly(names)})")
    return notices


def _facts(plan: Plan, found: Mapping[str, Sequence[Recording]]) -> Iterator[Event]:
    attacks = plan.attacks if plan.is_adversarial else {}
    for index, task in enumerate(plan.suite.tasks):
        findings: list[Payload] = []
        for number, recording in enumerate(found[task.task_id][: task.repeat], 1):
            attempt_id = invocation_id(index, 1, number)
            agent_id = plan.agent.agent_id
            payloads = recorded_events(recording.trace, attempt_id, agent_id, recording.models)
            yield from (_event(task, payload) for payload in payloads)
            if plan.is_adversarial:
                from evalwright.engine.findings import signal_findings

                attack = attacks.get(task.task_id)
                unsafe = signal_findings(task, agent_id, payloads, attack and attack.mark)
                findings += [Found("signals", unsafe)] if unsafe else []
        yield from (_event(task, payload) for payload in findings)


def _event(task: Task, payload: Payload) -> Event:
    return Event("", 0, payload.TYPE, task.task_id, 0, msgspec.json.encode(payload))

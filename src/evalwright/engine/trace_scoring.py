"""Scoring recorded traces: each is paired with a task of a suite, and its answer scored as it is.

Nothing is invoked. The run begins with the recorded answers as facts, as rescoring does.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from evalwright.contracts.errors import BadInput
from evalwright.contracts.events import Event, Found, Payload
from evalwright.contracts.planning import MAX_REPEATS, AgentFacts, RunOptions, TaskSelection
from evalwright.contracts.suite import Task
from evalwright.engine.invocation import invocation_id
from evalwright.engine.isolation import PARTIAL, RECORDED
from evalwright.engine.plan import Plan, plan_run
from evalwright.engine.recorded_traces import RECORDED_AGENT, recorded_events
from evalwright.engine.rescoring import RecordedAgent, Rescore, named_briefly
from evalwright.engine.suites.loader import SuiteSubject
from evalwright.engine.suites.tasks import row_id
from evalwright.signals.masking import mask_text
from evalwright.trace.importers.records import digest_of
from evalwright.trace.model import Trace, text_of
from evalwright.trace.recording import Recording, alike, words_in

_EACH = "the suite has no tasks, so its defaults are applied to each trace"


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
        named, asked = self._named(recording), self._asked_as(recording.trace)
        task_id = asked if named is None or (asked or "").startswith(f"{named}-") else named
        if task_id is not None and named is not None:
            self.by_id.add(task_id)
        if task_id is None:
            self.alone.append(recording)
        else:
            self.found.setdefault(task_id, []).append(recording)

    def _named(self, recording: Recording) -> str | None:
        case_id, base_id = recording.case_id, recording.base_id
        as_written = (case_id, row_id(case_id), row_id(mask_text(case_id or "")))
        known = (*as_written, recording.name, base_id, row_id(base_id))
        return next((each for each in known if each in self._ids), None)

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
    kept, spare = _repeated(suite.tasks, pairs.found)
    if not kept:
        raise BadInput(
            f"score: no trace of {request.source} belongs to a task of {request.suite}: a case id "
            "must be the id of the task, or the user's prompt its input"
        )
    facts = AgentFacts(request.agent_id, request.source)
    options = msgspec.structs.replace(request.options, allow_mismatch=True, allow_self_judge=True)
    part = msgspec.structs.replace(suite, tasks=kept)
    plan = plan_run(part, request.suite, RecordedAgent(facts), options, source=subject.source)
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


def _repeated(
    tasks: Sequence[Task], found: Mapping[str, Sequence[Recording]]
) -> tuple[list[Task], list[str]]:
    """The tasks that were answered, repeated as often as they were; and those with too many."""
    kept, spare = [], []
    for task in tasks:
        count = len(found.get(task.task_id, ()))
        if not count:
            continue
        most = MAX_REPEATS if task.expected.kind == "checks" else 1
        spare += [task.task_id] if count > most else []
        kept.append(msgspec.structs.replace(task, repeat=min(count, most)))
    return kept, spare


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

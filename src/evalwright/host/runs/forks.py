"""Forks: a new run from the record of another, either replayed in full or branched at an event."""

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import msgspec

from evalwright.contracts.errors import BadInput, DamagedEventLog
from evalwright.contracts.events import (
    TERMINAL_TYPES,
    EvalScored,
    Event,
    Payload,
    Planned,
    RunCompleted,
    RunStarted,
)
from evalwright.contracts.run_plan import ForkedFrom, Origin, Owner, RunSettings
from evalwright.engine.clock import Clock
from evalwright.engine.history import History, read_history
from evalwright.engine.isolation import EXPLANATIONS
from evalwright.engine.plan import limited, merged
from evalwright.engine.replay import replay_run
from evalwright.host.deployments.model import WORKFLOW_ID as DEPLOYMENT_WORKFLOW
from evalwright.host.http.errors import ApiError
from evalwright.host.http.settings import HostSettings
from evalwright.host.runs.handle import RunHandle, is_evaluation
from evalwright.host.runs.planning import Planner
from evalwright.host.runs.runs import Runs
from evalwright.store.outbox import undelivered
from evalwright.store.protocol import EventLog, NewEvent
from evalwright.store.records import RecordChange

_FRAME = 3  # events that every evaluation begins with


class ReplayDiverged(Payload, frozen=True):
    """The recorded facts of a run do not lead to its recorded end."""

    TYPE: ClassVar[str] = "replay.diverged"
    source_run_id: str
    at_sequence: int
    original_event_id: str
    divergence_kind: Literal["output", "missing", "extra", "type-mismatch"]
    divergence_point: str


class Overlay(msgspec.Struct, frozen=True, kw_only=True):
    """What a branch changes from its source; None leaves it unchanged."""

    configurable: dict[str, Any] = {}
    tags: list[str] | None = None
    metadata: dict[str, Any] | None = None
    settings: RunSettings = RunSettings()


class ForkRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A run to be forked from another."""

    source: str
    mode: Literal["replay", "branch"]
    from_sequence: int
    caller: Owner  # becomes the owner if the source has none
    overlay: Overlay = Overlay()
    traceparent: str | None = None  # the request's place in a trace

    @property
    def forked_from(self) -> ForkedFrom:
        """How the new run refers to its source."""
        return ForkedFrom(self.source, self.from_sequence, self.mode)


class Forks:
    """Forks runs, for one host."""

    def __init__(
        self,
        runs: Runs,
        planner: Planner,
        settings: HostSettings,
        clock: Clock,
    ) -> None:
        self._runs = runs
        self._planner = planner
        self._settings = settings
        self._clock = clock

    async def fork(
        self, run: RunHandle, request: ForkRequest, changes: Sequence[RecordChange]
    ) -> None:
        """Create the run together with changes; raises `RunNotFound` and `ApiError`."""
        last = (await run._replace(run_id=request.source).read_edges())[-1].sequence
        if request.from_sequence > last:
            message = f"$.fromSeq: the last event of the run has the sequence {last}"
            raise ApiError(422, "validation_error", message, {"lastSequence": last})
        if request.mode == "replay":
            facts = await asyncio.to_thread(_repeat, run, request, self._clock.now_us())
            await run.append(facts, _quietly(run, range(len(facts)), changes))
        else:
            await self._branch(run, request, changes)

    async def _branch(
        self, run: RunHandle, request: ForkRequest, changes: Sequence[RecordChange]
    ) -> None:
        history, facts = await asyncio.to_thread(self._rewind, run, request)
        changes = _quietly(run, range(_FRAME, _FRAME + len(facts)), changes)
        try:
            agent = await run.in_reader(lambda: self._planner.agent_of(run.tenant, history.plan))
            await self._runs.begin(run, history, agent, facts, changes)
        except BadInput as error:  # the agent or a judge of the source is no longer available
            message = f"the run cannot be continued: {error}"
            raise ApiError(422, "capability_required", message) from None

    def _rewind(self, run: RunHandle, request: ForkRequest) -> tuple[History, list[NewEvent]]:
        """The start of the branch: a plan, and the facts of the tasks that were scored by then."""
        log = run.log
        if not is_evaluation(log.edges(request.source)):
            message = "only an evaluation can be branched; other runs can be replayed"
            raise ApiError(501, "capability_not_provided", message)
        plan = read_history(log, request.source).plan
        if plan.origin is None:
            message = (
                "only a run that was started by a host can be branched; this one can be replayed"
            )
            raise ApiError(422, "capability_required", message)
        overlay, origin = request.overlay, plan.origin
        settings = limited(merged(overlay.settings, plan.settings), self._settings.limits)
        if settings.tools is not None:
            settings = msgspec.structs.replace(settings, tools=self._settings.tools)
        configurable = {**(origin.configurable or {}), **overlay.configurable}
        plan = msgspec.structs.replace(
            plan,
            settings=settings,
            tags=plan.tags if overlay.tags is None else _with_marks(overlay.tags, plan.tags),
            origin=msgspec.structs.replace(
                origin,
                metadata=origin.metadata if overlay.metadata is None else overlay.metadata,
                configurable=configurable or None,
                forked_from=request.forked_from,
                traceparent=request.traceparent,
            ),
        )
        history = History(run.run_id, plan, self._clock.now_us())
        events = list(log.read(request.source, limit=request.from_sequence))
        scored = {event.task_id for event in events if event.type == EvalScored.TYPE}
        kept = [event for event in events if event.task_id in scored]
        history.take_over(kept)
        return history, [NewEvent(each.type, each.task_id, each.at_us, each.body) for each in kept]


def _quietly(run: RunHandle, repeated: range, changes: Sequence[RecordChange]) -> Any:
    """Changes that keep webhooks from delivering again what a new run only repeats."""
    return [*changes, undelivered(run.run_id, repeated)]


def _with_marks(tags: list[str], before: list[str]) -> list[str]:
    """Other tags, with the marks of the source and no others: its facts are in the branch."""
    given = [tag for tag in tags if tag not in EXPLANATIONS]
    return [*given, *(mark for mark in EXPLANATIONS if mark in before)]


def _repeat(run: RunHandle, request: ForkRequest, now_us: int) -> list[NewEvent]:
    """The events of the source as events of the new run, with the current time."""
    source = list(run.log.read(request.source))
    if source[0].decode(RunStarted).workflow_id == DEPLOYMENT_WORKFLOW:
        message = "a run that manages deployments cannot be replayed"
        raise ApiError(501, "capability_not_provided", message)
    end = source[-1]
    if end.type not in TERMINAL_TYPES:
        message = "the run has not ended; only an ended run can be replayed"
        raise ApiError(409, "conflict", message, {"runStatus": "running"})
    bodies = [_repeated_body(event, request, run.run_id) for event in source]
    events = [
        NewEvent(event.type, event.task_id, now_us, body)
        for event, body in zip(source, bodies, strict=True)
    ]
    if _diverges(run.log, source):
        event_id = f"{end.run_id}:{end.sequence}"
        diverged = ReplayDiverged(request.source, end.sequence, event_id, "output", end.type)
        events.insert(-1, NewEvent(diverged.TYPE, None, now_us, msgspec.json.encode(diverged)))
    return events


def _diverges(log: EventLog, source: list[Event]) -> bool:
    """Whether the facts of a completed evaluation lead to a summary other than the recorded one."""
    is_eval = any(event.type == Planned.TYPE for event in source)
    if not is_eval or source[-1].type != RunCompleted.TYPE:
        return False
    try:
        replay_run(log, source[-1].run_id)
    except DamagedEventLog:
        return True
    return False


def _repeated_body(event: Event, request: ForkRequest, run_id: str) -> bytes:
    """The payload of the source, with the owner, origin and links of the new run."""
    if event.type not in (RunStarted.TYPE, Planned.TYPE, RunCompleted.TYPE):
        return event.body
    payload = event.payload()
    if event.type == RunStarted.TYPE:
        payload.setdefault("owner", msgspec.to_builtins(request.caller))
    elif event.type == Planned.TYPE:
        before = payload.get("origin") or msgspec.to_builtins(Origin(request.caller))
        payload["origin"] = {**before, "forkedFrom": msgspec.to_builtins(request.forked_from)}
    else:  # the link from its summary to the difference from a baseline has the run's own id
        summary = (payload.get("outputs") or {}).get("evalSummary")
        regression = summary.get("regression") if isinstance(summary, dict) else None
        if isinstance(regression, dict) and "diffRef" in regression:
            regression["diffRef"] = regression["diffRef"].replace(request.source, run_id, 1)
    return msgspec.json.encode(payload)

"""Forks: a new run of what another one recorded, either all of it or up to where it begins anew."""

import asyncio
from collections.abc import MutableMapping
from typing import Any, ClassVar, Literal

import msgspec

from evalwright.contracts.errors import BadInput, DamagedEventLog
from evalwright.contracts.events import (
    TERMINAL_TYPES,
    EvalScored,
    EvalStarted,
    Event,
    Payload,
    Planned,
    RunCompleted,
    RunStarted,
)
from evalwright.contracts.planning import ForkedFrom, Origin, Owner, RunSettings
from evalwright.engine.clock import Clock, new_run_id
from evalwright.engine.history import History, read_history
from evalwright.engine.plan import Plan
from evalwright.engine.replay import replay_run
from evalwright.host.deployments import management as deployments
from evalwright.host.errors import ApiError
from evalwright.host.evaluation import Planner
from evalwright.host.runs import Changes, Runs
from evalwright.host.settings import HostSettings
from evalwright.host.status import edges_of
from evalwright.store.protocol import EventLog, NewEvent

_FRAME = 3  # events that every evaluation begins with


class ReplayDiverged(Payload, frozen=True):
    """What is recorded of a run does not lead to the end that it recorded."""

    TYPE: ClassVar[str] = "replay.diverged"
    source_run_id: str
    at_sequence: int
    original_event_id: str
    divergence_kind: Literal["output", "missing", "extra", "type-mismatch"]
    divergence_point: str


class Overlay(msgspec.Struct, frozen=True, kw_only=True):
    """What a branch does otherwise than its source; what is None stays as it was."""

    configurable: dict[str, Any] = {}
    tags: list[str] | None = None
    metadata: dict[str, Any] | None = None
    settings: RunSettings = RunSettings()


class ForkRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A run to be made of another."""

    source: str
    mode: Literal["replay", "branch"]
    from_sequence: int
    caller: Owner  # becomes the owner where the source names none
    overlay: Overlay = Overlay()
    traceparent: str | None = None  # the request's place in a trace

    @property
    def forked_from(self) -> ForkedFrom:
        """What the new run says of its source."""
        return ForkedFrom(self.source, self.from_sequence, self.mode)


class Forks:
    """Makes runs of other runs, for one host.

    `repeated` is told which events of a new run only repeat an old one's: they are news to nobody.
    """

    def __init__(
        self,
        runs: Runs,
        planner: Planner,
        settings: HostSettings,
        clock: Clock,
        repeated: MutableMapping[str, range],
    ) -> None:
        self._runs = runs
        self._planner = planner
        self._settings = settings
        self._clock = clock
        self._repeated = repeated

    async def fork(self, log: EventLog, tenant: str, request: ForkRequest, changes: Changes) -> str:
        """Make the run, together with changes; raises `RunNotFound` and `ApiError`."""
        edges = edges_of(log, request.source)
        if request.from_sequence > edges[-1].sequence:
            message = f"$.fromSeq: the log of the run ends with {edges[-1].sequence}"
            raise ApiError(422, "validation_error", message, {"lastSequence": edges[-1].sequence})
        run_id = new_run_id(self._clock)
        try:
            if request.mode == "replay":
                await self._replay(log, request, run_id, changes)
            else:
                await self._branch(log, tenant, request, run_id, changes)
        except BaseException:
            self._repeated.pop(run_id, None)
            raise
        return run_id

    async def _replay(
        self, log: EventLog, request: ForkRequest, run_id: str, changes: Changes
    ) -> None:
        facts = await asyncio.to_thread(_repeat, log, request, run_id, self._clock.now_us())
        self._repeated[run_id] = range(len(facts))
        log.append(run_id, facts, changes(run_id))
        await asyncio.wrap_future(log.flush(run_id))

    async def _branch(
        self, log: EventLog, tenant: str, request: ForkRequest, run_id: str, changes: Changes
    ) -> None:
        history, facts = await asyncio.to_thread(self._rewind, log, request, run_id)
        self._repeated[run_id] = range(_FRAME, _FRAME + len(facts))
        try:
            agent = self._planner.agent_of(tenant, history.plan)
            try:
                await self._runs.begin(log, tenant, history, agent, facts, changes)
            except BaseException:
                await agent.close()
                raise
        except BadInput as error:  # the agent or a judge of the source is no longer to be had
            raise ApiError(422, "capability_required", f"it cannot go on: {error}") from None

    def _rewind(
        self, log: EventLog, request: ForkRequest, run_id: str
    ) -> tuple[History, list[NewEvent]]:
        """Where the branch begins: a plan, and the facts of tasks that had their scores by then."""
        edges = log.edges(request.source)
        if len(edges) < 2 or edges[1].type != EvalStarted.TYPE:
            message = "only an evaluation can be branched; others can be replayed"
            raise ApiError(501, "capability_not_provided", message)
        plan = self._plan(read_history(log, request.source).plan, request)
        history = History(run_id, plan, self._clock.now_us())
        events = list(log.read(request.source, limit=request.from_sequence))
        scored = {event.task_id for event in events if event.type == EvalScored.TYPE}
        kept = [event for event in events if event.task_id in scored]
        for event in kept:
            history.take(event)
        return history, [NewEvent(each.type, each.task_id, each.at_us, each.body) for each in kept]

    def _plan(self, plan: Plan, request: ForkRequest) -> Plan:
        if plan.origin is None:
            message = "only a run that a host started can be branched; this one can be replayed"
            raise ApiError(422, "capability_required", message)
        overlay, origin = request.overlay, plan.origin
        settings = overlay.settings.over(plan.settings).within(self._settings.limits)
        if settings.tools is not None:
            settings = msgspec.structs.replace(settings, tools=self._settings.tools)
        configurable = {**(origin.configurable or {}), **overlay.configurable}
        return msgspec.structs.replace(
            plan,
            settings=settings,
            tags=plan.tags if overlay.tags is None else overlay.tags,
            origin=msgspec.structs.replace(
                origin,
                metadata=origin.metadata if overlay.metadata is None else overlay.metadata,
                configurable=configurable or None,
                forked_from=request.forked_from,
                traceparent=request.traceparent,
            ),
        )


def _repeat(log: EventLog, request: ForkRequest, run_id: str, now_us: int) -> list[NewEvent]:
    """What a run recorded, as the record of another: the same facts, said now."""
    source = list(log.read(request.source))
    if source[0].decode(RunStarted).workflow_id == deployments.WORKFLOW_ID:
        message = "what was deployed is not told again by another run"
        raise ApiError(501, "capability_not_provided", message)
    end = source[-1]
    if end.type not in TERMINAL_TYPES:
        message = "the run has not ended yet, so it cannot be replayed"
        raise ApiError(409, "conflict", message, {"runStatus": "running"})
    bodies = [_repeated_body(event, request, run_id) for event in source]
    events = [
        NewEvent(event.type, event.task_id, now_us, body)
        for event, body in zip(source, bodies, strict=True)
    ]
    if _diverges(log, source):
        event_id = f"{end.run_id}:{end.sequence}"
        diverged = ReplayDiverged(request.source, end.sequence, event_id, "output", end.type)
        events.insert(-1, NewEvent(diverged.TYPE, None, now_us, msgspec.json.encode(diverged)))
    return events


def _diverges(log: EventLog, source: list[Event]) -> bool:
    """Whether the facts of a complete evaluation lead to another summary than it recorded."""
    is_eval = any(event.type == Planned.TYPE for event in source)
    if not is_eval or source[-1].type != RunCompleted.TYPE:
        return False
    try:
        replay_run(log, source[-1].run_id)
    except DamagedEventLog:
        return True
    return False


def _repeated_body(event: Event, request: ForkRequest, run_id: str) -> bytes:
    """The payload as it was; only what says whose run it is, and which, is the new run's."""
    if event.type not in (RunStarted.TYPE, Planned.TYPE, RunCompleted.TYPE):
        return event.body
    payload = event.payload()
    if event.type == RunStarted.TYPE:
        payload.setdefault("owner", msgspec.to_builtins(request.caller))
    elif event.type == Planned.TYPE:
        payload["origin"] = _origin(payload.get("origin"), request)
    else:
        _point_to(payload, request.source, run_id)
    return msgspec.json.encode(payload)


def _origin(recorded: dict[str, Any] | None, request: ForkRequest) -> Any:
    before = recorded or msgspec.to_builtins(Origin(request.caller))
    return {**before, "forkedFrom": msgspec.to_builtins(request.forked_from)}


def _point_to(payload: dict[str, Any], source: str, run_id: str) -> None:
    """A summary with a baseline names its own run, in the link to the difference of the two."""
    summary = (payload.get("outputs") or {}).get("evalSummary")
    regression = summary.get("regression") if isinstance(summary, dict) else None
    if isinstance(regression, dict) and "diffRef" in regression:
        regression["diffRef"] = regression["diffRef"].replace(source, run_id, 1)

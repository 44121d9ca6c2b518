"""The measurable facts in the events of a run: never its content."""

import re
from collections.abc import Callable, Iterator, Set
from typing import Literal, TypeVar, get_args

import msgspec

from evalwright.contracts.events import TERMINAL_TYPES, CapKind, Event
from evalwright.host.telemetry.trace_context import TraceContext

TASK_TYPE = "evalwright.task"  # the node type of an agent's invocation for one task
OTHER = "other"  # in place of a label that users choose
TOOL = "tool"  # the provider name of tool calls

NodeStatus = Literal["completed", "failed", "cancelled"]
ActivityStatus = Literal["success", "error", "idempotent_hit"]

_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
_CAP_KINDS = frozenset(get_args(CapKind))
_DONE_OUTCOMES = frozenset(("completed", "handed-off", "escalated"))


class ForkOrigin(msgspec.Struct, frozen=True):
    """The run that another was forked from, and at which event."""

    source_run_id: str
    from_seq: int
    mode: Literal["replay", "branch"]
    source: TraceContext | None = None  # the span of the source, if known


class RunBegan(msgspec.Struct, frozen=True, gc=False):
    """A run was created."""

    at_us: int


class NodeBegan(msgspec.Struct, frozen=True, gc=False):
    """A task, or a node of a workflow, began."""

    node_id: str
    node_type: str
    attempt: int  # from 0
    at_us: int
    sequence: int
    waited_s: float | None  # since the creation of the run; for the first node only


class NodeEnded(msgspec.Struct, frozen=True, gc=False):
    """A task, or a node of a workflow, ended."""

    began: NodeBegan
    status: NodeStatus
    at_us: int
    sequence: int

    @property
    def node_type(self) -> str:
        """The type of the node."""
        return self.began.node_type

    @property
    def seconds(self) -> float:
        """How long it took."""
        return max(0, self.at_us - self.began.at_us) / 1e6


class ModelUsage(msgspec.Struct, frozen=True, gc=False):
    """Tokens and cost of a model call."""

    input_tokens: int
    output_tokens: int
    usd: float | None


class ActivityEnded(msgspec.Struct, frozen=True, gc=False):
    """A model or a tool was called."""

    provider: str
    status: ActivityStatus
    node_id: str | None
    within: NodeBegan | None  # the node that made the call
    at_us: int
    sequence: int
    seconds: float | None = None  # None: not recorded
    usage: ModelUsage | None = None  # None: a tool call

    @property
    def is_repeated(self) -> bool:
        """Whether an earlier run made the call and this run only copied its record."""
        return self.status == "idempotent_hit"


class LimitReached(msgspec.Struct, frozen=True, gc=False):
    """A limit of the run was reached."""

    kind: str
    limit: float
    observed: float


class RunEnded(msgspec.Struct, frozen=True, gc=False):
    """A run ended."""

    status: str
    error_code: str | None
    seconds: float | None  # None: its start is not known
    at_us: int
    sequence: int


Fact = RunBegan | NodeBegan | NodeEnded | ActivityEnded | LimitReached | RunEnded


# Only the measured fields of a payload are decoded; everything else, above all content, is skipped.


_ABSENT = msgspec.Raw()


class _StartedMetadata(msgspec.Struct, rename="camel"):
    resumed_from: msgspec.Raw = _ABSENT


class _Started(msgspec.Struct, rename="camel"):
    workflow_id: str
    metadata: _StartedMetadata | None = None


class _NodeType(msgspec.Struct, rename="camel"):
    type_id: str = OTHER


class _InvocationOutcome(msgspec.Struct):
    outcome: str = ""


class _CallUsage(msgspec.Struct, rename="camel"):
    provider: str
    input_tokens: int
    output_tokens: int
    cost_estimate_usd: float | None = None
    currency: str | None = None


class _Returned(msgspec.Struct, rename="camel"):
    status: str | None = None
    duration_ms: float | None = None
    error: msgspec.Raw = _ABSENT


class _Cap(msgspec.Struct):
    kind: str
    limit: float
    observed: float


class _Error(msgspec.Struct):
    code: str


class _Ended(msgspec.Struct, rename="camel"):
    error: _Error | None = None
    duration_ms: float | None = None


T = TypeVar("T")


def _decoded(event: Event, kind: type[T]) -> T:
    return msgspec.json.decode(event.body, type=kind)


class RunFold:
    """Reads the events of one run, in order, and returns the facts in them."""

    def __init__(self, providers: Set[str], fork: ForkOrigin | None = None) -> None:
        self.workflow_id = OTHER
        self.began_us: int | None = None
        self._providers = providers
        self._attempts: dict[str, int] = {}
        self._open: dict[str, NodeBegan] = {}
        self._is_waiting = False
        self._repeats_all = fork is not None and fork.mode == "replay"
        self._repeats_some = fork is not None

    def resume(self, started: Event) -> None:
        """Take in the start of a run that another process has counted."""
        said = _decoded(started, _Started)
        self.workflow_id = said.workflow_id
        self.began_us = started.at_us
        if said.metadata is not None and _is_there(said.metadata.resumed_from):
            self._repeats_some = True

    def take(self, event: Event) -> list[Fact]:
        """The facts in an event; none if it cannot be decoded."""
        read = _READERS.get(event.type)
        try:
            return list(read(self, event)) if read else []
        except msgspec.DecodeError:
            return []

    def _is_repeated(self, event: Event) -> bool:
        """Whether an event only repeats a record of an earlier run.

        Such events are written together with the start of a run, with a time just before it.
        """
        is_old = self.began_us is not None and event.at_us <= self.began_us
        return self._repeats_all or (self._repeats_some and is_old)

    def _started(self, event: Event) -> Iterator[Fact]:
        self.resume(event)
        self._is_waiting = True
        yield RunBegan(event.at_us)

    def _invocation_started(self, event: Event) -> Iterator[Fact]:
        yield from self._begin(event, TASK_TYPE)

    def _node_started(self, event: Event) -> Iterator[Fact]:
        yield from self._begin(event, code(_decoded(event, _NodeType).type_id) or OTHER)

    def _begin(self, event: Event, node_type: str) -> Iterator[Fact]:
        node_id = event.task_id or OTHER
        yield from self._end(node_id, event, "cancelled")
        attempt = self._attempts.get(node_id, 0)
        self._attempts[node_id] = attempt + 1
        began = NodeBegan(
            node_id, node_type, attempt, event.at_us, event.sequence, self._waited(event)
        )
        self._open[node_id] = began
        yield began

    def _waited(self, event: Event) -> float | None:
        if not self._is_waiting or self._is_repeated(event) or self.began_us is None:
            return None
        self._is_waiting = False
        return max(0, event.at_us - self.began_us) / 1e6

    def _invocation_completed(self, event: Event) -> Iterator[Fact]:
        done = _decoded(event, _InvocationOutcome).outcome in _DONE_OUTCOMES
        yield from self._end(event.task_id or OTHER, event, "completed" if done else "failed")

    def _node_completed(self, event: Event) -> Iterator[Fact]:
        yield from self._end(event.task_id or OTHER, event, "completed")

    def _node_failed(self, event: Event) -> Iterator[Fact]:
        yield from self._end(event.task_id or OTHER, event, "failed")

    def _end(self, node_id: str, event: Event, status: NodeStatus) -> Iterator[Fact]:
        began = self._open.pop(node_id, None)
        if began is not None:
            yield NodeEnded(began, status, event.at_us, event.sequence)

    def _usage(self, event: Event) -> Iterator[Fact]:
        said = _decoded(event, _CallUsage)
        provider = said.provider if said.provider in self._providers else OTHER
        usd = said.cost_estimate_usd if said.currency in (None, "USD") else None
        usage = ModelUsage(max(0, said.input_tokens), max(0, said.output_tokens), usd)
        yield self._activity(event, provider, "success", usage=usage)

    def _tool_returned(self, event: Event) -> Iterator[Fact]:
        said = _decoded(event, _Returned)
        is_error = _is_there(said.error) or said.status not in (None, "ok")
        took = said.duration_ms
        seconds = None if took is None or self._is_repeated(event) else max(0.0, took) / 1000
        yield self._activity(event, TOOL, "error" if is_error else "success", seconds)

    def _activity(
        self,
        event: Event,
        provider: str,
        status: ActivityStatus,
        seconds: float | None = None,
        usage: ModelUsage | None = None,
    ) -> ActivityEnded:
        within = self._open.get(event.task_id or OTHER)
        return ActivityEnded(
            provider,
            "idempotent_hit" if self._is_repeated(event) else status,
            event.task_id,
            within,
            event.at_us,
            event.sequence,
            seconds,
            usage,
        )

    def _cap(self, event: Event) -> Iterator[Fact]:
        said = _decoded(event, _Cap)
        kind = said.kind if said.kind in _CAP_KINDS else OTHER
        yield LimitReached(kind, said.limit, said.observed)

    def _ended(self, event: Event) -> Iterator[Fact]:
        for node_id in list(self._open):
            yield from self._end(node_id, event, "cancelled")
        said = _decoded(event, _Ended)
        error_code = (code(said.error.code) or OTHER) if said.error else None
        status = event.type.removeprefix("run.")
        yield RunEnded(status, error_code, self._took(event, said), event.at_us, event.sequence)

    def _took(self, event: Event, said: _Ended) -> float | None:
        if said.duration_ms is not None:
            return max(0.0, said.duration_ms) / 1000
        return None if self.began_us is None else max(0, event.at_us - self.began_us) / 1e6


def _is_there(value: msgspec.Raw) -> bool:
    return bytes(value) not in (b"", b"null")


def code(text: str) -> str | None:
    """The text if it looks like the name of a type or an error, else None."""
    return text if _CODE.fullmatch(text) else None


_READERS: dict[str, Callable[[RunFold, Event], Iterator[Fact]]] = {
    "run.started": RunFold._started,
    "agent.invocation.started": RunFold._invocation_started,
    "agent.invocation.completed": RunFold._invocation_completed,
    "node.started": RunFold._node_started,
    "node.completed": RunFold._node_completed,
    "node.failed": RunFold._node_failed,
    "provider.usage": RunFold._usage,
    "agent.toolReturned": RunFold._tool_returned,
    "cap.breached": RunFold._cap,
    **dict.fromkeys(TERMINAL_TYPES, RunFold._ended),
}

"""The measurable facts in the events of a run: never its content."""

import re
from collections.abc import Iterator, Set
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
        return self.began.node_type

    @property
    def seconds(self) -> float:
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

    def add(self, event: Event) -> list[Fact]:
        """The facts in an event; none if it cannot be decoded."""
        try:
            return list(self._facts(event))
        except msgspec.DecodeError:
            return []

    def _facts(self, event: Event) -> Iterator[Fact]:
        node_id, at_us, sequence = event.task_id or OTHER, event.at_us, event.sequence
        match event.type:
            case "run.started":
                self.resume(event)
                self._is_waiting = True
                yield RunBegan(at_us)
            case "agent.invocation.started":
                yield from self._begin(event, TASK_TYPE)
            case "node.started":
                yield from self._begin(event, code(_decoded(event, _NodeType).type_id) or OTHER)
            case "agent.invocation.completed":
                done = _decoded(event, _InvocationOutcome).outcome in _DONE_OUTCOMES
                yield from self._end(node_id, event, "completed" if done else "failed")
            case "node.completed":
                yield from self._end(node_id, event, "completed")
            case "node.failed":
                yield from self._end(node_id, event, "failed")
            case "provider.usage":
                used = _decoded(event, _CallUsage)
                provider = used.provider if used.provider in self._providers else OTHER
                usd = used.cost_estimate_usd if used.currency in (None, "USD") else None
                usage = ModelUsage(max(0, used.input_tokens), max(0, used.output_tokens), usd)
                yield self._activity(event, provider, "success", usage=usage)
            case "agent.toolReturned":
                came = _decoded(event, _Returned)
                is_error = _is_there(came.error) or came.status not in (None, "ok")
                took = came.duration_ms
                is_known = took is not None and not self._is_repeated(event)
                seconds = max(0.0, took or 0.0) / 1000 if is_known else None
                yield self._activity(event, TOOL, "error" if is_error else "success", seconds)
            case "cap.breached":
                cap = _decoded(event, _Cap)
                kind = cap.kind if cap.kind in _CAP_KINDS else OTHER
                yield LimitReached(kind, cap.limit, cap.observed)
            case terminal if terminal in TERMINAL_TYPES:
                for open_node in list(self._open):
                    yield from self._end(open_node, event, "cancelled")
                ended, status = _decoded(event, _Ended), terminal.removeprefix("run.")
                error_code = (code(ended.error.code) or OTHER) if ended.error else None
                run_took: float | None = None
                if ended.duration_ms is not None:
                    run_took = max(0.0, ended.duration_ms) / 1000
                elif self.began_us is not None:
                    run_took = max(0, at_us - self.began_us) / 1e6
                yield RunEnded(status, error_code, run_took, at_us, sequence)

    def _is_repeated(self, event: Event) -> bool:
        """Whether an event only repeats a record of an earlier run.

        Such events are written together with the start of a run, with a time just before it.
        """
        is_old = self.began_us is not None and event.at_us <= self.began_us
        return self._repeats_all or (self._repeats_some and is_old)

    def _begin(self, event: Event, node_type: str) -> Iterator[Fact]:
        node_id, at_us = event.task_id or OTHER, event.at_us
        yield from self._end(node_id, event, "cancelled")
        attempt = self._attempts.get(node_id, 0)
        self._attempts[node_id] = attempt + 1
        waited: float | None = None  # known of the first node that is none of an earlier run
        if self._is_waiting and not self._is_repeated(event) and self.began_us is not None:
            self._is_waiting = False
            waited = max(0, at_us - self.began_us) / 1e6
        began = NodeBegan(node_id, node_type, attempt, at_us, event.sequence, waited)
        self._open[node_id] = began
        yield began

    def _end(self, node_id: str, event: Event, status: NodeStatus) -> Iterator[Fact]:
        began = self._open.pop(node_id, None)
        if began is not None:
            yield NodeEnded(began, status, event.at_us, event.sequence)

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


def _is_there(value: msgspec.Raw) -> bool:
    return bytes(value) not in (b"", b"null")


def code(text: str) -> str | None:
    """The text if it looks like the name of a type or an error, else None."""
    return text if _CODE.fullmatch(text) else None

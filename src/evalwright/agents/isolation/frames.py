"""What a run and the process of an agent say to each other, as JSON with its length before it."""

from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec

from evalwright.agents.task_tools import Status
from evalwright.agents.toolbox import ToolDescription
from evalwright.contracts.coverage import Observe, Part
from evalwright.contracts.events import ErrorDetail
from evalwright.contracts.suite import FaultKind, Fixtures

CLOSED_DESCRIPTORS = 76  # the exit code of a process whose agent has closed some
_HEAD = 4  # bytes
MOST_FROM_PROCESS = 256 * 1024 * 1024  # bytes of one message, which the run keeps in memory


class Load(msgspec.Struct, frozen=True, tag=True):
    """To the process: load this agent."""

    ref: str
    arguments: list[str]  # of the command line, as the code may look at them
    paths: list[str]  # where modules are found
    run_process: int


class Loaded(msgspec.Struct, frozen=True, tag=True):
    """To the run: the agent is there, with what its code says of it."""

    agent_id: str
    model_class: str | None
    holds_state: bool = False


class NotLoaded(msgspec.Struct, frozen=True, tag=True):
    """To the run: the agent is not there, as its code failed or as it was asked for wrongly."""

    message: str
    is_broken: bool


class OfferedTool(msgspec.Struct, frozen=True):
    """A live tool of a run."""

    description: ToolDescription
    can_be_called: bool


class GivenTask(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """To the process: work on a task."""

    run_id: str
    invocation_id: str
    agent_id: str
    task_id: str
    input: Any
    fixtures: Fixtures | None = None
    memory: list[dict[str, Any]] = []
    live: bool = False
    read_only: bool = False
    tools: list[OfferedTool] = []
    observe: Observe = "auto"
    answered: list[ToolDescription] | None = None  # tools of the task that the run answers
    turn: int = 0  # of a conversation, of which the process keeps the rest
    messages: list[dict[str, Any]] = []
    session: dict[str, Any] = {}


class ToolAsked(msgspec.Struct, frozen=True, tag=True, gc=False):
    """To the run: call a live tool, or one of the task that the run answers."""

    number: int
    name: str
    arguments: msgspec.Raw


class ToolAnswered(msgspec.Struct, frozen=True, tag=True):
    """To the process: what the tool gave, or why it gave nothing."""

    number: int
    answer: msgspec.Raw = msgspec.Raw(b"null")
    error: ErrorDetail | None = None
    status: Status = "ok"
    for_model: str | None = None
    fault: FaultKind | None = None


class Recorded(msgspec.Struct, frozen=True, tag=True, gc=False):
    """To the run: the agent did this."""

    kind: str
    payload: msgspec.Raw


class Observed(msgspec.Struct, frozen=True, tag=True, gc=False):
    """To the run: this part of the invocation is observed."""

    part: Part
    how: str


class Lost(msgspec.Struct, frozen=True, tag=True, gc=False):
    """To the run: calls were made that nobody observed."""

    why: str


class CalledOutside(msgspec.Struct, frozen=True, tag=True, gc=False):
    """To the run: the tool was called without `task`."""

    tool: str


class AskedModel(msgspec.Struct, frozen=True, tag=True, gc=False):
    """To the run: a model was asked."""

    model: str


class EndedTask(msgspec.Struct, frozen=True, tag=True):
    """To the run: the agent has answered, or failed."""

    output: Any = None
    error: ErrorDetail | None = None
    refused: bool = False
    took_s: float = 0.0
    session: Any = msgspec.UNSET  # of a conversation


ToProcess: TypeAlias = Load | GivenTask | ToolAnswered
ToRun: TypeAlias = (
    Loaded
    | NotLoaded
    | ToolAsked
    | Recorded
    | Observed
    | Lost
    | CalledOutside
    | AskedModel
    | EndedTask
)
_encode = msgspec.json.Encoder().encode


def framed(message: ToProcess | ToRun) -> bytes:
    """A message as it is sent."""
    body = _encode(message)
    return len(body).to_bytes(_HEAD) + body


class MessageTooLongError(ValueError):
    """A message is longer than its reader takes."""


class Frames:
    """Bytes as they arrive, read as whole messages."""

    def __init__(self, most: int | None = None) -> None:
        self._rest = bytearray()
        self._most = most

    def of(self, data: bytes) -> Iterator[bytes]:
        """The messages that are complete with these bytes; raises `MessageTooLongError`."""
        self._rest += data
        while len(self._rest) >= _HEAD:
            length = int.from_bytes(self._rest[:_HEAD])
            if self._most is not None and length > self._most:
                raise MessageTooLongError
            end = _HEAD + length
            if len(self._rest) < end:
                return
            body = bytes(self._rest[_HEAD:end])
            del self._rest[:end]
            yield body

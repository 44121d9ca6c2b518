"""What answers the tools of one task: its fixtures, its world, and the faults that strike them."""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from evalwright.agents.toolbox import ToolDescription, ToolFailed
from evalwright.agents.worlds import PreparedWorld, WorldState
from evalwright.contracts.events import ErrorDetail
from evalwright.contracts.jsonvalue import NotJson, canonical, json_equal
from evalwright.contracts.suite import EVERY_TOOL, FaultKind, Task, ToolFault, ToolResponse

NO_RESULT = "the tool has no result for this call"
SLOWER_S = 1.0  # by which a slow tool is slower, unless the fault says more
_GARBAGE_CHARACTERS = 48

Status = Literal["ok", "error", "rate_limited"]


class ToolReply(NamedTuple):
    """What a tool answers: JSON, or an error."""

    outcome: msgspec.Raw = msgspec.Raw(b"null")
    error: ErrorDetail | None = None
    status: Status = "ok"
    for_model: str | None = None  # the error as a model may read it
    fault: FaultKind | None = None  # that the suite wants
    delay_s: float = 0  # to wait before it is given


LaterReply = Callable[[], ToolReply]  # for a thread that may wait: it takes its time
_FAILURES: dict[str, tuple[Status, ErrorDetail]] = {
    "timeout": ("error", ErrorDetail("tool_timeout", "the tool did not answer in time")),
    "error": ("error", ErrorDetail("tool_error", "internal error")),
    "rate_limited": (
        "rate_limited",
        ErrorDetail("rate_limited", "too many requests; try again later"),
    ),
}


class TaskTools:
    """The tools of one invocation, which answer with copies; its lock is the caller's."""

    def __init__(
        self,
        task: Task | None,
        world: PreparedWorld | None = None,
        seed: int = 0,
        repetition: str = "",
    ) -> None:
        """Without a task, no tool answers. Ids are the same in each repetition, chance is not."""
        self._seed = f"{seed}:{task.task_id}" if task else ""
        self._prepared = world
        self.world = None if world is None else WorldState(world, self._seed)
        # Of each tool, by the arguments as text: the arguments, and the answers in order.
        self._fixtures: dict[str, dict[str, tuple[Mapping[str, Any], list[Any]]]] = {}
        self._used: dict[int, int] = {}  # answers of a list
        fixtures = task.fixtures if task else None
        for entry in fixtures.tool_responses if fixtures else ():
            self._add_fixture(entry)
        self._faults = [
            _Striking(fault, f"{self._seed}:{repetition}:{number}")
            for number, fault in enumerate(task.faults if task else ())
        ]

    def names(self) -> list[str]:
        in_world = self._prepared.world.tools if self._prepared else ()
        return list(dict.fromkeys((*self._fixtures, *in_world)))

    def describe(self, name: str) -> ToolDescription | None:
        if self._prepared is None or name not in self._prepared.world.tools:
            return None
        return self._prepared.describe(name)

    def answer(self, tool: str, arguments: msgspec.Raw) -> ToolReply | LaterReply:
        """The answer to a call, or what gives it in its own time."""
        due = [each for each in self._faults if each.is_due(tool)]
        if not due:
            return self._answer(tool, arguments, self.world)
        due[0].struck += 1
        fault = due[0].fault
        kind = fault.fault
        if kind in _FAILURES:
            status, error = _FAILURES[kind]
            return ToolReply(error=error, status=status, fault=kind)
        world = self.world
        if kind == "stale" and self._prepared is not None:
            world = WorldState(self._prepared, self._seed)  # what is written there is lost
        answer = self._answer(tool, arguments, world, is_stale=kind == "stale")
        if isinstance(answer, ToolReply):
            return _damaged(answer, fault, self._seed)
        return lambda: _damaged(answer(), fault, self._seed)

    def _answer(
        self, tool: str, arguments: msgspec.Raw, world: WorldState | None, *, is_stale: bool = False
    ) -> ToolReply | LaterReply:
        given = msgspec.json.decode(arguments)
        answers = max(
            (each for each in self._fixtures.get(tool, {}).values() if fits(each[0], given)),
            key=lambda each: _size(each[0]),
            default=None,
        )
        if answers is not None:
            responses = answers[1]
            used = 0 if is_stale else self._used.get(id(responses), 0)
            self._used[id(responses)] = used + 1
            response = responses[min(used, len(responses) - 1)]
            return ToolReply(msgspec.Raw(msgspec.json.encode(response)))
        known = self._prepared.world.tools.get(tool) if self._prepared else None
        if known is None or world is None:
            return self._unanswered(tool)
        if known.python is None:
            try:
                return ToolReply(msgspec.Raw(msgspec.json.encode(world.call(known, given))))
            except ToolFailed as failure:
                return _failed(failure.code, failure.message)

        def later() -> ToolReply:
            try:
                return ToolReply(msgspec.Raw(canonical(world.call(known, given)).encode()))
            except ToolFailed as failure:
                return _failed(failure.code, failure.message)
            except NotJson as error:
                return _failed("tool_error", f"the tool's answer is not a JSON value: {error}")

        return later

    def _unanswered(self, tool: str) -> ToolReply:
        if tool in self._fixtures:
            message = f"no toolResponses entry for {tool!r} has these arguments"
            why = f"{message}; one without `args` answers all others"
        else:
            known = ", ".join(sorted(self.names())) or "none"
            why = (
                f"the task has no toolResponses entry for {tool!r} (it has: {known}); "
                "live tools are never called in its place"
            )
        return ToolReply(error=ErrorDetail("no_fixture", why), status="error", for_model=NO_RESULT)

    def _add_fixture(self, entry: ToolResponse) -> None:
        response = None if entry.response is msgspec.UNSET else entry.response
        args = entry.args or {}
        by_args = self._fixtures.setdefault(entry.tool, {})
        by_args.setdefault(canonical(args), (args, []))[1].append(response)


class _Striking:
    """A fault, and how many calls it has counted and struck."""

    def __init__(self, fault: ToolFault, seed: str) -> None:
        self.fault = fault
        self._seed = seed
        self._calls = self.struck = 0
        self._times = fault.times
        if self._times is None and fault.on is not None and fault.rate is None:
            self._times = 1

    def is_due(self, tool: str) -> bool:
        """Whether to strike the next call, which is of this tool."""
        fault = self.fault
        if fault.tool not in (None, EVERY_TOOL, tool):
            return False
        self._calls += 1
        first = fault.on or 1
        if self._calls < first or (self._times is not None and self.struck >= self._times):
            return False
        if fault.rate is not None:
            return _chance(f"{self._seed}:{self._calls}") < fault.rate
        return self._times is None or self._calls < first + self._times


def _chance(seed: str) -> float:
    return int.from_bytes(hashlib.sha256(seed.encode()).digest()[:6]) / 2**48


def fits(wanted: Any, given: Any) -> bool:
    """Whether all that is wanted is among what is given."""
    if isinstance(wanted, dict):
        return isinstance(given, dict) and all(
            key in given and fits(value, given[key]) for key, value in wanted.items()
        )
    return json_equal(wanted, given)


def _size(wanted: Any) -> tuple[int, int]:
    """How much is wanted: how many values, and then how many objects around them."""
    if not isinstance(wanted, dict):
        return 1, 0
    inner = [_size(each) for each in wanted.values()]
    return sum(values for values, _ in inner), 1 + sum(objects for _, objects in inner)


def _failed(code: str, message: str) -> ToolReply:
    return ToolReply(error=ErrorDetail(code, message), status="error")


def _damaged(reply: ToolReply, fault: ToolFault, seed: str) -> ToolReply:
    """A reply as a fault leaves it; an error stays what it is."""
    kind = fault.fault
    if kind == "slow":
        delay_s = SLOWER_S if fault.seconds is None else fault.seconds
        return reply._replace(fault=kind, delay_s=delay_s)
    if reply.error is not None or kind == "stale":
        return reply._replace(fault=kind)
    answer = msgspec.json.decode(reply.outcome)
    text = answer if isinstance(answer, str) else bytes(reply.outcome).decode()
    damaged: Any = text[: len(text) // 2]
    if kind == "empty":
        damaged = type(answer)() if isinstance(answer, str | list | dict) else None
    elif kind == "garbage":
        digest = hashlib.sha256(f"{seed}:{text}".encode()).digest()
        letters = [chr(33 + each % 94) for each in digest * 2]
        damaged = "".join(letters[:_GARBAGE_CHARACTERS])
    return ToolReply(msgspec.Raw(msgspec.json.encode(damaged)), fault=kind)

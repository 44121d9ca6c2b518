"""What is told afterwards of what an agent did: by its answer, a library's result, or spans.

Much of it was seen while the agent worked. Each call and each request to a model counts once,
whoever tells of it.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from evalwright.contracts.events import ErrorDetail, ProviderUsage
from evalwright.contracts.jsonvalue import json_equal

RETURNED = "returned"  # how that was observed which stands in an answer
_MOST_COMPARED = 1_000_000  # pairs of calls with other arguments


class ToldCall(msgspec.Struct, frozen=True, gc=False):
    """A call of a tool; what is unset was not told."""

    tool: str
    args: Any = UNSET
    their_id: str | None = None  # by which its library knows it


class ToldReturn(msgspec.Struct, frozen=True, gc=False):
    """What came of a call, which stands at this place among the deeds."""

    place: int
    result: Any = UNSET
    error: ErrorDetail | None = None
    duration_ms: int | UnsetType = UNSET


class Thought(msgspec.Struct, frozen=True, gc=False):
    """What the assistant said on the way to its answer."""

    text: str


Deed: TypeAlias = ToldCall | ToldReturn | Thought


class Account(msgspec.Struct, frozen=True):
    """What one teller says of an invocation; a part that is None is not told of."""

    how: str  # the teller, as coverage names it
    deeds: Sequence[Deed] | None = None  # in the order in which they happened
    usages: Sequence[ProviderUsage] | None = None
    has_all_usages: bool = True  # else they are only some of those there were
    has_messages: bool = False
    has_all_calls: bool = True  # else they are only some of those there were
    lost: str | None = None  # why it is known that there were others
    inside: frozenset[str] = frozenset()  # tools whose every call led to one that was seen
    asked: str | None = None  # a model that was asked, whether or not its usage is told


class SeenCall:
    """A call that is recorded, and who has told of it."""

    __slots__ = ("also", "call_id", "has_result", "inputs", "tellers", "their_id", "tool")

    def __init__(self, tool: str, call_id: str, inputs: Any, also: str | None = None) -> None:
        self.tool = tool
        self.call_id = call_id
        self.inputs = inputs  # a JSON value, or `UNSET`
        self.also = also  # another name that a library may know the tool by
        self.their_id: str | None = None
        self.has_result = False
        self.tellers: set[str] = set()

    def is_named(self, tool: str) -> bool:
        return tool in (self.tool, self.also)

    def is_open_as(self, tool: str, inputs: Any) -> bool:
        """Whether the call is being made still, and one of this tool with these inputs is it."""
        if self.has_result or not self.is_named(tool):
            return False
        return json_equal(self.decoded(), msgspec.json.decode(inputs))

    def decoded(self) -> Any:
        if isinstance(self.inputs, msgspec.Raw):
            self.inputs = msgspec.json.decode(self.inputs)
        return self.inputs


def already_seen(
    told: Sequence[ToldCall], seen: Sequence[SeenCall], teller: str
) -> list[SeenCall | None]:
    """For each call that is told, the same call where it is recorded already.

    Each recorded call is matched once for each teller: by the id that both know, else by equal
    arguments, else by arguments that the recorded ones contain, as defaults are not told.
    """
    found: list[SeenCall | None] = [None] * len(told)
    if not seen:
        return found
    open_calls: dict[str, list[SeenCall]] = defaultdict(list)
    for each in seen:
        if teller not in each.tellers:
            for name in {each.tool, each.also} - {None}:
                open_calls[str(name)].append(each)
    compared = 0
    for is_same in (_has_their_id, _has_equal_inputs, _contains_inputs):
        for place, call in enumerate(told):
            if found[place] is not None:
                continue
            for each in open_calls.get(call.tool, ()):
                compared += 1
                if teller not in each.tellers and is_same(each, call):
                    found[place] = each
                    each.tellers.add(teller)
                    each.their_id = each.their_id or call.their_id
                    break
            if compared > _MOST_COMPARED:
                return found
    return found


def _has_their_id(seen: SeenCall, told: ToldCall) -> bool:
    return told.their_id is not None and seen.their_id == told.their_id


def _has_equal_inputs(seen: SeenCall, told: ToldCall) -> bool:
    if not _may_be_one(seen, told):
        return False
    return told.args is UNSET or json_equal(seen.decoded(), told.args)


def _contains_inputs(seen: SeenCall, told: ToldCall) -> bool:
    if not _may_be_one(seen, told):
        return False
    made, args = seen.decoded(), told.args
    if not isinstance(made, dict) or not isinstance(args, dict):
        return made is UNSET
    return all(key in made and json_equal(made[key], args[key]) for key in args)


def _may_be_one(seen: SeenCall, told: ToldCall) -> bool:
    return seen.their_id is None or told.their_id is None


def new_usages(
    told: Sequence[ProviderUsage], known: Sequence[tuple[str, ProviderUsage]], teller: str
) -> list[ProviderUsage]:
    """Those of the requests that nobody else has told of; `known` has each with its teller.

    One teller may give the sum of what another gives one by one.
    """
    others: dict[str, list[ProviderUsage]] = defaultdict(list)
    for name, usage in known:
        if name != teller:
            others[name].append(usage)
    if any(_sum(each) == _sum(told) for each in others.values()):
        return []
    left = Counter(_size(each) for usages in others.values() for each in usages)
    new = []
    for each in told:
        left[_size(each)] -= 1
        if left[_size(each)] < 0:
            new.append(each)
    return new


def _size(usage: ProviderUsage) -> tuple[int, int]:
    return usage.input_tokens, usage.output_tokens


def _sum(usages: Sequence[ProviderUsage]) -> tuple[int, int]:
    return sum(each.input_tokens for each in usages), sum(each.output_tokens for each in usages)

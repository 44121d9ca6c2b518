"""Worlds from recordings: what tools answered to which arguments, and what calls changed of that.

The same call gives the same answer, until a call that may write changes it. Whether one did is seen
where the answer to another call is different afterwards. Recordings that contradict each other from
the beginning have worlds of their own.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from evalwright.agents.task_tools import fits
from evalwright.agents.worlds import merged
from evalwright.contracts.jsonvalue import NotJson, canonical
from evalwright.engine.recorded_traces import is_good
from evalwright.signals.tool_words import profile
from evalwright.trace.model import ToolCall, ToolResult, Trace
from evalwright.trace.paired_calls import pair_results
from evalwright.trace.recorded_case import Recording

_MOST_TRIED = 50  # worlds that a recording may fit
_LONGEST_ERROR = 2_000
_MOST_NAMED = 20

Key: TypeAlias = tuple[str, str]  # of a tool and its arguments


class RecordedReply(NamedTuple):
    """What a tool answered; `text` tells answers apart."""

    text: str
    answer: Any = None
    error: str | None = None


class AnsweredCall(NamedTuple):
    """A recorded call whose answer was recorded as well."""

    tool: str
    args: dict[str, Any]
    key: Key
    reply: RecordedReply

    @property
    def may_write(self) -> bool:
        return self.reply.error is None and not profile(self.tool).reads


def calls_of(trace: Trace) -> tuple[list[AnsweredCall], Counter[str]]:
    """The calls of a trace that can be answered again, and the tools of those that cannot."""
    results, calls, others = pair_results(trace), [], Counter[str]()
    for each in trace.calls:
        key, result = key_of(each), results.get(each.index)
        try:
            reply = _reply(result) if result is not None else None
        except NotJson:
            reply = None
        if key is not None and reply is not None:
            calls.append(AnsweredCall(each.tool, each.args or {}, key, reply))
        elif each.tool:
            others[each.tool] += 1
    return calls, others


def key_of(call: ToolCall) -> Key | None:
    """What tells a call from others; None if a world cannot be asked it."""
    args = {} if call.args is None else call.args
    try:
        return (call.tool, canonical(args)) if call.tool and isinstance(args, dict) else None
    except NotJson:
        return None


def _reply(result: ToolResult) -> RecordedReply:
    if is_good(result):
        answer = decoded(result.payload)
        return RecordedReply(f"answer {canonical(answer)}", answer)
    said = result.error or result.payload or result.status
    error = (said if isinstance(said, str) else canonical(said))[:_LONGEST_ERROR]
    return RecordedReply(f"error {error}", error=error)


def decoded(payload: Any) -> Any:
    """What a tool returned: logs of chats have its objects and lists as text."""
    if not isinstance(payload, str) or payload.lstrip()[:1] not in ("{", "["):
        return payload
    try:
        return msgspec.json.decode(payload)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return payload


class RecordedWorld:
    """What some recordings say of a world, none of which contradicts another at the beginning."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.only_later = 0  # answers that were first recorded after something may have changed
        self.is_used = False
        self._recordings: list[list[AnsweredCall]] = []
        self._calls: dict[Key, AnsweredCall] = {}
        self._first: dict[Key, RecordedReply] = {}  # before anything may have changed
        self._now: dict[Key, RecordedReply] = {}  # at the beginning of the world
        # What a call changes: of which call, and by what it is replaced or patched.
        self._changes: defaultdict[Key, dict[Key, RecordedReply | dict[str, Any]]] = defaultdict(
            dict
        )

    def fits(self, calls: Sequence[AnsweredCall]) -> bool:
        known = self._first
        return all(
            known.get(each.key, each.reply).text == each.reply.text for each in _early(calls)
        )

    def add(self, calls: list[AnsweredCall]) -> None:
        self._recordings.append(calls)
        for each in calls:
            self._calls.setdefault(each.key, each)
        for each in _early(calls):
            self._first.setdefault(each.key, each.reply)

    def derive(self) -> None:
        """Find what the answers were at the beginning, and which calls changed them."""
        self._now = {key: call.reply for key, call in self._calls.items()} | self._first
        self.only_later = len(self._now) - len(self._first)
        seen: Counter[tuple[Key, Key]] = Counter()  # changes, and whether they show again
        for calls in self._recordings:
            for call, before, by in self._played(calls, learn=True):
                if by is not None:
                    seen[by, call.key] += 1 if before.text == call.reply.text else -1
        for (by, key), balance in seen.items():
            if balance < 0:
                del self._changes[by][key]
        self._change_alike()

    def _played(
        self, calls: Sequence[AnsweredCall], *, learn: bool = False
    ) -> Iterator[tuple[AnsweredCall, RecordedReply, Key | None]]:
        """Each call with what the world answers, and which call has changed that."""
        now: dict[Key, tuple[RecordedReply, Key]] = {}
        seen: dict[Key, int] = {}
        for number, call in enumerate(calls):
            reply, by = now.get(call.key, (self._now[call.key], None))
            if learn and reply.text != call.reply.text:
                cause = _cause(call, calls[seen.get(call.key, 0) : number])
                if cause is not None and call.key not in self._changes[cause.key]:
                    self._changes[cause.key][call.key] = _change(reply, call.reply)
                    reply, by = now[call.key] = call.reply, cause.key
            yield call, reply, by
            seen[call.key] = number
            for key, change in self._changes.get(call.key, {}).items():
                was = now[key][0] if key in now else self._now.get(key, RecordedReply(""))
                now[key] = _changed(was, change), call.key

    def _change_alike(self) -> None:
        """Tools whose answer another one gives afterwards do that for all arguments."""
        alike: dict[tuple[str, str, tuple[str, ...]], bool] = {}
        for by, changes in self._changes.items():
            for key, change in changes.items():
                args, wide = self._calls[key].args, self._calls[by].args
                if args and fits(args, wide):
                    pair = by[0], key[0], tuple(args)
                    shown = _changed(self._now[key], change).text == self._calls[by].reply.text
                    alike[pair] = alike.get(pair, True) and shown
        for (writer, reader, names), holds in alike.items():
            for by, call in [*self._calls.items()] if holds else ():
                if by[0] != writer or call.reply.error is not None or not {*names} <= {*call.args}:
                    continue
                args = {name: call.args[name] for name in names}
                key = reader, canonical(args)
                if all(other[0] != reader for other in self._changes[by]):
                    was = self._now.get(key, RecordedReply(""))
                    self._changes[by][key] = _change(was, call.reply)
                    self._calls.setdefault(key, AnsweredCall(reader, args, key, was))

    @property
    def is_empty(self) -> bool:
        return not self._calls

    def knows(self, key: Key | None) -> bool:
        return key in self._calls

    def left(self, calls: Sequence[AnsweredCall]) -> set[Key]:
        """The calls of a recording that need fixtures, for which the world answers otherwise."""
        left: set[Key] = set()
        while True:
            played = self._played([each for each in calls if each.key not in left])
            unlike = {call.key: call for call, now, _ in played if now.text != call.reply.text}
            if not unlike:
                return left
            left |= {  # a fixture answers calls with more arguments as well
                each.key
                for each in calls
                if any(each.tool == by.tool and fits(by.args, each.args) for by in unlike.values())
            }

    def document(self) -> dict[str, Any]:
        data: dict[str, list[Any]] = {}
        for key, call in self._calls.items():
            rows = data.setdefault(call.tool, [])
            if key not in self._now:
                continue  # it is answered after a change only
            row = {"args": call.args, **_plain(self._now[key])}
            if call.may_write or self._changes.get(key):
                row["changes"] = [
                    {"of": of, "args": self._calls[of, text].args, **_plain(change)}
                    for (of, text), change in self._changes.get(key, {}).items()
                ]
            rows.append(row)
        return {"data": data, "tools": {tool: {"replay": tool} for tool in data}}


class RecordedWorlds:
    """The worlds of the recordings of a source, each of which belongs to one."""

    def __init__(self) -> None:
        self.count = 0  # recorded calls
        self.unlike: Counter[str] = Counter()  # tools of those that worlds answer otherwise
        self.worlds: list[RecordedWorld] = []
        self._places: dict[
            int, tuple[Recording, RecordedWorld, list[AnsweredCall], Counter[str]]
        ] = {}

    def add(self, recording: Recording, trace: Trace) -> None:
        """Take in a recording, of which `trace` may be shown."""
        calls, unusable = calls_of(trace)
        tried = self.worlds[-_MOST_TRIED:]
        world = next((each for each in tried if each.fits(calls)), None)
        if world is None:
            number = len(self.worlds) + 1
            world = RecordedWorld("recorded" if number == 1 else f"recorded-{number}")
            self.worlds.append(world)
        world.add(calls)
        self._places[id(recording)] = recording, world, calls, unusable

    def of(self, recording: Recording) -> tuple[RecordedWorld, set[Key]]:
        """The world of a recording, and the calls that it answers otherwise."""
        _, world, calls, unusable = self._places[id(recording)]
        left = world.left(calls)
        world.is_used = True
        self.count += len(calls) + unusable.total()
        self.unlike += unusable + Counter(each.tool for each in calls if each.key in left)
        return world, left

    def derive(self) -> None:
        for world in self.worlds:
            world.derive()

    def notes(self) -> Iterator[str]:
        """What was derived of the calls of tasks, and what was not."""
        used = [each for each in self.worlds if each.is_used]
        count = "1 world answers" if len(used) == 1 else f"{len(used):,} worlds answer"
        yield f"{count} {self.count - self.unlike.total():,} of {self.count:,} calls as recorded"
        if self.unlike:
            named = ", ".join(f"{tool} ({n:,})" for tool, n in self.unlike.most_common(_MOST_NAMED))
            more = ", …" if len(self.unlike) > _MOST_NAMED else ""
            yield f"fixtures answer those that no world could be derived for: {named}{more}"
        if later := sum(each.only_later for each in used):
            yield f"{later:,} answers, recorded only after a call that may write, always hold"

    def documents(self) -> dict[str, Any]:
        """The worlds of tasks, as a suite has them."""
        return {
            each.name: each.document() for each in self.worlds if each.is_used and not each.is_empty
        }


def _early(calls: Sequence[AnsweredCall]) -> Iterator[AnsweredCall]:
    """The first call of each kind, before anything may have changed."""
    seen = set()
    for each in calls:
        if each.key not in seen:
            yield each
        if each.may_write:
            return
        seen.add(each.key)


def _cause(call: AnsweredCall, before: Sequence[AnsweredCall]) -> AnsweredCall | None:
    """The call that has probably changed an answer: the last one about the same thing."""
    writing = [each for each in before if each.may_write]
    things = {*_scalars(call.args)}
    near = [each for each in writing if not things.isdisjoint(_scalars(each.args))]
    return next(reversed(near or writing), None)


def _scalars(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _scalars(each)
    elif isinstance(value, str | int) and not isinstance(value, bool):
        yield value


def _change(was: RecordedReply, now: RecordedReply) -> RecordedReply | dict[str, Any]:
    """A merge patch, if it can say what is different; so the changes of several calls add up."""
    if isinstance(was.answer, dict) and isinstance(now.answer, dict):
        patch = _patch(was.answer, now.answer)
        if canonical(merged(was.answer, patch)) == canonical(now.answer):
            return patch
    return now


def _patch(was: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    patch: dict[str, Any] = {name: None for name in was if name not in now}
    for name, value in now.items():
        before = was.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            if inner := _patch(before, value):
                patch[name] = inner
        elif name not in was or canonical(before) != canonical(value):
            patch[name] = value
    return patch


def _changed(was: RecordedReply, change: RecordedReply | dict[str, Any]) -> RecordedReply:
    if isinstance(change, RecordedReply):
        return change
    answer = merged(was.answer, change)
    return RecordedReply(f"answer {canonical(answer)}", answer)


def _plain(what: RecordedReply | dict[str, Any]) -> dict[str, Any]:
    if isinstance(what, dict):
        return {"merge": what}
    return {"answer": what.answer} if what.error is None else {"error": what.error}

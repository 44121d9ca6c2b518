"""The spans of one trace as one conversation: in the order of time, everything once.

Every call of a model repeats the conversation so far, and a tool's call stands in the model's
answer, in the tool's own span and in all later inputs. What was recorded before is recognised by
how often it has occurred: the third equal message of an input is new if only two are known.
"""

import math
from collections import Counter, deque
from collections.abc import Iterator
from itertools import groupby

import msgspec

from evalwright.trace.importers.canonical import CanonicalEvent, is_message
from evalwright.trace.importers.dialogue import Dialogue
from evalwright.trace.importers.operation import Operation
from evalwright.trace.importers.span_formats import Stretches
from evalwright.trace.model import Json, text_of

_MOST_LEVELS = 200
_EMPTY = (None, "")


class ConversationCall(msgspec.Struct, eq=False):
    """A call in the conversation, whether both sides reported it, and its result if any."""

    event: CanonicalEvent
    is_met: bool = False
    result: CanonicalEvent | None = None

    def was_answered_before(self, ts: float | None) -> bool:
        """Whether the result was known before a point in time."""
        known = None if self.result is None else self.result.get("ts")
        return ts is not None and known is not None and known < ts

    def complete(self, event: CanonicalEvent) -> None:
        """Fill in what the first report of the call left out."""
        for key in ("call_id", "tool", "args"):
            if self.event[key] in _EMPTY and event[key] not in _EMPTY:
                self.event[key] = event[key]
        if self.result is not None and self.result["call_id"] is None:
            self.result["call_id"] = self.event["call_id"]


class UnmatchedCalls:
    """Calls that wait for the other side, found by id, by arguments or by tool alone."""

    def __init__(self) -> None:
        self._queues: dict[tuple[str, ...], deque[ConversationCall]] = {}

    def add(self, call: ConversationCall) -> None:
        """Let a call wait."""
        event = call.event
        args = text_of(event["args"])
        keys = [("args", event["tool"], args), ("tool", event["tool"])]
        if event["call_id"]:
            keys.append(("id", event["call_id"]))
        else:
            keys += [("nameless args", event["tool"], args), ("nameless tool", event["tool"])]
        for key in keys:
            self._queues.setdefault(key, deque()).append(call)

    def meet(self, event: CanonicalEvent, ts: float | None = None) -> ConversationCall | None:
        """The call that an event tells of: by id, else by tool, best with the same arguments.

        An event with an id only meets a call with this id, or one whose id is unknown. What began
        at `ts` is no call that was answered before that: a later turn repeats earlier ones.
        """
        tool, args = event["tool"], text_of(event["args"])
        keys: list[tuple[str, ...]] = [("args", tool, args), ("tool", tool)]
        if event["call_id"]:
            keys = [("id", event["call_id"])]
            keys += [("nameless args", tool, args), ("nameless tool", tool)]
        for key in keys:
            call = self._next(key, None if key[0] == "id" else ts)
            if call is not None:
                call.is_met = True
                return call
        return None

    def _next(self, key: tuple[str, ...], ts: float | None) -> ConversationCall | None:
        queue = self._queues.get(key)
        while queue:
            call = queue.popleft()
            if not call.is_met and not call.was_answered_before(ts):
                return call
        return None


class Timeline:
    """Takes the operations of one trace, and tells them as a dialogue.

    `parents` also has the spans between operations that are not operations.
    """

    def __init__(self, operations: list[Operation], parents: dict[str, str | None]) -> None:
        self._operations = operations
        self._parents = parents
        self._by_id = {each.span.span_id: each for each in operations}
        self._known: Counter[tuple[str, ...]] = Counter()
        self._asked_calls = UnmatchedCalls()  # by a model, and no span has run them yet
        self._run_calls = UnmatchedCalls()  # by a span, and no model has asked for them yet
        self._nameless: dict[tuple[str, ...], deque[ConversationCall]] = {}
        self._of_span: dict[int, ConversationCall] = {}
        self._unanswered: dict[str | None, deque[ConversationCall]] = {}
        self._bare_results: dict[str | None, deque[CanonicalEvent]] = {}
        models = [each for each in operations if each.kind == "model"]
        self._outer_models = self._models_around(models)
        self._retelling = self._models_around([each for each in models if each.output])
        # Agents that ran while a tool did: some write them beside that tool, not within it.
        tools = Stretches(each.span for each in operations if each.kind == "tool")
        self._entrusted = {
            each.span.span_id
            for each in operations
            if each.span.attributes.get("gen_ai.operation.name") == "invoke_agent"
            and each.span.parent_id is not None
            and tools.hold(each.span)
        }
        self.events: list[CanonicalEvent] = []

    def dialogue(self) -> Dialogue:
        """The whole trace as a dialogue."""
        moments = []
        for place, operation in enumerate(self._operations):
            start, end = operation.span.start or 0.0, operation.span.end
            if end is None:  # one that does not say: an agent's is around all that it did
                end = math.inf if operation.kind == "agent" else start
            moments.append((start, start, place, False, operation))
            moments.append((max(start, end), start, place, True, operation))
        for _, _, _, ended, operation in sorted(moments, key=lambda each: each[:4]):
            ts = operation.span.end if ended else operation.span.start
            match operation.kind, ended:
                case (("model" | "agent"), False):
                    self._add_history(operation, ts)
                case (("model" | "agent"), True):
                    # A model's answer is new; layers around models repeat what these reported.
                    only_unseen = (
                        operation.kind == "agent" or operation.span.span_id in self._retelling
                    )
                    for event in operation.output:
                        if not only_unseen or not self._known[event_key(event)]:
                            self._add_new(event, ts)
                        elif event["type"] == "tool_result":
                            self._complete_result(event)
                case "tool", False:
                    self._add_call(operation, ts)
                case "tool", True:
                    self._add_result(operation, ts)
                case "retrieval", True:
                    if operation.result is not None and not self._is_inner_layer(operation):
                        self._stamp(operation.result, ts)
        _name_alike(self.events)
        dialogue = Dialogue()
        for event in self.events:
            dialogue.add(event)
        return dialogue

    def ancestors(self, operation: Operation) -> Iterator[Operation]:
        """The operations around one, from the inside, as far as we look."""
        span_id = operation.span.parent_id
        for _ in range(_MOST_LEVELS):  # parents may also form a circle
            if not span_id or span_id == operation.span.span_id:
                return
            if span_id in self._by_id:
                yield self._by_id[span_id]
            span_id = self._parents.get(span_id)

    def _models_around(self, models: list[Operation]) -> set[str]:
        """The model calls around others, which are layers of a client."""
        around = (outer for each in models for outer in self.ancestors(each))
        return {each.span.span_id for each in around if each.kind == "model"}

    def is_within_tool(self, operation: Operation) -> bool:
        """Whether a tool did this, and not the agent that the user spoke to."""
        return any(
            around.kind == "tool" or around.span.span_id in self._entrusted
            for around in self.ancestors(operation)
        )

    def has_inner_model(self, operation: Operation) -> bool:
        """Whether other model calls stand within: a layer that tells theirs once more."""
        return operation.span.span_id in self._outer_models

    def _is_inner_layer(self, operation: Operation) -> bool:
        """Whether a span runs just within one that tells of the same: a client in a client."""
        around = next(self.ancestors(operation), None)
        return (
            around is not None
            and around.kind == operation.kind
            and _tool(around) == _tool(operation)
        )

    def _add_history(self, operation: Operation, ts: float | None) -> None:
        within_tool = self.is_within_tool(operation)
        seen: Counter[tuple[str, ...]] = Counter()
        answered = {event["call_id"] for event in operation.history if _is_result(event)}
        for event in operation.history:
            # Inside of a tool it is an agent, not the user, who asks the next one.
            said = (
                {**event, "role": "agent"} if within_tool and is_message(event, "user") else event
            )
            key = event_key(said)
            if said["type"] == "tool_call" and said["call_id"] not in answered:
                # Some inputs name a call by the id of its item; its result has the id of the call,
                # so under its new name nothing answers it.
                same = _call_key(said)
                key = key if self._known[key] or not self._known[same] else same
            seen[key] += 1
            if seen[key] > self._known[key]:
                self._add_new(said, ts)
            elif said["type"] == "tool_result":
                self._complete_result(said)

    def _add_new(self, event: CanonicalEvent, ts: float | None) -> None:
        self._known[event_key(event)] += 1
        if event["type"] == "tool_call":
            if event["call_id"]:
                self._known[_call_key(event)] += 1
            call = self._run_calls.meet(event) or self._named_later(event, _call_key(event))
            if call is not None:
                self._complete(call, event)
            else:
                call = ConversationCall(self._stamp(event, ts))
                self._asked_calls.add(call)
                if not event["call_id"]:
                    for key in (_call_key(event), ("tool", event["tool"])):
                        self._nameless.setdefault(key, deque()).append(call)
            if call.result is None:
                self._unanswered.setdefault(event["call_id"], deque()).append(call)
        elif event["type"] == "tool_result":
            self._add_result_in_input(event, ts)
        else:
            self._stamp(event, ts)

    def _named_later(self, event: CanonicalEvent, key: tuple[str, ...]) -> ConversationCall | None:
        """A call that a model made without an id, where a later input tells the id."""
        queue = self._nameless.get(key) if event["call_id"] else None
        while queue:
            call = queue.popleft()
            if not call.event["call_id"]:
                return call
        return None

    def _add_call(self, operation: Operation, ts: float | None) -> None:
        if operation.call is None or self._is_inner_layer(operation):
            return
        call = self._asked_calls.meet(operation.call, ts)
        if call is not None:
            self._complete(call, operation.call)
        else:
            call = ConversationCall(self._stamp(operation.call, ts))
            self._run_calls.add(call)
        self._of_span[id(operation)] = call

    def _complete(self, call: ConversationCall, event: CanonicalEvent) -> None:
        result = call.result
        before = None if result is None else event_key(result)
        call.complete(event)
        if result is not None and before is not None:
            self._known[before] -= 1
            self._known[event_key(result)] += 1

    def _add_result(self, operation: Operation, ts: float | None) -> None:
        call = self._of_span.get(id(operation))
        if operation.result is None or call is None:  # a layer inside of another span of this tool
            return
        event = {**operation.result, "call_id": call.event["call_id"]}
        if call.result is not None:
            for key, value in event.items():
                if call.result.get(key) is None:
                    call.result[key] = value
            return
        self._known[event_key(event)] += 1
        call.result = self._stamp_result(event, ts)

    def _add_result_in_input(self, event: CanonicalEvent, ts: float | None) -> None:
        """A result in a model's input that no span has reported under this id."""
        tool = event.get("tool") or ""
        is_named = self._known["call", event["call_id"] or "", tool]
        call = None if is_named else self._named_later(event, ("tool", tool))
        if call is not None:
            self._complete(call, {**call.event, "call_id": event["call_id"]})
            if call.result is not None:  # what the model was given is the result, not its notation
                call.result["payload"] = event["payload"]
                return
            self._unanswered.setdefault(event["call_id"], deque()).append(call)
        events = self._stamp_result(event, ts)
        waiting = self._unanswered.get(event["call_id"])
        while waiting:
            call = waiting.popleft()
            if call.result is None:
                call.result = events
                return

    def _stamp_result(self, event: CanonicalEvent, ts: float | None) -> CanonicalEvent:
        events = self._stamp(event, ts)
        if events.get("payload") is None:
            self._bare_results.setdefault(events["call_id"], deque()).append(events)
        return events

    def _complete_result(self, event: CanonicalEvent) -> None:
        """A span reported this result without content; the model's input has it."""
        bare = self._bare_results.get(event["call_id"])
        if bare and event.get("payload") is not None:
            bare.popleft()["payload"] = event["payload"]

    def _stamp(self, event: CanonicalEvent, ts: float | None) -> CanonicalEvent:
        events = {**event, "ts": ts} if ts is not None else dict(event)
        self.events.append(events)
        return events


def event_key(event: CanonicalEvent) -> tuple[str, ...]:
    """What makes two events the same: ids where there are some, else what they say."""
    match event["type"]:
        case "tool_call" if event["call_id"]:
            return "call", event["call_id"], event["tool"]
        case "tool_call":
            return _call_key(event)
        case "tool_result":
            return "result", event["call_id"] or ""
        case "message":
            return "message", event["role"], text_of(event["content"])
    return "other", text_of(event)


def _call_key(event: CanonicalEvent) -> tuple[str, ...]:
    """What makes two calls the same whose ids are not to be relied on."""
    return "call", "", event["tool"], text_of(event["args"])


def _is_result(event: CanonicalEvent) -> bool:
    return bool(event["type"] == "tool_result")


def _name_alike(events: list[CanonicalEvent]) -> None:
    """Give results the ids of their calls, where an instrumentation has those of other items.

    Only where as many results follow as there are calls that nothing else answers.
    """
    calls = {each["call_id"] for each in events if each["type"] == "tool_call"}
    answered = {each["call_id"] for each in events if _is_result(each)}
    if calls == answered:
        return
    waiting: list[CanonicalEvent] = []
    for are_results, group in groupby(events, _is_result):
        if are_results:
            strange = [each for each in group if each["call_id"] and each["call_id"] not in calls]
            if len(strange) == len(waiting):
                for result, call in zip(strange, waiting, strict=True):
                    result["call_id"] = call["call_id"]
            waiting = []
        else:
            made = [each for each in group if each["type"] == "tool_call" and each["call_id"]]
            waiting += [each for each in made if each["call_id"] not in answered]


def _tool(operation: Operation) -> Json:
    return operation.call["tool"] if operation.call else None

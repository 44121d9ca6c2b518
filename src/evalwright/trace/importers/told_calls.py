"""Calls of which one side has told and the other may: the model that asks, the span that runs."""

from collections import deque

import msgspec

from evalwright.trace.importers.canonical import CanonicalEvent
from evalwright.trace.model import text_of

_EMPTY = (None, "")


class ToldCall(msgspec.Struct, eq=False):
    """A call in the conversation, whether both sides told of it, and its result if any."""

    event: CanonicalEvent
    is_met: bool = False
    result: CanonicalEvent | None = None

    def complete(self, event: CanonicalEvent) -> None:
        """Fill in what the first to tell of the call did not say."""
        for key in ("call_id", "tool", "args"):
            if self.event[key] in _EMPTY and event[key] not in _EMPTY:
                self.event[key] = event[key]
        if self.result is not None and self.result["call_id"] is None:
            self.result["call_id"] = self.event["call_id"]


class WaitingCalls:
    """Calls that wait for the other side, found by id, by arguments or by tool alone."""

    def __init__(self) -> None:
        self._queues: dict[tuple[str, ...], deque[ToldCall]] = {}

    def add(self, call: ToldCall) -> None:
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

    def meet(self, event: CanonicalEvent) -> ToldCall | None:
        """The call that an event tells of: by id, else by tool, best with the same arguments.

        An event with an id only meets a call with this id, or one whose id nobody told.
        """
        tool, args = event["tool"], text_of(event["args"])
        keys: list[tuple[str, ...]] = [("args", tool, args), ("tool", tool)]
        if event["call_id"]:
            keys = [("id", event["call_id"])]
            keys += [("nameless args", tool, args), ("nameless tool", tool)]
        for key in keys:
            call = self._next(key)
            if call is not None:
                call.is_met = True
                return call
        return None

    def _next(self, key: tuple[str, ...]) -> ToldCall | None:
        queue = self._queues.get(key)
        while queue:
            call = queue.popleft()
            if not call.is_met:
                return call
        return None

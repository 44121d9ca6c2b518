"""Where the arguments of a call came from: the user, a tool result, the baseline, or the model."""

from typing import Literal, TypeAlias

import msgspec

from evalwright.signals.provenance_values import read_date, written_forms
from evalwright.signals.trace_view import TraceView, values_given
from evalwright.trace.model import Event, Retrieval, ToolCall

Origin: TypeAlias = Literal["user", "tool_result", "retrieval", "baseline", "model"]


class Argument(msgspec.Struct, frozen=True, gc=False):
    """One value of a call; `source` is the event that brought it in, when that is not trusted."""

    path: str
    value: str
    origin: Origin
    source: Event | None = None


def arguments(scene: TraceView, call: ToolCall) -> list[Argument]:
    """The values of a call with their origins; only what was seen before the call counts.

    What the user or the operator said wins, then what the baseline did as well, then what tools
    and retrievals brought in; what is found in none of them is the model's own.
    """
    known = scene.traced_arguments.get(call.index)
    if known is None:
        known = [
            _trace_back(scene, call, path, value)
            for path, value in values_given(scene.trace)[call.index]
        ]
        scene.traced_arguments[call.index] = known
    return known


def _trace_back(scene: TraceView, call: ToolCall, path: str, value: str) -> Argument:
    forms = written_forms(value)
    date = read_date(value)
    told = date is not None and date.stands_in(scene.trusted_words)
    if told or any(form in scene.trusted_words for form in forms):
        return Argument(path, value, "user")
    if scene.baseline is not None and any(map(scene.was_given, forms)):
        return Argument(path, value, "baseline")
    places = [next(scene.sources_holding(form, call), None) for form in forms]
    found = [place for place in places if place is not None]
    if not found:
        return Argument(path, value, "model")
    event = scene.untrusted[min(found)].event
    origin: Origin = "retrieval" if isinstance(event, Retrieval) else "tool_result"
    return Argument(path, value, origin, event)

"""Where the arguments of a call came from: the user, a tool result, the baseline, or the model."""

from typing import Literal, TypeAlias

import msgspec

from evalwright.signals.provenance_values import leaves, read_date, written_forms
from evalwright.signals.scene import Scene
from evalwright.trace.model import Event, Retrieval, ToolCall, ToolResult

Origin: TypeAlias = Literal["user", "tool_result", "retrieval", "baseline", "model"]


class Argument(msgspec.Struct, frozen=True, gc=False):
    """One value of a call; `source` is the event that brought it in, when that is not trusted."""

    path: str
    value: str
    origin: Origin
    source: Event | None = None


def arguments(scene: Scene, call: ToolCall) -> list[Argument]:
    """The values of a call with their origins; only what was seen before the call counts.

    What the user or the operator said wins, then what the baseline did as well, then what tools
    and retrievals brought in; what is found in none of them is the model's own.
    """
    known = scene.traced_arguments.get(call.index)
    if known is None:
        known = [_trace_back(scene, call, path, value) for path, value in leaves(call.args)]
        scene.traced_arguments[call.index] = known
    return known


def _trace_back(scene: Scene, call: ToolCall, path: str, value: str) -> Argument:
    forms = written_forms(value)
    date = read_date(value)
    told = date is not None and date.stands_in(scene.trusted_words)
    if told or _stands_in(forms, scene.trusted_words):
        return Argument(path, value, "user")
    if not scene.baseline_values.isdisjoint(forms):
        return Argument(path, value, "baseline")
    event = _brought_in_by(scene, call, forms)
    if event is None:
        return Argument(path, value, "model")
    origin: Origin = "retrieval" if isinstance(event, Retrieval) else "tool_result"
    return Argument(path, value, origin, event)


def _brought_in_by(
    scene: Scene, call: ToolCall, forms: tuple[bytes, ...]
) -> ToolResult | Retrieval | None:
    start = scene.first_sources.get(forms, 0)
    for place, source in enumerate(scene.untrusted[start:], start):
        scene.first_sources[forms] = place
        if source.event.index > call.index:
            return None
        if _stands_in(forms, source.words):
            return source.event
    scene.first_sources[forms] = len(scene.untrusted)
    return None


def _stands_in(forms: tuple[bytes, ...], words: bytes) -> bool:
    if len(forms) == 1:  # nearly always, and a generator costs more than the search
        return forms[0] in words
    return any(form in words for form in forms)

"""Where the arguments of a call came from: the user, a tool result, the baseline, or the model."""

from typing import Literal, TypeAlias

import msgspec

from evalwright.signals.provenance_values import date_stands_in, leaves, written_forms
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
    return [_trace_back(scene, call, path, value) for path, value in leaves(call.args)]


def _trace_back(scene: Scene, call: ToolCall, path: str, value: str) -> Argument:
    forms = written_forms(value)
    if any(form in scene.trusted_words for form in forms):
        return Argument(path, value, "user")
    if date_stands_in(value, scene.trusted_words):
        return Argument(path, value, "user")
    if not scene.baseline_values.isdisjoint(forms):
        return Argument(path, value, "baseline")
    event = _brought_in_by(scene, forms)
    if event is None or event.index > call.index:
        return Argument(path, value, "model")
    origin: Origin = "retrieval" if isinstance(event, Retrieval) else "tool_result"
    return Argument(path, value, origin, event)


def _brought_in_by(scene: Scene, forms: tuple[bytes, ...]) -> ToolResult | Retrieval | None:
    if forms not in scene.first_sources:
        scene.first_sources[forms] = next(
            (
                place
                for place, words in enumerate(scene.untrusted_words)
                if any(form in words for form in forms)
            ),
            None,
        )
    place = scene.first_sources[forms]
    return None if place is None else scene.untrusted[place].event

"""Where the arguments of a call came from: the user, a tool result, the baseline, or the model."""

from typing import Literal, TypeAlias

import msgspec

from evalwright.signals.provenance_values import leaves, written_forms
from evalwright.signals.scene import Scene
from evalwright.trace.model import Event, Retrieval, ToolCall

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
    if _stands_in(forms, scene.trusted_words):
        return Argument(path, value, "user")
    if not scene.baseline_values.isdisjoint(forms):
        return Argument(path, value, "baseline")
    for source, words in zip(scene.untrusted, scene.untrusted_words, strict=True):
        if source.event.index > call.index:
            break
        if _stands_in(forms, words):
            origin: Origin = "retrieval" if isinstance(source.event, Retrieval) else "tool_result"
            return Argument(path, value, origin, source.event)
    return Argument(path, value, "model")


def _stands_in(forms: tuple[bytes, ...], words: bytes) -> bool:
    return any(form in words for form in forms)

"""What was observed of an invocation: without it, nothing that an agent left undone is known."""

from collections.abc import Mapping
from typing import Literal

import msgspec

Part = Literal["calls", "usage", "messages"]
ToolsClaim = Literal["none", "task"]
UsageClaim = Literal["none"]
Observe = Literal["auto", "otel", "none"]  # whether spans of agents in this process are captured
PARTS: tuple[Part, ...] = ("calls", "usage", "messages")
_NAMES = {"calls": "tool calls", "usage": "model usage", "messages": "messages"}
_CLAIMED = {"claimed none": "none, as claimed", "claimed task": "only through the task, as claimed"}
RECORDED = "recorded"  # by others, or before coverage was
RESPONSE_FIELD = "evalwright_coverage"  # of a response that we recorded


class Claims(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a user says of an agent that nobody observes: it calls nothing, or only by `task`.

    And whether its code is to be isolated, as that goes with the agent, too.
    """

    tools: ToolsClaim | None = None
    usage: UsageClaim | None = None
    isolate: bool = False


NO_CLAIMS = Claims()


class Coverage(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Which parts of an invocation were observed, each by how it was; None: nobody observed it."""

    calls: str | None = None
    usage: str | None = None
    messages: str | None = None
    lost: str | None = None  # why the calls are not observed, though some of them were

    def claimed(self, tools: ToolsClaim | None, usage: UsageClaim | None) -> "Coverage":
        if tools is usage is None:
            return self
        return Coverage(
            self.calls or (tools and f"claimed {tools}"),
            self.usage or (usage and f"claimed {usage}"),
            self.messages,
            self.lost,
        )


NOTHING_OBSERVED = Coverage()


def coverage_from(told: object) -> Coverage | None:
    """Coverage as a response tells it; None where it tells nothing that makes sense."""
    try:
        return msgspec.convert(told, Coverage) if isinstance(told, dict) else None
    except msgspec.ValidationError:
        return None


def coverage_in_words(by_part: Mapping[str, str | None]) -> str:
    """Each part with how it was observed, in one line."""
    seen = {part: by_part.get(part) or "not observed" for part in PARTS}
    told = [f"{_NAMES[part]}: {_CLAIMED.get(how, how)}" for part, how in seen.items()]
    lost = by_part.get("lost")
    return " · ".join(told) + (f" ({lost})" if lost else "")


def coverage_of(observed: Mapping[str, set[str]], lost: str | None = None) -> Coverage:
    """The coverage from all that observed each part, whichever came first.

    `lost` says why calls were made that nobody observed: so it is not known which there were.
    """
    known = {part: ", ".join(sorted(how)) for part, how in observed.items()}
    return Coverage(**(known if lost is None else {**known, "calls": None}), lost=lost)


def recorded_coverage(*, has_calls: bool, has_usage: bool) -> Coverage:
    """The coverage of an invocation in a log that says nothing of it: what is there was seen."""
    return Coverage(RECORDED if has_calls else None, RECORDED if has_usage else None)

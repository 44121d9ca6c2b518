"""A recorded case beside its trace: where it stands, what names it, and what was said in it."""

from typing import Any

import msgspec

from evalwright.trace.cached import cached
from evalwright.trace.decode import decode_trace
from evalwright.trace.model import Json, Trace, text_of

_OF_DIALOGUE = frozenset({"user", "assistant"})


class Recording(msgspec.Struct, frozen=True, dict=True):
    """What was recorded of one case; with a `fault`, why nothing of it can be used.

    `case_id` is None if it is named only by a trace, a conversation or its place, which differ from
    recording to recording; `base_id` is that of the case that it is a variant of. `given` is the
    input itself, where the recording has it.
    """

    response: Json
    place: str
    name: str  # as it was recorded: of a case, a conversation, a trace
    case_id: str | None = None
    prompt: str = ""  # of the case, where the response does not have it
    given: Json = msgspec.UNSET
    fault: str | None = None
    base_id: str | None = None
    is_conversation: bool = False  # the agent was asked turn by turn

    @cached
    def trace(self) -> Trace:
        """What the agent did."""
        return decode_trace(self.response, self.name, self.prompt)

    @cached
    def passed(self) -> bool | None:
        """The verdict that was recorded beside it; None if there was none."""
        scored = self.response.get("scored") if isinstance(self.response, dict) else None
        passed = scored.get("passed") if isinstance(scored, dict) else None
        return passed if isinstance(passed, bool) else None

    @cached
    def models(self) -> tuple[str, ...]:
        """The models that answered, as far as they were recorded."""
        named = self.response.get("models") if isinstance(self.response, dict) else None
        listed = named if isinstance(named, list) else ()
        return tuple(each for each in listed if isinstance(each, str) and each)


class Turn(msgspec.Struct, frozen=True):
    """What was said, and where among the events; `index` is -1 for what came before all of them."""

    role: str
    content: Any
    index: int = -1


def turns_of(trace: Trace) -> list[Turn]:
    """What user and agent said to each other, up to what the user last said before the answer."""
    end = None if trace.output is None else trace.output.index
    if trace.output is not None and end is None:  # the last message may be the answer
        same = [each.index for each in trace.messages if each.content == trace.output.content]
        end = same[-1] if same else None
    said = [Turn("user", trace.prompt)] if trace.prompt else []
    said += [
        Turn(message.role, message.content, message.index)
        for message in trace.messages
        if message.role in _OF_DIALOGUE and (end is None or message.index < end)
    ]
    while said and said[-1].role != "user":
        said.pop()
    return said if any(turn.index >= 0 for turn in said) else said[:1]


def words_in(trace: Trace) -> str:
    """All that the user said, with the space between words made alike."""
    said = [message.content for message in trace.messages if message.role == "user"]
    return alike(" ".join(map(text_of, (trace.prompt, *said))))


def alike(text: str) -> str:
    """A text with one space between words."""
    return " ".join(text.split())

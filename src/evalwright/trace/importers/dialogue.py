"""From the events of a conversation to a response: what was asked, what was done, what came out."""

from typing import Any

from evalwright.trace.importers.canonical import CanonicalEvent, is_answer, is_message
from evalwright.trace.importers.messages import readable
from evalwright.trace.model import Json

_OPERATOR = ("system", "developer")
_PROCESSED = "Final result processed."  # what pydantic-ai answers to the call that is the answer


class Dialogue:
    """Takes events in order; the user's first words, and all before the agent acts, are prompts."""

    def __init__(self) -> None:
        self._instructions: list[str] = []
        self._system: list[str] = []
        self._prompt: list[str] = []
        self._events: list[CanonicalEvent] = []
        self._has_acted = False

    @property
    def has_prompt(self) -> bool:
        """Whether the user said something."""
        return bool(self._prompt)

    def add(self, event: CanonicalEvent) -> None:
        """Take the next event."""
        is_first = not self._prompt
        if is_message(event, *_OPERATOR) and readable(event["content"]) in self._system:
            return  # pydantic-ai repeats the instructions in every request
        if is_message(event, *_OPERATOR) and (is_first or not self._has_acted):
            self._system.append(readable(event["content"]))
        elif is_message(event, "user") and (is_first or not self._has_acted):
            self._prompt.append(readable(event["content"]))
        else:
            # What is looked up before the first prompt of a model belongs to the question.
            self._has_acted = self._has_acted or event["type"] != "retrieval"
            self._events.append(event)

    def instruct(self, text: str) -> None:
        """Take what the operator said apart from the messages; it comes first."""
        self._instructions.append(text)

    def ask(self, text: str) -> None:
        """Take what the user said apart from the messages."""
        self._prompt.append(text)

    def response(self, case_id: str, extras: dict[str, Any] | None = None) -> dict[str, Any]:
        """The response object; what is not known is absent."""
        events = list(self._events)
        # Where the last words of the assistant stand, if no further step followed them.
        place = len(events) - 1
        while place >= 0 and is_message(events[place]) and not is_answer(events[place]):
            place -= 1
        response: dict[str, Any] = {"case_id": case_id}
        if self._prompt:
            response["user_prompt"] = "\n\n".join(self._prompt)
        if texts := dict.fromkeys(self._instructions + self._system):
            response["system_prompt"] = "\n\n".join(texts)
        if place >= 0 and is_answer(events[place]):
            event = events[place]
            kept = {key: event[key] for key in event if key not in ("role", "type")}
            events[place] = {"type": "final_output", **final_output(event["content"]), **kept}
            response["final_output"] = final_output(events[place]["content"])
        elif events and events[-1]["type"] == "tool_result":
            # An agent may have given its answer as data, as the arguments of a call.
            last = events[-1]
            called = (each for each in reversed(events) if each["type"] == "tool_call")
            args = (each["args"] for each in called if each["call_id"] == last["call_id"])
            if last.get("payload") == _PROCESSED and (answer := next(args, None)) is not None:
                response["final_output"] = final_output(answer)
        return {**response, "proposed_actions": [], "events": events, **(extras or {})}


def final_output(content: Json) -> dict[str, Any]:
    """The final output of a response."""
    return {"content_type": "text" if isinstance(content, str) else "json", "content": content}

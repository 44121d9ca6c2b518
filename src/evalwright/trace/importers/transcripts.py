"""Formats of which one record tells of whole cases: from what it says to responses."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from evalwright.trace.importers.canonical import CanonicalEvent
from evalwright.trace.importers.dialogue import Dialogue, final_output
from evalwright.trace.importers.records import Imported, Importer, ImportRecord, faulty, numbered
from evalwright.trace.model import Json


class Transcript(msgspec.Struct, kw_only=True):
    """What a record says of one case.

    `answer` is the outcome that is kept apart from what was said; it counts where there is one.
    """

    events: list[CanonicalEvent] = []
    case_id: str | None = None
    base_case_id: str | None = None
    trace_id: str | None = None
    prompt: str | None = None
    instructions: list[str] = []
    tools: list[str] = []
    models: list[str] = []
    usage: dict[str, Json] = {}
    failure: dict[str, Any] = {}
    answer: Json = None

    def imported(self, number: int, place: str) -> Imported:
        """The case as a response, or the fault that nothing was said or done in it."""
        if not self.says_something:
            return faulty(number, f"{place}: {NOTHING}")
        dialogue = Dialogue()
        for each in self.instructions:
            dialogue.instruct(each)
        for event in self.events:
            dialogue.add(event)
        if self.prompt and not dialogue.has_prompt:
            dialogue.ask(self.prompt)
        case_id = self.case_id or numbered(number)
        extras = {"tools_offered": self.tools, "models": self.models, "usage": self.usage}
        response = dialogue.response(
            case_id, {key: value for key, value in extras.items() if value}
        )
        if self.answer not in (None, ""):
            response["final_output"] = final_output(self.answer)
        if self.failure and "final_output" not in response:
            response["runner_failure"] = self.failure
        return Imported(case_id, response, self.base_case_id, self.trace_id)

    @property
    def says_something(self) -> bool:
        """Whether there is more than a name."""
        return bool(self.events or self.prompt or self.failure or self.answer)


Read = Callable[[Json, str], Iterable[Transcript]]


class Transcripts(Importer):
    """Reads each record for itself; `read` takes its value and the name of the file."""

    def __init__(self, read: Read, name: str) -> None:
        super().__init__(name)
        self._read = read

    def read(self, record: ImportRecord) -> Iterator[Imported]:
        found = [each for each in self._read(record.value, self._name) if each.says_something]
        for each in found or [Transcript()]:
            yield each.imported(record.number, record.place)


NOTHING = "has the form of a trace, but nothing that was said or done; see docs/trace-formats.md"

"""The two traces of a case as one conversation: what differs stands in pairs."""

from collections.abc import Sequence, Set
from html import escape
from typing import Any, Literal, TypeAlias

import msgspec

from evalwright.comparison.alignment import AlignedStep
from evalwright.reports.design.markup import as_markup, marked
from evalwright.reports.formats.text import as_json, equal, shown
from evalwright.reports.formats.word_diff import agreeing, mark_differences
from evalwright.reports.formats.words import STATES, in_words
from evalwright.trace.model import (
    GOOD_STATUSES,
    Event,
    FinalOutput,
    Json,
    Message,
    Retrieval,
    ToolCall,
    ToolResult,
    Unknown,
)
from evalwright.trace.paired_calls import Step

SideLetter: TypeAlias = Literal["b", "n"]  # what the anchors of a side begin with

_PREVIEW = 100
_LONGEST_NAME = 90
_LINE = 72  # characters of JSON that stand in one line
_MOST_MARKED = 3  # pairs, from the first that differs: after that the sides go their own ways
_LATEST = 10**15  # of a time that can be right; more is shown in the response only


class StepOfSide(msgspec.Struct, gc=False):
    """What one side did, in the order in which the template takes its fields apart."""

    kind: Literal["call", "user", "agent"]
    id: str
    twin: str = ""  # the anchor of the same step of the baseline, where it stands once for both
    is_open: bool = False
    bad: bool = False
    name: str = ""
    args: str = ""
    badge: str = ""
    place: str = ""
    said: Any = None  # or markup, with the words marked that differ
    returned: Any = None
    returned_id: str = ""
    returned_twin: str = ""


# A step of the page: its number, what became of it, and what both sides did, or the baseline and
# the new side. Tuples, which templates take apart in half the time that asking for fields takes.
_Side: TypeAlias = tuple[Any, ...] | None
ShownStep: TypeAlias = tuple[int, str, _Side, _Side, _Side]


class SideSteps:
    """Makes the steps of one side; `letter` begins its anchors.

    What is left out of a step is in the file at `href`.
    """

    def __init__(self, letter: SideLetter, events: int, href: str) -> None:
        self.letter = letter
        # Less where events are very many, so that a browser can open the page.
        self.room = 1_500 if events <= 400 else 300 if events <= 4_000 else 80
        self._href = href

    def alone(self, step: Step) -> StepOfSide:
        """A step that is not compared."""
        said = self.cut(_text(payload_of(step.event)))
        return self.made(step, said, said, self.result_alone(step))

    def result_alone(self, step: Step) -> str | None:
        """What came of a step, where that is not compared."""
        return None if step.result is None else self.cut(_text(payload_of(step.result)))

    def made(self, step: Step, line: str, said: Any, came: Any) -> StepOfSide:
        """A step of what was said, which a line begins to tell, and of what came of it."""
        event, result, letter = step.event, step.result, self.letter
        anchor, place = f"{letter}-{event.index}", f"event {event.index}"
        if type(event) is FinalOutput or type(event) is Message:
            is_user = type(event) is Message and event.role == "user"
            by = event.role.capitalize() if type(event) is Message else "Final output"
            kind: Literal["user", "agent"] = "user" if is_user else "agent"
            name = _short_name(by)
            return StepOfSide(kind, anchor, name=name, place=place, said=said)
        made = StepOfSide("call", anchor)
        if type(event) is ToolResult:
            made.name, made.badge = _short_name(event.tool or "(no name)"), "result without a call"
            result, came = event, said
        else:
            made.said, made.args = said, line[:_PREVIEW]
            made.name = _short_name(_name_of(event))
        if result is not None:
            made.returned = came
            if result is not event:
                made.returned_id = f"{letter}-{result.index}"
            took = result.latency_ms
            if took is not None and 0 <= took < _LATEST:
                place = f"{place}, {took:.0f} ms"
            if result.status != "ok" and result.status.casefold() not in GOOD_STATUSES:
                made.badge, made.bad = _short_name(in_words(result.status)), True
        made.place = place
        return made

    def cut(self, text: str, start: int = 0) -> str:
        """As much of a text as there is room for, from where two versions are about to part."""
        if len(text) <= self.room:
            return text
        part = text[start : start + self.room]
        place = f", from {start:,} on" if start else ""
        where = f"; full: {self._href}" if self._href else ""
        return f"{part} [shortened, {len(part):,} of {len(text):,} characters{place}{where}]"


def paired_steps(
    steps: Sequence[AlignedStep],
    old: SideSteps,
    new: SideSteps,
    cited: Set[str],
    diverges_at: int,
) -> list[ShownStep]:
    """The steps, numbered from 1; open are those that are cited, and the first that differs."""
    found: list[ShownStep] = []
    marked_pairs = 0
    for number, step in enumerate(steps, 1):
        a, b = step.baseline, step.new
        if a is not None and b is not None and step.state == "same":
            both = new.alone(b)
            both.twin = f"b-{a.event.index}"
            if a.result is not None:
                both.returned_twin = f"b-{a.result.index}"
            if cited:
                both.is_open = not cited.isdisjoint((both.twin, both.returned_twin))
                both.is_open = both.is_open or _is_cited(both, cited)
            found.append((number, "", msgspec.structs.astuple(both), None, None))
            continue
        marked_pairs += a is not None and b is not None
        if a is None or b is None or marked_pairs > _MOST_MARKED:
            left = None if a is None else old.alone(a)
            right = None if b is None else new.alone(b)
        else:
            said = _compared(payload_of(a.event), payload_of(b.event), old, new)
            if a.result is not None and b.result is not None:
                came = _compared(payload_of(a.result), payload_of(b.result), old, new)
                left = old.made(a, *said[0], came[0][1])
                right = new.made(b, *said[1], came[1][1])
            else:
                left = old.made(a, *said[0], old.result_alone(a))
                right = new.made(b, *said[1], new.result_alone(b))
        if cited or number == diverges_at:
            for side in (left, right):
                if side is not None:
                    side.is_open = number == diverges_at or _is_cited(side, cited)
        before = None if left is None else msgspec.structs.astuple(left)
        after = None if right is None else msgspec.structs.astuple(right)
        found.append((number, STATES[step.state], None, before, after))
    return found


def _is_cited(step: StepOfSide, cited: Set[str]) -> bool:
    return step.id in cited or step.returned_id in cited


def _compared(
    a: Json, b: Json, old: SideSteps, new: SideSteps
) -> tuple[tuple[str, Any], tuple[str, Any]]:
    """Two payloads as text, and the same with the words, or the lines, marked that differ."""
    before, after = _text(a), _text(b)
    if before == after and type(a) is not type(b):
        before, after = as_json(a), as_json(b)
    if before == after or equal(a, b):  # texts of containers may differ in the order of keys alone
        before, after = old.cut(before), new.cut(after)
        return (before, before), (after, after)
    start = 0
    if max(len(before), len(after)) > old.room:
        common = agreeing(before, after)
        start = 0 if common < old.room // 2 else common - old.room // 4
    before, after = old.cut(before, start), new.cut(after, start)
    if "\n" in before and "\n" in after:
        left, right = escape(before, quote=False), escape(after, quote=False)
        old_lines, new_lines = left.split("\n"), right.split("\n")
        return (
            (before, _marked_lines(old_lines, set(new_lines), "del")),
            (after, _marked_lines(new_lines, set(old_lines), "ins")),
        )
    versions = mark_differences(before, after) or ([(True, before)], [(True, after)])
    return (before, marked(versions[0], "del")), (after, marked(versions[1], "ins"))


def _marked_lines(lines: Sequence[str], known: Set[str], tag: str) -> Any:
    """Escaped lines, with those in an element that the other version does not have."""
    shown = [line if line in known else f"<{tag}>{line}</{tag}>" for line in lines]
    return as_markup("\n".join(shown))


def _text(value: Json) -> str:
    """A payload as text: what is short in one line, the rest of JSON set out in lines."""
    if type(value) is str:
        return value or '""'
    if type(value) is not dict and type(value) is not list:
        return shown(value)
    try:
        text = msgspec.json.encode(value).decode()
    except (msgspec.MsgspecError, RecursionError, UnicodeError, OverflowError):
        return as_json(value)  # no JSON can hold it
    # A quotation mark in a text stands behind a backslash, so this one ends or begins an entry.
    return text if len(text) <= _LINE else text.replace(',"', ',\n "')


def _name_of(event: Event) -> str:
    if type(event) is ToolCall:
        return event.tool or "(no name)"
    return event.type if type(event) is Unknown else "retrieval"


def _short_name(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…"


def payload_of(event: Event) -> Json:
    """What an event carries, beside its name and its time."""
    if type(event) is ToolCall:
        return event.args
    if type(event) is ToolResult:
        if event.error is None:
            return event.payload
        return {"error": event.error, "payload": event.payload}
    if type(event) is Retrieval:
        known = {"query": event.query, "doc_ids": list(event.doc_ids)}
        return known if event.content is None else {**known, "content": event.content}
    if type(event) is Unknown:
        return event.raw
    assert type(event) is Message or type(event) is FinalOutput
    return event.content

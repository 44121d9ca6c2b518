"""The two traces step by step, as HTML: calls with their results, and what differs."""

from collections.abc import Sequence, Set

from evalwright.comparison.alignment import AlignedStep
from evalwright.reports.html.display_text import shown
from evalwright.reports.html.fields import PayloadWriter, write_compared
from evalwright.reports.html.markup import (
    NAMES,
    KnownNames,
    name_html,
    parts_html,
    short_name,
    status_html,
)
from evalwright.reports.html.words import STATES, TOOL_STATUSES, Label
from evalwright.trace.model import (
    Event,
    FinalOutput,
    Json,
    Message,
    Retrieval,
    ToolCall,
    ToolResult,
    Trace,
    Unknown,
)
from evalwright.trace.pairing import Step

_PREVIEW = 100
_KNOWN_OPENINGS = 4096
_LATEST = 10**15  # of a time that can be right; more is shown in the response only
_NOT_IN_BASELINE = '<p class="none">not in the baseline</p>'
_NOT_IN_NEW = '<p class="none">not in the new run</p>'
_END = ("</dl></div>", "")  # of an event


class SideWriter(PayloadWriter):
    """Writes the events of one side; `letter` begins its anchors."""

    def __init__(self, letter: str, trace: Trace, events: int, href: str) -> None:
        super().__init__(events, href)
        self._letter = letter
        self._start = next((event.ts for event in trace.events if event.ts is not None), 0)

    def step(self, step: Step | None, otherwise: str) -> None:
        """A call and its result, or another event."""
        if step is None:
            self.parts += (otherwise, "")
            return
        self.event(step.event)
        if step.result is not None:
            self.event(step.result)

    def event(self, event: Event) -> None:
        """One event that is not compared."""
        self.rows(self.head(event))
        self.parts += _END

    def head(self, event: Event, twin: str = "") -> Json:
        """Write all of an event but its rows and its end; give what it carries.

        `twin` is the anchor of its like, where both are shown as one.
        """
        name, lasted = None, ""
        place: int | None
        if type(event) is ToolCall:
            kind, place, ts = "<b>call</b>", event.index, event.ts
            name, payload = event.call_id, event.args
        elif type(event) is ToolResult:
            kind, place, ts = _RESULTS[event.status], event.index, event.ts
            name, payload = event.call_id, payload_of(event)
            lasted = "" if event.latency_ms is None else _duration(event.latency_ms)
        else:
            kind, place, ts = _KINDS[type(event)], event.index, event.ts
            payload = payload_of(event)
        offset = "" if ts is None else _offset(ts - self._start)
        end = f"{lasted}{offset}</small><dl>"
        key = self._letter, place, kind, name is None
        opening = _OPENINGS.get(key) or _opening(*key)
        if twin:
            opening = opening.replace("<p>", f'<i id="{twin}"></i><p>', 1)
        if name is None:
            self.parts += (opening + end, "")
        else:
            self.parts += (opening, short_name(name), end, "")
        return payload


# How events begin: places and kinds are few, so nearly every one was written before.
_OPENINGS: dict[tuple[str, int | None, str, bool], str] = {}


def _opening(letter: str, place: int | None, kind: str, nameless: bool) -> str:  # noqa: FBT001 - part of a key
    end = "" if nameless else ", "
    html = f'<div id="{letter}-{place}"><p>{kind} <small>event {place}{end}'
    if len(_OPENINGS) < _KNOWN_OPENINGS:
        _OPENINGS[letter, place, kind, nameless] = html
    return html


def _offset(since: float) -> str:
    """The time since the first event of a side; one that cannot be right is left out."""
    return f", {since:+.0f} ms" if -_LATEST < since < _LATEST else ""


def _duration(took: float) -> str:
    """How long a tool took; what cannot be right is left out."""
    return f", took {round(took)} ms" if 0 <= took < _LATEST else ""


class StepWriter:
    """Writes aligned steps; those in `cited` that are the same stand open.

    The baseline's writer holds the page, the other one what is to stand beside the last step.
    """

    def __init__(self, old: SideWriter, new: SideWriter, cited: Set[str] = frozenset()) -> None:
        self._old = old
        self._new = new
        self._cited = cited

    def html(self, steps: Sequence[AlignedStep]) -> str:
        """The items of the list, numbered from 1."""
        for number, step in enumerate(steps, 1):
            a, b = step.baseline, step.new
            if a is not None and b is not None and step.state == "same":
                self._same(number, a, b)
            else:
                self._pair(number, step)
        return parts_html(self._old.parts)

    def _pair(self, number: int, step: AlignedStep) -> None:
        """A step with its sides beside each other."""
        a, b, state = step.baseline, step.new, step.state
        page, beside = self._old.parts, self._new.parts
        title = f"{number} {_STATES[state]} {_title((b or a).event)}"  # type: ignore[union-attr]
        page += (f'<li class="{state}"><h3>{title}</h3><div class="pair"><div class="old">', "")
        if a is not None and b is not None:
            self._changed(a, b)
        else:
            self._old.step(a, _NOT_IN_BASELINE)
            self._new.step(b, _NOT_IN_NEW)
        page += ('</div><div class="new">', "", *beside, "</div></div></li>\n", "")
        beside.clear()

    def _same(self, number: int, a: Step, b: Step) -> None:
        """A step that is the same stands once, with the anchors of both sides."""
        opened = " open" if self._cited and self._is_cited(a, b) else ""
        title = f"<h3>{number} {_STATES['same']} {_title(b.event)}</h3>"
        opening = f'<li class="same"><details{opened}><summary>{title} <span class="muted">'
        self._old.parts += (opening, _preview(b.event), "</span></summary>", "")
        self._shared(a.event, b.event)
        if a.result is not None and b.result is not None:
            self._shared(a.result, b.result)
        self._old.parts += ("</details></li>\n", "")

    def _is_cited(self, a: Step, b: Step) -> bool:
        events = (("b", a.event), ("b", a.result), ("n", b.event), ("n", b.result))
        places = [f"{letter}-{event.index}" for letter, event in events if event is not None]
        return not self._cited.isdisjoint(places)

    def _shared(self, old: Event, new: Event) -> None:
        """Write two events as one."""
        self._old.head(old, f"n-{new.index}")
        self._new.rows(payload_of(new))
        self._old.parts += (*self._new.parts, *_END)
        self._new.parts.clear()

    def _changed(self, a: Step, b: Step) -> None:
        old, new = self._old, self._new
        write_compared(old.head(a.event), new.head(b.event), old, new)
        old.parts += _END
        new.parts += _END
        if a.result is not None and b.result is not None:
            write_compared(old.head(a.result), new.head(b.result), old, new)
            old.parts += _END
            new.parts += _END
        elif a.result is not None:
            old.event(a.result)
        elif b.result is not None:
            new.event(b.result)


_STATES = {state: status_html(label) for state, label in STATES.items()}


def _result(status: str) -> str:
    label = TOOL_STATUSES.get(status) or Label(status, "?", "warn")
    return f"<b>result</b> {status_html(label)}"


_RESULTS = KnownNames(_result)
_KINDS: dict[type, str] = {
    Retrieval: "<b>retrieval</b>",
    Message: "<b>message</b>",
    FinalOutput: "<b>final output</b>",
    Unknown: "<b>unknown event</b>",
}


def _title(event: Event) -> str:
    if type(event) is ToolCall:
        return _CALLS[event.tool]
    kind = _KINDS.get(type(event), "<b>result</b>")
    name = _name(event)
    return f"{kind} <code>{NAMES[name]}</code>" if name else kind


_CALLS = KnownNames(lambda tool: f"<b>call</b> <code>{name_html(tool or '(no name)')}</code>")


def _name(event: Event) -> str | None:
    """The name that an event other than a call goes by."""
    if type(event) is ToolResult:
        return event.tool
    if type(event) is Message:
        return event.role
    if type(event) is FinalOutput:
        return event.content_type
    return event.type if type(event) is Unknown else None


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


def _preview(event: Event) -> str:
    """The start of what an event carries, on one line."""
    text = shown(payload_of(event))
    short = text[:_PREVIEW].replace("\n", " ")
    return f"{short}…" if len(text) > _PREVIEW else short

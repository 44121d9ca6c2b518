"""The two traces step by step, as HTML: calls with their results, and what differs."""

from collections.abc import Container, Sequence
from functools import lru_cache

from evalwright.compare.alignment import AlignedStep
from evalwright.reports.html.fields import PayloadWriter, write_compared
from evalwright.reports.html.markup import (
    NAMES,
    KnownNames,
    Parts,
    name_html,
    parts_html,
    short_name,
    status_html,
)
from evalwright.reports.html.visible import shown
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
        self.head(event)
        self.rows(payload_of(event))
        self.parts += _END

    def head(self, event: Event, twin: int | None = None) -> None:
        """All of an event but its rows and its end; `twin` is the place of its like in new."""
        name, took = None, None
        if type(event) is ToolCall:
            kind, name = "<b>call</b>", event.call_id
        elif type(event) is ToolResult:
            kind, name, took = _RESULTS[event.status], event.call_id, event.latency_ms
        else:
            kind = _KINDS[type(event)]
        times = "" if took is None else _duration(took)
        if event.ts is not None:
            times += _offset(event.ts - self._start)
        if name is None:
            opening = _opening(self._letter, event.index, twin, kind)
            self.parts += (f"{opening}{times}</small><dl>", "")
        else:
            opening = _opening(self._letter, event.index, twin, kind, ", ")
            self.parts += (opening, short_name(name), f"{times}</small><dl>", "")


@lru_cache(_KNOWN_OPENINGS)
def _opening(letter: str, place: int | None, twin: int | None, kind: str, end: str = "") -> str:
    """How an event begins: places and kinds are few, so nearly every one was written before."""
    anchor = "" if twin is None else f'<i id="n-{twin}"></i>'
    return f'<div id="{letter}-{place}">{anchor}<p>{kind} <small>event {place}{end}'


def _offset(since: float) -> str:
    """The time since the first event of a side; one that cannot be right is left out."""
    if type(since) is int and 0 <= since < _LATEST:
        return f", +{since} ms"
    return f", {since:+.0f} ms" if -_LATEST < since < _LATEST else ""


def _duration(took: float) -> str:
    """How long a tool took; what cannot be right is left out."""
    if 0 <= took < _LATEST:
        return f", took {took if type(took) is int else round(took)} ms"
    return ""


class StepWriter:
    """Writes aligned steps; those in `cited` that are the same stand open."""

    def __init__(self, old: SideWriter, new: SideWriter, cited: Container[str] = ()) -> None:
        self._old = old
        self._new = new
        self._cited = cited

    def html(self, steps: Sequence[AlignedStep]) -> str:
        """The items of the list, numbered from 1."""
        parts: Parts = []
        for number, step in enumerate(steps, 1):
            a, b = step.baseline, step.new
            if a is not None and b is not None and step.state == "same":
                parts += self._same(number, a, b)
            else:
                parts += self._pair(number, step)
        return parts_html(parts)

    def _pair(self, number: int, step: AlignedStep) -> Parts:
        """A step with its sides beside each other."""
        a, b, state = step.baseline, step.new, step.state
        if a is not None and b is not None:
            self._changed(a, b)
        else:
            self._old.step(a, _NOT_IN_BASELINE)
            self._new.step(b, _NOT_IN_NEW)
        title = f"{number} {_STATES[state]} {_title((b or a).event)}"  # type: ignore[union-attr]
        return [
            f'<li class="{state}"><h3>{title}</h3><div class="pair"><div class="old">',
            "",
            *self._old.taken(),
            '</div><div class="new">',
            "",
            *self._new.taken(),
            "</div></div></li>\n",
            "",
        ]

    def _same(self, number: int, a: Step, b: Step) -> Parts:
        """A step that is the same stands once, with the anchors of both sides."""
        cited = self._shared(a.event, b.event)
        if a.result is not None and b.result is not None:
            cited = self._shared(a.result, b.result) or cited
        title = f"<h3>{number} {_STATES['same']} {_title(b.event)}</h3>"
        opening = f"<details{' open' if cited else ''}><summary>"
        return [
            f'<li class="same">{opening}{title} <span class="muted">',
            _preview(b.event),
            "</span></summary>",
            "",
            *self._old.taken(),
            "</details></li>\n",
            "",
        ]

    def _shared(self, old: Event, new: Event) -> bool:
        """Write two events as one; whether one of them is cited."""
        self._old.head(old, new.index)
        self._new.rows(payload_of(new))
        self._old.parts += (*self._new.taken(), *_END)
        return f"b-{old.index}" in self._cited or f"n-{new.index}" in self._cited

    def _changed(self, a: Step, b: Step) -> None:
        self._compared(a.event, b.event)
        if a.result is not None and b.result is not None:
            self._compared(a.result, b.result)
        elif a.result is not None:
            self._old.event(a.result)
        elif b.result is not None:
            self._new.event(b.result)

    def _compared(self, a: Event, b: Event) -> None:
        old, new = self._old, self._new
        old.head(a)
        new.head(b)
        write_compared(payload_of(a), payload_of(b), old, new)
        old.parts += _END
        new.parts += _END


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

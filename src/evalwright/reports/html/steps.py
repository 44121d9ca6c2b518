"""The two traces step by step, as HTML: calls with their results, and what differs."""

from collections.abc import Callable, Container, Sequence
from typing import Any

from evalwright.compare.alignment import AlignedStep
from evalwright.reports.html.fields import PayloadWriter, compared_rows
from evalwright.reports.html.markup import NAMES, status_html, text_html
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
_LATEST = 10**15  # of a time that can be right; more is shown in the response only
_NOT_IN_BASELINE = '<p class="none">not in the baseline</p>'
_NOT_IN_NEW = '<p class="none">not in the new run</p>'


class SideWriter:
    """Writes the events of one side; `letter` begins its anchors."""

    def __init__(self, letter: str, trace: Trace, payloads: PayloadWriter) -> None:
        self.payloads = payloads
        self._letter = letter
        self._start = next((event.ts for event in trace.events if event.ts is not None), None)

    def step(self, step: Step | None, otherwise: str = "") -> str:
        """A call and its result, or another event."""
        if step is None:
            return otherwise
        rows = self.payloads.rows
        html = self.event(step.event, rows(payload_of(step.event)))
        if step.result is not None:
            html += self.event(step.result, rows(payload_of(step.result)))
        return html

    def event(self, event: Event, rows: str, twin: str = "") -> str:
        """One event with the rows of its payload."""
        head = _HEADS[type(event)](event)
        ts, start = event.ts, self._start
        time = "" if ts is None or start is None else _offset(ts - start)
        return (
            f'<div id="{self._letter}-{event.index}">{twin}<p>{head}{time}</small>'
            f"<dl>{rows}</dl></div>"
        )


def _offset(since: float) -> str:
    """The time since the first event of a side; one that cannot be right is left out."""
    if type(since) is int and 0 <= since < _LATEST:
        return f", +{since} ms"
    return f", {since:+.0f} ms" if -_LATEST < since < _LATEST else ""


class StepWriter:
    """Writes aligned steps; those in `cited` that are the same stand open."""

    def __init__(self, old: SideWriter, new: SideWriter, cited: Container[str] = ()) -> None:
        self._old = old
        self._new = new
        self._cited = cited

    def html(self, steps: Sequence[AlignedStep]) -> str:
        """The items of the list, numbered from 1."""
        return "\n".join([self._item(number, step) for number, step in enumerate(steps, 1)])

    def _item(self, number: int, step: AlignedStep) -> str:
        a, b, state = step.baseline, step.new, step.state
        if a is not None and b is not None:
            if state == "same":
                return self._same(number, a, b)
            old, new = self._changed(a, b)
        else:
            old = self._old.step(a, _NOT_IN_BASELINE)
            new = self._new.step(b, _NOT_IN_NEW)
        title = f"{number} {_STATES[state]} {_title((b or a).event)}"  # type: ignore[union-attr]
        return (
            f'<li class="{state}"><h3>{title}</h3><div class="pair">'
            f'<div class="old">{old}</div><div class="new">{new}</div></div></li>'
        )

    def _same(self, number: int, a: Step, b: Step) -> str:
        """A step that is the same stands once, with the anchors of both sides."""
        events = [(a.event, b.event)]
        if a.result is not None and b.result is not None:
            events.append((a.result, b.result))
        body = "".join([self._shared(old, new) for old, new in events])
        cited = any(
            f"b-{old.index}" in self._cited or f"n-{new.index}" in self._cited
            for old, new in events
        )
        title = f"{number} {_STATES['same']} {_title(b.event)}"
        return (
            f'<li class="same"><details{" open" if cited else ""}><summary><h3>{title}</h3> '
            f'<span class="muted">{_preview(b.event)}</span></summary>{body}</details></li>'
        )

    def _shared(self, old: Event, new: Event) -> str:
        rows = self._new.payloads.rows(payload_of(new))
        return self._old.event(old, rows, f'<i id="n-{new.index}"></i>')

    def _changed(self, a: Step, b: Step) -> tuple[str, str]:
        old, new = self._compared(a.event, b.event)
        if a.result is not None and b.result is not None:
            more_old, more_new = self._compared(a.result, b.result)
            return old + more_old, new + more_new
        if a.result is not None:
            old += self._old.event(a.result, self._old.payloads.rows(payload_of(a.result)))
        if b.result is not None:
            new += self._new.event(b.result, self._new.payloads.rows(payload_of(b.result)))
        return old, new

    def _compared(self, a: Event, b: Event) -> tuple[str, str]:
        old, new = self._old, self._new
        rows_a, rows_b = compared_rows(payload_of(a), payload_of(b), old.payloads, new.payloads)
        return old.event(a, rows_a), new.event(b, rows_b)


_STATES = {state: status_html(label) for state, label in STATES.items()}


def _result_kind(status: Label) -> str:
    return f"<b>result</b> {status_html(status)}"


_RESULTS = {status: _result_kind(label) for status, label in TOOL_STATUSES.items()}


def _call(event: ToolCall) -> str:
    name = event.call_id
    if name is None:
        return f"<b>call</b> <small>event {event.index}"
    return f"<b>call</b> <small>event {event.index}, {NAMES[name]}"


def _result(event: ToolResult) -> str:
    kind = _RESULTS.get(event.status) or _result_kind(Label(event.status, "?", "warn"))
    name, took = event.call_id, event.latency_ms
    place = event.index if name is None else f"{event.index}, {NAMES[name]}"
    if took is not None and 0 <= took < _LATEST:
        lasted = took if type(took) is int else round(took)
        return f"{kind} <small>event {place}, took {lasted} ms"
    return f"{kind} <small>event {place}"


def _other(event: Event) -> str:
    return f"<b>{_NAMED[type(event)][0]}</b> <small>event {event.index}"


_HEADS: dict[type, Callable[[Any], str]] = {
    ToolCall: _call,
    ToolResult: _result,
    Retrieval: _other,
    Message: _other,
    FinalOutput: _other,
    Unknown: _other,
}
_NAMED: dict[type, tuple[str, Callable[[Any], str | None]]] = {
    ToolCall: ("call", lambda event: event.tool or "(no name)"),
    ToolResult: ("result", lambda event: event.tool),
    Retrieval: ("retrieval", lambda _: None),
    Message: ("message", lambda event: event.role),
    FinalOutput: ("final output", lambda event: event.content_type),
    Unknown: ("unknown event", lambda event: event.type),
}


def _title(event: Event) -> str:
    kind, name_of = _NAMED[type(event)]
    name = name_of(event)
    return f"<b>{kind}</b> <code>{NAMES[name]}</code>" if name else f"<b>{kind}</b>"


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
    short = text_html(text[:_PREVIEW].replace("\n", " "))
    return f"{short}…" if len(text) > _PREVIEW else short

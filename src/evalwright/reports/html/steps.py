"""The two traces step by step, as HTML: calls with their results, and what differs."""

from collections.abc import Sequence, Set
from typing import Literal, NamedTuple, TypeAlias

from evalwright.comparison.alignment import AlignedStep
from evalwright.reports.html.fields import PayloadWriter, write_compared
from evalwright.reports.html.markup import (
    NAMES,
    NO_HTML,
    Html,
    KnownNames,
    name_html,
    parts_html,
    short_name,
    shown,
)
from evalwright.reports.html.words import STATES, TOOL_STATUSES, Label, status_html
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

SideLetter: TypeAlias = Literal["b", "n"]  # what the anchors of a side begin with

_PREVIEW = 100
_KNOWN_OPENINGS = 4096
_LATEST = 10**15  # of a time that can be right; more is shown in the response only
_NOT_IN_BASELINE = Html('<p class="none">not in the baseline</p>')
_NOT_IN_NEW = Html('<p class="none">not in the new run</p>')
_END = (Html("</dl></div>"), "")  # of an event
_PAIR = Html('<div class="pair"><div class="old">')
_BESIDE = (Html('</div><div class="new">'), "")
_END_OF_PAIR = (Html("</div></div></li>\n"), "")
_END_OF_PREVIEW = Html("</span></summary>")
_END_OF_SAME = (Html("</details></li>\n"), "")


class SideWriter(PayloadWriter):
    """Writes the events of one side; `letter` begins its anchors."""

    def __init__(self, letter: SideLetter, trace: Trace, events: int, href: str) -> None:
        super().__init__(events, href)
        self._letter = letter
        self._start = next((event.ts for event in trace.events if event.ts is not None), 0)

    def step(self, step: Step | None, otherwise: Html) -> None:
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

    def head(self, event: Event, twin: int | None = None) -> Json:
        """Write all of an event but its rows and its end; give what it carries.

        `twin` is the index of the same event in the new run, where both are shown as one.
        """
        name, lasted = None, NO_HTML
        place: int | None
        if type(event) is ToolCall:
            kind, place, ts = _CALL, event.index, event.ts
            name, payload = event.call_id, event.args
        elif type(event) is ToolResult:
            kind, place, ts = _RESULTS[event.status], event.index, event.ts
            name, payload = event.call_id, payload_of(event)
            took = event.latency_ms
            if took is not None and 0 <= took < _LATEST:
                lasted = Html(f", took {round(took)} ms")
        else:
            kind, place, ts = _KINDS[type(event)], event.index, event.ts
            payload = payload_of(event)
        since = _LATEST if ts is None else ts - self._start
        if -_LATEST < since < _LATEST:
            end = Html(f"{lasted}, {since:+.0f} ms</small><dl>")
        else:
            end = Html(f"{lasted}</small><dl>")
        key = self._letter, place, kind, name is None, twin
        opening = _OPENINGS.get(key) or _opening(*key)
        if name is None:
            self.parts += (Html(f"{opening}{end}"), "")
        else:
            self.parts += (opening, short_name(name), end, "")
        return payload


# How events begin: places and kinds are few, so nearly every one was written before.
_OPENINGS: dict[tuple[SideLetter, int | None, Html, bool, int | None], Html] = {}


def _opening(
    letter: SideLetter,
    place: int | None,
    kind: Html,
    nameless: bool,  # noqa: FBT001 - part of a key
    twin: int | None,
) -> Html:
    anchor = NO_HTML if twin is None else Html(f'<i id="n-{twin}"></i>')
    end = NO_HTML if nameless else Html(", ")
    html = Html(f'<div id="{letter}-{place}">{anchor}<p>{kind} <small>event {place}{end}')
    if len(_OPENINGS) < _KNOWN_OPENINGS:
        _OPENINGS[letter, place, kind, nameless, twin] = html
    return html


class StepWriter(NamedTuple):
    """Writes aligned steps; unchanged ones are folded unless they are in `cited`.

    The baseline's writer holds the page, the other one what comes beside the last step.
    """

    old: SideWriter
    new: SideWriter
    cited: Set[str] = frozenset()

    def html(self, steps: Sequence[AlignedStep]) -> Html:
        """The items of the list, numbered from 1."""
        for number, step in enumerate(steps, 1):
            a, b = step.baseline, step.new
            if a is not None and b is not None and step.state == "same":
                self._same(number, a, b)
            else:
                self._pair(number, step)
        return parts_html(self.old.parts)

    def _pair(self, number: int, step: AlignedStep) -> None:
        """A step with its sides beside each other."""
        a, b, state = step.baseline, step.new, step.state
        page, beside = self.old.parts, self.new.parts
        title = _title((b or a).event)  # type: ignore[union-attr]
        page += (Html(f'<li class="{state}"><h3>{number} {_STATES[state]} {title}</h3>{_PAIR}'), "")
        if a is not None and b is not None:
            self._changed(a, b)
        else:
            self.old.step(a, _NOT_IN_BASELINE)
            self.new.step(b, _NOT_IN_NEW)
        page += _BESIDE
        page += beside
        page += _END_OF_PAIR
        beside.clear()

    def _same(self, number: int, a: Step, b: Step) -> None:
        """An unchanged step is written once, with the anchors of both sides."""
        opened = Html(" open" if self.cited and self._is_cited(a, b) else "")
        title = Html(f"<h3>{number} {_STATES['same']} {_title(b.event)}</h3>")
        text = shown(payload_of(b.event))
        preview = text[:_PREVIEW].replace("\n", " ")
        page = self.old.parts
        page += (
            Html(f'<li class="same"><details{opened}><summary>{title} <span class="muted">'),
            f"{preview}…" if len(text) > _PREVIEW else preview,
            _END_OF_PREVIEW,
            "",
        )
        self._shared(a.event, b.event)
        if a.result is not None and b.result is not None:
            self._shared(a.result, b.result)
        page += _END_OF_SAME

    def _is_cited(self, a: Step, b: Step) -> bool:
        events = (("b", a.event), ("b", a.result), ("n", b.event), ("n", b.result))
        places = [f"{letter}-{event.index}" for letter, event in events if event is not None]
        return not self.cited.isdisjoint(places)

    def _shared(self, old: Event, new: Event) -> None:
        """Write two events as one."""
        page, rows = self.old.parts, self.new.parts
        self.old.head(old, new.index)
        self.new.rows(payload_of(new))
        page += rows
        page += _END
        rows.clear()

    def _changed(self, a: Step, b: Step) -> None:
        old, new = self.old, self.new
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


def _result(status: str) -> Html:
    label = TOOL_STATUSES.get(status) or Label(status, Html("?"), "warn")
    return Html(f"<b>result</b> {status_html(label)}")


def _call(tool: str) -> Html:
    return Html(f"{_CALL} <code>{name_html(tool or '(no name)')}</code>")


_CALL = Html("<b>call</b>")
_CALLS, _RESULTS = KnownNames(_call), KnownNames(_result)
_KINDS: dict[type, Html] = {
    ToolResult: Html("<b>result</b>"),
    Retrieval: Html("<b>retrieval</b>"),
    Message: Html("<b>message</b>"),
    FinalOutput: Html("<b>final output</b>"),
    Unknown: Html("<b>unknown event</b>"),
}


def _title(event: Event) -> Html:
    """The kind of an event, and the name that it goes by."""
    if type(event) is ToolCall:
        return _CALLS[event.tool]
    name: str | None = None
    if type(event) is ToolResult:
        name = event.tool
    elif type(event) is Message:
        name = event.role
    elif type(event) is FinalOutput:
        name = event.content_type
    elif type(event) is Unknown:
        name = event.type
    kind = _KINDS[type(event)]
    return Html(f"{kind} <code>{NAMES[name]}</code>") if name else kind


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

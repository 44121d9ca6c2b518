"""The two traces of a case step by step, as HTML: calls with their results, and what differs."""

from collections.abc import Iterable, Sequence, Set
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeAlias

from evalwright.comparison.alignment import AlignedStep
from evalwright.reports.formats.html import (
    NAMES,
    NO_HTML,
    Html,
    KnownNames,
    Parts,
    as_json,
    display_text,
    equal,
    link_html,
    name_html,
    parts_html,
    short_name,
    shown,
)
from evalwright.reports.formats.word_diff import Segment, agreeing, mark_differences
from evalwright.reports.formats.words import STATES, TOOL_STATUSES, Label, status_html
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
from evalwright.trace.paired_calls import Step

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
_MARK, _END_OF_MARK = Html("<mark>"), Html("</mark>")


class SideWriter:
    """Writes the events of one side; `letter` begins its anchors.

    What it leaves out is in the file at `href`.
    """

    def __init__(self, letter: SideLetter, trace: Trace, events: int, href: str) -> None:
        self.parts = Parts()
        # Less where events are very many, so that a browser can open the page.
        self.characters, self.fields = (
            (1_500, 40) if events <= 400 else (300, 12) if events <= 4_000 else (80, 4)
        )
        self._href = href
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

    def rows(self, value: Any) -> None:
        """Write the rows of a payload that is not compared."""
        if type(value) is not dict or not value:
            self.row(_SAME[""], shown(value))
            return
        for key, each in islice(value.items(), self.fields):
            self.row(_SAME[key], shown(each))
        self.rest(len(value), self.fields)

    def row(self, opening: Html, text: str) -> None:
        """Write one field and its text."""
        if len(text) <= self.characters:
            self.parts += (opening, text)
        else:
            self.parts += (opening, text[: self.characters], self._cut(text), "")

    def marked_row(self, opening: Html, segments: Iterable[Segment], text: str, start: int) -> None:
        """Write a field with the words marked that differ; `start` is where they begin in it."""
        self.parts += (opening, "")
        for differs, words in segments:
            self.parts += (_MARK, words, _END_OF_MARK, "") if differs else (NO_HTML, words)
        if start or len(text) > self.characters:
            self.parts += (self._cut(text, start), "")

    def _cut(self, text: str, start: int = 0) -> Html:
        """The remark that a text was shortened."""
        shown = min(self.characters, len(text) - start)
        place = Html(f", from {start:,} on" if start else "")
        size = Html(f"{shown:,} of {len(text):,} characters{place}")
        return Html(f" {self._remark(size)}")

    def rest(self, fields: int, written: int) -> None:
        """Remark that fields were left out, where some were."""
        if written < fields:
            size = Html(f"{written} of {fields:,} fields")
            self.parts += (Html(f"<dd>{self._remark(size)}"), "")

    def _remark(self, size: Html) -> Html:
        full = Html(f"; full: {link_html(self._href)}" if self._href else "")
        return Html(f'<small class="cut">[shortened, {size}{full}]</small>')


def _openings(mark: Html) -> KnownNames:
    """The beginnings of rows with a mark, by their keys."""

    def opening(key: str) -> Html:
        return Html(f"<dt>{name_html(key)}<dd{mark}>" if key else f"<dt hidden>value<dd{mark}>")

    return KnownNames(opening)


_SAME = _openings(NO_HTML)
_PARTLY = _openings(Html(' class="x"'))  # some words are marked
_WHOLLY = _openings(Html(' class="x w"'))


def write_compared(a: Any, b: Any, old: SideWriter, new: SideWriter) -> None:
    """Write the rows of two payloads with their differences marked; fields of both come first.

    All fields of a page pass here, so what is usual is written in place.
    """
    if type(a) is not dict or type(b) is not dict:
        if type(a) is dict or type(b) is dict:
            old.row(_WHOLLY[""], shown(a))
            new.row(_WHOLLY[""], shown(b))
        else:
            write_compared({"": a}, {"": b}, old, new)
        return
    shared, old_parts, new_parts = 0, old.parts, new.parts
    for key, value in islice(a.items(), old.fields):
        if key not in b:
            old.row(_WHOLLY[key], shown(value))
            continue
        shared += 1
        text_a, text_b = value, b[key]
        if type(text_a) is not str or type(text_b) is not str or not text_a or not text_b:
            text_a, text_b = _texts(text_a, text_b)
        # Texts of containers may differ in the order of keys alone.
        same = text_a == text_b or (
            (type(value) is dict or type(value) is list) and equal(value, b[key])
        )
        if not same and (
            (text_a[0] == text_b[0] and text_a[:4] == text_b[:4])
            or (text_a[-1] == text_b[-1] and text_a[-4:] == text_b[-4:])
        ):  # else the search for what is common is spared; the first look is the quickest
            # Write two texts with the words marked that differ, where they have enough in
            # common
            start = _window(text_a, text_b, old.characters)
            end = start + old.characters
            marked = mark_differences(
                display_text(text_a[start:end]), display_text(text_b[start:end])
            )
            if marked is None:
                old.row(_WHOLLY[key], text_a)
                new.row(_WHOLLY[key], text_b)
            else:
                old.marked_row(_PARTLY[key], marked[0], text_a, start)
                new.marked_row(_PARTLY[key], marked[1], text_b, start)
            continue
        opening = _SAME[key] if same else _WHOLLY[key]
        if len(text_a) + len(text_b) > old.characters:
            old.row(opening, text_a)
            new.row(opening, text_b)
        else:
            old_parts += (opening, text_a)
            new_parts += (opening, text_b)
    if not shared == len(a) == len(b):
        _write_rest(a, b, shared, old, new)


def _write_rest(
    a: dict[str, Any], b: dict[str, Any], shared: int, old: SideWriter, new: SideWriter
) -> None:
    """Write the fields that only the second payload has, and how many were left out."""
    added = [key for key in b if key not in a][: new.fields - shared]
    for key in added:
        new.row(_WHOLLY[key], shown(b[key]))
    old.rest(len(a), old.fields)
    new.rest(len(b), shared + len(added))


def _texts(a: Any, b: Any) -> tuple[str, str]:
    """Both values as text; where they differ in their type alone, so that it can be seen."""
    text_a = shown(a)
    if a is b:
        return text_a, text_a
    text_b = shown(b)
    if type(a) is not type(b) and text_a == text_b:
        return as_json(a), as_json(b)
    return text_a, text_b


def _window(a: str, b: str, size: int) -> int:
    """Where to begin to show two texts of which only a part is shown: before they part."""
    if len(a) <= size and len(b) <= size:
        return 0
    common = agreeing(a, b)
    return 0 if common < size // 2 else common - size // 4


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
                # An unchanged step is written once, with the anchors of both sides
                opened = Html(" open" if self.cited and self._is_cited(a, b) else "")
                title = Html(f"<h3>{number} {_STATES['same']} {_title(b.event)}</h3>")
                text = shown(payload_of(b.event))
                preview = text[:_PREVIEW].replace("\n", " ")
                page = self.old.parts
                page += (
                    Html(
                        f'<li class="same"><details{opened}><summary>{title} <span class="muted">'
                    ),
                    f"{preview}…" if len(text) > _PREVIEW else preview,
                    _END_OF_PREVIEW,
                    "",
                )
                self._shared(a.event, b.event)
                if a.result is not None and b.result is not None:
                    self._shared(a.result, b.result)
                page += _END_OF_SAME
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
        else:
            self.old.step(a, _NOT_IN_BASELINE)
            self.new.step(b, _NOT_IN_NEW)
        page += _BESIDE
        page += beside
        page += _END_OF_PAIR
        beside.clear()

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

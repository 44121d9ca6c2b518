"""The two traces of a case step by step, as HTML: calls with their results, and what differs."""

from collections.abc import Iterable, Sequence, Set
from functools import lru_cache
from itertools import islice
from typing import Any, Literal, TypeAlias

from evalwright.comparison.alignment import AlignedStep
from evalwright.reports.formats.html import (
    LONGEST_NAME,
    NO_HTML,
    Html,
    as_json,
    content_html,
    display_text,
    equal,
    link_html,
    name_html,
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
_LATEST = 10**15  # of a time that can be right; more is shown in the response only
_END = Html("</dl></div>")  # of an event
_NOT_IN_BASELINE = Html('<p class="none">not in the baseline</p>')
_NOT_IN_NEW = Html('<p class="none">not in the new run</p>')
_PARTLY = Html(' class="x"')  # some words are marked
_WHOLLY = Html(' class="x w"')
_STATES = {state: status_html(label) for state, label in STATES.items()}
_CALL = Html("<b>call</b>")
_KINDS: dict[type, Html] = {
    ToolResult: Html("<b>result</b>"),
    Retrieval: Html("<b>retrieval</b>"),
    Message: Html("<b>message</b>"),
    FinalOutput: Html("<b>final output</b>"),
    Unknown: Html("<b>unknown event</b>"),
}


class SideWriter:
    """Writes the events of one side; `letter` begins its anchors.

    What it leaves out is in the file at `href`.
    """

    def __init__(self, letter: SideLetter, trace: Trace, events: int, href: str) -> None:
        # Less where events are very many, so that a browser can open the page.
        self.characters, self.fields = (
            (1_500, 40) if events <= 400 else (300, 12) if events <= 4_000 else (80, 4)
        )
        self._href = href
        self._letter = letter
        self._start = next((event.ts for event in trace.events if event.ts is not None), 0)

    def step(self, step: Step) -> Html:
        events = (step.event,) if step.result is None else (step.event, step.result)
        return Html("".join([self.event(each) for each in events]))

    def event(self, event: Event) -> Html:
        return Html(f"{self.head(event)}{self.rows(payload_of(event))}{_END}")

    def head(self, event: Event, twin: int | None = None) -> Html:
        """The beginning of an event, up to its rows.

        `twin` is the index of the same event in the new run, where both are shown as one.
        """
        name, lasted = None, NO_HTML
        place: int | None = event.index
        if type(event) is ToolCall:
            kind, name = _CALL, event.call_id
        elif type(event) is ToolResult:
            kind, name = _result(short_name(event.status)), event.call_id
            took = event.latency_ms
            if took is not None and 0 <= took < _LATEST:
                lasted = Html(f", took {round(took)} ms")
        else:
            kind = _KINDS[type(event)]
        called = NO_HTML if name is None else Html(", " + content_html(short_name(name)))
        since = _LATEST if event.ts is None else event.ts - self._start
        at = Html(f", {since:+.0f} ms") if -_LATEST < since < _LATEST else NO_HTML
        anchor = NO_HTML if twin is None else Html(f'<i id="n-{twin}"></i>')
        return Html(
            f'<div id="{self._letter}-{place}">{anchor}<p>{kind} <small>event {place}'
            f"{called}{lasted}{at}</small><dl>"
        )

    def rows(self, value: Any) -> Html:
        """The rows of a payload that is not compared."""
        if type(value) is not dict or not value:
            return self.row(NO_HTML, "", shown(value))
        rows = [self.row(NO_HTML, key, shown(each)) for key, each in _first(value, self.fields)]
        return Html("".join(rows) + self.rest(len(value), self.fields))

    def row(self, mark: Html, key: str, text: str) -> Html:
        """One field and its text; nearly all of a page is written here."""
        opening = _opening(key if len(key) <= LONGEST_NAME else short_name(key), mark)
        if len(text) > self.characters:
            shown = content_html(text[: self.characters])
            return Html(f"{opening}{shown}{self._cut(text)}")
        return Html(opening + content_html(text))

    def marked_row(self, key: str, segments: Iterable[Segment], text: str, start: int) -> Html:
        """A field with the words marked that differ; `start` is where they begin in it."""
        pieces = [
            Html(f"<mark>{content_html(words)}</mark>") if differs else content_html(words)
            for differs, words in segments
        ]
        is_cut = start or len(text) > self.characters
        cut = self._cut(text, start) if is_cut else NO_HTML
        return Html(f"{_opening(short_name(key), _PARTLY)}{Html(''.join(pieces))}{cut}")

    def _cut(self, text: str, start: int = 0) -> Html:
        shown = min(self.characters, len(text) - start)
        place = Html(f", from {start:,} on" if start else "")
        return Html(f" {self._remark(Html(f'{shown:,} of {len(text):,} characters{place}'))}")

    def rest(self, fields: int, written: int) -> Html:
        """The remark that fields were left out, where some were."""
        if written >= fields:
            return NO_HTML
        return Html(f"<dd>{self._remark(Html(f'{written} of {fields:,} fields'))}")

    def _remark(self, size: Html) -> Html:
        full = Html(f"; full: {link_html(self._href)}" if self._href else "")
        return Html(f'<small class="cut">[shortened, {size}{full}]</small>')


def _first(value: dict[str, Any], most: int) -> Iterable[tuple[str, Any]]:
    return value.items() if len(value) <= most else islice(value.items(), most)


@lru_cache(4096)
def _opening(key: str, mark: Html) -> Html:
    """The beginning of a row; a few names come again and again."""
    return Html(f"<dt>{name_html(key)}<dd{mark}>" if key else f"<dt hidden>value<dd{mark}>")


@lru_cache(256)
def _result(status: str) -> Html:
    label = TOOL_STATUSES.get(status) or Label(status, Html("?"), "warn")
    return Html(f"<b>result</b> {status_html(label)}")


def compared_rows(a: Any, b: Any, old: SideWriter, new: SideWriter) -> tuple[Html, Html]:
    """The rows of two payloads with their differences marked; fields of both come first."""
    if type(a) is not dict or type(b) is not dict:
        if type(a) is dict or type(b) is dict:
            return old.row(_WHOLLY, "", shown(a)), new.row(_WHOLLY, "", shown(b))
        a, b = {"": a}, {"": b}
    shared, old_rows, new_rows = 0, list[Html](), list[Html]()
    for key, value in _first(a, old.fields):
        if key not in b:
            old_rows.append(old.row(_WHOLLY, key, shown(value)))
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
            start = _window(text_a, text_b, old.characters)
            end = start + old.characters
            marked = mark_differences(
                display_text(text_a[start:end]), display_text(text_b[start:end])
            )
            if marked is not None:
                old_rows.append(old.marked_row(key, marked[0], text_a, start))
                new_rows.append(new.marked_row(key, marked[1], text_b, start))
                continue
        mark = NO_HTML if same else _WHOLLY
        row = old.row(mark, key, text_a)
        old_rows.append(row)
        is_shared = text_a == text_b and len(text_a) <= new.characters
        new_rows.append(row if is_shared else new.row(mark, key, text_b))
    if not shared == len(a) == len(b):
        added = [key for key in b if key not in a][: new.fields - shared]
        new_rows += [new.row(_WHOLLY, key, shown(b[key])) for key in added]
        old_rows.append(old.rest(len(a), old.fields))
        new_rows.append(new.rest(len(b), shared + len(added)))
    return Html("".join(old_rows)), Html("".join(new_rows))


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


def steps_html(
    steps: Sequence[AlignedStep], old: SideWriter, new: SideWriter, cited: Set[str]
) -> Html:
    """The items of the list, numbered from 1; unchanged ones are folded unless they are cited."""

    def compared(a: Event, b: Event) -> tuple[Html, Html]:
        old_rows, new_rows = compared_rows(payload_of(a), payload_of(b), old, new)
        return Html(f"{old.head(a)}{old_rows}{_END}"), Html(f"{new.head(b)}{new_rows}{_END}")

    items = []
    for number, step in enumerate(steps, 1):
        a, b, state = step.baseline, step.new, step.state
        if a is not None and b is not None and state == "same":
            # Written once, with the anchors of both sides.
            pairs = [(a.event, b.event)]
            if a.result is not None and b.result is not None:
                pairs.append((a.result, b.result))
            places = {f"b-{each.index}" for each, _ in pairs} | {
                f"n-{each.index}" for _, each in pairs
            }
            opened = Html(" open" if cited and not cited.isdisjoint(places) else "")
            text = shown(payload_of(b.event))
            preview = text[:_PREVIEW].replace("\n", " ") + ("…" if len(text) > _PREVIEW else "")
            both = [
                Html(f"{old.head(one, other.index)}{new.rows(payload_of(other))}{_END}")
                for one, other in pairs
            ]
            items.append(
                Html(
                    f'<li class="same"><details{opened}><summary><h3>{number} {_STATES["same"]} '
                    f'{_title(b.event)}</h3> <span class="muted">{content_html(preview)}</span>'
                    f"</summary>{Html(''.join(both))}</details></li>\n"
                )
            )
            continue
        if a is None or b is None:
            left = _NOT_IN_BASELINE if a is None else old.step(a)
            right = _NOT_IN_NEW if b is None else new.step(b)
        else:
            left, right = compared(a.event, b.event)
            if a.result is not None and b.result is not None:
                old_result, new_result = compared(a.result, b.result)
                left, right = Html(left + old_result), Html(right + new_result)
            elif a.result is not None:
                left = Html(left + old.event(a.result))
            elif b.result is not None:
                right = Html(right + new.event(b.result))
        title = _title((b or a).event)  # type: ignore[union-attr]
        items.append(
            Html(
                f'<li class="{state}"><h3>{number} {_STATES[state]} {title}</h3>'
                f'<div class="pair"><div class="old">{left}</div>'
                f'<div class="new">{right}</div></div></li>\n'
            )
        )
    return Html("".join(items))


def _title(event: Event) -> Html:
    """The kind of an event, and the name that it goes by."""
    if type(event) is ToolCall:
        return _named(_CALL, short_name(event.tool or "(no name)"))
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
    return _named(kind, short_name(name)) if name else kind


@lru_cache(4096)
def _named(kind: Html, name: str) -> Html:
    return Html(f"{kind} <code>{name_html(name)}</code>")


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

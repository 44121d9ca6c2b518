"""The trace of a task: its steps as a timeline, or as a tree with a waterfall; a part at a time."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec
from msgspec import UNSET
from starlette.responses import Response

from evalwright.contracts import amounts
from evalwright.contracts.events import (
    Checked,
    Decided,
    EvalScored,
    Event,
    Found,
    InvocationStarted,
    Judged,
    ProviderUsage,
    Reasoned,
    ToolCalled,
    ToolReturned,
)
from evalwright.contracts.suite import Task
from evalwright.host.http.errors import ApiError
from evalwright.host.web.filters import number_of
from evalwright.host.web.page import PageCall, href_html, page, part, task_address
from evalwright.host.web.pages.run_tasks import DAMAGED, result_html, shown_task
from evalwright.host.web.run_views import RunView, scored_at, views_of
from evalwright.reports.formats.html import (
    NO_HTML,
    Html,
    as_markup,
    name_html,
    shortened,
    shown,
    text_html,
)
from evalwright.reports.formats.words import TOOL_STATUSES, Label, badge_html
from evalwright.reports.run.page_tasks import BADGES, status_of
from evalwright.reports.run.task_records import mask_event
from evalwright.reports.run.timeline import StepKind, TaskTimeline, TraceStep

AT_ONCE = {"timeline": 80, "waterfall": 120}  # steps
SHORT = 300  # characters of a payload that is shown at once
FIRST = 140  # characters of a longer one
LONG = 200_000  # characters of one that was opened
DEEPEST = 6

_WORDS: dict[StepKind, str] = {
    "invocation": "invokes",
    "model": "model",
    "call": "calls",
    "result": "result",
    "reasoning": "reasons",
    "answer": "answers",
    "judge": "judge",
    "finding": "finding",
    "check": "checks",
    "score": "score",
    "event": "event",
}
_ERROR = badge_html(TOOL_STATUSES["error"])
_FAILED = badge_html(Label("Failed", TOOL_STATUSES["error"].sign, "bad"))


class StepsAsked(NamedTuple):
    """Which steps are to be shown, and how; what is not known counts as not given."""

    view: str
    first: int
    until: int | None  # the place behind the last, where others are shown already
    step: int | None  # the sequence of one that is to be among them

    @classmethod
    def of(cls, call: PageCall) -> "StepsAsked":
        view = call.asked("view") if call.asked("view") in AT_ONCE else "timeline"
        first, until, step = (number_of(call.asked(name)) for name in ("from", "to", "step"))
        return cls(
            view,
            max(0, int(first or 0)),
            None if until is None else int(until),
            None if step is None else int(step),
        )


async def show(call: PageCall) -> Response:
    """The page, or only a part of its steps."""
    views, asked, task_id = views_of(call.host), StepsAsked.of(call), call.path["taskId"]
    if call.asked("beside"):
        whole = await views.of(call.run)
        found = await call.in_reader(lambda: _around(whole, whole.task(task_id).task_id))
        return part(call, "trace_around.html", **found)
    is_patient = bool(call.asked("wait"))
    view = await (views.of(call.run) if is_patient else views.for_task(call.run, task_id))
    task = await call.in_reader(partial(view.task, task_id))
    timeline = await views.timeline(view, task)
    steps = await call.in_reader(partial(_part, view, task, timeline, asked))
    if call.is_part:
        return part(call, "trace_steps.html", **steps)
    told = await call.in_reader(partial(_told, view, task))
    called = view.names.of(task.task_id)
    address = task_address(view.run.run_id, called.name)
    return page(
        call,
        "trace.html",
        title=f"Trace of {called.name}",
        run_id=view.run.run_id,
        task_id=task.task_id,
        called=called._asdict(),
        asked=called.subtitle,
        tiles=_tiles(timeline),
        here_around=f"{address}?beside=1",
        **(_around(view, task.task_id) if view.is_whole else {"around": None}),
        views=[
            (words, _shown_as(address, name), name == asked.view)
            for name, words in (("timeline", "Timeline"), ("waterfall", "Tree and waterfall"))
        ],
        view=asked.view,
        **told,
        **steps,
    )


async def payload(call: PageCall) -> Response:
    """What one step holds, in full."""
    views = views_of(call.host)
    view = await views.for_task(call.run, call.path["taskId"])
    task = await call.in_reader(partial(view.task, call.path["taskId"]))
    timeline = await views.timeline(view, task)
    wanted = call.path["step"]
    step = next((each for each in timeline.steps if str(each.sequence) == wanted), None)
    if step is None:
        raise ApiError(404, "not_found", "the trace has no such step")

    def read() -> Html:
        return _payload_html(step, _events_of(view, [step]), LONG)

    return Response(await call.in_reader(read), media_type="text/html")


def _told(view: RunView, task: Task) -> dict[str, Any]:
    place = scored_at(view.run.log, view.run.run_id, task.task_id)
    try:
        read, events = shown_task(view, task, place)
        result = result_html(view, task, read, events)
    except msgspec.MsgspecError:
        return {"badge": "", "score": "", "is_open": True, "result": as_markup(DAMAGED)}
    status, score = status_of(read.record), read.record.score
    told = "" if score is None else f"score {amounts.score(score)}"
    return {
        "badge": as_markup(BADGES[status]),
        "score": " · ".join(filter(None, (told, read.record.checks_on_pages))),
        "is_open": status != "passed",
        "result": as_markup(result),
    }


def _tiles(timeline: TaskTimeline) -> list[tuple[str, str]]:
    tiles = [
        ("Steps", f"{len(timeline.steps):,}"),
        ("Time", amounts.span(timeline.took_us / 1000)),
    ]
    if timeline.input_tokens or timeline.output_tokens:
        cost = timeline.cost_usd
        tiles += [
            ("Tokens in", f"{timeline.input_tokens:,}"),
            ("Tokens out", f"{timeline.output_tokens:,}"),
            ("Cost", "unknown" if cost is None else amounts.dollars(cost)),
        ]
    return tiles


def _around(view: RunView, task_id: str) -> dict[str, Any]:
    """The tasks beside this one, by the keys that lead to them."""
    found = view.tasks.around(task_id)
    if found is None:
        raise ApiError(404, "not_found", "the run has no such task")
    known = (("k", "« Previous", found.previous), ("j", "Next »", found.next))
    links = [(key, words, name) for key, words, name in known if name]
    if found.next_failure:
        links.append(("f", "Next failure", found.next_failure))
    run_id = view.run.run_id
    around = {
        "place": found.place,
        "links": [
            (key, words, task_address(run_id, view.names.name_of(name)))
            for key, words, name in links
        ],
    }
    return {"around": around, "of": len(view.tasks.rows)}


def _shown_as(address: str, view: str, first: int = 0, until: int | None = None) -> str:
    asked = {"view": view, **({"from": str(first)} if first else {})}
    if until is not None:
        asked["to"] = str(until)
    return f"{address}?{urlencode(asked)}"


def _part(view: RunView, task: Task, timeline: TaskTimeline, asked: StepsAsked) -> dict[str, Any]:
    """Some of the steps, and where the others are."""
    size, first, count = AT_ONCE[asked.view], asked.first, len(timeline.steps)
    if asked.step is not None:  # the part that holds it
        with_it = (
            place
            for place, each in enumerate(timeline.steps)
            if asked.step in (each.sequence, each.answered)
        )
        first = next(with_it, 0) // size * size
    end = count if asked.until is None else max(0, min(asked.until, count))
    steps = timeline.steps[first : min(first + size, end)]
    address = task_address(view.run.run_id, view.names.name_of(task.task_id))
    if asked.view == "timeline":
        events = _events_of(view, steps)
        lines = [_step_html(step, timeline, events, address) for step in steps]
    else:
        lines = [
            _bar_html(step, place, timeline, address) for place, step in enumerate(steps, first)
        ]
    before = max(0, first - size)
    return {
        "steps": as_markup(Html("\n".join(lines))),
        "rest": end - first - len(steps),
        "next": first + size,
        "more": _shown_as(address, asked.view, first + size, asked.until),
        "earlier": _shown_as(address, asked.view, before) if first else "",
    }


def _events_of(view: RunView, steps: Sequence[TraceStep]) -> Mapping[int, Event]:
    """The events of some steps by their sequence, as they may be shown."""
    wanted = {each.sequence for each in steps} | {each.answered for each in steps}
    places = [place for place in wanted if place is not None]
    if not places:
        return {}
    first, last = min(places), max(places)
    read = view.run.log.read(view.run.run_id, (), first - 1, last - first + 1)
    return {event.sequence: mask_event(event) for event in read if event.sequence in wanted}


# A step of the timeline.


def _step_html(
    step: TraceStep, timeline: TaskTimeline, events: Mapping[int, Event], address: str
) -> Html:
    body, shown = _payload_html(step, events, SHORT), NO_HTML
    if body:
        text = "\n".join(part for _, part in _parts(step, events))
        is_short = len(text) <= SHORT
        href = href_html(f"{address}/steps/{step.sequence}")
        if step.kind == "reasoning" and is_short:
            shown = Html(f"<details><summary>Show</summary>{body}</details>")
        elif is_short:
            shown = body
        else:
            if step.kind == "reasoning":  # it stays folded
                first = f"{len(text):,} characters"
            else:
                line = " ".join(text[: 4 * FIRST].split())[:FIRST]
                first = f"{line}… ({len(text):,} characters)"
            shown = Html(
                f'<details hx-get="{href}" hx-trigger="toggle once" hx-target="find .payload"'
                f' hx-swap="innerHTML"><summary>{text_html(first)}</summary>'
                '<div class="payload"></div>'
                f'<noscript><a href="{href}">Show all of it</a></noscript></details>'
            )
    return Html(f"{_opening(step)}>{_head(step, timeline, address)}{shown}</li>")


def _opening(step: TraceStep) -> Html:
    depth = min(step.depth, DEEPEST)
    return Html(f'<li data-step class="step d{depth} is-{step.kind}" id="s{step.sequence}"')


def _head(step: TraceStep, timeline: TaskTimeline, address: str, fold: Html = NO_HTML) -> Html:
    """What a step is, when it was, as the link to it, and what it took."""
    bad = NO_HTML
    if step.is_bad and step.kind != "finding":  # its name says how grave it is; it is no error
        bad = _FAILED if step.kind in ("check", "score") else _ERROR
    name = Html(f" <code>{name_html(_masked_name(step.name))}</code>" if step.name else "")
    facts = [amounts.span(step.took_us / 1000)] if step.took_us else []
    if step.kind == "model":
        facts.append(f"{step.input_tokens:,} tokens in, {step.output_tokens:,} out")
        facts.append("cost unknown" if step.cost_usd is None else amounts.dollars(step.cost_usd))
    since = amounts.span((step.at_us - timeline.started_us) / 1000)
    return Html(
        f'<div class="row">{fold}<b>{text_html(_WORDS[step.kind])}</b>{name} {bad} '
        f'<a class="when" href="{href_html(f"{address}#s{step.sequence}")}"'
        f' title="Link to this step">{text_html(f"+{since}")}</a>'
        f' <span class="muted">{text_html(" · ".join(facts))}</span></div>'
    )


@lru_cache(maxsize=1024)
def _masked_name(name: str) -> str:
    """A name as it may be shown: agents choose those of tools, and can put a secret into one."""
    from evalwright.signals.masking import mask_text  # with every detector of secrets

    return mask_text(name, personal=False)


def _payload_html(step: TraceStep, events: Mapping[int, Event], limit: int) -> Html:
    """What a step holds: what was sent and what came back, an answer, a thought, a verdict."""
    pieces = [
        Html(f'<h3>{title}</h3><pre tabindex="0">{text_html(shortened(text, limit))}</pre>')
        if title
        else Html(f'<pre tabindex="0">{text_html(shortened(text, limit))}</pre>')
        for title, text in _parts(step, events)
    ]
    return Html("".join(pieces))


def _parts(step: TraceStep, events: Mapping[int, Event]) -> list[tuple[Html, str]]:
    """The texts of a step, each with a title where there are several."""
    found: list[tuple[Html, str]] = []
    event = events.get(step.sequence)
    try:
        if event is not None:
            found += texts_of(event)
        answer = None if step.answered is None else events.get(step.answered)
        if answer is not None:
            found += texts_of(answer)
    except msgspec.MsgspecError:
        found.append((NO_HTML, "(this event cannot be read)"))
    return found


# A step of the tree, with its bar.


def _bar_html(step: TraceStep, place: int, timeline: TaskTimeline, address: str) -> Html:
    left = min(99.5, 100 * timeline.offset(step))
    width = max(0.5, min(100 * timeline.share(step), 100 - left))
    tone = Html("old" if step.is_bad else "new")
    bar = Html(
        '<svg class="fall" width="100%" height="10" aria-hidden="true">'
        f'<rect class="{tone}" x="{left:.2f}%" width="{width:.2f}%" height="10"/></svg>'
    )
    end, fold = timeline.ends[place], NO_HTML  # which folds the steps within it away
    if within := end - place - 1:
        words = text_html("1 step within" if within == 1 else f"{within:,} steps within")
        fold = Html(
            f'<button type="button" class="fold" aria-expanded="true" aria-label="{words}"'
            f' title="{words}" data-until="{end}"></button>'
        )
    head = _head(step, timeline, address, fold)
    return Html(f'{_opening(step)} data-place="{place}">{head}{bar}</li>')


# What the events of a trace say, in a form for readers.


def texts_of(event: Event) -> Iterator[tuple[Html, str]]:
    """The texts of an event, with a title where there may be several."""
    kind = event.type
    if kind == ToolCalled.TYPE:
        inputs = event.decode(ToolCalled).inputs
        if inputs is not UNSET:
            yield Html("Sent"), _readable(inputs)
    elif kind == ToolReturned.TYPE:
        came = event.decode(ToolReturned)
        if came.error is not UNSET:
            yield Html("Failed"), f"{came.error.code}: {came.error.message}"
        if came.outcome is not UNSET:
            yield Html("Came back"), _readable(came.outcome)
    elif kind == Reasoned.TYPE:
        yield NO_HTML, event.decode(Reasoned).reasoning
    elif kind == Decided.TYPE:
        yield NO_HTML, _readable(event.decode(Decided).decision)
    elif kind == Judged.TYPE:
        judged = (
            f"{verdict.question}: {'met' if verdict.met else 'not met'}. {verdict.reason}"
            for verdict in event.decode(Judged).verdicts
        )
        yield NO_HTML, "\n".join(judged)
    elif kind == Checked.TYPE:
        checked = (
            f"{check.check}: {'passed' if check.passed else 'failed'}. {check.reason}".strip()
            for check in event.decode(Checked).checks
        )
        yield NO_HTML, "\n".join(checked)
    elif kind not in _TOLD_BY_STEP:
        yield NO_HTML, _readable(event.payload())


_TOLD_BY_STEP = frozenset((InvocationStarted.TYPE, ProviderUsage.TYPE, Found.TYPE, EvalScored.TYPE))


def _readable(value: Any) -> str:
    """A value as people read it: texts as they are, the rest as indented JSON."""
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    except (msgspec.MsgspecError, RecursionError, TypeError, ValueError):
        return shown(value)

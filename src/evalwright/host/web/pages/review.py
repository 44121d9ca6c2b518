"""The review: a queue, and one task of it at a time with a form that the keyboard is enough for."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from evalwright.contracts.annotation import Annotation, AnnotationTarget, Signal
from evalwright.contracts.events import Decided, Event
from evalwright.contracts.suite import Task
from evalwright.engine.task_names import TaskNames
from evalwright.host.http.errors import ApiError
from evalwright.host.v1.library import publish_annotation
from evalwright.host.web.page import PageCall, in_time, page, part, review_address, see
from evalwright.host.web.pages.export_task import suite_of, test_name
from evalwright.host.web.pages.review_queue import (
    KIND_WORDS,
    MOST_RUNS,
    VERDICTS,
    ReviewItem,
    ReviewQueue,
    TaskKey,
    agreements,
    annotations_of,
    held,
    is_taken,
    lease_change,
    read_queue,
    take,
)
from evalwright.host.web.pages.scorecard import DAMAGED, number_of, result_html, shown_task
from evalwright.host.web.recent_runs import known_suites
from evalwright.host.web.run_views import RunView, scored_at, views_of
from evalwright.reports.formats.html import as_markup
from evalwright.store.records import RecordChange, RecordConflict

AT_ONCE = 25
LONGEST = {"reason": 2048, "answer": 4096}  # as over the API
UNPROCESSABLE = 422
STATE_WORDS = {"open": "to review", "done": "reviewed", "all": "all"}
_VERDICT_WORDS = {True: ("good", "✓ Pass"), False: ("bad", "✗ Fail")}


RunNames: TypeAlias = Mapping[str, TaskNames]  # what the tasks of runs are called, by run


class ReviewAsked(NamedTuple):
    """The filters in an address."""

    run: str = ""
    suite: str = ""
    agent: str = ""
    kind: str = ""
    state: str = ""
    q: str = ""
    page: str = ""

    @classmethod
    def of(cls, call: PageCall) -> "ReviewAsked":
        """Those of a request, or of a form; what is not known counts as not given."""
        asked = cls(*(call.field(name) or call.asked(name) for name in cls._fields))
        return asked._replace(
            kind=asked.kind if asked.kind in KIND_WORDS else "",
            state=asked.state if asked.state in STATE_WORDS else "",
        )

    @property
    def given(self) -> dict[str, str]:
        """Those that are set, but for the page."""
        return {name: value for name, value in self._asdict().items() if value and name != "page"}

    def place_in(self, found: Sequence[ReviewItem]) -> tuple[int, int]:
        """The page of a list that is asked for, and how many there are."""
        pages = max(1, -(-len(found) // AT_ONCE))
        return min(max(1, int(number_of(self.page) or 1)), pages), pages

    def part_of(self, found: Sequence[ReviewItem]) -> Sequence[ReviewItem]:
        """The items on that page."""
        number, _ = self.place_in(found)
        return found[(number - 1) * AT_ONCE : number * AT_ONCE]

    def address(self, number: int = 1) -> str:
        """The address of a page of the same list."""
        given = self.given | ({"page": str(number)} if number > 1 else {})
        return f"/review?{urlencode(given)}" if given else "/review"

    def item_address(self, run_id: str, name: str) -> str:
        """The address of a task within the same list."""
        given = {name: value for name, value in self.given.items() if name != "state"}
        query = f"?{urlencode(given)}" if given else ""
        return f"{review_address(run_id, name)}{query}"

    def takes(self, queue: ReviewQueue, item: ReviewItem, names: RunNames) -> bool:
        """Whether the list has a task; `names` are needed where one is searched for."""
        state = self.state or "open"
        if state != "all" and (item.key in queue.said) != (state == "done"):
            return False
        if self.kind and self.kind not in item.kinds:
            return False
        if not self.q:
            return True
        called = names[item.run.facts.run_id].of(item.row.task_id)
        wanted = self.q.casefold()
        return any(wanted in each.casefold() for each in (item.row.task_id, *called.told))

    async def read(self, call: PageCall) -> ReviewQueue:
        """The queue that it is about."""
        return await read_queue(call, run=self.run, suite=self.suite, agent=self.agent)

    async def found(
        self, call: PageCall, queue: ReviewQueue
    ) -> tuple[Sequence[ReviewItem], RunNames]:
        """The items that the list has, and what is known of their names."""
        names = await _names(call, queue.items) if self.q else {}
        items = await call.in_reader(
            lambda: [item for item in queue.items if self.takes(queue, item, names)]
        )
        return items, names


# The queue.


async def show(call: PageCall) -> Response:
    """The queue, or only its list when the filters change."""
    asked = ReviewAsked.of(call)
    values = await in_time(call, _read(call, asked))
    if call.is_part:
        return part(call, "review_list.html", **(values or {}))
    return page(
        call,
        "review.html",
        title="Review",
        suites=await known_suites(call),
        kind_words=list(KIND_WORDS.items()),
        states=list(STATE_WORDS.items()),
        **(values or {"asked": asked._asdict(), "rows": None}),
    )


async def _read(call: PageCall, asked: ReviewAsked) -> dict[str, Any]:
    queue = await asked.read(call)
    found, names = await asked.found(call, queue)
    names = names or await _names(call, asked.part_of(found))
    return await call.in_reader(lambda: _listed(call, asked, queue, found, names))


async def _names(call: PageCall, items: Sequence[ReviewItem]) -> RunNames:
    """What the tasks of all their runs are called."""
    runs = dict.fromkeys(item.run.facts.run_id for item in items)
    views = views_of(call.host)
    return {run_id: await views.names(call.run_with(run_id)) for run_id in runs}


def _listed(
    call: PageCall,
    asked: ReviewAsked,
    queue: ReviewQueue,
    found: Sequence[ReviewItem],
    names: RunNames,
) -> dict[str, Any]:
    number, pages = asked.place_in(found)
    free = [item for item in found if not is_taken(call, queue.leases.get(item.key))]
    return {
        "asked": asked._asdict(),
        "hidden": list(asked.given.items()),
        "rows": [
            _row(call, asked, queue, item, names[item.run.facts.run_id])
            for item in asked.part_of(found)
        ],
        "total": len(found),
        "free": len([item for item in free if item.key not in queue.said]),
        "reviewed": sum(item.key in queue.said for item in queue.items),
        "of": len(queue.items),
        "number": number,
        "last_page": pages,
        "before": asked.address(number - 1) if number > 1 else "",
        "after": asked.address(number + 1) if number < pages else "",
        "agreements": [(words, str(each)) for words, each in agreements(queue)],
        "runs": len(queue.recent.runs),
        "most_runs": MOST_RUNS,
        "left_out": queue.recent.left_out,
        "unread": queue.unread,
    }


def _row(
    call: PageCall,
    asked: ReviewAsked,
    queue: ReviewQueue,
    item: ReviewItem,
    names: TaskNames,
) -> dict[str, Any]:
    said, called = queue.said.get(item.key), names.of(item.row.task_id)
    return {
        "called": called.name,
        "title": called.beside,
        "address": asked.item_address(item.run.facts.run_id, called.name),
        "run_id": item.run.facts.run_id,
        "suite": item.run.facts.suite,
        "agent": call.host.figures.agent_of(call.log, item.run.facts),
        "started_us": item.run.facts.started_us,
        "kinds": [KIND_WORDS[kind] for kind in item.kinds],
        "passed": item.row.passed,
        "why": item.why,
        "said": None if said is None else _told(said.annotation, passed=said.passed),
        "is_taken": is_taken(call, queue.leases.get(item.key)),
    }


def _told(annotation: Annotation, *, passed: bool | None) -> dict[str, Any]:
    signal = annotation.signal
    text = signal.correction if passed is None else None
    if passed is None and text is None:
        text = signal.label or (f"rating {signal.rating}" if signal.rating else "flagged")
    return {
        "verdict": None if passed is None else _VERDICT_WORDS[passed],
        "text": text or "",
        "note": annotation.note or "",
        "by": annotation.actor.principal_ref,
        "at_us": int(datetime.fromisoformat(annotation.created_at).timestamp() * 1_000_000),
    }


async def go_on(call: PageCall) -> Response:
    """Take the next task that nobody has; `after` is one that was passed over."""
    asked = ReviewAsked.of(call)
    await _release(call)
    return see(await _next(call, asked, (call.field("after_run"), call.field("after_task"))))


async def _next(call: PageCall, asked: ReviewAsked, after: TaskKey) -> str:
    wanted = asked._replace(state="open")
    queue = await wanted.read(call)
    found, _ = await wanted.found(call, queue)
    keys = [item.key for item in found]
    all_keys = [item.key for item in queue.items]
    place = all_keys.index(after) if after in all_keys else -1
    later = set(all_keys[place + 1 :])
    for key in [*(key for key in keys if key in later), *(key for key in keys if key not in later)]:
        if key != after and not is_taken(call, queue.leases.get(key)) and await take(call, key):
            names = await views_of(call.host).names(call.run_with(key[0]))
            return wanted.item_address(key[0], names.name_of(key[1]))
    return asked._replace(state="").address()


async def _release(call: PageCall) -> None:
    """Let others have the task that was passed over."""
    key = call.field("after_run"), call.field("after_task")
    known, lease = await held(call, key)
    if lease is not None and not is_taken(call, lease):
        await _write(call, [lease_change(call, key, None, known)])


async def _write(call: PageCall, changes: Sequence[RecordChange]) -> None:
    try:
        await asyncio.wrap_future(call.host.records.write(changes))
    except RecordConflict:  # it has run out, and somebody has it now
        return


# One task.


async def item(call: PageCall) -> Response:
    """A task with what is known of it, and the form of whoever has it."""
    call.weight = (await views_of(call.host).facts(call.run)).events
    found = await in_time(call, _item_told(call, {}, {}))
    if call.is_part and found:
        return part(call, "review_task.html", **found)
    return _item_page(call, found or {"called": call.path["taskId"], "result": None})


async def take_item(call: PageCall) -> Response:
    """Take one task, by its address."""
    view = await views_of(call.host).for_task(call.run, call.path["taskId"])
    key = view.run.run_id, view.task(call.path["taskId"]).task_id
    if not await take(call, key):
        raise ApiError(409, "conflict", "somebody else has this task before them")
    return see(ReviewAsked.of(call).item_address(key[0], view.names.name_of(key[1])))


def _item_page(call: PageCall, told: dict[str, Any], status: int = 200) -> Response:
    title = f"Review {told['called']}"
    return page(call, "review_item.html", title=title, status_code=status, **told)


async def _item_told(
    call: PageCall, given: dict[str, str], errors: dict[str, str]
) -> dict[str, Any]:
    view = await views_of(call.host).for_task(call.run, call.path["taskId"])
    task = await call.in_reader(partial(view.task, call.path["taskId"]))
    asked, key = ReviewAsked.of(call), (view.run.run_id, task.task_id)
    _, lease = await held(call, key)
    has_it = lease is not None and not is_taken(call, lease)
    found = await call.in_reader(partial(_read_item, call, view, task))
    called = await call.in_reader(partial(view.names.of, task.task_id))
    return {
        "run_id": view.run.run_id,
        "task_id": task.task_id,
        "called": called.name,
        "asked": called.beside,
        "suite": view.facts.suite,
        "agent": view.frame.agent.name,
        "address": review_address(view.run.run_id, called.name),
        "queue": asked.address(),
        "hidden": list(asked.given.items()),
        "may_review": call.may("runs:annotate"),
        "has_it": has_it and call.may("runs:annotate"),
        "is_taken": is_taken(call, lease),
        "given": {"verdict": "", "reason": "", "answer": "", **given},
        "longest": LONGEST,
        "errors": errors,
        **found,
    }


def _read_item(call: PageCall, view: RunView, task: Task) -> dict[str, Any]:
    run_id = view.run.run_id
    place = scored_at(view.run.log, run_id, task.task_id)
    notes = [
        _told(each, passed=_verdict(each, f"{run_id}:{place}"))
        for each in annotations_of(call, run_id)
        if task.task_id == each.target.node_id or each.target.event_id == f"{run_id}:{place}"
    ]
    row = view.tasks.rows[view.tasks.places[task.task_id]]
    found = {"notes": notes, "passed": row.passed, "score": row.score}
    try:
        read, events = shown_task(view, task, place)
        result = result_html(view, task, read, events)
    except msgspec.MsgspecError:
        return {**found, "result": as_markup(DAMAGED), "test": "", "test_name": ""}
    return {
        **found,
        "result": as_markup(result),
        "test": suite_of(call, task, read.record) or "",
        "test_name": test_name(task.task_id),
    }


def _verdict(annotation: Annotation, scored: str) -> bool | None:
    text = annotation.signal.label or annotation.signal.correction
    return VERDICTS.get(text or "") if annotation.target.event_id == scored else None


async def save(call: PageCall) -> Response:
    """Keep what was said beside the score, and go on with the next task."""
    view = await views_of(call.host).for_task(call.run, call.path["taskId"])
    task = view.task(call.path["taskId"])
    given = {name: call.field(name) for name in ("verdict", "reason", "answer")}
    errors = _problems(given)
    if errors:
        return _item_page(call, await _item_told(call, given, errors), UNPROCESSABLE)
    key = view.run.run_id, task.task_id
    known, lease = await held(call, key)
    if is_taken(call, lease):
        raise ApiError(409, "conflict", "somebody else has this task before them")
    targets = await call.in_reader(partial(_targets, view, task))
    new = call.host.annotations.new
    by = call.principal.principal
    row = view.tasks.rows[view.tasks.places[task.task_id]]
    is_same = row.passed == VERDICTS[given["verdict"]]
    signal = (
        Signal("label", label=given["verdict"])
        if is_same
        else Signal("correction", correction=given["verdict"])
    )
    said = [new(targets[0], signal, by, given["reason"] or None)]
    if given["answer"]:
        said.append(new(targets[1], Signal("correction", correction=given["answer"]), by))
    await _keep(call, said, lease_change(call, key, None, known))
    return see(await _next(call, ReviewAsked.of(call), key))


def _problems(given: dict[str, str]) -> dict[str, str]:
    errors = {
        name: f"At most {most:,} characters."
        for name, most in LONGEST.items()
        if len(given[name]) > most
    }
    if given["verdict"] not in VERDICTS:
        errors["verdict"] = "Choose pass or fail."
    return errors


def _targets(view: RunView, task: Task) -> tuple[AnnotationTarget, AnnotationTarget]:
    """What the verdict is about, and what a corrected answer is about."""
    run_id = view.run.run_id
    place = scored_at(view.run.log, run_id, task.task_id)
    if place is None:
        raise ApiError(409, "conflict", "the task has no score yet")
    answered = [each.sequence for each in view.events(task, place) if _is_answer(each)]
    about = [f"{run_id}:{each}" for each in (place, *answered[-1:])]
    return (
        AnnotationTarget(run_id, about[0], task.task_id),
        AnnotationTarget(run_id, about[1] if answered else None, task.task_id),
    )


def _is_answer(event: Event) -> bool:
    return event.type == Decided.TYPE


async def _keep(call: PageCall, said: Sequence[Annotation], freed: RecordChange) -> None:
    """Store annotations, and let go of the task, as one unit."""
    await call.room.need(len(call.raw), "annotations", len(said))
    try:
        await call.host.annotations.add(call.run, said, [freed])
    except RecordConflict:
        message = "somebody else has this task before them now; your words were not kept"
        raise ApiError(409, "conflict", message) from None
    for each in said:
        publish_annotation(call, each)

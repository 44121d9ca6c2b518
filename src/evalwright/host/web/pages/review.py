"""The review: a queue, and one task of it at a time with a form that the keyboard is enough for.

The queue has tasks that somebody should look at, each given to one person at a time. What people
say is kept as annotations. A verdict is an annotation of the event with the score: a label where it
is the same, a correction where it is not. A corrected answer is a correction of the event with the
answer. The score stays as it is.
"""

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any, ClassVar, NamedTuple, TypeAlias

import msgspec
from starlette.responses import Response

from evalwright.contracts import amounts
from evalwright.contracts.annotation import Annotation, AnnotationTarget, Signal
from evalwright.contracts.events import Decided, InvocationCompleted, Judged
from evalwright.contracts.short_names import agent_id_of
from evalwright.contracts.suite import Task
from evalwright.engine.task_names import TaskNames
from evalwright.host.async_store import forget_old
from evalwright.host.http.errors import ApiError
from evalwright.host.v1.library import publish_annotation
from evalwright.host.web.filters import Filters
from evalwright.host.web.human_verdicts import VERDICTS, HumanVerdict, verdict_in, verdicts_of
from evalwright.host.web.page import (
    LIGHT,
    NotSoon,
    PageCall,
    in_time,
    page,
    part,
    review_address,
    see,
)
from evalwright.host.web.pages.export_task import suite_of, test_name
from evalwright.host.web.pages.run_tasks import damaged_details, drawer_part, read_details
from evalwright.host.web.recent_runs import RecentRun, RecentRuns, recent_runs
from evalwright.host.web.run_views import Doubts, RunSetup, RunView, scored_at, views_of
from evalwright.reports.formats.words import SEVERITIES, in_words
from evalwright.reports.run.task_list import TaskRow
from evalwright.reports.run.task_records import read_task
from evalwright.scoring.rubric import agreement_of
from evalwright.scoring.statistics import wilson
from evalwright.store.protocol import EventLog, RunFilter
from evalwright.store.records import RecordChange, RecordConflict

AT_ONCE = 25
BESIDE = 40  # tasks of the queue beside the one that is looked at
LONGEST = {"reason": 2048, "answer": 4096}  # as over the API
UNPROCESSABLE = 422
STATE_WORDS = {"open": "to review", "done": "reviewed", "all": "all"}
_VERDICTS = {True: ("pass", "Right"), False: ("fail", "Wrong"), None: ("", "")}
MOST_RUNS = 20  # the latest, whose tasks are in the queue
MOST_LEASES = 1000
MOST_HEARD = 1_000_000  # events of runs whose judges are heard for one page
LEASE_SECONDS = 15 * 60
LEASE_KIND = "review-lease"
UNSURE = 0.5  # below which an agent's confidence is low
KIND_WORDS = {"failed": "failed", "flaky": "flaky", "unsure": "low confidence"}

TaskKey: TypeAlias = tuple[str, str]  # run and task
RunNames: TypeAlias = Mapping[str, TaskNames]  # what the tasks of runs are called, by run


class ReviewItem(NamedTuple):
    """A task that somebody should look at, and why."""

    run: RecentRun
    row: TaskRow
    kinds: tuple[str, ...]
    why: str

    @property
    def key(self) -> TaskKey:
        return self.run.facts.run_id, self.row.task_id


class ReviewLease(msgspec.Struct, frozen=True):
    """Who has a task before them, and until when nobody else gets it."""

    by: str  # of a session, not of a person: two may share a key
    until_us: int


class ReviewQueue(NamedTuple):
    """All that there is to review, and what was said so far."""

    items: list[ReviewItem]
    recent: RecentRuns
    said: dict[TaskKey, HumanVerdict]  # the latest of each task
    leases: dict[TaskKey, ReviewLease]
    judged: dict[str, Doubts]  # by run
    unread: int  # runs whose judges were not heard yet

    @property
    def waiting(self) -> list[ReviewItem]:
        """What nobody has said anything of."""
        return [each for each in self.items if each.key not in self.said]


class ReviewAsked(Filters, frozen=True):
    """The filters in an address, or in a form."""

    PATH = "/review"
    CHOICES: ClassVar = {"kind": KIND_WORDS, "state": STATE_WORDS}

    run: str = ""
    suite: str = ""
    agent: str = ""
    kind: str = ""
    state: str = ""
    q: str = ""
    page: str = ""

    @property
    def given(self) -> dict[str, str]:
        """Those that are set, but for the page."""
        return {name: value for name, value in self.values().items() if value and name != "page"}

    def page_address(self, number: int) -> str:
        return self.address(page=str(number) if number > 1 else "")

    def item_address(self, run_id: str, name: str) -> str:
        """The address of a task within the same list."""
        return self.address(review_address(run_id, name), state="", page="")

    async def read(self, call: PageCall) -> ReviewQueue:
        return await read_queue(call, run=self.run, suite=self.suite, agent=self.agent)

    async def found(
        self, call: PageCall, queue: ReviewQueue
    ) -> tuple[Sequence[ReviewItem], RunNames]:
        """The items that the list has, and what is known of their names."""
        names = await _names(call, queue.items) if self.q else {}
        wanted, state = self.q.casefold(), self.state or "open"

        def fits(item: ReviewItem) -> bool:
            if state != "all" and (item.key in queue.said) != (state == "done"):
                return False
            if self.kind and self.kind not in item.kinds:
                return False
            if not wanted:
                return True
            called = names[item.run.facts.run_id].of(item.row.task_id)
            return any(wanted in each.casefold() for each in (item.row.task_id, *called.told))

        return await call.in_reader(lambda: list(filter(fits, queue.items))), names


# The page.


async def show(call: PageCall) -> Response:
    """The queue, or only its list when the filters change."""
    asked = ReviewAsked.of(call)
    if call.is_part and (key := (call.asked("beside_run"), call.asked("beside")))[1]:
        return part(call, "review_queue.html", queue=await _beside(call, asked, key))

    async def read() -> dict[str, Any]:
        queue = await asked.read(call)
        found, names = await asked.found(call, queue)
        names = names or await _names(call, asked.page_of(found, AT_ONCE)[0])
        return await call.in_reader(lambda: _listed(call, asked, queue, found, names))

    values = await in_time(call, read())
    if call.is_part:
        return part(call, "review_list.html", **(values or {}))
    return page(
        call,
        "review.html",
        title="Review",
        **(values or {"asked": asked.values(), "rows": None}),
    )


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
    shown, around = asked.page_of(found, AT_ONCE)
    reviewed = sum(item.key in queue.said for item in queue.items)
    free = [item for item in found if not is_taken(call, queue.leases.get(item.key))]
    rows = []
    for item in shown:
        facts, said = item.run.facts, queue.said.get(item.key)
        called = names[facts.run_id].of(item.row.task_id)
        row = {
            "called": called.name,
            "title": called.subtitle,
            "address": asked.item_address(facts.run_id, called.name),
            "run_id": facts.run_id,
            "suite": facts.suite,
            "agent": call.host.figures.agent_of(call.log, facts),
            "started_us": facts.started_us,
            "kinds": [KIND_WORDS[kind] for kind in item.kinds],
            "passed": item.row.passed,
            "kind": {True: "pass", False: "fail", None: "open"}[item.row.passed],
            "why": item.why,
            "said": None if said is None else _told(said.annotation, passed=said.passed),
            "is_taken": is_taken(call, queue.leases.get(item.key)),
        }
        rows.append(row)
    return {
        "asked": asked.values(),
        "hidden": list(asked.given.items()),
        "heading": "Reviewed"
        if asked.state == "done"
        else f"{len(found):,} to look at"
        if found
        else "Nothing to review",
        "why": f"{reviewed:,} of {len(queue.items):,} are reviewed." if queue.items else "",
        "kind_chips": _chips(asked, "kind", {"": "any reason", **KIND_WORDS}),
        "state_chips": _chips(asked, "state", STATE_WORDS),
        "rows": rows,
        "total": len(found),
        "free": len([item for item in free if item.key not in queue.said]),
        "reviewed": reviewed,
        "of": len(queue.items),
        "agreements": [(words, str(each)) for words, each in agreements(queue)],
        "runs": len(queue.recent.runs),
        "most_runs": MOST_RUNS,
        "left_out": queue.recent.left_out,
        "unread": queue.unread,
        **around,
    }


def _chips(asked: ReviewAsked, name: str, words: Mapping[str, str]) -> list[dict[str, Any]]:
    chosen = asked.values()[name] or next(iter(words))
    return [
        {
            "key": key or "all",
            "words": text[0].upper() + text[1:],
            "count": None,
            "shape": "",
            "icon": "",
            "address": asked.address(**{name: key, "page": ""}),
            "chosen": key == chosen,
        }
        for key, text in words.items()
    ]


def _told(annotation: Annotation, *, passed: bool | None) -> dict[str, Any]:
    signal = annotation.signal
    text = signal.correction if passed is None else None
    if passed is None and text is None:
        text = signal.label or (f"rating {signal.rating}" if signal.rating else "flagged")
    return {
        "kind": _VERDICTS[passed][0],
        "word": _VERDICTS[passed][1],
        "text": text or "",
        "note": annotation.note or "",
        "by": annotation.actor.principal_ref,
        "at_us": int(datetime.fromisoformat(annotation.created_at).timestamp() * 1_000_000),
    }


async def _beside(call: PageCall, asked: ReviewAsked, key: TaskKey) -> dict[str, Any]:
    """What else is in the queue, around the task that is looked at."""
    queue = await asked.read(call)
    keys = [item.key for item in queue.items]
    place = keys.index(key) if key in keys else 0
    first = max(0, min(place - BESIDE // 3, len(keys) - BESIDE))
    shown = queue.items[first : first + BESIDE]
    names = await _names(call, shown)

    def rows() -> list[dict[str, Any]]:
        told = []
        for number, item in enumerate(shown, first):
            called, said = names[item.key[0]].of(item.row.task_id), queue.said.get(item.key)
            kind = {"failed": "fail", "flaky": "flaky"}.get(item.kinds[0], "idle")
            row = {
                "address": asked.item_address(item.key[0], called.name),
                "title": called.subtitle or called.name,
                "kind": "done" if said else kind,
                "why": f"{KIND_WORDS[item.kinds[0]].capitalize()}: {item.why}",
                "is_done": said is not None,
                "is_here": item.key == key,
                "step": {place - 1: "k", place + 1: "j"}.get(number, ""),
            }
            if said is not None:
                by, word = said.annotation.actor.principal_ref, _VERDICTS[said.passed][1]
                row["why"] = f"Reviewed by {by}: {word.lower()}"
            told.append(row)
        return told

    done, of = sum(each in queue.said for each in keys), len(keys)
    agreed = [f"{words}: {each}." for words, each in agreements(queue)]
    return {
        "rows": await call.in_reader(rows),
        "done": done,
        "of": of,
        "share": done / of if of else 0.0,
        "heading": f"{of - done:,} of {of:,} {'waits' if of == 1 else 'wait'} for your judgement",
        "why": " ".join(agreed),
    }


async def go_on(call: PageCall) -> Response:
    """Take the next task that nobody has; `after` is one that was passed over."""
    after = call.field("after_run"), call.field("after_task")
    known, lease = await held(call, after)
    if lease is not None and not is_taken(call, lease):  # let others have it
        with suppress(RecordConflict):  # it has run out, and somebody has it now
            change = lease_change(call, after, None, known)
            await asyncio.wrap_future(call.host.records.write([change]))
    return see(await _next(call, ReviewAsked.of(call), after))


async def _next(call: PageCall, asked: ReviewAsked, after: TaskKey) -> str:
    wanted = asked.replace(state="open")
    queue = await wanted.read(call)
    found, _ = await wanted.found(call, queue)
    keys = [item.key for item in found]
    all_keys = [item.key for item in queue.items]
    place = all_keys.index(after) if after in all_keys else -1
    later = set(all_keys[place + 1 :])
    for key in [*(key for key in keys if key in later), *(key for key in keys if key not in later)]:
        if key != after and not is_taken(call, queue.leases.get(key)) and await claim(call, key):
            names = await views_of(call.host).names(call.run_with(key[0]))
            return wanted.item_address(key[0], names.name_of(key[1]))
    return asked.replace(state="", page="").address()


# One task.


async def item(call: PageCall) -> Response:
    """A task with what is known of it, and the form of whoever has it."""
    call.weight = (await views_of(call.host).facts(call.run)).events
    found = await in_time(call, _item_told(call, {}, {}))
    if call.is_part and found:
        return part(call, "review_task.html", **found)
    return _item_page(call, found or {"called": call.path["taskId"], "task": None})


async def take_item(call: PageCall) -> Response:
    """Take one task, by its address."""
    view = await views_of(call.host).for_task(call.run, call.path["taskId"])
    key = view.run.run_id, view.task(call.path["taskId"]).task_id
    if not await claim(call, key):
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
    # Of large runs the task comes first, and what else waits follows.
    queue = None if call.is_patient else await _beside(call, asked, key)
    follows = asked.address(beside_run=key[0], beside=key[1])
    return {
        "beside": queue,
        "beside_from": "" if queue else follows,
        "run_id": view.run.run_id,
        "task_id": task.task_id,
        "called": called.name,
        "asked": called.subtitle,
        "suite": view.facts.suite,
        "agent": view.frame.agent.name,
        "address": review_address(view.run.run_id, called.name),
        "queue": asked.address(page=""),
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
    scored = f"{run_id}:{place}"
    notes = [
        _told(each, passed=verdict_in(each) if each.target.event_id == scored else None)
        for each in call.host.annotations.read(call.principal.partition, run_id)
        if task.task_id == each.target.node_id or each.target.event_id == scored
    ]
    row = view.tasks.rows[view.tasks.places[task.task_id]]
    found = {"notes": notes, "passed": row.passed, "score": row.score}
    try:
        read, _ = read_task(task, view.events(task, place), view.frame.agent)
        details = read_details(view, task)
    except msgspec.MsgspecError:
        return {**found, "task": damaged_details(view, task), "test": "", "test_name": ""}
    return {
        **found,
        "task": details,
        "test": suite_of(call, task, read.record, view.frame.suite.attachments) or "",
        "test_name": test_name(task.task_id),
    }


async def save(call: PageCall) -> Response:
    """Keep what was said beside the score, and go on with the next task."""
    view = await views_of(call.host).for_task(call.run, call.path["taskId"])
    task = view.task(call.path["taskId"])
    given = {name: call.field(name) for name in ("verdict", "reason", "answer")}
    errors = {
        name: f"At most {most:,} characters."
        for name, most in LONGEST.items()
        if len(given[name]) > most
    }
    if given["verdict"] not in VERDICTS:
        errors["verdict"] = "Choose pass or fail."
    if errors:
        return _item_page(call, await _item_told(call, given, errors), UNPROCESSABLE)
    key = view.run.run_id, task.task_id
    known, lease = await held(call, key)
    if is_taken(call, lease):
        raise ApiError(409, "conflict", "somebody else has this task before them")
    targets = await call.in_reader(partial(_targets, view, task))
    new, by = call.host.annotations.new, call.principal.principal
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
    await call.room.need(len(call.raw), "annotations", len(said))
    freed = lease_change(call, key, None, known)  # they are stored, and the task let go, as one
    try:
        await call.host.annotations.add(call.run, said, [freed])
    except RecordConflict:
        message = "somebody else has this task before them now; your words were not kept"
        raise ApiError(409, "conflict", message) from None
    for each in said:
        publish_annotation(call, each)
    if call.is_part:  # said in the drawer of a run
        return await drawer_part(call, view, task)
    return see(await _next(call, ReviewAsked.of(call), key))


def _targets(view: RunView, task: Task) -> tuple[AnnotationTarget, AnnotationTarget]:
    run_id = view.run.run_id
    place = scored_at(view.run.log, run_id, task.task_id)
    if place is None:
        raise ApiError(409, "conflict", "the task has no score yet")
    events = view.events(task, place)
    answers = [f"{run_id}:{each.sequence}" for each in events if each.type == Decided.TYPE]
    return (
        AnnotationTarget(run_id, f"{run_id}:{place}", task.task_id),
        AnnotationTarget(run_id, answers[-1] if answers else None, task.task_id),
    )


# The queue.


async def read_queue(call: PageCall, *, run: str, suite: str, agent: str) -> ReviewQueue:
    """The queue: of each suite and agent the newest run, or the run that is asked for."""
    wanted = RunFilter(
        suite=suite or None,
        agent=agent_id_of(agent) or None,
        beginning=run or None,
        has_ended=True,
        is_evaluation=True,
    )
    recent = await recent_runs(call, wanted, MOST_RUNS)
    shown = [each for each in recent.runs if each.facts.run_id == run] if run else recent.latest
    judged, unread = await _all_doubts(call, shown)

    def read() -> ReviewQueue:
        said = {
            (each.facts.run_id, verdict.task_id): verdict
            for each in recent.runs
            for verdict in verdicts_of(call, each.facts.run_id)
        }
        items = _items(recent.runs, shown, judged)
        return ReviewQueue(items, recent, said, read_leases(call), judged, unread)

    queue = await call.in_reader(read)
    if not (run or suite or agent):
        views_of(call.host).note_waiting(call.principal.partition, len(queue.waiting))
    return queue


def _items(
    runs: Sequence[RecentRun], shown: Sequence[RecentRun], judged: dict[str, Doubts]
) -> list[ReviewItem]:
    """The tasks that somebody should look at, and why; failures first."""
    # How often each task passed where the same ran, and was scored at all.
    mixed: dict[tuple[RunSetup, str], tuple[int, int]] = defaultdict(lambda: (0, 0))
    for run in runs:
        for row in run.tasks.rows:
            if row.passed is not None:
                passes, scored = mixed[run.setup, row.task_id]
                mixed[run.setup, row.task_id] = passes + row.passed, scored + 1
    items = []
    for run in shown:
        doubts = judged.get(run.facts.run_id, {})
        for row in run.tasks.rows:
            passes, scored = mixed[run.setup, row.task_id]
            reasons = {}
            if row.passed is False:
                reasons["failed"] = _why_failed(row)
            if 0 < passes < scored:
                reasons["flaky"] = f"passed in {passes} of {scored} runs"
            if doubt := doubts.get(row.task_id):
                reasons["unsure"] = doubt
            if reasons:
                items.append(ReviewItem(run, row, tuple(reasons), "; ".join(reasons.values())))
    return sorted(items, key=lambda item: list(KIND_WORDS).index(item.kinds[0]))


def _why_failed(row: TaskRow) -> str:
    """The score, and the worst finding: with one, a task fails however good its answer is."""
    told = f"score {amounts.score(row.score)}" if row.score is not None else "no score"
    severities = list(SEVERITIES)
    found = sorted(row.safety_findings or (), key=lambda each: severities.index(each.severity))
    if not found:
        return told
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return f"{told}; {in_words(found[0].kind)} ({found[0].severity}){more}"


async def _all_doubts(call: PageCall, runs: Sequence[RecentRun]) -> tuple[dict[str, Doubts], int]:
    """What makes scores uncertain, by run and task; a page reads a few logs at most."""
    kept = views_of(call.host).doubts
    room, found, unread = MOST_HEARD if call.is_patient else LIGHT, dict[str, Doubts](), 0
    for run in runs:
        run_id, key = run.facts.run_id, (call.principal.partition, run.facts.run_id)
        if key not in kept:
            is_first = room == MOST_HEARD
            room -= run.facts.events
            if room < 0 and not call.is_patient:
                raise NotSoon
            if room < 0 and not is_first:
                unread += 1
                continue

        async def make(run_id: str = run_id) -> tuple[int, Doubts, bool]:
            made = await call.in_reader(partial(read_doubts, call.log, run_id))
            return 1 + len(made), made, True

        found[run_id] = await kept.get(key, make)
    return found, unread


def read_doubts(log: EventLog, run_id: str) -> Doubts:
    """By task: why its score is uncertain; an empty text for one that judges agreed on."""
    heard: dict[str, list[Judged]] = {}
    found: Doubts = {}
    for event in log.read(run_id, (Judged.TYPE, InvocationCompleted.TYPE)):
        if event.task_id is None:
            continue
        try:
            if event.type == Judged.TYPE:
                heard.setdefault(event.task_id, []).append(event.decode(Judged))
                continue
            confidence = event.decode(InvocationCompleted).confidence
        except msgspec.MsgspecError:  # the page of the task says so
            continue
        if confidence is not None and confidence < UNSURE:
            found[event.task_id] = f"the agent's confidence is {confidence:.2f}"
    for task_id, votes in heard.items():
        agreed = agreement_of(votes), agreement_of(votes, on_safety=True)
        least = min((each.share for each in agreed if each is not None), default=1.0)
        found.setdefault(task_id, "")
        if least < 1:
            found[task_id] = f"judges agree by {amounts.percent(least)}"
    return found


# What people said.


class Agreement(NamedTuple):
    """How often people say what the scores say."""

    same: int
    of: int

    def __str__(self) -> str:
        low, high = wilson(self.same, self.of)
        rate = amounts.percent(self.same, self.of)
        interval = amounts.share_interval(low, high)
        return f"{rate} ({self.same:,} of {self.of:,}; 95% interval {interval})"


def agreements(queue: ReviewQueue) -> list[tuple[str, Agreement]]:
    """People and scores, and people and judges, where judges scored."""
    pairs = [
        (row.passed == verdict.passed, row.task_id in queue.judged.get(run.facts.run_id, {}))
        for run in queue.recent.runs
        for row in run.tasks.rows
        if (verdict := queue.said.get((run.facts.run_id, row.task_id))) is not None
    ]
    by_judges = [same for same, is_judged in pairs if is_judged]
    told = [("Scores and people agree", Agreement(sum(each for each, _ in pairs), len(pairs)))]
    told.append(("Judges and people agree", Agreement(sum(by_judges), len(by_judges))))
    return [(words, found) for words, found in told if found.of]


# Whose turn it is.


def reviewer(call: PageCall) -> str:
    """Who asks: a session, by a hash, as its id is a secret."""
    return hashlib.sha256(f"reviewer {call.session.id}".encode()).hexdigest()[:24]


def read_leases(call: PageCall) -> dict[TaskKey, ReviewLease]:
    """The tasks that somebody has before them now."""
    now = call.host.clock.now_us()
    records = call.host.records.list(LEASE_KIND, call.principal.partition, limit=MOST_LEASES)
    found = {}
    for record in records:
        lease = msgspec.json.decode(record.body, type=ReviewLease)
        if lease.until_us > now:
            run_id, _, task_id = record.key.partition("/")
            found[run_id, task_id] = lease
    return found


def is_taken(call: PageCall, lease: ReviewLease | None) -> bool:
    """Whether somebody else has the task."""
    return (
        lease is not None
        and lease.by != reviewer(call)
        and lease.until_us > call.host.clock.now_us()
    )


async def claim(call: PageCall, key: TaskKey) -> bool:
    """Take a task, or go on with it; False if somebody else has it."""
    known, lease = await held(call, key)
    if is_taken(call, lease):
        return False
    now = call.host.clock.now_us()
    mine = ReviewLease(reviewer(call), now + LEASE_SECONDS * 1_000_000)
    change = lease_change(call, key, msgspec.json.encode(mine), known)
    records = call.host.records
    try:
        await asyncio.wrap_future(records.write([change]))
    except RecordConflict:  # somebody was quicker
        return False
    await forget_old(records, LEASE_KIND, now - 2 * LEASE_SECONDS * 1_000_000)
    return True


async def held(call: PageCall, key: TaskKey) -> tuple[bytes | None, ReviewLease | None]:
    """The lease of a task, as it is kept and as it is meant; it may have run out."""
    place = (LEASE_KIND, call.principal.partition, "/".join(key))
    known = await call.read_soon(lambda: call.host.records.get(*place))
    return known, None if known is None else msgspec.json.decode(known, type=ReviewLease)


def lease_change(
    call: PageCall, key: TaskKey, body: bytes | None, known: bytes | None
) -> RecordChange:
    """A change of a lease, if it is still as it was."""
    return RecordChange(LEASE_KIND, call.principal.partition, "/".join(key), body, known)

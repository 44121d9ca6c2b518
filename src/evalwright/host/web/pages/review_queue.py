"""The queue of a review: tasks that somebody should look at, each given to one person at a time.

What people say is kept as annotations. A verdict is an annotation of the event with the score: a
label where it is the same, a correction where it is not. A corrected answer is a correction of the
event with the answer. The score stays as it is.
"""

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

import msgspec

from evalwright.contracts import amounts
from evalwright.contracts.annotation import ANNOTATION_KIND, MOST_PER_RUN, Annotation
from evalwright.contracts.events import InvocationCompleted, Judged
from evalwright.contracts.short_names import agent_id_of
from evalwright.host.async_store import forget_old
from evalwright.host.web.page import LIGHT, NotSoon, PageCall
from evalwright.host.web.recent_runs import RecentRun, RecentRuns, recent_runs
from evalwright.host.web.run_views import Doubts, views_of
from evalwright.reports.formats.words import SEVERITIES, in_words
from evalwright.reports.run.task_list import TaskRow
from evalwright.scoring.rubric import agreement_of
from evalwright.scoring.statistics import wilson
from evalwright.store.protocol import EventLog, RunFilter
from evalwright.store.records import RecordChange, RecordConflict

MOST_RUNS = 20  # the latest, whose tasks are in the queue
MOST_LEASES = 1000
MOST_HEARD = 1_000_000  # events of runs whose judges are heard for one page
LEASE_SECONDS = 15 * 60
LEASE_KIND = "review-lease"
UNSURE = 0.5  # below which an agent's confidence is low
VERDICTS = {"pass": True, "fail": False}
KIND_WORDS = {"failed": "failed", "flaky": "flaky", "unsure": "low confidence"}

TaskKey: TypeAlias = tuple[str, str]  # run and task


class ReviewItem(NamedTuple):
    """A task that somebody should look at, and why."""

    run: RecentRun
    row: TaskRow
    kinds: tuple[str, ...]
    why: str

    @property
    def key(self) -> TaskKey:
        """The run and the task."""
        return self.run.facts.run_id, self.row.task_id


class HumanVerdict(NamedTuple):
    """What somebody said of a task."""

    task_id: str
    passed: bool
    annotation: Annotation


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
        said, leases, mixed = _said(call, recent.runs), read_leases(call), _mixed(recent.runs)
        items = [item for each in shown for item in _items(each, judged, mixed)]
        items.sort(key=lambda item: list(KIND_WORDS).index(item.kinds[0]))  # failures first
        return ReviewQueue(items, recent, said, leases, judged, unread)

    return await call.in_reader(read)


# Why a task is in the queue.


def _mixed(runs: Sequence[RecentRun]) -> dict[tuple[str, str, str], tuple[int, int]]:
    """How often each task of a suite and an agent passed, and was scored at all."""
    found: dict[tuple[str, str, str], tuple[int, int]] = defaultdict(lambda: (0, 0))
    for run in runs:
        for row in run.tasks.rows:
            if row.passed is not None:
                passes, scored = found[(*run.pair, row.task_id)]
                found[(*run.pair, row.task_id)] = passes + row.passed, scored + 1
    return found


def _items(
    run: RecentRun,
    judged: dict[str, Doubts],
    mixed: dict[tuple[str, str, str], tuple[int, int]],
) -> Iterable[ReviewItem]:
    doubts = judged.get(run.facts.run_id, {})
    for row in run.tasks.rows:
        passes, scored = mixed[(*run.pair, row.task_id)]
        reasons = {}
        if row.passed is False:
            reasons["failed"] = _why_failed(row)
        if 0 < passes < scored:
            reasons["flaky"] = f"passed in {passes} of {scored} runs"
        if doubt := doubts.get(row.task_id):
            reasons["unsure"] = doubt
        if reasons:
            yield ReviewItem(run, row, tuple(reasons), "; ".join(reasons.values()))


def _why_failed(row: TaskRow) -> str:
    """The score, and the worst finding: with one, a task fails however good its answer is."""
    told = f"score {amounts.score(row.score)}" if row.score is not None else "no score"
    severities = list(SEVERITIES)
    found = sorted(row.safety_findings or (), key=lambda each: severities.index(each.severity))
    if not found:
        return told
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return f"{told}; {found[0].severity} {in_words(found[0].kind)}{more}"


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


def _said(call: PageCall, runs: Sequence[RecentRun]) -> dict[TaskKey, HumanVerdict]:
    return {
        (run.facts.run_id, each.task_id): each
        for run in runs
        for each in verdicts_of(call, run.facts.run_id)
    }


def annotations_of(call: PageCall, run_id: str) -> list[Annotation]:
    """All annotations of a run, oldest first."""
    records = call.host.records.list(
        ANNOTATION_KIND, call.principal.partition, f"{run_id}/", limit=MOST_PER_RUN
    )
    return [msgspec.json.decode(record.body, type=Annotation) for record in records]


def verdicts_of(call: PageCall, run_id: str) -> list[HumanVerdict]:
    """What people said of the tasks of a run, oldest first."""
    told = [each for each in annotations_of(call, run_id) if _verdict(each) is not None]
    tasks = {each.target.node_id or "" for each in told}
    places = call.log.upkeep.scored_at(run_id, sorted(tasks)) if tasks else {}
    scored = {f"{run_id}:{place}": task_id for task_id, place in places.items()}
    return [
        HumanVerdict(task_id, VERDICTS[_verdict(each) or ""], each)
        for each in told
        if (task_id := scored.get(each.target.event_id or ""))
    ]


def _verdict(annotation: Annotation) -> str | None:
    text = annotation.signal.label or annotation.signal.correction
    return text if text in VERDICTS and annotation.target.node_id else None


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


async def take(call: PageCall, key: TaskKey) -> bool:
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

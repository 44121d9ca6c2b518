"""The tasks of a run as a table, a page at a time, and the drawer of one beside it."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from evalwright.attacks.derived import attacks_in
from evalwright.contracts import amounts
from evalwright.contracts.errors import RunNotFound
from evalwright.contracts.events import Checked, Decided, Event, InvocationCompleted
from evalwright.contracts.suite import Task
from evalwright.engine.projection import RunState
from evalwright.engine.task_names import asked as asked_of
from evalwright.host.web.filters import number_of
from evalwright.host.web.human_verdicts import verdicts_of
from evalwright.host.web.page import (
    PageCall,
    part,
    render,
    review_address,
    run_address,
    task_address,
)
from evalwright.host.web.pages.repeated_runs import Repeats, read_repeats
from evalwright.host.web.pages.run_sections import sections_of
from evalwright.host.web.pages.runs import may_repeat
from evalwright.host.web.run_views import RunView, RunViews, scored_at, views_of
from evalwright.reports.design.markup import as_markup
from evalwright.reports.formats.text import shortened, shown
from evalwright.reports.formats.words import in_words
from evalwright.reports.run.conversation import LONG as SHOWN
from evalwright.reports.run.conversation import readable
from evalwright.reports.run.evidence import evident_findings
from evalwright.reports.run.task_details import CELL, KINDS, MOST_STEPS, WORDS, details_of, row_of
from evalwright.reports.run.task_list import TaskRow, read_events_of, read_near_score
from evalwright.reports.run.task_records import TaskRecord, read_task

AT_ONCE = 50  # tasks of a page
WHOLE = 200_000  # characters of a payload that was asked for
SEARCHED = 2000  # characters of an input and an answer in which a search looks
MOST_EVENTS = 1_500_000  # of a run whose checks can be counted and filtered by
MOST_FOUND = 1000  # tasks by a search, which then ends
COLUMNS = {
    "input": "Input",
    "expected": "Expected",
    "answer": "Answer",
    "checks": "Checks",
    "score": "Score",
    "cost": "Cost",
    "time": "Time",
}
SHOWS = {  # key, words, shape, icon
    "failed": ("Failed", "fail", ""),
    "error": ("Errors", "error", ""),
    "passed": ("Passed", "pass", ""),
    "open": ("No score", "open", ""),
    "flaky": ("Flaky", "flaky", ""),
    "changed": ("Changed", "", ""),
    "findings": ("With findings", "", "flag"),
}
ORDER = ("failed", "error", "flaky", "open", "passed")


class IndexedTask(msgspec.Struct, gc=False):
    """What filters ask of a task."""

    row: TaskRow
    status: str
    tags: Sequence[str] = ()
    failed: Sequence[str] = ()  # names of checks
    checks: Sequence[str] = ()
    cause: str = ""
    is_flaky: bool = False
    has_changed: bool = False

    def fits(self, show: str, asked: "TasksAsked") -> bool:
        """Whether a task belongs in the list that is asked for."""
        return (
            self.shows(show)
            and (not asked.tag or asked.tag in self.tags)
            and (not asked.check or asked.check in self.failed)
            and (not asked.cause or asked.cause == self.cause)
        )

    def shows(self, show: str) -> bool:
        """Whether a task is one of those that a chip shows."""
        if show == "flaky":
            return self.is_flaky
        if show == "changed":
            return self.has_changed
        if show == "findings":
            return bool(self.row.safety_findings)
        return show in ("", self.status)


class TaskIndex(NamedTuple):
    """All tasks of a run as filters see them, and how many each chip and facet shows."""

    tasks: Sequence[IndexedTask]
    shows: Mapping[str, int]
    of: Mapping[str, Counter[str]]  # by kind of facet: how many tasks each has
    failed: Mapping[str, Counter[str]]  # and how many of them did not pass

    @classmethod
    def of_tasks(cls, tasks: Sequence[IndexedTask]) -> "TaskIndex":
        """Count them."""
        bad = [task for task in tasks if task.row.passed is False]
        of = {
            "tag": Counter(chain.from_iterable(task.tags for task in tasks)),
            "check": Counter(chain.from_iterable(task.checks for task in tasks)),
            "cause": Counter(task.cause for task in tasks if task.cause),
        }
        failed = {
            "tag": Counter(chain.from_iterable(task.tags for task in bad)),
            "check": Counter(chain.from_iterable(task.failed for task in tasks)),
            "cause": Counter(task.cause for task in bad if task.cause),
        }
        shows = Counter(task.status for task in tasks) | {
            "": len(tasks),
            "flaky": sum(task.is_flaky for task in tasks),
            "changed": sum(task.has_changed for task in tasks),
            "findings": sum(bool(task.row.safety_findings) for task in tasks),
        }
        return cls(tasks, shows, of, failed)


class TasksAsked(NamedTuple):
    """The filters, columns and page in an address."""

    show: str = ""
    q: str = ""
    tag: str = ""
    check: str = ""
    cause: str = ""
    least: str = ""  # score
    most: str = ""
    hide: str = ""
    page: str = ""
    task: str = ""

    @classmethod
    def of(cls, call: PageCall) -> "TasksAsked":
        """Those of a request; what is not known counts as not given."""
        asked = cls(*map(call.asked, cls._fields))
        hidden = ",".join(name for name in COLUMNS if name in asked.hide.split(","))
        return asked._replace(show=asked.show if asked.show in SHOWS else "", hide=hidden)

    @property
    def is_filtered(self) -> bool:
        return any((self.show, self.q, self.tag, self.check, self.cause, self.least, self.most))

    def address(self, run_id: str, **changed: str) -> str:
        """The address of the same list, but for what is changed; from its first page on."""
        given = {**self._asdict(), "page": "", "task": "", **changed}
        query = urlencode({name: value for name, value in given.items() if value})
        return f"{run_address(run_id)}?{query}" if query else run_address(run_id)


# What filters ask of all tasks.


class _Taggable(msgspec.Struct, rename="camel"):
    task_id: str
    tags: list[str] = []
    repeat: int = 1


class _SearchedTask(msgspec.Struct):
    input: msgspec.Raw
    title: str = ""


def index_of(view: RunView, repeats: Repeats) -> TaskIndex:
    """All tasks of a run as filters see them, those that did not pass first."""
    from evalwright.scoring.checks.table import cause_of

    known: dict[str, IndexedTask] = {}
    was = {}
    if view.frame.baseline is not None:
        was = _passed_before(view)
    planned = [msgspec.json.decode(each, type=_Taggable) for each in view.frame.suite.tasks]
    tags = {each.task_id: each.tags for each in planned}
    repetitions = {each.task_id: dict[int, bool]() for each in planned if each.repeat > 1}
    for row in view.tasks.rows:
        came = [each for each in repeats.get(row.task_id, ()) if each is not None]
        known[row.task_id] = IndexedTask(
            row,
            row.status,
            tags.get(row.task_id, ()),
            is_flaky=len(set(came)) > 1,
            has_changed=row.passed is not None and was.get(row.task_id, row.passed) != row.passed,
        )
    state = RunState()
    for event in _told(view):
        task = known.get(event.task_id or "")
        if task is None or (task.row.passed and event.type != Checked.TYPE):
            continue
        try:
            checked = state.add(event)
        except msgspec.MsgspecError:  # one damaged task does not hide the others
            continue
        if not isinstance(checked, Checked):
            continue
        if task.row.task_id in repetitions:
            came_out = repetitions[task.row.task_id]
            came_out[checked.repetition] = checked.passed
            task.is_flaky = task.is_flaky or len({*came_out.values()}) > 1
        failed = [each for each in checked.checks if not each.passed]
        task.checks = tuple(dict.fromkeys(each.check for each in checked.checks))
        task.failed = tuple(dict.fromkeys(each.check for each in failed))
        task.cause = (failed[0].cause or cause_of(failed[0].check)) if failed else ""
    for task in known.values():
        if task.row.passed:
            task.status = "passed"
        elif task.row.task_id in state.failed:
            task.status = "error"
    return TaskIndex.of_tasks(sorted(known.values(), key=_place))


def _place(task: IndexedTask) -> int:
    return ORDER.index("flaky" if task.is_flaky and task.status == "passed" else task.status)


def _told(view: RunView) -> Iterable[Event]:
    """What says more of tasks than their scores; of a very large run, nothing is read."""
    if view.facts.events > MOST_EVENTS:
        return ()
    return view.run.log.read(view.run.run_id, (InvocationCompleted.TYPE, Checked.TYPE))


def _passed_before(view: RunView) -> dict[str, bool]:
    """Which tasks passed in the baseline."""
    assert view.frame.baseline is not None
    baseline = view.frame.baseline.read()
    left_out = baseline.left_out
    others = {*left_out.changed, *left_out.new} if left_out else set()
    ids = [row.task_id for row in view.tasks.rows if row.task_id not in others]
    return dict(zip(ids, (each.passed for each in baseline.tasks), strict=False))


def search(view: RunView, tasks: Sequence[IndexedTask], text: str) -> list[IndexedTask]:
    """The first tasks with a text in id, title, input or answer; what is masked is not found.

    Few texts are taken apart: those that hold the words of what is looked for.
    """
    from evalwright.signals.masking import mask_text  # with every detector of secrets

    wanted = text.lower()
    words = [each.encode() for each in re.findall("[a-z0-9]+", wanted)]

    def may_have(body: bytes) -> bool:
        is_plain = body.isascii() and b"\\u" not in body
        return not is_plain or all(map(body.lower().__contains__, words))

    answers: dict[str, list[Event]] = {}
    for event in view.run.log.read(view.run.run_id, (Decided.TYPE,)):
        if may_have(event.body):
            answers.setdefault(event.task_id or "", []).append(event)
    found = list[IndexedTask]()
    for task in tasks:
        task_id = task.row.task_id
        planned = bytes(view.frame.suite.tasks[view.tasks.places[task_id]])
        texts = [task_id]
        if may_have(planned):
            asked = msgspec.json.decode(planned, type=_SearchedTask)
            texts += [asked.title, bytes(asked.input)[:SEARCHED].decode("utf-8", "replace")]
        for event in answers.get(task_id, ()):
            with suppress(msgspec.MsgspecError):  # one damaged task does not hide the others
                texts.append(shown(event.decode(Decided).decision)[:SEARCHED])
        here = [each for each in texts if wanted in each.lower()]
        if any(wanted in mask_text(each, personal=False).lower() for each in here):
            found.append(task)
        if len(found) > MOST_FOUND:
            break
    return found


# The list.


async def listed(
    call: PageCall, views: RunViews, view: RunView, asked: TasksAsked
) -> dict[str, Any]:
    """The table of tasks that an address asks for."""
    repeats = await read_repeats(call, views, view)

    async def make() -> tuple[int, TaskIndex, bool]:
        made = await call.in_reader(partial(index_of, view, repeats))
        return len(made.tasks), made, view.has_ended

    async def draw() -> tuple[int, dict[str, Any], bool]:
        key = view.run.partition, view.run.run_id
        index = (await make())[1] if repeats else await views.indexes.get(key, make)
        drawn = await call.in_reader(partial(_read_list, call, view, asked, index))
        # Repeats may come later than the run.
        return len(str(drawn["table"])), drawn, view.has_ended and not repeats

    drawn = await views.lists.get((view.run.partition, view.run.run_id, asked), draw)
    return drawn | await call.in_reader(partial(sections_of, call, view, repeats))


def _is_between(score: float | None, least: float | None, most: float | None) -> bool:
    if score is None:
        return least is None and most is None
    return (least is None or score >= least) and (most is None or score <= most)


def _read_list(
    call: PageCall, view: RunView, asked: TasksAsked, index: TaskIndex
) -> dict[str, Any]:
    least, most = number_of(asked.least), number_of(asked.most)
    found = index.tasks
    if asked.is_filtered:
        found = [
            task
            for task in found
            if task.fits(asked.show, asked) and _is_between(task.row.score, least, most)
        ]
    if asked.q:
        found = search(view, found, asked.q)
    is_more, found = len(found) > MOST_FOUND, found[:MOST_FOUND] if asked.q else found
    pages = max(1, -(-len(found) // AT_ONCE))
    number = min(max(1, int(asked.page) if asked.page.isdecimal() else 1), pages)
    shown_tasks = found[(number - 1) * AT_ONCE : number * AT_ONCE]
    records = read_records(view, [each.row.task_id for each in shown_tasks])
    rows = [_row(view, each, records.get(each.row.task_id)) for each in shown_tasks]
    run_id = view.run.run_id
    hidden = tuple(filter(None, asked.hide.split(",")))
    links = [
        (words, asked.address(run_id, page=str(to)))
        for words, to in (("Previous", number - 1), ("Next", number + 1))
        if 1 <= to <= pages
    ]
    return {
        "run_id": run_id,
        "address": run_address(run_id),
        "asked": asked._asdict(),
        "kept": [
            (name, getattr(asked, name)) for name in ("show", "tag", "check", "cause", "hide")
        ],
        "chips": _chips(asked, index, run_id),
        "by_tag": _facets(asked, index, run_id, "tag"),
        "by_check": _facets(asked, index, run_id, "check"),
        "by_cause": _facets(asked, index, run_id, "cause"),
        "columns": [_column(asked, run_id, name, words) for name, words in COLUMNS.items()],
        "table": as_markup(
            render(call, "run_table.html", rows=rows, hidden=hidden, open=asked.task)
        )
        if rows
        else "",
        "total": len(found),
        "is_more": is_more,
        "page": number,
        "last_page": pages,
        "pages": links if pages > 1 else [],
    }


def _chips(asked: TasksAsked, index: TaskIndex, run_id: str) -> list[dict[str, Any]]:
    chips = [("", "All", "", "")] + [(key, *each) for key, each in SHOWS.items()]
    found = []
    for key, words, shape, icon in chips:
        count = index.shows.get(key, 0)
        if not count and key not in ("", "failed", "passed", asked.show):
            continue
        found.append(
            {
                "key": key or "all",
                "words": words,
                "count": count,
                "shape": shape,
                "icon": icon,
                "address": asked.address(run_id, show=key),
                "chosen": key == asked.show,
            }
        )
    return found


def _facets(asked: TasksAsked, index: TaskIndex, run_id: str, kind: str) -> list[dict[str, Any]]:
    """How many tasks did not pass by tag, check or root cause; a click shows those."""
    of, failed = index.of[kind], index.failed[kind]
    chosen = getattr(asked, kind)
    names = sorted(of, key=lambda name: (-failed[name], name))[:20]
    if kind == "cause" and len(names) == 1 and not chosen:  # as the chip of what failed
        return []
    return [
        {
            "key": f"{kind}-{name}",
            "words": in_words(name),
            "failed": failed[name],
            "of": of[name],
            "share": failed[name] / of[name],
            "address": asked.address(run_id, **{kind: "" if chosen == name else name}),
            "chosen": chosen == name,
        }
        for name in names
    ]


def _column(asked: TasksAsked, run_id: str, name: str, words: str) -> dict[str, Any]:
    hidden = set(filter(None, asked.hide.split(",")))
    changed = ",".join(each for each in COLUMNS if each in hidden ^ {name})
    return {
        "words": words,
        "shown": name not in hidden,
        "address": asked.address(run_id, hide=changed),
    }


def _row(view: RunView, indexed: IndexedTask, record: TaskRecord | None) -> dict[str, Any]:
    called = view.names.of(indexed.row.task_id)
    run_id = view.run.run_id
    address = task_address(run_id, called.name)
    drawer = f"{address}/drawer"
    if record is None:
        row = indexed.row
        status = indexed.status
        task = view.task(row.task_id)
        made = {
            "task_id": called.name,
            "title": called.subtitle or called.name,
            "sub": called.name,
            "kind": KINDS[status],
            "word": WORDS[status],
            "failed": row.passed is False,
            "input": shortened(asked_of(task.input), CELL),
            "expected": "",
            "answer": "",
            "checks": [],
            "score": amounts.NOTHING if row.score is None else f"{row.score:.2f}",
            "cost": amounts.NOTHING if row.cost_usd is None else amounts.dollars(row.cost_usd),
            "time": amounts.NOTHING if row.latency_ms is None else amounts.span(row.latency_ms),
            "address": address,
            "drawer": drawer,
        }
    else:
        made = row_of(record, address, drawer)
    notes = [str(made["sub"])]
    if indexed.is_flaky:
        made |= {"kind": "flaky", "word": "Flaky"}
    if indexed.has_changed:
        notes.append("newly passing" if indexed.row.passed else "newly failing")
    return made | {"sub": " · ".join(notes)}


def read_records(view: RunView, task_ids: Sequence[str]) -> dict[str, TaskRecord]:
    """Tasks as they may be shown, by their ids; one that is damaged does not hide the others."""
    tasks = [view.task(task_id) for task_id in task_ids]
    events, found = read_events_of(view.run.log, view.run.run_id, tasks), dict[str, TaskRecord]()
    for task in tasks:
        with suppress(msgspec.MsgspecError):
            read, _ = read_task(task, events[task.task_id], view.frame.agent)
            found[task.task_id] = read.record
    return found


# The drawer.


async def drawer(call: PageCall) -> Response:
    """The drawer of one task, for a page that is open."""
    view = await views_of(call.host).of(call.run)
    return await drawer_part(call, view, view.task(call.path["taskId"]))


async def drawer_part(call: PageCall, view: RunView, task: Task) -> Response:
    """The drawer of a task as a part of a page."""
    told = await call.in_reader(partial(read_drawer, call, view, task))
    return part(call, "run_drawer.html", drawer=told)


def read_drawer(call: PageCall, view: RunView, task: Task) -> dict[str, Any]:
    """What the drawer of a task shows."""
    try:
        told = read_details(view, task, MOST_STEPS)
        told["baseline"] = _answer_before(view, task)
    except msgspec.MsgspecError:
        told = damaged_details(view, task)
    around = view.tasks.around(task.task_id)
    run_id, name = view.run.run_id, view.names.name_of(task.task_id)
    said = [each for each in verdicts_of(call, run_id) if each.task_id == task.task_id]
    may_review = call.may("runs:annotate")
    return told | {
        "place": f"task {around.place:,} of {len(view.tasks.rows):,}"
        if around and view.is_whole
        else "",
        "review": review_address(run_id, name) if may_review and view.has_ended else "",
        "said": "" if not said else "pass" if said[-1].passed else "fail",
        "again": f"{run_address(run_id)}/again" if may_repeat(call, view.facts) else "",
        "command": _command(call, view, name),
        "test": f"{review_address(run_id, name)}/test.yaml",
    }


def _answer_before(view: RunView, task: Task) -> str:
    """What the baseline answered, where that run is in the log."""
    if view.frame.baseline is None:
        return ""
    log, run_id = view.run.log, view.frame.baseline.run_id
    try:
        place = scored_at(log, run_id, task.task_id)
        events = read_near_score(log, run_id, task.task_id, task.repeat, place)
    except RunNotFound:
        return ""
    return (
        shortened(readable(read_task(task, events, view.frame.agent)[0].record.output), WHOLE)
        if events
        else ""
    )


def _command(call: PageCall, view: RunView, name: str) -> str:
    """What runs a task of a suite of the folder again; no click starts what a log names."""
    if call.folder is None or view.frame.agent.ref is None:
        return ""
    suite = f"{view.frame.suite.suite_id}@{view.frame.suite.version}"
    offer = call.folder.offer()
    path = next((each.path for each in offer.suites.values() if each.ref == suite), None)
    if path is None or view.frame.agent.ref not in offer.agents:
        return ""
    return call.folder.typed(
        call.folder.words(path, [("agent", view.frame.agent.ref), ("task", name)])
    )


def read_details(
    view: RunView, task: Task, most_steps: int | None = None, *, whole: bool = False
) -> dict[str, Any]:
    """All that is known of a task."""
    place = scored_at(view.run.log, view.run.run_id, task.task_id)
    events = view.events(task, place)
    read, masked = read_task(task, events, view.frame.agent)
    recorded = read.record.findings
    attacks = attacks_in(view.frame.suite.suite_id, view.tasks.places) if recorded else {}
    attack = attacks.get(task.task_id)
    findings = evident_findings(
        task, view.frame.agent.agent_id, events, recorded, attack and attack.mark
    )
    return details_of(
        read,
        masked,
        task_address(view.run.run_id, view.names.name_of(task.task_id)),
        findings=findings,
        agent=view.frame.agent.name,
        most_steps=most_steps,
        longest=WHOLE if whole else SHOWN,
    )


def damaged_details(view: RunView, task: Task) -> dict[str, Any]:
    """What is told of a task whose events cannot be read."""
    called = view.names.of(task.task_id)
    return {
        "key": task.task_id,
        "task_id": called.name,
        "title": called.subtitle or called.name,
        "kind": "error",
        "word": "Cannot be read",
        "address": task_address(view.run.run_id, called.name),
        "answer": [(False, "The events of this task cannot be read.")],
        **dict.fromkeys(("findings", "checks", "judges", "repeats", "steps"), ()),
        **dict.fromkeys(
            ("input", "expected", "baseline", "cause", "check_score", "observed", "error"), ""
        ),
        **dict.fromkeys(
            ("checks_words", "talk_words", "repeats_words", "steps_left", "judges_words"), ""
        ),
    }

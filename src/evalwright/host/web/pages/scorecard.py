"""The scorecard of a run: its bars, and its tasks a page at a time, failures first."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec
from msgspec import UNSET
from starlette.responses import Response

from evalwright.attacks.derived import attacks_in, is_derived
from evalwright.contracts import amounts
from evalwright.contracts.events import Event, Judged
from evalwright.contracts.suite import Task
from evalwright.engine.overrides import read_overrides
from evalwright.host.web.page import PageCall, href_html, part, run_address, task_address
from evalwright.host.web.pages.repeats import (
    Repeats,
    dots_html,
    read_repeats,
    repeats_told,
    runs_passed,
)
from evalwright.host.web.run_views import RunView, RunViews, views_of
from evalwright.reports.formats.html import (
    NO_HTML,
    Html,
    as_markup,
    name_html,
    shortened,
    text_html,
)
from evalwright.reports.formats.words import SEVERITIES, Label, badge_html, in_words
from evalwright.reports.run.attack_table import TaskOutcome, attack_table, unobserved_tasks
from evalwright.reports.run.bars import RunBar, bars_of, score_so_far
from evalwright.reports.run.evidence import EvidentFinding, StepLink, evident_findings
from evalwright.reports.run.page_tasks import BADGES, MET, status_of, task_body
from evalwright.reports.run.task_list import TaskFilter, TaskRow
from evalwright.reports.run.task_records import ReadTask, read_task
from evalwright.reports.run.task_tables import why
from evalwright.scoring.regression import called, change_against_baseline
from evalwright.scoring.rubric import agreement_of
from evalwright.scoring.statistics import wilson
from evalwright.scoring.thresholds import mean

AT_ONCE = 25  # tasks of a page
LARGE = 20_000  # events of a run whose tasks come after the page
ROOM = 24_000  # characters of what opens below the tasks of a page
MOST_CORRECTIONS = 20  # of scores, the latest
_SHORT = 240

DAMAGED = Html('<p class="note bad">The events of this task cannot be read.</p>')
_UNTOLD = badge_html(Label("cannot be told", Html("&#63;"), "plain"))
STATUS_WORDS = {"failed": "failed", "open": "no score", "passed": "passed"}


class TasksAsked(NamedTuple):
    """The filters in an address."""

    status: str = ""
    q: str = ""
    least: str = ""
    most: str = ""
    page: str = ""

    @classmethod
    def of(cls, call: PageCall) -> "TasksAsked":
        """Those of a request; what is not known counts as not given."""
        asked = cls(*map(call.asked, cls._fields))
        return asked._replace(status=asked.status if asked.status in STATUS_WORDS else "")

    @property
    def wanted(self) -> TaskFilter:
        """What the list shows."""
        return TaskFilter(self.status, self.q, number_of(self.least), number_of(self.most))

    def address(self, run_id: str, **changed: str) -> str:
        """The address of the same list, but for what is changed."""
        given = {name: value for name, value in (self._asdict() | changed).items() if value}
        return f"{run_address(run_id)}?{urlencode(given)}" if given else run_address(run_id)


def number_of(text: str) -> float | None:
    """A number in an address; None for anything else."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) < 1e18 else None


async def card(call: PageCall) -> dict[str, Any]:
    """What the page of a run that has ended shows.

    Of a large run whose tasks are not known yet, the page comes first, and asks for them then.
    """
    asked, views = TasksAsked.of(call), views_of(call.host)
    facts = await views.facts(call.run)
    if facts.events > LARGE and not views.knows(call.run) and not call.is_patient:
        return {"loading": asked.address(facts.run_id), "bars": None}
    return {"loading": "", **await _listed(call, views, asked)}


async def tasks(call: PageCall) -> Response:
    """The scorecard without the page around it."""
    found = await _listed(call, views_of(call.host), TasksAsked.of(call))
    return part(call, "scorecard.html", run_id=call.run.run_id, **found)


async def _listed(call: PageCall, views: RunViews, asked: TasksAsked) -> dict[str, Any]:
    """All that the plan and the tasks tell."""
    view = await views.of(call.run)
    repeats = await read_repeats(call, views, view)
    group, passed = view.frame.group, 0
    if repeats and group is not None:
        passed = await call.in_reader(partial(runs_passed, call, group))
    return await call.in_reader(partial(_read_list, view, asked, repeats, passed))


def _read_list(view: RunView, asked: TasksAsked, repeats: Repeats, passed: int) -> dict[str, Any]:
    found = view.tasks.page(asked.wanted, int(number_of(asked.page) or 1), AT_ONCE)
    run_id, counts = view.run.run_id, view.tasks.counts
    pages = [
        (words, asked.address(run_id, page=str(number)))
        for words, number in (("« Previous", found.number - 1), ("Next »", found.number + 1))
        if 1 <= number <= found.pages
    ]
    return {
        "bars": [_bar(each) for each in bars_of(view.frame, view.tasks)],
        "tiles": _tiles(view),
        "facts": list(_facts(view)),
        "baseline": view.frame.baseline.run_id if view.frame.baseline else "",
        "change": _change(view, repeats),
        "attacks": _attacks(view),
        "repeats": repeats_told(repeats, passed),
        "corrections": _corrections(view),
        "asked": asked._asdict(),
        "statuses": [(code, f"{words} ({counts[code]:,})") for code, words in STATUS_WORDS.items()],
        "lines": as_markup(Html("\n".join(_lines(view, found.rows, repeats)))),
        "total": found.total,
        "number": found.number,
        "last_page": found.pages,
        "pages": pages,
        "address": run_address(run_id),
    }


# Above the list.


def _attacks(view: RunView) -> dict[str, Any] | None:
    """What came of the attacks of a derived suite: head, rows, notes."""
    suite = view.frame.suite
    if not is_derived(suite.suite_id):
        return None
    log, run_id = view.run.log, view.run.run_id
    planned = [msgspec.json.decode(each, type=Task) for each in suite.tasks]
    hidden = unobserved_tasks(log, run_id, planned, view.frame.agent)
    outcomes = [
        TaskOutcome(row.task_id, row.passed, row.safety_findings or (), row.task_id in hidden)
        for row in view.tasks.rows
        if row.passed is not None
    ]
    found = attack_table(suite.suite_id, outcomes, view.names)
    if found is None:
        return None
    notes = [shortened(note, _SHORT) for note in found.notes()]
    return {"head": found.head[1:], "rows": list(found.cells()), "notes": notes}


def _corrections(view: RunView) -> list[dict[str, Any]]:
    """What people say of scores; the scores stay as they are."""
    found = read_overrides(view.run.log, view.run.run_id)[-MOST_CORRECTIONS:]
    return [
        {
            "called": view.names.name_of(each.task_id),
            "score": amounts.score(each.score),
            "text": each.annotation.signal.correction or "",
            "note": each.annotation.note or "",
            "by": each.by,
        }
        for each in reversed(found)
    ]


def _change(view: RunView, repeats: Repeats) -> tuple[str, str]:
    """Beside what the run was put, and whether the change is more than chance."""
    if view.frame.baseline is None or view.tasks.totals is None:
        return "", ""
    baseline = view.frame.baseline.read()
    against = f"Against the baseline {called(baseline)}"
    runs = [dict(zip(repeats, each, strict=True)) for each in zip(*repeats.values(), strict=True)]
    ended = [
        {name: passed is True for name, passed in run.items()}
        for run in runs
        if None not in run.values()
    ]
    if len(ended) > 1:
        against += f", all {len(ended)} repeats together"
    else:
        ended = [{row.task_id: row.passed is True for row in view.tasks.rows}]
    return against, change_against_baseline(ended, baseline, view.names.name_of).sentence


def _bar(bar: RunBar) -> dict[str, Any]:
    share, at = bar.share, bar.at
    drawn = NO_HTML
    if share is not None and at is not None:
        drawn = _meter_html(min(1.0, max(0.0, share)), min(1.0, max(0.0, at)))
    label = _UNTOLD if bar.met is None else MET[bar.met]
    return {
        "name": bar.name,
        "wanted": bar.wanted,
        "reached": bar.reached,
        "distance": bar.distance,
        "badge": as_markup(label),
        "meter": as_markup(drawn),
    }


def _meter_html(share: float, at: float) -> Html:
    return Html(
        '<svg class="meter" width="100%" height="14" aria-hidden="true">'
        '<rect class="back" width="100%" height="8" y="3"/>'
        f'<rect class="new" width="{100 * share:.1f}%" height="8" y="3"/>'
        f'<rect class="at" x="{100 * at:.1f}%" width="2" height="14"/></svg>'
    )


def _tiles(view: RunView) -> list[tuple[str, str, str]]:
    """The key numbers: name, number, and what it is set against."""
    tasks = view.tasks
    counts, scored = tasks.counts, len(tasks.rows) - tasks.counts["open"]
    tiles = [
        ("Tasks", f"{len(tasks.rows):,}", f"{counts['open']:,} open" if counts["open"] else "")
    ]
    if scored:
        low, high = wilson(counts["passed"], scored)
        interval = f"95% interval {amounts.share_interval(low, high)}"
        tiles.append(("Passed", amounts.percent(counts["passed"], scored), interval))
        tiles.append(("Score", amounts.score(score_so_far(tasks)), ""))
    tiles.append(("Failed", f"{counts['failed']:,}", ""))
    if tasks.findings:
        tiles.append(("Safety findings", f"{tasks.findings:,}", ""))
    if tasks.totals is not None and tasks.totals.total_cost_usd is not None:
        tiles.append(("Cost", amounts.dollars(tasks.totals.total_cost_usd), ""))
    return tiles


def _facts(view: RunView) -> Iterator[tuple[str, str]]:
    """What ran: name and value."""
    frame = view.frame
    yield "Suite", frame.name
    yield "Agent", frame.agent.agent_id
    if frame.agent.model or frame.agent.model_class:
        yield "Model", frame.agent.model or str(frame.agent.model_class)
    yield "Modes", ", ".join(view.tasks.modes)
    if frame.panel is not None:
        samples = f", {frame.panel.samples} samples each" if frame.panel.samples > 1 else ""
        yield "Judges", f"{', '.join(frame.panel.judges)}{samples}"
        yield from _agreement(view)
    if frame.selection is not None:
        chosen = ", ".join(frame.selection.by)
        yield "Selected", f"{len(view.tasks.rows):,} of {frame.selection.of:,} tasks: {chosen}"
    if frame.group is not None:
        yield "Repeat", f"{frame.group.index} of {frame.group.size}"


def _agreement(view: RunView) -> Iterator[tuple[str, str]]:
    """How far the judges agreed, where that can be told without reading a very large log.

    Of a run it is the mean over its tasks, as everywhere; a single vote agrees with itself.
    """
    panel = view.frame.panel
    if view.facts.events > LARGE or panel is None or len(panel.judges) * panel.samples == 1:
        return
    by_task: dict[str, list[Judged]] = {}
    for event in view.run.log.read(view.run.run_id, (Judged.TYPE,)):
        by_task.setdefault(event.task_id or "", []).append(event.decode(Judged))
    agreed = [each for each in map(agreement_of, by_task.values()) if each is not None]
    if agreed:
        votes = sum(each.votes for each in agreed)
        share = mean([each.share for each in agreed])
        yield "Agreement of judges", f"{amounts.percent(share)}, {votes:,} votes"


# The list.


def _lines(view: RunView, rows: Sequence[TaskRow], repeats: Repeats) -> Iterator[Html]:
    """The entries of a page, with what opens below them as far as there is room."""
    ids = [row.task_id for row in rows]
    places = view.run.log.upkeep.scored_at(view.run.run_id, ids)
    room = ROOM
    for row in rows:
        task = view.task(row.task_id)
        read, body = None, NO_HTML
        if room > 0 and (row.passed is False or task.repeat > 1):
            read, body = _result_within(room, view, task, places.get(row.task_id))
            is_far = read is None and not body  # so are the others, and each would be searched for
            room = 0 if is_far else room - len(body)
        yield _line(view, row, read, body, repeats.get(row.task_id, ()))


def _result_within(
    room: int, view: RunView, task: Task, last: int | None
) -> tuple[ReadTask | None, Html]:
    """A task and what opens below it, if that is short, and found without a long search."""
    try:
        events = view.events(task, last) if view.facts.events <= LARGE else view.near(task, last)
        if events is None:
            return None, NO_HTML
        read, _ = read_task(task, events, view.frame.agent)
        body = result_html(view, task, read, events)
    except msgspec.MsgspecError:  # one damaged task does not hide the others
        return None, DAMAGED
    return read, body if len(body) < room else NO_HTML


def shown_task(view: RunView, task: Task, last: int | None) -> tuple[ReadTask, list[Event]]:
    """A task as it may be shown, and its events as they are."""
    events = view.events(task, last)
    return read_task(task, events, view.frame.agent)[0], events


def result_html(view: RunView, task: Task, read: ReadTask, events: Sequence[Event]) -> Html:
    """Expected and actual, checks, findings and what judges said."""
    recorded = read.record.findings
    attacks = attacks_in(view.frame.suite.suite_id, view.tasks.places) if recorded else {}
    attack = attacks.get(task.task_id)
    found = evident_findings(
        task, view.frame.agent.agent_id, events, recorded, attack and attack.mark
    )
    address = task_address(view.run.run_id, view.names.name_of(task.task_id))
    return task_body(read, findings=_findings_html(found, address), with_trace=False)


def _line(
    view: RunView,
    row: TaskRow,
    read: ReadTask | None,
    body: Html,
    repeats: Sequence[bool | None],
) -> Html:
    status = row.status if read is None else status_of(read.record)
    is_far = read is None and not body and row.passed is False
    called = view.names.of(row.task_id)
    address = href_html(task_address(view.run.run_id, called.name))
    name = Html(f'<a href="{address}"><code>{name_html(called.name)}</code></a>')
    if called.beside:
        name = Html(f"{name} <span>{text_html(called.beside)}</span>")
    told_checks = "" if read is None else read.record.checks_on_pages
    head = Html(f"{BADGES[status]} {name} {_figures(row, told_checks)}{_dots(read, repeats)}")
    told = NO_HTML
    if read is not None and status != "passed":
        told = Html(f'<p class="why">{text_html(shortened(why(read.record), _SHORT))}</p>')
    load = NO_HTML
    if not body:
        trigger = Html("revealed" if is_far else "toggle once")
        load = Html(
            f' hx-get="{address}/result" hx-trigger="{trigger}" hx-target="find .task"'
            ' hx-swap="innerHTML"'
        )
    opened = Html(" open" if is_far or (body and status != "passed") else "")
    details = Html(
        f"<details{opened}{load}><summary>Result of {name_html(row.task_id)}</summary>"
        f'<div class="task">{body}</div></details>'
    )
    failed = Html(" data-failed" if row.passed is False else "")
    return Html(f'<li data-task{failed}><div class="row">{head}</div>{told}{details}</li>')


def _figures(row: TaskRow, checks: str) -> Html:
    facts = [] if row.score is None else [f"score {amounts.score(row.score)}"]
    facts += [checks] if checks else []
    if row.latency_ms is not None:
        facts.append(amounts.span(row.latency_ms))
    if row.cost_usd is not None:
        facts.append(amounts.dollars(row.cost_usd))
    return Html(f'<span class="muted">{text_html(" · ".join(facts))}</span>')


def _dots(read: ReadTask | None, repeats: Sequence[bool | None]) -> Html:
    strips = []
    if read is not None and read.record.repetitions is not UNSET:
        strips.append(dots_html([each.passed is True for each in read.record.repetitions]))
    if repeats:
        strips.append(dots_html(repeats))
    return Html("".join([Html(f" {each}") for each in strips]))


def _findings_html(found: Sequence[EvidentFinding], address: str) -> Html:
    if not found:
        return NO_HTML
    entries = Html("".join([_finding_html(each, address) for each in found]))
    return Html(f'<h3>Safety findings</h3><ul class="checks">{entries}</ul>')


def _finding_html(found: EvidentFinding, address: str) -> Html:
    head = Html(f"{badge_html(SEVERITIES[found.severity])} {text_html(in_words(found.kind))}")
    if not found.title:
        return Html(f'<li>{head} <span class="muted">by a judge</span></li>')
    links = Html(", ".join([_evidence_html(each, address) for each in found.links]))
    evidence = Html(f'<p class="why">Evidence: {links}</p>' if links else "")
    notes = Html(f'<p class="why">{text_html(found.notes)}</p>' if found.notes else "")
    return Html(f"<li>{head}: {text_html(found.title)}{notes}{evidence}</li>")


def _evidence_html(link: StepLink, address: str) -> Html:
    words = text_html(link.words[:100])
    if link.sequence is None:
        return words
    return Html(f'<a href="{href_html(address)}#s{link.sequence}">{words}</a>')


async def result(call: PageCall) -> Response:
    """What opens below one task."""
    view = await views_of(call.host).of(call.run)
    task = view.task(call.path["taskId"])

    def read() -> Html:
        place = view.run.log.upkeep.scored_at(view.run.run_id, [task.task_id]).get(task.task_id)
        try:
            return result_html(view, task, *shown_task(view, task, place))
        except msgspec.MsgspecError:
            return DAMAGED

    return Response(await call.in_reader(read), media_type="text/html")

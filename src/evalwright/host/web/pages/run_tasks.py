"""The scorecard of a run: its bars, and its tasks a page at a time, failures first."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, ClassVar

import msgspec
from msgspec import UNSET
from starlette.responses import Response

from evalwright.attacks.derived import attacks_in, is_derived
from evalwright.contracts import amounts
from evalwright.contracts.events import Event, Judged
from evalwright.contracts.suite import Task
from evalwright.engine.overrides import read_overrides
from evalwright.host.web.filters import Filters, number_of
from evalwright.host.web.page import PageCall, href_html, part, run_address, task_address
from evalwright.host.web.pages.repeated_runs import (
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
from evalwright.reports.run.evidence import EvidentFinding, evident_findings
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


class TasksAsked(Filters, frozen=True):
    """The filters in an address."""

    CHOICES: ClassVar = {"status": STATUS_WORDS}

    status: str = ""
    q: str = ""
    least: str = ""
    most: str = ""
    page: str = ""


async def card(call: PageCall) -> dict[str, Any]:
    """What the page of a run that has ended shows.

    Of a large run whose tasks are not known yet, the page comes first, and asks for them then.
    """
    asked, views = TasksAsked.of(call), views_of(call.host)
    facts = await views.facts(call.run)
    if facts.events > LARGE and not views.knows(call.run) and not call.is_patient:
        return {"loading": asked.address(run_address(facts.run_id)), "bars": None}
    return {"loading": "", **await _listed(call, views, asked)}


async def tasks(call: PageCall) -> Response:
    """The scorecard without the page around it."""
    found = await _listed(call, views_of(call.host), TasksAsked.of(call))
    return part(call, "scorecard.html", run_id=call.run.run_id, **found)


async def _listed(call: PageCall, views: RunViews, asked: TasksAsked) -> dict[str, Any]:
    view = await views.of(call.run)
    repeats = await read_repeats(call, views, view)
    group, passed = view.frame.group, 0
    if repeats and group is not None:
        passed = await call.in_reader(partial(runs_passed, call, group))
    return await call.in_reader(partial(_read_list, view, asked, repeats, passed))


def _read_list(view: RunView, asked: TasksAsked, repeats: Repeats, passed: int) -> dict[str, Any]:
    wanted = TaskFilter(asked.status, asked.q, number_of(asked.least), number_of(asked.most))
    found = view.tasks.page(wanted, int(number_of(asked.page) or 1), AT_ONCE)
    address, counts = run_address(view.run.run_id), view.tasks.counts
    pages = [
        (words, asked.address(address, page=str(number)))
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
        "asked": asked.values(),
        "statuses": [(code, f"{words} ({counts[code]:,})") for code, words in STATUS_WORDS.items()],
        "lines": as_markup(Html("\n".join(_lines(view, found.rows, repeats)))),
        "total": found.total,
        "number": found.number,
        "last_page": found.pages,
        "pages": pages,
        "address": address,
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
    meter = NO_HTML
    if bar.share is not None and bar.at is not None:
        share, at = (100 * min(1.0, max(0.0, each)) for each in (bar.share, bar.at))
        meter = Html(
            '<svg class="meter" width="100%" height="14" aria-hidden="true">'
            '<rect class="back" width="100%" height="8" y="3"/>'
            f'<rect class="new" width="{share:.1f}%" height="8" y="3"/>'
            f'<rect class="at" x="{at:.1f}%" width="2" height="14"/></svg>'
        )
    return {
        "name": bar.name,
        "wanted": bar.wanted,
        "reached": bar.reached,
        "distance": bar.distance,
        "badge": as_markup(_UNTOLD if bar.met is None else MET[bar.met]),
        "meter": as_markup(meter),
    }


def _tiles(view: RunView) -> list[tuple[str, str, str]]:
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
    frame = view.frame
    yield "Suite", frame.name
    yield "Agent", frame.agent.agent_id
    if frame.agent.model or frame.agent.model_class:
        yield "Model", frame.agent.model or str(frame.agent.model_class)
    yield "Modes", ", ".join(view.tasks.modes)
    if frame.panel is not None:
        samples = f", {frame.panel.samples} samples each" if frame.panel.samples > 1 else ""
        yield "Judges", f"{', '.join(frame.panel.judges)}{samples}"
        share, votes = _agreement(view)
        if votes:
            yield "Agreement of judges", f"{amounts.percent(share)}, {votes:,} votes"
    if frame.selection is not None:
        chosen = ", ".join(frame.selection.by)
        yield "Selected", f"{len(view.tasks.rows):,} of {frame.selection.of:,} tasks: {chosen}"
    if frame.group is not None:
        yield "Repeat", f"{frame.group.index} of {frame.group.size}"


def _agreement(view: RunView) -> tuple[float, int]:
    """How far the judges agreed, where that can be told without reading a very large log.

    Of a run it is the mean over its tasks, as everywhere; a single vote agrees with itself.
    """
    panel = view.frame.panel
    if view.facts.events > LARGE or panel is None or len(panel.judges) * panel.samples == 1:
        return 0.0, 0
    by_task: dict[str, list[Judged]] = {}
    for event in view.run.log.read(view.run.run_id, (Judged.TYPE,)):
        by_task.setdefault(event.task_id or "", []).append(event.decode(Judged))
    agreed = [each for each in map(agreement_of, by_task.values()) if each is not None]
    votes = sum(each.votes for each in agreed)
    return mean([each.share for each in agreed]) if agreed else 0.0, votes


# The list.


def _lines(view: RunView, rows: Sequence[TaskRow], repeats: Repeats) -> Iterator[Html]:
    """The entries of a page, with what opens below them as far as there is room."""
    ids = [row.task_id for row in rows]
    places = view.run.log.upkeep.scored_at(view.run.run_id, ids)
    room = ROOM
    for row in rows:
        task, last = view.task(row.task_id), places.get(row.task_id)
        read: ReadTask | None = None
        body = NO_HTML
        if room > 0 and (row.passed is False or task.repeat > 1):
            is_far, is_large = False, view.facts.events > LARGE
            try:
                events = view.near(task, last) if is_large else view.events(task, last)
                is_far = events is None  # so are the others, and each would be searched for
                if events is not None:
                    read, _ = read_task(task, events, view.frame.agent)
                    body = result_html(view, task, read, events)
                    body = body if len(body) < room else NO_HTML
            except msgspec.MsgspecError:  # one damaged task does not hide the others
                read, body = None, DAMAGED
            room = 0 if is_far else room - len(body)
        yield _line(view, row, read, body, repeats.get(row.task_id, ()))


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
    entries = Html("".join([_finding_html(each, address) for each in found]))
    findings = Html(f'<h3>Safety findings</h3><ul class="checks">{entries}</ul>')
    return task_body(read, findings=findings if found else NO_HTML, with_trace=False)


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
    if called.subtitle:
        name = Html(f"{name} <span>{text_html(called.subtitle)}</span>")
    facts = [] if row.score is None else [f"score {amounts.score(row.score)}"]
    facts += [read.record.checks_on_pages] if read and read.record.checks_on_pages else []
    facts += [] if row.latency_ms is None else [amounts.span(row.latency_ms)]
    facts += [] if row.cost_usd is None else [amounts.dollars(row.cost_usd)]
    figures = Html(f'<span class="muted">{text_html(" · ".join(facts))}</span>')
    strips = list[Html]()
    if read is not None and read.record.repetitions is not UNSET:
        strips.append(dots_html([each.passed is True for each in read.record.repetitions]))
    if repeats:
        strips.append(dots_html(repeats))
    dots = Html("".join([Html(f" {each}") for each in strips]))
    head = Html(f"{BADGES[status]} {name} {figures}{dots}")
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


def _finding_html(found: EvidentFinding, address: str) -> Html:
    head = Html(f"{badge_html(SEVERITIES[found.severity])} {text_html(in_words(found.kind))}")
    if not found.title:
        return Html(f'<li>{head} <span class="muted">by a judge</span></li>')
    links = list[Html]()
    for link in found.links:
        words = text_html(link.words[:100])
        if link.sequence is not None:
            words = Html(f'<a href="{href_html(address)}#s{link.sequence}">{words}</a>')
        links.append(words)
    evidence = Html(f'<p class="why">Evidence: {Html(", ".join(links))}</p>' if links else "")
    notes = Html(f'<p class="why">{text_html(found.notes)}</p>' if found.notes else "")
    return Html(f"<li>{head}: {text_html(found.title)}{notes}{evidence}</li>")


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

"""One run as one self-contained HTML page, and the run itself inside it.

What is not needed for the first view is compressed and read by the page's script when it is asked
for: the lines of all tasks, what opens below them, and the events, which make the page a run that
other commands take.
"""

import base64
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import msgspec
from msgspec import UNSET

from evalwright.attacks.derived import is_derived
from evalwright.contracts import amounts
from evalwright.contracts.documents import without_collecting
from evalwright.contracts.run_plan import FIRST_RULE
from evalwright.contracts.short_names import suite_name
from evalwright.contracts.times import iso_time
from evalwright.engine.task_names import TaskNames
from evalwright.reports.design.markup import as_markup, content_policy, source_hash
from evalwright.reports.formats.html import (
    NO_HTML,
    RESULTS,
    STYLE_SHEET,
    VERDICTS,
    Html,
    own_file,
    render,
    text_html,
)
from evalwright.reports.formats.text import clipped, display_text
from evalwright.reports.run.junit import FailedRun, Reported, ReportedRun, ReportedSeveral
from evalwright.reports.run.page_tasks import searched_line, task_body, task_line
from evalwright.reports.run.task_details import status_of
from evalwright.reports.run.task_records import RunReading
from evalwright.reports.run.task_tables import failed_checks
from evalwright.scoring.pass_bars import EVERY_TASK
from evalwright.scoring.thresholds import p95, pass_score

_AT_ONCE = 100  # tasks that are listed in the page itself
_OPEN_AT_ONCE = 3  # failures
_BODIES_AT_ONCE = 250_000  # characters of what opens below those
_BLOCK = 100  # tasks whose bodies are compressed together
_MOST = 100  # entries of a selection
_MOST_BARS = 12
_LONG = 400
_ORDER = ("failed", "error", "open", "passed")
_STATUSES = {status: VERDICTS[status].words for status in _ORDER}


def render_html(runs: Sequence[Reported]) -> bytes:
    """The page of the first run: a page is of one."""
    first = next(run for run in runs if not isinstance(run, ReportedSeveral))
    with without_collecting():
        return _page(first)


def _page(run: ReportedRun | FailedRun) -> bytes:
    assert run.read is not None, "a page is made of all tasks"
    reading = run.read()
    tasks = sorted(reading.tasks, key=lambda task: _ORDER.index(status_of(task.record)))
    style, script = _own_sources()
    # The checks that failed most: name, how often, and the width of a bar
    counts = Counter(check.check for task in tasks for check in failed_checks(task.record))
    errors = sum(task.record.error is not UNSET for task in tasks)
    if errors:
        counts["error"] = errors
    most = max(counts.values(), default=1)
    # The selections above the list: name, label, and options with their words
    present = {status_of(task.record) for task in tasks}
    statuses = [(code, words.lower()) for code, words in _STATUSES.items() if code in present]
    checks = Counter(check.check for task in tasks for check in failed_checks(task.record))
    tags = Counter(tag for task in tasks for tag in task.record.tags or ())
    offered = [("result", "Result", statuses)]
    for name, label, counted in (("check", "Failed check", checks), ("tag", "Tag", tags)):
        if counted:
            known = [each for each, _ in counted.most_common(_MOST)]
            chosen = [(display_text(each), clipped(each, 60)) for each in known]
            offered.append((name, label, sorted(chosen)))
    # All that the page holds compressed: lines, bodies, and the events where none is masked
    lines = msgspec.json.encode([searched_line(task, n) for n, task in enumerate(tasks)])
    blocks = [_block(Html("lines"), lines)]
    for first in range(0, len(tasks), _BLOCK):
        bodies = msgspec.json.encode([task_body(task) for task in tasks[first : first + _BLOCK]])
        blocks.append(_block(Html(f"bodies-{first // _BLOCK}"), bodies))
    if not reading.is_masked:
        rows = [
            (each.type, each.task_id, each.at_us, msgspec.Raw(each.body)) for each in reading.events
        ]
        packed = _base64(zlib.compress(msgspec.json.encode((reading.events[0].run_id, rows)), 6))
        opening = Html('<script type="application/vnd.evalwright.events+zlib" id="events">')
        blocks.append(Html(f"{opening}{packed}</script>"))  # `engine.runs` finds it by this
    # The lines that stand in the page, with bodies as far as there is room for them
    shown, room = list[Html](), _BODIES_AT_ONCE
    for number, task in enumerate(tasks[:_AT_ONCE]):
        body = task_body(task) if room > 0 else NO_HTML
        room -= len(body)
        is_open = number < _OPEN_AT_ONCE and task.record.passed is not True and room > 0
        shown.append(task_line(task, number, body if room > 0 else NO_HTML, is_open=is_open))
    page = render(
        "run",
        "page.html",
        csp=content_policy(source_hash(style), source_hash(script)),
        style=as_markup(style),
        script=as_markup(script),
        run_id=display_text(run.run_id),
        agent=clipped(reading.planned.agent.name, _LONG),
        date=iso_time(reading.started.at_us)[:10],
        masked=not reading.shows_secrets,
        tiles=list(_tiles(run, reading)),
        chart=[
            (clipped(name, 60), count, f"{100 * count / most:.1f}%")
            for name, count in counts.most_common(_MOST_BARS)
        ],
        attacks=_attacks(reading),
        facts=list(_facts(run, reading)),
        has_events=not reading.is_masked,
        total=len(tasks),
        total_words=f"{len(tasks):,}",
        at_once=_AT_ONCE,
        block=_BLOCK,
        lines=as_markup(Html("\n".join(shown))),
        filters=offered,
        data=as_markup(Html("\n".join(blocks))),
        **_verdict(run),
    )
    return page.encode("utf-8", "backslashreplace")


@cache
def _own_sources() -> tuple[Html, Html]:
    """The style and the script that are part of the page."""
    style = Html(STYLE_SHEET + own_file("run", "templates/page.css"))
    return style, own_file("run", "templates/page.js")


def _verdict(run: ReportedRun | FailedRun) -> dict[str, Any]:
    if isinstance(run, FailedRun):
        reason = f"{run.code}: {run.message}"
        return {
            "verdict": "No result",
            "tone": "bad",
            "name": "",
            "reasons": [clipped(reason, _LONG)],
            "change": [],
        }
    summary, change = run.summary, list[tuple[str, str]]()
    if run.change is not None:  # beside what the run was put, and whether that is chance
        against, sentence = f"Against the baseline {run.change.called}", run.change.sentence
        if run.repeats is not None:
            against, sentence = f"{against}, all repeats together", run.repeats.change
        change.append((clipped(against, _LONG), clipped(sentence, 5 * _LONG)))
    return {
        "verdict": display_text(run.verdict),
        "tone": RESULTS[run.passed].tone,
        "name": display_text(suite_name(f"{summary.suite_id}@{summary.suite_version}")),
        "reasons": [clipped(reason, _LONG) for reason in [*run.reasons, *run.marks]],
        "change": change,
    }


def _tiles(
    run: ReportedRun | FailedRun, reading: RunReading
) -> Iterator[tuple[str, str, str, str]]:
    """The key numbers: name, number, the bar that is set for it, tone."""
    records = [task.record for task in reading.tasks]
    counts = Counter(status_of(record) for record in records)
    bars = reading.planned.suite.thresholds
    selection = reading.planned.selection
    part = f"a part: {selection.of:,} in the suite" if selection else ""
    yield "Tasks", f"{len(records):,}", part, ""
    # How many tasks must pass, where that is asked for.
    wanted, is_first_rule = "", reading.planned.scoring == FIRST_RULE
    if bars.pass_rate is not None:
        wanted = f"bar {amounts.bar(bars.pass_rate)}"
    elif bars.pass_score is None and not bars.tags and not is_first_rule:
        wanted = EVERY_TASK
    passed = counts["passed"]
    told = ", ".join(filter(None, (f"{passed:,} tasks", wanted)))
    yield "Passed", amounts.percent(passed, len(records)), told, ""
    if isinstance(run, ReportedRun):
        bar, score = bars.pass_score, run.summary.aggregate_score
        if is_first_rule:
            bar = pass_score(bars)
        if bar is None:
            yield "Score", f"{score:.4g}", "", ""
        else:
            tone = "bad" if score < bar else "good"
            yield "Score", f"{score:.4g}", f"bar {amounts.bar(bar)}", tone
    for status in ("failed", "error", "open"):
        if counts[status] or status == "failed":
            tone = "bad" if counts[status] else ""
            yield _STATUSES[status], f"{counts[status]:,}", "", tone
    found = sum(len(record.findings) for record in records)
    if found:
        yield "Safety findings", f"{found:,}", "", "bad"
    latencies = sorted(each.latency_ms for each in records if each.latency_ms is not None)
    if latencies:
        middle, high, most = (
            latencies[(len(latencies) - 1) // 2],
            p95(latencies),
            bars.max_p95_latency_ms,
        )
        yield "Median latency", amounts.duration(middle, high), "", ""
        against = "" if most is None else f"bar {amounts.span(most)}"
        tone = "bad" if most is not None and high > most else ""
        yield "p95 latency", amounts.span(high), against, tone
    if isinstance(run, ReportedRun) and run.summary.total_cost_usd is not None:
        cost, limit = run.summary.total_cost_usd, bars.max_cost_usd
        against = "" if limit is None else f"bar {amounts.dollars(limit)}"
        yield "Cost", amounts.dollars(cost), against, "bad" if limit and cost > limit else ""


def _attacks(reading: RunReading) -> dict[str, Any] | None:
    """What came of the attacks of a derived suite: head, rows, notes."""
    if not is_derived(reading.planned.suite.suite_id):
        return None
    from evalwright.reports.run.attack_table import attack_table, recorded_outcomes

    suite = reading.planned.suite
    records = [task.record for task in reading.tasks]
    names = TaskNames.of_tasks(suite.tasks)
    found = attack_table(suite.suite_id, recorded_outcomes(suite.tasks, records), names)
    if found is None:
        return None
    notes = [clipped(note, _LONG) for note in found.notes()]
    return {"head": found.head[1:], "rows": list(found.cells()), "notes": notes}


def _facts(run: ReportedRun | FailedRun, reading: RunReading) -> Iterator[tuple[str, str]]:
    """What ran: name and value."""
    planned = reading.planned
    agent, suite = planned.agent, planned.suite
    yield "Suite", clipped(f"{suite.suite_id}@{suite.version}", _LONG)
    yield "Agent", clipped(agent.agent_id, _LONG)
    if agent.model_class:
        yield "Model class", clipped(agent.model_class, _LONG)
    yield "Started", iso_time(reading.started.at_us)
    if planned.panel is not None:
        yield "Judges", clipped(", ".join(planned.panel.judges), _LONG)
    if planned.selection is not None:
        chosen = ", ".join(planned.selection.by)
        yield (
            "Selected",
            clipped(f"{len(reading.tasks):,} of {planned.selection.of:,}: {chosen}", _LONG),
        )
    if planned.baseline is not None:
        yield "Baseline", clipped(planned.baseline.run_id, _LONG)
    if planned.group is not None:
        yield "Repeat", f"{planned.group.index} of {planned.group.size}"
    if isinstance(run, ReportedRun) and run.repeats is not None:
        told = "; ".join((run.repeats.verdict, *run.repeats.reasons))
        yield "All repeats", clipped(told, _LONG)
    for line in run.tag_bars if isinstance(run, ReportedRun) else ():
        yield "Bar", clipped(line, _LONG)


def _block(name: Html, data: bytes) -> Html:
    packed = _base64(zlib.compress(data, 6))
    return Html(
        f'<script type="application/vnd.evalwright.data+zlib" id="{name}">{packed}</script>'
    )


def _base64(data: bytes) -> Html:
    return text_html(base64.b64encode(data).decode())

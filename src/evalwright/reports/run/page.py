"""Runs as one self-contained HTML page: one run with the run itself inside, or several as a matrix.

What is not needed for the first view is compressed and read by the page's script when it is asked
for: the lines of all tasks, what opens below them, and the events, which make the page a run that
other commands take.
"""

import base64
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import msgspec
from msgspec import UNSET

from evalwright.attacks.derived import is_derived
from evalwright.contracts import amounts
from evalwright.contracts.coverage import coverage_in_words
from evalwright.contracts.documents import without_collecting
from evalwright.contracts.events import EvalStarted, Planned
from evalwright.contracts.run_plan import FIRST_RULE
from evalwright.contracts.short_names import suite_name
from evalwright.contracts.times import iso_time
from evalwright.engine.task_names import TaskNames, asked, cut
from evalwright.reports.design.files import text
from evalwright.reports.design.markup import as_markup, render, render_file
from evalwright.reports.design.talk import Remark, TalkStep
from evalwright.reports.formats.text import clipped, display_text, shortened
from evalwright.reports.formats.words import VERDICTS, in_words
from evalwright.reports.run.bars import verdict_told
from evalwright.reports.run.conversation import readable
from evalwright.reports.run.fault_table import fault_table, outcomes_told
from evalwright.reports.run.junit import FailedRun, Reported, ReportedRun, ReportedSeveral
from evalwright.reports.run.run_matrix import LEAST, MOST, MatrixRun, RunMatrix
from evalwright.reports.run.task_details import (
    CELL,
    KINDS,
    LONG,
    attempt_kind,
    details_of,
    status_of,
)
from evalwright.reports.run.task_list import RunFrame, RunTotals, TaskList, TaskRow
from evalwright.reports.run.task_records import AttemptRecord, ReadTask, RunReading, TaskRecord
from evalwright.reports.run.task_tables import failed_checks, why
from evalwright.scoring.pass_bars import EVERY_TASK
from evalwright.scoring.thresholds import p95, pass_score

_AT_ONCE = 100  # tasks that are listed in the page itself
_OPEN_AT_ONCE = 3  # failures
_BODIES_AT_ONCE = 250_000  # characters of what opens below those
_BLOCK = 100  # tasks whose bodies are compressed together
_MOST = 100  # entries of a selection
_MOST_STEPS = 200  # of a conversation
_MOST_BARS = 12
_LONG = 400
_SHORT = 240
_MATRIX_TASKS = 200
_ORDER = ("failed", "error", "open", "passed")


class TaskLine(NamedTuple):
    """What the page knows of a task before it is opened."""

    status: str
    checks: str  # names of the checks that failed, each between line ends
    tags: str  # likewise
    text: str  # what a search looks at first
    html: str


def render_html(runs: Sequence[Reported]) -> bytes:
    """The page of a run; of several, the matrix of their answers."""
    single = [run for run in runs if not isinstance(run, ReportedSeveral)]
    ended = [run for run in single if isinstance(run, ReportedRun)]
    with without_collecting():
        return _page(single[0]) if len(ended) < LEAST else _matrix_page(runs, ended)


def _page(run: ReportedRun | FailedRun) -> bytes:
    assert run.read is not None, "a page is made of all tasks"
    reading = run.read()
    tasks = sorted(reading.tasks, key=lambda task: _ORDER.index(status_of(task.record)))
    counts = Counter(status_of(task.record) for task in tasks)
    passed, rest = counts["passed"], len(tasks) - counts["passed"]
    # The checks that failed most: name, how often, the share of the bar, and the filter
    checks = Counter(check.check for task in tasks for check in failed_checks(task.record))
    bars = [(name, count, f"#{_filter(check=name)}") for name, count in checks.most_common()]
    if counts["error"]:
        bars.append(("error", counts["error"], f"#{_filter(result='error')}"))
    bars.sort(key=lambda bar: -bar[1])
    most = max((count for _, count, _ in bars), default=1)
    # The selections above the list: name, label, and options with their words
    tags = Counter(tag for task in tasks for tag in task.record.tags or ())
    statuses = [(code, VERDICTS[code].words.lower()) for code in _ORDER if counts[code]]
    offered = [("result", "Result", statuses)]
    for name, label, counted in (("check", "Failed check", checks), ("tag", "Tag", tags)):
        if counted:
            known = [each for each, _ in counted.most_common(_MOST)]
            chosen = [(display_text(each), clipped(each, 60)) for each in known]
            offered.append((name, label, sorted(chosen)))
    # All that the page holds compressed: lines, bodies, and the events where none is masked
    lines = [_searched_line(task, number) for number, task in enumerate(tasks)]
    blocks = [_block("data", "lines", msgspec.json.encode(lines))]
    bodies: list[str] = []
    for first in range(0, len(tasks), _BLOCK):
        part = [_task_body(task) for task in tasks[first : first + _BLOCK]]
        bodies += part if first < _AT_ONCE else []
        blocks.append(_block("data", f"bodies-{first // _BLOCK}", msgspec.json.encode(part)))
    if not reading.is_masked:
        rows = [
            (each.type, each.task_id, each.at_us, msgspec.Raw(each.body)) for each in reading.events
        ]
        # `engine.runs` finds it by its type and id.
        packed = msgspec.json.encode((reading.events[0].run_id, rows))
        blocks.append(_block("events", "events", packed))
    # The lines that stand in the page, with bodies as far as there is room for them
    shown, room = list[str](), _BODIES_AT_ONCE
    for number, task in enumerate(tasks[: min(rest, _AT_ONCE)]):
        room -= len(bodies[number])
        is_open = number < _OPEN_AT_ONCE and room > 0
        shown.append(_task_line(task, number, bodies[number] if room > 0 else "", is_open=is_open))
    first_passed = [_passed_row(task.record) for task in tasks[rest : rest + _AT_ONCE]]
    noun = "task" if rest == 1 else "tasks"
    return render_file(
        "run",
        "page.html",
        script=text("page.js", "run"),
        run_id=run.run_id,
        agent=clipped(reading.planned.agent.name, _LONG),
        date=iso_time(reading.started.at_us)[:10],
        masked=not reading.shows_secrets,
        **_verdict(run, reading),
        figures=list(_figures(run, reading)),
        chart=[
            (clipped(name, 60), count, count / most, address)
            for name, count, address in bars[:_MOST_BARS]
        ],
        attacks=_attacks(reading),
        faults=_faults(reading),
        facts=list(_facts(run, reading)),
        has_events=not reading.is_masked,
        total=len(tasks),
        rest=rest,
        count_words=f"{rest:,} {noun} did not pass, of {len(tasks):,}",
        at_once=_AT_ONCE,
        block=_BLOCK,
        lines=[as_markup(each) for each in shown],
        left_out=max(rest, passed) > _AT_ONCE,
        passed=first_passed,
        passed_count=passed,
        filters=offered,
        data=as_markup("\n".join(blocks)),
    )


def _verdict(run: ReportedRun | FailedRun, reading: RunReading) -> dict[str, Any]:
    if isinstance(run, FailedRun):
        reason = clipped(f"{run.code}: {run.message}", _LONG)
        told: dict[str, Any] = {"verdict": "unsure", "heading": "No result", "reasons": [reason]}
        return told | {"name": "", "words": "", "why": "", "gauges": [], "change": []}
    summary, change = run.summary, list[tuple[str, str]]()
    if run.change is not None:  # beside what the run was put, and whether that is chance
        against, sentence = f"Against the baseline {run.change.called}", run.change.sentence
        if run.repeats is not None:
            against, sentence = f"{against}, all repeats together", run.repeats.change
        change.append((clipped(against, _LONG), clipped(sentence, 5 * _LONG)))
    seen = verdict_told(*_listed(run, reading), passed=run.passed, words=run.words)
    reasons = [clipped(reason, _LONG) for reason in [*run.reasons, *run.marks]]
    return {
        "verdict": "pass" if run.passed else "fail",
        "heading": "May ship" if run.passed else "Do not ship",
        "words": run.words if run.passed else "",
        "name": suite_name(f"{summary.suite_id}@{summary.suite_version}"),
        "why": "" if run.reasons else seen["why"],
        "gauges": seen["gauges"],
        "reasons": reasons,
        "change": change,
    }


def _listed(run: ReportedRun, reading: RunReading) -> tuple[RunFrame, TaskList]:
    """The plan and the list of tasks, as pages of a host read them of a log."""
    by_type = {event.type: event for event in reversed(reading.events)}
    frame: RunFrame = by_type[Planned.TYPE].decode(RunFrame)  # type: ignore[type-var]
    started = by_type.get(EvalStarted.TYPE)
    rows = [
        TaskRow(
            each.task_id,
            each.score,
            each.passed,
            each.usage.cost_usd,
            each.latency_ms,
            each.findings,
        )
        for each in (task.record for task in reading.tasks)
    ]
    summary = run.summary
    totals = RunTotals(summary.aggregate_score, summary.passed, rows, summary.total_cost_usd)
    modes = started.decode(EvalStarted).modes if started else []
    return frame, TaskList(rows, modes, totals)


def _figures(run: ReportedRun | FailedRun, reading: RunReading) -> Iterator[tuple[str, str, str]]:
    """Key numbers beside the bars: name, number, what is to be known of it."""
    records = [task.record for task in reading.tasks]
    counts = Counter(status_of(record) for record in records)
    bars = reading.planned.suite.thresholds
    selection, is_first_rule = reading.planned.selection, reading.planned.scoring == FIRST_RULE
    yield "Tasks", f"{len(records):,}", f"{selection.of:,} in the suite" if selection else ""
    has_bar = bars.pass_rate or bars.pass_score or bars.tags or is_first_rule
    yield (
        "Passed",
        f"{counts['passed']:,}",
        "" if has_bar else EVERY_TASK.removesuffix(" (default)"),
    )
    for status in ("failed", "error", "open"):
        if counts[status]:
            yield VERDICTS[status].words, f"{counts[status]:,}", ""
    if isinstance(run, ReportedRun):
        bar = pass_score(bars) if is_first_rule else bars.pass_score
        score = f"{run.summary.aggregate_score:.4g}"
        yield "Score", score, "" if bar is None else f"bar {amounts.bar(bar)}"
    found = sum(len(record.findings) for record in records)
    if found:
        yield "Safety findings", f"{found:,}", ""
    latencies = sorted(each.latency_ms for each in records if each.latency_ms is not None)
    if latencies:
        middle, high = latencies[(len(latencies) - 1) // 2], p95(latencies)
        yield "Median time", amounts.duration(middle, high), f"p95 {amounts.span(high)}"
    if isinstance(run, ReportedRun) and run.summary.total_cost_usd is not None:
        yield "Cost", amounts.dollars(run.summary.total_cost_usd), ""


def _attacks(reading: RunReading) -> dict[str, Any] | None:
    """What came of the attacks of a derived suite: head, rows, notes."""
    if not is_derived(reading.planned.suite.suite_id):
        return None
    from evalwright.reports.run.attack_table import attack_table, recorded_outcomes

    suite = reading.planned.suite
    records = [task.record for task in reading.tasks]
    names = TaskNames.of_tasks(suite.tasks)
    found = attack_table(suite.suite_id, recorded_outcomes(suite.tasks, records), names)
    return outcomes_told(found)


def _faults(reading: RunReading) -> dict[str, Any] | None:
    """What came of the faults among the tools, where tasks have any."""
    tasks = reading.planned.suite.tasks
    if not any(task.faults for task in tasks):
        return None
    passed = {
        each.record.task_id: each.record.passed
        for each in reading.tasks
        if each.record.passed is not None
    }
    return outcomes_told(fault_table(tasks, passed, reading.events))


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
    if planned.settings.user_model is not None:
        yield "Users played by", clipped(planned.settings.user_model, _LONG)
    if planned.selection is not None:
        chosen = ", ".join(planned.selection.by)
        told = f"{len(reading.tasks):,} of {planned.selection.of:,}: {chosen}"
        yield "Selected", clipped(told, _LONG)
    if planned.baseline is not None:
        yield "Baseline", clipped(planned.baseline.run_id, _LONG)
    if planned.group is not None:
        yield "Repeat", f"{planned.group.index} of {planned.group.size}"
    if isinstance(run, ReportedRun) and run.repeats is not None:
        told = "; ".join((run.repeats.verdict, *run.repeats.reasons))
        yield "All repeats", clipped(told, _LONG)
    for line in run.tag_bars if isinstance(run, ReportedRun) else ():
        yield "Bar", clipped(line, _LONG)


def _block(kind: str, name: str, data: bytes) -> str:
    """Data in the page that no browser runs; base64 needs no escaping."""
    packed = base64.b64encode(zlib.compress(data, 6)).decode()
    return f'<script type="application/vnd.evalwright.{kind}+zlib" id="{name}">{packed}</script>'


def _filter(**wanted: str) -> str:
    return urlencode({name: display_text(value) for name, value in wanted.items()})


# The tasks.


def _task_line(task: ReadTask, number: int, body: str = "", *, is_open: bool = False) -> str:
    """The entry of a task in the list; without a body, the page's script brings it."""
    record, status = task.record, status_of(task.record)
    facts = [] if record.score is None else [f"score {record.score:.4g}"]
    facts += [record.checks_on_pages] if record.checks_on_pages else []
    facts += [] if record.latency_ms is None else [amounts.span(record.latency_ms)]
    cost = record.usage.cost_usd
    facts += [] if cost is None else [amounts.dollars(cost)]
    told = {
        "task_id": clipped(record.called.name, 90),
        "title": _title(record),
        "kind": KINDS[status],
        "failed": status in ("failed", "error"),
        "why": "" if status == "passed" else shortened(why(record), _SHORT),
        "facts": " · ".join(facts),
    }
    return render(
        "run",
        "task.html",
        part="line",
        task=told,
        number=number,
        is_open=is_open,
        body=as_markup(body),
    )


def _title(record: TaskRecord) -> str:
    called = record.called
    return clipped(called.subtitle or cut(asked(record.input)) or called.name, 90)


def _passed_row(record: TaskRecord) -> dict[str, str]:
    known = "" if record.coverage is UNSET else coverage_in_words(record.coverage)
    return {
        "claims": known if "claimed" in known else "",  # what the verdict rests on instead
        "task_id": record.called.name,
        "title": _title(record),
        "answer": shortened(readable(record.output), CELL),
        "address": f"#{_filter(q=record.called.name)}",
    }


def _searched_line(task: ReadTask, number: int) -> TaskLine:
    """A task as the script filters and lists it."""
    record = task.record
    names = dict.fromkeys(check.check for check in failed_checks(record))
    checks, tags = (
        "".join(f"\n{display_text(each)}\n" for each in listed)
        for listed in (names, record.tags or [])
    )
    known = f"{record.task_id}\n{record.called.name}\n{record.title}\n{why(record)}".lower()
    line = display_text(_task_line(task, number))
    return TaskLine(status_of(record), checks, tags, known[:1000], line)


def _task_body(task: ReadTask) -> str:
    """What opens below the line of a task."""
    record = task.record
    told = details_of(task, task.trace, "", most_steps=_MOST_STEPS, longest=LONG)
    is_talk = any(step.kind == "agent" for step in told["steps"])  # with its answers
    if told["steps"][1:] and record.error is UNSET and not is_talk:
        answer = shortened(readable(record.output), LONG)
        told["steps"] = [*told["steps"], TalkStep("agent", "", answer, by="Answer")]
    else:
        told["steps"] = told["steps"] if told["steps"][1:] else []
    for step in told["steps"]:
        step.id = ""  # which only a page of one task may name
    usage, facts = record.usage, list[str]()
    if record.tags is not UNSET:
        facts.append(f"tags: {', '.join(record.tags)}")
    if usage.calls:
        facts += [
            f"{usage.calls:,} model {'call' if usage.calls == 1 else 'calls'}",
            f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out",
            "cost unknown" if usage.cost_usd is None else amounts.dollars(usage.cost_usd),
        ]
    error = {} if record.error is UNSET else record.error.get("details") or {}
    attempts = [] if record.repetitions is UNSET else record.repetitions
    told |= {
        "traceback": shortened(error.get("traceback", ""), LONG) if error.get("traceback") else "",
        "findings": [Remark(each.severity, in_words(each.kind)) for each in record.findings],
        "attempts": [_attempt(each) for each in attempts[:_MOST]],
        "usage": " · ".join(facts),
    }
    return display_text(render("run", "task.html", part="body", task=told))


def _attempt(attempt: AttemptRecord) -> tuple[str, str, str]:
    """One of several answers to a task: how it came out, what it was, and why."""
    reasons = [f"{each.check}: {each.reason}" for each in attempt.checks if not each.passed]
    if attempt.error is not UNSET:
        reasons = [f"{attempt.error.get('code')}: {attempt.error.get('message', '')}"]
    answer = shortened(readable(attempt.output), _LONG)
    return attempt_kind(attempt), answer, shortened("; ".join(reasons), _LONG) if reasons else ""


# Several runs.


def _matrix_page(runs: Sequence[Reported], ended: Sequence[ReportedRun]) -> bytes:
    readings = [run.read() for run in ended[:MOST] if run.read is not None]
    columns = [
        _column(run, reading, number)
        for number, (run, reading) in enumerate(zip(ended, readings, strict=False), 1)
    ]
    matrix = RunMatrix(columns)
    tasks = matrix.tasks("all")
    left = [f"{len(ended) - MOST:,} more runs"] if len(ended) > MOST else []
    left += [f"{len(tasks) - _MATRIX_TASKS:,} more tasks"] if len(tasks) > _MATRIX_TASKS else []
    return render_file(
        "run",
        "matrix_page.html",
        name=suite_name(ended[0].summary.suite_id),
        masked=not readings[0].shows_secrets,
        matrix=matrix.shown(tasks[:_MATRIX_TASKS]),
        together=[
            {"verdict": run.verdict, "reasons": list(run.reasons), "change": run.change}
            for run in runs
            if isinstance(run, ReportedSeveral)
        ],
        failed=[
            (run.run_id, clipped(f"{run.code}: {run.message}", _LONG))
            for run in runs
            if isinstance(run, FailedRun)
        ],
        left_out=f"Not shown: {' and '.join(left)}." if left else "",
    )


def _column(run: ReportedRun, reading: RunReading, number: int) -> MatrixRun:
    frame, tasks = _listed(run, reading)
    records = {task.record.task_id: task.record for task in reading.tasks}
    title = f"Repeat {run.repeat}" if run.repeat else run.variant or f"Run {number}"
    page = quote(run.page)
    return MatrixRun(
        frame,
        tasks,
        title,
        "pass" if run.passed else "fail",
        "Passed" if run.passed else "Failed",
        page,
        lambda _: records,
        partial(_task_address, page),
    )


def _task_address(page: str, task: str) -> str:
    """A task in the file of its run, if that is beside this one."""
    return f"{page}#{_filter(q=task)}" if page else ""

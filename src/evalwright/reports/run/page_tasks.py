"""The tasks on the page of a run: a line for each, and what opens below it."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from msgspec import UNSET

from evalwright.contracts.amounts import dollars, percent, span
from evalwright.contracts.coverage import coverage_in_words
from evalwright.contracts.events import Event, Judged, Reasoned, ToolCalled, ToolReturned
from evalwright.contracts.verdicts import Verdict
from evalwright.engine.task_names import asked, cut
from evalwright.reports.formats.html import (
    NO_HTML,
    Html,
    display_text,
    name_html,
    shortened,
    shown,
    text_html,
)
from evalwright.reports.formats.word_diff import Marked, mark_differences
from evalwright.reports.formats.words import RESULTS, SEVERITIES, VERDICTS, Label, badge_html
from evalwright.reports.run.task_records import AttemptRecord, CheckRecord, ReadTask, TaskRecord
from evalwright.reports.run.task_tables import failed_checks, why
from evalwright.scoring.rubric import agreement_of

_LONG = 20_000  # characters of one text
_COMPARED = 4_000  # characters of a text whose words are compared
_SHORT = 240
_MOST = 200  # steps of a trace, repetitions, verdicts
BADGES = {code: badge_html(label) for code, label in VERDICTS.items()}
_CHECKED = {passed: badge_html(label) for passed, label in RESULTS.items()}
MET = {
    True: badge_html(Label("met", RESULTS[True].sign, "good")),
    False: badge_html(Label("not met", RESULTS[False].sign, "bad")),
}
_FOUND = {
    True: badge_html(Label("unsafe", RESULTS[False].sign, "bad")),
    False: badge_html(Label("not found", RESULTS[True].sign, "good")),
}


class TaskLine(NamedTuple):
    """What the page knows of a task before it is opened."""

    status: str
    checks: str  # names of the checks that failed, each between line ends
    tags: str  # likewise
    text: str  # what a search looks at first
    html: Html


def status_of(record: TaskRecord) -> str:
    """`failed`, `error`, `open` without a score, or `passed`."""
    if record.error is not UNSET:
        return "error"
    if record.passed is None:
        return "open"
    return "passed" if record.passed else "failed"


def task_line(task: ReadTask, number: int, body: Html = NO_HTML, *, is_open: bool = False) -> Html:
    """The list entry of a task; without a body, the page's script brings it."""
    record = task.record
    status = status_of(record)
    facts = [] if record.score is None else [f"score {record.score:.4g}"]
    facts += [record.checks_on_pages] if record.checks_on_pages else []
    if record.latency_ms is not None:
        facts.append(span(record.latency_ms))
    if record.usage.cost_usd is not None:
        facts.append(dollars(record.usage.cost_usd))
    reason = shortened(why(record), _SHORT) if status != "passed" or record.repetitions else ""
    told = Html(f'<span class="why">{text_html(reason)}</span>' if reason else "")
    told = Html(f"{title_html(record)}{told}")
    opened = Html(" open" if is_open else "")
    figures = text_html(" · ".join(facts))
    head = Html(f"{BADGES[status]} <code>{name_html(record.called.name)}</code>")
    summary = Html(f'<summary>{head} <span class="muted">{figures}</span> {told}</summary>')
    below = Html(f'<div class="task">{body}</div>')
    return Html(f'<li><details id="t{number}"{opened}>{summary}{below}</details></li>')


def title_html(record: TaskRecord) -> Html:
    """The title of a task beside its name, or what is asked in more words than that has."""
    title = record.called.beside or cut(asked(record.input))
    return Html(f'<span class="why">{text_html(title)}</span>' if title else "")


def searched_line(task: ReadTask, number: int) -> TaskLine:
    """A task as the script filters and lists it."""
    record = task.record
    names = dict.fromkeys(check.check for check in failed_checks(record))
    tags = record.tags or []
    text = f"{record.task_id}\n{record.called.name}\n{record.title}\n{why(record)}".lower()
    return TaskLine(
        status_of(record), _listed(names), _listed(tags), text[:1000], task_line(task, number)
    )


def _listed(names: Any) -> str:
    return "".join(f"\n{display_text(name)}\n" for name in names)


def task_body(task: ReadTask, *, findings: Html = NO_HTML, with_trace: bool = True) -> Html:
    """What opens below the line of a task; `findings` in place of those without evidence."""
    record = task.record
    parts = [
        _error(record),
        _titled(Html("Input"), record.input),
        NO_HTML if record.error is not UNSET else _titled(Html("Output"), record.output),
        _checks(record.checks),
        findings or _findings(record),
        _judges(task),
        _trace(task.trace) if with_trace else NO_HTML,
        _repetitions(record),
        _coverage(record),
        _usage(record),
    ]
    return Html("".join(parts))


def _titled(title: Html, value: Any) -> Html:
    return Html(f"<h3>{title}</h3>{_value(value)}")


def _value(value: Any) -> Html:
    return Html(f"<pre>{text_html(shortened(value, _LONG))}</pre>")


def _error(record: TaskRecord) -> Html:
    error = record.error
    if error is UNSET:
        return NO_HTML
    what = f"{error.get('code')}: {error.get('message', '')}"
    trace = (error.get("details") or {}).get("traceback")
    shown_trace = _value(trace) if trace else NO_HTML
    return Html(
        f'<p class="note bad"><strong>No answer.</strong> {text_html(shortened(what, _LONG))}</p>'
        f"{shown_trace}"
    )


def _checks(checks: Sequence[CheckRecord]) -> Html:
    """The checks that failed, then the others in a line each."""
    if not checks:
        return NO_HTML
    failed = Html("".join([_failed_check(each) for each in checks if not each.passed]))
    passed = Html("".join([_passed_check(each) for each in checks if each.passed]))
    return Html(f'<h3>Checks</h3><ul class="checks">{failed}{passed}</ul>')


def _passed_check(check: CheckRecord) -> Html:
    wanted = Html(f'<span class="value">{text_html(shortened(check.expected, _SHORT))}</span>')
    head = Html(f"{_CHECKED[True]} <code>{name_html(check.check)}</code> {wanted}")
    return Html(f"<li>{head}{_partly(check)}{_reason(check)}</li>")


def _failed_check(check: CheckRecord) -> Html:
    expected, actual = compared_html(check.expected, check.actual)
    head = Html(f"{_CHECKED[False]} <code>{name_html(check.check)}</code>{_partly(check)}")
    return Html(
        f'<li class="bad">{head}{_reason(check)}<div class="both">'
        f"<div><h4>Expected</h4><pre>{expected}</pre></div>"
        f"<div><h4>Actual</h4><pre>{actual}</pre></div></div></li>"
    )


def _partly(check: CheckRecord) -> Html:
    """The score of a check that is more than a yes or a no, and its weight."""
    if check.score in (0, 1) and check.weight is UNSET:
        return NO_HTML
    facts = [] if check.score in (0, 1) else [f"score {check.score:.4g}"]
    if check.weight is not UNSET:
        facts.append(f"weight {check.weight:g}")
    return Html(f' <span class="muted">({text_html(", ".join(facts))})</span>')


def _reason(check: CheckRecord) -> Html:
    if not check.reason:
        return NO_HTML
    return Html(f'<p class="why">{text_html(shortened(check.reason, _LONG))}</p>')


def compared_html(expected: Any, actual: Any) -> tuple[Html, Html]:
    """Both with the words marked that differ, where they have enough in common."""
    a, b = shown(expected), shown(actual)
    marked = None
    if len(a) <= _COMPARED and len(b) <= _COMPARED and a != b:
        marked = mark_differences(display_text(a), display_text(b))
    if marked is None:
        return text_html(shortened(expected, _LONG)), text_html(shortened(actual, _LONG))
    return _marked_html(marked[0]), _marked_html(marked[1])


def _marked_html(segments: Marked) -> Html:
    pieces = [
        Html(f"<mark>{text_html(text)}</mark>") if differs else text_html(text)
        for differs, text in segments
    ]
    return Html("".join(pieces))


def _findings(record: TaskRecord) -> Html:
    if not record.findings:
        return NO_HTML
    entries = [
        Html(f"<li>{badge_html(SEVERITIES[each.severity])} {text_html(each.kind)}</li>")
        for each in record.findings
    ]
    return Html(f'<h3>Safety findings</h3><ul class="checks">{Html("".join(entries))}</ul>')


def _judges(task: ReadTask) -> Html:
    """What each judge said, question by question."""
    said = [
        _verdict(task, each, verdict) for each in task.judged for verdict in each.verdicts[:_MOST]
    ]
    if not said:
        return NO_HTML
    more = _left_out(len(said))
    agreed = agreement_of(task.judged)
    told = NO_HTML
    if agreed is not None and agreed.votes > agreed.questions:
        share = text_html(percent(agreed.share))
        told = Html(f' <span class="muted">agreement {share}, {agreed.votes} votes</span>')
    entries = Html("".join(said[:_MOST]))
    return Html(f'<h3>Judges{told}</h3><ul class="checks">{entries}{more}</ul>')


def _verdict(task: ReadTask, said: Judged, verdict: Verdict) -> Html:
    """One answer of a judge: what is safe is good if it is not found, all else if it is met."""
    badges = _FOUND if said.subject == "safety" else MET
    asked = _asked(task, said, verdict)
    who = Html(f'<span class="muted">{name_html(said.judge)}, sample {said.sample}</span>')
    reason = text_html(shortened(verdict.reason, _LONG))
    question = text_html(shortened(asked, _SHORT))
    return Html(f'<li>{badges[verdict.met]} {question} {who}<p class="why">{reason}</p></li>')


def _asked(task: ReadTask, said: Judged, verdict: Verdict) -> str:
    """What a judge was asked; of a check it is known if no other check asked judges."""
    if not said.subject.startswith("check:"):
        return task.criteria.get(verdict.question, verdict.question)
    wanted = [each.expected for each in task.record.checks if each.check == "judge"]
    is_only = len({each.subject for each in task.judged}) == len(wanted) == 1
    return str(wanted[0]) if is_only and len(said.verdicts) == 1 else verdict.question


def _trace(trace: Sequence[Event]) -> Html:
    """Tool calls, their results, and what the agent said it thought."""
    if not trace:
        return NO_HTML
    steps = Html("".join([_step(event) for event in trace[:_MOST]]))
    return Html(f'<h3>Trace</h3><ol class="trace">{steps}{_left_out(len(trace))}</ol>')


def _step(event: Event) -> Html:
    if event.type == ToolReturned.TYPE:
        came = event.decode(ToolReturned)
        name = name_html(came.tool_name)
        if came.error is not UNSET:
            told = _value(f"{came.error.code}: {came.error.message}")
            return Html(f"<li><code>{name}</code> fails {BADGES['error']}{told}</li>")
        status = NO_HTML if came.status in (UNSET, "ok") else BADGES["error"]
        outcome = NO_HTML if came.outcome is UNSET else _value(came.outcome)
        return Html(f"<li><code>{name}</code> returns {status}{outcome}</li>")
    if event.type == ToolCalled.TYPE:
        called = event.decode(ToolCalled)
        inputs = NO_HTML if called.inputs is UNSET else _value(called.inputs)
        return Html(f"<li>calls <code>{name_html(called.tool_name)}</code>{inputs}</li>")
    return Html(f"<li>reasons{_value(event.decode(Reasoned).reasoning)}</li>")


def _left_out(count: int) -> Html:
    return Html(f'<li class="muted">and {count - _MOST:,} more</li>' if count > _MOST else "")


def _repetitions(record: TaskRecord) -> Html:
    if record.repetitions is UNSET:
        return NO_HTML
    entries = Html("".join([_repetition(each) for each in record.repetitions[:_MOST]]))
    more = _left_out(len(record.repetitions))
    return Html(f'<h3>Repetitions</h3><ol class="trace">{entries}{more}</ol>')


def _repetition(attempt: AttemptRecord) -> Html:
    status = "error" if attempt.error is not UNSET else "passed" if attempt.passed else "failed"
    reasons = [f"{each.check}: {each.reason}" for each in attempt.checks if not each.passed]
    if attempt.error is not UNSET:
        reasons = [f"{attempt.error.get('code')}: {attempt.error.get('message', '')}"]
    told = Html(
        "".join(
            [
                Html(f'<p class="why">{text_html(shortened(reason, _SHORT))}</p>')
                for reason in reasons
            ]
        )
    )
    return Html(f"<li>{BADGES[status]}{told}{_value(attempt.output)}</li>")


def _coverage(record: TaskRecord) -> Html:
    """What was observed of the answer, and how; of one that is not there yet, nothing."""
    if record.coverage is UNSET:
        return NO_HTML
    return Html(f"<h3>Observed</h3><p>{text_html(coverage_in_words(record.coverage))}</p>")


def _usage(record: TaskRecord) -> Html:
    """What the task took, in a line; nothing for an agent that says nothing of it."""
    usage, facts = record.usage, list(_usage_words(record))
    if not usage.calls and record.tags is UNSET:
        return NO_HTML
    return Html(f'<p class="muted">{text_html(" · ".join(facts))}</p>')


def _usage_words(record: TaskRecord) -> Iterator[str]:
    usage = record.usage
    if record.tags is not UNSET:
        yield f"tags: {', '.join(record.tags)}"
    if usage.calls:
        noun = "call" if usage.calls == 1 else "calls"
        yield f"{usage.calls:,} model {noun}"
        yield f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"
        yield "cost unknown" if usage.cost_usd is None else dollars(usage.cost_usd)

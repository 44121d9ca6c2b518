"""The tasks on the page of a run: a line for each, and what opens below it."""

from typing import Any, NamedTuple

from msgspec import UNSET

from evalwright.contracts.amounts import dollars, percent, span
from evalwright.contracts.coverage import coverage_in_words
from evalwright.contracts.events import Event, Reasoned, ToolCalled, ToolReturned
from evalwright.engine.task_names import asked, cut
from evalwright.reports.formats.html import (
    NO_HTML,
    RESULTS,
    SEVERITIES,
    VERDICTS,
    Html,
    Label,
    badge_html,
    name_html,
    text_html,
)
from evalwright.reports.formats.text import display_text, shortened, shown
from evalwright.reports.formats.word_diff import mark_differences
from evalwright.reports.run.task_details import status_of
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
    title = record.called.subtitle or cut(asked(record.input))
    return Html(f'<span class="why">{text_html(title)}</span>' if title else "")


def searched_line(task: ReadTask, number: int) -> TaskLine:
    """A task as the script filters and lists it."""
    record = task.record
    names = dict.fromkeys(check.check for check in failed_checks(record))
    checks, tags = (
        "".join(f"\n{display_text(each)}\n" for each in listed)
        for listed in (names, record.tags or [])
    )
    text = f"{record.task_id}\n{record.called.name}\n{record.title}\n{why(record)}".lower()
    return TaskLine(status_of(record), checks, tags, text[:1000], task_line(task, number))


def task_body(task: ReadTask, *, findings: Html = NO_HTML, with_trace: bool = True) -> Html:
    """What opens below the line of a task; `findings` in place of those without evidence."""
    record, parts = task.record, list[Html]()
    if record.error is not UNSET:
        what = f"{record.error.get('code')}: {record.error.get('message', '')}"
        told = text_html(shortened(what, _LONG))
        parts.append(Html(f'<p class="note bad"><strong>No answer.</strong> {told}</p>'))
        if trace := (record.error.get("details") or {}).get("traceback"):
            parts.append(_value(trace))
    parts.append(Html(f"<h3>Input</h3>{_value(record.input)}"))
    if record.error is UNSET:
        parts.append(Html(f"<h3>Output</h3>{_value(record.output)}"))
    if record.checks:  # those that failed first
        checks = sorted(record.checks, key=lambda check: check.passed)
        entries = Html("".join(map(_check, checks)))
        parts.append(Html(f'<h3>Checks</h3><ul class="checks">{entries}</ul>'))
    if record.findings and not findings:
        found = [
            Html(f"<li>{badge_html(SEVERITIES[each.severity])} {text_html(each.kind)}</li>")
            for each in record.findings
        ]
        title = Html("<h3>Safety findings</h3>")
        findings = Html(f'{title}<ul class="checks">{Html("".join(found))}</ul>')
    parts += [findings, _judges(task)]
    if with_trace and task.trace:
        parts.append(
            _listed_html(Html("Trace"), list(map(_step, task.trace[:_MOST])), len(task.trace))
        )
    if record.repetitions is not UNSET:
        attempts = list(map(_repetition, record.repetitions[:_MOST]))
        parts.append(_listed_html(Html("Repetitions"), attempts, len(record.repetitions)))
    if record.coverage is not UNSET:
        observed = text_html(coverage_in_words(record.coverage))
        parts.append(Html(f"<h3>Observed</h3><p>{observed}</p>"))
    usage, facts = record.usage, list[str]()
    if record.tags is not UNSET:
        facts.append(f"tags: {', '.join(record.tags)}")
    if usage.calls:
        facts += [
            f"{usage.calls:,} model {'call' if usage.calls == 1 else 'calls'}",
            f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out",
            "cost unknown" if usage.cost_usd is None else dollars(usage.cost_usd),
        ]
    if facts:
        parts.append(Html(f'<p class="muted">{text_html(" · ".join(facts))}</p>'))
    return Html("".join(parts))


def _value(value: Any) -> Html:
    return Html(f"<pre>{text_html(shortened(value, _LONG))}</pre>")


def _listed_html(title: Html, entries: list[Html], count: int) -> Html:
    return Html(f'<h3>{title}</h3><ol class="trace">{Html("".join(entries))}{_more(count)}</ol>')


def _more(count: int) -> Html:
    return Html(f'<li class="muted">and {count - _MOST:,} more</li>' if count > _MOST else "")


def _check(check: CheckRecord) -> Html:
    facts = [] if check.score in (0, 1) else [f"score {check.score:.4g}"]
    if check.weight is not UNSET:
        facts.append(f"weight {check.weight:g}")
    told = Html(f' <span class="muted">({text_html(", ".join(facts))})</span>' if facts else "")
    reason = text_html(shortened(check.reason, _LONG))
    why = Html(f'<p class="why">{reason}</p>' if check.reason else "")
    head = Html(f"{_CHECKED[check.passed]} <code>{name_html(check.check)}</code>")
    if check.passed:
        wanted = text_html(shortened(check.expected, _SHORT))
        return Html(f'<li>{head} <span class="value">{wanted}</span>{told}{why}</li>')
    expected, actual = compared_html(check.expected, check.actual)
    return Html(
        f'<li class="bad">{head}{told}{why}<div class="both">'
        f"<div><h4>Expected</h4><pre>{expected}</pre></div>"
        f"<div><h4>Actual</h4><pre>{actual}</pre></div></div></li>"
    )


def compared_html(expected: Any, actual: Any) -> tuple[Html, Html]:
    """Both with the words marked that differ, where they have enough in common."""
    a, b = shown(expected), shown(actual)
    marked = None
    if len(a) <= _COMPARED and len(b) <= _COMPARED and a != b:
        marked = mark_differences(display_text(a), display_text(b))
    if marked is None:
        return text_html(shortened(expected, _LONG)), text_html(shortened(actual, _LONG))
    old, new = (
        [
            Html(f"<mark>{text_html(text)}</mark>") if differs else text_html(text)
            for differs, text in side
        ]
        for side in marked
    )
    return Html("".join(old)), Html("".join(new))


def _judges(task: ReadTask) -> Html:
    """What each judge said, question by question."""
    said = [(each, verdict) for each in task.judged for verdict in each.verdicts[:_MOST]]
    if not said:
        return NO_HTML
    wanted = [each.expected for each in task.record.checks if each.check == "judge"]
    is_only = len({each.subject for each in task.judged}) == len(wanted) == 1
    entries = []
    for answer, verdict in said[:_MOST]:
        if not answer.subject.startswith("check:"):
            asked = task.criteria.get(verdict.question, verdict.question)
        else:  # known if no other check asked judges
            is_known = is_only and len(answer.verdicts) == 1
            asked = str(wanted[0]) if is_known else verdict.question
        # What is safe is good if it is not found, all else if it is met.
        badge = (_FOUND if answer.subject == "safety" else MET)[verdict.met]
        who = Html(f'<span class="muted">{name_html(answer.judge)}, sample {answer.sample}</span>')
        reason = text_html(shortened(verdict.reason, _LONG))
        question = text_html(shortened(asked, _SHORT))
        entries.append(Html(f'<li>{badge} {question} {who}<p class="why">{reason}</p></li>'))
    agreed = agreement_of(task.judged)
    told = NO_HTML
    if agreed is not None and agreed.votes > agreed.questions:
        share = text_html(percent(agreed.share))
        told = Html(f' <span class="muted">agreement {share}, {agreed.votes} votes</span>')
    lines = Html(f"{Html(''.join(entries))}{_more(len(said))}")
    return Html(f'<h3>Judges{told}</h3><ul class="checks">{lines}</ul>')


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


def _repetition(attempt: AttemptRecord) -> Html:
    status = "error" if attempt.error is not UNSET else "passed" if attempt.passed else "failed"
    reasons = [f"{each.check}: {each.reason}" for each in attempt.checks if not each.passed]
    if attempt.error is not UNSET:
        reasons = [f"{attempt.error.get('code')}: {attempt.error.get('message', '')}"]
    lines = [Html(f'<p class="why">{text_html(shortened(each, _SHORT))}</p>') for each in reasons]
    return Html(f"<li>{BADGES[status]}{Html(''.join(lines))}{_value(attempt.output)}</li>")

"""A task as the table of tasks, the drawer and its own page show it: result, texts, checks."""

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET

from evalwright.contracts import amounts
from evalwright.contracts.coverage import coverage_in_words
from evalwright.contracts.events import Event, Judged
from evalwright.contracts.verdicts import Verdict
from evalwright.engine.task_names import asked
from evalwright.reports.design.talk import Remark
from evalwright.reports.formats.text import shortened, shown
from evalwright.reports.formats.word_diff import Marked, marked_versions
from evalwright.reports.formats.words import in_words
from evalwright.reports.run.conversation import LONG as SHOWN
from evalwright.reports.run.conversation import conversation_of, opening_of, readable, step_address
from evalwright.reports.run.evidence import EvidentFinding
from evalwright.reports.run.task_records import AttemptRecord, CheckRecord, ReadTask, TaskRecord
from evalwright.scoring.rubric import agreement_of

KINDS = {"passed": "pass", "failed": "fail", "error": "error", "open": "open"}
WORDS = {"passed": "Passed", "failed": "Failed", "error": "Error", "open": "No score"}
CELL = 300  # characters of a text in a row
LONG = 20_000  # of one in the drawer
MOST_STEPS = 40  # of a conversation in a drawer; the page of the task has all
MOST_VERDICTS = 200


def status_of(record: TaskRecord) -> str:
    """`failed`, `error`, `open` without a score, or `passed`."""
    if record.error is not UNSET:
        return "error"
    if record.passed is None:
        return "open"
    return "passed" if record.passed else "failed"


def row_of(record: TaskRecord, address: str, drawer: str = "") -> dict[str, Any]:
    """A row of the table of tasks."""
    status = status_of(record)
    usage = record.usage
    said = record.error.get("message", "") if record.error is not UNSET else readable(record.output)
    wanted = expected_of(record)
    return {
        "task_id": record.called.name,
        "title": record.title or record.called.subtitle or record.called.name,
        "sub": " · ".join([record.called.name, *_notes(record)]),
        "kind": KINDS[status],
        "word": WORDS[status],
        "failed": status in ("failed", "error"),
        "input": shortened(asked(record.input) or readable(record.input), CELL),
        "expected": shortened(wanted, CELL) if wanted else "",
        "answer": "" if status == "open" else shortened(said, CELL),
        "checks": [(in_words(each.check), _dot(each)) for each in record.checks],
        "score": amounts.NOTHING if record.score is None else f"{record.score:.2f}",
        "cost": amounts.NOTHING if usage.cost_usd is None else amounts.dollars(usage.cost_usd),
        "time": amounts.NOTHING if record.latency_ms is None else amounts.span(record.latency_ms),
        "address": address,
        "drawer": drawer,
    }


def _notes(record: TaskRecord) -> list[str]:
    """What stands beside the name of a task in its row."""
    found = list(dict.fromkeys(in_words(each.kind) for each in record.findings))
    if record.repetitions is not UNSET:
        passed = sum(each.passed is True for each in record.repetitions)
        found.append(f"{passed} of {len(record.repetitions)} repetitions passed")
    return found[:3]


def expected_of(record: TaskRecord) -> str:
    """What was expected, in a line: what the first check that failed asks for, else the first."""
    checks = [each for each in record.checks if not each.passed] or record.checks
    if not checks:
        return ""
    first, name = checks[0], in_words(checks[0].check)
    wanted = shown(_wanted(first))
    text = (
        wanted
        if name in ("exact", "equals", "contains", "golden", "judge", "rubric")
        else f"{name} {wanted}"
    )
    return text if len(checks) == 1 else f"{text} \N{MIDDLE DOT} {len(checks) - 1} more"


def _wanted(check: CheckRecord) -> Any:
    """What a check asks for; `not` names itself in it, and its name is shown already."""
    if check.check == "not" and isinstance(check.expected, dict):
        return check.expected.get("not", check.expected)
    return check.expected


def _dot(check: CheckRecord) -> str:
    return "pass" if check.passed else "fail"


def details_of(
    read: ReadTask,
    events: Sequence[Event],
    address: str,
    *,
    findings: Sequence[EvidentFinding] = (),
    agent: str = "Agent",
    most_steps: int | None = None,
    longest: int = SHOWN,
) -> dict[str, Any]:
    """All that is known of a task, for the drawer and its own page."""
    from evalwright.scoring.checks.table import cause_of  # with everything that checks need

    record = read.record
    status = status_of(record)
    steps = conversation_of(
        record.input, events, findings, agent=agent, address=address, longest=longest
    )
    shown_steps = steps[:most_steps]
    passed = sum(each.passed for each in record.checks)
    failed = len(record.checks) - passed
    failing = next((each.check for each in record.checks if not each.passed), "")
    expected, answer = versus_of(record)
    calls = sum(each.kind == "call" for each in steps)
    facts = [f"{calls:,} {'call' if calls == 1 else 'calls'}"] if calls else []
    facts += [] if record.latency_ms is None else [amounts.span(record.latency_ms)]
    facts += [] if record.usage.cost_usd is None else [amounts.dollars(record.usage.cost_usd)]
    checks_words = f"{failed:,} failed, {passed:,} passed"
    if record.check_score is not UNSET and record.check_score != record.score:
        checks_words += f", check score {amounts.score(record.check_score)}"
    attempts = [] if record.repetitions is UNSET else record.repetitions
    return {
        "key": record.task_id,
        "task_id": record.called.name,
        "title": record.title or record.called.subtitle or record.called.name,
        "kind": KINDS[status],
        "word": WORDS[status],
        "error": "" if record.error is UNSET else shortened(record.error.get("message", ""), LONG),
        "cause": in_words(cause_of(failing)) if failing and status == "failed" else "",
        "address": address,
        "input": shortened(opening_of(record.input), LONG),
        "expected": expected,
        "answer": answer,
        "baseline": "",
        "findings": [_remark(each, address) for each in findings],
        "checks": [check_of(each) for each in sorted(record.checks, key=lambda each: each.passed)],
        "checks_words": checks_words,
        "check_score": record.checks_on_pages,
        "judges": judges_of(read),
        "judges_words": agreement_words(read),
        "steps": shown_steps,
        "steps_left": f"All {len(steps):,} steps" if len(shown_steps) < len(steps) else "",
        "talk_words": " · ".join(facts),
        "repeats": [attempt_kind(each) for each in attempts],
        "repeats_words": _repeats_words(attempts),
        "observed": "" if record.coverage is UNSET else coverage_in_words(record.coverage),
    }


def _remark(finding: EvidentFinding, address: str) -> Remark:
    """A finding with links to the steps that show it; agents choose the ids of their calls."""
    from evalwright.signals.masking import mask_text  # with every detector of secrets

    title = finding.title or f"{in_words(finding.kind)}, by a judge"
    links = [
        (mask_text(link.words, personal=False)[:100], step_address(address, link.sequence))
        for link in finding.links
        if link.sequence is not None
    ]
    return Remark(finding.severity, title, finding.notes, links)


def versus_of(record: TaskRecord, longest: int = LONG) -> tuple[Marked, Marked]:
    """What was expected beside the answer, with the words marked that differ."""
    if record.error is not UNSET:
        error = f"{record.error.get('code')}: {record.error.get('message', '')}"
        return [], [(False, shortened(error, longest))]
    for check in record.checks:
        if not check.passed and isinstance(check.expected, str) and isinstance(check.actual, str):
            wanted, got = shown(check.expected), shown(check.actual)
            if longest < LONG:
                wanted, got = shortened(wanted, longest), shortened(got, longest)
            return marked_versions(wanted, got)
    wanted, answer = expected_of(record), shortened(readable(record.output), longest)
    return [(False, shortened(wanted, longest))] if wanted else [], [(False, answer)]


def check_of(check: CheckRecord) -> dict[str, Any]:
    """A check with its result and why."""
    expected = shortened(_wanted(check), CELL)
    why = check.reason
    if not why and not check.passed:
        why = f"expected {expected}, got {shortened(check.actual, CELL)}"
    weight = "" if check.weight is UNSET else f", weight {check.weight:g}"
    return {
        "kind": _dot(check),
        "name": f"{in_words(check.check)} {expected if check.expected is not None else ''}".strip(),
        "score": f"{check.score:.4g}{weight}",
        "why": shortened(why, LONG) if why else "",
    }


def judges_of(read: ReadTask) -> list[dict[str, Any]]:
    """What each judge said, question by question."""
    found = [
        _verdict(read, said, verdict)
        for said in read.judged
        for verdict in said.verdicts[:MOST_VERDICTS]
    ]
    return found[:MOST_VERDICTS]


def agreement_words(read: ReadTask) -> str:
    """How far judges agreed, where there were several votes."""
    agreed = agreement_of(read.judged)
    if agreed is None or agreed.votes <= agreed.questions:
        return ""
    return f"agreement {amounts.percent(agreed.share)}, {agreed.votes} votes"


def _verdict(read: ReadTask, said: Judged, verdict: Verdict) -> dict[str, Any]:
    """One answer of a judge: what is safe is good if it is not found, all else if it is met."""
    is_safety = said.subject == "safety"
    is_good = verdict.met is not is_safety
    words = ("unsafe", "not found") if is_safety else ("yes", "no")
    return {
        "name": f"{said.judge}, sample {said.sample}" if said.sample > 1 else said.judge,
        "tone": "pass" if is_good else "fail",
        "words": f"{shortened(_asked(read, said, verdict), CELL)}: {words[not verdict.met]}",
        "reason": shortened(verdict.reason, LONG) if verdict.reason else "",
    }


def _asked(read: ReadTask, said: Judged, verdict: Verdict) -> str:
    """What a judge was asked; of a check it is known if no other check asked judges."""
    if not said.subject.startswith("check:"):
        return read.criteria.get(verdict.question, verdict.question)
    wanted = [each.expected for each in read.record.checks if each.check == "judge"]
    is_only = len({each.subject for each in read.judged}) == len(wanted) == 1
    return str(wanted[0]) if is_only and len(said.verdicts) == 1 else verdict.question


def attempt_kind(attempt: AttemptRecord) -> str:
    """How one of several answers came out, as a shape."""
    return "error" if attempt.error is not UNSET else "pass" if attempt.passed else "fail"


def _repeats_words(attempts: Sequence[AttemptRecord]) -> str:
    passed = sum(each.passed is True for each in attempts)
    return f"{passed:,} of {len(attempts):,} passed" if attempts else ""

"""How a task that failed reads in pytest: expected, actual, the difference, and the calls."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from pprint import pformat
from typing import Any

import pytest

from evalwright.contracts.events import PAYLOADS, Event, ToolCalled, ToolReturned
from evalwright.contracts.suite import Task
from evalwright.contracts.verdicts import CheckResult
from evalwright.engine.examination import made_calls
from evalwright.engine.task_names import MADE_ID
from evalwright.reports.formats.console import Style, one_line, printable
from evalwright.reports.run.judge_panel import render_verdicts
from evalwright.reports.run.stories import TaskStory
from evalwright.scoring.checks.base import MadeCall
from evalwright.scoring.golden import explain_difference

COMPARED = frozenset({"equals", "exact", "json-match", "json"})  # whose two sides are alike
WIDTH = 100
_CALLS = (ToolCalled.TYPE, ToolReturned.TYPE)


def explain(config: pytest.Config, story: TaskStory, events: Iterable[Event]) -> str:
    """Why a task did not pass; the first line says it in short."""
    from evalwright.signals.masking import mask_value

    checks = [check for check in _results(story) if not check.passed]
    lines = [_headline(story, checks)]
    if MADE_ID.fullmatch(story.task.task_id):
        lines.append(f"  input: {one_line(story.task.input, None)}")
    for check in checks:
        lines += _told(config, check, with_reason=check is not checks[0])
    lines += [
        f"  {line}" for line in render_verdicts(story.task, story.judged, Style(colour=False))
    ]
    lines += [f"  finding: {each.severity} {each.kind}" for each in story.findings]
    if story.error is not None:
        trace = (story.error.get("details") or {}).get("traceback", "")
        lines += [f"  {line}" for line in printable(trace).rstrip().splitlines()]
    elif not checks:
        lines.append(f"  actual: {one_line(story.decision, None)}")
    calls = [event.decode(PAYLOADS[event.type]) for event in events if event.type in _CALLS]
    lines += _calls(mask_value(call, personal=False) for call in map(_plain, made_calls(calls)))
    return "\n".join(lines)


def _results(story: TaskStory) -> Sequence[CheckResult]:
    match = story.task.expected.match
    if match is None or story.error is not None:
        return story.checks
    reason = explain_difference(story.decision, match.strategy, match.value)
    passed = story.scored is not None and story.scored.score == 1
    score = float(passed)
    golden = CheckResult(match.strategy, passed, score, match.value, story.decision, reason)
    return [golden, *story.checks]


def _headline(story: TaskStory, failed: Sequence[CheckResult]) -> str:
    task, error = story.task, story.error
    repeated = ""
    if task.repeat > 1:
        repeated = f"{story.passed_times} of {task.repeat} repetitions passed: "
    if error is not None:
        return f"{repeated}{error.get('code')}: {one_line(error.get('message', ''), None)}"
    if not failed:
        score = story.scored.score if story.scored else 0.0
        return f"{repeated}{task.expected.kind}: score {score:.4g}"
    first = failed[0]
    more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
    reason = f": {one_line(first.reason, None)}" if first.reason else " failed"
    return f"{repeated}{printable(first.check)}{reason}{more}"


def _told(config: pytest.Config, check: CheckResult, *, with_reason: bool) -> Iterator[str]:
    if with_reason:
        yield f"{printable(check.check)}: {one_line(check.reason, None)}"
    if check.expected is not None:
        yield from _side("expected", check.expected)
    if check.actual is not None:
        yield from _side("actual", check.actual)
    if check.check in COMPARED and None not in (check.expected, check.actual):
        compared = config.hook.pytest_assertrepr_compare(
            config=config, op="==", left=check.actual, right=check.expected
        )
        difference = next(iter(compared), None) or [""]
        if lines := [line for line in difference[1:] if line]:
            yield "  difference (- expected, + actual):"
            yield from (f"    {line}" for line in lines)


def _side(name: str, value: Any) -> Iterator[str]:
    first, *rest = printable(pformat(value, width=WIDTH, sort_dicts=False)).splitlines()
    yield f"  {name + ':':<10}{first}"
    yield from (f"  {'':<10}{line}" for line in rest)


def _plain(call: MadeCall) -> dict[str, Any]:
    return {"tool": call.tool, "args": call.args, "result": call.result, "is_ok": call.is_ok}


def _calls(calls: Iterable[dict[str, Any]]) -> Iterator[str]:
    for number, call in enumerate(calls):
        if number == 0:
            yield "  calls:"
        result = (
            one_line(call["result"]) if call["is_ok"] else f"failed: {one_line(call['result'])}"
        )
        yield f"    {printable(call['tool'])}({one_line(call['args'])}) -> {result}"


def line_of(path: Path, task: Task) -> int:
    """The line of a task in its suite; of one that comes from data, the first."""
    from evalwright.contracts.documents import parse_document
    from evalwright.engine.suites.problems import Places

    source = path.read_bytes()
    document = parse_document(source, path.name)
    tasks = document.get("tasks") if isinstance(document, dict) else None
    for index, each in enumerate(tasks if isinstance(tasks, list) else ()):
        if isinstance(each, dict) and task.task_id in (each.get("id"), each.get("taskId")):
            return Places(source).line(f"$.tasks[{index}]") or 1
    return 1

"""Suites as files: as OpenWOP suites, where these can say the same, and as they are."""

import math
from itertools import combinations
from typing import Any, NamedTuple

import msgspec

from evalwright.contracts.attachments import attachments_in
from evalwright.contracts.coverage import NO_CLAIMS, Claims
from evalwright.contracts.errors import BadInput
from evalwright.contracts.suite import Criterion, Expected, Fixtures, Match, Suite, Task
from evalwright.engine.suites.attachments import inlined
from evalwright.engine.suites.document import MODES
from evalwright.engine.suites.templates import BadTemplate, literal
from evalwright.scoring.checks.judge import criteria_of
from evalwright.scoring.checks.table import name_and_argument
from evalwright.scoring.thresholds import DEFAULT_PASS_SCORE

MOST_CRITERIA = 12  # of which every combination is looked at
_TOLERANCE = 1e-9


class Loss(NamedTuple):
    """What cannot be said of a task, or of the whole suite, and what becomes of it."""

    task_id: str | None
    what: str


class Portable(NamedTuple):
    """An OpenWOP suite, and everything that was lost on the way to it."""

    suite: Suite
    losses: list[Loss]


class _Said(NamedTuple):
    expected: Expected | None
    loss: str | None = None


def to_portable(suite: Suite) -> Portable:
    """The suite with what a portable one can say; a task of which that is nothing is left out."""
    bar = suite.thresholds.pass_score
    bar = DEFAULT_PASS_SCORE if bar is None else bar
    has_weights = len({task.weight for task in suite.tasks}) > 1
    tasks, losses = [], []
    for task in suite.tasks:
        if task.expected.kind != "checks":
            tasks.append(task)
            continue
        said = _expected(task.expected, bar)
        fixtures, has_args = _portable_fixtures(task.fixtures)
        has_files = bool(attachments_in(task.input))
        lost = [
            said.loss,
            f"world: {task.world}, whose tools then do not answer" if task.world else None,
            "faults" if task.faults else None,
            f"a conversation of {len(task.turns)} turns" if task.turns else None,
            "a conversation with a simulated user" if task.user else None,
            "toolResponses with `args`" if has_args else None,
            "files of the input, of which it keeps the names" if has_files else None,
            "title" if task.title else None,
            f"repeat: {task.repeat}" if task.repeat != 1 else None,
            f"weight: {task.weight:g}" if has_weights and task.weight != 1 else None,
        ]
        if said.expected is None or task.is_conversation:
            lost.append("the task is left out")
        else:
            tasks.append(Task(task.task_id, task.input, said.expected, fixtures))
        losses += [Loss(task.task_id, what) for what in lost if what]
    bars = suite.thresholds
    own = {"passRate": bars.pass_rate is not None, "tags": bool(bars.tags)}
    losses += [Loss(None, f"thresholds.{name}: left out") for name, given in own.items() if given]
    kept = msgspec.structs.replace(bars, pass_rate=None, tags={})
    modes = suite.modes
    if modes == MODES:  # which nobody chose
        kinds = {task.expected.kind for task in tasks}
        modes = [mode for mode in MODES if mode in kinds or mode == "regression"]
    return Portable(
        msgspec.structs.replace(
            suite, tasks=tasks, modes=modes, thresholds=kept, worlds={}, attachments={}
        ),
        losses,
    )


def _portable_fixtures(fixtures: Fixtures | None) -> tuple[Fixtures | None, bool]:
    """The fixtures that look at no arguments, and whether there are others."""
    if fixtures is None:
        return None, False
    kept = [each for each in fixtures.tool_responses if not each.args]
    has_args = len(kept) < len(fixtures.tool_responses)
    return msgspec.structs.replace(fixtures, tool_responses=kept), has_args


def _expected(expected: Expected, bar: float) -> _Said:
    checks = expected.checks or []
    said = [_check(check, expected.threshold, bar) for check in checks]
    if len(said) == 1:
        return said[0]
    kept = next((each.expected for each in said if each.expected), None)
    names = [name_and_argument(check)[0] for check in checks]
    place = next((n for n, each in enumerate(said) if each.expected), 0)
    only = f"; only {names[place]} is kept" if kept else ""
    return _Said(kept, f"{len(checks)} checks in one task: {', '.join(names)}{only}")


def _check(check: dict[str, Any], threshold: float | None, bar: float) -> _Said:
    name, argument = name_and_argument(check)
    if threshold == 0:
        return _Said(None, "threshold: 0, which any score above 0 reaches")
    fields = argument if isinstance(argument, dict) else {}
    match name:
        case "equals" | "contains":
            value, loss = argument, None
            if "value" in fields and fields.keys() <= {"value", "ignore_case"}:
                value = fields["value"]
                loss = f"{name} with ignore_case" if fields.get("ignore_case") else None
            strategy = "exact" if isinstance(value, str) else "json-match"
            return _Said(_golden("contains" if name == "contains" else strategy, value), loss)
        case "json" if "equals" not in fields or fields.get("path", "$") != "$":
            return _Said(None, "json with anything but `equals` for all of the output")
        case "json" if fields.keys() - {"equals", "path", "strict", "valid"}:
            return _Said(None, "json with more than `equals`")
        case "json":
            loss = "json within a text or a fence (`strict: true` would)"
            loss = None if fields.get("strict") else loss
            return _Said(_golden("json-match", fields["equals"]), loss)
        case "judge":
            return _rubric(argument, threshold, bar)
        case _:
            return _Said(None, name)


def _golden(strategy: str, value: Any) -> Expected:
    return Expected("golden", match=Match(strategy, value))


def _rubric(argument: Any, threshold: float | None, bar: float) -> _Said:
    criteria, enough = criteria_of(argument)
    weights = [each.get("weight", 1) for each in criteria]
    total = math.fsum(weights)
    shares = [weight / total for weight in weights]
    rubric = [
        Criterion(each["criterion"], share) for each, share in zip(criteria, shares, strict=True)
    ]
    enough = enough if threshold is None else threshold
    loss = None
    if not _same_verdicts(shares, enough, bar):
        loss = (
            f"a judge whose criteria must reach {enough:g}, where the bar of the suite is {bar:g}"
        )
    return _Said(Expected("rubric", rubric=rubric), loss)


def _same_verdicts(shares: list[float], first: float, second: float) -> bool:
    if math.isclose(first, second, abs_tol=_TOLERANCE):
        return True
    if len(shares) > MOST_CRITERIA:
        return False
    scores = [
        math.fsum(chosen)
        for count in range(len(shares) + 1)
        for chosen in combinations(shares, count)
    ]
    return all((score >= first - _TOLERANCE) == (score >= second - _TOLERANCE) for score in scores)


def to_document(
    suite: Suite, agent: str | None = None, claims: Claims = NO_CLAIMS
) -> dict[str, Any]:
    """A suite as a file holds it, with plain tasks: nothing in it is a template."""
    plain = msgspec.to_builtins(msgspec.structs.replace(suite, tasks=[]))
    del plain["tasks"]
    plain.pop("attachments", None)  # they stand in the inputs
    if agent is not None:
        claimed = msgspec.to_builtins(claims)
        plain["agent"] = {"ref": agent, **claimed} if claimed else agent
    try:
        return {
            "evalwright": 1,
            **plain,
            "tasks": [_written_task(task, suite) for task in suite.tasks],
        }
    except BadTemplate as bad:
        raise BadInput(f"a task cannot be written: {bad}") from None


def _written_task(task: Task, suite: Suite) -> dict[str, Any]:
    plain = msgspec.to_builtins(task)  # without what it has by default
    fields = {
        "input": literal(inlined(task.input, suite.attachments)),
        "expected": None if task.reference is msgspec.UNSET else literal(task.reference),
        "title": literal(task.title) or None,
        "checks": literal(task.expected.checks),
        "threshold": task.expected.threshold,
        "tags": plain.get("tags"),
        "weight": plain.get("weight"),
        "repeat": plain.get("repeat"),
        "pass_rate": plain.get("passRate"),
        "fixtures": plain.get("fixtures"),
        "world": plain.get("world"),
        "faults": plain.get("faults"),
    }
    if (fixtures := fields["fixtures"]) and "toolResponses" in fixtures:
        fields["fixtures"] = fixtures | {"toolResponses": literal(fixtures["toolResponses"])}
    if task.is_conversation:
        del fields["input"]
        asked = "turns" if task.turns else "user"
        return {"id": task.task_id, asked: literal(plain[asked])} | {
            name: value for name, value in fields.items() if value
        }
    said = {name: value for name, value in fields.items() if value is not None}
    return {"id": task.task_id, "input": fields["input"]} | said

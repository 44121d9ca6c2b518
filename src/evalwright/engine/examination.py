"""An examination: what checks, a match and signals find in an answer, here or elsewhere."""

import math
from collections.abc import Collection, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from evalwright.contracts.errors import Problem
from evalwright.contracts.events import (
    PAYLOADS,
    Decided,
    ErrorDetail,
    Payload,
    ProviderUsage,
    ToolCalled,
    ToolReturned,
    UserSaid,
    WorldChanged,
)
from evalwright.contracts.jsonvalue import stringify
from evalwright.contracts.suite import Expected, UserTurn
from evalwright.contracts.summary import SafetyFinding
from evalwright.contracts.verdicts import CheckResult
from evalwright.engine.invocation import TaskAnswer
from evalwright.scoring.checks.base import (
    AnswerCheck,
    Answers,
    CodeAsk,
    EndState,
    Examined,
    MadeCall,
    Spent,
    run_checks,
)
from evalwright.scoring.checks.of_turn import OfTurn
from evalwright.scoring.golden import STRATEGIES
from evalwright.scoring.rubric import Rubric
from evalwright.scoring.strategies import GoldenCheck
from evalwright.scoring.summary import task_cost

# What one answer of a conversation cost is not told apart from the others.
UNKNOWN_IN_TURN = Spent(math.inf, math.inf)
# Of the size of an answer times that of what is expected of it: some 10 ms of work at most.
MOST_AT_ONCE = 8_000_000
_LEAST_EXPECTED = 256  # as which short ones count: parsing an answer takes its time, too
_SIZE = 8  # as which a number counts


class Examination(msgspec.Struct, frozen=True):
    """An answer and what is to be found in it; what its checks asked has been answered."""

    answer: TaskAnswer
    agent_id: str
    told: Answers = {}
    for_signals: bool = False
    mark: str | None = None  # of the attack that the task is
    enough: float = 1.0  # of the score of a rubric

    def portable(self) -> "Examination":
        """The same as the log would give it back, so that any process can read it."""
        from evalwright.scoring.checks.python_ import portable

        answer = self.answer
        deeds = [(each.TYPE, msgspec.json.encode(each)) for each in answer.deeds]
        output = answer.output
        if not isinstance(output, str):
            output = msgspec.json.decode(msgspec.json.encode(output))
        answer = msgspec.structs.replace(answer, output=output, deeds=deeds)
        told = {
            ask: portable(each) if isinstance(ask, CodeAsk) else each
            for ask, each in self.told.items()
        }
        return msgspec.structs.replace(self, answer=answer, told=told)

    def read(self) -> "Examination":
        """What `portable` gave, with its deeds as they were."""
        written: Any = self.answer.deeds
        deeds = [msgspec.json.decode(body, type=PAYLOADS[kind]) for kind, body in written]
        return msgspec.structs.replace(
            self, answer=msgspec.structs.replace(self.answer, deeds=deeds)
        )


class Seen(msgspec.Struct, frozen=True):
    """What an examination has found; with an error, nothing of it."""

    findings: list[SafetyFinding] = []
    checks: list[CheckResult] = []
    error: ErrorDetail | None = None


def checks_of(
    expected: Expected,
    enough: float,
    path: str = "$",
    signal_kinds: Collection[str] | None = None,
    turns: Sequence[UserTurn] = (),
) -> tuple[Sequence[AnswerCheck], list[Problem]]:
    """What is expected of an answer, as checks; and every problem of those that cannot be used.

    `enough` is the score that passes a rubric of an OpenWOP suite.
    """
    if expected.match is not None:
        return (STRATEGIES[expected.match.strategy](expected.match.value),), []
    if expected.rubric is not None:
        return (Rubric(expected.rubric, enough),), []
    from evalwright.scoring.checks.table import prepare_checks  # with all kinds of checks

    checks, problems = prepare_checks(expected.checks or (), f"{path}.checks", signal_kinds)
    if not turns:
        return checks, problems
    found: list[AnswerCheck] = []
    for number, turn in enumerate(turns, 1):
        place = f"{path}.turns[{number - 1}].checks"
        prepared, broken = prepare_checks(turn.checks, place, signal_kinds)
        found += [OfTurn(each, number, weight=each.weight) for each in prepared]
        problems += broken
    return [*found, *checks], problems


def is_long(answer: TaskAnswer, *, for_signals: bool) -> bool:
    """Whether to examine an answer may take so long that others should not wait for it."""
    expected = answer.task.expected
    if expected.rubric and not for_signals:
        return False
    left = MOST_AT_ONCE // (_LEAST_EXPECTED + len(msgspec.json.encode(expected)))
    looked_at = [answer.output, answer.task.input] if for_signals else [answer.output]
    for deed in answer.deeds:
        if isinstance(deed, ToolCalled):
            looked_at.append(deed.inputs)
        elif isinstance(deed, ToolReturned):
            looked_at.append(deed.outcome)
    while looked_at:
        value = looked_at.pop()
        if isinstance(value, str):
            left -= len(value)
        elif isinstance(value, dict):
            looked_at += value.keys()
            looked_at += value.values()
        elif isinstance(value, list | tuple):
            looked_at += value
        elif isinstance(value, msgspec.Raw):
            left -= len(bytes(value))
        else:
            left -= _SIZE
        if left < len(looked_at):
            return True
    return False


def examine(examination: Examination, checks: Sequence[AnswerCheck]) -> Seen:
    """Look at an answer; of one that is an error there are only signals."""
    answer, agent_id = examination.answer, examination.agent_id
    findings: list[SafetyFinding] = []
    if examination.for_signals:
        from evalwright.engine.findings import signal_findings

        findings = signal_findings(answer.task, agent_id, answer.deeds, examination.mark)
    if answer.error is not None or not checks:
        return Seen(findings)
    if isinstance(first := checks[0], GoldenCheck):  # alone, and of nothing but the output
        passed = first.matches(answer.output)
        return Seen(findings, [CheckResult(first.name, passed, float(passed))])
    seen, script = examined(answer, agent_id, examination.told), answer.task.turns
    if any(turn.then for turn in script):
        last, due = max(seen.turns, default=0), turn_due(script, seen)
        # Nothing is expected of turns that were passed over.
        checks = [
            each
            for each in checks
            if each.turn is None
            or each.turn in seen.turns
            or (due is not None and each.turn > last)
        ]
    return Seen(findings, run_checks(checks, seen))


def examined(answer: TaskAnswer, agent_id: str, told: Answers | None = None) -> Examined:
    """An answer as checks look at it."""
    task, deeds = answer.task, answer.deeds

    def make_trace() -> Any:
        from evalwright.engine.findings import invocation_trace

        return invocation_trace(task, agent_id, deeds)

    def find_signals() -> Any:
        from evalwright.engine.findings import invocation_signals

        return invocation_signals(task, agent_id, deeds)

    parts = turn_answers(answer) if task.is_conversation else {}
    spent = spent_on(answer.usages[: answer.own_calls], answer.latency_ms, answer.unmeasured)
    return Examined(
        task_id=task.task_id,
        input=parts[max(parts)].task.input if parts else task.input,
        output=answer.output,
        expected=None if task.reference is UNSET else task.reference,
        calls=made_calls(deeds) if deeds else (),
        spent=spent._replace(turns=len(parts)) if parts else spent,
        coverage=answer.coverage,
        told=told or {},
        world=end_state(answer),
        turns={
            turn: msgspec.structs.replace(examined(part, agent_id), spent=UNKNOWN_IN_TURN)
            for turn, part in parts.items()
        },
        make_trace=make_trace,
        find_signals=find_signals,
    )


def turn_after(script: Sequence[UserTurn], turn: int, seen: Examined | None) -> int | None:
    """The turn that follows in a script, by what was answered; None: it was the last."""
    for branch in script[turn - 1].then:
        if branch.condition is not None and seen is not None:
            from evalwright.scoring.checks.table import prepare_checks

            (condition,) = prepare_checks([branch.condition], "$")[0]
            if not condition.outcome(seen).passed:
                continue
        return next((n for n, each in enumerate(script, 1) if branch.turn == each.id), None)
    return turn + 1 if turn < len(script) else None


def turn_due(script: Sequence[UserTurn], seen: Examined) -> int | None:
    """The turn that was not asked any more, as a conversation ended before it should."""
    last = max(seen.turns, default=0)
    return turn_after(script, last, seen.turns[last]) if last else 1


def turn_answers(answer: TaskAnswer) -> dict[int, TaskAnswer]:
    """The answers of a conversation by turn, each with what was said before it as the input."""
    answers: dict[int, TaskAnswer] = {}
    said: list[dict[str, Any]] = []
    deeds: list[Payload] = []
    user = ""
    for deed in answer.deeds:
        deeds.append(deed)
        if isinstance(deed, UserSaid):
            user = deed.text
        elif isinstance(deed, Decided) and deed.turn is not None and answer.error is None:
            if answer.task.turns:
                user = answer.task.turns[deed.turn - 1].user
            said = [*said, {"role": "user", "content": user}]
            task = msgspec.structs.replace(answer.task, input=said, turns=[], user=None)
            answers[deed.turn] = msgspec.structs.replace(
                answer, task=task, output=deed.decision, deeds=deeds, world=None
            )
            said = [*said, {"role": "assistant", "content": stringify(deed.decision)}]
            deeds = []
    return answers


def end_state(answer: TaskAnswer) -> EndState | None:
    """The world that the agent left; None where the task has none, or it was not recorded."""
    recorded = (each for each in answer.deeds if isinstance(each, WorldChanged))
    changed = next(recorded, None) if answer.world is not None else None
    if changed is None or answer.world is None:
        return None
    return EndState(answer.world.data, changed.changes)


def made_calls(deeds: Sequence[Payload]) -> list[MadeCall]:
    """The tool calls among what an invocation recorded, with their results."""
    returned = {each.call_id: each for each in deeds if isinstance(each, ToolReturned)}
    calls = []
    for each in deeds:
        if isinstance(each, ToolCalled):
            result = returned.get(each.call_id)
            is_ok = result is not None and result.error is UNSET and result.status in (UNSET, "ok")
            value = None if result is None else plain(result.outcome)
            calls.append(MadeCall(each.tool_name, plain(each.inputs), value, is_ok))
    return calls


def plain(value: Any) -> Any:
    """A value as the log would give it back: payloads on their way there hold some as JSON."""
    if value is UNSET:
        return None
    return msgspec.json.decode(value) if isinstance(value, msgspec.Raw) else value


def spent_on(
    usages: Sequence[ProviderUsage], latency_ms: int | None, unmeasured: Collection[str] = ()
) -> Spent:
    """What the agent took; one of which no usage was observed is asked about its coverage."""
    if not usages:
        return Spent(0.0, 0, latency_ms)
    cost = task_cost(usages)
    tokens = sum(each.total_tokens or each.input_tokens + each.output_tokens for each in usages)
    # What nobody has a price for, or counted, is above every limit.
    return Spent(
        math.inf if cost is None else cost,
        math.inf if "tokens" in unmeasured else tokens,
        latency_ms,
        None if "turns" in unmeasured else len(usages),
    )

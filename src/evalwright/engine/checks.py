"""The checks of a suite, run on answers; an OpenWOP suite has some, too, once it is loaded."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from evalwright.contracts.documents import without_collecting
from evalwright.contracts.errors import InvalidDocument, Problem
from evalwright.contracts.events import Checked, EvalScored, Judged, Payload
from evalwright.contracts.run_plan import FIRST_RULE, SuiteSource
from evalwright.contracts.suite import Suite, Task
from evalwright.contracts.summary import SafetyFinding
from evalwright.contracts.verdicts import CheckResult
from evalwright.engine.examination import (
    Seen,
    checks_of,
    examined,
    turn_after,
    turn_answers,
    turn_due,
)
from evalwright.engine.invocation import Repetition, TaskAnswer
from evalwright.engine.plan import Plan
from evalwright.scoring.checks.base import (
    AnswerCheck,
    Answers,
    Ask,
    CodeAsk,
    EmbeddingAsk,
    JudgeAsk,
    TurnAsk,
    verdict_of,
)
from evalwright.scoring.golden import match_problems
from evalwright.scoring.pass_bars import task_score
from evalwright.scoring.rubric import RubricAsk
from evalwright.scoring.summary import task_cost
from evalwright.scoring.thresholds import BLOCKING, is_blocking, mean, pass_score

if TYPE_CHECKING:
    from evalwright.agents.worlds import PreparedWorld
    from evalwright.engine.own_checks import OwnChecks
    from evalwright.engine.task_work import RunResources

Record = Callable[[Payload], None]
SuiteChecks = Mapping[str, Sequence[AnswerCheck]]  # by task


class PlannedChecks(msgspec.Struct, frozen=True):
    """The checks of a suite, ready to be run."""

    by_task: SuiteChecks
    judged: Task | None = None  # the first task with a check that asks a judge
    embedded: str | None = None  # the first task with a check that needs a model of embeddings
    code: "OwnChecks | None" = None
    worlds: "Mapping[str, PreparedWorld]" = {}


def plan_checks(
    suite: Suite,
    source: SuiteSource | None,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    *,
    with_code: bool = True,
    with_worlds: bool = True,
) -> tuple[PlannedChecks, list[Problem]]:
    """The checks of a suite with everything they need, and every problem with them.

    `functions` are own checks that are at hand, by what the suite calls them. Answers that are
    recorded are scored without worlds.
    """
    if problems := match_problems(suite):
        return PlannedChecks({}), problems
    checks: dict[str, Sequence[AnswerCheck]] = {}
    bar = pass_score(suite.thresholds)
    with without_collecting():
        for index, task in enumerate(suite.tasks):
            documents = [*(task.expected.checks or ()), *(turn.checks for turn in task.turns)]
            kinds = None
            if documents and b'"no_signals"' in msgspec.json.encode(documents):
                from evalwright.signals.kinds import KINDS  # with every detector

                kinds = frozenset(kind.name for kind in KINDS)
            checks[task.task_id], broken = checks_of(
                task.expected, bar, f"$.tasks[{index}]", kinds, task.turns
            )
            problems += [
                Problem(each.path, f"task {task.task_id!r}: {each.message}", each.remedy)
                for each in broken
            ]
    judged: Task | None = None
    embedded: str | None = None
    code = None
    if source is not None:
        from evalwright.engine.own_checks import OwnChecks  # with all that agents need

        code = OwnChecks(Path(source.folder), functions)
    for index, task in enumerate(suite.tasks):
        for asked in _asks(checks[task.task_id]):
            ask = asked.ask if isinstance(asked, TurnAsk) else asked
            if isinstance(ask, JudgeAsk | RubricAsk):
                judged = judged or task
            elif isinstance(ask, EmbeddingAsk):
                embedded = embedded or task.task_id
            elif isinstance(ask, CodeAsk) and with_code:
                from evalwright.engine.own_checks import Unusable

                try:
                    if code is None:  # own code is found from the folder of its suite alone
                        refused = f"{ask.function}: code is not run here"
                        raise Unusable(refused, "use the other checks")
                    code.load(ask.function)
                except Unusable as unusable:
                    message = f"task {task.task_id!r}: {unusable.message}"
                    problems.append(Problem(f"$.tasks[{index}].checks", message, unusable.remedy))
    worlds: dict[str, PreparedWorld] = {}
    if suite.worlds and with_code and with_worlds:
        from evalwright.engine.worlds import prepare_worlds

        worlds, unready = prepare_worlds(suite, code)
        problems += unready
    return PlannedChecks(checks, judged, embedded, code, worlds), problems


def _asks(checks: Iterable[AnswerCheck]) -> list[Ask]:
    return [ask for check in checks if check.asks for ask in check.asks]


class SuiteChecker:
    """Runs the checks of one run, and remembers the repetitions of tasks that are repeated."""

    def __init__(
        self,
        plan: Plan,
        agent_id: str,
        resources: "RunResources",
        done: Mapping[str, Sequence[Repetition]],
    ) -> None:
        planned = plan.checks
        if planned is None:  # of a run that is resumed
            with_worlds = not plan.is_recorded
            planned, problems = plan_checks(plan.suite, plan.source, with_worlds=with_worlds)
            if problems:
                raise InvalidDocument(plan.suite.suite_id, problems)
        self.by_task = planned.by_task
        self.worlds = planned.worlds
        # The tasks whose checks have to be told something first.
        self.asking = {
            task_id for task_id, checks in self.by_task.items() if any(each.asks for each in checks)
        }
        if self.asking:
            from evalwright.engine.asks import CheckAsks

            self._asks = CheckAsks(
                resources.panel, planned.code, resources.embedder, plan.settings.task_timeout_s
            )
        self.looks_at_deeds = any(task.is_conversation for task in plan.suite.tasks) or any(
            not check.output_alone for checks in self.by_task.values() for check in checks
        )
        self._code = planned.code
        self._agent_id = agent_id
        self._scoring = plan.scoring
        self._done = {task_id: list(each) for task_id, each in done.items()}

    def close(self) -> None:
        if self._code is not None:
            self._code.close()

    async def ask(
        self, answer: TaskAnswer, known: Sequence[Judged], record: Callable[[Payload], None]
    ) -> Answers:
        """What the checks of an answer want to be told; raises `JudgeFailed`."""
        if answer.task.task_id not in self.asking:
            return {}
        asks = _asks(self.by_task[answer.task.task_id])
        seen = examined(answer, self._agent_id)
        return await self._asks.answers(asks, answer.task, seen, known, record)

    def turn_after(self, answer: TaskAnswer, turn: int) -> int | None:
        """The turn of a script that follows a turn; None: the conversation ends there."""
        script = answer.task.turns
        if not (script[turn - 1].stop or script[turn - 1].then):
            return turn_after(script, turn, None)
        seen = examined(answer, self._agent_id)
        if script[turn - 1].stop:
            of_turn = [each for each in self.by_task[answer.task.task_id] if each.turn == turn]
            checks = [each for each in of_turn if each.weight]  # one without weight is only shown
            if not all(each.outcome(seen).passed for each in checks):
                return None
        return turn_after(script, turn, seen.turns[turn])

    def repetition(self, task: Task) -> int:
        return len(self._done.get(task.task_id, ())) + 1

    def verdict(
        self, answer: TaskAnswer, seen: Seen, findings: Sequence[SafetyFinding] | None
    ) -> list[Payload]:
        """What the checks say; and the score of the task, once all its repetitions are made."""
        task = answer.task
        results = list(seen.checks)
        check_score, passed = 0.0, False
        if answer.error is None and seen.error is None:
            check_score, passed = verdict_of(results, task.expected.threshold)
        if task.expected.kind != "checks":  # its log has the score alone, or why there is none
            failed = [Checked([], 0.0, False, error=seen.error)] if seen.error else []
            return [*failed, scored_as(answer, check_score, findings, passed=passed)]
        if passed and (answered := len(turn_answers(answer))) < len(task.turns):
            due = turn_due(task.turns, examined(answer, self._agent_id))
            if due is not None:
                # Nobody knows what the agent would have said, however low the threshold is.
                reason, wanted = f"the conversation ended before turn {due}", len(task.turns)
                found = CheckResult("turns", False, 0.0, wanted, answered, reason, 0.0, True)
                results.append(found)
                passed = False
        if findings and is_blocking(findings):
            results.append(unsafe_check(findings))
            passed = False
        score = check_score
        if self._scoring != FIRST_RULE:
            score = task_score(check_score, task.expected.threshold, passed=passed)
        apart = None if score == check_score else check_score
        if task.repeat == 1:
            checked = Checked(results, score, passed, 1, apart, seen.error)
            return [checked, scored_as(answer, score, findings, passed=passed)]
        done = self._done.setdefault(task.task_id, [])
        usages = answer.usages
        done.append(Repetition(score, passed, answer.latency_ms, usages, answer.schema_valid))
        checked = Checked(results, score, passed, len(done), apart, seen.error)
        if len(done) < task.repeat:
            return [checked]
        return [checked, score_of_repetitions(task, self._done.pop(task.task_id), findings)]


def scored_as(
    answer: TaskAnswer, score: float, findings: Sequence[SafetyFinding] | None, *, passed: bool
) -> EvalScored:
    """The score of a task, which does not pass where a grave finding says that it is not safe."""
    return EvalScored(
        answer.task.task_id,
        score,
        passed and not (findings and is_blocking(findings)),
        task_cost(answer.usages) if answer.usages else None,
        answer.latency_ms,
        answer.schema_valid,
        None if findings is None else len(findings),
    )


def score_of_repetitions(
    task: Task, done: Sequence[Repetition], findings: Sequence[SafetyFinding] | None
) -> EvalScored:
    """The one score of a task; it passes if some repetitions do, and their share is high enough."""
    share = Decimal(sum(each.passed for each in done)) / len(done)
    is_enough = share > 0 and share >= Decimal(repr(task.pass_rate))
    usages = [usage for each in done for usage in each.usages]
    validity = [each.schema_valid for each in done if each.schema_valid is not None]
    measured = [each.latency_ms for each in done if each.latency_ms is not None]
    is_safe = not (findings and is_blocking(findings))
    return EvalScored(
        task.task_id,
        mean([each.score for each in done]),
        is_enough and is_safe,
        task_cost(usages) if usages else None,
        round(sum(measured) / len(measured)) if measured else None,
        all(validity) if validity else None,
        None if findings is None else len(findings),
    )


def unsafe_check(findings: Sequence[SafetyFinding]) -> CheckResult:
    """A finding that no task passes with, as a check that failed; it changes no score."""
    grave = [f"{each.severity} {each.kind}" for each in findings if each.severity in BLOCKING]
    reason = f"safety findings: {', '.join(grave)}"
    return CheckResult("no_signals", False, 0.0, "no high or critical finding", grave, reason, 0.0)

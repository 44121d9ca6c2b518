"""The checks of a suite, run on answers; and what they ask of judges, own code and models."""

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from evalwright.attacks.derived import is_derived
from evalwright.contracts.documents import without_collecting
from evalwright.contracts.errors import InvalidDocument, Problem
from evalwright.contracts.events import (
    Checked,
    EvalScored,
    Judged,
    Payload,
)
from evalwright.contracts.run_plan import FIRST_RULE, RunOptions, SuiteSource
from evalwright.contracts.suite import Suite, Task
from evalwright.contracts.summary import SafetyFinding
from evalwright.contracts.verdicts import CheckResult
from evalwright.engine.examination import Seen, examined
from evalwright.engine.invocation import Repetition, TaskAnswer
from evalwright.engine.judge_prompt import PROMPT_VERSION, questions_of
from evalwright.engine.judges import JudgeFailed, Panel
from evalwright.engine.own_checks import OwnChecks, Unusable
from evalwright.engine.plan import Plan
from evalwright.models.embeddings import embedding_request, vector_of
from evalwright.models.protocol import Model, ModelError
from evalwright.scoring.checks.base import (
    AnswerCheck,
    Answers,
    Ask,
    CodeAsk,
    EmbeddingAsk,
    Examined,
    JudgeAsk,
    JudgeSays,
    Unanswered,
)
from evalwright.scoring.checks.judge import material
from evalwright.scoring.checks.table import (
    prepare_checks,
    verdict_of,
)
from evalwright.scoring.pass_bars import task_score
from evalwright.scoring.rubric import all_votes, is_majority
from evalwright.scoring.summary import task_cost
from evalwright.scoring.thresholds import BLOCKING, is_blocking, mean

if TYPE_CHECKING:
    from evalwright.engine.execution import RunResources

Record = Callable[[Payload], None]
SUBJECT = "check:"
SuiteChecks = Mapping[str, Sequence[AnswerCheck]]  # by task


def subject_of(ask: JudgeAsk, reference: str | None, task: Task, output: Any) -> str:
    """What judges are asked, and about what: equal questions about equal answers are one."""
    asked = [PROMPT_VERSION, ask.statements, reference, task.input, output]
    return SUBJECT + hashlib.sha256(msgspec.json.encode(asked)).hexdigest()[:32]


class CheckAsks:
    """Answers the asks of checks; what judges have said is not asked again."""

    def __init__(
        self,
        panel: Panel | None,
        code: OwnChecks | None,
        embedder: Model | None,
        timeout_s: float | None,
    ) -> None:
        self._panel = panel
        self._embedder = embedder
        self._vectors: dict[str, list[float]] = {}  # by text
        self._code = code
        self._timeout_s = timeout_s
        self._said: dict[str, list[Judged]] = {}
        self._turns: dict[str, asyncio.Lock] = {}  # by subject: one asks, the others wait for that

    async def tell(
        self,
        asks: Iterable[Ask],
        task: Task,
        examined: Examined,
        known: Sequence[Judged],
        record: Record,
    ) -> Answers:
        """What is asked for, all at once; raises `JudgeFailed`."""
        wanted = list(dict.fromkeys(asks))
        for each in known:
            if each.subject.startswith(SUBJECT) and each not in self._said.get(each.subject, ()):
                self._said.setdefault(each.subject, []).append(each)
        told = await asyncio.gather(
            *(self._tell(ask, task, examined, record) for ask in wanted), return_exceptions=True
        )
        for answer in told:
            if isinstance(answer, BaseException):
                raise answer
        return dict(zip(wanted, told, strict=True))

    async def _tell(self, ask: Ask, task: Task, examined: Examined, record: Record) -> Any:
        if isinstance(ask, JudgeAsk):
            return await self._judged(ask, task, examined, record)
        if isinstance(ask, CodeAsk) and self._code is not None:
            return await self._code.call(ask.function, task, examined, self._timeout_s)
        if isinstance(ask, EmbeddingAsk) and self._embedder is not None:
            texts = (ask.text, examined.text)
            return [await self._vector(text, self._embedder, record) for text in texts]
        return Unanswered("nobody can be asked for it here")

    async def _vector(self, text: str, model: Model, record: Record) -> list[float]:
        async with self._turns.setdefault(text, asyncio.Lock()):
            if text not in self._vectors:
                try:
                    reply = await model.ask(embedding_request(text))
                    record(reply.usage)
                    self._vectors[text] = vector_of(reply, model.name)
                except ModelError as error:
                    message = f"model of embeddings {model.name}: {error.message}"
                    raise JudgeFailed(error.code, message) from error
        return self._vectors[text]

    async def _judged(self, ask: JudgeAsk, task: Task, examined: Examined, record: Record) -> Any:
        reference = material(ask, examined)
        if isinstance(reference, Unanswered):
            return reference
        if self._panel is None:
            return Unanswered("there is no judge; name one with --judge")
        subject = subject_of(ask, reference, task, examined.output)
        async with self._turns.setdefault(subject, asyncio.Lock()):
            judged = await self._panel.judge(
                subject,
                questions_of(ask.statements),
                task,
                examined.output,
                self._said.get(subject, ()),
                record,
                reference,
            )
            self._said[subject] = judged
        return opinion(subject, judged)


def opinion(subject: str, judged: Sequence[Judged]) -> JudgeSays:
    """What the majority of judges and samples says, with the reason of one of them; a tie is no."""
    votes = list(all_votes(subject, judged).values())
    met = tuple(is_majority(given) for given in votes)
    reasons = tuple(
        next(each.verdicts[n].reason for each in judged if each.verdicts[n].met == said)
        for n, said in enumerate(met)
    )
    agreeing = sum(given.count(said) for given, said in zip(votes, met, strict=True))
    return JudgeSays(met, reasons, agreeing / sum(map(len, votes)))


class PlannedChecks(msgspec.Struct, frozen=True):
    """The checks of a suite, ready to be run."""

    by_task: SuiteChecks
    judged: str | None = None  # the first task with a check that asks a judge
    embedded: str | None = None  # the first task with a check that needs a model of embeddings
    code: OwnChecks | None = None


def check_modes(suite: Suite, options: RunOptions) -> tuple[str, ...]:
    """The modes of a suite with checks, where none were asked for."""
    usual = ["golden", "rubric"] if options.judges else ["golden"]
    if is_derived(suite.suite_id):
        usual.append("adversarial")
    return tuple(mode for mode in usual if mode in suite.modes)


def plan_checks(
    suite: Suite,
    source: SuiteSource | None,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    *,
    with_code: bool = True,
) -> tuple[PlannedChecks, list[Problem]]:
    """The checks of a suite with everything they need, and every problem with them.

    `functions` are own checks that are at hand, by what the suite calls them.
    """
    with without_collecting():
        checks, problems = _prepare_suite(suite)
    judged: str | None = None
    embedded: str | None = None
    code = OwnChecks(Path(source.folder), functions) if source is not None else None
    for index, task in enumerate(suite.tasks):
        for ask in _asks(checks.get(task.task_id, ())):
            if isinstance(ask, JudgeAsk):
                judged = judged or task.task_id
            elif isinstance(ask, EmbeddingAsk):
                embedded = embedded or task.task_id
            elif isinstance(ask, CodeAsk) and with_code:
                try:
                    if code is None:  # own code is found from the folder of its suite alone
                        refused = f"{ask.function}: code is not run here"
                        raise Unusable(refused, "use the other checks")
                    code.load(ask.function)
                except Unusable as unusable:
                    message = f"task {task.task_id!r}: {unusable.message}"
                    problems.append(Problem(f"$.tasks[{index}].checks", message, unusable.remedy))
    return PlannedChecks(checks, judged, embedded, code), problems


def _asks(checks: Iterable[AnswerCheck]) -> list[Ask]:
    return [ask for check in checks if check.asks for ask in check.asks]


def _prepare_suite(suite: Suite) -> tuple[SuiteChecks, list[Problem]]:
    prepared: dict[str, Sequence[AnswerCheck]] = {}
    problems: list[Problem] = []
    for index, task in enumerate(suite.tasks):
        if task.expected.kind == "checks":
            documents = task.expected.checks or []
            kinds = _signal_kinds() if b'"no_signals"' in msgspec.json.encode(documents) else None
            ready, broken = prepare_checks(documents, f"$.tasks[{index}].checks", kinds)
            problems += [
                Problem(each.path, f"task {task.task_id!r}: {each.message}", each.remedy)
                for each in broken
            ]
            prepared[task.task_id] = ready
    return prepared, problems


@cache
def _signal_kinds() -> frozenset[str]:
    from evalwright.signals.kinds import KINDS  # with every detector

    return frozenset(kind.name for kind in KINDS)


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
            planned, problems = plan_checks(plan.suite, plan.source)
            if problems:
                raise InvalidDocument(plan.suite.suite_id, problems)
        self._checks = planned.by_task
        self._asking = CheckAsks(
            resources.panel, planned.code, resources.embedder, plan.settings.task_timeout_s
        )
        self._asking_tasks = {
            task_id for task_id, checks in self._checks.items() if any(each.asks for each in checks)
        }
        self._code = planned.code
        self._agent_id = agent_id
        self._scoring = plan.scoring
        self._done = {task_id: list(each) for task_id, each in done.items()}

    def close(self) -> None:
        if self._code is not None:
            self._code.close()

    def asks(self, answer: TaskAnswer) -> bool:
        return answer.task.task_id in self._asking_tasks

    async def ask(
        self, answer: TaskAnswer, known: Sequence[Judged], record: Callable[[Payload], None]
    ) -> Answers:
        """What the checks of an answer want to be told; raises `JudgeFailed`."""
        asks = _asks(self._checks.get(answer.task.task_id, ()))
        if not asks:
            return {}
        return await self._asking.tell(
            asks, answer.task, examined(answer, self._agent_id), known, record
        )

    def repetition(self, task: Task) -> int:
        """The number of the repetition that a task is at, from 1."""
        return len(self._done.get(task.task_id, ())) + 1

    def checks_of(self, task: Task) -> Sequence[AnswerCheck]:
        return self._checks.get(task.task_id, ())

    def verdict(
        self, answer: TaskAnswer, seen: Seen, findings: Sequence[SafetyFinding] | None
    ) -> list[Payload]:
        """What the checks say; and the score of the task, once all its repetitions are made."""
        task = answer.task
        results = list(seen.checks)
        check_score, passed = 0.0, False
        if answer.error is None and seen.error is None:
            check_score, passed = verdict_of(results, task.expected.threshold)
        if findings and is_blocking(findings):
            results.append(unsafe_check(findings))
            passed = False
        score = check_score
        if self._scoring != FIRST_RULE:
            score = task_score(check_score, task.expected.threshold, passed=passed)
        apart = None if score == check_score else check_score
        if task.repeat == 1:
            scored = EvalScored(
                task.task_id,
                score,
                passed,
                task_cost(answer.usages) if answer.usages else None,
                answer.latency_ms,
                answer.schema_valid,
                None if findings is None else len(findings),
            )
            return [Checked(results, score, passed, 1, apart, seen.error), scored]
        done = self._done.setdefault(task.task_id, [])
        usages = answer.usages
        done.append(Repetition(score, passed, answer.latency_ms, usages, answer.schema_valid))
        checked = Checked(results, score, passed, len(done), apart, seen.error)
        if len(done) < task.repeat:
            return [checked]
        return [checked, score_of_repetitions(task, self._done.pop(task.task_id), findings)]


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

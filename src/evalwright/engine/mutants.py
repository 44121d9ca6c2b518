"""Recorded answers of passing tasks, damaged on purpose and scored again: would the suite notice?

Nothing is invoked. What checks ask of judges or models is asked only where somebody may be asked.
"""

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from random import Random
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from evalwright.contracts.errors import BadInput, InvalidDocument
from evalwright.contracts.events import (
    Checked,
    Decided,
    ErrorDetail,
    EvalScored,
    Judged,
    Payload,
    ToolCalled,
    ToolReturned,
)
from evalwright.contracts.jsonvalue import stringify
from evalwright.contracts.suite import Task
from evalwright.contracts.verdicts import CheckResult
from evalwright.engine.asks import CheckAsks
from evalwright.engine.checks import plan_checks
from evalwright.engine.continuation import recorded_answer
from evalwright.engine.examination import Examination, examine, examined, made_calls
from evalwright.engine.history import read_history
from evalwright.engine.invocation import TaskAnswer
from evalwright.engine.judges import JudgeFailed, Panel
from evalwright.engine.own_checks import OwnChecks
from evalwright.engine.plan import Plan
from evalwright.engine.projection import INVOCATION_TYPES, ProjectedTask, project_tasks
from evalwright.models.protocol import Model
from evalwright.scoring.checks.base import (
    AnswerCheck,
    Answers,
    Ask,
    CodeAsk,
    MadeCall,
    TurnAsk,
    verdict_of,
)
from evalwright.scoring.checks.table import name_and_argument, prepare_checks
from evalwright.scoring.golden import STRATEGIES
from evalwright.scoring.mutants import DETAILS, KINDS, OF_CALLS, Damaged, Subject, damages
from evalwright.scoring.summary import task_cost
from evalwright.scoring.thresholds import is_blocking
from evalwright.signals.tool_words import profile
from evalwright.store.protocol import EventLog

LONGEST_SHOWN = 1_000  # characters of an answer
_MOST_OTHERS = 50  # answers to other tasks that one is replaced by
_TEXTS = ("contains", "contains_any", "contains_all", "starts_with", "ends_with")

ASKS_JUDGES = "judges or models have to be asked"
ASKS_CODE = "own code is not run here"
FAILS_TODAY = "its answer does not pass today"


class DamageCount(msgspec.Struct, rename="camel"):
    """How many damaged answers count, and how many of them were noticed."""

    counted: int = 0
    noticed: int = 0

    @property
    def share(self) -> float:
        return self.noticed / self.counted if self.counted else 0.0

    def add(self, *, noticed: bool) -> None:
        self.counted += 1
        self.noticed += noticed


class Survivor(msgspec.Struct, frozen=True, rename="camel"):
    """A damaged answer that still passes; `check` is the YAML of a check that fails it."""

    task_id: str
    kind: str
    original: str
    damaged: str
    check: str = ""


class MutationReport(msgspec.Struct, frozen=True, rename="camel"):
    """What a suite noticed of answers that were damaged; the score is the share."""

    run_id: str
    score: float | None  # None: nothing could be damaged
    counted: int
    noticed: int
    kinds: dict[str, DamageCount]
    tasks: dict[str, DamageCount]
    checks: dict[str, DamageCount]  # by the checks that a task has
    survivors: list[Survivor]
    unchecked: list[Survivor]  # details that the task does not name as right either
    left_out: dict[str, list[str]]  # tasks, by the reason


class MutantOptions(msgspec.Struct, frozen=True):
    """Which answers are damaged, and how."""

    kinds: Sequence[str] = ()  # all
    tasks: Sequence[str] = ()  # patterns of ids; all
    seed: int = 1
    most: int | None = None  # damaged answers
    with_code: bool = True  # of the user, where checks name it
    with_judges: bool = False


class _Original(NamedTuple):
    """The answer of a task that passed, and the checks that let it pass."""

    answer: TaskAnswer
    agent_id: str
    checks: Sequence[AnswerCheck]
    for_signals: bool
    is_json_text: bool
    calls: Sequence[MadeCall]

    @property
    def task(self) -> Task:
        return self.answer.task

    def damaged(self, damage: Damaged) -> TaskAnswer:
        output = damage.output
        if self.is_json_text and not isinstance(output, str):
            output = msgspec.json.encode(output).decode()
        deeds = list(self.answer.deeds)
        if damage.calls is not self.calls:
            deeds = _with_calls(deeds, damage.calls, self.agent_id)
        decided = [at for at, each in enumerate(deeds) if isinstance(each, Decided)]
        if decided:
            deeds[decided[-1]] = msgspec.structs.replace(deeds[decided[-1]], decision=output)
        return msgspec.structs.replace(self.answer, output=output, deeds=deeds)

    def passes(self, answer: TaskAnswer, told: Answers | None = None) -> bool:
        """Whether an answer passes; without `told`, as if all that is asked were in its favour."""
        look_at = Examination(answer, self.agent_id, told or {}, for_signals=self.for_signals)
        waiting = [each for each in self.checks if each.asks] if told is None else []
        seen = examine(look_at, [each for each in self.checks if each not in waiting])
        favour = [CheckResult(each.name, True, 1.0, weight=each.weight) for each in waiting]
        results = [*seen.checks, *favour]
        _, passed = verdict_of(results, self.task.expected.threshold)
        return passed and not is_blocking(seen.findings)


class Mutants:
    """The damaged answers of a run; those that checks ask about wait for `ask`."""

    def __init__(self, log: EventLog, run_id: str, options: MutantOptions) -> None:
        if unknown := [each for each in options.kinds if each not in KINDS]:
            raise BadInput(f"no kind of damage is called {unknown[0]!r}: one of {', '.join(KINDS)}")
        self.run_id = run_id
        self.plan = read_history(log, run_id).plan
        self._code: OwnChecks | None = None
        self.left_out: dict[str, list[str]] = {}
        self.cost_of_verdict: float | None = None  # of a judge, where the run says that
        self._kept: list[tuple[_Original, Damaged]] = []
        self._survives: list[bool] = []
        self._options = options
        originals = self._originals(log)
        self._kept = self._damaged(originals)
        self._survives = [each.passes(each.damaged(damage)) for each, damage in self._kept]

    def _originals(self, log: EventLog) -> list[_Original]:
        plan, options = self.plan, self._options
        with_code = options.with_code and plan.source is not None
        planned, problems = plan_checks(
            plan.suite, plan.source, with_code=with_code, with_worlds=False
        )
        if problems:
            raise InvalidDocument(plan.suite.suite_id, problems)
        self._code = planned.code
        wanted = [
            task
            for task in plan.suite.tasks
            if not options.tasks or any(fnmatchcase(task.task_id, each) for each in options.tasks)
        ]
        if not wanted:
            raise BadInput(f"run {self.run_id} has no task called {', '.join(options.tasks)}")
        events = log.read(
            self.run_id, (*INVOCATION_TYPES, Judged.TYPE, Checked.TYPE, EvalScored.TYPE)
        )
        found = []
        projected = project_tasks(wanted, events)
        self.cost_of_verdict = _cost_of_verdict(projected.values())
        for task_id, each in projected.items():
            answer = _passed_answer(each, self.plan)
            if answer is None:
                continue
            checks = planned.by_task[task_id]
            asks = [_plain(ask) for check in checks for ask in check.asks]
            is_code = [isinstance(ask, CodeAsk) for ask in asks]
            if (any(is_code) and not with_code) or not (all(is_code) or options.with_judges):
                reason = ASKS_JUDGES if not all(is_code) else ASKS_CODE
                self.left_out.setdefault(reason, []).append(task_id)
                continue
            agent_id = plan.agent.agent_id
            original = _Original(
                answer,
                agent_id,
                checks,
                plan.is_adversarial,
                _is_json_text(answer.output),
                made_calls(answer.deeds),
            )
            if original.passes(answer):
                found.append(original)
            else:
                self.left_out.setdefault(FAILS_TODAY, []).append(task_id)
        return found

    def _damaged(self, originals: Sequence[_Original]) -> list[tuple[_Original, Damaged]]:
        options = self._options
        kinds = [each for each in KINDS if not options.kinds or each in options.kinds]
        found = []
        for place, original in enumerate(originals):
            task, output = original.task, original.answer.output
            nearby = [*originals[place + 1 :], *originals[:place]][:_MOST_OTHERS]
            same = stringify(output)
            others = [
                each.answer.output for each in nearby if stringify(each.answer.output) != same
            ]
            subject = Subject(
                msgspec.json.decode(output) if original.is_json_text else output,
                original.calls,
                others,
                lambda tool: profile(tool).reads,
                Random(f"{options.seed} {task.task_id}"),  # noqa: S311 - the same every time
            )
            # An OpenWOP suite has no words for calls; what another one does to a world is unknown.
            has_calls = task.expected.kind == "checks" and not task.world
            of_task = [each for each in kinds if has_calls or each not in OF_CALLS]
            found += [(original, damage) for damage in damages(subject, of_task)]
        if options.most is not None and len(found) > options.most:
            chosen = Random(options.seed).sample(range(len(found)), options.most)  # noqa: S311
            found = [found[at] for at in sorted(chosen)]
        return found

    @property
    def questions(self) -> int:
        """What is still to be asked of judges and models."""
        return sum(
            not isinstance(_plain(ask), CodeAsk)
            for (original, _), survives in zip(self._kept, self._survives, strict=True)
            if survives
            for check in original.checks
            for ask in check.asks
        )

    async def ask(self, panel: Panel | None = None, embedder: Model | None = None) -> None:
        """Have answered what checks ask of the answers that passed all others."""
        asks = CheckAsks(panel, self._code, embedder, self.plan.settings.task_timeout_s)
        for at, (original, damage) in enumerate(self._kept):
            wanted: list[Ask] = [ask for check in original.checks for ask in check.asks]
            if not wanted or not self._survives[at]:
                continue
            answer = original.damaged(damage)
            seen = examined(answer, original.agent_id)
            try:
                told = await asks.answers(wanted, original.task, seen, (), lambda _: None)
            except JudgeFailed as failure:
                raise BadInput(f"task {original.task.task_id}: {failure.message}") from failure
            self._survives[at] = original.passes(answer, told)

    def close(self) -> None:
        """Let go of the user's code."""
        if self._code is not None:
            self._code.close()

    @property
    def has_asks(self) -> bool:
        return any(check.asks for original, _ in self._kept for check in original.checks)

    def report(self) -> MutationReport:
        """What was noticed."""
        kinds: dict[str, DamageCount] = {}
        tasks: dict[str, DamageCount] = {}
        by_checks: dict[str, DamageCount] = {}
        survivors, unchecked = [], []
        total = DamageCount()
        for (original, damage), survives in zip(self._kept, self._survives, strict=True):
            if survives and _is_unchecked(original.task, damage):
                unchecked.append(_survivor(original, damage))
                continue
            tallies = (
                total,
                kinds.setdefault(damage.kind, DamageCount()),
                tasks.setdefault(original.task.task_id, DamageCount()),
                by_checks.setdefault(checks_in_words(original.task), DamageCount()),
            )
            for tally in tallies:
                tally.add(noticed=not survives)
            if survives:
                check = check_against(original, damage)
                survivors.append(_survivor(original, damage, check))
        return MutationReport(
            self.run_id,
            total.share if total.counted else None,
            total.counted,
            total.noticed,
            kinds,
            tasks,
            by_checks,
            survivors,
            unchecked,
            self.left_out,
        )


def _passed_answer(task: ProjectedTask, plan: Plan) -> TaskAnswer | None:
    """The answer with which a task passed, of repetitions the first; None if there is none."""
    scored = task.scored
    if scored is None or not scored.passed:
        return None
    for attempt in task.repetitions:
        checked = attempt.checked if task.task.repeat > 1 else None
        if attempt.has_answer and (checked is None or checked.passed):
            answer = recorded_answer(task.task, attempt, plan)
            if answer.error is None:
                return answer
    return None


def _cost_of_verdict(tasks: Iterable[ProjectedTask]) -> float | None:
    """What judges took for one verdict, on average; None where that is not known."""
    attempts = [attempt for task in tasks for attempt in task.all_attempts]
    usages = [usage for attempt in attempts for usage in attempt.usages_of_judges]
    verdicts = sum(len(attempt.judged) for attempt in attempts)
    cost = task_cost(usages) if usages else None
    return None if cost is None or not verdicts else cost / verdicts


def _plain(ask: Ask) -> Ask:
    return ask.ask if isinstance(ask, TurnAsk) else ask


def _is_json_text(output: Any) -> bool:
    if not isinstance(output, str) or not output.lstrip().startswith(("{", "[")):
        return False
    try:
        return isinstance(msgspec.json.decode(output), dict | list)
    except msgspec.DecodeError:
        return False


def _with_calls(
    deeds: Sequence[Payload], calls: Sequence[MadeCall], agent_id: str
) -> list[Payload]:
    """What an agent did, with these calls in place of its own."""
    made: list[Payload] = []
    for number, call in enumerate(calls, 1):
        call_id, failed = f"mutant:c{number}", ErrorDetail("tool_error", "the tool failed")
        made += [
            ToolCalled(agent_id, call.tool, call_id, call.args),
            ToolReturned(agent_id, call.tool, call_id, call.result)
            if call.is_ok
            else ToolReturned(agent_id, call.tool, call_id, call.result, failed, "error"),
        ]
    rest = [each for each in deeds if not isinstance(each, ToolCalled | ToolReturned)]
    return [*made, *rest]


def _reference(task: Task) -> str | None:
    """What a task says is right, as text."""
    if task.expected.match is not None:
        return stringify(task.expected.match.value)
    return None if task.reference is UNSET or task.reference is None else stringify(task.reference)


def _is_unchecked(task: Task, damage: Damaged) -> bool:
    """Whether what was changed is a detail that the task does not name as right."""
    reference = _reference(task)
    return damage.kind in DETAILS and reference is not None and damage.before not in reference


def checks_in_words(task: Task) -> str:
    """The kinds of checks that a task has; whether a text that is sought is one word."""
    expected = task.expected
    if expected.match is not None:
        found = [(expected.match.strategy, expected.match.value)]
    elif expected.rubric is not None:
        found = [("rubric", None)]
    else:
        found = [name_and_argument(each) for each in expected.checks or ()]
    words = {_of_one_word(*each) for each in found} | ({"turns"} if task.turns else set())
    return ", ".join(sorted(words)) or "no checks"


def _of_one_word(name: str, argument: Any) -> str:
    value = argument.get("value") if isinstance(argument, dict) else argument
    texts = [str(each) for each in value] if isinstance(value, list) else [str(value)]
    is_word = name in _TEXTS and all(len(text.split()) <= 1 for text in texts)
    return f"{name} of one word" if is_word else name


def _survivor(original: _Original, damage: Damaged, check: str = "") -> Survivor:
    if damage.kind in OF_CALLS:
        shown = [_calls_in_words(original.calls), _calls_in_words(damage.calls)]
    else:
        shown = [stringify(original.answer.output), stringify(original.damaged(damage).output)]
    cut = [text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…" for text in shown]
    return Survivor(original.task.task_id, damage.kind, cut[0], cut[1], check)


def _calls_in_words(calls: Sequence[MadeCall]) -> str:
    return "; ".join(f"{each.tool} {_as_json(each.args)}" for each in calls) or "no calls"


def _as_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def check_against(original: _Original, damage: Damaged) -> str:
    """A check that the answer passes and the damaged one fails, as a line of YAML; else nothing."""
    if original.task.expected.match is not None:
        value = original.answer.output
        exact = STRATEGIES["exact"](value)
        if exact.matches(value) and not exact.matches(original.damaged(damage).output):
            return f"match: {{ strategy: exact, value: {_as_json(value)} }}"
        return ""
    before = examined(original.answer, original.agent_id)
    after = examined(original.damaged(damage), original.agent_id)
    for document in _candidates(original, damage):
        prepared, problems = prepare_checks([document], "$")
        if problems:
            continue
        (check,) = prepared
        if check.outcome(before).passed and not check.outcome(after).passed:
            ((name, argument),) = document.items()
            return f"- {name}: {_as_json(argument)}"
    return ""


def _candidates(original: _Original, damage: Damaged) -> Iterator[dict[str, Any]]:
    """Checks that might do, the most telling first."""
    kind, output = damage.kind, original.answer.output
    if kind in OF_CALLS:
        yield from _checks_of_calls(original.calls)
        return
    if kind == "leak":
        yield {"no_signals": ["secret_in_output"]}
        yield {"not": {"regex": "AKIA[A-Z0-9]{16}"}}  # where calls were not observed
    if kind in ("refusal", "empty"):
        yield {"not": {"regex": r"^\s*$|(?i)\bcannot help\b"}}
    if original.is_json_text or not isinstance(output, str):
        yield {"json": {"equals": msgspec.json.decode(output) if original.is_json_text else output}}
    if damage.before and not damage.before.startswith("$"):
        yield {"contains": damage.before}
    reference = _reference(original.task)
    if reference:
        yield {"contains": reference}
    if isinstance(output, str):
        sentences = output.strip().splitlines()
        if kind == "truncated" and sentences:
            yield {"ends_with": " ".join(sentences[-1].split()[-4:])}
        yield {"contains": output.strip()}
    yield {"equals": output}


def _checks_of_calls(calls: Sequence[MadeCall]) -> Iterator[dict[str, Any]]:
    for call in calls:
        wanted: dict[str, Any] = {"tool": call.tool}
        if isinstance(call.args, dict) and call.args:
            wanted["args"] = call.args
        yield {"calls": wanted}
        same = [each for each in calls if each.tool == call.tool and each.args == call.args]
        yield {"calls": {**wanted, "times": len(same)}}
    yield {"calls_in_order": [each.tool for each in calls]}
    yield {"calls_in_order": {"tools": [each.tool for each in calls], "exact": True}}

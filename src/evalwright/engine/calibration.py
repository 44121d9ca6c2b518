"""What people say of the answers that judges judged: how good the judges are, whom to ask next."""

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from random import Random
from typing import NamedTuple

import msgspec

from evalwright.contracts.annotation import ANNOTATION_KIND, MOST_PER_RUN, Annotation
from evalwright.contracts.documents import read_input
from evalwright.contracts.errors import BadInput, InvalidDocument, Problem
from evalwright.contracts.events import EvalScored, Judged
from evalwright.engine.asks import SUBJECT, subject_of
from evalwright.engine.checks import plan_checks
from evalwright.engine.continuation import recorded_answer
from evalwright.engine.examination import examined
from evalwright.engine.history import read_history
from evalwright.engine.plan import Plan
from evalwright.engine.projection import INVOCATION_TYPES, ProjectedTask, project_tasks
from evalwright.scoring.calibration import (
    Confusion,
    JudgeQuality,
    Stratum,
    corrected,
    jeffreys,
    kappa,
    quality,
    strata_sizes,
    transferred,
)
from evalwright.scoring.checks.base import AnswerCheck, JudgeAsk, Unanswered
from evalwright.scoring.checks.judge import material
from evalwright.scoring.rubric import criterion_name, is_majority
from evalwright.scoring.statistics import Estimate
from evalwright.store.protocol import EventLog

SAME_RUN = (
    "post-stratified by the verdict of the judge, Jeffreys' interval with the effective number of "
    "labels; the labels are a random choice among tasks with the same verdict"
)
OTHER_RUN = (
    "Rogan and Gladen, with the errors of both judge and run; the judge errs here as often as in "
    "the run of the labels"
)
_SAID = {
    **dict.fromkeys(("true", "1", "yes", "pass", "passed", "right"), True),
    **dict.fromkeys(("false", "0", "no", "fail", "failed", "wrong"), False),
}


class HumanLabel(NamedTuple):
    """What somebody says of the answer to a task, or of one criterion."""

    task_id: str
    passed: bool
    criterion: str = ""
    reviewer: str = ""


class JudgedTask(NamedTuple):
    """What judges said of a task, by criterion and judge."""

    task_id: str
    passed: bool  # as it was scored
    votes: Mapping[str, Sequence[tuple[str, bool, str]]]  # by criterion: judge, met, reason

    @property
    def confidence(self) -> float:
        """The share of votes that agree with the majority on their criterion, at least."""
        shares = []
        for votes in self.votes.values():
            met = sum(each for _, each, _ in votes)
            shares.append(max(met, len(votes) - met) / len(votes))
        return min(shares, default=1.0)

    @property
    def reason(self) -> str:
        """Why a judge decided so on the task: of a criterion that was not met, or of the first."""
        said = [vote for votes in self.votes.values() for vote in votes]
        return next((why for _, met, why in said if met == self.passed), "")


class Disagreement(msgspec.Struct, frozen=True, rename="camel"):
    """A task of which judge and people do not say the same."""

    task_id: str
    judge: bool
    people: bool
    confidence: float
    reason: str


class ToLabel(msgspec.Struct, frozen=True, rename="camel"):
    """A task that is to be labelled next, and how likely such a task was chosen."""

    task_id: str
    judge: bool
    probability: float


class CalibrationReport(msgspec.Struct, frozen=True, rename="camel"):
    """How good the judges of a run are by what people say, and its pass rate corrected by that."""

    run_id: str
    judges: list[str]
    prompt_version: str
    labels: int
    agreement: Estimate | None
    kappa: Estimate | None
    base_rate: Estimate | None
    sensitivity: Estimate | None
    specificity: Estimate | None
    raw: Estimate
    corrected: Estimate | None
    method: str
    missing: list[str]  # what could not be told, and why
    criteria: dict[str, JudgeQuality]
    by_judge: dict[str, JudgeQuality]
    reviewers: Estimate | None  # their kappa among one another
    confusions: list[Disagreement]
    labels_of: str | None = None  # another run, of which the labels are


def read_labels(path: Path) -> list[HumanLabel]:
    """Labels from a file: CSV with a line of names, or JSON lines."""
    text = read_input(path).decode("utf-8-sig", "replace")
    is_csv = not text.lstrip().startswith("{")
    try:
        rows = (
            list(csv.DictReader(io.StringIO(text)))
            if is_csv
            else [msgspec.json.decode(line) for line in text.splitlines() if line.strip()]
        )
    except (csv.Error, msgspec.DecodeError) as error:
        raise InvalidDocument(str(path), [Problem("$", f"cannot be read: {error}")]) from None
    found, problems = [], []
    for number, row in enumerate(rows, 2 if is_csv else 1):
        task_id = row.get("taskId") if isinstance(row, dict) else None
        said = _SAID.get(str(row.get("passed")).strip().lower()) if isinstance(row, dict) else None
        if task_id and said is None and is_csv and not str(row.get("passed") or "").strip():
            continue  # not labelled yet
        if not task_id or said is None:
            remedy = "give `taskId` and `passed` (true or false), and perhaps criterion, reviewer"
            problems.append(Problem(f"line {number}", "not a label", remedy))
            continue
        criterion, reviewer = (str(row.get(key) or "").strip() for key in ("criterion", "reviewer"))
        found.append(HumanLabel(str(task_id).removeprefix("'"), said, criterion, reviewer))
    if problems:
        raise InvalidDocument(str(path), problems)
    return found


def labels_in_log(log: EventLog, run_id: str) -> list[HumanLabel]:
    """What reviewers said of the tasks of a run on its pages; of each reviewer the last word."""
    tenant = log.facts(run_id).tenant
    found = log.records.list(ANNOTATION_KIND, tenant, f"{run_id}/", limit=MOST_PER_RUN)
    last: dict[tuple[str, str], HumanLabel] = {}
    for record in found:
        said = msgspec.json.decode(record.body, type=Annotation)
        passed = _SAID.get(said.signal.label or said.signal.correction or "")
        if said.target.node_id and passed is not None:
            reviewer = said.actor.principal_ref
            label = HumanLabel(said.target.node_id, passed, "", reviewer)
            last[label.task_id, reviewer] = label
    return list(last.values())


def calibrate(
    log: EventLog,
    run_id: str,
    labels: Sequence[HumanLabel],
    labels_of: str | None = None,
) -> CalibrationReport:
    """The judges of a run by what people say; `labels_of` is the run that they said it of."""
    plan, tasks = _judged_tasks(log, run_id)
    judged, source = tasks, plan
    if labels_of is not None:
        source, judged = _judged_tasks(log, labels_of)
    known = {each.task_id for each in judged}
    if unknown := sorted({each.task_id for each in labels} - known):
        raise BadInput(
            f"{len(unknown)} labels are of tasks that no judge judged in run "
            f"{labels_of or run_id}, such as {unknown[0]}"
        )
    whole = _by_people(labels)
    verdicts = {each.task_id: each.passed for each in judged}
    said = _quality(verdicts, whole)
    passed = sum(each.passed for each in tasks)
    found: Estimate | str = "no task has a label"
    missing = []
    if whole and labels_of is None:
        strata = _strata(judged, whole)
        found = corrected(list(strata.values()))
        missing += [
            f"no task has a label that the judge {'passed' if verdict else 'failed'}"
            f"{'' if sure else ' without agreement'}: the interval allows for anything there"
            for (verdict, sure), each in strata.items()
            if not each.labels
        ]
    elif whole:
        found = transferred(passed, len(tasks), _confusion(verdicts, whole))
    if isinstance(found, str):
        missing.append(found)
    elif not 0 <= found.low <= found.high <= 1:
        missing.append("the interval reaches beyond 0 or 1: the judge does not err alike in both")
    named = {each.task_id: each for each in judged}
    confusions = [
        Disagreement(task_id, verdicts[task_id], right, each.confidence, each.reason)
        for task_id, right in whole.items()
        if verdicts[task_id] != right and (each := named[task_id])
    ]
    return CalibrationReport(
        run_id,
        source.panel.judges if source.panel else [],
        source.panel.prompt_version if source.panel else "",
        len(whole),
        None if said is None else said.agreement,
        None if said is None else said.kappa,
        None if said is None else said.base_rate,
        None if said is None else said.sensitivity,
        None if said is None else said.specificity,
        jeffreys(passed, len(tasks)),
        None if isinstance(found, str) else found,
        SAME_RUN if labels_of is None else OTHER_RUN,
        missing,
        dict(_by_criterion(judged, labels)),
        dict(_by_judge(judged, whole)),
        _reviewers(labels),
        sorted(confusions, key=lambda each: (-each.confidence, not each.judge, each.task_id)),
        labels_of,
    )


def choose_next(
    log: EventLog, run_id: str, labels: Sequence[HumanLabel], wanted: int, seed: int = 1
) -> list[ToLabel]:
    """Tasks to label next: at random, as many of each verdict, and of split votes, as there are."""
    _, tasks = _judged_tasks(log, run_id)
    done = {each.task_id for each in labels}
    left: dict[tuple[bool, bool], list[JudgedTask]] = defaultdict(list)
    for each in tasks:
        if each.task_id not in done:
            left[each.passed, each.confidence == 1].append(each)
    kinds = sorted(left, reverse=True)
    random = Random(seed)  # noqa: S311 - the same choice for the same seed
    found: list[ToLabel] = []
    sizes = [len(left[kind]) for kind in kinds]
    for kind, size, count in zip(kinds, sizes, strata_sizes(sizes, wanted), strict=True):
        drawn = random.sample(left[kind], count)
        found += [ToLabel(each.task_id, each.passed, count / size) for each in drawn]
    random.shuffle(found)  # so that the order tells reviewers nothing
    return found


def _judged_tasks(log: EventLog, run_id: str) -> tuple[Plan, list[JudgedTask]]:
    plan = read_history(log, run_id).plan
    planned, problems = plan_checks(plan.suite, plan.source, with_code=False, with_worlds=False)
    if problems:
        raise InvalidDocument(plan.suite.suite_id, problems)
    events = log.read(run_id, (*INVOCATION_TYPES, Judged.TYPE, EvalScored.TYPE))
    projected = project_tasks(plan.suite.tasks, events)
    said: dict[str, list[Judged]] = defaultdict(list)  # equal questions are asked once in a run
    for each in projected.values():
        for attempt in each.all_attempts:
            for judged in attempt.judged:
                if judged.subject.startswith(SUBJECT):
                    said[judged.subject].append(judged)
    found = []
    for task_id, each in projected.items():
        votes = _votes(each, plan, planned.by_task[task_id], said)
        if votes and each.scored is not None:
            found.append(JudgedTask(task_id, each.scored.passed, votes))
    if not found:
        raise BadInput(f"run {run_id} has no verdicts of judges")
    return plan, found


def _votes(
    task: ProjectedTask,
    plan: Plan,
    checks: Iterable[AnswerCheck],
    said: Mapping[str, Sequence[Judged]],
) -> dict[str, list[tuple[str, bool, str]]]:
    """What judges said, by criterion as it is written; `said` has what checks asked in the run."""
    found: list[tuple[Sequence[str], Sequence[Judged]]] = []
    if (rubric := task.task.expected.rubric) is not None:
        judged = [each for attempt in task.repetitions for each in attempt.judged]
        of_rubric = [each for each in judged if each.subject == "rubric"]
        found.append(([each.criterion for each in rubric], of_rubric))
    asks = [ask for check in checks for ask in check.asks if isinstance(ask, JudgeAsk)]
    for attempt in task.repetitions if asks else ():
        if attempt.has_answer:
            answer = recorded_answer(task.task, attempt, plan)
            seen = examined(answer, plan.agent.agent_id)
            for ask in asks:
                reference = material(ask, seen)
                if not isinstance(reference, Unanswered):
                    subject = subject_of(ask, reference, task.task, answer.output)
                    found.append((ask.statements, said.get(subject, ())))
    votes: dict[str, list[tuple[str, bool, str]]] = defaultdict(list)
    for statements, answers in found:
        names = {criterion_name(n): text for n, text in enumerate(statements, 1)}
        for each in answers:
            for verdict in each.verdicts:
                criterion = names.get(verdict.question, verdict.question)
                votes[criterion].append((each.judge, verdict.met, verdict.reason))
    return votes


def _by_people(labels: Iterable[HumanLabel], criterion: str = "") -> dict[str, bool]:
    """What most people say of each task; one that they are even about has no label."""
    said: dict[str, list[bool]] = defaultdict(list)
    for each in labels:
        if each.criterion == criterion:
            said[each.task_id].append(each.passed)
    return {
        task_id: is_majority(votes)
        for task_id, votes in said.items()
        if 2 * sum(votes) != len(votes)
    }


def _strata(
    judged: Iterable[JudgedTask], people: Mapping[str, bool]
) -> dict[tuple[bool, bool], Stratum]:
    """By the verdict, and whether all votes agreed: as `choose_next` draws them."""
    found: dict[tuple[bool, bool], Stratum] = {}
    for each in judged:
        kind = each.passed, each.confidence == 1
        tasks, labels, passed = found.get(kind, Stratum(0, 0, 0))
        is_known = each.task_id in people
        found[kind] = Stratum(
            tasks + 1, labels + is_known, passed + people.get(each.task_id, False)
        )
    return found


def _quality(verdicts: Mapping[str, bool], people: Mapping[str, bool]) -> JudgeQuality | None:
    strata = {True: [0, 0, 0], False: [0, 0, 0]}
    for task_id, verdict in verdicts.items():
        counts = strata[verdict]
        counts[0] += 1
        counts[1] += task_id in people
        counts[2] += people.get(task_id, False)
    return quality(Stratum(*strata[True]), Stratum(*strata[False]))


def _confusion(verdicts: Mapping[str, bool], people: Mapping[str, bool]) -> Confusion:
    pairs = [(verdicts[task_id], right) for task_id, right in people.items()]
    kinds = ((True, True), (True, False), (False, True), (False, False))
    return Confusion(*(pairs.count(kind) for kind in kinds))


def _by_criterion(
    judged: Sequence[JudgedTask], labels: Sequence[HumanLabel]
) -> Iterator[tuple[str, JudgeQuality]]:
    for criterion in sorted({each.criterion for each in labels if each.criterion}):
        verdicts = {
            each.task_id: is_majority([met for _, met, _ in each.votes[criterion]])
            for each in judged
            if criterion in each.votes
        }
        if not verdicts:
            raise BadInput(f"no judge was asked about the criterion {criterion!r}")
        found = _quality(verdicts, _by_people(labels, criterion))
        if found is not None:
            yield criterion, found


def _by_judge(
    judged: Sequence[JudgedTask], people: Mapping[str, bool]
) -> Iterator[tuple[str, JudgeQuality]]:
    """Of several judges each by itself: a task passes by one if all its criteria are met."""
    names = sorted({judge for each in judged for of in each.votes.values() for judge, _, _ in of})
    for name in names if len(names) > 1 else ():
        verdicts = {
            each.task_id: all(
                is_majority([met for judge, met, _ in votes if judge == name])
                for votes in each.votes.values()
            )
            for each in judged
        }
        found = _quality(verdicts, people)
        if found is not None:
            yield name, found


def _reviewers(labels: Sequence[HumanLabel]) -> Estimate | None:
    """How far reviewers agree with one another beyond chance, over all pairs on the same task."""
    said: dict[tuple[str, str], dict[str, bool]] = defaultdict(dict)
    for each in labels:
        said[each.task_id, each.criterion][each.reviewer] = each.passed
    pairs = [
        (of[one], of[other]) for of in said.values() for one, other in combinations(sorted(of), 2)
    ]
    if not pairs:
        return None
    mixed = pairs.count((True, False)) + pairs.count((False, True))
    return kappa(
        Confusion(
            pairs.count((True, True)), mixed // 2, mixed - mixed // 2, pairs.count((False, False))
        )
    )

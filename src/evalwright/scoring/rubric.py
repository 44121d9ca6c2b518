"""Rubrics: the verdicts of judges to met criteria and a score; and how far judges agreed."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from evalwright.contracts.events import Judged
from evalwright.contracts.suite import Criterion
from evalwright.scoring.checks.base import AnswerCheck, Ask, CheckOutcome, Examined
from evalwright.scoring.thresholds import decimal_sum


class RubricAsk(Ask, frozen=True):
    """Which of these criteria does the output meet? Answered by what each judge said."""

    criteria: tuple[str, ...]


class Rubric(AnswerCheck):
    """Judges hold criteria of an OpenWOP suite true, whose weights reach a score."""

    criteria: Sequence[Criterion]
    enough: float
    output_alone = True

    @property
    def asks(self) -> Sequence[Ask]:
        return (RubricAsk(tuple(each.criterion for each in self.criteria)),)

    def evaluate(self, examined: Examined) -> CheckOutcome:
        score = rubric_result(self.criteria, examined.told[self.asks[0]]).score
        return CheckOutcome(score >= self.enough, score)


class RubricResult(msgspec.Struct, frozen=True):
    """What judges made of an output: its score, and the criteria that it met."""

    score: float
    met: tuple[bool, ...]


def criterion_name(number: int) -> str:
    """The name by which judges are asked for criterion `number`, from 1."""
    return f"c{number}"


def rubric_result(criteria: Sequence[Criterion], judged: Sequence[Judged]) -> RubricResult:
    """Weigh the criteria that a majority of all judges and samples calls met; a tie is not met.

    Verdicts on another subject than the rubric are left aside. Raises `ValueError` where a
    criterion has no verdict: there is no score by default.
    """
    given_on, met = all_votes("rubric", judged), []
    for number in range(1, len(criteria) + 1):
        name = criterion_name(number)
        if name not in given_on:
            raise ValueError(f"no judge gave a verdict on criterion {name}")
        met.append(is_majority(given_on[name]))
    reached = decimal_sum(c.weight for c, is_met in zip(criteria, met, strict=True) if is_met)
    score = float(reached / decimal_sum(criterion.weight for criterion in criteria))
    return RubricResult(score, tuple(met))


def is_majority(votes: Sequence[bool]) -> bool:
    """Whether more than half of the votes say so."""
    return 2 * sum(votes) > len(votes)


def all_votes(subject: str, judged: Sequence[Judged]) -> dict[str, list[bool]]:
    """What every judge and sample answered, by question, in the order of the answers."""
    votes: dict[str, list[bool]] = {}
    for answer in judged:
        if answer.subject == subject:
            for verdict in answer.verdicts:
                votes.setdefault(verdict.question, []).append(verdict.met)
    return votes


class JudgesAgreement(NamedTuple):
    """How far judges agreed: the share of votes that are those of the majority."""

    share: float
    votes: int
    questions: int


def agreement_of(judged: Sequence[Judged], *, on_safety: bool = False) -> JudgesAgreement | None:
    """How far judges agreed on the rubric and the checks of a task, or on its safety."""
    subjects = {each.subject for each in judged if (each.subject == "safety") is on_safety}
    given = [votes for each in subjects for votes in all_votes(each, judged).values()]
    count = sum(map(len, given))
    agreeing = sum(max(votes.count(True), votes.count(False)) for votes in given)
    return JudgesAgreement(agreeing / count, count, len(given)) if count else None

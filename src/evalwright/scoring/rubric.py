"""Rubric scoring: the verdicts of judges to met criteria, a score and an agreement."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from evalwright.contracts.events import Judged
from evalwright.contracts.suite import Criterion
from evalwright.scoring.thresholds import decimal_sum


class RubricResult(msgspec.Struct, frozen=True):
    """What judges made of an output: its score, the criteria met, and how far they agreed."""

    score: float
    met: tuple[bool, ...]
    agreement: float  # the share of votes that are those of the majority; 1 with one vote


def criterion_name(number: int) -> str:
    """The name by which judges are asked for criterion `number`, from 1."""
    return f"c{number}"


def rubric_result(criteria: Sequence[Criterion], judged: Sequence[Judged]) -> RubricResult:
    """Weigh the criteria that a majority of all judges and samples calls met; a tie is not met.

    Verdicts on another subject than the rubric are left aside. Raises `ValueError` where a
    criterion has no verdict: there is no score by default.
    """
    given_on = all_votes("rubric", judged)
    names = [criterion_name(number) for number in range(1, len(criteria) + 1)]
    for name in names:
        if name not in given_on:
            raise ValueError(f"no judge gave a verdict on criterion {name}")
    votes = [given_on[name] for name in names]
    met = tuple(2 * sum(given) > len(given) for given in votes)
    agreeing = sum(given.count(verdict) for given, verdict in zip(votes, met, strict=True))
    return RubricResult(_score(criteria, met), met, agreeing / sum(map(len, votes)))


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


def _score(criteria: Sequence[Criterion], met: Sequence[bool]) -> float:
    reached = decimal_sum(c.weight for c, is_met in zip(criteria, met, strict=True) if is_met)
    return float(reached / decimal_sum(criterion.weight for criterion in criteria))

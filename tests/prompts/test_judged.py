"""Evaluating prompts by judges: order, budgets, what is kept, and faults that stay in place."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from builders import a_usage
from evalwright.contracts.prompt_result import WEIGHTS, ModelFacts, PromptResult
from evalwright.engine.clock import SystemClock
from evalwright.prompts.document import Prompt
from evalwright.prompts.evaluate import EvaluationSettings, Linted, lint_each
from evalwright.prompts.failure import EvaluationFailed
from evalwright.prompts.judged import (
    BudgetSpent,
    Evaluated,
    JudgedEvaluation,
    Key,
    job_key,
)
from evalwright.prompts.lint import Selection
from evalwright.prompts.results import Assessment
from evalwright.prompts.sources import find_files, read_source
from evalwright.prompts.tiers import TIERS


class FakeJudge:
    """A judge with a score for every prompt, a price for every call, and a pace of its own."""

    def __init__(
        self, score: float = 8.0, cost: float | None = None, name: str = "fake", **slow: int
    ) -> None:
        self.facts = ModelFacts(name, "test", parameters={"samples": 1})
        self.asked: list[str] = []
        self._score, self._cost, self._slow = score, cost, slow

    async def judge(self, prompt: Prompt, run_index: int) -> Evaluated:
        name = Path(prompt.path).stem
        self.asked.append(name)
        for _ in range(self._slow.get(name, 0)):
            await asyncio.sleep(0)
        if "break" in prompt.text:
            raise RuntimeError("a fault of ours")
        if "refuse" in prompt.text:
            raise EvaluationFailed("parse_error", "no JSON", [a_usage(self._cost)], 2)
        rubric = dict.fromkeys(WEIGHTS, (self._score, "so it is"))
        return Evaluated(Assessment(rubric, "A prompt.", None), [a_usage(self._cost)])


def library(folder: Path, **texts: str) -> list[Linted]:
    for name, text in texts.items():
        (folder / f"{name}.md").write_text(text)
    return list(lint_each(map(read_source, find_files([folder])), Selection()))


class EvaluationRun:
    """One evaluation, with what it kept as it came and what it gave in order."""

    def __init__(
        self,
        files: list[Linted],
        *judges: FakeJudge,
        known: dict[Key, PromptResult] | None = None,
        **settings: Any,
    ) -> None:
        self.kept: list[PromptResult] = []
        self.given: list[PromptResult] = []
        chosen = EvaluationSettings(TIERS[1], **settings)
        evaluation = JudgedEvaluation(
            files, judges, chosen, SystemClock(), known or {}, self.kept.append, self.given.append
        )
        asyncio.run(evaluation.run())

    def known(self) -> dict[Key, PromptResult]:
        return {
            job_key(each.input.path, each.model, each.execution.run_index): each
            for each in self.given
        }


def names(results: list[PromptResult]) -> list[str]:
    return [Path(each.input.path).stem for each in results]


def test_records_are_kept_as_they_come_and_given_in_order(tmp_path: Path) -> None:
    files = library(tmp_path, a="Say a.", b="Say b.", c="Say c.")
    done = EvaluationRun(files, FakeJudge(a=50, b=20), concurrency=3)
    assert names(done.kept) == ["c", "b", "a"]
    assert names(done.given) == ["a", "b", "c"]


def test_a_fault_in_one_evaluation_is_the_error_of_one_record(tmp_path: Path) -> None:
    files = library(tmp_path, a="Say a.", b="break", c="refuse")
    done = EvaluationRun(files, FakeJudge())
    codes = [each.execution.error_code for each in done.given]
    assert codes == [None, "internal_error", "parse_error"]
    assert [each.passed for each in done.given] == [True, False, False]
    assert done.given[2].execution.retries == 2


def test_a_spent_budget_stops_what_must_be_asked(tmp_path: Path) -> None:
    files = library(tmp_path, a="Say a.", b="Say b.", c="Say c.")
    judge = FakeJudge(cost=1.0)
    with pytest.raises(BudgetSpent, match=r"\$2 spent, and 1 evaluations are left"):
        EvaluationRun(files, judge, concurrency=1, max_cost_usd=1.5)
    assert judge.asked == ["a", "b"]


def test_what_is_known_costs_nothing_and_is_not_asked_again(tmp_path: Path) -> None:
    files = library(tmp_path, a="Say a.", b="Say b.", c="Say c.")
    first = EvaluationRun(files, FakeJudge(cost=1.0))
    again = FakeJudge(cost=1.0)
    done = EvaluationRun(files, again, known=first.known(), concurrency=1, max_cost_usd=0.5)
    assert again.asked == []
    assert [each.eval_id for each in done.given] == [each.eval_id for each in first.given]


def test_a_changed_file_or_another_way_of_asking_is_evaluated_anew(tmp_path: Path) -> None:
    first = EvaluationRun(library(tmp_path, a="Say a.", b="Say b."), FakeJudge())
    judge = FakeJudge()
    EvaluationRun(library(tmp_path, b="Say something else."), judge, known=first.known())
    assert judge.asked == ["b"]
    other = FakeJudge()
    other.facts = ModelFacts("fake", "test", parameters={"samples": 3})
    EvaluationRun(library(tmp_path), other, known=first.known())
    assert other.asked == ["a", "b"]


def test_a_known_record_has_the_threshold_and_the_linter_of_now(tmp_path: Path) -> None:
    files = library(tmp_path, a="Say a.")
    first = EvaluationRun(files, FakeJudge(score=8.19), threshold=81.9)
    assert first.given[0].passed
    same = EvaluationRun(files, FakeJudge(), known=first.known(), threshold=81.9)
    higher = EvaluationRun(files, FakeJudge(), known=first.known(), threshold=82.0)
    assert (same.given[0].passed, higher.given[0].passed) == (True, False)
    assessment = msgspec.structs.replace(files[0].assessment, findings=())
    unlinted = [Linted(files[0].source, assessment)]
    bare = EvaluationRun(unlinted, FakeJudge(), known=first.known())
    assert bare.given[0].issues == []


def test_a_call_without_a_price_cannot_be_held_to_a_budget(tmp_path: Path) -> None:
    files = library(tmp_path, a="Say a.", b="Say b.")
    with pytest.raises(BudgetSpent, match="no known price"):
        EvaluationRun(files, FakeJudge(cost=None), concurrency=1, max_cost_usd=1.0)

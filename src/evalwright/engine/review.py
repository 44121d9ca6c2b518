"""What judges have to see: answers to rubric tasks, and every answer in an adversarial run."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import msgspec

from evalwright.contracts.events import Judged, Payload
from evalwright.contracts.summary import SafetyFinding
from evalwright.engine.invocation import Answer
from evalwright.engine.judge_prompt import SAFETY_QUESTIONS, rubric_questions
from evalwright.engine.judging import Panel, safety_findings
from evalwright.engine.plan import Plan


class Reviewed(msgspec.Struct, frozen=True):
    """What the judges said of an answer."""

    judged: Sequence[Judged]  # by the rubric
    findings: list[SafetyFinding]


class Review:
    """Asks the panel of a run what its plan wants to know."""

    def __init__(self, plan: Plan, panel: Panel | None) -> None:
        self._panel = panel
        self._for_safety = plan.is_adversarial and panel is not None

    def is_due(self, answer: Answer) -> bool:
        """Whether judges have to see an answer; one that is an error they do not."""
        return answer.error is None and (self._for_safety or self._has_rubric(answer))

    async def judge(
        self, answer: Answer, known: Sequence[Judged], record: Callable[[Payload], None]
    ) -> Reviewed:
        """Ask all that is not known yet; raises `JudgeFailed`."""
        assert self._panel is not None
        task, rubric = answer.task, answer.task.expected.rubric
        asked: list[Coroutine[Any, Any, list[Judged]]] = []
        if self._has_rubric(answer) and rubric is not None:
            questions = rubric_questions(rubric)
            asked.append(self._panel.judge("rubric", questions, task, answer.output, known, record))
        if self._for_safety:
            asked.append(
                self._panel.judge("safety", SAFETY_QUESTIONS, task, answer.output, known, record)
            )
        given = await asyncio.gather(*asked, return_exceptions=True)
        for each in given:
            if isinstance(each, BaseException):
                raise each
        judged = [
            verdict for each in given if not isinstance(each, BaseException) for verdict in each
        ]
        return Reviewed(
            [each for each in judged if each.subject == "rubric"],
            safety_findings([each for each in judged if each.subject == "safety"]),
        )

    @staticmethod
    def _has_rubric(answer: Answer) -> bool:
        return answer.task.expected.kind == "rubric"

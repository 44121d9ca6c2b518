"""What checks ask before they look at an answer: of judges, own code and models."""

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from evalwright.contracts.events import Judged, Payload
from evalwright.contracts.messages import IN_LOGS, phrase
from evalwright.contracts.suite import Task
from evalwright.engine.judge_prompt import PROMPT_VERSION, questions_of
from evalwright.engine.judges import JudgeFailed, Panel
from evalwright.engine.own_checks import OwnChecks
from evalwright.models.embeddings import embedding_request, vector_of
from evalwright.models.protocol import Model, ModelError
from evalwright.scoring.checks.base import (
    Answers,
    Ask,
    CodeAsk,
    EmbeddingAsk,
    Examined,
    JudgeAsk,
    JudgeSays,
    TurnAsk,
    Unanswered,
)
from evalwright.scoring.checks.judge import material
from evalwright.scoring.rubric import RubricAsk, all_votes, is_majority

Record = Callable[[Payload], None]
SUBJECT = "check:"


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

    async def answers(
        self,
        asks: Iterable[Ask],
        task: Task,
        examined: Examined,
        known: Sequence[Judged],
        record: Record,
    ) -> Answers:
        """What is asked for, all at once; raises `JudgeFailed`."""
        wanted = list(dict.fromkeys(asks))
        if task.is_conversation:
            task = msgspec.structs.replace(task, input=examined.input)
        for each in known:
            if each.subject.startswith(SUBJECT) and each not in self._said.get(each.subject, ()):
                self._said.setdefault(each.subject, []).append(each)
        if len(wanted) == 1:
            return {wanted[0]: await self._answer(wanted[0], task, examined, known, record)}
        told = await asyncio.gather(
            *(self._answer(ask, task, examined, known, record) for ask in wanted),
            return_exceptions=True,
        )
        for answer in told:
            if isinstance(answer, BaseException):
                raise answer
        return dict(zip(wanted, told, strict=True))

    async def _answer(
        self, ask: Ask, task: Task, examined: Examined, known: Sequence[Judged], record: Record
    ) -> Any:
        if isinstance(ask, TurnAsk):
            if ask.turn not in examined.turns:
                return Unanswered(f"the conversation ended before turn {ask.turn}")
            part = examined.turns[ask.turn]
            task = msgspec.structs.replace(task, input=part.input)
            return await self._answer(ask.ask, task, part, known, record)
        if isinstance(ask, RubricAsk) and self._panel is not None:
            questions = questions_of(ask.criteria)
            return await self._panel.judge(
                "rubric", questions, task, examined.output, known, record
            )
        if isinstance(ask, JudgeAsk):
            reference = material(ask, examined)
            if isinstance(reference, Unanswered):
                return reference
            if self._panel is None:
                return Unanswered(phrase("there is no judge; name one with {$judge}").told(IN_LOGS))
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

"""G-Eval: a model judges a prompt by generated steps, and scores are weighted where they can be."""

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Literal

import msgspec

from evalwright.contracts.errors import BadInput
from evalwright.contracts.events import ProviderUsage
from evalwright.contracts.prompt_result import Criterion
from evalwright.models.protocol import Model, Request
from evalwright.prompts.document import Prompt
from evalwright.prompts.failure import EvaluationFailed
from evalwright.prompts.geval.questions import (
    CRITERIA,
    CriterionReply,
    JudgeReply,
    Spending,
    Steps,
    ask_all,
    judge_request,
    read_reply,
)
from evalwright.prompts.geval.scores import Weighted, weigh
from evalwright.prompts.geval.steps import JudgeSteps, StepStore
from evalwright.prompts.results import weighted_mean

SAMPLING_TEMPERATURE = 1.0
SEEDS_APART = 1_000_000  # between the samples of a run: no two calls of all runs share a seed
BYTES_PER_TOKEN = 3  # assumed: English has about four, so the estimate is rather too high
MOST_CHARACTERS_PER_TOKEN = 7  # assumed: where a provider counts fewer tokens, it may have cut
LARGEST_GAP = 0.5  # between the judge's own overall and that of its scores, without a note

Method = Literal["probabilities", "samples", "plain"]
CriterionGroup = tuple[Criterion, ...]  # what one call asks for


class JudgeSettings(msgspec.Struct, frozen=True):
    """How a judge is asked."""

    samples: int = 1  # where the provider gives no token probabilities
    one_call: bool = True  # all criteria at once, or a call for each
    max_input_tokens: int = 100_000  # by our estimate; what is longer is not sent
    temperature: float = 0.0  # of a single sample; several are taken at 1
    top_logprobs: int = 5  # more than this is refused by some providers
    least_mass: float = 0.5  # that scores must cover for their probabilities to be used

    @property
    def sampling_temperature(self) -> float:
        return self.temperature if self.samples == 1 else SAMPLING_TEMPERATURE


class CriterionJudgement(msgspec.Struct, frozen=True):
    """The score of a criterion, from 1 to 10, and the reason."""

    score: float
    reasoning: str
    covered_mass: float | None = None


class Judgement(msgspec.Struct, frozen=True):
    """What a judge says of a prompt."""

    criteria: dict[Criterion, CriterionJudgement]
    summary: str
    method: Method
    covered_mass: float | None = None  # the least of all criteria
    judge_overall: float | None = None  # its own number, as a check only
    retries: int = 0
    usages: tuple[ProviderUsage, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def overall(self) -> float:
        """The weighted mean of the criteria, which is ours and not the judge's."""
        return weighted_mean({name: held.score for name, held in self.criteria.items()})


class _Sample(msgspec.Struct, frozen=True):
    """One judgement of all criteria, from one reply or one for each."""

    criteria: dict[Criterion, CriterionReply]
    weighted: dict[Criterion, Weighted]
    has_logprobs: bool
    summary: str | None
    overall: float | None
    counted: tuple[int, ...]  # input tokens of each request, as the provider says


class GEval:
    """A judge of prompts; one instance serves many prompts at once."""

    def __init__(self, model: Model, steps: StepStore, settings: JudgeSettings) -> None:
        if settings.samples < 1:
            raise BadInput(
                f"a judge cannot be asked for {settings.samples} samples; ask for 1 or more"
            )
        if settings.max_input_tokens < 1:
            raise BadInput(f"max_input_tokens is {settings.max_input_tokens}; it must be 1 or more")
        if not 0 <= settings.top_logprobs <= 20:
            raise BadInput(f"top_logprobs is {settings.top_logprobs}; it must be from 0 to 20")
        if not 0 < settings.least_mass <= 1:
            raise BadInput(f"least_mass is {settings.least_mass}; it must be above 0 and at most 1")
        self._model = model
        self._settings = settings
        self._groups: list[CriterionGroup] = (
            [CRITERIA] if settings.one_call else [(c,) for c in CRITERIA]
        )
        self._steps = JudgeSteps(model, steps)

    async def judge(self, prompt: Prompt, run_index: int) -> Judgement:
        """Judge a prompt; the run's number is the seed, so that every run makes new requests.

        Raises `EvaluationFailed`, and `BadInput` where the store of steps cannot be read.
        """
        if not prompt.body.strip():
            raise EvaluationFailed("invalid_input", f"{prompt.path}: the prompt is empty")
        spending = Spending()
        steps = await self._steps.all(spending)
        requests = [self._request(prompt, group, steps, spending) for group in self._groups]
        first = (await self._samples(requests, run_index, range(1), spending))[0]
        notes = _perhaps_cut(requests, first.counted)
        unused = self._unused_probabilities(first)
        if first.has_logprobs and unused is None:
            criteria = {
                name: CriterionJudgement(
                    first.weighted[name].score,
                    first.criteria[name].reason,
                    first.weighted[name].covered_mass,
                )
                for name in CRITERIA
            }
            least = min(weighted.covered_mass for weighted in first.weighted.values())
            made = Judgement(criteria, _summary(first), "probabilities", least, first.overall)
            return self._finished(made, spending, notes)
        notes += [] if unused is None else [unused]
        if self._settings.samples == 1:
            return self._averaged([first], "plain", spending, notes)
        others = range(1, self._settings.samples)
        more = await self._samples(requests, run_index, others, spending)
        return self._averaged([first, *more], "samples", spending, notes)

    def _request(
        self,
        prompt: Prompt,
        group: CriterionGroup,
        steps: Mapping[Criterion, Steps],
        spending: Spending,
    ) -> Request:
        request = judge_request(prompt, group, steps)
        tokens, most = estimated_tokens(request), self._settings.max_input_tokens
        if tokens > most:
            message = (
                f"{prompt.path}: about {tokens} tokens with the rubric, and max_input_tokens is "
                f"{most}; shorten it, or raise the limit if the judge's context is larger"
            )
            raise EvaluationFailed("invalid_input", message, spending.usages, spending.retries)
        return msgspec.structs.replace(
            request,
            temperature=self._settings.sampling_temperature,
            top_logprobs=self._settings.top_logprobs or None,
        )

    async def _samples(
        self, requests: Sequence[Request], run_index: int, numbers: range, spending: Spending
    ) -> list[_Sample]:
        asked = [
            (
                msgspec.structs.replace(request, seed=run_index + number * SEEDS_APART),
                partial(read_reply, group),
            )
            for number in numbers
            for request, group in zip(requests, self._groups, strict=True)
        ]
        answered = await ask_all(self._model, asked, spending)
        size = len(requests)
        samples = []
        for at in range(0, len(answered), size):
            replies = answered[at : at + size]
            criteria: dict[Criterion, CriterionReply] = {}
            weighted: dict[Criterion, Weighted] = {}
            for each in replies:
                answers: JudgeReply = each.read
                criteria |= answers.criteria
                scores = {name: answer.score for name, answer in answers.criteria.items()}
                weighted |= weigh(each.reply.logprobs or (), scores)
            first: JudgeReply = replies[0].read
            has_logprobs = any(each.reply.logprobs for each in replies)
            counted = tuple(each.usages[0].input_tokens for each in replies)
            samples.append(
                _Sample(criteria, weighted, has_logprobs, first.summary, first.overall, counted)
            )
        return samples

    def _unused_probabilities(self, sample: _Sample) -> str | None:
        if not sample.has_logprobs:
            return None
        missing = [name for name in CRITERIA if name not in sample.weighted]
        if missing:
            return f"token probabilities do not show the score of {', '.join(missing)}"
        name = min(CRITERIA, key=lambda name: sample.weighted[name].covered_mass)
        mass = sample.weighted[name].covered_mass
        if mass < self._settings.least_mass:
            return f"token probabilities cover only {mass:.2f} of the score of {name}"
        return None

    def _averaged(
        self, samples: Sequence[_Sample], method: Method, spending: Spending, notes: Sequence[str]
    ) -> Judgement:
        """The mean of the samples, with the words of the one that is nearest to it."""
        means = {name: fmean(held.criteria[name].score for held in samples) for name in CRITERIA}
        middle = weighted_mean(means)
        own_means = [
            weighted_mean({name: answer.score for name, answer in held.criteria.items()})
            for held in samples
        ]
        typical = min(zip(own_means, samples, strict=True), key=lambda each: abs(each[0] - middle))[
            1
        ]
        criteria = {
            name: CriterionJudgement(means[name], typical.criteria[name].reason)
            for name in CRITERIA
        }
        own = [held.overall for held in samples if held.overall is not None]
        made = Judgement(
            criteria, _summary(typical), method, judge_overall=fmean(own) if own else None
        )
        return self._finished(made, spending, notes)

    def _finished(self, made: Judgement, spending: Spending, notes: Sequence[str]) -> Judgement:
        all_notes = [*self._steps.notes, *notes]
        own = made.judge_overall
        if own is not None and abs(own - made.overall) > LARGEST_GAP:
            all_notes.append(
                f"the judge's own overall is {own:.3g}, its scores give {made.overall:.3g}"
            )
        return msgspec.structs.replace(
            made, usages=tuple(spending.usages), retries=spending.retries, notes=tuple(all_notes)
        )


def estimated_tokens(request: Request) -> int:
    """About how many tokens a request has: a third of its bytes, since no tokenizer is at hand."""
    sent = sum(len(message.content.encode()) for message in request.messages)
    return -(-sent // BYTES_PER_TOKEN)


def _perhaps_cut(requests: Sequence[Request], counted: Sequence[int]) -> list[str]:
    """A note where a provider counted far fewer tokens than it was sent.

    Some local servers cut what is too long and do not report it. This is not an error, because
    some do not count what they have cached.
    """
    for request, tokens in zip(requests, counted, strict=True):
        sent = sum(len(message.content) for message in request.messages)
        if 0 < tokens * MOST_CHARACTERS_PER_TOKEN < sent:
            seen = f"the judge counted only {tokens} tokens of {sent} characters"
            remedy = "give the judge a larger context, or lower max_input_tokens"
            return [f"{seen}: the prompt may have been cut; {remedy}"]
    return []


def _summary(sample: _Sample) -> str:
    """The judge's own, or what it says of the weakest criterion."""
    if sample.summary is not None:
        return sample.summary
    weakest = min(CRITERIA, key=lambda name: sample.criteria[name].score)
    return f"Weakest in {weakest}: {sample.criteria[weakest].reason}"

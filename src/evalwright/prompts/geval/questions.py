"""What a judge is asked about a prompt, how its reply is read, and how often it is asked."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from evalwright.contracts.events import ProviderUsage
from evalwright.contracts.prompt_result import WEIGHTS, Criterion
from evalwright.contracts.yaml_loader import yaml_beside
from evalwright.engine.judge_prompt import (
    LONGEST_REASON,
    UnfitReply,
    ask_again,
    closed,
    fence_code,
    limited,
    reply_object,
    section,
    text_within,
)
from evalwright.models.protocol import ChatMessage, Model, ModelError, OutputSchema, Reply, Request
from evalwright.prompts.document import Prompt
from evalwright.prompts.failure import EvaluationFailed, error_code
from evalwright.prompts.geval.scores import check_scale, number_in, score_in

# A new one for every change of the words, the markers or the schemas, but for limits of length.
PROMPT_VERSION = "1"
CRITERIA: tuple[Criterion, ...] = tuple(WEIGHTS)
FEWEST_STEPS, MOST_STEPS = 2, 8
MOST_ASKS = 3  # the first, and two after replies that do not fit
LONGEST_REFUSAL = 300  # characters of a refusal that an error repeats
LONGEST_STEP = 300  # characters of one or two sentences
ENTRY_CHARACTERS = 60  # of an entry beside its texts

Steps = tuple[str, ...]
Read = Callable[[Reply], Any]

DEFINITIONS, _STEPS_SYSTEM, _STEPS_USER, _SYSTEM, _MORE, _CLOSING = yaml_beside(__file__).values()


class CriterionReply(msgspec.Struct, frozen=True):
    """What a reply says of one criterion."""

    reason: str
    score: int


class JudgeReply(msgspec.Struct, frozen=True):
    """What a reply says; summary and overall where all criteria were asked for at once."""

    criteria: dict[Criterion, CriterionReply]
    summary: str | None = None
    overall: float | None = None


def steps_request(criterion: Criterion) -> Request:
    """The request for the evaluation steps of a criterion; it is the same every time."""
    user = _STEPS_USER.format(criterion=criterion, definition=DEFINITIONS[criterion])
    step_list = {
        "type": "array",
        "items": text_within(LONGEST_STEP),
        "minItems": FEWEST_STEPS,
        "maxItems": MOST_STEPS,
    }
    request = Request(
        messages=(ChatMessage("system", _STEPS_SYSTEM), ChatMessage("user", user)),
        output=OutputSchema("evaluation_steps", closed({"steps": step_list})),
        temperature=0.0,
    )
    return limited(request, MOST_STEPS * LONGEST_STEP)


def read_steps(reply: Reply) -> Steps:
    """The steps in a reply; raises `UnfitReply`."""
    entries = reply_object(reply)
    if set(entries) != {"steps"}:
        raise UnfitReply("it must have `steps` and nothing else")
    steps = entries["steps"]
    if not isinstance(steps, list) or not all(isinstance(step, str) for step in steps):
        raise UnfitReply("`steps` must be a list of texts")
    if not FEWEST_STEPS <= len(steps) <= MOST_STEPS:
        raise UnfitReply(f"it has {len(steps)} steps, not {FEWEST_STEPS} to {MOST_STEPS}")
    told = tuple(step.strip() for step in steps if step.strip())
    if len(told) < FEWEST_STEPS:  # small models add blank ones, which say nothing
        raise UnfitReply("a step is blank")
    return told


def judge_request(
    prompt: Prompt, criteria: Sequence[Criterion], steps: Mapping[Criterion, Steps]
) -> Request:
    """The request to evaluate a prompt by some criteria or by all of them."""
    rubric = msgspec.json.encode(
        [{"name": name, "definition": DEFINITIONS[name], "steps": steps[name]} for name in criteria]
    ).decode()
    code = fence_code((rubric, prompt.text))
    user = [
        section("RUBRIC", rubric, code),
        section(f"PROMPT {prompt.type}", prompt.text, code),
        _CLOSING.format(names=", ".join(criteria)),
    ]
    more = _MORE if _is_whole(criteria) else ""
    score = {"type": "integer", "minimum": 1, "maximum": 10}
    properties: dict[str, Any] = {
        name: closed({"reason": text_within(LONGEST_REASON), "score": score}) for name in criteria
    }
    if _is_whole(criteria):
        properties["summary"] = text_within(LONGEST_REASON)
        properties["overall"] = {"type": "number", "minimum": 1, "maximum": 10}
    request = Request(
        messages=(
            ChatMessage("system", _SYSTEM.format(code=code, more=more)),
            ChatMessage("user", "\n\n".join(user)),
        ),
        output=OutputSchema("prompt_evaluation", closed(properties)),
    )
    return limited(request, (len(criteria) + 1) * (LONGEST_REASON + ENTRY_CHARACTERS))


def read_reply(criteria: Sequence[Criterion], reply: Reply) -> JudgeReply:
    """The scores and reasons in a reply; raises `UnfitReply`. There is no default for anything."""
    entries = reply_object(reply)
    wanted = [*criteria, *(("summary", "overall") if _is_whole(criteria) else ())]
    missing = [name for name in wanted if name not in entries]
    if missing:
        raise UnfitReply(f"it has no entry for {', '.join(missing)}")
    if len(entries) > len(wanted):
        raise UnfitReply("it has entries that were not asked for")
    numbers = {}
    for name in criteria:
        entry = entries[name]
        if not isinstance(entry, dict) or set(entry) != {"reason", "score"}:
            raise UnfitReply(f"{name} must be an object with `reason` and `score` and nothing else")
        if list(entry) != ["reason", "score"]:
            raise UnfitReply(f"in {name}, `reason` must come before `score`")
        numbers[name] = score_in(entry["score"], f"`score` of {name}")
    overall = None
    if "overall" in wanted:
        overall = number_in(entries["overall"], "`overall`")
    check_scale([*numbers.values(), *(() if overall is None else (overall,))])
    return JudgeReply(
        {
            name: CriterionReply(
                _words_in(entries[name]["reason"], f"`reason` of {name}"), int(numbers[name])
            )
            for name in criteria
        },
        _words_in(entries["summary"], "`summary`") if "summary" in wanted else None,
        overall,
    )


class Asked(msgspec.Struct, frozen=True):
    """What was read from a reply that fits, and what it took to get it."""

    read: Any
    reply: Reply
    usages: tuple[ProviderUsage, ...]
    retries: int


class Spending:
    """What the calls of one judgement come to, in the order in which they were planned."""

    def __init__(self) -> None:
        self.usages: list[ProviderUsage] = []
        self.retries = 0

    def add(self, spent: Asked | EvaluationFailed) -> None:
        self.usages += spent.usages
        self.retries += spent.retries


async def ask_all(
    model: Model, asked: Sequence[tuple[Request, Read]], spending: Spending
) -> list[Asked]:
    """The answers to all requests, asked at once; if one fails, all end before that is raised."""
    calls = (_ask(model, request, read) for request, read in asked)
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    answered: list[Asked] = []
    failures: list[EvaluationFailed] = []
    for outcome in outcomes:
        if isinstance(outcome, Asked):
            answered.append(outcome)
        elif isinstance(outcome, EvaluationFailed):
            failures.append(outcome)
        else:
            raise outcome  # a fault that is not the judge's must not pass for one
        spending.add(outcome)
    if failures:
        first = failures[0]
        raise EvaluationFailed(
            first.code, first.message, spending.usages, spending.retries
        ) from first
    return answered


def _is_whole(criteria: Sequence[Criterion]) -> bool:
    return len(criteria) == len(CRITERIA)


def _words_in(value: Any, name: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise UnfitReply(f"{name} must be a text that is not blank")
    return value.strip()


async def _ask(model: Model, request: Request, read: Read) -> Asked:
    usages: list[ProviderUsage] = []
    tried = 0  # every call that was made, those that a provider turned away included
    while True:
        try:
            reply = await model.ask(request)
        except ModelError as error:
            message = f"judge {model.name}: {error.message}"
            spent = [*usages, error.usage] if error.usage is not None else usages
            retries = tried + error.retries
            raise EvaluationFailed(error_code(error), message, spent, retries) from error
        usages.append(reply.usage)
        tried += 1 + reply.retries
        retries = tried - 1
        try:
            return Asked(read(reply), reply, tuple(usages), retries)
        except UnfitReply as problem:
            if len(usages) == MOST_ASKS:
                why = str(problem)
                if reply.finish == "refusal" and (said := " ".join(reply.text.split())):
                    why += f": {said[:LONGEST_REFUSAL]}"
                message = f"judge {model.name} was asked {MOST_ASKS} times: {why}"
                raise EvaluationFailed("parse_error", message, usages, retries) from problem
            request = ask_again(request, reply, problem)

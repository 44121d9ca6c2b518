"""Verdicts on a completion, as the evaluators of a `.prompt.yml` ask for them.

What a model said is data to its judge: it is put between markers with a code that occurs in none of
the texts around it, and the judge is told to take no orders from it.
"""

import json
import re
from collections.abc import Callable, Sequence

import msgspec

from evalwright.contracts.jsonvalue import stringify
from evalwright.contracts.prompt_result import CaseVerdict
from evalwright.contracts.yaml_loader import yaml_beside
from evalwright.engine.judge_prompt import fence_code, repeated, section
from evalwright.models.protocol import ChatMessage, Reply, Request
from evalwright.prompts.prompt_yaml import (
    BuiltInEvaluator,
    Choice,
    Comparison,
    LlmEvaluator,
    Row,
    StringEvaluator,
    Uses,
    fill,
)

COMPLETION = "completion"
CHOICE_TOKENS = 1_024  # for a choice, and for a model that thinks before it names one
LONGEST_QUOTE = 200  # characters of a text that a reason quotes
RATINGS = tuple(
    Choice(str(number), score) for number, score in enumerate((0.0, 0.25, 0.5, 0.75, 1.0), 1)
)


class Quality(msgspec.Struct, frozen=True):
    """What a built-in judge rates: in words, in five levels, and what it must see for it."""

    text: str
    levels: tuple[str, str, str, str, str]
    shows: tuple[str, ...]


_GUARD, _RATING, _SHORTER, _SECTIONS, _QUALITIES = yaml_beside(__file__).values()
QUALITIES = msgspec.convert(_QUALITIES, dict[Uses, Quality])

_COMPARE: dict[Comparison, Callable[[str, str], bool]] = {
    "equals": lambda text, value: text == value,
    "contains": lambda text, value: value.lower() in text.lower(),
    "startsWith": lambda text, value: text.lower().startswith(value.lower()),
    "endsWith": lambda text, value: text.lower().endswith(value.lower()),
}
_WORDS: dict[Comparison, tuple[str, str]] = {
    "equals": ("equals", "does not equal"),
    "contains": ("contains", "does not contain"),
    "startsWith": ("starts with", "does not start with"),
    "endsWith": ("ends with", "does not end with"),
}

# A choice stands alone where no word or number goes on before or after it: "1" is neither in "10"
# nor in "1.5", "-1", "1-5" or as the whole of "4/1", and "safe" is not in "unsafe" or "not_safe".
_BEFORE = r"(?<![^\W_])(?<![^\W_]_)(?<!-)(?<!\d[.,/])"
_AFTER = r"(?![^\W_])(?![-_][^\W_])(?![.,]\d)"


def compare(evaluator: StringEvaluator, row: Row, completion: str) -> CaseVerdict:
    """The verdict of a `string` evaluator; its value is filled from the row."""
    value = fill(evaluator.value, row)
    if not value:
        reason = f"the value to compare with, {_quote(evaluator.value)}, is empty for this row"
        return CaseVerdict(evaluator.name, False, 0.0, reason)
    passed = _COMPARE[evaluator.comparison](completion, value)
    words, opposite = _WORDS[evaluator.comparison]
    reason = f"the completion {words if passed else opposite} {_quote(value)}"
    return CaseVerdict(evaluator.name, passed, float(passed), reason)


def llm_request(evaluator: LlmEvaluator, row: Row, completion: str) -> Request:
    """What the judge of an `llm` evaluator is asked: its own prompt, the completion fenced off."""
    own = evaluator.system_prompt or ""
    code = fence_code([own, evaluator.prompt, *map(stringify, row.values()), completion])
    fenced = f"\n{section(COMPLETION.upper(), completion, code)}\n"  # markers are whole lines
    prompt = fill(evaluator.prompt, {**row, COMPLETION: fenced})
    guard = _GUARD.format(code=code)
    return _request(f"{own}\n\n{guard}" if own else guard, prompt)


def built_in_request(
    evaluator: BuiltInEvaluator, asked: str, expected: str, completion: str
) -> Request:
    """What a built-in judge is asked."""
    quality = QUALITIES[evaluator.uses]
    texts = {"INPUT": asked, "EXPECTED": expected, "COMPLETION": completion}
    code = fence_code([texts[name] for name in quality.shows])
    system = _RATING.format(
        quality=quality.text,
        levels=quality.levels,
        sections="\n".join(f"- {name}: {_SECTIONS[name]}" for name in quality.shows),
        guard=_GUARD.format(code=code),
        code=code,
    )
    return _request(system, "\n\n".join(section(name, texts[name], code) for name in quality.shows))


def needs_expected(evaluator: BuiltInEvaluator) -> bool:
    """Whether a row must say what is expected."""
    return "EXPECTED" in QUALITIES[evaluator.uses].shows


def read_choice(name: str, choices: Sequence[Choice], reply: str) -> CaseVerdict:
    """The verdict in a judge's reply: the first of the choices that occurs in it as a whole word.

    A reply that names none of them fails, as in GitHub's own tool.
    """
    said = reply.lower()
    named = [
        each
        for each in choices
        if re.search(_BEFORE + re.escape(each.choice.lower()) + _AFTER, said)
    ]
    if not named:
        options = ", ".join(choice.choice for choice in choices)
        reason = f"the judge named none of the choices ({options}): {_quote(reply)}"
        return CaseVerdict(name, False, 0.0, reason)
    chosen = named[0]
    reason = f"the judge chose {_quote(chosen.choice)}"
    if others := [_quote(choice.choice) for choice in named[1:]]:
        reason += f"; it also named {', '.join(others)}, and the first in the list counts"
    contained = next(choice for choice in choices if choice.choice.lower() in said)
    if contained is not chosen:
        reason += f"; {_quote(contained.choice)} is only part of a word in its reply"
    return CaseVerdict(name, chosen.score > 0, chosen.score, reason)


def _request(system: str, user: str) -> Request:
    messages = (ChatMessage("system", system), ChatMessage("user", user))
    return Request(messages, temperature=0.0, max_tokens=CHOICE_TOKENS, has_our_limits=True)


def asked_shorter(request: Request, reply: Reply) -> Request:
    """The request again after a reply that ran on until it was cut."""
    return repeated(request, reply, _SHORTER)


def _quote(text: str) -> str:
    short = text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}…"
    return json.dumps(short, ensure_ascii=False)

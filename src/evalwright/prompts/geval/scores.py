"""Scores in a judge's reply: which values count as one, and how likely each score was."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from math import exp
from typing import Any, NamedTuple

from evalwright.contracts.prompt_result import Criterion
from evalwright.engine.judge_prompt import UnfitReply
from evalwright.models.protocol import TokenLogprob

LOWEST, HIGHEST = 1, 10
_TOO_LARGE = 10**6  # whatever is larger is as wrong, and may not fit a float

_IN_WORDS = re.compile(r"(0|[1-9][0-9]{0,2})(?:/10)?")
_LEXEME = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)
_DIGITS = re.compile(r"\s*([0-9]+)(.?)", re.DOTALL)


class Weighted(NamedTuple):
    """A score weighted by token probabilities, and how much of all probability that covers."""

    score: float
    covered_mass: float


class _ScorePlace(NamedTuple):
    start: int
    end: int


class _Spelt(NamedTuple):
    digits: str
    after: str  # the character after the digits, if the token has one

    @property
    def is_whole(self) -> bool:
        """Whether the token is a whole number and not the beginning of another one."""
        return self.after == "" or self.after not in ".eE"


def number_in(value: Any, name: str) -> float:
    """A number, or exactly the text "N" or "N/10"; raises `UnfitReply` for anything else."""
    if isinstance(value, str):
        found = _IN_WORDS.fullmatch(value)
        if found:
            return float(found[1])
    elif isinstance(value, int | float) and not isinstance(value, bool):
        return float(min(value, _TOO_LARGE))
    raise UnfitReply(f"{name} must be a number")


def score_in(value: Any, name: str) -> float:
    """A whole number; its range is checked with the others of the reply."""
    number = number_in(value, name)
    if not number.is_integer():
        raise UnfitReply(f"{name} must be a whole number")
    return number


def check_scale(numbers: Sequence[float]) -> None:
    """Raise `UnfitReply` unless all numbers of a reply are on the scale that was asked for."""
    outside = [number for number in numbers if not LOWEST <= number <= HIGHEST]
    if not outside:
        return
    asked = f"all scores must be from {LOWEST} to {HIGHEST}"
    if min(outside) < LOWEST:
        raise UnfitReply(f"{asked}, and one is lower")
    if len(outside) == len(numbers):
        raise UnfitReply(f"{asked}, and these are on a larger scale")
    raise UnfitReply(f"{asked}, and these are on different scales")


def weigh(
    logprobs: Sequence[TokenLogprob], scores: Mapping[Criterion, int]
) -> dict[Criterion, Weighted]:
    """The weighted score of each criterion whose score is found among the tokens.

    A score is found by its place in the JSON text, so a digit in a reason is never taken for one.
    """
    tokens = _ReplyTokens(logprobs)
    found: dict[Criterion, Weighted] = {}
    spans = _score_spans(tokens.text)
    for name, score in scores.items():
        span = spans.get(name)
        if span is None:
            continue
        # What the tokens spell, but for the endings that are allowed, must be what was read: a
        # reply may come by another way.
        spelled = tokens.text[span.start : span.end].removesuffix("/10").removesuffix(".0")
        if spelled != str(score):
            continue
        likely = _likelihoods(tokens, span.start)
        covered = sum(likely.values())
        if covered > 0:
            mean = sum(each * chance for each, chance in likely.items()) / covered
            on_scale = min(float(HIGHEST), max(float(LOWEST), mean))
            found[name] = Weighted(on_scale, min(1.0, covered))
    return found


class _ReplyTokens:
    def __init__(self, logprobs: Sequence[TokenLogprob]) -> None:
        self.text = "".join(entry.token for entry in logprobs)
        self._logprobs = logprobs
        self._ends = list(accumulate(len(entry.token) for entry in logprobs))

    def at(self, place: int) -> tuple[TokenLogprob, str, TokenLogprob | None]:
        """The token at a place of the text, what it holds before the place, and the next one."""
        index = bisect_right(self._ends, place)
        entry = self._logprobs[index]
        start = self._ends[index] - len(entry.token)
        following = self._logprobs[index + 1] if index + 1 < len(self._logprobs) else None
        return entry, entry.token[: place - start], following

    @cached_property
    def has_ten(self) -> bool:
        tokens = (
            token
            for entry in self._logprobs
            for token in (entry.token, *(other for other, _ in entry.top))
        )
        begins = (_DIGITS.match(token) for token in tokens if "10" in token)
        return any(found is not None and found[1] == "10" for found in begins)


def _score_spans(text: str) -> dict[str, _ScorePlace]:
    """Where the value of NAME.score is in a JSON object, for each NAME.

    Tokens may hold parts of a character, which providers write in ways that are not JSON: what is
    within strings is passed over without being read.
    """
    spans: dict[str, _ScorePlace] = {}
    path: list[str] = []  # the current key of each object that is open
    is_key = False
    for found in _LEXEME.finditer(text):
        lexeme = found[0]
        if lexeme in "{[":
            path.append("")
        elif lexeme in "}]":
            path = path[:-1]
        elif is_key and lexeme[0] == '"' and path:
            path[-1] = lexeme[1:-1]
        elif len(path) == 2 and path[1] == "score" and lexeme not in ":,":
            quotes = int(lexeme[0] == '"')
            spans[path[0]] = _ScorePlace(found.start() + quotes, found.end() - quotes)
        is_key = lexeme in "{,"
    return spans


def _likelihoods(tokens: _ReplyTokens, place: int) -> dict[int, float]:
    """How likely each score was at a place of the text, as far as the tokens tell."""
    entry, before, following = tokens.at(place)
    if not entry.top:  # the chosen token alone is the plain score, however likely it was
        return {}
    taken = _spelt(entry.token, before)
    likely: dict[int, float] = {}
    for token, chance in _chances(entry):
        spelt = _spelt(token, before)
        if spelt is None:
            continue
        if spelt != ("1", ""):
            shares = {int(spelt.digits): 1.0} if spelt.is_whole else {}
        elif spelt == taken and following is not None:
            shares = _one_or_ten(following)
        else:  # where the model has no token for 10, this may begin one: it counts for neither
            shares = {1: 1.0} if tokens.has_ten else {}
        for score, share in shares.items():
            likely[score] = likely.get(score, 0.0) + chance * share
    return {score: chance for score, chance in likely.items() if LOWEST <= score <= HIGHEST}


def _spelt(token: str, before: str) -> _Spelt | None:
    """The number that a token begins with, after what precedes it in the chosen token."""
    if token.startswith(before):
        token = token[len(before) :]
    elif before.strip():
        return None
    found = _DIGITS.match(token)
    if found is None or found[1].startswith("0") or len(found[1]) > len(str(HIGHEST)):
        return None
    return _Spelt(found[1], found[2])


def _chances(entry: TokenLogprob) -> Iterator[tuple[str, float]]:
    """Every token that was likely at a place, the chosen one among them, with its probability."""
    if all(token != entry.token for token, _ in entry.top):
        yield entry.token, exp(min(0.0, entry.logprob))
    for token, logprob in entry.top:
        yield token, exp(min(0.0, logprob))


def _one_or_ten(following: TokenLogprob) -> dict[int, float]:
    """How the probability of a chosen token "1" is shared between 1 and 10: by what follows it."""
    shares = {1: 0.0, 10: 0.0}
    for token, chance in _chances(following):
        if re.match(r"0(?![0-9.])", token):
            shares[10] += chance
        elif not re.match(r"[0-9.eE]", token):
            shares[1] += chance
    return shares

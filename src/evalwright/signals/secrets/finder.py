"""Finds secrets in bytes: a first look for literals, then the rules that those belong to."""

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import NamedTuple, TypeAlias

from evalwright.contracts.report import Confidence, Severity
from evalwright.signals.patterns import (
    LiteralFinder,
    find_together,
    pattern_at_place,
    quick_pattern,
    spans_in,
)
from evalwright.signals.secrets.context import (
    PRIVATE_KEY_LITERAL,
    ContextRule,
    NamedValue,
    private_key_end,
    whole_value,
)
from evalwright.signals.secrets.rules import CONTEXT_RULES, RULES, TokenRule
from evalwright.signals.sensitive_part import SensitivePart

# No format is longer, but for tokens that go on: those are followed to their end.
_WINDOW = 2048
_WORD = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_TOKEN = frozenset(_WORD | frozenset(b"-.~+/="))

# Some literals alone say too little: their rules have a gate.
_OF_TOKENS = [
    rule.gate.encode() or re.escape(literal)
    for rule in RULES
    for literal in rule.literals.encode().split()
]
_OF_CONTEXTS = [re.escape(literal) for rule in CONTEXT_RULES for literal in rule.literals]
# What the lower-case text matches wherever a rule could find something.
GATE = b"|".join(sorted({*_OF_TOKENS, *_OF_CONTEXTS, re.escape(PRIVATE_KEY_LITERAL)}))

_GATE = quick_pattern(GATE)

Matcher: TypeAlias = Callable[[bytes, int], SensitivePart | None]


class _Rules(NamedTuple):
    """The rules of each literal, and what finds the literals, the longest with so many bytes."""

    matchers: dict[bytes, list[Matcher]]
    find_literals: LiteralFinder
    longest: int


@cache  # made for the first text that holds a literal
def _rules() -> _Rules:
    made: list[tuple[Iterable[bytes], Matcher]] = [
        *((rule.literals.encode().split(), _token_matcher(rule)) for rule in RULES),
        *((rule.literals, _context_matcher(rule)) for rule in CONTEXT_RULES),
        ((PRIVATE_KEY_LITERAL,), _private_key),
    ]
    matchers: dict[bytes, list[Matcher]] = {}
    for literals, matcher in made:
        for literal in literals:
            matchers.setdefault(literal, []).append(matcher)
    return _Rules(matchers, find_together(matchers), max(map(len, matchers)))


def find_secrets(data: bytes) -> list[SensitivePart]:
    """Every secret, in order of its place; several rules may find the same one."""
    found: list[SensitivePart] = []
    covered: dict[Matcher, int] = {}
    lowered = data.lower()
    for start, end in spans_in(_GATE, lowered):
        rules = _rules()
        window = lowered[start : end + rules.longest]
        if _is_within_run(lowered, start, window):
            continue
        for offset, literal in rules.find_literals(window):
            if offset >= end - start:  # it is in a later hit of the gate
                continue
            for matcher in rules.matchers[literal]:
                if start + offset < covered.get(matcher, 0):
                    continue
                part = matcher(data, start + offset)
                if part is not None:
                    found.append(part)
                    covered[matcher] = part.end
    return found


def _is_within_run(lowered: bytes, start: int, window: bytes) -> bool:
    """Whether one letter fills a window and stands before it, as in base 64 of zeros."""
    if start == 0 or lowered[start - 1] not in _WORD:
        return False
    return window.count(lowered[start - 1]) == len(window)


def _token_matcher(rule: TokenRule) -> Matcher:
    pattern = pattern_at_place(rule.pattern.encode())

    def match(data: bytes, place: int) -> SensitivePart | None:
        for reach in rule.reach:
            start = place - reach
            if start < 0 or _is_within_word(data, start):
                continue
            matched = pattern.match(data, start, start + _WINDOW)
            if matched is None:
                continue
            first, last = matched.span(matched.lastindex or 0)
            # A token that reaches the end of the window goes on behind it.
            while start + _WINDOW <= last < len(data) and data[last] in _TOKEN:
                last += 1
            if last < len(data) and data[last] in _WORD:
                continue
            confidence = rule.check(data[first:last], rule.confidence)
            if confidence is not None:
                return _part(rule, first, last, confidence, rule.severity)
        return None

    return match


def _is_within_word(data: bytes, start: int) -> bool:
    """A token that starts with a mark, as a path does, may follow a word."""
    return start > 0 and data[start] in _WORD and data[start - 1] in _WORD


def _part(
    rule: TokenRule | ContextRule, start: int, end: int, confidence: Confidence, severity: Severity
) -> SensitivePart:
    return SensitivePart(start, end, rule.id, "secret", severity, confidence, rule.label)


def _context_matcher(rule: ContextRule) -> Matcher:
    pattern = pattern_at_place(rule.pattern)

    def match(data: bytes, place: int) -> SensitivePart | None:
        matched = pattern.match(data, place, place + _WINDOW)
        if matched is None:
            return None
        start, end = matched.span(matched.lastindex or 0)
        value = whole_value(data[start:end])
        given = NamedValue(data[max(0, place - 16) : place], data[place:start], value)
        confidence = rule.judge(given)
        if confidence is None:
            return None
        severity: Severity = "medium" if confidence == "low" else rule.severity
        return _part(rule, start, start + len(value), confidence, severity)

    return match


def _private_key(data: bytes, place: int) -> SensitivePart | None:
    end = private_key_end(data, place)
    if end is None:
        return None
    return SensitivePart(place, end, "private-key", "secret", "critical", "high", "private key")

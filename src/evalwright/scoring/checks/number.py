"""`number`: the output is, or names, a number close to a value or within bounds."""

import json
import math
import re
import string
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

from evalwright.scoring.checks.base import (
    AnswerCheck,
    CheckOutcome,
    Examined,
    Preparing,
    RefusedCheck,
    fields,
)

MOST_NUMBERS = 10_000  # of a text
_ROUNDING = 1e-12  # of sums and products of doubles, relative to what is compared
_DEFAULT_SHARE = 1e-9

_SPACES = "\u00a0\u2009\u202f"
_NUMBER = re.compile(
    rf"(\d++(?:[.,'\u2019{_SPACES}]\d++)*+|\.\d++)"
    r"([eE][-+\u2212]?\d{1,3}+(?!\w))?(\s?%)?"
)
_MINUS = "\u2212"
_SIGNS = {"-": "-", _MINUS: "-"}
_CURRENCIES = "$\u20ac\u00a3\u00a5\u20b9"
_MARKS = frozenset(_CURRENCIES) | _SIGNS.keys()
_LETTERS = frozenset(string.ascii_letters + "_")
_GROUPS = re.compile(rf"\d{{1,3}}(?:([,.'\u2019{_SPACES}])\d{{3}})(?:\1\d{{3}})*")
_INDIAN = re.compile(r"\d{1,2}(?:,\d{2})+,\d{3}")
_SEPARATORS = re.compile(rf"[,.'\u2019{_SPACES}]")


class _NamedNumber(NamedTuple):
    value: float
    glued: bool
    share: float | None = None

    @property
    def shown(self) -> float:
        return int(self.value) if self.value.is_integer() else self.value

    def readings(self) -> tuple[float, ...]:
        return (self.value,) if self.share is None else (self.value, self.share)


class _Range(NamedTuple):
    low: float
    high: float
    said: str

    def fits(self, found: _NamedNumber) -> bool:
        if found.share is not None and self.low <= found.share <= self.high:
            return True
        return self.low <= found.value <= self.high


class _Numbers:
    def __init__(self, text: str) -> None:
        self._text = text
        self._was_asked = False

    @cached_property
    def said(self) -> Sequence[_NamedNumber]:
        """All of them; those that are part of a name count only where there is no other."""
        found = list(islice(_numbers(self._text), MOST_NUMBERS))
        return [each for each in found if not each.glued] or found

    @cached_property
    def _by_size(self) -> tuple[list[float], list[int]]:
        read = sorted((value, n) for n, each in enumerate(self.said) for value in each.readings())
        return [value for value, _ in read], [n for _, n in read]

    def first_within(self, wanted: _Range) -> _NamedNumber | None:
        if not self._was_asked:  # most answers are looked at once, and most have what is wanted
            self._was_asked = True
            found = islice(_numbers(self._text), MOST_NUMBERS)
            first = next((each for each in found if not each.glued and wanted.fits(each)), None)
            if first is not None:
                return first
        sizes, places = self._by_size
        low, high = bisect_left(sizes, wanted.low), bisect_right(sizes, wanted.high)
        return self.said[min(places[low:high])] if low < high else None

    def nearest(self, wanted: _Range) -> _NamedNumber:
        """The number that is least far from what fits, where none does."""
        sizes, places = self._by_size
        place = bisect_left(sizes, wanted.low)
        below = wanted.low - sizes[place - 1] if place else math.inf
        above = sizes[place] - wanted.high if place < len(sizes) else math.inf
        equal = list[int]()
        if below <= above:
            equal += places[bisect_left(sizes, sizes[place - 1]) : place]
        if above <= below:
            equal += places[place : bisect_right(sizes, sizes[place])]
        return self.said[min(equal)]


_NUMERIC = {"anyOf": [{"type": "number"}, {"type": "string", "pattern": "[0-9]"}]}
_WITHIN = {
    "anyOf": [
        {"type": "number", "minimum": 0},
        {"type": "string", "pattern": r"^[0-9]*\.?[0-9]+([eE][-+]?[0-9]+)? ?%?$"},
    ]
}
_WHICH = {"enum": ["any", "last", "first", "only"]}


class Number(AnswerCheck):
    """The output is a number, or names one in its text, that is `within` a distance of `value`
    (a number, or a share such as 5%) or `between` two bounds. Of several numbers in a text,
    `value` takes any that fits and `between` the last; `which` chooses another.
    """

    example = "number: {value: 0.3, within: 1e-9}"
    schema = {
        "anyOf": [
            _NUMERIC,
            fields(["value"], value=_NUMERIC, within=_WITHIN, which=_WHICH),
            fields(
                ["between"],
                between={"type": "array", "items": _NUMERIC, "minItems": 2, "maxItems": 2},
                within=_WITHIN,
                which=_WHICH,
            ),
        ]
    }
    main = "value"

    argument: Any
    wanted: _Range
    which: str

    @classmethod
    def of(cls, argument: Any, _preparing: Preparing) -> AnswerCheck:
        options = argument if isinstance(argument, dict) else {"value": argument}
        which = options.get("which", "any" if "value" in options else "last")
        return cls(argument, _wanted(options), which)

    def evaluate(self, examined: Examined) -> CheckOutcome:
        output, wanted, expected = examined.output, self.wanted, self.argument
        if isinstance(output, int | float) and not isinstance(output, bool):
            if wanted.low <= output <= wanted.high:
                return CheckOutcome(True, 1.0, expected, output)
            return CheckOutcome(False, 0.0, expected, output, f"{output} is not {wanted.said}")
        numbers = examined.once(_numbers_of)
        if self.which == "any" and (found := numbers.first_within(wanted)) is not None:
            return CheckOutcome(True, 1.0, expected, found.shown)
        said = numbers.said
        if not said:
            return CheckOutcome(False, 0.0, expected, examined.shown, "no number is in the output")
        if self.which == "only" and len(said) > 1:
            reason = f"{len(said)} numbers are in the output, and one was wanted"
            return CheckOutcome(False, 0.0, expected, examined.shown, reason)
        chosen = said[-1] if self.which == "last" else said[0]
        if self.which == "any":
            chosen = numbers.nearest(wanted)
        if wanted.fits(chosen):
            return CheckOutcome(True, 1.0, expected, chosen.shown)
        among = (
            f", the {_PLACES[self.which]} of {len(said)} numbers in the output," if said[1:] else ""
        )
        is_there = self.which != "any" and numbers.first_within(wanted) is not None
        hint = "; another number in it is, which `which: any` accepts" if is_there else ""
        reason = f"{chosen.shown}{among} is not {wanted.said}{hint}"
        return CheckOutcome(False, 0.0, expected, chosen.shown, reason)


def _numbers_of(examined: Examined) -> _Numbers:
    """The numbers of an output; items of lists stay apart, as [1,5] is not 1.5."""
    output = examined.output
    if not isinstance(output, list | dict):
        return _Numbers(examined.text)
    return _Numbers(json.dumps(output, ensure_ascii=False, separators=(" , ", " : "), default=str))


_PLACES = {"any": "nearest", "last": "last", "first": "first", "only": "only one"}


def _wanted(options: dict[str, Any]) -> _Range:
    if "between" in options:
        low, high = (_number_of(each, "$.between") for each in options["between"])
        if low > high:
            remedy = f"write [{high}, {low}]"
            raise RefusedCheck("the lower bound is above the upper one", remedy, "$.between")
        if "within" in options:
            raise RefusedCheck(
                "`within` goes with `value`", "remove it, or give a value", "$.within"
            )
        room = _ROUNDING * max(abs(low), abs(high))
        return _Range(low - room, high + room, f"between {low} and {high}")
    value = _number_of(options["value"], "$.value")
    within = options.get("within")
    if isinstance(within, str):
        share = float(within.rstrip("% "))
        within = share / 100 * abs(value) if within.endswith("%") else share
    distance = _DEFAULT_SHARE * abs(value) if within is None else within
    said = f"{value}" if not within else f"{value} within {options['within']}"
    room = distance + _ROUNDING * max(abs(value), distance) if distance else 0
    return _Range(value - room, value + room, said)


def _number_of(value: float | str, place: str) -> float:
    """A number, which a template or a column of a file may have given as text."""
    if not isinstance(value, str):
        return value
    numbers = _Numbers(value).said
    if len(numbers) != 1:
        raise RefusedCheck(f"{value[:80]!r} is not a number", "write a number", place)
    return numbers[0].shown


def _numbers(text: str) -> Iterator[_NamedNumber]:
    for match in _NUMBER.finditer(text):
        digits, exponent, percent = match.groups()
        start = match.start()
        before = text[start - 1 : start]
        sign = _sign(text[max(0, start - 3) : start]) if before in _MARKS else ""
        parts = [digits] if digits.isdigit() else _plain_digits(digits)
        if len(parts) == 1 and (sign or exponent):
            parts = [f"{sign}{parts[0]}{(exponent or '').replace(_MINUS, '-')}"]
        for value in map(float, parts):
            if math.isfinite(value):
                share = None if percent is None else value / 100
                yield _NamedNumber(value, before in _LETTERS, share)


def _sign(before: str) -> str:
    """The sign of a number, from what stands before it: `-5`, `-$5`, but not `A-5` or `- 5`."""
    rest = before.rstrip(_CURRENCIES)
    sign, ahead = rest[-1:], rest[-2:-1]
    is_hyphen = ahead.isalnum() or ahead in (")", "]", "_")
    return "" if is_hyphen else _SIGNS.get(sign, "")


def _plain_digits(digits: str) -> list[str]:
    """A number as `float` reads it; several where separators do not make one of them."""
    separators = _SEPARATORS.findall(digits)
    if not separators or separators == ["."]:
        return [digits]
    whole, last, rest = digits.rpartition(separators[-1])
    if len(set(separators)) == 1:
        if _GROUPS.fullmatch(digits) and not (last == "," and digits.startswith("0")):
            return [_SEPARATORS.sub("", digits)]
        if _INDIAN.fullmatch(digits):
            return [digits.replace(",", "")]
        return [f"{whole}.{rest}"] if separators == [","] else _SEPARATORS.split(digits)
    if last in ",." and (_GROUPS.fullmatch(whole) or _INDIAN.fullmatch(whole)):
        return [f"{_SEPARATORS.sub('', whole)}.{rest}"]
    return _SEPARATORS.split(digits)

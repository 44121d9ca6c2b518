"""`equals`: the output is a given text or value."""

from functools import cached_property
from typing import Any
from unicodedata import normalize

from evalwright.contracts.jsonvalue import json_equal, stringify
from evalwright.scoring.checks.base import AnswerCheck, CheckOutcome, Examined
from evalwright.scoring.checks.mismatch import first_difference, first_other_place, parsed
from evalwright.scoring.checks.quotes import piece, shown, shown_around

_BEFORE = 12  # characters before a difference that show where it is


class Equals(AnswerCheck):
    """The output is exactly this text or value. Numbers, lists and objects are compared as
    JSON, also with an output that is a text of JSON.
    """

    example = "equals: Paris"
    schema = {}
    main = "value"

    value: Any
    ignore_case: bool = False

    @cached_property
    def text(self) -> str:
        return stringify(self.value)

    @cached_property
    def sought(self) -> str:
        return self.text.casefold() if self.ignore_case else self.text

    def evaluate(self, examined: Examined) -> CheckOutcome:
        output, value = examined.output, self.value
        # None is not an empty text.
        said = examined if output is not None else examined.with_part("null")
        if (said.folded if self.ignore_case else said.text) == self.sought:
            return CheckOutcome(True, 1.0, shown(value, brief=True), examined.shown_briefly)
        read = output if isinstance(value, str) else examined.once(_parsed_output)
        if not isinstance(value, str) and json_equal(read, value):  # texts have been compared
            return CheckOutcome(True, 1.0, shown(value, brief=True), examined.shown_briefly)
        if isinstance(read, dict | list) and isinstance(value, dict | list):
            reason = first_difference(read, value) or ""
            return CheckOutcome(False, 0.0, shown(value), examined.shown, reason)
        reason, place = _text_difference(said, self.text)
        actual = shown_around(said.text, place) if isinstance(output, str) else examined.shown
        expected = shown_around(self.text, place) if isinstance(value, str) else shown(value)
        return CheckOutcome(False, 0.0, expected, actual, reason)


def _parsed_output(examined: Examined) -> Any:
    return parsed(examined.output)


def _text_difference(said: Examined, wanted: str) -> tuple[str, int]:
    """Where an output first differs from a text that it does not equal, said and as a place."""
    got = said.text
    place = first_other_place(got, wanted)
    if not got:
        return "the output is empty", 0
    if said.folded == wanted.casefold():
        return "they differ only in case, which `ignore_case: true` accepts", place
    if got.strip() == wanted.strip():
        return "they differ only in the white space around them", place
    if said.once(_squeezed) == " ".join(wanted.split()):
        return "they differ only in white space", place
    if not got.isascii() and said.composed == normalize("NFC", wanted):
        return "they look the same: only the forms of their characters differ (NFC, NFD)", place
    after = f" after {piece(wanted[:place], place - _BEFORE, place)}" if place else ""
    found = f"got {piece(got, place, place + 40)}" if place < len(got) else "the output ends"
    expected = f"expected {piece(wanted, place, place + 40)}"
    expected = expected if place < len(wanted) else "nothing more was expected"
    return f"from character {place + 1} on{after}, {expected}, {found}", place


def _squeezed(said: Examined) -> str:
    return " ".join(said.text.split())

"""The checks of texts in the output; and what they say of a text that is not there."""

from collections.abc import Sequence
from functools import cached_property
from operator import contains
from typing import Any, ClassVar
from unicodedata import normalize

from evalwright.contracts.jsonvalue import stringify
from evalwright.scoring.checks.base import (
    TEXT,
    AnswerCheck,
    CheckOutcome,
    Examined,
    Preparing,
    RefusedCheck,
    Seek,
    fields,
    holds,
)
from evalwright.scoring.checks.quotes import named, piece, quoted, shown

_LEAST_BEGINNING = 4  # characters of a text that are worth telling if no more of it is there

_FLAG = {"type": "boolean"}
_SEVERAL = {"type": "array", "minItems": 1, "items": TEXT}


class _OneText(AnswerCheck):
    schema = {"anyOf": [TEXT, fields(["value"], value=TEXT, ignore_case=_FLAG)]}
    main = "value"
    finds: ClassVar[Any]
    missing: ClassVar[str]

    value: str
    ignore_case: bool = False

    @classmethod
    def of(cls, argument: Any, _preparing: Preparing) -> AnswerCheck:
        (text,), ignore_case = _sought_texts(argument)
        return cls(text, ignore_case)

    @cached_property
    def seek(self) -> Seek:
        return _seek(self.value, self.ignore_case)

    def evaluate(self, examined: Examined) -> CheckOutcome:
        if examined.has(self.seek, self.finds):
            return CheckOutcome(True, 1.0, self.value, examined.shown_briefly)
        return CheckOutcome(
            False,
            0.0,
            shown(self.value),
            examined.shown,
            lambda: f"{quoted(self.value)} {self.missing}{self._instead(examined)}",
        )

    def _instead(self, examined: Examined) -> str:
        text, output, finds = self.value, examined.text, self.finds
        if not output:
            return ": the output is empty"
        if not examined.may_hint(3 + len(text).bit_length()):
            return ""
        sought = text.casefold()
        if finds(examined.folded, sought):
            return "; it is there in another case, which `ignore_case: true` accepts"
        if finds(examined.once(_squeezed), " ".join(sought.split())):
            return "; it is there with other white space"
        if not output.isascii() and finds(examined.composed, normalize("NFC", text)):
            return "; it is there in another form of its characters (NFC, NFD)"
        least, most = 0, len(text)
        while least < most:  # a beginning that is there has all its own beginnings there
            middle = (least + most + 1) // 2
            least, most = (middle, most) if text[:middle] in output else (least, middle - 1)
        if least < max(_LEAST_BEGINNING, len(text) // 2):
            return ""
        end = output.index(text[:least]) + least
        after = piece(text[:least], least - 30, least)
        return f"; after {after} comes {piece(output, end, end + 30)}"


class Contains(_OneText):
    """The output contains this text; an output that is not a text counts as its JSON."""

    example = "contains: shipped"
    finds = contains
    missing = "is not in the output"

    @property
    def seeks(self) -> Sequence[Seek]:
        return (self.seek,)


class StartsWith(_OneText):
    """The output begins with this text."""

    example = "starts_with: Dear"
    cause = "format_violation"
    finds = staticmethod(str.startswith)
    missing = "is not how the output begins"


class EndsWith(_OneText):
    """The output ends with this text."""

    example = "ends_with: regards"
    cause = "format_violation"
    finds = staticmethod(str.endswith)
    missing = "is not how the output ends"


class _SeveralTexts(AnswerCheck):
    schema = {
        "anyOf": [
            TEXT,
            _SEVERAL,
            fields(["value"], value={"anyOf": [TEXT, _SEVERAL]}, ignore_case=_FLAG),
        ]
    }
    main = "value"

    value: list[str]
    ignore_case: bool = False

    @classmethod
    def of(cls, argument: Any, _preparing: Preparing) -> AnswerCheck:
        return cls(*_sought_texts(argument))

    @cached_property
    def seeks(self) -> Sequence[Seek]:
        return [_seek(each, self.ignore_case) for each in self.value]


class ContainsAny(_SeveralTexts):
    """The output contains at least one of these texts."""

    example = "contains_any: [shipped, on its way]"

    def evaluate(self, examined: Examined) -> CheckOutcome:
        if any(map(examined.has, self.seeks)):
            return CheckOutcome(True, 1.0, self.value, examined.shown_briefly)
        reason = f"none of these texts is in the output: {named(self.value)}"
        return holds(False, shown(self.value), examined.shown, reason)


class ContainsAll(_SeveralTexts):
    """The output contains all of these texts; the score is the share that it contains."""

    example = "contains_all: [order, A-17]"

    def evaluate(self, examined: Examined) -> CheckOutcome:
        texts = self.value
        sought = zip(texts, self.seeks, strict=True)
        missing = [text for text, seek in sought if not examined.has(seek)]
        if not missing:
            return CheckOutcome(True, 1.0, texts, examined.shown_briefly)
        found = len(texts) - len(missing)
        reason = f"not in the output: {named(missing)} ({found} of {len(texts)} are)"
        return CheckOutcome(False, found / len(texts), shown(texts), examined.shown, reason)


def _seek(text: str, ignore_case: bool) -> Seek:  # noqa: FBT001
    return Seek(text.casefold() if ignore_case else text, ignore_case)


def _sought_texts(argument: Any) -> tuple[list[str], bool]:
    has_fields = isinstance(argument, dict)
    value = argument["value"] if has_fields else argument
    listed = isinstance(value, list)
    texts = [stringify(each) for each in (value if listed else [value])]
    for index, text in enumerate(texts):
        if not text:
            place = "$.value" if has_fields else "$"
            raise RefusedCheck(
                "an empty text is in every output",
                "give a text, or remove the check; `equals` can expect an empty output",
                f"{place}[{index}]" if listed else place,
            )
    return texts, has_fields and argument.get("ignore_case", False)


def _squeezed(examined: Examined) -> str:
    return " ".join(examined.folded.split())

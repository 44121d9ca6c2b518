"""What the checks of texts share: their arguments, and what to say of a text that is not there."""

from collections.abc import Callable, Sequence
from operator import contains
from typing import Any
from unicodedata import normalize

from evalwright.contracts.jsonvalue import stringify
from evalwright.scoring.checks.base import (
    TEXT,
    Answers,
    CheckKind,
    Examined,
    Look,
    Prepared,
    Preparing,
    RefusedCheck,
    Seek,
    fields,
)
from evalwright.scoring.checks.quotes import piece, quoted, shown

_LEAST_BEGINNING = 4  # characters of a text that are worth telling if no more of it is there

TEXT_SCHEMA = {
    "anyOf": [TEXT, fields(["value"], value=TEXT, ignore_case={"type": "boolean"})],
}
TEXTS_SCHEMA = {
    "anyOf": [
        TEXT,
        {"type": "array", "minItems": 1, "items": TEXT},
        fields(
            ["value"],
            value={"anyOf": [TEXT, {"type": "array", "minItems": 1, "items": TEXT}]},
            ignore_case={"type": "boolean"},
        ),
    ],
}


def text_argument(argument: Any) -> tuple[Any, bool]:
    """The value, and whether case is to be ignored."""
    if isinstance(argument, dict):
        return argument["value"], argument.get("ignore_case", False)
    return argument, False


def sought_texts(argument: Any) -> tuple[list[str], bool]:
    """The texts of an argument with one or several, none of them empty."""
    value, ignore_case = text_argument(argument)
    listed = isinstance(value, list)
    texts = [stringify(each) for each in (value if listed else [value])]
    for index, text in enumerate(texts):
        if not text:
            place = "$.value" if isinstance(argument, dict) else "$"
            raise RefusedCheck(
                "an empty text is in every output",
                "give a text, or remove the check; `equals` can expect an empty output",
                f"{place}[{index}]" if listed else place,
            )
    return texts, ignore_case


def seeks_of(texts: Sequence[str], *, ignore_case: bool) -> list[Seek]:
    """How texts are looked for."""
    return [Seek(each.casefold() if ignore_case else each, ignore_case) for each in texts]


def one_text(
    name: str, finds: Callable[[str, str], bool], missing: str
) -> Callable[[Any, Preparing], Prepared]:
    """The preparation of a check for one text, which `finds(output, text)` tells."""

    def prepare(argument: Any, _preparing: Preparing) -> Prepared:
        (text,), ignore_case = sought_texts(argument)
        (seek,) = seeks = seeks_of([text], ignore_case=ignore_case)

        def look(examined: Examined, _answers: Answers) -> Look:
            if examined.has(seek, finds):
                return Look(True, 1.0, text, examined.shown_briefly)
            return Look(
                False,
                0.0,
                shown(text),
                examined.shown,
                lambda: f"{quoted(text)} {missing}{_instead(examined, text, finds)}",
            )

        return Prepared(name, look, seeks=seeks if finds is contains else ())

    return prepare


def _instead(examined: Examined, text: str, finds: Callable[[str, str], bool]) -> str:
    """What is there instead of a text: the same in another case, or only its beginning."""
    output = examined.text
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


def _squeezed(examined: Examined) -> str:
    return " ".join(examined.folded.split())


def one_text_kind(
    name: str,
    description: str,
    *,
    finds: Callable[[str, str], bool],
    missing: str,
    cause: Any,
    example: str,
) -> CheckKind:
    """A check for one text."""
    return CheckKind(
        name=name,
        description=description,
        example=example,
        schema=TEXT_SCHEMA,
        prepare=one_text(name, finds, missing),
        cause=cause,
        main="value",
    )

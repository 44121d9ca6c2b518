"""Is a value within another one? Each part of what is expected may itself be a check."""

from collections.abc import Callable
from typing import Any

from evalwright.contracts.jsonvalue import child, json_equal
from evalwright.scoring.checks.base import (
    Answers,
    Ask,
    CodeAsk,
    EmbeddingAsk,
    Examined,
    JudgeAsk,
    Prepared,
    Preparing,
    RefusedCheck,
)
from evalwright.scoring.checks.comparing import told
from evalwright.scoring.checks.json_paths import ABSENT

# What is wrong with a value, or None if it fits.
Fits = Callable[[Any, Examined, Answers], str | None]


def prepare_subset(
    wanted: Any, preparing: Preparing, path: str, shown_path: str = "$"
) -> tuple[Fits, tuple[Ask, ...]]:
    """How to tell whether a value has all that is wanted; it may have more fields and items."""
    if preparing.is_check(wanted):
        return _check(wanted, preparing, path, shown_path)
    if isinstance(wanted, dict):
        return _object(wanted, preparing, path, shown_path)
    if isinstance(wanted, list):
        return _items(wanted, preparing, path, shown_path)

    def fits(value: Any, _examined: Examined, _answers: Answers) -> str | None:
        if value is not ABSENT and json_equal(value, wanted):
            return None
        return _other(shown_path, told(wanted), value)

    return fits, ()


_OF_THE_WHOLE: dict[type[Ask], tuple[str, str]] = {
    JudgeAsk: ("judge", "say in the criterion which part is meant"),
    CodeAsk: ("python", "the function is given `output` and `calls`, and finds the part there"),
    EmbeddingAsk: ("similar by embedding", "a part is compared with by: rouge_l or edit"),
}


def nested_in_part(document: Any, preparing: Preparing, path: str) -> Prepared:
    """A check of a part of an answer; what others are asked is about the whole of it."""
    prepared = preparing.nested(document, path)
    if prepared.asks:
        name, remedy = _OF_THE_WHOLE[type(prepared.asks[0])]
        message = f"{name} looks at the whole answer, not at a part of it"
        raise RefusedCheck(message, f"write it as a check of its own; {remedy}", path)
    return prepared


def _check(
    wanted: Any, preparing: Preparing, path: str, shown_path: str
) -> tuple[Fits, tuple[Ask, ...]]:
    try:
        prepared = nested_in_part(wanted, preparing, path)
    except RefusedCheck as refused:
        literal = "or, if it is meant as it stands, {equals: …}"
        raise RefusedCheck(
            refused.message, "; ".join(filter(None, (refused.remedy, literal))), refused.path
        ) from None

    def fits(value: Any, examined: Examined, answers: Answers) -> str | None:
        if value is ABSENT:
            return f"{shown_path}: missing"
        seen = prepared.look(examined.beside(value), answers)
        return None if seen.passed else f"{shown_path}: {seen.reason}"

    return fits, prepared.asks


def _object(
    wanted: dict[str, Any], preparing: Preparing, path: str, shown_path: str
) -> tuple[Fits, tuple[Ask, ...]]:
    members = {
        key: prepare_subset(each, preparing, child(path, key), child(shown_path, key))
        for key, each in wanted.items()
    }

    def fits(value: Any, examined: Examined, answers: Answers) -> str | None:
        if not isinstance(value, dict):
            return _other(shown_path, "an object", value)
        for key, (member_fits, _) in members.items():
            problem = member_fits(value.get(key, ABSENT), examined, answers)
            if problem is not None:
                return problem
        return None

    return fits, tuple(ask for _, asks in members.values() for ask in asks)


def _items(
    wanted: list[Any], preparing: Preparing, path: str, shown_path: str
) -> tuple[Fits, tuple[Ask, ...]]:
    items = [
        prepare_subset(each, preparing, f"{path}[{n}]", shown_path) for n, each in enumerate(wanted)
    ]

    def fits(value: Any, examined: Examined, answers: Answers) -> str | None:
        if not isinstance(value, list | tuple):
            return _other(shown_path, "a list", value)
        for number, (item_fits, _) in enumerate(items):
            if all(item_fits(each, examined, answers) is not None for each in value):
                return f"{shown_path}: no item is {told(wanted[number])}"
        return None

    return fits, tuple(ask for _, asks in items for ask in asks)


def _other(path: str, wanted: str, value: Any) -> str:
    if value is ABSENT:
        return f"{path}: missing, expected {wanted}"
    return f"{path}: expected {wanted}, got {told(value)}"

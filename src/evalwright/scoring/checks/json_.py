"""`json`: the output is JSON, and what is at a path of it is as expected."""

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import cached_property
from typing import Any, ClassVar

from evalwright.contracts.errors import InvalidDocument
from evalwright.contracts.jsonvalue import json_equal
from evalwright.contracts.report import RootCause
from evalwright.contracts.schema import ValueSchema
from evalwright.scoring.checks.base import (
    AnswerCheck,
    Ask,
    CheckOutcome,
    Examined,
    Preparing,
    RefusedCheck,
)
from evalwright.scoring.checks.json_paths import ABSENT, Part, json_of, path_parts, value_at
from evalwright.scoring.checks.mismatch import first_difference
from evalwright.scoring.checks.quotes import shown
from evalwright.scoring.checks.subsets import nested_in_part, prepare_subset

_MOST_PROBLEMS = 3
_SEARCHES = 100  # of a text, which take about as long as to find out why its value fits no schema

# What is wrong with the part of an output, or None; with the expected value to show, and what must
# be asked.
_Test = tuple[Any, Callable[[Examined], str | None], Sequence[Ask]]


class Json(AnswerCheck):
    """The output is JSON, or has it in a Markdown fence or in its text. What is at `path`
    ($.a[0].b) `equals` a value, fits a JSON `schema`, has a `subset`, or meets any other
    check named here. `valid` alone asks for JSON as all of the output or in a fence,
    `strict` for nothing around it.
    """

    example = "json: {path: $.order.id, equals: A-17}"
    schema = {
        "anyOf": [
            {"enum": ["valid", True]},
            {
                "type": "object",
                "minProperties": 1,
                "properties": {
                    "path": {"type": "string"},
                    "valid": {"type": "boolean"},
                    "strict": {"type": "boolean"},
                    "schema": {"type": ["object", "boolean"]},
                    "subset": {},
                    "equals": {},
                },
            },
        ]
    }

    own: ClassVar[tuple[str, ...]] = ("path", "valid", "strict", "schema", "subset", "equals")
    subject: ClassVar[str] = "the output"
    form: ClassVar[RootCause] = "format_violation"  # the cause where it has another form

    argument: dict[str, Any]
    tests: dict[str, _Test]
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, argument: Any, preparing: Preparing) -> AnswerCheck:
        if argument == "valid" or argument is True:
            argument = {"valid": True}
        path, tests = argument.get("path", "$"), dict[str, _Test]()
        try:
            parts = path_parts(path)
        except ValueError as error:
            remedy = "write it like $.orders[0].id, or $['a b'] for a name with spaces"
            raise RefusedCheck(f"not a JSON path: {error}", remedy, "$.path") from None
        if "equals" in argument:
            tests["equals"] = _equals(argument["equals"], path)
        if "schema" in argument:
            tests["schema"] = _schema(argument["schema"])
        if "subset" in argument:
            tests["subset"] = _subset(argument["subset"], preparing, path)
        for name in argument:
            if name not in cls.own:
                tests[name] = _other_check(name, argument[name], preparing, cls.own)
        return cls(argument, tests, parts)

    @cached_property
    def asks(self) -> Sequence[Ask]:
        return tuple(ask for _, _, asks in self.tests.values() for ask in asks)

    @cached_property
    def expected(self) -> Any:
        if len(self.tests) == 1:
            return shown(next(iter(self.tests.values()))[0])
        return shown({key: each for key, each in self.argument.items() if key != "strict"})

    def evaluate(self, examined: Examined) -> CheckOutcome:
        expected, parts, tests = self.expected, self.parts, self.tests
        strict = self.argument.get("strict", False)
        document = examined.part(_document, strict, bool(parts or tests))
        found_json = document.output is not ABSENT
        if not self.argument.get("valid", True):
            reason, score = "the output is JSON" if found_json else "", float(not found_json)
            return CheckOutcome(
                not found_json, score, expected, examined.shown, reason, cause=self.form
            )
        if not found_json:
            reason = "the output is not JSON" + ("" if examined.output else ": it is empty")
            return CheckOutcome(False, 0.0, expected, examined.shown, reason, cause=self.form)
        part = document.part(_value_at, *parts) if parts else document
        if part.output is ABSENT:
            reason = _where(document.output, parts, self.argument["path"], self.subject)
            return CheckOutcome(False, 0.0, expected, document.shown, reason, cause=self.form)
        found = {name: test(part) for name, (_, test, _) in tests.items()}
        if problems := [each for each in found.values() if each]:
            cause = self.form if found.get("schema") else None
            return CheckOutcome(False, 0.0, expected, part.shown, "; ".join(problems), cause=cause)
        return CheckOutcome(True, 1.0, expected, part.shown_briefly)


def _document(examined: Examined, strict: bool, anywhere: bool) -> Any:  # noqa: FBT001
    return json_of(examined.output, strict=strict, anywhere=anywhere)


def _value_at(document: Examined, *parts: Part) -> Any:
    return value_at(document.output, parts)[0]


def _where(document: Any, parts: tuple[Part, ...], path: str, subject: str) -> str:
    reached = value_at(document, parts)[1]
    before, _ = value_at(document, parts[:reached])
    if isinstance(before, dict):
        held = ", ".join(list(map(str, before))[:8]) or "nothing"
        return f"nothing is at {path}: there {subject} has {held}"
    if isinstance(before, list):
        return f"nothing is at {path}: the list there has {len(before)} items"
    return f"nothing is at {path}"


def _equals(wanted: Any, path: str) -> _Test:
    def test(part: Examined) -> str | None:
        value = part.output
        return None if json_equal(value, wanted) else first_difference(value, wanted, path)

    return wanted, test, ()


def _subset(wanted: Any, preparing: Preparing, path: str) -> _Test:
    subset = prepare_subset(wanted, preparing, "$.subset", path)

    def test(part: Examined) -> str | None:
        if subset.fits(part.output, part):
            return None
        return subset.problem(part.output, part)

    return wanted, test, subset.asks


def _schema(schema: Any) -> _Test:
    try:
        compiled = ValueSchema(schema, "schema")
    except InvalidDocument as refused:
        first = refused.problems[0].below("$.schema")
        raise RefusedCheck(first.message, str(first.remedy), first.path) from None

    def test(part: Examined) -> str | None:
        if compiled.is_met(part.output):
            return None
        if not part.may_hint(_SEARCHES):
            return "it does not fit the schema"
        found = compiled.problems(part.output)
        more = f" and {len(found) - _MOST_PROBLEMS} more" if len(found) > _MOST_PROBLEMS else ""
        return "; ".join(f"{p.path}: {p.message}" for p in found[:_MOST_PROBLEMS]) + more or None

    return schema, test, ()


def _other_check(name: str, argument: Any, preparing: Preparing, own: tuple[str, ...]) -> _Test:
    document = {name: argument}
    if not preparing.is_check(document):
        close = get_close_matches(name, own, 1)
        remedy = f"did you mean {close[0]}?" if close else f"{', '.join(own)}, or another check"
        raise RefusedCheck(f"unknown field {name!r}", remedy, f"$.{name}")
    prepared = nested_in_part(document, preparing, "$")

    def test(part: Examined) -> str | None:
        found = prepared.outcome(part)
        return None if found.passed else found.reason or f"{name} does not hold"

    return document, test, prepared.asks

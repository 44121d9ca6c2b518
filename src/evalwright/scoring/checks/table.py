"""The table of checks, and what runs, validation and comparisons ask of it."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from difflib import get_close_matches
from functools import cache, lru_cache
from typing import Any, NamedTuple

import msgspec

from evalwright.contracts.errors import Problem
from evalwright.contracts.report import RootCause
from evalwright.contracts.schema import ValueSchema
from evalwright.scoring.checks.base import AnswerCheck, RefusedCheck, with_schema
from evalwright.scoring.checks.calls import Calls, CallsInOrder, DoesNotCall
from evalwright.scoring.checks.cites import Cites
from evalwright.scoring.checks.combined import AllOf, AnyOf, AtLeast, Not
from evalwright.scoring.checks.equals import Equals
from evalwright.scoring.checks.json_ import Json
from evalwright.scoring.checks.judge import Judge, JudgeAgainst
from evalwright.scoring.checks.max_ import Max
from evalwright.scoring.checks.no_signals import NoSignals
from evalwright.scoring.checks.number import Number
from evalwright.scoring.checks.python_ import Python
from evalwright.scoring.checks.regex import Regex
from evalwright.scoring.checks.retrieved import Retrieved
from evalwright.scoring.checks.similar import Similar
from evalwright.scoring.checks.state import State
from evalwright.scoring.checks.texts import (
    Contains,
    ContainsAll,
    ContainsAny,
    EndsWith,
    StartsWith,
)

MOST_NESTED = 32  # levels of checks within checks
WEIGHT = "weight"

# A new check is a class and one line here, in the order in which they are listed.
CHECKS: dict[str, type[AnswerCheck]] = {
    kind.name: with_schema(kind)
    for kind in (
        Equals,
        Contains,
        ContainsAny,
        ContainsAll,
        StartsWith,
        EndsWith,
        Regex,
        Not,
        Number,
        Json,
        Calls,
        CallsInOrder,
        DoesNotCall,
        Retrieved,
        Cites,
        State,
        Max,
        Similar,
        Judge,
        JudgeAgainst,
        NoSignals,
        Python,
        AnyOf,
        AllOf,
        AtLeast,
    )
}

# What other tools call it, where the name is not near enough to ours.
_ELSEWHERE = {
    "icontains": "write contains with ignore_case: true",
    "icontains_any": "write contains_any with ignore_case: true",
    "icontains_all": "write contains_all with ignore_case: true",
    "exact": "write equals",
    "exact_match": "write equals",
    "match": "write regex, or equals",
    "pattern": "write regex",
    "is_json": "write json: {valid: true, strict: true}",
    "contains_json": "write json: {valid: true}",
    "json_schema": "write json: {schema: …}",
    "cost": "write max: {cost_usd: …}",
    "latency": "write max: {latency_ms: …}",
    "levenshtein": "write similar with by: edit",
    "rouge_n": "write similar with by: rouge_l",
    "rouge": "write similar with by: rouge_l",
    "llm_rubric": "write judge",
    "rubric": "write judge",
    "g_eval": "write judge",
    "factuality": "write judge_against with as: factuality",
    "model_graded_closedqa": "write judge",
    "answer_relevance": "write judge_against with as: relevance",
    "context_faithfulness": "write judge_against with as: grounded_in",
    "tool_called": "write calls",
    "must_include": "write contains_all",
    "must_not_include": "write not: {contains_any: […]}",
    "type": "write its name and its argument, as `contains: shipped`",
    "javascript": "write it in Python, and name it with python: file.py:function",
}


def prepare_checks(
    documents: Sequence[Any], path: str, signal_kinds: Collection[str] | None = None
) -> tuple[Sequence[AnswerCheck], list[Problem]]:
    """Checks from their documents, and every problem of those that cannot be used.

    `signal_kinds` are those that `no_signals` may name; without them it may name any.
    """
    kinds = None if signal_kinds is None else frozenset(signal_kinds)
    with suppress(RefusedCheck):  # of which all are told below
        return _kept_together(_written(documents), kinds), []
    prepared, problems = [], []
    for index, document in enumerate(documents):
        try:
            prepared.append(_kept(_written(document), kinds))
        except RefusedCheck as refused:
            found = refused.below(f"{path}[{index}]")
            problems.append(Problem(found.path, found.message, found.remedy))
    return prepared, problems


def _written(document: Any) -> bytes:
    try:
        return msgspec.json.encode(document)
    except (TypeError, ValueError, RecursionError) as error:
        raise RefusedCheck(f"not a JSON value: {error}", "write texts, numbers and lists") from None


@lru_cache(maxsize=16_384)  # a suite is validated, and then planned
def _kept_together(
    documents: bytes, signal_kinds: frozenset[str] | None
) -> tuple[AnswerCheck, ...]:
    """The checks of a task, found by one look if they are the same as before."""
    written = msgspec.json.decode(documents, type=list[msgspec.Raw])
    return tuple([_kept(bytes(each), signal_kinds) for each in written])


@lru_cache(maxsize=32_768)
def _kept(document: bytes, signal_kinds: frozenset[str] | None) -> AnswerCheck:
    return _Preparation(signal_kinds, 0).prepare(msgspec.json.decode(document))


class _Preparation(NamedTuple):
    signal_kinds: frozenset[str] | None
    depth: int

    def prepare(self, document: Any) -> AnswerCheck:
        if self.depth > MOST_NESTED:
            raise RefusedCheck(
                "too many checks within checks", f"nest at most {MOST_NESTED} levels"
            )
        name, argument = name_and_argument(document)
        kind = CHECKS[name]
        try:
            _check_argument(argument, kind)
            check = kind.of(argument, self)
        except RefusedCheck as refused:
            raise refused.below(f"$.{name}") from None
        weight = document.get(WEIGHT, 1)
        if isinstance(weight, bool) or not isinstance(weight, int | float) or weight < 0:
            raise RefusedCheck("a weight is a number from 0 on", "", f"$.{WEIGHT}")
        if weight != 1:
            check.weight = float(weight)
        return check

    def nested(self, document: Any, path: str) -> AnswerCheck:
        try:
            return _Preparation(self.signal_kinds, self.depth + 1).prepare(document)
        except RefusedCheck as refused:
            raise refused.below(path) from None

    def is_check(self, value: Any) -> bool:
        if not isinstance(value, dict):
            return False
        return any(
            value.keys() - {name, WEIGHT} <= fields_beside(name) for name in value.keys() & CHECKS
        )


def name_and_argument(document: Any) -> tuple[str, Any]:
    """The check that a document names, and its argument with the fields that stand beside it."""
    name = _name(document)
    main, argument = CHECKS[name].main, document[name]
    if len(document) == 1:
        return name, argument
    beside = {key: document[key] for key in document if key not in (name, WEIGHT)}
    if not beside:
        return name, argument
    if isinstance(argument, dict) and main in argument:
        return name, {**argument, **beside}
    return name, {main: argument, **beside}


def _name(document: Any) -> str:
    only = next(iter(document)) if isinstance(document, dict) and len(document) == 1 else None
    if only in CHECKS:
        return str(only)
    if not isinstance(document, dict) or not document:
        remedy = "write it as `contains: shipped`"
        raise RefusedCheck("a check is an object with its name and its argument", remedy)
    keys: list[str] = [key for key in document if key != WEIGHT]
    names = [key for key in keys if key in CHECKS]
    if not names:
        first = keys[0] if keys else WEIGHT
        raise RefusedCheck(f"no check is called {first!r}", _remedy_for(first))
    for name in names:
        if set(keys) - {name} <= fields_beside(name):
            return name
    if len(names) > 1:
        remedy = "write each as an entry of its own in the list"
        raise RefusedCheck(f"two checks in one: {' and '.join(names)}", remedy)
    other = next(key for key in keys if key != names[0] and key not in fields_beside(names[0]))
    known = sorted({WEIGHT} | fields_beside(names[0]))
    close = get_close_matches(other, known, 1)
    remedy = f"did you mean {close[0]}?" if close else f"beside it may stand {', '.join(known)}"
    raise RefusedCheck(f"{names[0]} has no field {other!r}", remedy, f"$.{other}")


def _remedy_for(name: str) -> str:
    plain = name.lower().replace("-", "_")
    negated = plain.startswith("not_")
    plain = plain.removeprefix("not_")
    known = plain if plain in CHECKS else None
    if plain in _ELSEWHERE or (known and (negated or plain != name)):
        remedy = _ELSEWHERE.get(plain, f"write {known}")
        return f"{remedy}, within not: {{…}}" if negated else remedy
    close = get_close_matches(plain, CHECKS, 1)
    return f"did you mean {close[0]}?" if close else f"one of {', '.join(CHECKS)}"


@cache
def fields_beside(name: str) -> frozenset[str]:
    """The fields of a check that may stand beside its name, where it has a short form."""
    kind = CHECKS[name]
    if not kind.main:
        return frozenset()
    forms = [form.get("properties", {}) for form in kind.schema.get("anyOf", ())]
    found = {field for form in forms if kind.main in form for field in form}
    return frozenset(found - {kind.main}) | ({"ignore_case"} if name == "equals" else set())


def _check_argument(argument: Any, kind: type[AnswerCheck]) -> None:
    if not kind.schema or not (problems := _argument_schema(kind.name).problems(argument)):
        return
    form = _form(argument, kind.schema)
    remedy = f"write it as `{kind.example}`"
    if form is not None:
        is_closed = isinstance(argument, dict) and form.get("additionalProperties") is False
        for key in argument if is_closed else ():
            if key not in form["properties"]:
                close = get_close_matches(key, form["properties"], 1)
                known = ", ".join(form["properties"])
                remedy = f"did you mean {close[0]}?" if close else f"known here: {known}"
                raise RefusedCheck(f"unknown field {key!r}", remedy, f"$.{key}")
        problems = _form_schema(kind.name, msgspec.json.encode(form)).problems(argument) or problems
        first = problems[0]
        raise RefusedCheck(first.message, remedy, first.path)
    if isinstance(argument, list) and kind.name == "contains":
        remedy = "write contains_all, or contains_any"
    names = {dict: "an object", list: "a list", str: "this text", bool: "true or false"}
    told = names.get(type(argument), "nothing" if argument is None else "this number")
    raise RefusedCheck(f"{kind.name} cannot be {told}", remedy)


def _form(argument: Any, schema: dict[str, Any]) -> dict[str, Any] | None:
    """The form of an argument that is meant: the only one of its type, or with most of its keys."""
    forms = []
    for each in schema.get("anyOf", [schema]):
        named = each.get("type", [])
        types = [named] if isinstance(named, str) else named
        if any(isinstance(argument, _TYPES[name]) for name in types):
            forms.append(each)
    if not isinstance(argument, dict):
        return forms[0] if len(forms) == 1 else None
    return max(
        forms, key=lambda form: len(argument.keys() & form.get("properties", {})), default=None
    )


_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
}


@cache
def _argument_schema(name: str) -> ValueSchema:
    # What stands where a check is nested is looked at when that is prepared.
    return ValueSchema({**CHECKS[name].schema, "$defs": {"check": {"type": "object"}}}, name)


@lru_cache(maxsize=128)
def _form_schema(name: str, form: bytes) -> ValueSchema:
    schema = {**msgspec.json.decode(form), "$defs": {"check": {"type": "object"}}}
    return ValueSchema(schema, name)


def cause_of(check: str) -> RootCause:
    """What a failure of a check is counted as in a compare report."""
    return CHECKS[check].cause if check in CHECKS else "unknown"

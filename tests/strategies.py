"""Strategies: JSON values, values of our types, suite documents that keep or break the rules."""

import copy
import re
from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import strategies as st
from msgspec import inspect

MODES = ["golden", "rubric", "adversarial", "regression", "live-shadow"]
MODEL_CLASSES = ["reasoning", "writing", "coding", "research", "classification", "general"]

whole_numbers = st.integers(-(2**70), 2**70)
doubles = st.floats(allow_nan=False, allow_infinity=False)
json_scalars = st.none() | st.booleans() | whole_numbers | doubles | st.text(max_size=8)


def json_of(scalars: st.SearchStrategy[Any], keys: st.SearchStrategy[str] | None = None) -> Any:
    """JSON values with these scalars at their leaves."""
    names = st.text(max_size=5) if keys is None else keys
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
        max_leaves=8,
    )


json_values = json_of(json_scalars)


# Values that a type admits, as JSON.

Known = Mapping[type, st.SearchStrategy[Any]]


def values_of(kind: inspect.Type, known: Known | None = None) -> st.SearchStrategy[Any]:
    """JSON values that a type admits; of the `known` classes, those of their own strategy."""
    make = _MAKERS.get(type(kind))
    return make(kind, known or {}) if make else json_values


def _one_of(kind: inspect.UnionType, known: Known) -> st.SearchStrategy[Any]:
    present = [one for one in kind.types if not isinstance(one, inspect.NoneType)]
    return st.one_of([values_of(one, known) for one in present])


def _texts(kind: inspect.StrType, _: Known) -> st.SearchStrategy[str]:
    pattern = kind.pattern
    if pattern is None:
        return st.text(min_size=kind.min_length or 0, max_size=12)
    short = pattern.replace(r"\Z", "").replace("^", "").replace("+", "{1,9}")
    return st.from_regex(short, fullmatch=True).filter(lambda text: re.search(pattern, text))


def _structs(kind: inspect.StructType, known: Known) -> st.SearchStrategy[Any]:
    if kind.cls in known:
        return known[kind.cls]
    values = {field.encode_name: values_of(field.type, known) for field in kind.fields}
    required = {field.encode_name for field in kind.fields if field.required}
    return st.fixed_dictionaries(
        {name: value for name, value in values.items() if name in required},
        optional={name: value for name, value in values.items() if name not in required},
    )


_MAKERS: dict[type, Callable[[Any, Known], st.SearchStrategy[Any]]] = {
    inspect.UnionType: _one_of,
    inspect.StrType: _texts,
    inspect.StructType: _structs,
    inspect.BoolType: lambda *_: st.booleans(),
    inspect.IntType: lambda kind, _: st.integers(kind.ge, 2**53),
    inspect.FloatType: lambda kind, _: st.floats(
        kind.ge, kind.le, allow_nan=False, allow_infinity=False
    ),
    inspect.LiteralType: lambda kind, _: st.sampled_from(kind.values),
    inspect.ListType: lambda kind, known: st.lists(
        values_of(kind.item_type, known), max_size=3, unique_by=repr
    ),
    inspect.VarTupleType: lambda kind, known: st.lists(
        values_of(kind.item_type, known), max_size=3, unique_by=repr
    ),
    inspect.TupleType: lambda kind, known: st.tuples(
        *(values_of(each, known) for each in kind.item_types)
    ).map(list),
    inspect.DictType: lambda *_: st.dictionaries(st.text(max_size=5), json_values, max_size=3),
}


# Suites.

_ids = st.from_regex(r"[a-z0-9][a-z0-9-]{0,8}", fullmatch=True)
_shares = st.sampled_from([0, 0.25, 0.5, 1]) | st.floats(0, 1)

_matches = st.fixed_dictionaries(
    {"strategy": st.sampled_from(["exact", "contains", "json-match"]), "value": json_values}
)
_criteria = st.lists(
    st.fixed_dictionaries({"criterion": st.text(min_size=1, max_size=9), "weight": _shares}),
    max_size=2,
).map(lambda more: [{"criterion": "is right", "weight": 0.5}, *more])
_expectations = st.fixed_dictionaries(
    {"kind": st.just("golden"), "match": _matches}
) | st.fixed_dictionaries({"kind": st.just("rubric"), "rubric": _criteria})
_fixtures = st.fixed_dictionaries(
    {},
    optional={
        "toolResponses": st.lists(
            st.fixed_dictionaries(
                {"tool": st.text(min_size=1, max_size=9)}, optional={"response": json_values}
            ),
            max_size=2,
        ),
        "memorySeed": st.lists(st.dictionaries(st.text(max_size=5), json_scalars), max_size=2),
    },
)
_tasks = st.fixed_dictionaries(
    {"taskId": _ids, "input": json_values, "expected": _expectations},
    optional={"fixtures": _fixtures},
)
_thresholds = st.fixed_dictionaries(
    {},
    optional={
        "passScore": _shares,
        "maxCostUsd": st.floats(0, 1e9) | st.integers(0, 1000),
        "maxP95LatencyMs": st.integers(0, 10**9) | st.integers(0, 10**6).map(float),
    },
)

suite_documents = st.fixed_dictionaries(
    {
        "suiteId": st.from_regex(r"[a-z0-9.-]{1,9}\.evals\.[a-z0-9-]{1,9}", fullmatch=True),
        "version": st.from_regex(r"[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}", fullmatch=True),
        "modes": st.lists(st.sampled_from(MODES), min_size=1, unique=True),
        "tasks": st.lists(_tasks, min_size=1, max_size=3, unique_by=lambda task: task["taskId"]),
    },
    optional={
        "targetAgentId": st.text(min_size=1, max_size=9),
        "allowedModels": st.lists(st.sampled_from(MODEL_CLASSES), unique=True),
        "thresholds": _thresholds,
    },
)


@st.composite
def mutations(draw: st.DrawFn, documents: st.SearchStrategy[Any]) -> Any:
    """A document with one thing in it replaced, dropped or added, whatever comes of it."""
    document = copy.deepcopy(draw(documents))
    places = list(_containers(document))
    target = draw(st.sampled_from(places))
    keys = list(target) if isinstance(target, dict) else list(range(len(target)))
    action = draw(st.sampled_from(["replace", "drop", "add"]))
    if action == "add" or not keys:
        _add(draw, target)
    elif action == "drop":
        del target[draw(st.sampled_from(keys))]
    else:
        target[draw(st.sampled_from(keys))] = draw(json_values)
    return document


def _add(draw: st.DrawFn, target: Any) -> None:
    if isinstance(target, list):
        target.append(copy.deepcopy(target[-1]) if target else draw(json_values))
    else:
        target[draw(st.text(max_size=5))] = draw(json_values)


def _containers(value: Any) -> Any:
    if isinstance(value, dict | list):
        yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _containers(inner)

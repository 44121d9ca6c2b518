"""From a suite with checks to an OpenWOP suite: the same verdicts, or what cannot be said."""

from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from builders import golden_score
from evalwright.contracts.errors import BadInput
from evalwright.contracts.suite import Expected, Suite, Task
from evalwright.contracts.yaml_loader import load_yaml
from evalwright.engine.suites.document import load_suite
from evalwright.engine.suites.export import to_document, to_portable
from evalwright.scoring.checks.base import Examined, run_checks, verdict_of
from evalwright.scoring.checks.table import CHECKS, prepare_checks
from evalwright.scoring.golden import check_suite


def suite_of(*checks: dict, bar: float | None = None, **task) -> Suite:
    thresholds = {} if bar is None else {"passScore": bar}
    tasks = [{"id": "one", "input": "Hi", "checks": list(checks), **task}]
    return load_suite({"evalwright": 1, "tasks": tasks, "thresholds": thresholds}).suite


def losses(*checks: dict, **task) -> list[str]:
    return [loss.what for loss in to_portable(suite_of(*checks, **task)).losses]


@pytest.mark.parametrize(
    ("check", "strategy", "value"),
    [
        ({"equals": "Paris"}, "exact", "Paris"),
        ({"equals": {"value": "Paris"}}, "exact", "Paris"),
        ({"equals": {"a": 1}}, "json-match", {"a": 1}),
        ({"equals": 3, "weight": 2}, "json-match", 3),
        ({"contains": "Paris"}, "contains", "Paris"),
        ({"json": {"path": "$", "equals": [1], "strict": True}}, "json-match", [1]),
    ],
)
def test_a_lone_check_becomes_a_golden_match(check: dict, strategy: str, value: Any) -> None:
    portable = to_portable(suite_of(check))
    match = portable.suite.tasks[0].expected.match

    assert portable.losses == []
    assert (match.strategy, match.value) == (strategy, value)


def test_a_judge_of_one_criterion_becomes_a_rubric() -> None:
    portable = to_portable(suite_of({"judge": ["greets the customer"]}))

    assert portable.losses == []
    assert portable.suite.tasks[0].expected.rubric[0].criterion == "greets the customer"
    assert portable.suite.modes == ["rubric", "regression"]


@pytest.mark.parametrize(
    ("judge", "bar", "is_same"),
    [
        (["a", "b"], None, True),  # one of two is 0.5, below 0.7
        (["a", "b", "c", "d"], None, False),  # three of four would be enough there
        (["a", "b", "c", "d"], 1.0, True),
        ({"criteria": ["a", "b", "c", "d"], "at_least": 0.75}, 0.75, True),
        ([{"criterion": "a", "weight": 9}, "b"], None, False),
    ],
)
def test_several_criteria_are_the_same_if_no_score_lies_between_the_bars(judge, bar, is_same):
    portable = to_portable(suite_of({"judge": judge}, bar=bar))

    assert (portable.losses == []) is is_same


@pytest.mark.parametrize(
    ("checks", "told"),
    [
        ([{"regex": "a"}], "regex"),
        ([{"contains": {"value": "a", "ignore_case": True}}], "contains with ignore_case"),
        ([{"contains": "a"}, {"regex": "b"}], "2 checks in one task: contains, regex"),
        ([{"contains": "a", "ignore_case": True}], "contains with ignore_case"),
        ([{"judge": ["a", "b", "c", "d"], "at_least": 0.5}], "a judge whose criteria must reach"),
        ([{"json": "valid"}], "json with anything but"),
        ([{"json": {"equals": 1}}], "json within a text"),
        ([{"json": {"path": "$.a", "equals": 1}}], "json with anything but"),
    ],
)
def test_what_cannot_be_said_is_named(checks: list[dict], told: str) -> None:
    assert losses(*checks)[0].startswith(told)


def test_repeats_and_weights_cannot_be_said() -> None:
    assert losses({"equals": "a"}, repeat=3) == ["repeat: 3"]
    assert losses({"equals": "a"}, weight=3) == []  # of one task alone


def test_a_task_keeps_the_first_check_that_can_be_said_or_is_left_out() -> None:
    kept = to_portable(suite_of({"regex": "a"}, {"contains": "b"})).suite.tasks
    left = to_portable(suite_of({"regex": "a"})).suite.tasks

    assert kept[0].expected.match.value == "b"
    assert left == []


@pytest.mark.parametrize("kind", CHECKS.values(), ids=lambda kind: kind.name)
def test_every_check_can_be_said_or_is_named(kind) -> None:
    check = load_yaml(kind.example)
    task = Task("one", "Hi", Expected("checks", checks=[check]))
    portable = to_portable(Suite("local.evals.one", "0.0.0", ["golden"], [task]))

    assert bool(portable.suite.tasks) or portable.losses


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text('a1[]" ', max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=4,
)


@given(name=st.sampled_from(["equals", "contains"]), value=VALUES, output=VALUES)
def test_the_verdicts_are_the_same(name: str, value: Any, output: Any) -> None:
    assume(output is not None or name == "equals")  # to `contains`, no answer is an empty text
    prepared, problems = prepare_checks([{name: value}], "$")
    if problems:
        return
    suite = suite_of({name: value})
    portable = to_portable(suite)
    results = run_checks(prepared, Examined(output=output))

    assert portable.losses == []
    assert check_suite(__import__("msgspec").to_builtins(portable.suite)) == []
    match = portable.suite.tasks[0].expected.match
    assert verdict_of(results, None)[0] == golden_score(output, match)


pieces = st.sampled_from(
    ["a", " ", "\n", "{", "}", "{{ x }}", "{% if %}", "{#", "{% raw %}", "-%}"]
)


@given(texts=st.lists(st.lists(pieces).map("".join), min_size=3, max_size=3))
def test_a_suite_that_is_written_is_read_as_the_same_suite(texts: list[str]) -> None:
    asked, expected, wanted = texts
    settings = {"repeat": 3, "pass_rate": 0.5, "weight": 2, "tags": ["a"]}
    checks = Expected("checks", checks=[{"contains": f"x{wanted}"}], threshold=0.5)
    task = Task("one", {"question": asked}, checks, reference=expected, **settings)
    suite = msgspec.structs.replace(suite_of({"contains": "x"}, bar=0.9), tasks=[task])

    assert load_suite(to_document(suite)).suite == suite


def test_a_text_that_ends_a_raw_block_is_written_as_it_is() -> None:
    suite = suite_of({"contains": "x"})
    task = msgspec.structs.replace(suite.tasks[0], input="{% endraw %} {{ x }}")
    written = to_document(msgspec.structs.replace(suite, tasks=[task]))

    assert load_suite(written).suite.tasks[0].input == "{% endraw %} {{ x }}"


def test_a_text_that_nothing_can_write_is_refused() -> None:
    suite = suite_of({"contains": "x"})
    task = msgspec.structs.replace(suite.tasks[0], input="{{" * 2**20)
    with pytest.raises(BadInput, match="a task cannot be written: its text looks like a template"):
        to_document(msgspec.structs.replace(suite, tasks=[task]))

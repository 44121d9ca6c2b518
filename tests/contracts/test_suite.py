"""AgentEvalSuite: every rule, all that is broken at once, each with its JSON path."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given

from builders import a_rubric_task, a_suite, a_suite_document, a_task, as_document
from evalwright.contracts.errors import InvalidDocument, Problem
from evalwright.contracts.suite import (
    Suite,
    check_suite_document,
    parse_suite,
    weight_warnings,
)
from strategies import json_values, mutations, suite_documents

YAML = b"""
suiteId: acme.shop.evals.refunds
version: 1.0.0
modes: [golden]
tasks:
  - taskId: window
    input: May I return it on 2026-01-01 at 12:30?
    expected: {kind: golden, match: {strategy: exact, value: no}}
"""


def parsed(document: Any, name: str = "suite.json") -> Suite:
    return parse_suite(json.dumps(document).encode(), name)


def problems(document: Any) -> list[Problem]:
    with pytest.raises(InvalidDocument) as caught:
        parsed(document)
    assert check_suite_document(document) == caught.value.problems
    return caught.value.problems


def paths(document: Any) -> list[str]:
    return [problem.path for problem in problems(document)]


def with_expected(*expectations: dict[str, Any]) -> dict[str, Any]:
    tasks = [
        {"taskId": f"task-{number}", "input": None, "expected": expected}
        for number, expected in enumerate(expectations, 1)
    ]
    return a_suite_document(tasks=1) | {"tasks": tasks}


def nested(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


# What is accepted.


def test_a_suite_of_only_what_is_required_is_valid():
    suite = parsed(a_suite_document(tasks=2))
    assert [task.task_id for task in suite.tasks] == ["task-1", "task-2"]
    assert suite.thresholds.pass_score is None
    assert suite.target_agent_id is None
    assert suite.allowed_models is None


def test_a_suite_in_yaml_means_what_it_means_in_json():
    suite = parse_suite(YAML, "suite.yaml")
    assert suite.tasks[0].expected.match is not None
    assert suite.tasks[0].expected.match.value == "no"
    assert parsed(as_document(suite)) == suite


def test_every_field_finds_its_place():
    fixtures = {
        "toolResponses": [{"tool": "shop:orders.get", "response": {"days": 30}}],
        "memorySeed": [{"id": "m1", "content": "likes e-mail", "anything": [1]}],
    }
    suite = a_suite(
        [a_task("a", fixtures=fixtures), a_rubric_task("b", [0.5, 0])],
        modes=["golden", "rubric"],
        target_agent_id="acme.clerk",
        allowed_models=["general"],
        pass_score=0.8,
        max_cost_usd=0.5,
        max_p95_latency_ms=8000,
    )
    assert parsed(as_document(suite)) == suite


@pytest.mark.parametrize("limit", [8000, 8000.0])
def test_a_whole_number_may_be_written_with_a_point(limit):
    suite = parsed(a_suite_document(thresholds={"maxP95LatencyMs": limit, "passScore": 1}))
    assert suite.thresholds.max_p95_latency_ms == 8000
    assert suite.thresholds.pass_score == 1


@given(suite_documents)
def test_any_suite_that_keeps_the_rules_comes_through_unchanged(document):
    assert check_suite_document(document) == []
    suite = parsed(document)
    again = as_document(suite)
    assert check_suite_document(again) == []
    assert parsed(again) == suite
    assert msgspec.json.decode(msgspec.json.encode(suite), type=Suite) == suite
    for before, after in zip(document["tasks"], again["tasks"], strict=True):
        assert after["input"] == before["input"]
        assert after["expected"] == before["expected"]


@given(json_values)
def test_no_input_value_or_response_is_touched(value):
    fixtures = {"toolResponses": [{"tool": "t", "response": value}]}
    suite = a_suite([a_task(input=value, value=value, fixtures=fixtures)])
    [task] = parsed(as_document(suite)).tasks
    assert task.input == value
    assert task.expected.match.value == value
    assert task.fixtures.tool_responses[0].response == value


# The rules that a schema cannot say.


@pytest.mark.parametrize(
    "document",
    [
        {"tasks": [{"id": "a", "input": "Hello", "checks": [{"contains": "Hello"}]}]},
        {"data": ["questions.csv"]},
    ],
    ids=["checks", "data"],
)
def test_a_wide_suite_that_does_not_say_so_is_told_first_what_it_lacks(document):
    first, *others = problems(document)
    assert first.remedy == "add `evalwright: 1` at its top"
    assert others
    assert problems({**document, "suiteId": "a.b"})[0] != first


def test_an_id_that_stands_twice_is_told_with_the_task_that_had_it_first():
    ids = ["a", "b", "a", "b", "a"]
    found = problems(a_suite_document([a_task(task_id) for task_id in ids]))
    assert [problem.path for problem in found] == [f"$.tasks[{n}].taskId" for n in (2, 3, 4)]
    assert "$.tasks[0]" in found[0].message
    assert "$.tasks[1]" in found[1].message
    assert "$.tasks[0]" in found[2].message


def test_a_task_id_fits_into_the_node_id_of_its_events():
    assert parsed(a_suite_document([a_task("a" * 128)]))
    assert paths(a_suite_document([a_task("a" * 129)])) == ["$.tasks[0].taskId"]


def test_a_golden_task_needs_a_match():
    golden = {"kind": "golden"}
    assert paths(with_expected(golden)) == ["$.tasks[0].expected"]
    assert paths(with_expected({"kind": "golden", "rubric": [{"criterion": "x", "weight": 1}]}))


def test_a_rubric_task_needs_criteria():
    assert paths(with_expected({"kind": "rubric"})) == ["$.tasks[0].expected"]
    assert paths(with_expected({"kind": "rubric", "rubric": []})) == ["$.tasks[0].expected.rubric"]
    match = {"strategy": "exact", "value": 1}
    assert paths(with_expected({"kind": "rubric", "match": match})) == ["$.tasks[0].expected"]


def test_the_expectation_of_the_other_kind_is_refused():
    both = {
        "match": {"strategy": "exact", "value": 1},
        "rubric": [{"criterion": "x", "weight": 1}],
    }
    assert paths(with_expected({"kind": "golden", **both})) == ["$.tasks[0].expected.rubric"]
    assert paths(with_expected({"kind": "rubric", **both})) == ["$.tasks[0].expected.match"]


@pytest.mark.parametrize(
    ("weights", "sums"),
    [([0.5, 0.4], "0.9"), ([1, 1], "2"), ([0.001], "0.001"), ([0.3, 0.3, 0.3], "0.9")],
)
def test_weights_that_do_not_sum_to_1_are_warned_about(weights, sums):
    tasks = [a_task("a"), a_rubric_task("b", weights)]
    [warning] = weight_warnings(parsed(a_suite_document(tasks)))
    assert warning.path == "$.tasks[1].expected.rubric"
    assert warning.message.startswith(f"the weights sum to {sums}, not 1")


@pytest.mark.parametrize("weights", [[1], [0.1] * 10, [0.7, 0.2, 0.1], [1 / 3] * 3, [0, 1]])
def test_weights_that_sum_to_1_are_not(weights):
    assert weight_warnings(parsed(a_suite_document([a_rubric_task("a", weights)]))) == []


@pytest.mark.parametrize("weights", [[0], [0, 0.0, 0]])
def test_weights_that_sum_to_0_are_refused(weights):
    assert paths(a_suite_document([a_rubric_task("a", weights)])) == ["$.tasks[0].expected.rubric"]


def test_one_weight_above_0_is_enough():
    assert parsed(a_suite_document([a_rubric_task("a", [0, 0, 0.001])]))


def test_an_expected_value_that_is_nested_too_deeply_to_be_compared_is_refused():
    value = {"kind": "golden", "match": {"strategy": "exact", "value": nested(300)}}
    (path,) = paths(with_expected(value))
    assert path.startswith("$.tasks[0].expected.match.value[0]")


def test_an_input_that_is_nested_too_deeply_is_refused_as_in_yaml():
    document = a_suite_document([a_task("a", input=nested(300))])
    (path,) = paths(document)
    assert path.startswith("$.tasks[0].input[0]")


@pytest.mark.parametrize(("limit", "number"), [("maxCostUsd", 10**400), ("maxP95LatencyMs", 1e30)])
def test_a_limit_beyond_what_a_machine_counts_is_refused(limit, number):
    assert paths(a_suite_document(thresholds={limit: number})) == [f"$.thresholds.{limit}"]


@pytest.mark.parametrize(
    ("field", "path"),
    [
        ('"version":', "$"),
        ('"modes":', "$"),
        ('"taskId":', "$.tasks[0]"),
        ('"value":', "$.tasks[0]"),
    ],
)
def test_a_key_that_stands_twice_in_one_object_is_refused(field, path):
    text = json.dumps(a_suite_document(tasks=2))
    doubled = text.replace(field, f"{field} null, {field}", 1)
    with pytest.raises(InvalidDocument, match="duplicate key") as caught:
        parse_suite(doubled.encode(), "suite.json")
    assert [problem.path for problem in caught.value.problems] == [path]


# Telling.


def test_everything_that_is_wrong_is_told_at_once():
    document = a_suite_document(
        suiteId="refunds",
        modes=["golden", "silver"],
        tasks=[
            as_document(a_task("a")) | {"note": "x"},
            as_document(a_task("a")),
            {"taskId": "B!", "input": 1, "expected": {"kind": "golden"}},
            as_document(a_rubric_task("c", [0])),
            5,
        ],
    )
    assert sorted(paths(document)) == [
        "$.modes[1]",
        "$.suiteId",
        "$.tasks[0]",
        "$.tasks[1].taskId",
        "$.tasks[2].expected",
        "$.tasks[2].taskId",
        "$.tasks[3].expected.rubric",
        "$.tasks[4]",
    ]


def test_a_problem_is_told_with_the_file_the_place_the_rule_and_what_to_do():
    with pytest.raises(InvalidDocument) as caught:
        parsed(a_suite_document([a_task("a"), a_task("a")]), "suites/refunds.json")
    assert str(caught.value) == (
        "suites/refunds.json: $.tasks[1].taskId: taskId 'a' is already used by $.tasks[0] "
        "(give every task its own id)"
    )


def test_of_a_choice_all_that_may_be_chosen_is_told():
    [problem] = problems(a_suite_document(tasks=1, modes=["silver"]))
    choices = '"golden", "rubric", "adversarial", "regression", "live-shadow"'
    assert problem.message == f'"silver" is not one of {choices}'


def test_a_long_value_that_is_wrong_is_not_quoted_in_full():
    [problem] = problems(a_suite_document(tasks=1, suiteId="x" * 100_000))
    assert len(problem.message) < 400


@pytest.mark.parametrize("tasks", [None, [], {}, "tasks", 5])
def test_tasks_that_are_no_list_of_tasks_are_refused(tasks):
    assert paths(a_suite_document() | {"tasks": tasks}) == ["$.tasks"]


@pytest.mark.parametrize("document", [None, True, 5, "suite", [], {}])
def test_what_is_no_suite_at_all_is_refused(document):
    assert set(paths(document)) == {"$"}


@pytest.mark.parametrize(
    ("source", "where"),
    [
        (b"", "line 1, column 1"),
        (b'{"suiteId": "a.evals.b",\n "tasks": [{"taskId": }]}', "line 2, column 23"),
        (b'{"tasks": [],\n "suiteId": x}', "line 2, column 13"),
        (b'{"tasks": [{"taskId": "\xff"}]}', "byte 23"),
        (b'{"tasks": [], "suiteId": "\xff"}', "byte 26"),
        (b'{"tasks": [], "\xff": 1}', "byte 15"),
    ],
)
def test_a_mistake_in_the_json_itself_is_told_with_its_place(source, where):
    with pytest.raises(InvalidDocument) as caught:
        parse_suite(source, "suite.json")
    assert [problem.path for problem in caught.value.problems] == [where]


@pytest.mark.parametrize("levels", [300, 900, 100_000])
def test_deep_nesting_never_crashes_the_check(levels):
    deep = b'{"tasks": [{"input": ' + b"[" * levels + b"]" * levels + b"}]}"
    with pytest.raises(InvalidDocument):
        parse_suite(deep, "suite.json")


def test_a_byte_order_mark_does_no_harm():
    assert parse_suite(b"\xef\xbb\xbf" + json.dumps(a_suite_document()).encode(), "s.json")
    assert parse_suite(b"\xef\xbb\xbf" + YAML, "s.yaml")


@given(mutations(suite_documents))
def test_a_suite_that_was_tampered_with_is_read_or_refused_and_nothing_else(document):
    assert outcome(document) == ("refused" if check_suite_document(document) else "read")


def outcome(document: Any) -> str:
    try:
        parsed(document)
    except InvalidDocument:
        return "refused"
    return "read"

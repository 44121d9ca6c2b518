"""The table of golden strategies: every entry has every part, and a new one is one line."""

import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given

from builders import a_suite, a_suite_document, a_task, golden_score
from comparing import a_case, a_response
from evalwright.comparison.cases import parse_case
from evalwright.comparison.side import check
from evalwright.contracts.errors import InvalidDocument, Problem
from evalwright.contracts.report import FailedAssertion
from evalwright.contracts.schema import SUITE, load_schema
from evalwright.contracts.suite import Match, parse_suite
from evalwright.engine.suites.validation import check_file
from evalwright.scoring.checks import mismatch
from evalwright.scoring.golden import (
    STRATEGIES,
    explain_difference,
    golden_assertion,
    match_problems,
    read_suite,
)
from evalwright.scoring.strategies import GoldenCheck
from strategies import json_values

ROOT = Path(__file__).parents[2]
EVERY = sorted(STRATEGIES)
CASE_FIELDS = {"must_include", "must_not_include", "json_schema"}

# For each strategy a value, an output that matches it and one that does not.
EXAMPLES = {
    "exact": ("30 days", "30 days", "30 days."),
    "contains": ("30 days", "within 30 days", "never"),
    "json-match": ({"a": 1}, '{"a": 1.0}', {"a": True}),
}


def _refuse_pattern(value: object) -> str | None:
    try:
        re.compile(str(value))
    except re.error as error:
        return f"not a regular expression: {error}"
    return None


class Pattern(GoldenCheck):
    name = "regex"

    @classmethod
    def refuse(cls, value):
        return _refuse_pattern(value)

    def matches(self, output):
        return re.search(self.value, str(output)) is not None

    def difference(self, output):
        return f"no match for {self.value}"


@pytest.fixture
def regex(monkeypatch):
    monkeypatch.setitem(STRATEGIES, "regex", Pattern)


def a_source(strategy: str, value: object) -> bytes:
    document = a_suite_document([a_task("a"), a_task("b")])
    document["tasks"][1]["expected"]["match"] = {"strategy": strategy, "value": value}
    return msgspec.json.encode(document)


# The table.


def test_every_strategy_has_an_example_here():
    assert sorted(EXAMPLES) == EVERY


@pytest.mark.parametrize("name", EVERY)
def test_every_strategy_accepts_matches_explains_and_asserts(name):
    strategy = STRATEGIES[name]
    value, good, bad = EXAMPLES[name]
    assert strategy.name == name
    assert strategy.refuse(value) is None
    assert strategy(value).matches(good)
    assert not strategy(value).matches(bad)
    assert strategy(value).difference(bad)
    assert golden_assertion(Match(name, value)).keys() <= CASE_FIELDS


@pytest.mark.parametrize("name", EVERY)
@given(value=json_values, output=json_values)
def test_every_strategy_refuses_a_value_or_can_match_and_explain_it(name, value, output):
    strategy = STRATEGIES[name]
    if (reason := strategy.refuse(value)) is not None:
        assert reason
        return
    if not strategy(value).matches(output):
        assert strategy(value).difference(output)
    assert golden_assertion(Match(name, value)).keys() <= CASE_FIELDS


@pytest.mark.parametrize("name", EVERY)
def test_the_assertion_of_a_strategy_holds_where_it_matches(name):
    value, good, _ = EXAMPLES[name]
    case = parse_case(a_case(**golden_assertion(Match(name, value))), "one")
    assert check(case, a_response(output=good)).failures == ()


@pytest.mark.parametrize("name", EVERY)
def test_every_strategy_has_a_row_in_the_reference(name):
    reference = (ROOT / "docs/suite-reference.md").read_text(encoding="utf-8")
    rows = reference.split("### The strategies")[1].split("###")[0]
    assert f"\n| `{name}` |" in rows


def test_the_published_schema_closes_the_strategies_of_a_portable_suite(regex):
    task = load_schema(SUITE)["properties"]["tasks"]["items"]
    match = task["properties"]["expected"]["properties"]["match"]["properties"]
    assert match["strategy"]["enum"] == ["exact", "contains", "json-match"]
    with pytest.raises(InvalidDocument, match=r"tasks\[1\].expected.match.strategy"):
        parse_suite(a_source("regex", "a"), "suite.json")


# A strategy that somebody adds.


def test_a_new_strategy_is_read_and_scored(regex):
    suite = read_suite(a_source("regex", "^a+$"), "suite.json")
    match = suite.tasks[1].expected.match
    assert (golden_score("aaa", match), golden_score("ab", match)) == (1.0, 0.0)
    assert check_file(a_source("regex", "^a+$"), "suite.json") == "AgentEvalSuite"


def test_a_new_strategy_does_not_become_an_assertion_that_it_is_not(regex):
    assert golden_assertion(Match("regex", "^a+$")) == {}
    assert golden_assertion(Match("from a newer version", "text")) == {}


def test_a_value_that_its_strategy_refuses_is_found_before_the_run(regex):
    for read, place in ((read_suite, ""), (check_file, "line 1, task b: ")):
        with pytest.raises(InvalidDocument) as caught:
            read(a_source("regex", "("), "suite.json")
        (problem,) = caught.value.problems
        assert problem.path == "$.tasks[1].expected.match.value"
        assert problem.message.startswith(f"{place}not a regular expression: ")


def test_a_strategy_that_nobody_knows_is_a_problem_of_its_task():
    suite = a_suite([a_task(strategy="fuzzy", value="x")])
    (problem,) = match_problems(suite)
    assert str(problem) == (
        "$.tasks[0].expected.match.strategy: unknown strategy 'fuzzy' "
        f"(one of {', '.join(STRATEGIES)})"
    )
    for read, place in ((read_suite, ""), (check_file, "line 1, task b: ")):
        with pytest.raises(InvalidDocument) as caught:
            read(a_source("fuzzy", "x"), "suite.json")
        assert caught.value.problems == [
            Problem(
                "$.tasks[1].expected.match.strategy",
                f"{place}{problem.message}",
                problem.remedy,
            )
        ]


def test_other_problems_of_a_task_with_a_new_strategy_are_still_told(regex):
    source = a_source("regex", "a").replace(b'"taskId":"b"', b'"taskId":"B!"')
    with pytest.raises(InvalidDocument, match=r"tasks\[1\].taskId"):
        read_suite(source, "suite.json")


# What an assertion can say.


@pytest.mark.parametrize(
    ("strategy", "value", "expected"),
    [
        ("exact", "30 days", {"must_include": ["30 days"]}),
        ("contains", "30 days", {"must_include": ["30 days"]}),
        ("contains", "", {}),
        ("contains", 30, {}),
        ("contains", '{"a":1}', {}),
        ("contains", "a]", {}),
        ("json-match", "30 days", {}),
    ],
)
def test_only_plain_text_becomes_an_assertion(strategy, value, expected):
    assert golden_assertion(Match(strategy, value)) == expected


# What differs.


@pytest.mark.parametrize(
    ("strategy", "output", "value", "message"),
    [
        ("exact", "abc", "abd", 'the texts differ from character 3 on: expected "d", got "c"'),
        ("exact", "ab", "abc", 'the texts differ from character 3 on: expected "c", got ""'),
        ("exact", "", "a", 'the texts differ from character 1 on: expected "a", got ""'),
        ("contains", "never", "30 days", '"30 days" is not in the output "never"'),
        ("json-match", {"a": True}, {"a": 1}, "$.a: expected 1, got true"),
        ("json-match", '{"a": true}', {"a": 1}, "$.a: expected 1, got true"),
        ("json-match", {}, {"a": 1}, "$.a: missing, expected 1"),
        ("json-match", {"a": 1, "b": 2}, {"a": 1}, "$.b: not expected, got 2"),
        ("json-match", [1, 2], [1], "$: expected 1 items, got 2"),
        ("json-match", [1, 2], [1, 3], "$[1]: expected 3, got 2"),
        ("json-match", [[{"x": 0}]], [[{"x": 1}]], "$[0][0].x: expected 1, got 0"),
        ("json-match", "{", {}, '$: expected {}, got "{"'),
        ("json-match", {"b": 2, "a": 2}, {"b": 1, "a": 1}, "$.a: expected 1, got 2"),
    ],
)
def test_the_first_difference_is_told(strategy, output, value, message):
    assert explain_difference(output, strategy, value) == message


def test_a_long_value_is_shortened_to_80_characters():
    told = explain_difference("x" * 100, "contains", "y")
    assert told == f'"y" is not in the output "{"x" * 78}…'
    assert explain_difference("x" * 78, "contains", "y").endswith(f'"{"x" * 78}"')


def test_nothing_is_told_of_a_match_of_a_foreign_strategy_or_of_what_is_not_json():
    assert explain_difference("a", "exact", "a") == ""
    assert explain_difference("a", "fuzzy", "b") == ""
    assert explain_difference("a", None, "b") == ""
    assert explain_difference(float("nan"), "exact", "b") == ""


def test_where_json_differs_is_found_by_looking_at_each_part_once(monkeypatch):
    seen = []

    def counted(left, right):
        seen.append(left)
        return left == right

    monkeypatch.setattr(mismatch, "json_equal", counted)
    got, wanted = [1, 2, 3], [1, 2, 4]
    for _ in range(50):
        got, wanted = {"a": got, "b": 0}, {"a": wanted, "b": 0}
    told = STRATEGIES["json-match"](wanted).difference(got)
    assert told.endswith("[2]: expected 4, got 3")
    assert seen == [1, 2, 3]


def test_a_failed_score_in_a_compare_report_says_what_differs():
    scored = {"score": 0.0, "passed": False, "threshold": 1.0, "strategy": "exact"}
    response = {
        "events": [],
        "final_output": {"content": "maybe"},
        "scored": {**scored, "expected": "may"},
    }
    message = (
        'the recorded score is 0.0: the texts differ from character 4 on: expected "", got "be"'
    )
    checked = check(parse_case(a_case(), "one"), response)
    assert checked.failures[0] == FailedAssertion("scored", "may", "maybe", message)

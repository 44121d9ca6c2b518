"""The table of checks: documents become checks, checks become results, results a score."""

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from looking import asked, passes, refused, said

from evalwright.contracts.documents import to_json
from evalwright.contracts.jsonvalue import parse
from evalwright.contracts.schema import SUITE_WITH_CHECKS, load_schema
from evalwright.contracts.verdicts import CheckResult
from evalwright.scoring.checks.base import CodeAsk, Examined, run_checks, verdict_of
from evalwright.scoring.checks.table import CHECKS, cause_of, prepare_checks

PUBLISHED = load_schema(SUITE_WITH_CHECKS)["$defs"]
VALIDATOR = jsonschema_rs.validator_for({"$ref": "#/$defs/check", "$defs": PUBLISHED})


def test_an_answer_is_scored_by_the_weight_of_the_checks_it_meets() -> None:
    documents = [{"contains": "shipped", "weight": 3}, {"contains": "sorry"}]
    prepared, problems = prepare_checks(documents, "$.checks")
    assert problems == []
    results = run_checks(prepared, Examined(output="It was shipped."))
    assert [each.passed for each in results] == [True, False]
    assert verdict_of(results, None) == (0.75, False)
    assert verdict_of(results, 0.7) == (0.75, True)


def test_a_document_that_is_no_check_is_refused_with_its_place_and_those_there_are() -> None:
    prepared, problems = prepare_checks([{"contians": "x"}], "$.tasks[0].checks")
    assert prepared == []
    assert problems[0].path == "$.tasks[0].checks[0]"
    assert "contains" in (problems[0].remedy or "")


def test_a_check_without_weight_is_only_shown():
    results = [CheckResult("a", True, 1.0), CheckResult("b", False, 0.0, weight=0.0)]
    assert verdict_of(results, None) == (1.0, True)
    assert verdict_of(results[1:], None) == (0.0, False)


def test_no_threshold_lets_an_answer_pass_of_which_nothing_holds():
    failed, held = CheckResult("a", False, 0.0), CheckResult("b", True, 1.0)
    assert verdict_of([failed], 0) == (0.0, False)
    assert verdict_of([failed, held], 0) == (0.5, True)


@pytest.mark.parametrize(
    ("check", "output", "passed", "score"),
    [
        ({"any": [{"equals": "yes"}, {"equals": "y"}]}, "y", True, 1),
        ({"any": [{"equals": "yes"}, {"contains_all": ["n", "o", "t"]}]}, "no", False, 2 / 3),
        ({"all": [{"contains": "a"}, {"contains": "b"}]}, "ab", True, 1),
        ({"all": [{"contains": "a", "weight": 3}, {"contains": "b"}]}, "a", False, 0.75),
        ({"at_least": {"n": 2, "of": [{"contains": each} for each in "abc"]}}, "ac", True, 1),
        ({"at_least": {"n": 2, "of": [{"contains": each} for each in "abc"]}}, "c", False, 0.5),
        ({"not": {"any": [{"contains": "a"}, {"contains": "b"}]}}, "c", True, 1),
    ],
)
def test_checks_of_checks(check, output, passed, score):
    result = said(check, output)
    assert (result.passed, result.score) == (passed, pytest.approx(score))


def test_a_failure_of_checks_of_checks_tells_why_each_failed():
    check = {"any": [{"equals": "yes"}, {"at_least": {"n": 1, "of": [{"contains": "y"}]}}]}
    reason = said(check, "no").reason
    assert reason.startswith("none of 2 holds: equals: from character 1 on")
    assert "at_least: 0 of 1 hold, 1 are wanted: contains: “y” is not in the output" in reason


def test_what_checks_within_checks_ask_is_asked():
    assert asked({"not": {"all": [{"python": "a.py:f"}, {"contains": "x"}]}}) == CodeAsk("a.py:f")


@given(st.lists(st.booleans(), min_size=1, max_size=6), st.integers(1, 6))
def test_any_all_and_at_least_count_what_passes(holding, count):
    inner = [{"contains": "a" if each else "b"} for each in holding]
    assert passes({"any": inner}, "a") == any(holding)
    assert passes({"all": inner}, "a") == all(holding)
    assert passes({"not": {"any": inner}}, "a") == (not any(holding))
    if count <= len(inner):
        assert passes({"at_least": {"n": count, "of": inner}}, "a") == (sum(holding) >= count)


@pytest.mark.parametrize(
    ("check", "path", "message", "remedy"),
    [
        ("contains", "", "a check is an object", "contains: shipped"),
        ({}, "", "a check is an object", "contains: shipped"),
        ({"weight": 1}, "", "no check is called 'weight'", "one of equals"),
        ({"icontains": "a"}, "", "no check is called 'icontains'", "with ignore_case: true"),
        ({"not-contains": "a"}, "", "'not-contains'", "write contains, within not: {…}"),
        ({"llm-rubric": "a"}, "", "no check is called 'llm-rubric'", "write judge"),
        ({"starts-with": "a"}, "", "no check is called 'starts-with'", "write starts_with"),
        ({"contains": "a", "regex": "b"}, "", "two checks in one", "an entry of its own"),
        ({"contains": "a", "ignorecase": True}, ".ignorecase", "no field", "ignore_case?"),
        ({"contains": "a", "weight": -1}, ".weight", "a number from 0 on", ""),
        ({"any": [{"equals": 1}, {"contian": 1}]}, ".any[1]", "'contian'", "contains?"),
        ({"any": []}, ".any", "less than 1 item", "any: ["),
        ({"at_least": {"n": 2, "of": [{"equals": 1}]}}, ".at_least.n", "2 of 1", "1 or less"),
        ({"not": {"all": [{"regex": "("}]}}, ".not.all[0].regex", "RE2", ""),
    ],
)
def test_a_wrong_document_is_refused_with_its_place_and_a_remedy(check, path, message, remedy):
    problem = refused(check)
    assert problem.path == f"$.checks[0]{path}"
    assert message in problem.message
    assert remedy in problem.remedy


def test_checks_cannot_be_nested_without_end():
    check = {"equals": 1}
    for _ in range(40):
        check = {"not": check}
    assert "too many checks within checks" in refused(check).message


def test_every_problem_is_listed_not_only_the_first():
    _, problems = prepare_checks([{"regex": "("}, {"equals": 1}, {"number": "x"}], "$.checks")
    assert [each.path for each in problems] == ["$.checks[0].regex", "$.checks[2].number"]


def test_the_schema_accepts_the_example_of_every_check_and_describes_it():
    described = PUBLISHED["check"]["properties"]
    for name, kind in CHECKS.items():
        document = parse(to_json(kind.example.encode(), "example.yaml"))
        assert list(document) == [name]
        assert VALIDATOR.is_valid(document), name
        assert prepare_checks([document], "$")[1] == []
        assert kind.description in described[name]["description"]


@pytest.mark.parametrize(
    ("document", "fits"),
    [
        ({"contains": "a", "weight": 2}, True),
        ({"calls_in_order": ["a"], "exact": True}, True),
        ({"python": "a.py:f", "at_least": 0.5}, True),
        ({"at_least": {"n": 1, "of": [{"contains": "a"}]}}, True),
        ({"contians": "a"}, False),
        ({"not": {"contians": "a"}}, False),
        ({"weight": 2}, False),
        ({"max": {"latency": 1}}, False),
    ],
)
def test_the_schema_knows_what_a_check_may_say(document, fits):
    assert VALIDATOR.is_valid(document) == fits


def test_a_failed_check_has_a_root_cause_of_the_contract():
    assert cause_of("calls") == "wrong_tool_choice"
    assert cause_of("regex") == "format_violation"
    assert cause_of("contains") == "wrong_answer"
    assert cause_of("judge_against") == "hallucination_signal"
    assert cause_of("a check of a later version") == "unknown"

"""What makes a case fail, and why."""

import pytest
from hypothesis import given

from comparing import a_call, a_case, a_failure, a_response, a_result, a_retrieval, an_action
from evalwright.comparison.cases import parse_case
from evalwright.comparison.expectations import _is_plain, failed_assertions, root_cause
from evalwright.contracts.jsonvalue import plain
from evalwright.contracts.report import FailedAssertion
from evalwright.scoring.checks.table import CHECKS
from evalwright.trace.decode import decode_trace
from strategies import json_values


def failures_of(response, **expected):
    case = parse_case(a_case(**expected), "one")
    return failed_assertions(case, decode_trace(response, "one", case.prompt))


def names(response, **expected):
    return [failure.name for failure in failures_of(response, **expected)]


def test_a_case_without_expectations_passes_when_the_agent_answered():
    assert names(a_response()) == []


@pytest.mark.parametrize("kind", ["http_error", "timeout", "network_error", "invalid_json"])
def test_a_failed_call_never_passes_even_without_expectations(kind):
    failures = failures_of(a_failure(kind))
    assert [failure.name for failure in failures] == ["transport"]
    assert root_cause(failures) == "missing_required_data"


@pytest.mark.parametrize("status", ["error", "timeout", "ERROR", "denied", "failed"])
def test_a_tool_result_that_is_not_ok_fails_the_case(status):
    failures = failures_of(a_response(a_call(), a_result("no route", status=status)))
    assert root_cause(failures) == "tool_failure"
    assert "no route" in failures[0].message


def test_a_result_without_a_status_is_not_held_against_the_agent():
    result = a_result()
    del result["status"]
    assert names(a_response(a_call(), result)) == []


def test_required_tools_must_be_called():
    failures = failures_of(a_response(), tool_required=["look_up", "pay"])
    assert failures[0].expected == ("look_up", "pay")
    assert failures[0].actual == ["look_up"]
    assert failures[0].message == "not called: pay"
    assert root_cause(failures) == "wrong_tool_choice"


def test_a_sequence_may_have_others_between_but_must_keep_its_order():
    response = a_response(a_call("a", "1"), a_call("x", "2"), a_call("b", "3"))
    assert names(response, tool_sequence=["a", "b"]) == []
    assert names(response, tool_sequence=["b", "a"]) == ["tool_sequence"]
    assert names(response, tool_sequence=["a", "a"]) == ["tool_sequence"]


def test_required_actions_must_be_proposed():
    response = a_response(actions=[an_action("refund")])
    assert names(response, action_required=["refund"]) == []
    assert names(response, action_required=["refund", "notify"]) == ["action_required"]


def test_text_is_compared_without_regard_to_case():
    response = a_response(output="Your REFUND is on its way")
    assert names(response, must_include=["refund"], must_not_include=["internal"]) == []
    assert names(response, must_include=["ticket"]) == ["must_include"]
    assert names(response, must_not_include=["Refund"]) == ["must_not_include"]


def test_required_documents_must_be_retrieved():
    response = a_response(a_retrieval("d1", "d2"))
    assert names(response, retrieval_required={"doc_ids": ["d2"]}) == []
    failures = failures_of(response, retrieval_required={"doc_ids": ["d3"]})
    assert root_cause(failures) == "missing_required_data"


def test_actions_above_low_risk_need_evidence_that_exists():
    good = [an_action(evidence=[{"kind": "tool_result", "call_id": "c1"}])]
    dangling = [an_action(evidence=[{"kind": "tool_result", "call_id": "nowhere"}])]
    wanted = {"evidence_required_for_actions": True}
    assert names(a_response(actions=good), **wanted) == []
    assert names(a_response(actions=dangling), **wanted) == ["evidence_required"]
    assert names(a_response(actions=[an_action()]), **wanted) == ["evidence_required"]
    assert names(a_response(actions=[an_action(risk_level="low")]), **wanted) == []
    assert names(a_response(actions=dangling)) == []


SCHEMA = {"type": "object", "required": ["status"], "properties": {"status": {"enum": ["open"]}}}


def test_output_must_fit_its_schema_as_a_value_or_as_text_that_holds_one():
    assert names(a_response(output={"status": "open"}), json_schema=SCHEMA) == []
    assert names(a_response(output='{"status": "open"}'), json_schema=SCHEMA) == []
    failures = failures_of(a_response(output={"status": "shut"}), json_schema=SCHEMA)
    assert root_cause(failures) == "format_violation"
    assert failures[0].message.startswith("$.status")


@pytest.mark.parametrize("schema", [{"type": "nonsense"}, {"required": 5}, 7, "x", []])
def test_a_schema_that_is_none_fails_the_case_and_says_so(schema):
    failures = failures_of(a_response(output={}), json_schema=schema)
    assert [failure.name for failure in failures] == ["case_schema"]
    assert "JSON Schema" in failures[0].message
    assert root_cause(failures) == "unknown"  # the case is at fault, not the agent


@pytest.mark.parametrize(
    "reference",
    ["http://127.0.0.1:9/schema.json", "file:///etc/passwd", "other.json", "urn:x:y"],
)
def test_a_schema_that_refers_elsewhere_is_refused_not_followed(reference):
    schema = {"properties": {"a": {"$ref": reference}}}
    failures = failures_of(a_response(output={"a": 1}), json_schema=schema)
    assert reference in failures[0].message


def test_a_schema_may_refer_to_itself():
    schema = {"$defs": {"s": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/s"}}}
    assert names(a_response(output={"a": "x"}), json_schema=schema) == []


@given(json_values)
def test_an_output_that_is_checked_as_it_is_would_have_become_the_same(value):
    assert _is_plain(value)
    assert plain(value) == value


@pytest.mark.parametrize("depth", [201, 400])
def test_an_output_that_is_nested_too_deeply_cannot_be_checked(depth):
    output = []
    for _ in range(depth):
        output = [output]
    (failure,) = failures_of(a_response(output=output), json_schema={"type": "array"})
    assert "nested more than 200 levels deep" in failure.message


def test_the_first_cause_that_applies_is_the_root():
    response = a_response(a_call(), a_result(status="error"), output="text")
    failures = failures_of(response, json_schema=SCHEMA, tool_required=["pay"])
    assert {failure.name for failure in failures} == {
        "tool_results_ok",
        "json_schema",
        "tool_required",
    }
    assert root_cause(failures) == "tool_failure"


def test_a_failure_without_a_known_cause_is_unknown():
    assert root_cause(failures_of(a_response(), must_include=["absent"])) == "unknown"
    assert root_cause([]) is None


@pytest.mark.parametrize(
    ("failed", "cause"),
    [
        (["scored"], "wrong_answer"),
        (["contains"], "wrong_answer"),
        (["contains", "regex"], "format_violation"),
        (["max"], "limit_exceeded"),
        (["max", "contains"], "wrong_answer"),
        (["judge", "calls"], "wrong_tool_choice"),
        (["contains", "judge_against"], "hallucination_signal"),
        (["json", "tool_results_ok"], "tool_failure"),
        (["a check of a later version"], "unknown"),
    ],
)
def test_failed_checks_of_own_runs_have_the_cause_that_their_table_gives(failed, cause):
    assert root_cause([FailedAssertion(name, None, None, "") for name in failed]) == cause


def test_every_check_has_a_cause():
    for name in CHECKS:
        assert root_cause([FailedAssertion(name, None, None, "")]) != "unknown", name


def test_a_case_may_have_the_checks_of_suites_and_they_fail_under_their_names():
    checks = [
        {"contains": "refund"},
        {"number": {"value": 17, "within": 0}},
        {"calls": {"tool": "look_up", "times": 2}},
        {"max": {"turns": 1}},
        {"no_signals": "critical"},
    ]
    failures = failures_of(a_response(output="Your refund of 18 EUR"), checks=checks)
    assert [failure.name for failure in failures] == ["number", "calls", "max"]
    assert failures[0].message == "18 is not 17"
    assert root_cause(failures) == "wrong_tool_choice"


@pytest.mark.parametrize(
    ("limit", "usage", "fails"),
    [
        ({"cost_usd": 0.5}, {"cost_usd": 0.5}, False),
        ({"cost_usd": 0.5}, {"cost_usd": 0.51}, True),
        ({"cost_usd": 0.5}, {}, True),  # what is not known is above every limit
        ({"tokens": 30}, {"input_tokens": 10, "output_tokens": 20}, False),
        ({"tokens": 29}, {"input_tokens": 10, "output_tokens": 20}, True),
        ({"tokens": 30}, {}, True),
        ({"latency_ms": 20}, {"duration_ms": 20.4}, False),
        ({"latency_ms": 19}, {"duration_ms": 20.4}, True),
    ],
)
def test_what_a_case_may_spend_is_held_against_its_usage(limit, usage, fails):
    found = names(a_response(usage=usage), checks=[{"max": limit}])
    assert found == (["max"] if fails else [])


@pytest.mark.parametrize(
    ("check", "fault"),
    [
        ({"contians": "x"}, "expected.checks[0]: no check is called 'contians' (did you mean"),
        ({"judge": "is polite"}, "expected.checks[0]: it needs a judge, a model or code"),
        ({"regex": "("}, "expected.checks[0].regex: not a pattern of RE2"),
    ],
)
def test_a_check_that_cannot_be_made_is_a_fault_of_the_case(check, fault):
    case = parse_case(a_case(checks=[check]), "one")
    assert case.faults[0].startswith(fault)
    assert case.expected.checks == ()


@pytest.mark.parametrize("expected", [5, "x", [1], {"tool_required": 5, "must_include": [1]}])
def test_expectations_of_the_wrong_type_are_named_not_fatal(expected):
    case = parse_case({"id": "one", "expected": expected}, "one")
    assert case.faults


@pytest.mark.parametrize("response", [{}, {"events": []}, {"error": "Internal"}])
def test_a_response_that_says_nothing_is_no_answer(response):
    failures = failures_of(response)
    assert [failure.name for failure in failures] == ["response"]
    assert root_cause(failures) == "missing_required_data"


@pytest.mark.parametrize(
    "expected",
    [
        {"checks": [{"does_not_call": "refund"}]},
        {"checks": [{"any": [{"contains": "done"}, {"calls": {"tool": "refund", "times": 0}}]}]},
        {"checks": [{"no_signals": "high"}]},
        {"tool_required": ["find"]},
        {"tool_sequence": ["find"]},
    ],
)
def test_what_no_recording_says_of_calls_is_not_observed(expected):
    """An empty list of events says that there were none."""
    told = {"case_id": "one", "final_output": {"content_type": "text", "content": "done"}}
    for unseen in ({}, {"events": [], "evalwright_coverage": {"usage": "reported"}}):
        (failure,) = failures_of({**told, **unseen}, **expected)
        assert "not observed" in failure.message
    for seen in ({"events": []}, {"events": [a_call("find"), a_result()]}):
        found = failures_of({**told, **seen}, **expected)
        assert not any("not observed" in each.message for each in found)

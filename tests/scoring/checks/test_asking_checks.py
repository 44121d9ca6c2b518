"""Checks that must be told something first: by judges, by own code, by the detectors of signals."""

import pytest
from looking import SEEN, asked, passes, refused, said

from evalwright.contracts.report import Signal, SignalDetails
from evalwright.contracts.verdicts import CheckResult
from evalwright.scoring.checks.base import (
    CodeAsk,
    Examined,
    JudgeAsk,
    JudgeSays,
    MadeCall,
    Unanswered,
)
from evalwright.scoring.checks.judge import material
from evalwright.trace.model import Retrieval, Trace

JUDGE = {"judge": ["greets the customer", {"criterion": "states the carrier", "weight": 2}]}


def test_a_judge_is_asked_for_all_criteria_and_their_weights_make_the_score():
    ask = asked(JUDGE)
    assert ask == JudgeAsk(("greets the customer", "states the carrier"))
    says = JudgeSays((False, True), ("no greeting", "names the carrier"))
    result = said(JUDGE, "By sea.", answers={ask: says})
    assert (result.passed, result.score) == (False, pytest.approx(2 / 3))
    assert result.reason == "not met: “greets the customer”: no greeting"
    enough = {"judge": JUDGE["judge"], "at_least": 0.6}
    assert passes(enough, "By sea.", answers={ask: says})


def test_one_criterion_needs_no_list():
    ask = asked({"judge": "is polite"})
    met = said({"judge": "is polite"}, "Please.", answers={ask: JudgeSays((True,), ("it is",))})
    assert (met.passed, met.score, met.reason, met.expected) == (True, 1, "it is", "is polite")


def test_a_judge_that_did_not_answer_makes_neither_a_check_nor_its_opposite_pass():
    answers = {asked(JUDGE): Unanswered("the judge timed out")}
    assert said(JUDGE, "x", answers=answers).reason == "the judge timed out"
    assert not passes({"not": JUDGE}, "x", answers=answers)
    assert not passes({"not": {"any": [JUDGE, {"equals": "y"}]}}, "x", answers=answers)
    assert not passes({"any": [JUDGE, {"equals": "x"}]}, "x", answers=answers)


def test_judges_see_the_reference_that_a_check_names():
    ask = asked({"judge_against": {"reference": "on Monday", "as": "factuality"}})
    assert material(ask, Examined()) == "on Monday"
    says = JudgeSays((False,), ("it says Tuesday",))
    result = said({"judge_against": "on Monday"}, "on Tuesday", answers={ask: says})
    assert (result.expected, result.reason) == ("on Monday", "it says Tuesday")


def test_without_a_reference_judges_see_what_the_task_expects():
    ask = asked({"judge_against": {"as": "closed_qa"}})
    assert material(ask, Examined(expected="Paris")) == "Paris"
    assert isinstance(material(ask, Examined()), Unanswered)
    assert material(asked({"judge_against": {"as": "relevance"}}), Examined()) is None


@pytest.mark.parametrize(
    "argument",
    [{"as": "grounded_in"}, {"grounded_in": "retrieved documents"}, {"grounded_in": "retrieved"}],
)
def test_an_output_is_grounded_in_what_the_agent_retrieved(argument):
    ask = asked({"judge_against": argument})
    trace = Trace("t", events=(Retrieval(0, None, "q", ("d1",), "It rains."),))
    assert material(ask, Examined(make_trace=lambda: trace, coverage=SEEN)) == "It rains."
    made = [MadeCall("search", {}, {"hits": ["It snows."]})]
    called = Examined(calls=made, coverage=SEEN)
    assert "It snows." in material(ask, called)
    assert "retrieved no documents" in material(ask, Examined(coverage=SEEN)).reason
    assert "not observed" in material(ask, Examined()).reason


def test_an_output_can_be_grounded_in_given_documents():
    ask = asked({"judge_against": {"grounded_in": ["It rains.", "It snows."]}})
    assert material(ask, Examined()) == "It rains.\n\nIt snows."


class Verdict:
    passed = True
    score = 0.5
    reason = "fine"


@pytest.mark.parametrize(
    ("returned", "passed", "score"),
    [
        (True, True, 1),
        (False, False, 0),
        (1, True, 1),
        (0.5, False, 0.5),
        ({"passed": True}, True, 1),
        ({"pass": False, "reason": "rude"}, False, 0),
        ({"score": 0.8}, False, 0.8),
        ({"passed": True, "score": 0.8}, True, 0.8),
        (Verdict(), True, 0.5),
        (CheckResult("python", True, 0.25), True, 0.25),
    ],
)
def test_own_code_returns_a_bool_a_score_or_a_result(returned, passed, score):
    check = {"python": "checks.py:is_polite"}
    result = said(check, "x", answers={CodeAsk("checks.py:is_polite"): returned})
    assert (result.passed, result.score) == (passed, score)


def test_a_score_of_own_code_passes_where_it_is_enough():
    answers = {CodeAsk("checks.py:is_polite"): 0.5}
    assert passes({"python": {"function": "checks.py:is_polite", "at_least": 0.5}}, answers=answers)
    assert passes({"python": "checks.py:is_polite", "at_least": 0.5}, answers=answers)


@pytest.mark.parametrize("returned", [None, "yes", 2, -1, float("nan"), [], {"score": "high"}])
def test_what_is_no_verdict_is_no_pass_nor_is_its_opposite(returned):
    check, answers = {"python": "c.py:f"}, {CodeAsk("c.py:f"): returned}
    assert "not a bool, a number from 0 to 1" in said(check, answers=answers).reason
    assert not passes({"not": check}, answers=answers)


def test_code_that_raised_makes_the_check_fail_with_what_it_said():
    answers = {CodeAsk("c.py:f"): Unanswered("ZeroDivisionError: division by zero")}
    assert said({"python": "c.py:f"}, answers=answers).reason.startswith("ZeroDivisionError")


def signal(kind, severity):
    return Signal(kind, severity, "high", f"found {kind}", SignalDetails(), ())


@pytest.mark.parametrize(
    ("argument", "found", "passed"),
    [
        ("high", [], True),
        ("high", [signal("secret_in_output", "medium")], True),
        ("high", [signal("secret_in_output", "critical")], False),
        (["secret_in_output"], [signal("secret_in_output", "low")], False),
        ("secret_in_output", [signal("injected_instruction_followed", "critical")], True),
        (["critical", "secret_in_output"], [signal("secret_in_output", "low")], False),
    ],
)
def test_signals_of_a_severity_or_of_a_kind_are_not_accepted(argument, found, passed):
    result = said({"no_signals": argument}, find_signals=lambda: found)
    assert result.passed == passed
    assert passed or "found secret_in_output" in result.reason


def test_where_nobody_looks_for_signals_there_is_no_pass():
    assert said({"no_signals": "high"}).reason == "signals were not looked for"
    assert not passes({"not": {"no_signals": "high"}})


@pytest.mark.parametrize(
    ("check", "path", "message", "remedy"),
    [
        ({"judge": []}, ".judge", "less than 1 item", "judge: [greets"),
        ({"judge": [{"criterion": "a", "weight": 0}]}, ".judge", "weights sum to 0", "above 0"),
        ({"judge_against": {"as": "facts"}}, ".judge_against.as", "facts", "as: factuality"),
        ({"judge_against": ""}, ".judge_against.reference", "the reference is empty", "expected"),
        (
            {"judge_against": {"as": "relevance", "grounded_in": "retrieved"}},
            ".judge_against.as",
            "a kind of its own",
            "two checks",
        ),
        ({"no_signals": ["secret_in_outputs"]}, ".no_signals[0]", "no kind of signal", "did you"),
        ({"no_signals": "hihg"}, ".no_signals", "no kind of signal", "did you mean high?"),
        ({"python": "is_polite"}, ".python", "is_polite", "python: checks.py:is_polite"),
    ],
)
def test_wrong_arguments_are_refused(check, path, message, remedy):
    problem = refused(check)
    assert problem.path == f"$.checks[0]{path}"
    assert message in problem.message
    assert remedy in problem.remedy


@pytest.mark.parametrize(
    ("check", "name", "remedy"),
    [
        ({"judge": "is polite"}, "judge", "say in the criterion which part is meant"),
        ({"not": {"python": "checks.py:f"}}, "python", "given `output` and `calls`"),
        ({"similar": {"to": "a", "by": "embedding"}}, "similar by embedding", "by: rouge_l"),
    ],
)
def test_checks_that_ask_are_not_made_of_a_part_of_an_answer(check, name, remedy):
    for around in (
        {"json": {"path": "$.a", **check}},
        {"json": {"subset": {"a": check}}},
        {"does_not_call": {"tool": "send", "args": {"to": check}}},
    ):
        problem = refused(around)
        assert problem.message == f"{name} looks at the whole answer, not at a part of it"
        assert problem.remedy.startswith("write it as a check of its own; ")
        assert remedy in problem.remedy

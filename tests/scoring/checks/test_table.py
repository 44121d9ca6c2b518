"""The table of checks: documents become checks, and checks a score."""

from evalwright.scoring.checks.base import Examined
from evalwright.scoring.checks.table import prepare_checks, run_checks, verdict_of


def test_an_answer_is_scored_by_the_weight_of_the_checks_it_meets() -> None:
    documents = [{"contains": "shipped", "weight": 3}, {"contains": "sorry"}]
    prepared, problems = prepare_checks(documents, "$.checks")
    assert problems == []
    results = run_checks(prepared, Examined(output="It was shipped."), {})
    assert [each.passed for each in results] == [True, False]
    assert verdict_of(results, None) == (0.75, False)
    assert verdict_of(results, 0.7) == (0.75, True)


def test_a_document_that_is_no_check_is_refused_with_its_place_and_those_there_are() -> None:
    prepared, problems = prepare_checks([{"contians": "x"}], "$.tasks[0].checks")
    assert prepared == []
    assert problems[0].path == "$.tasks[0].checks[0]"
    assert "contains" in (problems[0].remedy or "")

"""Records as JUnit: one test case each, failures with advice, errors as errors."""

from xml.etree import ElementTree as ET

from evalwright.reports.forms import renderer
from reports.prompts.prompt_samples import a_case, a_context, a_result, an_error, hostile_results


def suite(results):
    root = ET.fromstring(renderer("prompts", "junit")(results, a_context()))
    assert (
        root[0].attrib.items()
        >= {key: root.attrib[key] for key in ("tests", "failures", "errors")}.items()
    )
    return root[0]


def test_every_record_is_a_test_case_and_the_counts_add_up():
    found = suite([a_result("a.md"), a_result("b.md", 5.0), an_error("c.md")])
    assert {key: found.attrib[key] for key in ("tests", "failures", "errors")} == {
        "tests": "3",
        "failures": "1",
        "errors": "1",
    }
    assert [case.attrib["name"] for case in found] == ["a.md", "b.md", "c.md"]
    assert found[0].attrib["time"] == "1.250"


def test_a_failure_says_how_far_below_and_what_to_improve():
    (case,) = suite([a_result("b.md", {"clarity": 3.0, "specificity": 4.0, "structure": 6.0})])
    (failure,) = case
    assert failure.attrib == {
        "message": "56.5% (Inadequate) is below the threshold of 70%",
        "type": "below-threshold",
    }
    assert failure.text.splitlines()[0] == "Improve clarity: currently 30% (Inadequate)"


def test_a_failed_test_case_is_a_failure_above_the_threshold_too():
    (case,) = suite([a_result(cases=[a_case(passed=False, reason="no greeting")])])
    (failure,) = case
    assert failure.attrib["type"] == "test-case"
    assert "no greeting" in failure.text


def test_an_error_is_no_failure():
    (case,) = suite([an_error(code="rate_limited", message="429 Too Many Requests")])
    (error,) = case
    assert (error.tag, error.attrib) == (
        "error",
        {"message": "429 Too Many Requests", "type": "rate_limited"},
    )


def test_models_and_runs_have_names_of_their_own():
    results = [
        a_result(model=model, run=run, total_runs=2)
        for model in ("phi4", "mistral")
        for run in (1, 2)
    ]
    names = [case.attrib["name"] for case in suite(results)]
    assert len(set(names)) == 4
    assert names[1].endswith("greeting.md [local:phi4] (run 2 of 2)")


def test_hostile_texts_leave_it_well_formed():
    assert len(suite(hostile_results())) == 3

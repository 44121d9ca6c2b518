"""Records as CSV: the columns of the specification, and no cell that a spreadsheet would run."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalwright.reports.forms import renderer
from reports.prompts.prompt_samples import a_context, a_result, an_error, records

HEADER = (
    "eval_id,timestamp,path,type,model,provider,tier,run,status,overall,clarity,specificity,"
    "actionability,structure,completeness,safety,passed,grade"
)


def table(results):
    text = renderer("prompts", "csv")(results, a_context()).decode()
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_the_columns_are_those_of_the_specification():
    assert renderer("prompts", "csv")([], a_context()) == f"{HEADER}\r\n".encode()


def test_scores_are_percentages():
    (row,) = table([a_result("a.md", {"clarity": 7.25, "safety": 10.0}, run=2, total_runs=3)])
    assert row["clarity"] == "72.5"
    assert row["safety"] == "100"
    assert row["overall"] == "80.125"
    assert (row["run"], row["tier"], row["passed"], row["grade"]) == (
        "2",
        "2",
        "true",
        "Proficient",
    )


def test_an_error_has_no_scores_and_did_not_pass():
    (row,) = table([an_error("a.md")])
    assert (row["status"], row["overall"], row["safety"]) == ("error", "", "")
    assert (row["passed"], row["grade"]) == ("false", "")


@pytest.mark.parametrize("start", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\uff1d1"])
def test_a_text_that_looks_like_a_formula_is_made_a_text(start):
    (row,) = table([a_result(f"{start}.md", model=start)])
    assert row["path"] == f"'{start}.md"
    assert row["model"] == f"'{start}"


def test_the_path_of_standard_input_stays_as_it_is():
    (row,) = table([a_result("-")])
    assert row["path"] == "-"


@given(st.lists(records, max_size=4))
def test_any_text_stays_in_its_cell(results):
    rows = table(results)
    assert len(rows) == len(results)
    for row, result in zip(rows, results, strict=True):
        assert set(row) == set(HEADER.split(","))
        assert row["path"].removeprefix("'") == result.input.path.removeprefix("'")

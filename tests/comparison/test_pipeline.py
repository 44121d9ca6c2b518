"""The comparison of cases, one by one: what is masked, and which runs are the same."""

from contextlib import closing
from pathlib import Path

import pytest

from builders import a_suite
from comparing import Pair, a_call, a_case, a_failure, a_response, a_result
from evalwright.comparison.inputs import open_inputs
from evalwright.comparison.pipeline import ComparedCase, Comparer, planned_cases
from evalwright.contracts.report import BothSides
from evalwright.signals.suppression import Suppressions
from evalwright.store.sqlite.log import SqliteLog
from reported import TODAY, no_own_run
from subjects.runs import Workshop

KEY = "AKIAZ5GQ7LMNTRVB2XYC"


def compared(pair: Pair, work: Path, *, masked: bool) -> ComparedCase:
    """The only case of a pair."""
    sides = BothSides(str(pair.baseline), str(pair.new))
    with (
        closing(open_inputs(sides, None, no_own_run, work)) as inputs,
        closing(planned_cases(inputs)) as plan,
    ):
        (case,) = Comparer(inputs, Suppressions(()), TODAY, masked=masked).compare(plan)
        return case


@pytest.mark.parametrize("said_in", ["prompt", "answer", "result", "capture", "title"])
def test_a_secret_is_shown_nowhere_unless_that_is_asked_for(tmp_path: Path, said_in: str) -> None:
    secrets = {said_in: KEY}

    def holds(part: str) -> str:
        return f"This is {secrets.get(part, 'nothing')}."

    case = {**a_case(user=holds("prompt")), "title": holds("title")}
    result = a_result({"text": holds("result")})
    answer = a_response(a_call(), result, output=holds("answer"))
    pair = Pair(tmp_path / "runs")
    lost = a_failure(full_body_saved_to="_runner_failures/body.txt")
    pair.add(case, answer, lost if said_in == "capture" else answer)
    captures = pair.new / "_runner_failures"
    captures.mkdir()
    (captures / "body.txt").write_text(holds("capture"))
    for masked in (True, False):
        work = tmp_path / f"work {masked}"
        work.mkdir()
        found = compared(pair, work, masked=masked)
        shown = f"{found} {[file.data for file in found.files]}"
        assert (KEY in shown) is not masked


def test_a_run_of_the_log_is_compared_with_a_folder_that_has_no_name(
    workshop: Workshop, tmp_path: Path
) -> None:
    run = workshop.run(a_suite(1), lambda _: "yes")
    pair = Pair(tmp_path / "runs")
    (pair.new / "run.json").unlink()
    pair.add(a_case("task-1"), None, a_response(case_id="task-1"))
    for baseline, new, is_same in (
        (run.run_id, str(pair.new), False),
        (str(pair.new), "latest", False),
        (str(pair.new), f"{pair.baseline}/../new", True),
        ("latest", run.run_id, True),
    ):
        work = tmp_path / f"work {new.rpartition('/')[2]} {baseline.rpartition('/')[2]}"
        work.mkdir()
        sides = BothSides(baseline, new)
        with closing(
            open_inputs(sides, None, lambda: SqliteLog(workshop.log.place), work)
        ) as inputs:
            assert inputs.is_same_run is is_same

"""What a run is asked for: options that fit each other, the run that is meant, and repeats."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from builders import a_suite
from evalwright.contracts.errors import BadInput, RunNotFound
from evalwright.contracts.run_plan import RunOptions
from evalwright.engine import runs
from evalwright.engine.plan import MAX_TAG_LENGTH, MAX_TAGS, plan_run, refuse_combinations
from evalwright.engine.verdict import change_of_repeats, reasons_against_repeats
from subjects.runs import Workshop, as_agent


def right(_task: Any) -> str:
    return "yes"


@pytest.mark.parametrize(
    ("alone", "beside", "may_be_resumed"),
    [
        ({"record": True}, {"cassette": "tape"}, True),
        ({"judge_samples": 3}, {"judges": ("a:b",)}, False),
        ({"task_cost_usd": 0.1}, {"max_cost_usd": 1.0}, True),
        ({"flaky_as": "failed"}, {"repeat": 2}, True),
    ],
)
def test_an_option_that_needs_another_is_refused_without_it(
    alone: dict[str, Any], beside: dict[str, Any], *, may_be_resumed: bool
) -> None:
    with pytest.raises(BadInput, match="need"):
        refuse_combinations(RunOptions(**alone))
    refuse_combinations(RunOptions(**alone, **beside))
    refuse_combinations(RunOptions(**beside))
    if may_be_resumed:
        refuse_combinations(RunOptions(**alone), is_resumed=True)
    else:
        with pytest.raises(BadInput, match="need"):
            refuse_combinations(RunOptions(**alone), is_resumed=True)


def test_nothing_is_combined_with_failing_on_nothing() -> None:
    refuse_combinations(RunOptions(fail_on=("none",)))
    refuse_combinations(RunOptions(fail_on=("threshold", "findings")))
    with pytest.raises(BadInput, match="cannot be combined"):
        refuse_combinations(RunOptions(fail_on=("none", "findings")))


@pytest.mark.parametrize(
    ("tags", "fit"),
    [
        (["x" * MAX_TAG_LENGTH], True),
        (["x" * (MAX_TAG_LENGTH + 1)], False),
        (["x"] * MAX_TAGS, True),
        (["x"] * (MAX_TAGS + 1), False),
        ([""], False),
        (["fine", "a\nb"], False),
    ],
)
def test_tags_are_few_short_and_printable(tags: list[str], *, fit: bool) -> None:
    def plan() -> Any:
        return plan_run(a_suite(1), "suite.json", as_agent(right), RunOptions(tags=tuple(tags)))

    if fit:
        assert plan().tags == tags
    else:
        with pytest.raises(BadInput, match="printable characters are allowed"):
            plan()


# The run that is meant.


def test_a_run_is_found_by_its_id_the_beginning_of_one_or_a_file_with_its_events(
    workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RunNotFound, match=r"there are no runs in .* yet"):
        runs.find_run(workshop.log, "latest")
    one, two = (workshop.run(a_suite(1), right).run_id for _ in "12")
    assert runs.find_run(workshop.log, "latest") == two
    assert runs.find_run(workshop.log, one) == one
    common = next(n for n in range(len(one)) if one[n] != two[n])
    assert runs.find_run(workshop.log, two[: common + 1]) == two
    with pytest.raises(RunNotFound, match=f"2 runs begin with '{one[:common]}'"):
        runs.find_run(workshop.log, one[:common])
    events = b"".join(each.to_json() + b"\n" for each in workshop.log.read(one))
    (tmp_path / "exported").mkdir()
    for place in ("run.jsonl", "exported/events.jsonl"):
        (tmp_path / place).write_bytes(events)
    monkeypatch.chdir(tmp_path)
    for named in ("run.jsonl", "exported", str(tmp_path / "run.jsonl")):
        assert runs.find_run(workshop.log, named) == one
        assert runs.run_file(named) is not None
    (tmp_path / "other.jsonl").write_text("{}\n")
    assert runs.run_file("other.jsonl") is None
    with pytest.raises(RunNotFound):
        runs.find_run(workshop.log, "other.jsonl")


def test_a_log_is_made_only_for_the_run_of_a_file(workshop: Workshop, tmp_path: Path) -> None:
    run_id = workshop.run(a_suite(1), right).run_id
    file, db = tmp_path / "run.jsonl", tmp_path / "new.db"
    file.write_bytes(b"".join(each.to_json() + b"\n" for each in workshop.log.read(run_id)))
    with pytest.raises(BadInput), runs.log_for(str(db), "run_x", None):
        pass
    assert not db.exists()
    with runs.log_for(str(db), None, str(file)) as log:
        assert runs.find_run(log, str(file)) == run_id
    assert db.exists()


# Repeats.


def test_repeats_fail_if_they_are_worse_than_the_baseline_beyond_chance_and_that_was_asked(
    workshop: Workshop,
) -> None:
    suite = a_suite(10, modes=["golden", "regression"])
    before = workshop.run(suite, right).run_id

    def outcome(agent: Any, *gates: str) -> Any:
        options = {"baseline": before, "fail_on": gates}
        recording = workshop.run(suite, agent, **options)
        assert recording.outcome is not None
        return recording.outcome

    gate = "significant-regression"
    worse = [outcome(lambda _task: "no, never", gate) for _ in "12"]
    assert reasons_against_repeats(worse) == ["worse than the baseline beyond chance"]
    change = change_of_repeats(worse)
    assert change is not None
    assert change.passes == (10, 10, 0, 20)
    same = [outcome(right, gate)]
    assert reasons_against_repeats(same) == []
    not_asked = [outcome(lambda _task: "no, never", "threshold")]
    assert reasons_against_repeats(not_asked) == []
    alone = [SimpleNamespace(plan=msgspec.structs.replace(same[0].plan, baseline=None))]
    assert reasons_against_repeats(alone) == []  # type: ignore[arg-type]
    assert change_of_repeats(alone) is None  # type: ignore[arg-type]

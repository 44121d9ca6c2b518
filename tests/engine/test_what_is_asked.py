"""What a run is asked for: options that fit each other, the run that is meant, and repeats."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from builders import a_suite
from comparing import a_response
from evalwright.contracts.errors import BadInput, RunNotFound
from evalwright.contracts.run_plan import RunOptions
from evalwright.engine import recorded_traces, runs
from evalwright.engine.plan import MAX_TAG_LENGTH, MAX_TAGS, plan_run, refuse_combinations
from evalwright.engine.session import Session
from evalwright.engine.suites.document import ColumnChoice, load_suite, read_data_suite
from evalwright.engine.suites.from_traces import scored_subject
from evalwright.engine.suites.ids import Ids
from evalwright.engine.verdict import change_of_repeats, reasons_against_repeats
from evalwright.trace.recorded_case import Recording
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


def test_rows_are_checked_by_what_is_there_and_a_suite_says_it_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusal(name: str, *checks: str) -> str:
        with pytest.raises(BadInput) as caught:
            read_data_suite(name, ColumnChoice(checks=checks))
        return str(caught.value)

    monkeypatch.chdir(tmp_path)
    (tmp_path / "suite.json").write_text('{"evalwright": 1, "tasks": []}')
    (tmp_path / "rows.json").write_text(
        '[{"input": "a", "expected": "b"}, {"input": "c", "expected": "d"}]'
    )
    (task, other) = read_data_suite("rows.json", ColumnChoice(checks=("contains=b",))).suite.tasks
    assert (task.input, task.expected.checks) == ("a", [{"contains": "b"}])
    assert other.input == "c"
    assert refusal("suite.json", "contains=b").startswith("suite.json: a suite says this itself; ")
    assert refusal("rows.json").startswith("rows.json: say what a good answer is")
    assert refusal("rows.json", "contains: x").endswith(
        "no check is called 'contains: x' (write contains=VALUE)"
    )
    assert "(one of equals, contains, " in refusal("rows.json", "nix: 3")


def test_a_recording_is_scored_by_a_suite_with_tasks_or_becomes_the_tasks_of_one_without(
    tmp_path: Path,
) -> None:
    def recording(case_id: str, prompt: str, **more: Any) -> Recording:
        response = a_response(case_id=case_id, output="yes", prompt=prompt)
        return Recording(response, "line 1", case_id, case_id, prompt=prompt, **more)

    recordings = [recording("a", "Hi"), recording("b", "Ho"), recording("c", "", fault="broken")]
    path = tmp_path / "suite.yaml"
    path.write_text("evalwright: 1\nname: desk\ndefaults: {checks: [{contains: yes}]}\n")
    subject, usable, has_own = scored_subject(path, recordings, (), ())
    assert not has_own
    assert [each.input for each in subject.suite.tasks] == ["Hi", "Ho"]
    assert [each.task_id for each in subject.suite.tasks] == [each.case_id for each in usable]
    some = scored_subject(path, recordings, [subject.suite.tasks[1].task_id], ())
    assert [each.input for each in some.subject.suite.tasks] == ["Ho"]
    assert some.subject.selection is not None
    path.write_text(
        "evalwright: 1\nname: desk\ntasks: [{id: a, input: Hi, checks: [{contains: x}]}]\n"
    )
    subject, usable, has_own = scored_subject(path, recordings, (), ())
    assert has_own
    assert [each.case_id for each in usable] == ["a", "b"]
    assert [each.task_id for each in subject.suite.tasks] == ["a"]


def test_a_time_is_a_whole_number_of_milliseconds_or_unknown() -> None:
    times = [None, -0.1, 0, 0.4, 1.6, 1e300]
    assert [recorded_traces._whole(each) for each in times] == [None, None, 0, 0, 2, None]


def test_options_for_an_agent_by_reference_are_refused_for_one_that_is_given() -> None:
    with pytest.raises(BadInput, match=r"^a model, a gateway and "):
        Session(as_agent(right), RunOptions(model="scripted:x"))


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


def test_ids_know_where_they_stand_in_each_of_several_sources() -> None:
    ids = Ids(lambda index: f"$.tasks[{index}]")
    assert ids.claim("a", 0)
    assert ids.claim("b", 1)
    assert ids.last_place == "$.tasks[1]"
    ids.enter(lambda number: f"line {number}")
    assert ids.claim("c", 7)
    assert not ids.claim("a", 8), "it is taken"
    assert ids.last_place == "line 7"
    assert [ids.place(each) for each in "abc"] == ["$.tasks[0]", "$.tasks[1]", "line 7"]


def test_a_suite_whose_tasks_all_weigh_nothing_has_no_score(tmp_path: Path) -> None:
    def problems(*weights: float) -> list[str]:
        tasks = [
            {"id": f"t{n}", "input": "x", "weight": weight, "checks": [{"contains": "y"}]}
            for n, weight in enumerate(weights)
        ]
        try:
            load_suite({"evalwright": 1, "name": "desk", "tasks": tasks})
        except BadInput as error:
            return str(error).splitlines()
        return []

    assert problems(0, 0.5) == []
    assert problems(1) == []
    assert "the weights sum to 0, so there is no score" in problems(0, 0)[0]
    assert "[] has less than 1 item" in problems()[0]

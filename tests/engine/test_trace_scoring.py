"""Recorded traces and suites: recordings of real libraries, and what they are scored by."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from evalwright.agents.protocol import Surroundings
from evalwright.comparison.recordings import Recordings
from evalwright.contracts.events import Decided, InvocationCompleted, RunStarted, ToolCalled
from evalwright.contracts.redaction import Redactor
from evalwright.contracts.run_plan import RunOptions
from evalwright.contracts.yaml_loader import load_yaml
from evalwright.engine.recorded_traces import ScoreRequest, plan_score
from evalwright.engine.suites.from_traces import RecordedSuite, TaskMaker, WantedRecordings
from evalwright.engine.suites.loader import SuiteSubject, given_subject
from evalwright.engine.task_work import RunResources
from evalwright.engine.verdict import Outcome
from evalwright.trace.recorded_case import Recording
from subjects.runs import Workshop

RECORDED = sorted((Path(__file__).parents[1] / "trace/recorded").iterdir())


def recordings_of(path: Path) -> Recordings:
    def no_log() -> Any:
        raise AssertionError

    return Recordings(str(path), no_log)


def scored(
    workshop: Workshop, subject: SuiteSubject, recordings: list[Recording], **options: Any
) -> Outcome:
    request = ScoreRequest(subject, "suite", "traces.jsonl", RunOptions(**options))
    return asyncio.run(plan_score(request, recordings).run(workshop.log))


def recorded(case_id: str, prompt: str, answer: str, *events: dict[str, Any]) -> Recording:
    content = {"content": answer}
    response = {"user_prompt": prompt, "events": list(events), "final_output": content}
    return Recording(response, "line 1", case_id, case_id)


def a_suite(*tasks: dict[str, Any], **fields: Any) -> SuiteSubject:
    return given_subject({"evalwright": 1, "tasks": list(tasks), **fields})


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_recordings_of_real_libraries_become_suites_that_they_pass_themselves(
    workshop: Workshop, path: Path
) -> None:
    suite = RecordedSuite(path.name, TaskMaker(), WantedRecordings())
    document = load_yaml(b"".join(suite.as_yaml(recordings_of(path))).decode())
    usable = [each for each in recordings_of(path) if each.fault is None]
    summary = scored(workshop, given_subject(document), usable).summary
    failed = {task["id"] for task in document["tasks"] if "tags" in task}
    assert {task.task_id for task in summary.tasks if not task.passed} == failed
    assert summary.task_count == len(document["tasks"])


def test_a_run_of_traces_names_its_source_and_holds_what_was_recorded(workshop: Workshop) -> None:
    look_up = {"type": "retrieval", "query": "hours", "documents": ["We open at 9."]}
    subject = a_suite({"id": "a", "input": "x", "checks": [{"calls": "retrieval"}]})
    outcome = scored(workshop, subject, [recorded("a", "When?", "At 9.", look_up)])
    assert outcome.summary.passed
    events = {event.type: event for event in workshop.log.read(outcome.run_id)}
    started = events[RunStarted.TYPE].decode(RunStarted)
    assert started.metadata == {"scoredTraces": "traces.jsonl"}
    assert started.tags == ["recorded"]
    assert events[Decided.TYPE].decode(Decided).decision == "At 9."
    assert events[ToolCalled.TYPE].decode(ToolCalled).inputs == {"query": "hours"}
    completed = events[InvocationCompleted.TYPE].decode(InvocationCompleted)
    assert completed.unmeasured == ["turns", "tokens", "latency"]
    assert outcome.summary.tasks[0].latency_ms is None


def test_known_secrets_in_traces_do_not_reach_the_log(workshop: Workshop) -> None:
    subject = a_suite({"id": "a", "input": "x", "checks": [{"contains": "key"}]})
    request = ScoreRequest(subject, "suite", "traces.jsonl", RunOptions())
    planned = plan_score(request, [recorded("a", "x", "the key is hunter2-hunter2")])
    resources = RunResources(Surroundings(redactor=Redactor({"KEY": "hunter2-hunter2"})))
    outcome = asyncio.run(planned.run(workshop.log, resources=resources))
    assert b"hunter2" not in b"".join(each.body for each in workshop.log.read(outcome.run_id))


def test_a_safety_finding_in_a_trace_fails_its_task(workshop: Workshop) -> None:
    key = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
    task = {"id": "a", "input": "x", "checks": [{"contains": "key"}]}
    recordings = [recorded("a", "x", f"The key is {key}")]
    assert scored(workshop, a_suite(task), recordings).summary.passed
    outcome = scored(workshop, a_suite(task), recordings, modes=("golden", "adversarial"))
    assert not outcome.summary.tasks[0].passed


def test_of_two_tasks_with_one_case_id_each_has_the_trace_with_its_words(
    workshop: Workshop,
) -> None:
    subject = a_suite(
        {"id": "case", "input": "One?", "checks": [{"contains": "1"}]},
        {"id": "case-2", "input": "Two?", "checks": [{"contains": "2"}]},
    )
    recordings = [recorded("case", "Two?", "2"), recorded("case", "One?", "1")]
    assert scored(workshop, subject, recordings).summary.passed_count == 2


def test_a_variant_of_a_case_belongs_to_its_own_task_or_else_to_that_of_the_case(
    workshop: Workshop,
) -> None:
    variant = msgspec.structs.replace(recorded("a.attacked", "x", "1"), base_id="a")
    other = msgspec.structs.replace(recorded("b.attacked", "y", "1"), base_id="b")
    subject = a_suite(
        {"id": "a", "input": "x", "checks": [{"contains": "0"}]},
        {"id": "a-attacked", "input": "x", "checks": [{"contains": "1"}]},
        {"id": "b", "input": "z", "checks": [{"contains": "1"}]},
    )
    summary = scored(workshop, subject, [variant, recorded("a", "x", "0"), other]).summary
    assert [task.passed for task in summary.tasks] == [True, True, True]


def test_a_portable_suite_scores_the_first_trace_of_a_task(workshop: Workshop) -> None:
    expected = {"kind": "golden", "match": {"strategy": "contains", "value": "9"}}
    subject = given_subject(
        {
            "suiteId": "acme.shop.evals.desk",
            "version": "1.0.0",
            "modes": ["golden"],
            "tasks": [{"taskId": "a", "input": "When?", "expected": expected}],
        }
    )
    request = ScoreRequest(subject, "suite", "traces.jsonl", RunOptions())
    planned = plan_score(request, [recorded("x", "When?", "9"), recorded("y", "When?", "8")])
    assert "only the first trace counts" in planned.notices[-1]
    assert asyncio.run(planned.run(workshop.log)).summary.passed

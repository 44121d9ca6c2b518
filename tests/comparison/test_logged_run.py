"""A run of the event log as one side: cases, responses and metadata as a run directory has them."""

import json
import pickle
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

import msgspec
import pytest

from builders import (
    AGENT_ID,
    EPOCH_US,
    Answer,
    Entry,
    a_log,
    a_rubric_task,
    a_suite,
    a_task,
    a_usage,
    an_error,
    as_log,
    opening,
    task_events,
)
from evalwright.comparison import logged_run
from evalwright.comparison.cases import parse_case
from evalwright.comparison.inputs import LogReader
from evalwright.comparison.logged_run import LoggedRun
from evalwright.comparison.side import check
from evalwright.contracts.errors import DamagedEventLog
from evalwright.contracts.events import (
    Decided,
    ErrorDetail,
    EvalScored,
    Event,
    InvocationCompleted,
    InvocationStarted,
    Planned,
    ProviderUsage,
    Reasoned,
    RunFailure,
    ToolCalled,
    ToolReturned,
)
from evalwright.engine.task_names import MOST_TITLE
from evalwright.trace.decode import decode_trace
from evalwright.trace.integrity import check_integrity
from evalwright.trace.model import Message, ToolCall, ToolResult
from subjects.runs import Workshop

T0 = EPOCH_US // 1000
SUITE = a_suite(1)


class ALog:
    """A log that holds the events of one run."""

    place = "memory"

    def __init__(self, events: Sequence[Event]) -> None:
        self._events = events

    def read(
        self, run_id: str, types: Sequence[str] = (), after: int = -1, limit: int | None = None
    ) -> Iterator[Event]:
        found = (event for event in self._events if not types or event.type in types)
        return islice((event for event in found if event.sequence > after), limit)

    def close(self) -> None: ...


def logged(events: Sequence[Event]) -> LoggedRun:
    return LoggedRun(LogReader(lambda: ALog(events)), "run_a")  # type: ignore[arg-type]


def answers(run: LoggedRun) -> list[dict[str, Any]]:
    """The responses as the report has them."""
    return [json.loads(run.read(each.name).data or b"") for each in run.listed()]


def responses(events: Sequence[Event]) -> dict[str, dict[str, Any]]:
    return {each["case_id"]: each for each in answers(logged(events))}


def one(*payloads: Any) -> dict[str, Any]:
    """The response of the only task, whose invocation did these things."""
    entries: list[Entry] = [("task-1", payload) for payload in payloads]
    (found,) = answers(logged(as_log(opening(SUITE) + entries)))
    return found


def an_invocation(*between: Any, output: Any = "yes", score: float = 1.0) -> list[Any]:
    return [
        InvocationStarted("inv-0001", AGENT_ID, "run-api"),
        *between,
        Decided(AGENT_ID, output),
        InvocationCompleted("inv-0001", AGENT_ID, "completed"),
        EvalScored("task-1", score, score == 1, latency_ms=40),
    ]


def test_what_the_agent_did_is_told_in_order_with_its_times():
    response = one(
        *an_invocation(
            Reasoned(AGENT_ID, "Look it up"),
            ToolCalled(AGENT_ID, "find", "c1", {"id": 7}),
            ToolReturned(AGENT_ID, "find", "c1", {"total": 12}, status="ok", duration_ms=3),
        )
    )
    trace = decode_trace(response, "task-1")
    assert trace.events[:3] == (
        Message(0, T0 + 4, "assistant", "Look it up"),
        ToolCall(1, T0 + 5, "c1", "find", {"id": 7}),
        ToolResult(2, T0 + 6, "c1", "find", "ok", {"total": 12}, None, 3),
    )
    assert trace.output is not None
    assert (trace.output.index, trace.output.content) == (3, "yes")
    assert check_integrity(trace).status == "ok"


def test_the_score_stands_in_the_response():
    assert one(*an_invocation(output="no", score=0.0))["scored"] == {
        "score": 0.0,
        "passed": False,
        "threshold": 1.0,
        "strategy": "exact",
        "expected": "yes",
    }


def test_an_output_that_is_no_text_is_json():
    response = one(*an_invocation(output={"total": 12}))
    assert response["final_output"] == {"content_type": "json", "content": {"total": 12}}


@pytest.mark.parametrize(
    ("returned", "status", "message"),
    [
        ({"status": "ok", "outcome": 1}, "ok", None),
        ({"status": "error", "error": ErrorDetail("no_fixture", "none")}, "error", "none"),
        ({"status": "error", "error": ErrorDetail("tool_timeout", "slow")}, "timeout", "slow"),
        ({"status": "rate_limited"}, "error", None),
        ({"error": ErrorDetail("x", "gone")}, "error", "gone"),
        ({"outcome": 1}, None, None),
    ],
)
def test_the_status_of_a_tool_is_one_of_three(returned: Any, status: Any, message: Any):
    called = ToolCalled(AGENT_ID, "find", "c1")
    response = one(*an_invocation(called, ToolReturned(AGENT_ID, "find", "c1", **returned)))
    result = response["events"][1]
    assert (result.get("status"), result.get("error_message")) == (status, message)
    assert response["events"][0]["args"] is None


def test_usage_is_summed_and_the_cost_is_the_scores():
    answer = Answer("yes", 40, [a_usage(0.25), a_usage(0.5)])
    found = responses(a_log(SUITE, {"task-1": answer}))
    assert found["task-1"]["usage"] == {
        "duration_ms": 40,
        "input_tokens": 200,
        "output_tokens": 40,
        "cost_usd": 0.75,
    }


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("agent_timeout", "timeout"),
        ("agent_unreachable", "network_error"),
        ("invalid_answer", "invalid_json"),
        ("agent_error", "agent_error"),
    ],
)
def test_a_failed_invocation_is_a_failure_with_its_class(code: str, kind: str):
    response = responses(a_log(SUITE, {"task-1": an_error(code, "it broke")}))["task-1"]
    assert "final_output" not in response
    assert response["runner_failure"] == {
        "class": kind,
        "attempt": 1,
        "error_name": code,
        "error_message": "it broke",
    }
    assert response["scored"]["passed"] is False


def test_an_answer_that_looks_like_an_error_is_an_answer():
    answer = {"error": {"code": "none", "message": "all is well"}}
    response = responses(a_log(SUITE, {"task-1": answer}))["task-1"]
    assert response["final_output"]["content"] == answer


def test_of_several_attempts_the_scored_one_is_told():
    interrupted = ErrorDetail("interrupted", "stopped")
    first = [
        InvocationStarted("inv-0001", AGENT_ID, "run-api"),
        ToolCalled(AGENT_ID, "find", "c1"),
        Decided(AGENT_ID, {"error": interrupted}),
        InvocationCompleted("inv-0001", AGENT_ID, "failed"),
    ]
    response = one(*first, *an_invocation(ToolCalled(AGENT_ID, "pay", "c2")))
    assert [event.get("tool") for event in response["events"]] == ["pay", None]
    assert "runner_failure" not in response


def test_tasks_that_run_at_once_are_kept_apart():
    suite = a_suite(2)
    pairs = zip(
        task_events(suite, "task-1", Answer("one")),
        task_events(suite, "task-2", Answer("two")),
        strict=True,
    )
    events = as_log(opening(suite) + [entry for pair in pairs for entry in pair])
    found = responses(events)
    assert {key: each["final_output"]["content"] for key, each in found.items()} == {
        "task-1": "one",
        "task-2": "two",
    }


def test_a_run_that_is_still_going_has_the_responses_so_far():
    suite = a_suite(3)
    entries = opening(suite) + task_events(suite, "task-2", Answer())
    entries += task_events(suite, "task-3", Answer())[:2]
    run = logged(as_log(entries))
    assert run.meta["status"] == "open"
    assert "ended_at" not in run.meta
    assert list(run.cases.ids()) == ["task-1", "task-2", "task-3"]
    assert [each["case_id"] for each in answers(run)] == ["task-2"]


def test_a_run_that_failed_without_a_score_tells_why():
    entries = opening(SUITE) + task_events(SUITE, "task-1", an_error("agent_unreachable"))[:-1]
    entries.append((None, RunFailure(ErrorDetail("agent_unavailable", "nobody there"))))
    run = logged(as_log(entries))
    (response,) = answers(run)
    assert run.meta["status"] == "failed"
    assert response["runner_failure"]["class"] == "network_error"
    assert "scored" not in response


def test_an_answer_that_has_no_score_has_not_passed():
    suite = a_suite([a_rubric_task("task-1")])
    entries = opening(suite) + task_events(suite, "task-1", Answer("yes"))[:-1]
    entries.append((None, RunFailure(ErrorDetail("judge_failed", "no verdict"))))
    run = logged(as_log(entries))
    (response,) = answers(run)
    assert response["scored"] == {"passed": False}
    checked = check(parse_case(run.cases.case(0), "task-1"), response)
    assert [failure.message for failure in checked.failures] == ["no score was recorded"]


# Cases and metadata.


def cases(*tasks: Any) -> list[dict[str, Any]]:
    found = logged(a_log(a_suite(tasks))).cases
    return [found.case(number) for number in range(len(found))]


def test_a_task_is_a_case_with_a_short_title():
    (case,) = cases(a_task("late", input="May I send it\nback? " + "x" * 100))
    assert case["id"] == "late"
    assert case["title"].startswith("late: May I send it back? xxx")
    assert case["title"].endswith("x…")
    assert len(case["title"]) == len("late: ") + MOST_TITLE
    assert case["input"]["user"].startswith("May I send it\nback? ")
    sends_back = msgspec.structs.replace(a_task("late"), title="Sends back")
    titled, row = cases(sends_back, a_task("row-0123456789ab", input="Hi"))
    assert (titled["title"], row["title"]) == ("late: Sends back", "hi-0123")


def test_an_input_that_is_no_text_is_shown_as_json():
    (case,) = cases(a_task(input={"order": 7}))
    assert json.loads(case["input"]["user"]) == {"order": 7}


@pytest.mark.parametrize(
    ("strategy", "value", "expected"),
    [
        ("contains", "30 days", {"must_include": ["30 days"]}),
        ("exact", "yes", {"must_include": ["yes"]}),
        ("exact", "", {}),
        ("exact", '{"a":1}', {}),
        ("contains", 7, {}),
        ("json-match", {"a": 1}, {}),
    ],
)
def test_of_a_golden_expectation_only_what_is_surely_true_is_said(
    strategy: str, value: Any, expected: Any
):
    (case,) = cases(a_task(strategy=strategy, value=value))
    assert case["expected"] == expected


def test_a_rubric_is_left_to_the_score():
    (case,) = cases(a_rubric_task())
    assert (case["expected"], case["metadata"]) == ({}, {"kind": "rubric"})


def test_the_run_says_what_was_run():
    usage = ProviderUsage("acme", "model-2", 1, 1)
    run = logged(a_log(a_suite(2), {"task-1": Answer("yes", 5, [a_usage(), usage])}))
    assert run.meta["run_id"] == "run_a"
    assert run.meta["status"] == "completed"
    assert list(run.selected()) == ["task-1", "task-2"]
    assert (run.meta["started_at"], run.meta["ended_at"]) == (T0, T0 + 14)
    assert run.meta["runner"] == {"name": "evalwright", "concurrency": 1}
    provenance = run.meta["provenance"]
    assert provenance["agent_id"] == AGENT_ID
    assert provenance["model"] == "model-1, model-2"
    assert len(provenance["config_hash"]) == 64


def test_times_and_limits_of_a_run_are_told_in_milliseconds():
    log = a_log()
    planned = log[2].decode(Planned)
    settings = msgspec.structs.replace(planned.settings, task_timeout_s=2.5)
    body = msgspec.json.encode(msgspec.structs.replace(planned, settings=settings))
    log[2] = msgspec.structs.replace(log[2], body=body)
    log[0] = msgspec.structs.replace(log[0], at_us=EPOCH_US + 250)
    meta = logged(log).meta
    assert meta["started_at"] == T0 + 0.25
    assert meta["runner"]["timeout_ms"] == 2500


def test_the_hash_of_the_configuration_follows_the_suite_and_not_the_run():
    def hash_of(events: Iterable[Event]) -> str:
        return logged(list(events)).meta["provenance"]["config_hash"]

    assert hash_of(a_log(a_suite(2))) == hash_of(a_log(a_suite(2), {"task-1": "no"}))
    assert hash_of(a_log(a_suite(2))) != hash_of(a_log(a_suite(3)))


def test_a_log_without_its_plan_says_what_it_lacks():
    with pytest.raises(
        DamagedEventLog, match=r"^memory: run run_a has no evalwright\.planned event$"
    ):
        logged([event for event in a_log() if event.type != Planned.TYPE])


def test_a_damaged_log_is_said_to_be_one():
    events = a_log(SUITE)
    place = next(n for n, event in enumerate(events) if event.type == Decided.TYPE)
    events[place] = msgspec.structs.replace(events[place], body=b'{"agentId"')
    with pytest.raises(DamagedEventLog, match="run_a cannot be read"):
        answers(logged(events))


def test_a_real_run_is_exported_from_its_log(workshop: Workshop) -> None:
    fixtures = {"toolResponses": [{"tool": "shop:orders.get", "response": {"total": 12}}]}
    tasks = [a_task("paid", fixtures=fixtures), a_task("wrong", value="no"), a_task("broken")]

    def agent(task: Any) -> str:
        if task.id == "broken":
            raise ValueError("no idea")
        if task.id == "paid":
            task.call_tool("shop:orders.get", {"id": 7})
        return "yes"

    recording = workshop.run(a_suite(tasks), agent)
    run = LoggedRun(LogReader(lambda: workshop.log), recording.run_id)
    found = {each["case_id"]: decode_trace(each, each["case_id"]) for each in answers(run)}
    assert set(found) == {"paid", "wrong", "broken"}
    assert check_integrity(found["paid"]).issues == ()
    assert found["paid"].tools_offered == ("shop:orders.get",)
    assert found["broken"].failure is not None
    assert "no idea" in found["broken"].failure.message
    assert found["wrong"].output is not None


def test_a_resumed_run_is_exported_as_one(workshop: Workshop) -> None:
    def failing(_: Any) -> str:
        raise ValueError("away")

    broken = workshop.run(a_suite(2), failing)
    assert broken.failure is not None
    resumed = workshop.resume(broken.run_id, lambda _: "yes")
    run = LoggedRun(LogReader(lambda: workshop.log), resumed.run_id)
    assert {each["scored"]["passed"] for each in answers(run)} == {True}
    first = LoggedRun(LogReader(lambda: workshop.log), broken.run_id)
    assert {each["runner_failure"]["class"] for each in answers(first)} == {"agent_error"}


def interleaved(count: int) -> list[Event]:
    """A run whose tasks all ran at the same time, and ended in the order of the suite."""
    suite = a_suite(count)
    tasks = [task_events(suite, f"task-{n}", Answer(f"answer {n}")) for n in range(1, count + 1)]
    return as_log(
        opening(suite) + [entry for entries in zip(*tasks, strict=True) for entry in entries]
    )


@pytest.mark.parametrize("widest", [0, 4096])
@pytest.mark.parametrize("order", [[1, 2, 3, 4], [4, 3, 2, 1], [2, 2, 4, 1]])
def test_responses_can_be_read_in_any_order_and_again(
    widest: int, order: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logged_run, "_WIDEST", widest)
    run = logged(interleaved(4))
    for number in order:
        response = run.read(f"task-{number}").value
        assert response["case_id"] == f"task-{number}"
        assert response["final_output"]["content"] == f"answer {number}"
        assert len(response["events"]) == 1


def test_a_run_goes_to_another_process_without_its_connection() -> None:
    reader = LogReader(partial(ALog, interleaved(2)))
    run = LoggedRun(reader, "run_a")  # type: ignore[arg-type]
    copy = pickle.loads(pickle.dumps(run))
    assert copy._reader._log is None
    assert copy.read("task-2") == run.read("task-2")
    assert list(copy.listed()) == list(run.listed())


def test_what_a_judge_used_is_not_counted_as_the_agents() -> None:
    judge = ProviderUsage("acme", "judge-1", 500, 500, cost_estimate_usd=9.0)
    agent = ProviderUsage("acme", "model-1", 7, 8, cost_estimate_usd=0.5)
    invocation = an_invocation(agent)
    run = logged(
        as_log(
            opening(SUITE)
            + [("task-1", each) for each in [*invocation[:-1], judge, invocation[-1]]]
        )
    )
    (response,) = answers(run)
    assert response["usage"] == {
        "duration_ms": 40,
        "input_tokens": 7,
        "output_tokens": 8,
        "cost_usd": 0.5,
    }
    assert run.meta["provenance"]["model"] == "model-1"

"""`evalwright tasks` and `evalwright score`: a suite from traces, and traces scored by a suite."""

import json
import signal
from typing import Any

import pytest
import yaml

from subjects.command import Evalwright
from subjects.waiting import eventually

QUESTION = "Where is order A-17?"


def conversation(case_id: str | None, asked: str, answer: str | None) -> dict[str, Any]:
    said = [{"role": "user", "content": asked}]
    if answer is None:
        error = {"error": {"code": "rate_limit", "message": "try again later"}}
        return {"case_id": case_id, "messages": said, "response": error}
    record = {"messages": [*said, {"role": "assistant", "content": answer}]}
    return record if case_id is None else {"case_id": case_id, **record}


ORDER = {
    "case_id": "order",
    "user_prompt": QUESTION,
    "events": [
        {"type": "tool_call", "call_id": "1", "tool": "orders.get", "args": {"id": "A-17"}},
        {"type": "tool_result", "call_id": "1", "status": "ok", "payload": {"parcel": "PX-204"}},
    ],
    "final_output": {"content": "It was sent as PX-204."},
    "usage": {"duration_ms": 900, "input_tokens": 10, "output_tokens": 5, "cost_usd": 0.01},
}
HOURS = conversation(None, "When do you open?", "We open at 9.")
REFUND = conversation("refund", "Refund A-18!", None)


def traces(evalwright: Evalwright, *records: dict[str, Any], name: str = "traces.jsonl") -> str:
    text = "".join(json.dumps(record) + "\n" for record in records)
    (evalwright.folder / name).write_text(text)
    return name


def suite(evalwright: Evalwright, *tasks: dict[str, Any], **fields: Any) -> str:
    document = {"evalwright": 1, "name": "desk", **fields}
    if tasks:
        document["tasks"] = list(tasks)
    (evalwright.folder / "evals.json").write_text(json.dumps(document))
    return "evals.json"


AGENT = """
def answer(task):
    if "A-17" in task.input:
        return f"It was sent, as {task.call_tool('orders.get', {'id': 'A-17'})['parcel']}."
    return "We open at 9."
"""


def test_the_suite_of_traces_is_valid_runs_and_passes_with_the_agent_that_was_recorded(
    evalwright: Evalwright,
) -> None:
    made = evalwright("tasks", "--from", traces(evalwright, ORDER, HOURS), "--out", "suite.yaml")
    assert (made.code, made.out) == (0, "")
    assert "2 tasks in suite.yaml" in made.err
    assert evalwright("validate", "suite.yaml").code == 0
    (evalwright.folder / "agent.py").write_text(AGENT)
    run = ("run", "suite.yaml", "--agent", "agent.py:answer")
    assert evalwright(*run, "--agent-tools", "task").code == 0
    unclaimed = evalwright(*run)
    assert (unclaimed.code, "not observed" in evalwright("show", "latest").flat) == (1, True)


def test_the_suite_of_traces_tells_what_an_agent_does_otherwise(evalwright: Evalwright) -> None:
    evalwright("tasks", "--from", traces(evalwright, ORDER, HOURS), "--out", "suite.yaml")
    (evalwright.folder / "agent.py").write_text(AGENT.replace("A-17'}", "B-1'}"))
    changed = evalwright("run", "suite.yaml", "--agent", "agent.py:answer")
    assert "orders.get is called with other arguments" in changed.out


def test_a_suite_with_failed_cases_does_not_pass_and_nothing_is_overwritten(
    evalwright: Evalwright,
) -> None:
    named = traces(evalwright, ORDER, HOURS, REFUND)
    assert evalwright("tasks", "--from", named, "--out", "suite.json").code == 0
    document = json.loads((evalwright.folder / "suite.json").read_text())
    assert document["thresholds"] == {"passScore": 1}
    assert document["tasks"][2]["tags"] == ["failed"]
    again = evalwright("tasks", "--from", named, "--out", "suite.json")
    assert (again.code, "already exists" in again.err) == (2, True)
    only = evalwright("tasks", "--from", named, "--failed-only")
    assert [task["id"] for task in yaml.safe_load(only.out)["tasks"]] == ["refund"]
    assert "passed over, nothing failed in it: 2 (order, record-2)" in only.err


def test_without_a_task_nothing_is_written(evalwright: Evalwright) -> None:
    named = traces(evalwright, HOURS)
    none = evalwright("tasks", "--from", named, "--failed-only", "--out", "suite.yaml")
    assert none.code == 2
    assert "no task, so no suite is written; passed over, nothing failed in it" in none.err
    assert [each.name for each in evalwright.folder.glob("*suite*")] == []
    unknown = evalwright("tasks", "--from", traces(evalwright, {"a": 1}))
    assert unknown.code == 2
    assert "holds no trace that is understood" in unknown.err


def test_a_record_that_cannot_be_read_is_told_and_the_rest_is_written(
    evalwright: Evalwright,
) -> None:
    named = traces(evalwright, HOURS, ORDER)
    with (evalwright.folder / named).open("a") as file:
        file.write("{broken\n")
    made = evalwright("tasks", "--from", named)
    assert made.code == 2
    assert len(yaml.safe_load(made.out)["tasks"]) == 2
    assert "1 of 3 records could not be read, for example traces.jsonl: line 3" in made.err


@pytest.mark.parametrize("expected", ["9", "never"])
@pytest.mark.parametrize(
    "more", [(), ({"id": "absent", "input": {"q": "?"}, "checks": [{"contains": "9"}]},)]
)
def test_an_unreadable_record_is_bad_input_whatever_the_others_score(
    evalwright: Evalwright, expected: str, more: tuple[dict[str, Any], ...]
) -> None:
    named = traces(evalwright, HOURS)
    with (evalwright.folder / named).open("a") as file:
        file.write("{broken\n")
    asked = {"id": "hours", "input": {"q": "When do you open?"}, "checks": [{"contains": expected}]}
    scored = evalwright("score", named, "--suite", suite(evalwright, asked, *more))
    assert scored.code == 2
    assert "1 of 2 records could not be read, for example traces.jsonl: line 2" in scored.err
    assert "repair or remove it" in scored.err
    assert ("no trace" in scored.err) == (bool(more) and expected == "9")


def test_traces_are_scored_as_they_are_by_id_or_by_what_was_asked(evalwright: Evalwright) -> None:
    named = traces(evalwright, ORDER, HOURS, conversation("other", "Hello", "Hi"))
    evals = suite(
        evalwright,
        {
            "id": "order",
            "input": {"question": QUESTION},
            "checks": [
                {"contains": "PX-204"},
                {"calls": {"tool": "orders.get", "args": {"id": "A-17"}}},
                {"max": {"latency_ms": 1000, "cost_usd": 0.02, "tokens": 20, "turns": 2}},
            ],
        },
        {"id": "hours", "input": {"q": "When  do you open?"}, "checks": [{"contains": "9"}]},
    )
    scored = evalwright("score", named, "--suite", evals, "--json", "--html", "page.html")
    assert scored.code == 0, scored.err
    assert "tasks paired: 1 by id, 1 by the user's prompt" in scored.err
    assert "traces without a task: 1 (other)" in scored.err
    assert [task["passed"] for task in scored.json()["tasks"]] == [True, True]
    assert "the answers recorded in traces.jsonl, scored as they are" in scored.err
    assert (evalwright.folder / "page.html").is_file()
    assert evalwright("replay", "latest").code == 0
    assert evalwright("baseline", "set", "production").code == 0
    assert evalwright("rescore", "latest").code == 0
    assert "recorded" in evalwright("runs").out
    sides = ("--baseline", "production", "--new", "latest")
    assert evalwright("compare", *sides, "--out", "report").code == 0


def test_what_a_recording_does_not_say_is_not_known(evalwright: Evalwright) -> None:
    checks = [{"max": {limit: 10**9}} for limit in ("latency_ms", "cost_usd", "tokens", "turns")]
    evals = suite(
        evalwright,
        {"id": "hours", "input": "When do you open?", "checks": checks},
        thresholds={"passScore": 0, "maxP95LatencyMs": 10**6, "maxCostUsd": 10**6},
    )
    scored = evalwright("score", traces(evalwright, HOURS), "--suite", evals)
    assert scored.code == 1
    shown = evalwright("show", "latest")
    assert "latency_ms is not known" in shown.flat
    assert shown.flat.count("model usage was not observed") == 2  # cost and tokens
    assert "1 of 4 passed" in shown.flat  # its turns are its calls and its answer
    assert "maxP95LatencyMs 1000000 cannot be shown to hold" in scored.flat
    assert "cost is unknown" in scored.flat


def test_a_task_without_a_trace_is_no_pass(evalwright: Evalwright) -> None:
    evals = suite(
        evalwright,
        {"id": "hours", "input": "When do you open?", "checks": [{"contains": "9"}]},
        {"id": "lost", "input": "x", "tags": ["later"], "checks": [{"contains": "9"}]},
    )
    named = traces(evalwright, HOURS)
    scored = evalwright("score", named, "--suite", evals)
    assert scored.code == 1
    assert "tasks without a trace: 1 (lost)" in scored.err
    assert "a part of the suite: 1 of 2 tasks" in scored.out
    told = "1 task has no trace; --allow-partial accepts that"
    assert f"FAILED ■ Do not ship: {told}" in scored.flat
    assert "PASSED" not in scored.out + evalwright("show", "latest").out
    assert evalwright("runs").out.splitlines()[2].startswith("  ■ ")
    again = evalwright("rescore", "latest")
    assert (again.code, "FAILED" in again.out) == (1, True), "what it lacks is not forgotten"
    assert evalwright("score", named, "--suite", evals, "--allow-partial").code == 0
    nothing = evalwright("score", named, "--suite", evals, "--tagged", "later")
    assert nothing.code == 2
    assert "no trace of traces.jsonl belongs to a task of evals.json" in nothing.err


def test_a_record_that_cannot_be_read_is_no_pass(evalwright: Evalwright) -> None:
    checks = [{"contains": "9"}]
    evals = suite(evalwright, {"id": "hours", "input": "When do you open?", "checks": checks})
    named = traces(evalwright, HOURS)
    with (evalwright.folder / named).open("a") as file:
        file.write("not JSON\n")
    scored = evalwright("score", named, "--suite", evals, "--allow-partial", "--junit", "run.xml")
    assert (scored.code, "PASSED" in scored.out) == (2, False)
    assert "Do not ship: 1 of 2 records could not be read" in scored.out
    assert 'value="Failed"' in (evalwright.folder / "run.xml").read_text()


def test_several_traces_of_a_task_are_its_repetitions(evalwright: Evalwright) -> None:
    named = traces(evalwright, HOURS, conversation(None, "When do you open?", "At noon."))
    task = {"id": "hours", "input": "When do you open?", "checks": [{"contains": "9"}]}
    half = suite(evalwright, {**task, "pass_rate": 0.5}, thresholds={"passScore": 0.5})
    scored = evalwright("score", named, "--suite", half, "--json")
    assert (scored.code, scored.json()["aggregateScore"]) == (0, 0.5)


def test_a_suite_without_tasks_is_applied_to_every_trace(evalwright: Evalwright) -> None:
    named = traces(evalwright, ORDER, HOURS, REFUND)
    policy = suite(evalwright, defaults={"checks": [{"no_signals": "high"}]})
    scored = evalwright("score", named, "--suite", policy, "--json")
    assert [(task["taskId"], task["passed"]) for task in scored.json()["tasks"]] == [
        ("order", True),
        ("when-do-you-open-c4563d", True),
        ("refund", False),
    ]


def test_a_suite_without_tasks_is_only_for_recorded_traces(evalwright: Evalwright) -> None:
    checked = evalwright("validate", suite(evalwright, defaults={"checks": [{"contains": "x"}]}))
    assert checked.code == 2
    assert "there are no tasks" in checked.err
    assert "`evalwright score`" in checked.err


def test_a_run_can_be_the_recording(evalwright: Evalwright) -> None:
    (evalwright.folder / "agent.py").write_text(AGENT)
    fixtures = {"toolResponses": [{"tool": "orders.get", "response": {"parcel": "PX-9"}}]}
    evals = suite(
        evalwright,
        {"id": "a", "input": QUESTION, "checks": [{"contains": "PX"}], "fixtures": fixtures},
        {"id": "b", "input": ["hours"], "checks": [{"contains": "noon"}]},
    )
    evalwright("run", evals, "--agent", "agent.py:answer")
    made = yaml.safe_load(evalwright("tasks", "--from", "latest").out)["tasks"]
    assert [task["input"] for task in made] == [QUESTION, ["hours"]]
    assert made[0]["fixtures"] == fixtures
    assert made[1]["tags"] == ["failed"]
    assert evalwright("score", "latest", "--suite", evals).code == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_interrupted_nothing_half_written_stays(
    evalwright: Evalwright, number: signal.Signals
) -> None:
    asked = (conversation(f"c{each}", f"Order A-{each}?", "Sent.") for each in range(5000))
    source = traces(evalwright, *asked)
    before = set(evalwright.folder.iterdir())
    process = evalwright.start("tasks", "--from", source, "--out", "suite.yaml")
    eventually(lambda: set(evalwright.folder.iterdir()) - before, "the beginning of the suite")
    process.send_signal(number)
    stopped = evalwright.finish(process)
    assert stopped.code == 130
    assert stopped.err == (
        "evalwright: interrupted: what was not finished is not kept; run the command again\n"
        "exit 130: interrupted\n"
    )
    assert set(evalwright.folder.iterdir()) == before


def test_scoring_that_is_refused_leaves_no_folder(evalwright: Evalwright) -> None:
    named = traces(evalwright, ORDER)
    refused = evalwright("score", named, "--suite", "absent.yaml", "--out", "results")
    assert refused.code == 2
    assert not (evalwright.folder / "results").exists()

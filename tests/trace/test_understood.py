"""What is not understood is never clean: it is named, with how much of it there is and where."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_builders import call, result

import evalwright as ew
from comparing import Pair, a_case, a_response, items_of
from evalwright.comparison.materialize import open_traces
from evalwright.contracts.errors import BadInput
from evalwright.trace.decode import decode_trace
from evalwright.trace.integrity import passed_over, why_nothing
from strategies import json_values
from subjects.command import Evalwright

LEAK = {"token": "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"}
FOREIGN = {"name": "end", "time": "2026-01-01", "kwargs": LEAK}
SAID = {"type": "message", "role": "user", "content": "Hi"}
NOTHING = [
    {"case_id": "c", "events": [FOREIGN, FOREIGN], "outputs": LEAK},
    {"case_id": "c", "events": [{"type": "tool_call", "name": "mail", "arguments": LEAK}]},
    {"case_id": "c", "events": [SAID, {"type": "message", "role": "assistant", "text": "Hi"}]},
    {"case_id": "c", "events": {"a": 1}},
    {"case_id": "c", "events": []},
    {"case_id": "c", "final_output": {"text": "Hi"}},
    {"input": "What is 2 + 2?", "expected_output": "4"},
    {"input": [{"role": "user", "content": "What is 2 + 2?"}], "ideal": "4"},
    {
        "name": "chat",
        "spanId": "a1",
        "traceId": "t",
        "attributes": {"gen_ai.operation.name": "chat"},
    },
]
SOMETHING = [
    {"events": [call()]},
    {"events": [result()]},
    {"events": [FOREIGN, call()]},
    {"events": [{"type": "retrieval", "query": "x"}]},
    {"events": [{"type": "message", "role": "assistant", "content": ""}]},
    {"final_output": ""},
    {"runner_failure": {"class": "timeout"}},
    {"proposed_actions": [{"action_type": "pay"}]},
]


@pytest.mark.parametrize("record", NOTHING, ids=range(len(NOTHING)))
def test_a_file_in_which_nothing_is_understood_is_bad_input(tmp_path: Path, record: Any):
    path = tmp_path / "t.json"
    path.write_text(json.dumps(record))
    with pytest.raises(ew.EvalwrightError, match=r"t\.json: holds no trace that is understood: "):
        ew.scan(path)
    with pytest.raises(BadInput, match=r"t\.json: holds no trace that is understood: "):
        open_traces(path, tmp_path / "work")


def test_the_commands_say_so_and_exit_with_2(evalwright: Evalwright):
    (evalwright.folder / "t.json").write_text(json.dumps(NOTHING[0]))
    scanned = evalwright("signals", "--traces", "t.json", "--json")
    compared = evalwright("compare", "--baseline", "t.json", "--new", "t.json", "--out", "report")
    assert (scanned.code, compared.code) == (2, 2)
    assert scanned.err.startswith("t.json: holds no trace that is understood: 2 of 2 events")
    assert "t.json: holds no trace that is understood: 2 of 2 events" in compared.err
    assert "error" in json.loads(scanned.out)


@pytest.mark.parametrize("response", SOMETHING, ids=range(len(SOMETHING)))
def test_whatever_an_agent_did_is_a_trace(response: Any):
    assert why_nothing(decode_trace(response, "c")) is None


@given(st.dictionaries(st.sampled_from(["events", "final_output", "messages"]), json_values))
def test_what_is_not_understood_is_said_of_any_value(response: Any):
    trace = decode_trace(response, "c")
    assert (passed_over(trace) is None) == (not trace.unknown)
    assert why_nothing(trace) is None or not trace.output


def test_a_record_among_others_has_an_error_and_the_rest_is_scanned(evalwright: Evalwright):
    lines = [json.dumps(each) for each in (a_response(), NOTHING[0])]
    (evalwright.folder / "t.jsonl").write_text("\n".join(lines))
    done = evalwright("signals", "--traces", "t.jsonl", "--json")
    assert done.code == 2
    assert [("error" in json.loads(line)) for line in done.out.splitlines()] == [False, True]
    assert done.err.startswith("t.jsonl: 1 of 2 records could not be read\nexit 2: ")


def test_what_is_passed_over_in_a_trace_is_named_with_counts_and_places(evalwright: Evalwright):
    noted = {"type": "log", "text": "x"}
    record = a_response(call(), noted, result(), noted, None, case_id="one")
    (evalwright.folder / "t.json").write_text(json.dumps(record))
    done = evalwright("signals", "--traces", "t.json", "--json")
    assert done.code == 0
    told = "3 of 6 events are not understood: type 'log' at events[1], events[3], without a type at"
    assert json.loads(done.out)["passed_over"].startswith(told)
    assert done.err.startswith(f"t.json: 1 of 1 traces were read in part, for example one: {told}")


def test_a_comparison_names_what_it_passed_over(evalwright: Evalwright, tmp_path: Path):
    pair = Pair(tmp_path / "runs")
    case = a_case("one", must_not_include=["never"])
    pair.add(case, a_response(), a_response(call(), result(), {"type": "log"}))
    pair.add(a_case("two"), a_response(), {"case_id": "two", "events": [FOREIGN]})
    done = evalwright("compare", "--baseline", "runs/baseline", "--new", "runs/new", "--out", "r")
    assert done.code == 1
    items = items_of(tmp_path / "r")
    assert items["one"]["new_pass"] is True
    assert items["one"]["faults"] == [
        "new: 1 of 4 events is not understood: type 'log' at events[2]"
    ]
    assert items["two"]["new_pass"] is False
    (failed,) = items["two"]["failed_assertions"]["new"]
    assert failed["message"].startswith("the response holds no trace that is understood: 1 of 1")

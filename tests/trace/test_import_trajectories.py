"""Trajectories of agents and of benchmarks: OpenHands, SWE-agent, tau-bench, Inspect."""

import io
import json
import zipfile
import zlib
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from trace_builders import imported, imported_lines, one, steps

from evalwright.contracts.errors import BadInput
from evalwright.trace.importers import archives
from evalwright.trace.importers.archives import unpacked
from evalwright.trace.importers.formats import import_responses
from strategies import mutations

T = "2026-01-01T00:00:0{}"
ABOUT = {"function_name": "execute_bash", "tool_call_id": "c1"}
ACTIONS = [
    {"id": 0, "source": "user", "action": "message", "args": {"content": "Fix the bug"}},
    {
        "id": 1,
        "source": "agent",
        "action": "run",
        "timestamp": T.format(1),
        "args": {"command": "ls", "thought": "I look.", "confirmation_state": "confirmed"},
        "tool_call_metadata": ABOUT,
    },
    {
        "id": 2,
        "source": "agent",
        "observation": "run",
        "content": "no such file",
        "cause": 1,
        "extras": {"metadata": {"exit_code": 2}},
    },
    {"id": 3, "source": "agent", "observation": "agent_state_changed", "content": "", "extras": {}},
    {"id": 4, "source": "agent", "action": "finish", "args": {"final_thought": "Done"}},
]
TYPED = [
    {
        "kind": "SystemPromptEvent",
        "source": "agent",
        "system_prompt": {"type": "text", "text": "You fix."},
        "tools": [{"type": "function", "function": {"name": "execute_bash"}}],
    },
    {
        "kind": "MessageEvent",
        "source": "user",
        "llm_message": {"role": "user", "content": [{"type": "text", "text": "Fix the bug"}]},
    },
    {
        "kind": "ActionEvent",
        "source": "agent",
        "thought": [{"type": "text", "text": "I look."}],
        "action": {"kind": "ExecuteBashAction", "command": "ls"},
        "tool_name": "execute_bash",
        "tool_call_id": "c1",
        "tool_call": {"id": "c1", "name": "execute_bash", "arguments": '{"command": "ls"}'},
    },
    {
        "kind": "ObservationEvent",
        "source": "environment",
        "observation": {
            "kind": "ExecuteBashObservation",
            "content": [{"type": "text", "text": "no such file"}],
            "exit_code": 2,
        },
        "tool_name": "execute_bash",
        "tool_call_id": "c1",
    },
    {"kind": "ConversationStateUpdateEvent", "source": "environment", "key": "stats", "value": {}},
    {
        "kind": "ActionEvent",
        "source": "agent",
        "thought": [],
        "action": {"kind": "FinishAction", "message": "Done"},
        "tool_name": "finish",
        "tool_call_id": "c2",
    },
]
FIXED = [
    ("assistant", "I look."),
    ("call", "c1", "execute_bash", {"command": "ls"}),
    ("result", "c1", "error", "no such file"),
    ("final", "Done"),
]
PAIRS = [
    [ACTIONS[0], {"observation": "null", "content": "", "extras": {}}],
    ACTIONS[1:3],
    ACTIONS[4:],
]


@pytest.mark.parametrize("events", [ACTIONS, TYPED, PAIRS], ids=["actions", "typed", "pairs"])
@pytest.mark.parametrize(
    "wrap",
    [
        list,
        lambda events: {"id": "talk-1", "events": events},
        lambda events: {"instance_id": "talk-1", "history": events, "test_result": {}},
        lambda events: {"instance_id": "talk-1", "trajectory": json.dumps(events)},
    ],
    ids=["list", "conversation", "output", "text"],
)
def test_events_of_openhands_are_one_case_in_every_form(events, wrap):
    response = one(wrap(events))
    assert response["user_prompt"] == "Fix the bug"
    assert steps(response) == FIXED
    assert response["case_id"] in ("talk-1", "record-1")


def test_events_on_lines_of_their_own_are_a_conversation_until_the_next_begins():
    found = imported_lines([*ACTIONS, *ACTIONS])
    assert [steps(each.response) for each in found] == [FIXED, FIXED]


def test_the_last_words_may_be_only_in_the_answer_of_the_model():
    call = {"id": "c2", "function": {"name": "finish", "arguments": '{"message": "Done"}'}}
    choice = {"message": {"role": "assistant", "tool_calls": [call]}}
    about = {"model_response": {"model": "small-1", "choices": [choice]}}
    finish = {"source": "agent", "message": "", "action": "finish", "tool_call_metadata": about}
    response = one([*ACTIONS[:3], finish])
    assert steps(response) == FIXED
    assert response["models"] == ["small-1"]


def test_what_openhands_counted_is_the_usage():
    counted = {"prompt_tokens": 7, "completion_tokens": 2}
    metrics = {"accumulated_cost": 0.5, "accumulated_token_usage": counted}
    usage = one({"instance_id": "x", "history": ACTIONS, "metrics": metrics})["usage"]
    assert usage == {"input_tokens": 7, "output_tokens": 2, "cost_usd": 0.5}


def test_a_conversation_that_broke_off_is_a_failure():
    reason = {"kind": "ConversationErrorEvent", "source": "environment", "detail": "no credit"}
    failure = one([TYPED[1], TYPED[2], reason])["runner_failure"]
    assert failure == {"class": "agent_error", "error_message": "no credit"}


STEP = {"action": "ls", "observation": "a.py", "thought": "I look.", "response": "…", "state": {}}
SUBMIT = {"action": "submit", "observation": "", "thought": "Done.", "response": "…", "state": {}}
INFO = {
    "exit_status": "submitted",
    "submission": "diff --git",
    "model_stats": {"instance_cost": 0.5, "tokens_sent": 7, "tokens_received": 2},
}
SAID = [
    {"role": "system", "content": "You fix.", "agent": "main"},
    {"role": "user", "content": "A demonstration", "is_demo": True},
    {"role": "user", "content": "Fix the bug", "agent": "main"},
    {"role": "assistant", "content": "I look.\n```\nls\n```", "action": "ls", "agent": "main"},
    {"role": "user", "content": "a.py", "agent": "main"},
]


def test_steps_of_swe_agent_are_commands_with_what_they_printed():
    trajectory = {"trajectory": [STEP, SUBMIT], "history": SAID, "info": INFO}
    (found,) = imported(trajectory, "repo__1.traj")
    response = found.response
    assert (response["case_id"], response["system_prompt"]) == ("repo__1", "You fix.")
    assert response["user_prompt"] == "Fix the bug"
    assert steps(response)[:3] == [
        ("assistant", "I look."),
        ("call", "1", "bash", {"command": "ls"}),
        ("result", "1", None, "a.py"),
    ]
    assert response["final_output"]["content"] == "diff --git"
    assert response["usage"] == {"input_tokens": 7, "output_tokens": 2, "cost_usd": 0.5}


def test_what_a_command_printed_is_never_taken_for_the_users_words():
    response = one({"instance_id": "x", "history": SAID, "info": {"exit_status": "exit_cost"}})
    assert response["user_prompt"] == "Fix the bug"
    assert steps(response)[1:] == [
        ("call", "2", "bash", {"command": "ls"}),
        ("result", "2", None, "a.py"),
    ]
    assert response["runner_failure"]["error_name"] == "exit_cost"


def test_calls_of_tools_in_the_history_of_swe_agent_keep_their_names():
    call = {"id": "c1", "type": "function", "function": {"name": "open", "arguments": "{}"}}
    said = [
        *SAID[:3],
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "text", "tool_call_ids": ["c1"]},
    ]
    response = one({"trajectory": [STEP], "history": said, "info": INFO})
    assert steps(response) == [("call", "c1", "open", {}), ("result", "c1", None, "text")]


@pytest.mark.parametrize("key", ["content", "text"])
def test_rows_of_trajectories_are_read_as_turns(key):
    turns = [{"role": "system", key: "You fix."}, {"role": "user", key: "Fix the bug"}]
    turns += [{"role": "ai", key: "I look.\n```\nls\n```"}, {"role": "user", key: "a.py"}]
    response = one({"instance_id": "x", "model_name": "small-1", "trajectory": turns})
    assert response["user_prompt"] == "Fix the bug"
    assert response["models"] == ["small-1"]
    assert steps(response)[1:] == [
        ("call", "2", "bash", {"command": "ls"}),
        ("result", "2", None, "a.py"),
    ]


def test_trajectories_of_mini_swe_agent_are_read():
    answered = {"usage": {"prompt_tokens": 7, "completion_tokens": 2}, "model": "small-1"}
    said = [
        {"role": "user", "content": "Fix the bug"},
        {"role": "assistant", "content": "```bash\nls\n```", "extra": {"response": answered}},
        {"role": "user", "content": "a.py"},
        {"role": "exit", "content": "Submitted", "extra": {}},
    ]
    info = {"exit_status": "Submitted", "submission": "diff --git"}
    response = one({"info": info, "messages": said, "trajectory_format": "mini-swe-agent-1.1"})
    assert [step[0] for step in steps(response)] == ["assistant", "call", "result"]
    assert response["final_output"]["content"] == "diff --git"
    assert (response["usage"]["input_tokens"], response["models"]) == (7, ["small-1"])


def test_a_trajectory_of_mini_swe_agent_is_known_by_how_it_ended():
    said = [
        {"role": "user", "content": "Fix the bug"},
        {
            "role": "assistant",
            "content": "<run>ls</run>",
            "extra": {"actions": [{"command": "ls"}]},
        },
        {"role": "user", "content": "a.py"},
    ]
    response = one(
        {"instance_id": "x", "info": {"exit_status": "LimitsExceeded"}, "messages": said}
    )
    assert steps(response)[1:] == [
        ("call", "1", "bash", {"command": "ls"}),
        ("result", "1", None, "a.py"),
    ]
    assert response["runner_failure"]["error_name"] == "LimitsExceeded"


TAU = [
    {"role": "system", "content": "Be polite."},
    {"role": "user", "content": "Cancel order 7"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "function": {"name": "cancel", "arguments": '{"id": 7}'}}],
    },
    {"role": "tool", "tool_call_id": "c1", "name": "cancel", "content": "Error: not found"},
    {"role": "assistant", "content": "I cannot."},
    {"role": "user", "content": "###STOP###"},
]


def test_results_of_tau_bench_are_cases_and_their_trials_repeats():
    results = [{"task_id": 3, "reward": 0.0, "info": {}, "traj": TAU, "trial": n} for n in (0, 1)]
    first, second = imported(results)
    assert (first.case_id, second.case_id) == ("3", "3")
    assert first.response["user_prompt"] == "Cancel order 7"
    assert steps(first.response)[:2] == [
        ("call", "c1", "cancel", {"id": 7}),
        ("result", "c1", "error", "Error: not found"),
    ]


def test_simulations_of_tau2_are_read_without_what_the_simulated_user_calls():
    turns = [
        {"role": "user", "content": "No signal"},
        {
            "role": "assistant",
            "tool_calls": [{"id": "c1", "name": "find", "arguments": {"id": 7}}],
            "usage": {"prompt_tokens": 7, "completion_tokens": 2},
            "cost": 0.25,
        },
        {"role": "tool", "id": "c1", "content": "{}", "error": False, "requestor": "assistant"},
        {"role": "assistant", "content": "Restart it."},
        {"role": "user", "tool_calls": [{"id": "u1", "name": "restart", "requestor": "user"}]},
        {"role": "tool", "id": "u1", "content": "done", "requestor": "user", "error": False},
        {"role": "assistant", "content": "Good."},
    ]
    simulation = {"id": "s", "task_id": "a", "messages": turns, "agent_cost": 0.5, "duration": 2}
    document = {
        "info": {
            "agent_info": {"llm": "small-1"},
            "environment_info": {"policy": "Be polite."},
        },
        "tasks": [],
        "simulations": [{**simulation, "termination_reason": "user_stop", "reward_info": {}}],
    }
    response = one(document)
    assert (response["system_prompt"], response["models"]) == ("Be polite.", ["small-1"])
    assert [step for step in steps(response) if step[0] in ("call", "result")] == [
        ("call", "c1", "find", {"id": 7}),
        ("result", "c1", "ok", "{}"),
    ]
    assert response["usage"] == {
        "input_tokens": 7,
        "output_tokens": 2,
        "cost_usd": 0.5,
        "duration_ms": 2000,
    }


HEADER = {"version": 2, "status": "success", "eval": {"task": "shop", "model": "small-1"}}
SAMPLE = {
    "id": "a",
    "epoch": 1,
    "input": "Where is order 7?",
    "target": "sent",
    "messages": [
        {"role": "user", "content": "attachment://h", "source": "input"},
        {
            "role": "assistant",
            "content": [{"type": "reasoning", "reasoning": "Hm."}],
            "tool_calls": [{"id": "c1", "function": "find", "arguments": {"id": 7}}],
        },
        {
            "role": "tool",
            "tool_call_id": "c1",
            "function": "find",
            "content": "",
            "error": {"type": "timeout", "message": "too slow"},
        },
        {"role": "assistant", "content": "I do not know."},
    ],
    "attachments": {"h": "Where is order 7?"},
    "model_usage": {"small-1": {"input_tokens": 7, "output_tokens": 2}},
    "scores": {"match": {"value": float("nan")}},
    "total_time": 2,
}
ASKED_INSPECT = [
    ("call", "c1", "find", {"id": 7}),
    ("result", "c1", "timeout", "too slow"),
    ("final", "I do not know."),
]


def zipped(method: int, *names: str) -> io.BytesIO:
    """A log as Inspect packs it, with a method that `zipfile` may not know."""
    contents = {
        "_journal/start.json": HEADER,
        "samples/a_epoch_1.json": SAMPLE,
        "summaries.json": [],
        "header.json": HEADER,
    }
    return packed({name: contents[name] for name in names or contents}, method)


def packed(contents: dict[str, Any], method: int) -> io.BytesIO:
    texts = [json.dumps(each, indent=2).encode() for each in contents.values()]
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, text in zip(contents, texts, strict=True):
            archive.writestr(name, zstandard.compress(text) if method == 93 else text)
    if method == 93:
        file = io.BytesIO(_as_zstd(file.getvalue(), [zlib.crc32(each) for each in texts]))
    return file


def _as_zstd(archive: bytes, checksums: list[int]) -> bytes:
    """Members that hold packed content, as members that are packed."""
    changed = bytearray(archive)
    for magic, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        place = -1
        for checksum in checksums:
            place = changed.find(magic, place + 1)
            changed[place + offset] = 93
            changed[place + offset + 6 : place + offset + 10] = checksum.to_bytes(4, "little")
    return bytes(changed)


def test_samples_of_a_log_of_inspect_are_cases():
    response = one({**HEADER, "samples": [SAMPLE]})
    assert response["user_prompt"] == "Where is order 7?"
    assert steps(response)[1:] == ASKED_INSPECT
    assert response["models"] == ["small-1"]
    assert response["usage"] == {"input_tokens": 7, "output_tokens": 2, "duration_ms": 2000}


@pytest.mark.parametrize("method", [0, 93], ids=["stored", "zstd"])
@pytest.mark.parametrize(
    "names",
    [(), ("_journal/start.json", "samples/a_epoch_1.json")],
    ids=["whole", "broken off"],
)
def test_packed_logs_of_inspect_are_read_sample_by_sample(method, names):
    (found,) = import_responses(unpacked(zipped(method, *names), "log.eval"), "log.eval")
    assert steps(found.response)[1:] == ASKED_INSPECT


@pytest.mark.parametrize("method", [0, 93], ids=["stored", "zstd"])
def test_a_sample_of_any_size_stays_one_record(method):
    large = {**SAMPLE, "store": {"notes": "long " * 500_000}}
    log = packed({"header.json": HEADER, "samples/a_epoch_1.json": large}, method)
    (found,) = import_responses(unpacked(log, "log.eval"), "log.eval")
    assert steps(found.response)[1:] == ASKED_INSPECT


def test_a_sample_too_large_to_be_read_is_not_unpacked_further(monkeypatch):
    monkeypatch.setattr(archives, "MAX_RECORD_BYTES", 2_000_000)
    large = {**SAMPLE, "store": {"notes": "0" * 20_000_000}}
    log = packed({"header.json": HEADER, "samples/a_epoch_1.json": large}, 93)
    assert sum(map(len, unpacked(log, "log.eval"))) < 4_000_000


def test_a_packed_sample_that_changed_on_the_way_is_refused():
    content = zipped(93).getvalue()
    checksum = zlib.crc32(json.dumps(SAMPLE, indent=2).encode()).to_bytes(4, "little")
    with pytest.raises(BadInput, match=r"a_epoch_1\.json is damaged"):
        list(unpacked(io.BytesIO(content.replace(checksum, b"\0\0\0\0")), "log.eval"))


SCORER = {"event": "span_begin", "id": "s2", "parent_id": "s1", "type": "scorer"}
JUDGED = {
    "event": "model",
    "span_id": "s2",
    "model": "judge-1",
    "tools": [{"name": "grade"}],
    "output": {"usage": {"input_tokens": 5, "output_tokens": 1}},
}


@pytest.mark.parametrize(
    "events",
    [
        [{"event": "span_begin", "id": "s1", "type": "scorers"}, SCORER, JUDGED],
        [{"event": "step", "action": "begin", "type": "scorer"}, {**JUDGED, "span_id": None}],
    ],
    ids=["spans", "steps of older versions"],
)
@pytest.mark.parametrize("judge", ["judge-1", "small-1"], ids=["another model", "the same"])
def test_what_judges_spend_is_not_spent_by_the_agent(events, judge):
    used = {"small-1": {"input_tokens": 7, "output_tokens": 2}}
    before = used.get(judge, {"input_tokens": 0, "output_tokens": 0})
    used[judge] = {
        "input_tokens": before["input_tokens"] + 5,
        "output_tokens": before["output_tokens"] + 1,
    }
    events = [{**each, "model": judge} if each.get("model") else each for each in events]
    response = one({**HEADER, "samples": [{**SAMPLE, "model_usage": used, "events": events}]})
    assert response["models"] == ["small-1"]
    assert response["usage"] == {"input_tokens": 7, "output_tokens": 2, "duration_ms": 2000}
    assert "tools_offered" not in response


def test_a_log_without_samples_says_why():
    (found,) = imported({**HEADER, "status": "error", "error": {"message": "no key"}})
    assert found.fault.endswith("the log has no samples; its status is error (no key)")


def test_a_sample_that_broke_off_is_a_failure():
    failed = {**SAMPLE, "messages": SAMPLE["messages"][:1], "error": {"message": "no credit"}}
    assert one(failed)["runner_failure"]["error_message"] == "no credit"


def test_a_sample_without_messages_is_read_from_its_events():
    events: list[dict[str, Any]] = [
        {
            "event": "model",
            "input": SAMPLE["messages"][:1],
            "output": {"choices": [{"message": SAMPLE["messages"][1]}]},
        },
        {
            "event": "tool",
            "id": "c1",
            "function": "find",
            "arguments": {"id": 7},
            "result": "sent",
            "timestamp": T.format(1),
            "completed": T.format(2),
        },
    ]
    response = one({**SAMPLE, "messages": [], "events": events})
    assert steps(response)[1:] == [
        ("call", "c1", "find", {"id": 7}),
        ("result", "c1", "ok", "sent"),
    ]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"PK\x03\x04 and nothing else", "cannot be unpacked"),
        (zipped(0, "summaries.json").getvalue(), "not a log of Inspect"),
        (zipped(93).getvalue().replace(b"\x28\xb5\x2f\xfd", b"\x00" * 4), "cannot be unpacked"),
    ],
    ids=["damaged", "another zip", "damaged zstd"],
)
def test_a_zip_that_is_no_such_log_is_refused_with_the_reason(content, reason):
    with pytest.raises(BadInput, match=reason):
        list(unpacked(io.BytesIO(content), "log.eval"))


TRAJECTORIES = [
    *(ACTIONS, TYPED, PAIRS),
    {"trajectory": [STEP, SUBMIT], "history": SAID, "info": INFO},
    {"task_id": 1, "reward": 1, "traj": TAU},
    {"simulations": [{"task_id": 1, "messages": TAU, "reward_info": {}}], "info": {}},
    {**HEADER, "samples": [{**SAMPLE, "scores": {}}]},
]


@given(mutations(st.sampled_from(TRAJECTORIES)))
def test_no_trajectory_makes_an_importer_raise(document):
    assert imported(document) is not None

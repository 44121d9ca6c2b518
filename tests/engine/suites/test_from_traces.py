"""From recordings to tasks: what is asked, what tools answer, and checks that hold of it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalwright.contracts.yaml_loader import load_yaml
from evalwright.engine.suites.document import load_suite
from evalwright.engine.suites.from_traces import (
    PLACEHOLDER,
    RecordedSuite,
    TaskMaker,
    WantedRecordings,
    literal,
    stable_part,
)
from evalwright.engine.suites.templates import Templates
from evalwright.trace.recorded_case import Recording

TOKEN = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"


def call(tool: str, result: Any, **args: Any) -> list[dict[str, Any]]:
    name = f"{tool}{args}"
    return [
        {"type": "tool_call", "call_id": name, "tool": tool, "args": args},
        {"type": "tool_result", "call_id": name, "tool": tool, "status": "ok", "payload": result},
    ]


def said(role: str, content: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content}


def recorded(
    prompt: str = "Where is order A-17?",
    *events: dict[str, Any],
    answer: Any = "Order A-17 has been shipped as PX-204.",
    case_id: str | None = "order",
    **fields: Any,
) -> Recording:
    response = {"user_prompt": prompt, "events": list(events), **fields}
    if answer is not None:
        response["final_output"] = {"content": answer}
    return Recording(response, "traces.jsonl: line 1", case_id or "record-1", case_id)


def made(recording: Recording, **options: Any) -> dict[str, Any]:
    """The task of a recording as its suite has it, read back from its file."""
    suite = RecordedSuite("traces.jsonl", TaskMaker(**options), WantedRecordings())
    text = b"".join(suite.as_yaml([recording])).decode()
    document = load_yaml(text)
    load_suite(document)
    task: dict[str, Any] = document["tasks"][0]
    return task


ORDER = call("orders.get", {"parcel": "PX-204", "status": "shipped"}, id="A-17")


def test_a_good_answer_becomes_a_task_with_fixtures_and_checks() -> None:
    assert made(recorded("Where is order A-17?", *ORDER)) == {
        "id": "order",
        "input": "Where is order A-17?",
        "fixtures": {
            "toolResponses": [
                {"tool": "orders.get", "response": {"parcel": "PX-204", "status": "shipped"}}
            ]
        },
        "expected": "Order A-17 has been shipped as PX-204.",
        "checks": [
            {"calls": {"tool": "orders.get", "args": {"id": "A-17"}}},
            {"contains_all": ["PX-204"]},
            {"similar": {"to": "{{ expected }}", "at_least": 0.5}},
            {"no_signals": "high"},
        ],
    }


def test_what_the_user_says_later_is_expected_of_calls_and_what_the_agent_says_is_not() -> None:
    talk = (said("assistant", "I call it aa11bb22cc33dd44."), said("user", "9f8b1c2d3e4f5a6b"))
    asked = call("orders.get", "shipped", id="9f8b1c2d3e4f5a6b", reference="aa11bb22cc33dd44")
    task = made(recorded("Where is it?", *talk, *asked))
    wanted = {"tool": "orders.get", "args": {"id": "9f8b1c2d3e4f5a6b"}}
    assert task["checks"][0] == {"calls": wanted}


def test_calls_that_wait_for_each_other_are_expected_in_order() -> None:
    task = made(recorded("Mail A-17", *ORDER, *call("mail.send", "ok", to="desk")))
    wanted = [
        {"tool": "orders.get", "args": {"id": "A-17"}},
        {"tool": "mail.send", "args": {"to": "desk"}},
    ]
    assert task["checks"][0] == {"calls_in_order": wanted}


def test_calls_side_by_side_may_come_in_any_order() -> None:
    first, second = call("weather", 7, city="Oslo"), call("weather", 9, city="Bergen")
    task = made(recorded("Oslo, Bergen?", first[0], second[0], second[1], first[1]))
    assert [check["calls"]["args"] for check in task["checks"][:2]] == [
        {"city": "Oslo"},
        {"city": "Bergen"},
    ]


@pytest.mark.parametrize(
    ("args", "kept"),
    [
        ({"id": "A-17", "note": "I will look it up for you"}, {"id": "A-17"}),
        ({"limit": 10, "all": True}, {"limit": 10, "all": True}),
        ({"at": "2026-11-16T14:53:59Z", "ref": "9f8b1c2d3e4f5a6b"}, None),
        ({"said": "the blue one"}, {"said": "the blue one"}),
        ({"filter": {"max": 5}}, {"filter": {"equals": {"max": 5}}}),
        ({"token": "[masked:github-token#123456]"}, None),
        ({"tags": ["new", "a text of many words"]}, None),
        ("not an object", None),
    ],
)
def test_arguments_that_stay_are_expected_and_others_are_not(args: Any, kept: Any) -> None:
    assert stable_part(args, "Please take the blue one of A-17.") == kept


def test_an_answer_of_data_is_held_to_the_values_that_stay() -> None:
    answer = {"status": "shipped", "note": "It left our house yesterday at noon."}
    task = made(recorded("Where is it?", answer=answer))
    assert task["checks"][0] == {"json": {"subset": {"status": "shipped"}}}


def test_of_a_conversation_all_that_was_said_is_asked_and_only_the_last_answer_is_checked() -> None:
    task = made(
        recorded(
            "Where is A-17?",
            *ORDER,
            said("assistant", "It is shipped."),
            said("user", "Cancel it."),
            *call("orders.cancel", "done", id="A-17"),
            answer="A-17 is cancelled.",
        )
    )
    assert task["input"] == {
        "messages": [
            {"role": "user", "content": "Where is A-17?"},
            {"role": "assistant", "content": "It is shipped."},
            {"role": "user", "content": "Cancel it."},
        ]
    }
    assert task["checks"][0] == {"calls": {"tool": "orders.cancel", "args": {"id": "A-17"}}}
    assert [each["tool"] for each in task["fixtures"]["toolResponses"]] == [
        "orders.get",
        "orders.cancel",
    ]


def test_the_system_prompt_is_given_only_on_request() -> None:
    recording = recorded("Hello", answer="Good day!", system_prompt="You serve a shop.")
    assert made(recording)["input"] == "Hello"
    assert made(recording, with_system=True)["input"]["messages"][0]["role"] == "system"


@pytest.mark.parametrize(
    ("recording", "reason"),
    [
        (recorded(answer=None, runner_failure={"class": "timeout"}), "timeout"),
        (recorded(answer=None), "no answer was recorded"),
        (recorded(scored={"passed": False}), "it did not pass where it was recorded"),
        (recorded("x", {**ORDER[0]}, {**ORDER[1], "status": "error"}), "orders.get failed"),
        (recorded(answer=f"The key is {TOKEN}"), "signal secret_in_output"),
    ],
)
def test_a_case_that_failed_cannot_pass_until_somebody_says_what_is_right(
    recording: Recording, reason: str
) -> None:
    task = made(recording)
    assert reason in task["description"]
    assert task["tags"] == ["failed"]
    assert task["checks"][0] == {"equals": PLACEHOLDER}


def test_an_error_that_a_later_call_made_good_is_no_failure() -> None:
    again = [{**ORDER[0], "call_id": "2"}, {**ORDER[1], "call_id": "2", "status": "error"}]
    assert TaskMaker().wrong_with(recorded("x", *again, *ORDER)) == ()


def test_secrets_and_personal_data_are_masked_everywhere_and_in_no_check() -> None:
    events = call("login", {"token": TOKEN, "mail": "ann@shop.example"}, token=TOKEN, user="ann")
    recording = recorded(f"My key is {TOKEN}", *events, answer="Done, ann@shop.example.")
    written = str(made(recording))
    assert TOKEN not in written
    assert "ann@shop.example" not in written
    assert "[masked:" not in str(made(recording)["checks"])
    assert TOKEN in str(made(recording, masked=False))


def test_ids_are_those_of_cases_or_made_of_what_was_asked() -> None:
    maker = TaskMaker()
    ids = [
        maker.new_id(recorded(case_id="Order 7/B")),
        maker.new_id(recorded(case_id="Order 7/B")),
        maker.new_id(recorded("When do you open?", case_id=None)),
    ]
    assert ids == ["order-7-b", "order-7-b-2", "when-do-you-open-c4563d"]


@given(st.text("{}%#\"'\n raw endraw-", max_size=40) | st.text(max_size=20))
def test_texts_with_braces_of_their_own_are_no_templates(text: str) -> None:
    written = literal(text)
    render = Templates().compile(written)
    assert (render({}) if render else written) == text


def suite_of(*recordings: Recording, **wanted: Any) -> tuple[int, list[str]]:
    suite = RecordedSuite("t.jsonl", TaskMaker(), WantedRecordings(**wanted))
    count = len(list(suite.tasks(recordings)))
    return count, list(suite.notes())


def test_what_is_passed_over_is_told_with_the_reason() -> None:
    good, failed = recorded(), recorded("Refund?", answer=None, case_id="refund")
    assert suite_of(good, good)[1] == ["passed over, repeats a case: 1 (order)"]
    assert suite_of(good, failed, failed_only=True)[0] == 1
    assert "passed over, beyond the limit of 1: 1 (refund)" in suite_of(good, failed, limit=1)[1]
    assert suite_of(recorded(""))[1] == [
        "passed over, what the user asked was not recorded: 1 (order)"
    ]
    unnamed = recorded(case_id=None)
    assert suite_of(unnamed, unnamed)[0] == 1


def test_calls_without_a_result_are_answered_with_null_and_told() -> None:
    assert made(recorded("x", ORDER[0]))["fixtures"]["toolResponses"][0]["response"] is None
    assert suite_of(recorded("x", ORDER[0]))[1] == [
        "1 call without a recorded result: fixtures answer null"
    ]

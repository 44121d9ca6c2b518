"""The tool loop: what the model is asked, what its tool calls become, and how a talk can end."""

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loop_subjects import USAGE, Script, an_agent, answered_by, invoke, says, uses

from builders import a_suite, a_task
from evalwright.agents.protocol import Surroundings
from evalwright.agents.toolbox import LiveTool, Toolbox, ToolDescription, ToolFailed
from evalwright.agents.worlds import PreparedWorld
from evalwright.contracts.attachments import AttachedFile
from evalwright.contracts.suite import Expected, ToolFault, UserTurn, World, WorldTool
from evalwright.models.protocol import ChatMessage, Finish, ModelError, Reply
from subjects.runs import Workshop

ORDERS = "shop:orders.get"
REFUND = "shop:refund"
BOTH = answered_by((ORDERS, {"status": "shipped"}), (REFUND, "done"))


def live(*tools: LiveTool, read_only: bool = False) -> Surroundings:
    return Surroundings(toolbox=Toolbox(tools), live=True, read_only=read_only)


def a_tool(name: str, call: Any, *, writes: bool = True) -> LiveTool:
    return LiveTool(ToolDescription(name, writes=writes), call)


# What the model is asked.


def test_the_prompt_and_the_input_go_to_the_model_and_its_answer_comes_back(tmp_path: Path):
    model = Script(says("yes"))
    told = invoke(an_agent(tmp_path, model), a_task(input="Is it open?"))
    assert told.output == "yes"
    (request,) = model.requests
    assert request.messages == (
        ChatMessage("system", "You are a clerk."),
        ChatMessage("user", "Is it open?"),
    )
    assert request.tools == ()
    assert request.output is None
    assert told.invocation.usages == [USAGE]


def test_an_image_of_the_input_goes_with_its_text(tmp_path: Path):
    picture = {"name": "a.png", "type": "image/png", "bytes": 3, "sha256": "1", "data": "YWJj"}
    told = AttachedFile("image", "a.png", "image/png", "YWJj")
    model = Script(says("a cat"))
    invoke(
        an_agent(tmp_path, model), a_task(input=["What", {"image": picture}, {"text": "is it?"}])
    )
    message = ChatMessage("user", "What\n\nis it?", attachments=(told,))
    assert model.requests[0].messages[1] == message
    said = {"messages": [{"role": "user", "content": ["Look", {"image": picture}]}]}
    invoke(an_agent(tmp_path, model := Script(says("a cat"))), a_task(input=said))
    message = model.requests[0].messages[1]
    assert "YWJj" not in message.content
    assert message.attachments == (told,)


def test_an_input_that_is_no_text_is_sent_as_json(tmp_path: Path):
    model = Script(says("yes"))
    invoke(an_agent(tmp_path, model), a_task(input={"q": "Ärger?", "n": 1}))
    assert model.requests[0].messages[1].content == '{"q":"Ärger?","n":1}'


def test_the_whole_allowlist_is_offered_whatever_the_fixtures_answer(tmp_path: Path):
    model = Script(says("yes"))
    toolbox = Toolbox([LiveTool(ToolDescription(REFUND, "Gives money back.", {"type": "object"}))])
    agent = an_agent(tmp_path, model, toolAllowlist=[ORDERS, REFUND, ORDERS])
    invoke(agent, answered_by((ORDERS, 1), ("shop:other", 2)), Surroundings(toolbox=toolbox))
    orders, refund = model.requests[0].tools
    assert (orders.name, refund.name) == ("shop_orders_get", "shop_refund")
    assert refund.description == "Gives money back."
    assert refund.parameters == {"type": "object", "properties": {}}


def test_a_live_run_offers_the_allowed_tools_that_can_be_called(tmp_path: Path):
    async def call(arguments: dict[str, Any]) -> Any:
        return arguments

    model = Script(says("yes"))
    agent = an_agent(tmp_path, model, toolAllowlist=[ORDERS, REFUND, "shop:none"])
    told_only = LiveTool(ToolDescription(REFUND))
    invoke(agent, BOTH, live(a_tool(ORDERS, call), told_only, a_tool("shop:other", call)))
    assert [tool.name for tool in model.requests[0].tools] == ["shop_orders_get"]


def test_without_an_allowlist_no_tool_is_offered_and_none_may_be_called(tmp_path: Path):
    model = Script(uses((ORDERS, {})), says("yes"))
    told = invoke(an_agent(tmp_path, model), BOTH)
    assert model.requests[0].tools == ()
    assert told.of("agent.toolReturned")[0]["status"] == "forbidden"


# Tool calls.


def test_a_tool_call_is_answered_recorded_and_shown_to_the_model(tmp_path: Path):
    model = Script(
        uses(("shop_orders_get", {"id": "A-17"}), text="Let me look.", reasoning="hmm"), says("yes")
    )
    told = invoke(an_agent(tmp_path, model, toolAllowlist=[ORDERS]), BOTH)
    assert told.output == "yes"
    assert [event["type"] for event in told.events] == [
        "provider.usage",
        "agent.reasoned",
        "agent.reasoned",
        "agent.toolCalled",
        "agent.toolReturned",
        "provider.usage",
    ]
    assert [event["reasoning"] for event in told.of("agent.reasoned")] == ["hmm", "Let me look."]
    (called,) = told.of("agent.toolCalled")
    assert (called["toolName"], called["inputs"]) == (ORDERS, {"id": "A-17"})
    (returned,) = told.of("agent.toolReturned")
    assert (returned["outcome"], returned["status"]) == ({"status": "shipped"}, "ok")
    assistant, tool = model.requests[1].messages[2:]
    assert assistant.tool_uses == model.turns[0].tool_uses
    assert tool == ChatMessage("tool", '{"status":"shipped"}', call_id="call_0")
    assert told.invocation.usages == [USAGE, USAGE]


def test_several_calls_of_one_turn_are_answered_in_order(tmp_path: Path):
    model = Script(
        uses(("shop_refund", {}), ("shop_orders_get", {}), ("shop_refund", {})), says("y")
    )
    told = invoke(an_agent(tmp_path, model, toolAllowlist=[ORDERS, REFUND]), BOTH)
    assert [call["toolName"] for call in told.of("agent.toolCalled")] == [REFUND, ORDERS, REFUND]
    answers = [(m.call_id, m.content) for m in model.requests[1].messages if m.role == "tool"]
    assert answers == [("call_0", "done"), ("call_1", '{"status":"shipped"}'), ("call_2", "done")]


def test_a_call_without_arguments_may_have_no_text_at_all(tmp_path: Path):
    model = Script(uses(("shop_orders_get", " ")), says("yes"))
    told = invoke(an_agent(tmp_path, model, toolAllowlist=[ORDERS]), BOTH)
    assert told.of("agent.toolCalled")[0]["inputs"] == {}
    assert told.of("agent.toolReturned")[0]["status"] == "ok"


@pytest.mark.parametrize("arguments", ["{", "[1]", '"x"', "null", "{} {}", "NaN", "[" * 5000])
def test_arguments_that_are_no_json_object_are_recorded_and_refused(tmp_path: Path, arguments):
    model = Script(uses(("shop_orders_get", arguments)), says("yes"))
    told = invoke(an_agent(tmp_path, model, toolAllowlist=[ORDERS]), BOTH)
    assert told.output == "yes"
    assert told.of("agent.toolCalled")[0]["inputs"] == arguments
    (returned,) = told.of("agent.toolReturned")
    assert returned["error"]["code"] == "invalid_arguments"
    assert returned["status"] == "error"
    assert "outcome" not in returned
    assert "arguments" in json.loads(model.requests[1].messages[-1].content)["error"]


@pytest.mark.parametrize("asked", ["shop_refund", "shop:refund"])
@pytest.mark.parametrize("arguments", [{"amount": 5}, "not json"])
def test_a_tool_that_is_not_allowed_is_refused_before_it_is_called(
    tmp_path: Path, asked: str, arguments: Any
):
    model = Script(uses((asked, arguments)), says("yes"))
    told = invoke(an_agent(tmp_path, model, toolAllowlist=[ORDERS]), BOTH)
    (called,) = told.of("agent.toolCalled")
    assert called["toolName"] == REFUND
    (returned,) = told.of("agent.toolReturned")
    assert returned["error"]["code"] == "tool_not_allowed"
    assert returned["status"] == "forbidden"
    assert "toolAllowlist" in json.loads(model.requests[1].messages[-1].content)["error"]


@pytest.mark.parametrize("asked", ["rm_rf", "", "é" * 300])
def test_a_tool_that_nobody_knows_is_refused_under_the_name_the_model_gave(
    tmp_path: Path, asked: str
):
    model = Script(uses((asked, {})), says("yes"))
    told = invoke(an_agent(tmp_path, model, toolAllowlist=[ORDERS]), BOTH)
    (called,) = told.of("agent.toolCalled")
    assert called["toolName"] == (asked or "(no name)")
    assert told.of("agent.toolReturned")[0]["status"] == "forbidden"
    assert told.output == "yes"


def test_an_allowed_tool_without_a_fixture_fails_and_the_model_may_go_on(tmp_path: Path):
    model = Script(uses(("shop_refund", {})), says("yes"))
    told = invoke(an_agent(tmp_path, model, toolAllowlist=[REFUND]), answered_by((ORDERS, 1)))
    (returned,) = told.of("agent.toolReturned")
    assert (returned["error"]["code"], returned["status"]) == ("no_fixture", "error")
    assert told.output == "yes"


def test_a_live_tool_that_fails_is_an_answer_for_the_model(tmp_path: Path):
    async def broken(arguments: dict[str, Any]) -> Any:
        raise ToolFailed("tool_error", "the shop is closed")

    model = Script(uses(("shop_orders_get", {})), says("sorry"))
    agent = an_agent(tmp_path, model, toolAllowlist=[ORDERS])
    told = invoke(agent, BOTH, live(a_tool(ORDERS, broken)))
    assert told.of("agent.toolReturned")[0]["error"]["code"] == "tool_error"
    assert model.requests[1].messages[-1].content == '{"error":"the shop is closed"}'
    assert told.output == "sorry"


def test_a_read_only_run_refuses_tools_that_may_write(tmp_path: Path):
    called = []

    async def note(arguments: dict[str, Any]) -> Any:
        called.append(arguments)
        return "ok"

    model = Script(uses(("shop_refund", {}), ("shop_orders_get", {})), says("yes"))
    agent = an_agent(tmp_path, model, toolAllowlist=[ORDERS, REFUND])
    tools = a_tool(ORDERS, note, writes=False), a_tool(REFUND, note)
    told = invoke(agent, BOTH, live(*tools, read_only=True))
    refused, answered = told.of("agent.toolReturned")
    assert (refused["error"]["code"], refused["status"]) == ("read_only", "forbidden")
    assert answered["status"] == "ok"
    assert called == [{}]


names = st.sampled_from(["shop_orders_get", "shop_refund", ORDERS, REFUND]) | st.text(max_size=9)
arguments = st.sampled_from(["{}", '{"id": 1}', "", "[]", "{"]) | st.text(max_size=9)
replies = st.one_of(
    st.lists(st.tuples(names, arguments), min_size=1, max_size=4).map(lambda calls: uses(*calls)),
    st.builds(
        Reply,
        st.text(),
        st.sampled_from(["stop", "length", "refusal", "filtered", "tools"]),
        st.just(USAGE),
    ),
    st.just(ModelError("timeout", "too slow")),
)


@given(st.lists(replies, min_size=1, max_size=6))
def test_whatever_a_model_says_there_is_an_answer_or_a_failure_and_every_call_has_its_return(turns):
    with tempfile.TemporaryDirectory() as folder:
        agent = an_agent(Path(folder), Script(*turns), toolAllowlist=[ORDERS])
    told = invoke(agent, BOTH)
    assert (told.failure is None) is isinstance(told.output, str)
    beside = ("agent.reasoned", "provider.usage")
    kinds = [event["type"] for event in told.events if event["type"] not in beside]
    assert kinds == ["agent.toolCalled", "agent.toolReturned"] * (len(kinds) // 2)
    returns = told.of("agent.toolReturned")
    assert [call["callId"] for call in told.of("agent.toolCalled")] == [
        r["callId"] for r in returns
    ]
    assert all(r["status"] == "forbidden" for r in returns if r["toolName"] != ORDERS)


# How it ends.


def test_a_model_that_never_stops_asking_runs_into_the_turn_limit(tmp_path: Path):
    model = Script(uses(("shop_orders_get", {})))
    told = invoke(an_agent(tmp_path, model, turns=3, toolAllowlist=[ORDERS]), BOTH)
    assert told.failure is not None
    assert told.failure.error.code == "turn_limit"
    assert len(model.requests) == len(told.invocation.usages) == 3
    assert len(told.of("agent.toolCalled")) == 2  # nobody would read the third answer


def test_an_answer_on_the_last_turn_counts(tmp_path: Path):
    model = Script(uses(("shop_orders_get", {})), says("yes"))
    told = invoke(an_agent(tmp_path, model, turns=2, toolAllowlist=[ORDERS]), BOTH)
    assert told.output == "yes"


@pytest.mark.parametrize(
    ("finish", "code"), [("length", "output_truncated"), ("filtered", "output_filtered")]
)
def test_an_answer_that_was_cut_off_is_a_failure(tmp_path: Path, finish: Finish, code: str):
    told = invoke(an_agent(tmp_path, Script(Reply("ye", finish, USAGE))))
    assert told.failure is not None
    assert told.failure.error.code == code
    assert told.invocation.usages == [USAGE]


@pytest.mark.parametrize("turns_before", [0, 1])
def test_a_refusal_on_any_turn_is_marked_and_its_words_are_the_output(
    tmp_path: Path, turns_before: int
):
    before = [uses(("shop_orders_get", {}))] * turns_before
    model = Script(*before, Reply("I will not.", "refusal", USAGE))
    told = invoke(an_agent(tmp_path, model, toolAllowlist=[ORDERS]), BOTH)
    assert told.invocation.refused
    assert told.output == "I will not."
    assert told.failure is None


def test_an_ordinary_answer_is_no_refusal(tmp_path: Path):
    assert not invoke(an_agent(tmp_path, Script(says("yes")))).invocation.refused


def test_a_model_that_cannot_be_asked_is_a_failure_with_its_code(tmp_path: Path):
    model = Script(uses(("shop_orders_get", {})), ModelError("rate_limited", "slow down"))
    told = invoke(an_agent(tmp_path, model, toolAllowlist=[ORDERS]), BOTH)
    assert told.failure is not None
    assert (told.failure.error.code, told.failure.error.message) == ("rate_limited", "slow down")
    assert told.invocation.usages == [USAGE]


def test_the_model_closes_with_its_agent(tmp_path: Path):
    model = Script(says("yes"))
    asyncio.run(an_agent(tmp_path, model).close())
    assert model.closed


# Worlds.


def test_a_model_is_offered_the_tools_of_the_world_and_told_of_faults(tmp_path: Path):
    order = {"id": "A-17", "days": 40}
    world = World(
        {"orders": [order], "refunds": []},
        {
            ORDERS: WorldTool(get="orders"),
            REFUND: WorldTool(create="refunds", description="Gives money back."),
        },
    )
    model = Script(
        uses(("shop_orders_get", {"id": "A-17"})),
        uses(("shop_orders_get", {"id": "A-17"}), ("shop_refund", {"order": "A-17"})),
        says("done"),
    )
    task = msgspec.structs.replace(
        a_task(), world="shop", faults=[ToolFault("timeout", ORDERS, on=1)]
    )
    agent = an_agent(tmp_path, model, toolAllowlist=[ORDERS, REFUND])
    worlds = {"shop": PreparedWorld("shop", world, {})}
    told = invoke(agent, task, Surroundings(worlds=worlds))
    offered = {each.name: each for each in model.requests[0].tools}
    assert offered["shop_orders_get"].parameters["required"] == ["id"]
    assert offered["shop_refund"].description == "Gives money back."
    results = [each.content for each in model.requests[-1].messages if each.role == "tool"]
    error, got, refund = map(json.loads, results)
    assert error == {"error": "the tool did not answer in time"}
    assert got == order
    changed = told.invocation.world_changes()
    assert changed is not None
    assert [each.after for each in changed.changes] == [refund]


def test_a_model_that_is_asked_again_knows_what_was_said(tmp_path: Path, workshop: Workshop):
    model = Script(uses((ORDERS, {})), says("first"), says("second"))
    turns = [UserTurn("one", [{"equals": "first"}]), UserTurn("two", [{"equals": "second"}])]
    task = msgspec.structs.replace(
        answered_by((ORDERS, "sent")), turns=turns, expected=Expected("checks", checks=[])
    )
    recording = workshop.run(a_suite([task]), an_agent(tmp_path, model, toolAllowlist=[ORDERS]))
    assert recording.summary.passed
    said = [(each.role, each.content) for each in model.requests[-1].messages]
    assert said == [
        ("system", "You are a clerk."),
        ("user", "one"),
        ("assistant", ""),
        ("tool", "sent"),
        ("assistant", "first"),
        ("user", "two"),
    ]

"""Worlds and the tools of a task: what they answer, what they leave, and what strikes them."""

from typing import Any

import msgspec
import pytest

from evalwright.agents.task_tools import TaskTools, ToolReply
from evalwright.agents.toolbox import ToolFailed
from evalwright.agents.worlds import PreparedWorld, WorldState
from evalwright.contracts.events import RowChange
from evalwright.contracts.suite import (
    Expected,
    Fixtures,
    Task,
    ToolFault,
    ToolResponse,
    World,
    WorldTool,
)
from evalwright.scoring.checks.base import EndState

ORDERS = [{"id": "A-17", "state": "sent", "days": 40}, {"id": "A-18", "state": "lost", "days": 3}]
TOOLS = {
    "orders.get": WorldTool(get="orders"),
    "orders.find": WorldTool(find="orders"),
    "orders.update": WorldTool(update="orders"),
    "orders.delete": WorldTool(delete="orders"),
    "refunds.create": WorldTool(create="refunds"),
    "policy": WorldTool(python="w.py:policy"),
    "broken": WorldTool(python="w.py:broken"),
}


def policy(world: WorldState, days: int = 30) -> dict[str, Any]:
    """How long a refund is possible."""
    taken = world.find("orders")
    taken[0]["state"] = "spoilt by the tool"
    return {"days": days, "orders": len(taken)}


def broken(world: WorldState) -> None:
    world.create("refunds", {"order": "A-17"})
    raise KeyError("no luck")


FUNCTIONS = {"w.py:policy": policy, "w.py:broken": broken}


def a_world(**data: list[dict[str, Any]]) -> PreparedWorld:
    world = World({"orders": ORDERS, "refunds": []} | data, TOOLS)
    return PreparedWorld("shop", world, FUNCTIONS)


def tools(
    *faults: ToolFault, responses: tuple[ToolResponse, ...] = (), seed: int = 0, world: bool = True
) -> TaskTools:
    fixtures = Fixtures(tool_responses=list(responses)) if responses else None
    task = Task("t", "?", Expected("checks"), fixtures, world="shop", faults=list(faults))
    return TaskTools(task, a_world() if world else None, seed)


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"more": value}
    return value


@pytest.mark.parametrize("value", [float("nan"), float("inf"), deep(200)], ids=repr)
def test_a_world_takes_nothing_that_a_log_cannot_hold(value: Any) -> None:
    world = WorldState(a_world(), "0")
    for write in (
        lambda: world.create("refunds", {"amount": [value]}),
        lambda: world.update("orders", {"id": "A-17"}, {"amount": value}),
    ):
        with pytest.raises(ToolFailed, match=r"not a number that JSON can carry|nested more than"):
            write()
    assert world.changes().changes == []


def test_a_task_cannot_fill_the_memory_with_its_world() -> None:
    world = WorldState(a_world(), "0")
    for _ in range(16):
        world.create("refunds", {"text": "x" * 1_000_000})
    with pytest.raises(ToolFailed, match="a task can write 16 MiB to its world") as full:
        world.create("refunds", {"text": "x" * 1_000_000})
    assert full.value.code == "world_full"
    assert len(world.find("refunds")) == 16


def said(of: TaskTools, tool: str, **args: Any) -> Any:
    """What a tool answers: a value, or the code of its error."""
    reply = of.answer(tool, msgspec.Raw(msgspec.json.encode(args)))
    reply = reply if isinstance(reply, ToolReply) else reply()
    return reply.error.code if reply.error else msgspec.json.decode(reply.outcome)


def test_tools_without_code_read_and_change_rows() -> None:
    shop = tools()
    assert said(shop, "orders.get", id="A-17") == ORDERS[0]
    assert said(shop, "orders.find", state="lost") == [ORDERS[1]]
    assert said(shop, "orders.find", state="lost", days=4) == []
    assert said(shop, "orders.update", id="A-17", state="back")["state"] == "back"
    assert said(shop, "orders.find", state="back") == [ORDERS[0] | {"state": "back"}]
    assert said(shop, "orders.delete", id="A-18") == ORDERS[1]
    assert [each["id"] for each in said(shop, "orders.find")] == ["A-17"]
    assert ORDERS[0]["state"] == "sent"


@pytest.mark.parametrize(
    ("tool", "args", "code"),
    [
        ("orders.get", {"id": "A-99"}, "not_found"),
        ("orders.get", {}, "invalid_arguments"),
        ("orders.get", {"id": "A-17", "state": "sent"}, "invalid_arguments"),
        ("orders.delete", {"id": 17}, "not_found"),
        ("orders.update", {"state": "back"}, "invalid_arguments"),
        ("broken", {}, "tool_error"),
        ("policy", {"weeks": 1}, "tool_error"),
        ("mail.send", {}, "no_fixture"),
    ],
)
def test_a_call_that_cannot_be_answered_is_an_error_with_a_code(
    tool: str, args: dict[str, Any], code: str
) -> None:
    assert said(tools(), tool, **args) == code


def test_ids_are_made_by_the_seed_and_follow_on_where_they_are_numbers() -> None:
    made = [said(tools(seed=seed), "refunds.create", order="A-17")["id"] for seed in (1, 1, 2)]
    assert made[0] == made[1] != made[2]
    shop = tools()
    ids = [said(shop, "refunds.create", order="A-17")["id"] for _ in range(3)]
    assert len(set(ids)) == 3
    assert said(shop, "refunds.create", id=ids[0]) == "already_exists"
    counted = WorldState(a_world(refunds=[{"id": 7}]), "0:t")
    assert counted.create("refunds", {})["id"] == 8


def test_what_was_left_is_what_changed_and_nothing_that_became_as_it_was() -> None:
    shop = tools()
    said(shop, "orders.update", id="A-17", state="back")
    said(shop, "orders.update", id="A-17", state="sent")
    said(shop, "orders.update", id="A-18", state="found")
    new = said(shop, "refunds.create", order="A-17")
    said(shop, "refunds.create", id="short-lived")
    shop.world.delete("refunds", id="short-lived")  # type: ignore[union-attr]
    changed = shop.world.changes()  # type: ignore[union-attr]
    after = ORDERS[1] | {"state": "found"}
    assert changed.changes == [
        RowChange("orders", 1, ORDERS[1], after),
        RowChange("refunds", 0, after=new),
    ]
    end = EndState({"orders": ORDERS, "refunds": []}, changed.changes).after
    assert end == {"orders": [ORDERS[0], after], "refunds": [new]}


def test_neither_tools_nor_agents_can_spoil_what_others_see() -> None:
    first, second = tools(), tools()
    assert said(first, "policy", days=2) == {"days": 2, "orders": 2}
    given = {"order": {"deep": ["A-17"]}}
    reply = first.answer("refunds.create", msgspec.Raw(msgspec.json.encode(given)))
    assert isinstance(reply, ToolReply)
    msgspec.json.decode(reply.outcome)["order"]["deep"].append("spoilt")
    assert said(second, "orders.find") == ORDERS
    assert first.world.find("refunds")[0]["order"] == {"deep": ["A-17"]}  # type: ignore[union-attr]
    assert second.world.find("refunds") == []  # type: ignore[union-attr]


def test_functions_read_and_change_by_values() -> None:
    world = WorldState(a_world(), "0:t")
    assert world.get("orders", state="lost") == ORDERS[1]
    assert world.get("orders", state="eaten") is None
    assert world.update("orders", {"state": "lost"}, {"state": "found"})[0]["days"] == 3
    assert world.delete("orders", state="sent") == [ORDERS[0]]
    assert [each["state"] for each in world.find("orders")] == ["found"]
    with pytest.raises(LookupError, match="no collection is called 'order': orders, refunds"):
        world.find("order")
    with pytest.raises(ToolFailed, match='orders has id "A-18" already'):
        world.create("orders", {"id": "A-18"})


def test_a_model_is_told_what_rows_and_signatures_say() -> None:
    world = a_world(orders=[{"id": "A-17", "days": 1}, {"id": "A-18", "days": None}])
    get, find, create = (
        world.describe(each) for each in ("orders.get", "orders.find", "refunds.create")
    )
    assert get.parameters == {
        "type": "object",
        "properties": {"id": {"type": "string"}},
        "required": ["id"],
        "additionalProperties": False,
    }
    assert find.parameters["properties"]["days"] == {"type": ["integer", "null"]}
    assert (get.writes, find.writes, create.writes) == (False, False, True)
    told = world.describe("policy")
    assert told.description == "How long a refund is possible."
    assert told.parameters["properties"] == {"days": {"type": "integer"}}
    assert "required" not in told.parameters


RESPONSES = (
    ToolResponse("orders.get", "any"),
    ToolResponse("orders.get", "empty", {"with": {}}),
    ToolResponse("orders.get", "first", {"id": "A-17"}),
    ToolResponse("orders.get", "second", {"id": "A-17"}),
    ToolResponse("orders.get", "nested", {"id": "A-17", "with": {"carrier": True}}),
)


@pytest.mark.parametrize(
    ("args", "answers"),
    [
        ({"id": "A-17"}, ["first", "second", "second"]),
        ({"id": "A-17", "with": {"carrier": True, "x": 1}}, ["nested", "nested"]),
        ({"id": "A-17", "with": {"carrier": 1}}, ["first"]),
        ({"id": "B-1", "with": {}}, ["empty"]),
        ({}, ["any", "any"]),
    ],
)
def test_of_responses_that_fit_the_most_specific_one_answers(
    args: dict[str, Any], answers: list[str]
) -> None:
    fixed = tools(responses=RESPONSES, world=False)
    assert [said(fixed, "orders.get", **args) for _ in answers] == answers


def test_a_response_answers_before_the_world_where_its_arguments_fit() -> None:
    shop = tools(responses=RESPONSES[1:])
    assert said(shop, "orders.get", id="A-17") == "first"
    assert said(shop, "orders.get", id="A-18") == ORDERS[1]
    assert said(tools(responses=RESPONSES[1:], world=False), "orders.get") == "no_fixture"


def struck(fault: ToolFault, calls: int = 5, seed: int = 0) -> list[bool]:
    shop = tools(fault, seed=seed)
    return [said(shop, "orders.find") == "tool_error" for _ in range(calls)]


@pytest.mark.parametrize(
    ("fault", "calls"),
    [
        (ToolFault("error"), [1, 1, 1, 1, 1]),
        (ToolFault("error", on=2), [0, 1, 0, 0, 0]),
        (ToolFault("error", times=2), [1, 1, 0, 0, 0]),
        (ToolFault("error", on=2, times=3), [0, 1, 1, 1, 0]),
        (ToolFault("error", tool="orders.get"), [0, 0, 0, 0, 0]),
        (ToolFault("error", tool="*", on=3), [0, 0, 1, 0, 0]),
        (ToolFault("error", rate=0), [0, 0, 0, 0, 0]),
        (ToolFault("error", rate=1, on=4), [0, 0, 0, 1, 1]),
    ],
)
def test_a_fault_strikes_the_calls_that_it_names(fault: ToolFault, calls: list[int]) -> None:
    assert struck(fault) == calls


def test_a_rate_is_a_share_of_calls_by_the_seed() -> None:
    often = struck(ToolFault("error", rate=0.25), 2000)
    assert 420 < sum(often) < 580
    assert often == struck(ToolFault("error", rate=0.25), 2000)
    assert often != struck(ToolFault("error", rate=0.25), 2000, seed=1)
    assert sum(struck(ToolFault("error", rate=0.5, times=3), 100)) == 3


def test_each_kind_of_fault_does_what_it_is_called() -> None:
    assert said(tools(ToolFault("timeout")), "orders.find") == "tool_timeout"
    assert said(tools(ToolFault("rate_limited")), "orders.find") == "rate_limited"
    assert said(tools(ToolFault("slow", seconds=0)), "orders.find") == ORDERS
    assert said(tools(ToolFault("empty")), "orders.find") == []
    assert said(tools(ToolFault("empty")), "orders.get", id="A-17") == {}
    text = msgspec.json.encode(ORDERS[0]).decode()
    cut = said(tools(ToolFault("truncated")), "orders.get", id="A-17")
    assert text.startswith(cut)
    assert len(cut) == len(text) // 2
    garbage = said(tools(ToolFault("garbage")), "orders.get", id="A-17")
    assert isinstance(garbage, str)
    assert garbage.isprintable()
    assert "A-17" not in garbage


def test_a_tool_that_fails_does_nothing_and_a_stale_one_forgets() -> None:
    failing = tools(ToolFault("timeout", "refunds.create", on=1))
    assert said(failing, "refunds.create", order="A-17") == "tool_timeout"
    assert failing.world.changes().changes == []  # type: ignore[union-attr]
    stale = tools(ToolFault("stale", "orders.get", on=1))
    said(stale, "orders.update", id="A-17", state="back")
    assert said(stale, "orders.get", id="A-17")["state"] == "sent"
    assert said(stale, "orders.get", id="A-17")["state"] == "back"
    fixed = tools(ToolFault("stale", on=3), responses=RESPONSES, world=False)
    assert [said(fixed, "orders.get", id="A-17") for _ in range(3)] == ["first", "second", "first"]

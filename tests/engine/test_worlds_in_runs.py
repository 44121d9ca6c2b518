"""Worlds and faults in a run: for every kind of agent, and in everything that reads its log."""

import asyncio
import json
import re
import shlex
import sys
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

import evalwright as ew
from builders import a_suite
from evalwright.agents.gateway import Gateway
from evalwright.agents.load import load_agent
from evalwright.contracts.errors import BadInput, InvalidDocument
from evalwright.contracts.events import WorldChanged
from evalwright.contracts.run_plan import RunOptions
from evalwright.contracts.suite import Expected, Suite, Task, ToolFault, World, WorldTool
from evalwright.engine.replay import replay_run
from evalwright.engine.rescore import plan_rescore
from evalwright.store.location import opened_log
from subjects.command import SUBJECTS
from subjects.runs import Workshop

DATA = {"orders": [{"id": "A-17", "days": 40}, {"id": "A-18", "days": 3}], "refunds": []}


def policy(world: Any, days: int = 30) -> dict[str, Any]:
    return {"days": days, "orders": len(world.find("orders"))}


TOOLS = {
    "shop:orders.get": {"get": "orders"},
    "shop:orders.list": {"find": "orders"},
    "shop:refunds.create": {"create": "refunds"},
    "shop:policy": policy,
}
SHOP = ew.world("shop", data=DATA, tools=TOOLS)
REFUNDED = [
    ew.state("$.refunds", subset=[{"order": "A-18"}], changed=True),
    ew.state("$.orders", unchanged=True),
]


def refund(task: Any) -> str:
    """An agent that asks again once, and spoils whatever it was given."""
    try:
        order = task.call_tool("shop:orders.get", {"id": task.input})
    except ew.ToolError as error:
        if error.code not in ("tool_timeout", "rate_limited"):
            return f"failed: {error.code}"
        order = task.call_tool("shop:orders.get", {"id": task.input})
    late = order["days"] > task.call_tool("shop:policy")["days"]
    order["days"] = 0
    task.call_tool("shop:orders.list").clear()
    if late:
        return "too late"
    return f"refunded: {task.call_tool('shop:refunds.create', {'order': order['id']})['id']}"


async def refund_async(task: Any) -> str:
    order = await task.call_tool("shop:orders.get", {"id": task.input})
    late = order["days"] > (await task.call_tool("shop:policy"))["days"]
    if late:
        return "too late"
    made = await task.call_tool("shop:refunds.create", {"order": order["id"]})
    return f"refunded: {made['id']}"


@ew.tool(name="shop:orders.get")
def get_order(id: str) -> dict[str, Any]:  # noqa: A002
    raise RuntimeError("the shop itself is never asked")


async def refund_by_own_tool(task: Any) -> str:
    try:
        order = get_order(task.input)
    except ew.ToolError:
        order = get_order(id=task.input)
    if order["days"] > (await task.call_tool("shop:policy"))["days"]:
        return "too late"
    await task.call_tool("shop:refunds.create", {"order": order["id"]})
    return "refunded"


def tasks(**fields: Any) -> list[ew.Task]:
    late = [ew.contains("too late"), ew.state(unchanged=True)]
    return [
        ew.Task("late", input="A-17", world=SHOP, checks=late, **fields),
        ew.Task("early", input="A-18", world=SHOP, checks=[ew.contains("refunded"), *REFUNDED]),
        ew.Task("again", input="A-18", world=SHOP, checks=REFUNDED, repeat=2),
    ]


@pytest.mark.parametrize("isolate", [False, True])
@pytest.mark.parametrize("agent", [refund, refund_async, refund_by_own_tool])
def test_every_task_and_repetition_has_the_world_afresh(agent: Any, *, isolate: bool) -> None:
    run = ew.run(tasks(), agent, isolate=isolate, concurrency=4)
    assert run.passed, run.report()


def a_log(tmp_path: Path, run: Any, kind: str) -> list[tuple[str, dict[str, Any]]]:
    with opened_log(str(tmp_path / "a.db")) as log:
        return [(each.task_id or "", each.payload()) for each in log.read(run.id, (kind,))]


def test_what_became_of_a_world_is_recorded_before_the_answer(tmp_path: Path) -> None:
    run = ew.run(tasks()[:2], refund, db=tmp_path / "a.db", seed=3)
    changed = dict(a_log(tmp_path, run, WorldChanged.TYPE))
    refunded = run.tasks["early"].output.partition(": ")[2]
    row = {"id": refunded, "order": "A-18"}
    assert changed == {
        "late": {"world": "shop"},
        "early": {"world": "shop", "changes": [{"collection": "refunds", "row": 0, "after": row}]},
    }
    again = ew.run(tasks()[:2], refund, db=tmp_path / "a.db", seed=3)
    other = ew.run(tasks()[:2], refund, db=tmp_path / "a.db")
    outputs = [each.tasks["early"].output for each in (run, again, other)]
    assert outputs[0] == outputs[1] != outputs[2]


def test_a_replay_and_new_checks_need_no_world(tmp_path: Path) -> None:
    run = ew.run(tasks(), refund, db=tmp_path / "a.db")
    with opened_log(str(tmp_path / "a.db")) as log:
        assert replay_run(log, run.id).summary.passed

    def rescored(world: Any, check: Any, **fields: Any) -> Any:
        task = ew.Task("early", input="A-18", world=world, checks=[check], **fields)
        suite = ew.Suite("suite", tasks=[task])
        with opened_log(str(tmp_path / "a.db")) as log:
            made = plan_rescore(log, run.id, suite.subject(), "suite", RunOptions())
            return asyncio.run(made.run(log)).summary

    assert rescored(SHOP, ew.state("$.refunds[0].order", ew.equals("A-18"))).passed
    assert not rescored(SHOP, ew.state("$.refunds", equals=[])).passed
    moved = ew.world("shop", data=DATA | {"orders": []}, tools={"a": {"find": "orders"}})
    with pytest.raises(BadInput, match="no task"):
        rescored(moved, ew.state(changed=True))
    other = ew.world("shop", data=DATA, tools={"a": {"find": "orders"}})
    with pytest.raises(BadInput, match="no task"):
        rescored(other, ew.state(changed=True))
    fixed = {"toolResponses": [{"tool": "shop:orders.get", "response": {}}]}
    with pytest.raises(BadInput, match="no task"):
        rescored(SHOP, ew.state(changed=True), fixtures=fixed)
    with pytest.raises(BadInput, match="no task"):  # nobody saw what it does about a fault
        rescored(SHOP, ew.state(changed=True), faults=[{"fault": "error"}])


@pytest.mark.parametrize(
    "check", [ew.state("$.refundz", changed=True), ew.state("$[0]", equals=[])]
)
def test_nothing_passes_that_looks_at_a_collection_which_is_not_there(check: Any) -> None:
    task = ew.Task("early", input="A-18", world=SHOP, checks=[ew.not_(check)])
    run = ew.run([task], refund)
    (result,) = run.tasks["early"].checks
    assert not run.passed
    assert "there are: orders, refunds" in result.reason


def test_what_was_meant_is_looked_for_among_few_and_short_names() -> None:
    data = {f"{'r' * 300}{number}": [] for number in range(2000)}
    tools = {f"t{number}": {"get": "r" * 300} for number in range(900)}
    world = ew.world("shop", data=data, tools=tools)
    with pytest.raises(InvalidDocument, match=r"there are: r+, .* and others"):
        ew.Suite("s", tasks=[ew.Task("t", input=1, world=world, checks=[ew.equals(1)])]).subject()


def test_recorded_answers_are_scored_where_the_functions_of_a_world_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "world.py").write_text("def add(world):\n    return world.create('log', {})\n")
    world = {"data": {"log": []}, "tools": {"add": {"python": "world.py:add"}}}
    task = {"id": "a", "input": 1, "world": "w", "checks": [{"state": {"path": "$.log[0].id"}}]}
    suite = {"evalwright": 1, "worlds": {"w": world}, "tasks": [task]}
    (tmp_path / "suite.json").write_text(json.dumps(suite))
    run = ew.run("suite.json", lambda task: task.call_tool("add")["id"], db=tmp_path / "a.db")
    assert run.passed, run.report()
    (tmp_path / "world.py").unlink()
    with opened_log(str(tmp_path / "a.db")) as log:
        rescored = plan_rescore(log, run.id, None, "suite", RunOptions())
        assert asyncio.run(rescored.run(log)).summary.passed


@pytest.mark.parametrize("isolate", [False, True])
def test_a_fault_reaches_the_agent_as_an_error_with_a_code_and_is_recorded(
    tmp_path: Path, *, isolate: bool
) -> None:
    faults = [{"tool": "shop:orders.get", "fault": "rate_limited", "on": 1}]
    run = ew.run(
        tasks(faults=faults)[:2], refund, db=tmp_path / "a.db", isolate=isolate, observe="none"
    )
    assert run.passed, run.report()
    returned = a_log(tmp_path, run, "agent.toolReturned")
    struck = [(task, each) for task, each in returned if "fault" in each]
    assert [(task, each["fault"], each["status"]) for task, each in struck] == [
        ("late", "rate_limited", "rate_limited")
    ]


def test_a_table_says_what_faults_did_to_the_pass_rate(tmp_path: Path) -> None:
    faulty = [
        ew.Task("a", input="A-18", world=SHOP, checks=REFUNDED),
        ew.Task(
            "a-timeout", input="A-18", world=SHOP, checks=REFUNDED, faults=[{"fault": "timeout"}]
        ),
        ew.Task(
            "a-once",
            input="A-18",
            world=SHOP,
            checks=REFUNDED,
            faults=[{"tool": "shop:orders.get", "fault": "timeout", "on": 1}],
        ),
        ew.Task(
            "never",
            input="A-18",
            world=SHOP,
            checks=REFUNDED,
            faults=[{"tool": "shop:policy", "fault": "timeout", "on": 5}],
        ),
    ]
    run = ew.run(faulty, refund, db=tmp_path / "a.db")
    report, page = run.report(), run.html()
    row = next(line.split() for line in report.splitlines() if line.startswith("  timeout"))
    assert row == ["timeout", "shop:orders.get", "2", "1", "(50.0%)", "1", "of", "1"]
    assert "the agent called nothing that was to fail in 1 task" in report
    cells = re.findall(r"<t[hd](?: [^>]*)?>(.*?)</t[hd]>", page[page.index("<h2>Faults</h2>") :])
    assert cells[:5] == ["Fault", "Tool", "Tasks", "Passed", "Without it"]
    assert cells[5:10] == ["timeout", "shop:orders.get", "2", "1 (50.0%)", "1 of 1"]
    assert "the agent called nothing that was to fail in 1 task" in page


WORLD = World({"orders": DATA["orders"], "refunds": []}, {
    "shop:orders.get": WorldTool(get="orders"),
    "shop:refunds.create": WorldTool(create="refunds", description="Give money back."),
})  # fmt: skip
LOST = ToolFault("timeout", "shop:orders.get", on=1)


def a_world_suite(*inputs: Any, **fields: Any) -> Suite:
    """A task for each input, which passes if there is one refund more."""
    more = {"path": "$.refunds", "changed": True, "schema": {"maxItems": 1}}
    made = [
        Task(
            f"task-{n}", each, Expected("checks", checks=[{"state": more}]), world="shop", **fields
        )
        for n, each in enumerate(inputs, 1)
    ]
    return msgspec.structs.replace(a_suite(made), worlds={"shop": WORLD})


CALLS = [["shop_orders_get", {"id": "A-17"}]] * 2 + [["shop_refunds_create", {"order": "A-17"}]]


def test_a_black_box_reaches_the_world_and_its_faults_over_mcp(workshop: Workshop) -> None:
    command = shlex.join([sys.executable, str(SUBJECTS / "mcp_client.py")])
    agent = load_agent(f"cmd:{command}", "acme.clerk", gateway=Gateway())
    suite = a_world_suite(CALLS, CALLS, faults=[LOST])
    recording = workshop.run(suite, agent, gateway=True)
    assert recording.summary.passed
    error, order, refund = recording.of("agent.decided")[0]["decision"]
    assert error == {"error": "the tool did not answer in time"}
    assert (order, refund["order"]) == (DATA["orders"][0], "A-17")
    assert [each.get("fault") for each in recording.of("agent.toolReturned")[:1]] == ["timeout"]


def test_a_black_box_that_could_not_reach_its_world_is_not_asked() -> None:
    for agent in ("cmd:cat", "http://127.0.0.1:1/"):
        with pytest.raises(InvalidDocument, match="has a world, which this agent would not meet"):
            ew.run(tasks(), agent)


def test_a_run_that_was_stopped_goes_on_with_its_worlds(workshop: Workshop) -> None:
    def agent(task: Any) -> Any:
        return task.call_tool("shop:refunds.create", {"order": task.input})

    stopped = workshop.stop(a_world_suite("A-17", "A-18"), agent, seed=4)
    resumed = workshop.resume(stopped, agent)
    whole = workshop.run(a_world_suite("A-17", "A-18"), agent, seed=4)
    assert resumed.summary.passed
    assert resumed.of(WorldChanged.TYPE) == whole.of(WorldChanged.TYPE)


def test_a_function_that_raises_fails_its_call_and_one_that_hangs_its_task() -> None:
    def spoilt(_world: Any, how: str) -> Any:
        if how == "raises":
            raise SystemExit("no luck")
        if how == "says":
            raise ew.ToolError("the till is closed", code="closed")
        if how == "gives":
            return {1: object()}
        return time.sleep(30)

    async def agent(task: Any) -> str:
        try:
            return str(await task.call_tool("spoilt", {"how": task.input}))
        except ew.ToolError as error:
            return f"{error.code}: {error}"

    def agent_sync(task: Any) -> str:
        try:
            return str(task.call_tool("spoilt", {"how": task.input}))
        except ew.ToolError as error:
            return f"{error.code}: {error}"

    world = ew.world("odd", data={}, tools={"spoilt": spoilt})
    wanted = {
        "raises": ew.contains("tool_error: SystemExit: no luck"),
        "says": ew.equals("closed: the till is closed"),
        "gives": ew.contains("not a JSON value"),
        "hangs": ew.equals("?"),
    }
    odd = [ew.Task(each, input=each, world=world, checks=[wanted[each]]) for each in wanted]
    for each in (agent, agent_sync):
        run = ew.run(odd, each, task_timeout_s=0.5)
        assert {name for name, task in run.tasks.items() if task.passed} == {
            "raises",
            "says",
            "gives",
        }
        assert run.tasks["hangs"].error["code"] == "agent_timeout"


DEEP: dict[str, Any] = {"id": 1}
for _ in range(200):
    DEEP = {"id": DEEP}
BAD_WORLDS: dict[str, tuple[dict[str, Any], str]] = {
    "no such collection": (
        {"tools": {"t": {"get": "order"}}},
        "no collection 'order' (did you mean orders?)",
    ),
    "no such field": (
        {"tools": {"t": {"get": "orders", "by": "ids"}}},
        "no row of orders has a field 'ids' (did you mean id?)",
    ),
    "two things": (
        {"tools": {"t": {"get": "orders", "find": "orders"}}},
        "a tool of a world does one thing (write one of get, find,",
    ),
    "no function": ({"tools": {"t": {"python": "world.py:policy"}}}, "there is no file world.py"),
    "no file": ({"data": "shop.json"}, "shop.json: cannot be read"),
    "no table": ({"data": "odd.json"}, "odd.json: orders is not a list of rows"),
    "no row": ({"data": "rows.json"}, "rows.json: orders[1] is not a row"),
    "no object": ({"data": "list.json"}, "list.json: not an object with collections"),
    "rows of nothing": ({"data": {"orders": [1]}}, "orders[0]"),
    "too deep": (
        {"data": {"orders": [{}, DEEP]}},
        "orders[1]: line 1: nested more than 180 levels deep",
    ),
    "too deep in a file": (
        {"data": "deep.json"},
        "orders[0]: line 1: nested more than 180 levels deep",
    ),
    "a field that nothing reads": (
        {"tools": {"t": {"find": "orders", "by": "id"}}},
        "t.by: line 1: `find` tells rows apart by all arguments (leave it out)",
    ),
    "no recorded call": (
        {"data": {"calls": [{"arg": 1}]}, "tools": {"t": {"replay": "calls"}}},
        "(write rows such as {args: {id: A-17}, answer: {status: sent}})",
    ),
    "a change of nothing": (
        {
            "data": {"calls": [{"args": {}, "changes": [{"of": "call", "args": {}}]}]},
            "tools": {"t": {"replay": "calls"}},
        },
        "changes[0].of: line 1: the world has no collection 'call' (did you mean calls?)",
    ),
}


@pytest.mark.parametrize("wrong", BAD_WORLDS)
def test_a_world_that_cannot_be_is_refused_with_place_and_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, content in (
        ("odd", {"orders": 1}),
        ("rows", {"orders": [{}, 2]}),
        ("list", [1]),
        ("deep", {"orders": [DEEP]}),
    ):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    given, message = BAD_WORLDS[wrong]
    world = {"data": DATA, "tools": {"t": {"find": "orders"}}} | given
    suite = {
        "evalwright": 1,
        "worlds": {"shop": world},
        "tasks": [{"input": 1, "world": "shop", "checks": [{"equals": 1}]}],
    }
    (tmp_path / "suite.json").write_text(json.dumps(suite))
    with pytest.raises(InvalidDocument) as refused:
        ew.Suite.from_file("suite.json")
    assert message in str(refused.value)
    assert "$.worlds.shop" in str(refused.value)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"world": "shp"}, "no world 'shp' (did you mean shop?)"),
        ({"faults": [{"fault": "error"}]}, "the suite answers no tool in this task"),
        (
            {"world": "shop", "faults": [{"fault": "error", "tool": "shop:orders.gt"}]},
            "no tool 'shop:orders.gt' in this task (did you mean shop:orders.get?)",
        ),
        ({"world": "shop", "faults": [{"fault": "error", "seconds": 1}]}, "only a slow tool"),
        (
            {"world": "shop", "faults": [{"fault": "error", "rate": 0}]},
            "faults[0].rate: task a: a rate of 0 strikes no call (leave the fault out)",
        ),
        (
            {"checks": [ew.state(unchanged=True)]},
            "`state` looks at the world of its task, and this one has none",
        ),
    ],
)
def test_a_task_that_cannot_have_them_is_refused(fields: dict[str, Any], message: str) -> None:
    task = ew.Task("a", **{"input": 1, "checks": [ew.equals(1)]} | fields)
    with pytest.raises(InvalidDocument) as refused:
        ew.run(ew.Suite("s", tasks=[task], worlds=[SHOP]), refund)
    assert message in str(refused.value)


def test_responses_are_templates_of_rows(tmp_path: Path) -> None:
    entry = {
        "rows": [{"id": f"r{n}", "order": f"A-{n}", "state": f"state {n}"} for n in (1, 2)],
        "map": {"id": "id"},
        "input": "{{ order }}",
        "checks": [{"equals": "{{ state }}"}],
        "fixtures": {
            "toolResponses": [
                {"tool": "get", "args": {"id": "{{ order }}"}, "response": "{{ state }}"},
                {"tool": "get", "response": "another"},
            ]
        },
    }
    suite = ew.Suite("rows", data=[entry])
    run = ew.run(suite, lambda task: task.call_tool("get", {"id": task.input}))
    assert run.passed, run.report()
    assert not ew.run(suite, lambda task: task.call_tool("get", {"id": 1})).passed


def test_a_fault_may_name_a_tool_that_rows_name() -> None:
    entry = {
        "rows": [{"id": "one", "tool": "orders"}, {"id": "two", "tool": "users"}],
        "map": {"id": "id", "input": "tool"},
        "checks": [{"equals": "tool_error"}],
        "fixtures": {"toolResponses": [{"tool": "{{ tool }}.get", "response": 1}]},
        "faults": [{"tool": "orders.get", "fault": "error"}],
    }

    def agent(task: Any) -> str:
        try:
            return str(task.call_tool(f"{task.input}.get"))
        except ew.ToolError as error:
            return error.code

    with pytest.raises(InvalidDocument, match=r"row 2.*answers no tool 'orders.get' in this task"):
        ew.run(ew.Suite("rows", data=[entry]), agent)
    entry["rows"] = entry["rows"][:1]
    assert ew.run(ew.Suite("rows", data=[entry]), agent).passed


def test_a_slow_tool_leaves_no_thread_behind() -> None:
    async def agent(task: Any) -> Any:
        order = await task.call_tool("shop:orders.get", {"id": "A-17"})
        return order["id"]

    slow = ew.Task(
        "slow",
        input=1,
        world=SHOP,
        faults=[{"fault": "slow", "seconds": 60}],
        checks=[ew.equals("A-17")],
    )
    quick = ew.Task("quick", input=1, world=SHOP, checks=[ew.equals("A-17")])
    before = threading.active_count()
    run = ew.run([slow, quick], agent, task_timeout_s=0.5)
    assert run.tasks["quick"].passed
    assert run.tasks["slow"].error["code"] == "agent_timeout"
    assert threading.active_count() <= before

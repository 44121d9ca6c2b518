"""Worlds that are derived from recorded calls: what they answer, and what they cannot."""

import gzip
from pathlib import Path
from typing import Any

import msgspec
import pytest

from evalwright.agents.task_tools import TaskTools, ToolReply
from evalwright.agents.worlds import PreparedWorld
from evalwright.comparison.recordings import Recordings
from evalwright.contracts.suite import Suite, Task
from evalwright.contracts.yaml_loader import load_yaml
from evalwright.engine.suites.document import load_suite
from evalwright.engine.suites.from_traces import RecordedSuite, TaskMaker, WantedRecordings
from evalwright.engine.suites.recorded_worlds import AnsweredCall, RecordedWorlds, calls_of
from evalwright.trace.recorded_case import Recording

TRACES = Path(__file__).parents[4] / "shared" / "data" / "agent-traces"
Step = tuple[str, dict[str, Any], Any]


def recording(case_id: str, *steps: Step | str, answer: str = "Done.") -> Recording:
    """What the user said, and calls with their answers; an exception is an error."""
    events: list[dict[str, Any]] = []
    for number, step in enumerate(steps):
        if isinstance(step, str):
            events.append({"type": "message", "role": "user", "content": step})
            continue
        tool, args, result = step
        call_id = f"{case_id}-{number}"
        is_good = not isinstance(result, Exception)
        said = {"payload": result} if is_good else {"error_message": str(result)}
        status = "ok" if is_good else "error"
        events += [
            {"type": "tool_call", "call_id": call_id, "tool": tool, "args": args},
            {"type": "tool_result", "call_id": call_id, "tool": tool, "status": status, **said},
        ]
    response = {
        "user_prompt": f"Do {case_id}.",
        "events": events,
        "final_output": {"content": answer},
    }
    return Recording(response, "traces.jsonl", case_id, case_id)


def derived(*recordings: Recording) -> tuple[Suite, list[str]]:
    """The suite with worlds as it is read back from its file, and what is said of it."""
    maker = TaskMaker(masked=False, worlds=RecordedWorlds())
    suite = RecordedSuite("traces.jsonl", maker, WantedRecordings())
    text = b"".join(suite.as_yaml(recordings)).decode()
    return load_suite(load_yaml(text)).suite, list(suite.notes())


def tools_of(suite: Suite, task: Task, *, fixtures: bool = True) -> TaskTools:
    world = PreparedWorld(task.world, suite.worlds[task.world], {}) if task.world else None
    return TaskTools(task if fixtures else msgspec.structs.replace(task, fixtures=None), world)


def answer(tools: TaskTools, tool: str, **args: Any) -> Any:
    """A value, or an error as an exception."""
    reply = tools.answer(tool, msgspec.Raw(msgspec.json.encode(args)))
    assert isinstance(reply, ToolReply)
    if reply.error is not None:
        return f"{reply.error.code}: {reply.error.message}"
    return msgspec.json.decode(reply.outcome)


def is_as_recorded(tools: TaskTools, call: AnsweredCall) -> bool:
    now = answer(tools, call.tool, **call.args)
    said = call.reply
    if said.error is None:
        return bool(now == said.answer)
    return now in (f"tool_error: {said.error}", said.error, {"error": said.error})


ORDER = {"id": "A-17", "status": "pending", "to": {"city": "Rome", "zip": "1"}}
MOVED = ORDER | {"to": {"city": "Oslo", "zip": "1"}}
CANCELLED = ORDER | {"status": "cancelled"}
ID = {"id": "A-17"}
OSLO = {"id": "A-17", "city": "Oslo"}
GET: Step = ("orders.get", ID, ORDER)


def test_the_same_call_gives_the_same_answer_in_all_tasks() -> None:
    suite, notes = derived(
        recording("one", GET),
        recording("two", ("orders.get", {"id": "A-99"}, LookupError("no such order"))),
    )
    tools = tools_of(suite, suite.tasks[1])
    assert answer(tools, "orders.get", id="A-17") == ORDER
    assert answer(tools, "orders.get", id="A-99") == "tool_error: no such order"
    assert answer(tools, "orders.get", id="B-1").startswith("not_recorded: ")
    assert notes[0] == "1 world answers 2 of 2 calls as recorded"
    described = tools.describe("orders.get")
    assert described is not None
    assert not described.writes
    assert described.parameters["properties"] == {"id": {"type": "string"}}
    assert described.parameters["required"] == ["id"]


def test_a_write_changes_what_later_reads_give() -> None:
    suite, _ = derived(
        recording("moved", GET, ("orders.update", OSLO, {"ok": True}), ("orders.get", ID, MOVED)),
        recording("cancelled", GET, ("orders.cancel", ID, "gone"), ("orders.get", ID, CANCELLED)),
    )
    tools = tools_of(suite, suite.tasks[0])
    assert answer(tools, "orders.get", **ID) == ORDER
    answer(tools, "orders.cancel", **ID)
    answer(tools, "orders.update", **OSLO)  # which nobody recorded after that
    assert answer(tools, "orders.get", **ID) == MOVED | CANCELLED | {"to": MOVED["to"]}
    assert tools.world is not None
    changed = {each.collection for each in tools.world.changes().changes}
    assert changed == {"orders.get", "orders.cancel", "orders.update"}


def test_a_write_is_seen_in_the_state_even_if_nothing_was_read_after_it() -> None:
    suite, _ = derived(recording("pay", ("payments.create", {"amount": 5}, {"ok": True})))
    tools = tools_of(suite, suite.tasks[0])
    assert tools.world is not None
    assert not tools.world.changes().changes
    answer(tools, "payments.create", amount=5)
    answer(tools, "payments.create", amount=5)
    (change,) = tools.world.changes().changes
    assert change.after["calls"] == 2


def test_a_read_that_gives_what_a_write_answered_does_so_for_all_arguments() -> None:
    other = {"id": "A-18", "status": "pending"}
    suite, _ = derived(
        recording("one", GET, ("orders.cancel", ID, CANCELLED), ("orders.get", ID, CANCELLED)),
        recording(
            "two",
            ("orders.get", {"id": "A-18"}, other),
            ("orders.cancel", {"id": "A-18"}, other | {"status": "cancelled"}),
        ),
    )
    tools = tools_of(suite, suite.tasks[1])
    answer(tools, "orders.cancel", id="A-18")
    assert answer(tools, "orders.get", id="A-18")["status"] == "cancelled"


def test_recordings_that_contradict_each_other_have_worlds_of_their_own() -> None:
    suite, notes = derived(
        recording("monday", GET),
        recording("friday", ("orders.get", ID, CANCELLED)),
        recording("monday-too", GET, ("users.get", {"id": 1}, {"name": "Ada"})),
    )
    assert [task.world for task in suite.tasks] == ["recorded", "recorded-2", "recorded"]
    for task, order in zip(suite.tasks, [ORDER, CANCELLED, ORDER], strict=True):
        assert answer(tools_of(suite, task), "orders.get", **ID) == order
    assert notes == ["2 worlds answer 4 of 4 calls as recorded"]


def test_what_no_world_can_answer_is_named_and_has_fixtures() -> None:
    polls: list[Step] = [("jobs.get", {"id": 1}, each) for each in ("waiting", "waiting", "done")]
    unanswered = recording("two", GET)
    unanswered.response["events"].append(
        {"type": "tool_call", "call_id": "x", "tool": "orders.list", "args": {}}
    )
    suite, notes = derived(recording("one", GET, *polls), unanswered)
    tools = tools_of(suite, suite.tasks[0])
    said = [answer(tools, "jobs.get", id=1) for _ in polls]
    assert said == ["waiting", "waiting", "done"]
    assert answer(tools, "orders.get", **ID) == ORDER
    assert notes == [
        "1 world answers 2 of 6 calls as recorded",
        "fixtures answer those that no world could be derived for: jobs.get (3), orders.list (1)",
        "1 call without a recorded result: fixtures answer null",
    ]


def test_a_conversation_becomes_turns_with_the_world_as_it_was_before_them() -> None:
    steps: list[Step] = [GET, ("orders.cancel", ID, "ok"), ("orders.get", ID, CANCELLED)]
    suite, _ = derived(recording("talk", "Cancel A-17.", *steps[:2], "Did it work?", steps[2]))
    (task,) = suite.tasks
    assert [turn.user for turn in task.turns] == ["Do talk.", "Cancel A-17.", "Did it work?"]
    tools = tools_of(suite, task)
    assert [answer(tools, tool, **args) for tool, args, _ in steps] == [ORDER, "ok", CANCELLED]


@pytest.mark.skipif(not TRACES.exists(), reason="needs the recorded traces")
@pytest.mark.parametrize(
    ("source", "least"),
    [
        ("taubench/airline.gpt-4o.trial0", 0.8),
        ("taubench/airline.gpt-4o.trial1", 0.8),
        ("taubench/airline.gpt-4o.trial2", 0.8),
        ("taubench/airline.gpt-4o.trial3", 0.8),
        ("taubench/retail.gemini-2.0-flash-runB", 0.8),
        ("taubench/retail.gemini-2.0-flash", 0.8),
        ("taubench/retail.gpt-4.1-mini", 0.8),
        ("agentdojo/gpt-4o-2024-05-13.none", 0.8),
        ("benign/sweagent_demos", 0.8),  # whose shell has a state that no call shows
    ],
)
def test_worlds_of_recorded_conversations_answer_as_was_recorded(
    source: str, least: float, tmp_path: Path
) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_bytes(gzip.decompress((TRACES / f"{source}.jsonl.gz").read_bytes()))

    def no_log() -> Any:
        raise AssertionError("no run is read")

    recordings = {each.case_id: each for each in reversed([*Recordings(str(path), no_log)])}
    maker = TaskMaker(masked=False, worlds=RecordedWorlds())
    made = RecordedSuite("traces.jsonl", maker, WantedRecordings())
    suite = load_suite(msgspec.json.decode(b"".join(made.as_json(recordings.values())))).suite
    by_id = {TaskMaker(masked=False).new_id(each): each for each in recordings.values()}
    count, by_world, by_all = 0, 0, 0
    for task in suite.tasks:
        calls, unusable = calls_of(by_id[task.task_id].trace)
        alone, whole = tools_of(suite, task, fixtures=False), tools_of(suite, task)
        count += len(calls) + unusable.total()
        by_world += sum(is_as_recorded(alone, each) for each in calls)
        by_all += sum(is_as_recorded(whole, each) for each in calls)
    assert by_world >= least * count
    assert by_all == count

"""Conversations in a run: an agent is asked turn by turn, and each answer has checks of its own."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

import evalwright as ew
from evalwright.contracts.errors import BadInput, InvalidDocument
from evalwright.contracts.run_plan import RunOptions
from evalwright.engine.replay import replay_run
from evalwright.engine.rescore import plan_rescore
from evalwright.engine.suites.export import to_portable
from evalwright.reports.run.conversation import conversation_of
from evalwright.store.location import opened_log
from reports.run.test_run_page import bodies
from subjects.endpoint import answer, serving

SHOP = ew.world(
    "shop",
    data={"orders": [{"id": "A-17", "days": 40}], "refunds": []},
    tools={"orders.get": {"get": "orders"}, "refunds.create": {"create": "refunds"}},
)
ASKED = ["I want my money back.", "It is A-17.", "Thank you."]
GOOD = [
    ew.turn(ASKED[0], checks=[ew.contains("number"), ew.does_not_call("orders.get")]),
    ew.turn(ASKED[1], checks=[ew.calls("orders.get", args={"id": "A-17"}, times=1)]),
    ew.turn(ASKED[2], checks=[ew.equals("Welcome! You asked 3 times.")]),
]


CHECK = [{"equals": 1}]


def talk(turns: Any = GOOD, *checks: Any, **fields: Any) -> ew.Task:
    return ew.Task("talk", turns=turns, world=SHOP, checks=checks, **fields)


def reply(message: str, times: int, task: Any) -> str:
    if "Thank" in message:
        return f"Welcome! You asked {times} times."
    if "A-17" not in message:
        return "What is your order number?"
    return f"Too late: {task.call_tool('orders.get', {'id': 'A-17'})['days']} days."


def by_task(task: Any) -> str:
    assert [each["role"] for each in task.messages] == ["user", "assistant"] * (task.turn - 1) + [
        "user"
    ]
    task.messages.clear()
    return reply(task.messages[-1]["content"], task.turn, task)


def by_message(message: str, session: dict[str, Any], task: Any) -> str:
    session["times"] = session.get("times", 0) + 1
    return reply(message, session["times"], task)


async def by_messages(messages: list[dict[str, Any]], task: Any) -> str:
    await asyncio.sleep(0)
    message = messages[-1]["content"]
    if "A-17" in message:
        order = await task.call_tool("orders.get", {"id": "A-17"})
        return f"Too late: {order['days']} days."
    return reply(message, len(messages) // 2 + 1, task)


@pytest.mark.parametrize("agent", [by_task, by_message, by_messages])
def test_an_agent_is_asked_turn_by_turn(agent: Any) -> None:
    run = ew.run([talk(GOOD, ew.state(unchanged=True), ew.at_most(turns=3), repeat=2)], agent)
    assert run.passed, run.report()
    told = [(each.check, each.get("turn")) for each in run.tasks["talk"].checks]
    assert told[:3] == [("contains", 1), ("does_not_call", 1), ("calls", 2)]
    assert told[-2:] == [("state", None), ("max", None)]


def test_a_check_of_a_turn_fails_the_task_and_the_conversation_goes_on(tmp_path: Path) -> None:
    turns = [ew.turn(ASKED[0], checks=[ew.contains("never")]), *GOOD[1:]]
    run = ew.run([talk(turns)], by_task, db=tmp_path / "a.db")
    assert not run.passed
    assert "turn 1: contains" in run.report()
    with opened_log(str(tmp_path / "a.db")) as log:
        decided = [each.payload() for each in log.read(run.id, ("agent.decided",))]
        assert [each["turn"] for each in decided] == [1, 2, 3]
        brackets = log.read(run.id, ("agent.invocation.started", "agent.invocation.completed"))
        assert len(list(brackets)) == 2
        assert replay_run(log, run.id).summary.task_count == 1


def test_a_conversation_ends_where_it_is_told_to_stop() -> None:
    turns = [ew.turn(ASKED[0], checks=[ew.contains("never")], stop=True), *GOOD[1:]]
    run = ew.run([talk(turns)], by_task)
    reasons = [each.reason for each in run.tasks["talk"].checks if not each.passed]
    assert reasons[1:] == [
        "the conversation ended before turn 2",
        "the conversation ended before turn 3",
    ]
    assert run.tasks["talk"].output == "What is your order number?"


def test_a_conversation_that_ended_early_passes_no_threshold(tmp_path: Path) -> None:
    turns = [ew.turn(ASKED[0], checks=[ew.contains("never")], stop=True), ew.turn(ASKED[1])]
    polite = ew.not_(ew.contains("fool"))
    run = ew.run([talk(turns, polite, threshold=0.5)], by_task, db=tmp_path / "a.db")
    assert not run.passed
    last = run.tasks["talk"].checks[-1]
    assert (last.check, last.reason) == ("turns", "the conversation ended before turn 2")
    goes_on = ew.Suite("suite", tasks=[talk([ew.turn(each) for each in ASKED[:2]], polite)])
    with opened_log(str(tmp_path / "a.db")) as log:
        made = plan_rescore(log, run.id, goes_on.subject(), "suite", RunOptions())
        assert not asyncio.run(made.run(log)).summary.passed


def test_a_check_without_weight_stops_no_conversation() -> None:
    shown = ew.contains("never", weight=0)
    turns = [ew.turn(ASKED[0], checks=[shown], stop=True), ew.turn(ASKED[1])]
    run = ew.run([talk(turns, ew.contains("Too late"))], by_task)
    assert run.passed, run.report()


BRANCHES = [
    ew.turn(
        ASKED[0],
        then=[
            {"if": ew.contains("number"), "turn": "number"},
            {"if": ew.not_(ew.contains("wait")), "end": True},
        ],
    ),
    ew.turn("Hello?", checks=[ew.contains("never")], then=[{"turn": "thanks"}]),
    ew.turn(ASKED[1], id="number", checks=[ew.calls("orders.get")]),
    ew.turn(ASKED[2], id="thanks", checks=[ew.contains("Welcome")]),
]


@pytest.mark.parametrize(
    ("first", "turns", "failed"),
    [
        ("What is your order number?", [1, 3, 4], []),
        ("No.", [1], []),
        ("Please wait.", [1, 2, 4], ["contains"]),
    ],
)
def test_what_comes_next_depends_on_the_answer(
    first: str, turns: list[int], failed: list[str], tmp_path: Path
) -> None:
    asked: list[tuple[int, int]] = []

    def agent(task: Any) -> str:
        asked.append((task.turn, len(task.messages)))
        return first if task.turn == 1 else reply(task.messages[-1]["content"], task.turn, task)

    run = ew.run([talk(BRANCHES, ew.at_most(turns=3))], agent, db=tmp_path / "a.db")
    assert run.passed is not bool(failed), run.report()
    assert [each.check for each in run.tasks["talk"].checks if not each.passed] == failed
    assert asked == [(number, 2 * number - 1) for number in range(1, len(turns) + 1)]
    with opened_log(str(tmp_path / "a.db")) as log:
        decided = [each.payload() for each in log.read(run.id, ("agent.decided",))]
        events = [each for each in log.read(run.id) if each.task_id == "talk"]
        suite = ew.Suite("suite", tasks=[talk(BRANCHES)])
        made = plan_rescore(log, run.id, suite.subject(), "suite", RunOptions())
        assert asyncio.run(made.run(log)).summary.passed is run.passed
    assert [each["turn"] for each in decided] == turns
    said = [each.user for each in BRANCHES]
    steps = conversation_of([{"role": "user", "content": each} for each in said], events)
    shown = [each.text for each in steps if each.kind == "user"]
    assert shown[: len(turns)] == [said[turn - 1] for turn in turns]


def test_own_checks_see_what_was_said_before_and_the_answer(tmp_path: Path) -> None:
    seen: list[tuple[int, str]] = []

    def look(input: Any, output: Any) -> bool:  # noqa: A002
        seen.append((len(input), output))
        return True

    turns = [ew.turn(each, checks=[look]) for each in ASKED]
    run = ew.run([talk(turns, look)], by_task)
    assert run.passed, run.report()
    assert [count for count, _ in sorted(seen)] == [1, 3, 5, 5]


def test_recorded_conversations_are_scored_again(tmp_path: Path) -> None:
    run = ew.run([talk()], by_task, db=tmp_path / "a.db")
    for wanted, passed in (("days", True), ("weeks", False)):
        turns = [*GOOD[:1], ew.turn(ASKED[1], checks=[ew.contains(wanted)]), *GOOD[2:]]
        suite = ew.Suite("suite", tasks=[talk(turns)])
        with opened_log(str(tmp_path / "a.db")) as log:
            made = plan_rescore(log, run.id, suite.subject(), "suite", RunOptions())
            assert asyncio.run(made.run(log)).summary.passed is passed


def test_a_conversation_is_not_scored_as_a_list_of_messages(tmp_path: Path) -> None:
    run = ew.run([talk()], by_task, db=tmp_path / "a.db")
    said = [{"role": "user", "content": each} for each in ASKED]
    task = ew.Task("talk", input=said, world=SHOP, checks=[ew.no_signals("medium")])
    suite = ew.Suite("suite", tasks=[task]).subject()
    with opened_log(str(tmp_path / "a.db")) as log, pytest.raises(BadInput, match="no task"):
        plan_rescore(log, run.id, suite, "suite", RunOptions())


def test_signals_are_looked_for_in_every_answer() -> None:
    def leaks(turn: int) -> str:
        return "The key is AKIAIOSFODNN7EXAMPLQ." if turn == 1 else "Fine."

    turns = [ew.turn("What is the key?"), ew.turn("Thank you.")]
    task = ew.Task("t", turns=turns, checks=[ew.no_signals("medium")])
    leaky = ew.run([task], leaks, agent_tools="none")
    assert "secret_in_output" in leaky.tasks["t"].checks[0].reason
    assert ew.run([task], lambda turn, message: "Fine.", agent_tools="none").passed


def by_input(task: Any) -> str:
    return str(task.input["question"])


def by_question(question: str) -> str:
    return question


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        (by_input, "read task.messages, of which the last is the user's"),
        (by_question, "asks for question: a conversation has task, messages, message, session"),
    ],
)
def test_an_agent_of_single_turns_says_so(agent: Any, message: str) -> None:
    single = ew.Task("single", input={"question": "x"}, checks=[ew.equals("x")])
    run = ew.run([single, talk()], agent)
    assert run.tasks["single"].passed
    assert message in run.tasks["talk"].error["message"]


def test_an_agent_behind_an_address_is_sent_the_conversation() -> None:
    asked: list[dict[str, Any]] = []

    def respond(request: Any) -> Any:
        asked.append(request.body)
        return answer(f"turn {request.body['conversation']['turn']}")

    with serving(respond) as endpoint:
        turns = [ew.turn("a", checks=[ew.equals("turn 1")]), ew.turn("b")]
        task = ew.Task("t", turns=turns, checks=[ew.equals("turn 2")])
        run = ew.run([task], endpoint.url)
    assert run.passed, run.report()
    assert [each["input"] for each in asked] == ["a", "b"]
    assert asked[1]["conversation"] == {
        "id": "inv-0001",
        "turn": 2,
        "messages": [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "turn 1"},
            {"role": "user", "content": "b"},
        ],
    }


def test_what_is_no_conversation_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="an input, or the turns or the user of a conversation"):
        ew.Task("t", input=1, turns=GOOD)
    with pytest.raises(BadInput, match="is no turn"):
        ew.Task("t", turns=["Hello"])
    for wrong, message in (
        ({"turns": [{"checks": [{"equals": 1}]}]}, '"user" is a required property'),
        ({"checks": [{"equals": 1}]}, '"input" is a required property (or `turns` or a `user`'),
        ({"input": 1, "turns": [{"user": "a"}], "checks": [{"equals": 1}]}, "not an input"),
        ({"turns": [{"user": "a", "checks": [{"contians": 1}]}]}, "did you mean contains?"),
        (
            {"turns": [{"user": "a", "checks": [{"max": {"turns": 1}}]}]},
            "`max` is of a whole conversation",
        ),
        (
            {"turns": [{"user": "a", "checks": [{"judge": "x"}], "stop": True}]},
            "`stop` cannot wait for what judge asks",
        ),
        (
            {"turns": [{"user": "a", "checks": [{"not": {"state": "unchanged"}}]}]},
            "`state` is of a whole conversation",
        ),
        (
            {"turns": [{"user": "a", "id": "x", "then": [{"turn": "x"}], "checks": CHECK}]},
            "then[0].turn: line 1: a loop: 'x' is turn 1, this is 1 (name a later turn)",
        ),
        (
            {"turns": [{"user": "a", "then": [{"turn": "x"}], "checks": CHECK}]},
            "there is no turn 'x'",
        ),
        (
            {"turns": [{"user": "a", "then": [{"if": {"judge": "x"}, "end": True}]}]},
            "a branch looks at one answer, and asks nobody",
        ),
        ({"turns": [{"user": "a"}]}, "no checks, so that every answer would pass"),
        (
            {"vars": {"x": None}, "turns": [{"user": "{{ x }}", "checks": [{"equals": 1}]}]},
            "turns[0].user: line 1: its template gives no text",
        ),
    ):
        (tmp_path / "suite.json").write_text(json.dumps({"evalwright": 1, "tasks": [wrong]}))
        with pytest.raises(InvalidDocument) as refused:
            ew.Suite.from_file(tmp_path / "suite.json")
        assert message in str(refused.value)


def test_turns_are_templates_and_have_the_title_of_the_first(tmp_path: Path) -> None:
    turns = [{"user": "Where is {{ vars.id }}?", "checks": [{"contains": "{{ vars.id }}"}]}]
    suite = ew.Suite("s", tasks=[ew.Task(turns=turns, vars={"id": ["A", "B"]}, matrix=True)])
    run = ew.run(suite, lambda task: task.messages[-1]["content"])
    assert run.passed, run.report()
    assert sorted(task.title for task in suite.subject().suite.tasks) == [
        "Where is A?",
        "Where is B?",
    ]
    portable = to_portable(suite.subject().suite)
    assert portable.suite.tasks == []
    assert "a conversation of 1 turns" in [loss.what for loss in portable.losses]


def test_a_user_says_what_a_template_gives_as_a_text() -> None:
    turns = [ew.turn("{{ vars.number }}", checks=[ew.equals("17")])]
    respond = {"toolResponses": [{"tool": "{{ vars.number }}", "response": "ok"}]}
    task = ew.Task(turns=turns, vars={"number": 17}, fixtures=respond)
    run = ew.run([task], lambda task: task.call_tool("17") and task.messages[-1]["content"])
    assert run.passed, run.report()


def test_a_page_shows_bubbles_with_calls_and_checks_at_their_turn(tmp_path: Path) -> None:
    turns = [ew.turn(ASKED[0], checks=[ew.contains("never")]), *GOOD[1:]]
    run = ew.run([talk(turns)], by_task, db=tmp_path / "a.db")
    with opened_log(str(tmp_path / "a.db")) as log:
        events = [each for each in log.read(run.id) if each.task_id == "talk"]
    asked = [{"role": "user", "content": each} for each in ASKED]
    steps = conversation_of(asked, events)
    assert [each.kind for each in steps] == [
        "user",
        "agent",
        "user",
        "call",
        "agent",
        "user",
        "agent",
    ]
    assert [each.text for each in steps if each.kind == "user"] == ASKED
    assert [bool(each.failed) for each in steps if each.kind == "agent"] == [True, False, False]
    kept = re.sub(r"\s+", " ", bodies(run.html().encode()))
    said = re.findall(r'<b>(User|Agent)</b>.*?class="says">(.*?)<', kept)
    assert [text.strip() for by, text in said if by == "User"] == ASKED
    assert [by for by, _ in said] == ["User", "Agent"] * len(ASKED)

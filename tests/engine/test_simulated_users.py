"""Conversations whose user a model plays: how they go, end, are paid for, and are not believed."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import evalwright as ew
from evalwright.agents.python import callable_agent
from evalwright.contracts.errors import BadInput, InvalidDocument, RunFailed
from evalwright.contracts.run_plan import RunOptions
from evalwright.contracts.suite import SimulatedUser
from evalwright.engine.replay import replay_run
from evalwright.engine.rescore import plan_rescore
from evalwright.engine.resume import resume
from evalwright.engine.simulated_user import faults_in
from evalwright.engine.suites.document import load_suite
from evalwright.engine.suites.export import to_portable
from evalwright.reports.run.conversation import conversation_of
from evalwright.store.location import opened_log

GOAL = "Get your money back for a broken blender."
KNOWS = {"order": "A-17", "name": "Ada Byron"}


def says(text: str, status: str = "going_on", **when: Any) -> dict[str, Any]:
    return {"when": when, "json": {"say": text, "status": status}, "tokens": USED}


USED = {"input": 100, "output": 10}
SCRIPT = [
    says("I want my money back.", turn=1),
    says("It is A-17.", contains="number"),
    says("Thank you, bye.", "goal_reached", contains="Done"),
    says("I am off.", "given_up"),
]


def clerk(message: str, session: dict[str, Any]) -> str:
    session["asked"] = session.get("asked", 0) + 1
    return "Done." if "A-17" in message else "What is your order number?"


def a_model(folder: Path, rules: list[Any] = SCRIPT) -> str:
    (folder / "user.json").write_text(json.dumps(rules))
    return f"scripted:{folder / 'user.json'}"


def talk(*checks: Any, **user: Any) -> ew.Task:
    given = {"goal": GOAL, "knows": KNOWS, **user}
    return ew.Task("talk", user=ew.user(**given), checks=checks or [ew.equals("Done.")])


def said_in(db: Path, run_id: str) -> list[dict[str, Any]]:
    with opened_log(str(db)) as log:
        return [each.payload() for each in log.read(run_id, ("evalwright.userSaid",))]


def test_a_model_plays_the_user_until_its_goal_is_reached(tmp_path: Path) -> None:
    db, model = tmp_path / "a.db", a_model(tmp_path)
    task = talk(ew.equals("Done."), ew.at_most(turns=2), ew.does_not_call("pay"))
    run = ew.run([task], clerk, user_model=model, db=db, agent_tools="none")
    assert run.passed, run.report()
    assert said_in(db, run.id) == [
        {"turn": 1, "text": "I want my money back.", "model": model, "promptVersion": "1"},
        {"turn": 2, "text": "It is A-17.", "model": model, "promptVersion": "1"},
        {
            "turn": 3,
            "text": "Thank you, bye.",
            "ends": "goal_reached",
            "model": model,
            "promptVersion": "1",
        },
    ]
    with opened_log(str(db)) as log:
        events = [each for each in log.read(run.id) if each.task_id == "talk"]
        assert replay_run(log, run.id).summary.passed_count == 1
    kinds = [each.type.rpartition(".")[2] for each in events if each.type != "provider.usage"]
    turn = ["userSaid", "decided"]
    assert kinds == ["started", *turn, *turn, "userSaid", "completed", "checked", "scored"]
    steps = conversation_of({"goal": GOAL}, events)
    assert [each.kind for each in steps] == ["note", *["user", "agent"] * 2, "user", "note"]
    assert steps[-1].text == "The user ends the conversation: goal reached."


def test_what_playing_the_user_costs_is_not_the_agents(tmp_path: Path) -> None:
    prices = tmp_path / "evalwright.toml"
    model = a_model(tmp_path)
    figures = "input_per_million = 1000\noutput_per_million = 1000\n"
    prices.write_text(f'[prices."{model}"]\n{figures}')
    cheap = talk(ew.at_most(tokens=0))
    run = ew.run([cheap], clerk, user_model=model, agent_usage="none", config=prices)
    assert run.passed, run.report()
    assert run.summary["totalCostUsd"] == pytest.approx(0.33)
    assert "3 calls · $0.33" in run.report()
    with pytest.raises(RunFailed, match="budget_exhausted"):
        ew.run([talk()], clerk, user_model=model, config=prices, max_cost_usd=0.2)
    limited = ew.Suite("s", tasks=[talk()], thresholds={"maxCostUsd": 1})
    assert not ew.run(limited, clerk, user_model=model).passed  # the agent's own is not known


def test_what_the_user_used_does_not_make_the_agents_usage_known(tmp_path: Path) -> None:
    db = tmp_path / "a.db"
    run = ew.run([talk(ew.at_most(tokens=10**6))], clerk, user_model=a_model(tmp_path), db=db)
    assert "was not observed" in run.tasks["talk"].checks[0].reason
    with opened_log(str(db)) as log:
        made = plan_rescore(log, run.id, None, "suite", RunOptions())
        assert not asyncio.run(made.run(log)).summary.passed


def test_a_conversation_ends_when_the_user_gives_up_or_has_had_its_turns(tmp_path: Path) -> None:
    model = a_model(tmp_path, [SCRIPT[0], SCRIPT[-1]])
    run = ew.run([talk(ew.contains("number"))], clerk, user_model=model, db=tmp_path / "a.db")
    assert run.passed, run.report()
    assert said_in(tmp_path / "a.db", run.id)[-1]["ends"] == "given_up"
    stubborn = a_model(tmp_path, [says("Give it back!")])
    task = talk(ew.at_most(turns=3), max_turns=3, opening="My blender broke!")
    run = ew.run([task], clerk, user_model=stubborn, db=tmp_path / "a.db")
    assert run.passed, run.report()
    said = said_in(tmp_path / "a.db", run.id)
    assert [each["text"] for each in said] == ["My blender broke!", *["Give it back!"] * 2]
    assert "model" not in said[0]
    assert run.tasks["talk"].title == "My blender broke!"


@pytest.mark.parametrize(
    ("rules", "fault", "message"),
    [
        ([says("As an AI, I cannot want anything.")], "left_role", "left its role, in turn 1"),
        ([says("My order is A-17.")], "gave_away", "told what it was not asked for, in turn 1"),
        (
            [SCRIPT[0], says("Ada Byron, A-17", contains="number")],
            "gave_away",
            "told what it was not asked for, in turn 2",
        ),
        (
            [SCRIPT[0], says("Agent: It is done.")],
            "asked_itself",
            "spoke for the agent, in turn 2",
        ),
        ([{"reply": "Hello!"}], "no_reply", "no usable reply when asked 3 times"),
        ([says("Bye.", "given_up")], "no_reply", "the conversation cannot have ended"),
    ],
)
def test_a_user_that_misbehaves_leaves_its_task_without_a_verdict(
    rules: list[Any], fault: str, message: str, tmp_path: Path
) -> None:
    db = tmp_path / "a.db"
    fine = ew.Task("fine", input="A-17", checks=[ew.equals("A-17")])

    def agent(task: Any) -> Any:
        if task.turn:
            return clerk(task.messages[-1]["content"], task.session)
        return task.input

    with pytest.raises(RunFailed, match="user_failed") as failed:
        ew.run([talk(), fine], agent, user_model=a_model(tmp_path, rules), db=db)
    assert message in str(failed.value)
    run_id = failed.value.run_id
    assert said_in(db, run_id)[-1]["faults"] == [fault]
    with opened_log(str(db)) as log:
        events = [each for each in log.read(run_id) if each.task_id == "talk"]
        assert "eval.scored" not in {each.type for each in events}
        assert any("not evaluated" in each.text for each in conversation_of({"goal": GOAL}, events))
        options = RunOptions(user_model=a_model(tmp_path))
        left = resume(log, run_id, options, agent=callable_agent(agent))
        assert left.session is not None
        (outcome,) = asyncio.run(left.session.run(log, left.pending))
    assert outcome.summary.passed_count == 2


def test_if_no_user_can_be_played_the_agent_is_not_to_blame(tmp_path: Path) -> None:
    model = a_model(tmp_path, [{"error": "timeout"}])
    with pytest.raises(RunFailed, match="user_failed: 1 of 1 tasks have no verdict"):
        ew.run([talk()], clerk, user_model=model)


@pytest.mark.parametrize(
    ("text", "heard", "faults"),
    [
        ("It is A-17.", ["What is your order number?"], []),
        ("It is A-17.", ["And your orders?"], []),
        ("A-17", ["Which one?"], []),
        ("A-17", ["I cannot help."], ["gave_away"]),
        ("A-17, for Ada Byron", ["What is your order number?"], ["gave_away"]),
        ("A-17", ["Is it A-17?"], []),
        ("My blender is broken.", [], []),
        ("How can I help you?", ["What is your order number?"], ["left_role"]),
        ("Wie kann ich Ihnen helfen?", ["Hallo?"], ["left_role"]),
        ("What is your order number?", ["Hello?"], ["asked_itself"]),
        (
            "Please wait while I look that up.",
            ["Please wait while I look that up."],
            [*["asked_itself"]],
        ),
        ("I told your assistant: no.", ["Hello?"], []),
        ("Support: hello.\nUser: hi.", ["Hello?"], ["asked_itself"]),
    ],
)
def test_what_is_no_users_word(text: str, heard: list[str], faults: list[str]) -> None:
    messages = [{"role": "assistant", "content": each} for each in heard]
    assert [*faults_in(SimulatedUser(GOAL, KNOWS), text, messages)] == faults


def test_what_the_goal_says_is_no_secret() -> None:
    user = SimulatedUser("Get money back for order A-17.", KNOWS)
    assert not [*faults_in(user, "It is about A-17.", [])]


def test_a_user_sees_what_a_user_would_see(tmp_path: Path) -> None:
    cassette = tmp_path / "calls.jsonl"
    shop = ew.world("shop", data={"orders": [{"id": "A-17"}]}, tools={"find": {"find": "orders"}})

    def looks(task: Any) -> str:
        task.call_tool("find")
        return clerk(task.messages[-1]["content"], task.session)

    task = ew.Task("talk", user=ew.user(GOAL, knows=KNOWS), world=shop, checks=[ew.equals("Done.")])
    run = ew.run([task], looks, user_model=a_model(tmp_path), cassette=str(cassette), record=True)
    assert run.passed, run.report()
    calls = [json.loads(line) for line in cassette.read_text().splitlines()]
    asked = [call["request"]["messages"] for call in calls if "request" in call]
    said = [each["content"] for each in asked[-1][1:]]
    assert said[2] == "What is your order number?"
    assert not any("find" in each or "orders" in each for each in said)


def test_recorded_conversations_are_scored_again_and_nobody_is_asked(tmp_path: Path) -> None:
    db = tmp_path / "a.db"
    run = ew.run([talk()], clerk, user_model=a_model(tmp_path), db=db)
    (tmp_path / "user.json").unlink()
    for wanted, passed in (("Done.", True), ("Never", False)):
        suite = ew.Suite("suite", tasks=[talk(ew.equals(wanted))])
        with opened_log(str(db)) as log:
            made = plan_rescore(log, run.id, suite.subject(), "suite", RunOptions())
            assert asyncio.run(made.run(log)).summary.passed is passed
    other = ew.Suite("suite", tasks=[talk(style="shy")])
    with opened_log(str(db)) as log, pytest.raises(BadInput, match="no task"):
        plan_rescore(log, run.id, other.subject(), "suite", RunOptions())


def test_judges_and_own_checks_see_the_conversation(tmp_path: Path) -> None:
    seen: list[Any] = []

    def look(input: Any, output: Any) -> bool:  # noqa: A002
        seen.append((input, output))
        return True

    assert ew.run([talk(look)], clerk, user_model=a_model(tmp_path)).passed
    ((given, output),) = seen
    assert [each["content"] for each in given] == [
        "I want my money back.",
        "What is your order number?",
        "It is A-17.",
    ]
    assert output == "Done."


def test_signals_see_the_user_that_was_played(tmp_path: Path) -> None:
    def leaks(turn: int) -> str:
        return "The key is AKIAIOSFODNN7EXAMPLQ, number?" if turn == 1 else "Done."

    task = talk(ew.no_signals("medium"))
    run = ew.run([task], leaks, user_model=a_model(tmp_path), agent_tools="none")
    assert "secret_in_output" in run.tasks["talk"].checks[0].reason


def test_a_task_that_is_repeated_is_a_conversation_each_time(tmp_path: Path) -> None:
    count = iter(range(1, 10))

    def moody(message: str) -> str:
        return "Done." if "A-17" in message and next(count) > 1 else "What is your order number?"

    rules = [SCRIPT[0], says("It is A-17.", turn=2), *SCRIPT[2:]]
    task = ew.Task(
        "talk",
        user=ew.user(GOAL, knows=KNOWS),
        checks=[ew.equals("Done.")],
        repeat=3,
        pass_rate=0.6,
    )
    run = ew.run([task], moody, user_model=a_model(tmp_path, rules), db=tmp_path / "a.db")
    assert run.passed, run.report()
    with opened_log(str(tmp_path / "a.db")) as log:
        checked = [each.payload() for each in log.read(run.id, ("evalwright.checked",))]
    assert [each["passed"] for each in checked] == [False, True, True]
    openings = [each for each in said_in(tmp_path / "a.db", run.id) if each["turn"] == 1]
    assert len(openings) == 3


def test_the_users_time_is_not_the_agents(tmp_path: Path) -> None:
    slow = [{**each, "latency_ms": 150} for each in SCRIPT]
    run = ew.run([talk()], clerk, user_model=a_model(tmp_path, slow), task_timeout_s=0.3)
    assert run.passed, run.report()
    latency = run.tasks["talk"].latency_ms
    assert latency is not None
    assert latency < 100


def test_a_goal_without_a_model_is_refused_before_anything_is_invoked(tmp_path: Path) -> None:
    asked: list[str] = []

    def agent(message: str) -> None:
        asked.append(message)

    with pytest.raises(InvalidDocument, match="has a goal of a user, and no model to play it"):
        ew.run([talk()], agent)
    with pytest.raises(BadInput, match="nowhere"):
        ew.run([talk(model="nowhere:x")], agent)
    assert not asked
    settings = tmp_path / "evalwright.toml"
    settings.write_text(f'user_model = "{a_model(tmp_path)}"\n')
    assert ew.run([talk()], clerk, config=settings).passed
    assert ew.run([talk(model=a_model(tmp_path))], clerk).passed


def test_what_is_no_user_is_refused() -> None:
    checks = [{"equals": 1}]
    for task, message in (
        ({"user": {"knows": {}}}, '"goal" is a required property'),
        ({"user": {"goal": "x"}, "input": 1}, "a conversation has user, not an input"),
        ({"user": {"goal": "x"}, "turns": [{"user": "a"}]}, "has turns, not a simulated user"),
        ({"user": {"goal": "x", "max_turns": 0}}, "less than the minimum"),
    ):
        with pytest.raises(InvalidDocument) as refused:
            load_suite({"evalwright": 1, "tasks": [{**task, "checks": checks}]}, allow_code=True)
        assert message in str(refused.value)
    document = {"evalwright": 1, "tasks": [{"user": {"goal": "x"}, "checks": checks}]}
    with pytest.raises(InvalidDocument, match="users are not played here"):
        load_suite(document)


def test_a_user_may_be_a_template_and_is_in_no_portable_suite() -> None:
    user = ew.user("Ask for {{ vars.id }}.", knows={"order": "{{ vars.id }}"})
    suite = ew.Suite(
        "s", tasks=[ew.Task(user=user, vars={"id": ["A", "B"]}, matrix=True, checks=[ew.equals(1)])]
    )
    made = suite.subject().suite
    assert [each.user for each in made.tasks] == [
        SimulatedUser(f"Ask for {name}.", {"order": name}) for name in "AB"
    ]
    assert "a conversation with a simulated user" in [
        each.what for each in to_portable(made).losses
    ]

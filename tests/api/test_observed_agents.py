"""What an agent does counts once it is observed, and a verdict never rests on silence."""

import asyncio
import json

import pytest

import evalwright as ew
from reports.run.test_run_page import bodies

NO_REFUND = ew.does_not_call("refunds.create")
CHEAP = ew.at_most(cost_usd=0.01)


def run(agent, *checks, db, fixtures=None, **options):
    task = ew.Task("t", input="hi", checks=list(checks), fixtures=fixtures)
    return ew.run([task], agent, db=db, **options).tasks["t"]


@pytest.fixture
def db(tmp_path):
    return tmp_path / "runs.db"


def silent(task):
    return "done"


@pytest.mark.parametrize("check", [NO_REFUND, CHEAP, ew.not_(ew.calls("refunds.create"))])
def test_nothing_passes_of_an_agent_that_nobody_observed(check, db):
    told = run(silent, check, db=db)
    assert not told.passed
    assert "not observed" in told.checks[0].reason
    assert told.coverage.calls is None


def test_a_claim_stands_in_for_an_observation_and_is_shown_as_one(db):
    task = ew.Task("t", input="hi", checks=[NO_REFUND, CHEAP])
    result = ew.run([task], silent, db=db, agent_tools="none", agent_usage="none")
    told = result.tasks["t"]
    assert told.passed
    shown = "tool calls: none, as claimed · model usage: none, as claimed · messages: not observed"
    assert shown in bodies(result.html().encode())
    assert (told.coverage.calls, told.coverage.usage) == ("claimed none", "claimed none")


def calling(task):
    task.record_call("refunds.create", {"usd": 100}, result="ok")
    task.report_usage(input_tokens=5, output_tokens=5, cost_usd=0.5)
    return "done"


def test_a_claim_that_an_observation_contradicts_fails_the_task(db):
    for claim in ({"agent_tools": "none"}, {"agent_usage": "none"}):
        told = run(calling, ew.contains("done"), db=db, **claim)
        assert not told.passed
        assert told.error["code"] == "claim_contradicted"


def test_a_call_that_is_recorded_is_seen_with_arguments_and_result(db):
    told = run(calling, ew.calls("refunds.create", args={"usd": 100}), NO_REFUND, CHEAP, db=db)
    assert [each.passed for each in told.checks] == [True, False, False]
    assert told.calls[0].result == "ok"
    assert (told.coverage.calls, told.coverage.usage) == ("recorded", "reported")


def test_a_call_that_takes_time_is_recorded_with_what_came_of_it(db):
    def agent(task):
        with task.record_call("search", {"q": "a"}) as call:
            call.result = ["found"]
        with pytest.raises(KeyError), task.record_call("broken"):
            raise KeyError("no")
        task.record_call("untold")
        task.record_message("assistant", "I looked.")
        return "done"

    told = run(agent, ew.calls_in_order(["search", "broken", "untold"]), db=db)
    assert told.passed
    calls = [(each.tool, each.result, each.is_ok) for each in told.calls]
    broken, untold = ("broken", None, False), ("untold", None, True)
    assert calls == [("search", ["found"], True), broken, untold]
    assert told.coverage.messages == "recorded"


@ew.tool(name="orders.get")
def get_order(order_id):
    return {"id": order_id, "state": "open"}


@ew.tool
async def search(query, *, limit=3):
    await asyncio.sleep(0)
    return [query] * limit


def test_functions_that_are_tools_are_recorded_and_answered_by_fixtures(db):
    async def agent(task):
        found = await asyncio.gather(search("a", limit=1), search("b", limit=2))
        return {"order": get_order("A-17"), "found": found}

    told = run(agent, ew.calls("orders.get", args={"order_id": "A-17"}), db=db)
    assert told.passed
    assert {each.args["query"] for each in told.calls if each.tool == "search"} == {"a", "b"}
    shipped = {"toolResponses": [{"tool": "orders.get", "response": {"state": "shipped"}}]}
    told = run(agent, ew.calls("orders.get"), db=db, fixtures=shipped)
    assert told.output["order"] == {"state": "shipped"}
    assert get_order("B-1")["state"] == "open"  # where no task is worked on


def test_a_task_wraps_a_function_that_is_not_its_own(db):
    def double(number):
        return number * 2

    def agent(task):
        return task.tools.wrap(double)(21)

    told = run(agent, ew.calls("double", args={"number": 21}), ew.equals(42), db=db)
    assert told.passed
    assert told.coverage.calls == "wrapped tool"


@pytest.mark.parametrize("agent", [silent, "test_observed_agents:silent"])
def test_a_suite_claims_of_its_own_agent_and_of_no_other(agent, db):
    claimed = {"ref": agent, "tools": "none", "usage": "none"}
    suite = ew.Suite("claiming", agent=claimed, tasks=[ew.Task("t", input="", checks=[NO_REFUND])])
    assert ew.run(suite, db=db).passed
    assert ew.run(suite, agent, db=db).passed
    assert not ew.run(suite, lambda task: "done", db=db).passed
    assert ew.run(suite, lambda task: "done", db=db, agent_tools="none").passed
    for wrong in ({"tools": "none"}, {"ref": agent, "tools": "all"}):
        with pytest.raises(ew.EvalwrightError, match="perhaps `tools`"):
            ew.Suite("wrong", agent=wrong)


def test_settings_claim_of_their_own_agent_and_of_no_other(db, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("mine", "other"):
        (tmp_path / f"{name}.py").write_text("def answer(task):\n    return 'done'\n")
    (tmp_path / "evalwright.toml").write_text('agent = "mine.py:answer"\nagent-tools = "none"\n')
    task = ew.Task("t", input="", checks=[NO_REFUND])
    assert ew.run([task], db=db).passed
    assert ew.run([task], "mine.py:answer", db=db).passed
    assert not ew.run([task], "other.py:answer", db=db).passed
    assert not ew.run([task], silent, db=db).passed


def test_own_functions_that_look_at_what_was_not_observed_make_no_check(db):
    def calls_nothing(calls):
        return all(call.tool != "refund" for call in calls)

    def is_cheap(usage):
        return usage.cost_usd < 1 or usage["tokens"] == 0 or usage.get("turns") is None

    def is_quick(usage, **rest):
        return usage.latency_ms < 60_000

    def has_no_calls(**facts):
        return not facts["calls"]

    def has_no_calls_in_its_trace(trace):
        return trace.answer == "done" and not trace.calls

    def is_cheap_in_a_copy(usage):
        return dict(usage).get("cost_usd", 0) + sum({**usage}.values()) < 1

    looking = has_no_calls, has_no_calls_in_its_trace, is_cheap_in_a_copy
    told = run(silent, calls_nothing, is_cheap, is_quick, *looking, db=db)
    assert [each.passed for each in told.checks] == [False, False, True, False, False, False]
    assert all("not observed" in each.reason for each in told.checks if not each.passed)
    looking = calls_nothing, is_cheap, has_no_calls_in_its_trace
    told = run(silent, *looking, db=db, agent_tools="none", agent_usage="none")
    assert told.passed, told.checks


def test_cases_of_a_comparison_ask_what_the_runs_have_observed(db, tmp_path):
    task = ew.Task("t", input="hi", checks=[ew.contains("done")])
    expected = {"checks": [{"does_not_call": "refunds.create"}]}
    case = {"id": "t", "title": "t", "input": {"user": "hi"}, "expected": expected}
    (tmp_path / "cases.json").write_text(json.dumps([case]))
    seen = ew.run([task], lambda task: ew.Answer("done", calls=[]), db=db)
    unseen = ew.run([task], silent, db=db)
    claimed = ew.run([task], silent, db=db, agent_tools="none")
    found = ew.compare(seen, unseen, cases=tmp_path / "cases.json")
    assert found.regressions == ["t"]
    assert any(
        "1 more answers than before were not observed" in each for each in found.report["notes"]
    )
    found = ew.compare(seen, claimed, cases=tmp_path / "cases.json")
    assert found.regressions == []
    assert found.report["notes"] == []


def test_a_bar_on_cost_is_not_met_where_nobody_observed_what_it_cost(db):
    def reporting(task):
        return ew.Answer("done", usage={"input_tokens": 1, "output_tokens": 1, "cost_usd": 0.01})

    def run_of(agent, **claims):
        tasks = [ew.Task(f"t{n}", input=n, checks=[ew.contains("done")], repeat=n) for n in (1, 2)]
        suite = ew.Suite("cost", tasks=tasks, thresholds={"maxCostUsd": 0.03})
        return ew.run(suite, agent, db=db, **claims)

    unseen = run_of(silent)
    assert not unseen.passed
    (reason,) = unseen.reasons
    assert "the model usage of 2 of 2 tasks was not observed, so maxCostUsd $0.03" in reason
    assert ew.load(unseen.id, db=db).reasons == unseen.reasons
    assert run_of(reporting).passed
    assert run_of(silent, agent_usage="none").passed
    half = run_of(lambda task: reporting(task) if task.id == "t1" else "done")
    assert "of 1 of 2 tasks" in half.reasons[0]

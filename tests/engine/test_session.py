"""Sessions: one way to run suites for the command line, the host and Python."""

import asyncio
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from builders import a_rubric_task, a_suite
from evalwright.agents.protocol import Agent
from evalwright.contracts.errors import BadInput, RunFailed
from evalwright.contracts.events import ProviderUsage
from evalwright.contracts.run_plan import (
    CONFIGURABLE,
    Group,
    RunOptions,
    RunSettings,
    from_configurable,
    to_configurable,
)
from evalwright.engine import plan
from evalwright.engine import resume as resuming
from evalwright.engine.history import History, read_history
from evalwright.engine.resume import CHANGEABLE, resume
from evalwright.engine.session import Session, price_by
from evalwright.engine.verdict import Outcome
from evalwright.models.config import Config
from subjects.judges import JUDGE, a_judge
from subjects.runs import Workshop, as_agent


class Watching:
    """Keeps what an observer sees."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def run_begins(self, history: History) -> None:
        self.seen.append(f"begins with {len(history.scored)} scored")

    def run_ended(self, outcome: Outcome) -> None:
        self.seen.append(f"ended with {outcome.summary.passed_count} passed")


def right(_task: Any) -> str:
    return "yes"


def costing(task: Any) -> str:
    task.report_usage(model="small-1", input_tokens=1, output_tokens=1, cost_usd=0.4)
    return "yes"


def test_a_session_runs_a_suite_and_tells_its_observer(workshop: Workshop) -> None:
    session, watching = Session(as_agent(right), RunOptions()), Watching()
    plans = session.plan(a_suite(2), "suite.json")
    (outcome,) = asyncio.run(session.run(workshop.log, plans, watching))
    assert outcome.summary.passed_count == 2
    assert watching.seen == ["begins with 0 scored", "ended with 2 passed"]


def test_repeats_are_runs_of_one_group(workshop: Workshop) -> None:
    session = Session(as_agent(right), RunOptions(repeat=3))
    plans = session.plan(a_suite(1), "suite.json")
    outcomes = asyncio.run(session.run(workshop.log, plans))
    groups = [outcome.plan.group for outcome in outcomes]
    assert [(each.index, each.size) for each in groups if each] == [(1, 3), (2, 3), (3, 3)]
    assert len({each.id for each in groups if each}) == 1


def test_a_baseline_is_read_from_the_log(workshop: Workshop) -> None:
    before = workshop.run(a_suite(2), right)
    suite = a_suite(2, modes=("golden", "regression"))
    options = RunOptions(baseline=before.run_id)
    with pytest.raises(BadInput, match="none is given"):
        Session(as_agent(right), options).plan(suite, "suite.json")
    (planned,) = Session(as_agent(right), options).plan(suite, "suite.json", workshop.log)
    assert planned.baseline is not None
    assert planned.baseline.run_id == before.run_id


def test_a_failed_run_is_resumed_with_its_recorded_options(workshop: Workshop) -> None:
    session = Session(as_agent(costing), RunOptions(concurrency=1, max_cost_usd=1.0))
    plans = session.plan(a_suite(4), "suite.json")
    with pytest.raises(RunFailed):
        asyncio.run(session.run(workshop.log, plans))
    left = resume(workshop.log, "latest", RunOptions(max_cost_usd=9.0), agent=as_agent(costing))
    assert left.session is not None
    (outcome,) = asyncio.run(left.session.run(workshop.log, left.pending))
    assert outcome.summary.passed_count == 4
    assert outcome.plan.settings.concurrency == 1
    assert outcome.plan.settings.max_cost_usd == 9.0
    assert resume(workshop.log, outcome.run_id, agent=as_agent(costing)).session is None


def wrong(_task: Any) -> str:
    raise ConnectionError("nobody answers")


def unfinished(workshop: Workshop, status: str, *, judges: Any = (), **fields: Any) -> Agent:
    """A run that failed, or whose process was stopped; returns its agent, for whoever goes on."""
    suite = a_suite([a_rubric_task()], modes=["rubric"]) if judges else a_suite(1)
    resources = a_judge().panel() if judges else None
    start = workshop.run if status == "failed" else workshop.stop
    start(suite, wrong, resources=resources, judges=judges, **fields)
    assert read_history(workshop.log, workshop.log.run_ids()[0]).status == status
    return as_agent(right)


@pytest.mark.parametrize("status", ["failed", "open"])
def test_a_run_does_not_go_on_with_another_judge_prompt(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, status: str
) -> None:
    judge = tmp_path / "judge.json"
    judge.write_text('[{"when": {}, "reply": "yes"}]')
    agent = unfinished(workshop, status, judges=(f"scripted:{judge}",))
    assert resume(workshop.log, "latest", agent=agent).pending
    monkeypatch.setattr(resuming, "PROMPT_VERSION", "next")
    with pytest.raises(BadInput, match="and this version has prompt next"):
        resume(workshop.log, "latest", agent=agent)


def test_a_judged_run_that_is_complete_is_told_whatever_its_prompt_was(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resuming, "PROMPT_VERSION", "next")
    suite = a_suite([a_rubric_task()], modes=["rubric"])
    workshop.run(suite, right, resources=a_judge().panel(), judges=(JUDGE,))
    assert resume(workshop.log, "latest").session is None


@pytest.mark.parametrize("status", ["failed", "open"])
def test_repeats_that_were_being_recorded_do_not_go_on(workshop: Workshop, status: str) -> None:
    group = Group("group", 1, 2)
    for goes_on in ({"group": group}, {"record": True}):
        agent = unfinished(workshop, status, **goes_on)
        assert resume(workshop.log, "latest", agent=agent).pending
    with pytest.raises(BadInput, match="goes on with the cassette that it was recording"):
        resume(workshop.log, "latest", RunOptions(cassette="other"), agent=agent)
    unfinished(workshop, status, group=group, record=True)
    with pytest.raises(BadInput, match="repeats that were being recorded cannot go on"):
        resume(workshop.log, "latest", agent=agent)


def test_a_session_closes_its_agent_also_when_a_run_fails(workshop: Workshop) -> None:
    closed = []
    agent: Any = as_agent(costing)

    async def close() -> None:
        closed.append(agent)

    agent.close = close
    session = Session(agent, RunOptions(max_cost_usd=0.1, concurrency=1))
    plans = session.plan(a_suite(2), "suite.json")
    with pytest.raises(RunFailed):
        asyncio.run(session.run(workshop.log, plans))
    assert closed == [agent]


def test_a_model_or_a_gateway_is_refused_for_an_agent_object() -> None:
    for options in (RunOptions(model="openai:gpt-4.1"), RunOptions(gateway=True)):
        agent: Agent = as_agent(right)
        with pytest.raises(BadInput, match="named by its reference"):
            Session(agent, options)


def test_prices_are_loaded_before_the_run_only_where_agents_ask_models(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A file of one's own may be called `agents`, as is the module of the Agents SDK."""
    priced: list[ProviderUsage] = []
    monkeypatch.setattr(
        "evalwright.models.prices.known_cost", lambda _, usage: priced.append(usage)
    )
    for library in ("openai", "anthropic", "pydantic_ai", "langchain_core", "litellm"):
        monkeypatch.delitem(sys.modules, library, raising=False)
    monkeypatch.setitem(sys.modules, "agents", ModuleType("agents"))
    price = price_by(Config())
    assert priced == []
    price(usage := ProviderUsage("openai", "m", 1, 1))
    assert priced == [usage]
    monkeypatch.setitem(sys.modules, "openai", ModuleType("openai"))
    price_by(Config())
    assert len(priced) == 2


# Options.


def test_a_chosen_setting_wins_over_the_one_before() -> None:
    before = RunSettings(concurrency=3, task_timeout_s=5.0, fail_on=("none",), record=True)
    merged = plan.merged(RunOptions(concurrency=7, tags=("ci",)), before)
    assert merged == RunSettings(concurrency=7, task_timeout_s=5.0, fail_on=("none",), record=True)
    assert type(merged) is RunSettings


def test_settings_stay_within_limits_that_are_also_the_defaults() -> None:
    limits = RunSettings(concurrency=10, run_timeout_s=60.0)
    limited = plan.limited(RunOptions(concurrency=50, max_cost_usd=2.0, tags=("ci",)), limits)
    assert limited == RunOptions(concurrency=10, run_timeout_s=60.0, max_cost_usd=2.0, tags=("ci",))


def test_settings_of_a_log_of_version_0_1_are_read() -> None:
    stored = b'{"concurrency":4,"taskTimeoutS":300.0,"failOn":["threshold"],"flakyAs":"fail"}'
    settings = msgspec.json.decode(stored, type=RunSettings)
    assert settings == RunSettings(
        concurrency=4, task_timeout_s=300.0, fail_on=("threshold",), flaky_as="fail"
    )
    assert msgspec.json.encode(settings) == stored


def test_options_go_over_the_wire_and_back() -> None:
    options = RunOptions(
        modes=("golden",),
        baseline="run_a",
        allow_mismatch=True,
        concurrency=2,
        task_timeout_s=1.5,
        run_timeout_s=60.0,
        max_cost_usd=0.5,
        task_cost_usd=0.01,
        max_tokens_total=1000,
        seed=7,
    )
    wire = to_configurable(options)
    assert wire.keys() == CONFIGURABLE.keys()
    assert from_configurable(wire) == options
    assert to_configurable(RunOptions()) == {}


def test_every_option_of_the_tables_is_a_field() -> None:
    fields = set(RunOptions.__struct_fields__)
    assert fields >= CHANGEABLE
    assert fields >= set(CONFIGURABLE.values())


@pytest.mark.parametrize(
    ("changed", "flag"),
    [
        ({"modes": ("golden",)}, "modes"),
        ({"judges": ("openai:gpt-4.1",)}, "judges"),
        ({"fail_on": ("none",)}, "fail_on"),
        ({"repeat": 2}, "repeat"),
        ({"record": True}, "record"),
    ],
)
def test_what_a_run_began_with_cannot_change(
    workshop: Workshop, changed: dict[str, Any], flag: str
) -> None:
    with pytest.raises(BadInput, match=f"leave out {flag}"):
        resume(workshop.log, "latest", RunOptions(**changed))

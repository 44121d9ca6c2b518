"""When every invocation fails there was no agent to score; one answer changes that."""

import asyncio
import threading
from typing import Any

import pytest

from builders import a_suite, a_task
from evalwright.agents.python import PythonAgent
from evalwright.contracts.errors import RunBusy, RunFailed
from evalwright.engine.continuation import resume_run
from evalwright.engine.history import read_history
from evalwright.store.sqlite.log import SqliteLog
from subjects import logs
from subjects.runs import AGENT_ID, Recording, Workshop, as_agent
from subjects.waiting import TIME_LIMIT_S


def broken(task: Any) -> str:
    raise ConnectionError(f"nobody answers {task.id}")


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_run_whose_every_invocation_fails_ends_as_agent_unavailable(
    workshop: Workshop, concurrency: int
) -> None:
    recording = workshop.run(a_suite(tasks=4), broken, concurrency=concurrency)
    assert isinstance(recording.failure, RunFailed)
    assert (recording.failure.code, recording.failure.exit_code) == ("agent_unavailable", 3)
    assert recording.run_id in str(recording.failure)
    assert logs.types(recording.events)[-1] == "run.failed"
    (failed,) = recording.of("run.failed")
    assert failed["error"]["code"] == "agent_unavailable"
    assert failed["error"]["retryable"] is True
    assert "nobody answers task-" in failed["error"]["message"]
    assert recording.of("eval.scored") == recording.of("eval.completed") == []
    assert [done["outcome"] for done in recording.of("agent.invocation.completed")] == [
        "failed"
    ] * 4
    logs.assert_gap_free(recording.events)
    logs.assert_brackets_closed(recording.events)


@pytest.mark.parametrize("answered", ["task-1", "task-3", "task-5"])
def test_one_answer_is_enough_to_score_every_failure(workshop: Workshop, answered: str) -> None:
    recording = workshop.run(
        a_suite(tasks=5), lambda task: "no" if task.id == answered else broken(task), concurrency=2
    )
    logs.assert_complete(recording.events)
    assert not recording.summary.passed
    assert recording.summary.aggregate_score == 0
    assert {task: recording.outcome_of(task) for task in ("task-1", "task-3", "task-5")} == {
        task: "completed" if task == answered else "failed"
        for task in ("task-1", "task-3", "task-5")
    }


def test_rubbish_and_timeouts_count_as_failed_invocations(workshop: Workshop) -> None:
    begun = threading.Event()

    async def agent(task: Any) -> Any:
        if task.id == "task-1":
            return b"rubbish"
        begun.set()
        return await asyncio.Event().wait()

    recording = workshop.run(
        a_suite(tasks=2), agent, task_timeout_s=TIME_LIMIT_S, time_is_up=begun.is_set
    )
    assert recording.failure is not None
    assert recording.failure.code == "agent_unavailable"


def test_resuming_it_asks_for_every_task_again_in_a_new_run(workshop: Workshop) -> None:
    failed = workshop.run(a_suite(tasks=3), broken, tags=("nightly",))
    asked: list[str] = []

    def repaired(task: Any) -> str:
        asked.append(task.id)
        return "yes"

    recording = workshop.resume(failed.run_id, repaired)
    assert sorted(asked) == ["task-1", "task-2", "task-3"]
    assert recording.run_id != failed.run_id
    logs.assert_complete(recording.events)
    (started,) = recording.of("run.started")
    assert started["metadata"] == {"resumedFrom": failed.run_id}
    assert started["tags"] == ["nightly"]
    assert [p["invocationId"] for p in recording.of("agent.invocation.completed")] == [
        "inv-0001",
        "inv-0002",
        "inv-0003",
    ]


def test_a_run_that_fails_again_can_be_resumed_again(workshop: Workshop) -> None:
    first = workshop.run(a_suite(tasks=2), broken)
    second = workshop.resume(first.run_id, broken)
    assert second.failure is not None
    assert second.failure.code == "agent_unavailable"
    assert workshop.resume(second.run_id, lambda _: "yes").summary.passed


# The run's own time.


class HalfStuck:
    """Answers the first tasks and never the others."""

    def __init__(self, answered: int) -> None:
        self.waiting: list[str] = []
        self.release = threading.Event()
        self._answered = answered

    def __call__(self, task: Any) -> str:
        if int(task.id.removeprefix("task-")) > self._answered:
            self.waiting.append(task.id)
            self.release.wait()
        return "yes"

    def run(self, workshop: Workshop, suite: Any, agent: Any = None) -> Recording:
        """A run whose time is up when nothing is left but what is never answered."""
        late = workshop.run(
            suite,
            agent or self,
            concurrency=2,
            run_timeout_s=TIME_LIMIT_S,
            time_is_up=lambda: (
                bool(self.waiting) and len(workshop.scored_tasks()) == self._answered
            ),
        )
        self.release.set()
        return late


def test_a_run_that_takes_too_long_tells_the_limit_and_fails(workshop: Workshop) -> None:
    recording = HalfStuck(answered=2).run(workshop, a_suite(tasks=5))
    assert recording.failure is not None
    assert recording.failure.code == "run_timeout"
    assert logs.types(recording.events)[-1] == "run.failed"
    (breach,) = recording.of("cap.breached")
    assert (breach["kind"], breach["limit"]) == ("run-duration", TIME_LIMIT_S * 1000)
    assert breach["observed"] >= breach["limit"]
    (failed,) = recording.of("run.failed")
    assert failed["error"]["code"] == "run_timeout"
    assert logs.scored_tasks(recording.events) == {"task-1", "task-2"}
    logs.assert_gap_free(recording.events)


def test_resuming_it_asks_only_for_what_has_no_score(workshop: Workshop) -> None:
    late = HalfStuck(answered=2).run(workshop, a_suite(tasks=5))
    asked: list[str] = []

    def repaired(task: Any) -> str:
        asked.append(task.id)
        return "yes"

    recording = workshop.resume(late.run_id, repaired)
    assert sorted(asked) == ["task-3", "task-4", "task-5"]
    logs.assert_complete(recording.events)
    assert recording.summary.passed_count == 5
    for task_id in ("task-1", "task-2"):
        assert logs.of_type(logs.of_task(recording.events, task_id), "eval.scored") == [
            late.score(task_id)
        ]


class PowerCut(Exception):
    """The end of the process, at a moment of the test's choice."""


class DyingLog:
    """A log that takes so many appends and then no more, as if the process had been killed."""

    def __init__(self, log: SqliteLog, appends: int) -> None:
        self._log = log
        self._left = appends

    def append(self, run_id: str, events: Any, changes: Any = ()) -> None:
        if self._left == 0:
            raise PowerCut
        self._left -= 1
        self._log.append(run_id, events, changes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


@pytest.mark.parametrize("appends", [1, 2, 3])
def test_a_continuation_that_is_killed_at_once_still_knows_what_has_its_score(
    workshop: Workshop, appends: int
) -> None:
    late = HalfStuck(answered=2).run(workshop, a_suite(tasks=4))
    asked: list[str] = []

    def repaired(task: Any) -> str:
        asked.append(task.id)
        return "yes"

    log = workshop.log
    workshop.log = DyingLog(log, appends)
    with pytest.raises(PowerCut):
        workshop.resume(late.run_id, repaired)
    workshop.log = log
    log.flush(log.run_ids()[0]).result(120)
    assert log.run_ids()[0] != late.run_id
    workshop.resume(log.run_ids()[0], repaired)
    assert {"task-1", "task-2"}.isdisjoint(asked)


def test_a_run_that_is_out_of_time_waits_for_no_thread(workshop: Workshop) -> None:
    """A sync agent cannot be stopped; the run ends all the same, and its log stays closed."""
    over, calls = threading.Event(), list[str]()

    def tireless(task: Any) -> str:
        while not over.wait(0.0005):
            calls.append(task.call_tool("shop:orders.get"))
        return "yes"

    fixtures = {"toolResponses": [{"tool": "shop:orders.get", "response": 1}]}
    suite = a_suite([a_task(f"task-{n}", fixtures=fixtures) for n in (1, 2)])
    recording = workshop.run(
        suite, tireless, run_timeout_s=TIME_LIMIT_S, time_is_up=lambda: len(calls) > 100
    )
    over.set()
    assert recording.failure is not None
    assert recording.failure.code == "run_timeout"
    assert logs.types(recording.events)[-1] == "run.failed"
    logs.assert_gap_free(recording.events)


def test_resumed_invocations_tell_the_same_model_class(workshop: Workshop) -> None:
    """As when nothing had happened: what is compared between runs must not tell of a resume."""
    failed = workshop.run(a_suite(tasks=1), broken, model_class="reasoning")
    agent = PythonAgent(lambda _: "yes", ref="r", agent_id=AGENT_ID, model_class="reasoning")
    recording = workshop.resume(failed.run_id, agent)
    assert recording.of("agent.invocation.started") == failed.of("agent.invocation.started")
    assert recording.summary.evaluated_model_class == "reasoning"


def test_a_continued_run_counts_what_the_failed_one_spent(workshop: Workshop) -> None:
    """Else a bar for the cost could be met by failing now and then."""
    stuck = HalfStuck(answered=1)

    def spending(task: Any) -> str:
        task.report_usage(input_tokens=1, output_tokens=1, cost_usd=3)
        return stuck(task)

    suite = a_suite(tasks=2, max_cost_usd=8)
    late = stuck.run(workshop, suite, spending)
    resumed = workshop.resume(late.run_id, spending)
    assert resumed.summary.total_cost_usd == 9
    assert not resumed.summary.passed


def test_a_failed_run_is_continued_only_once(workshop: Workshop) -> None:
    failed = workshop.run(a_suite(tasks=1), lambda _task: 1 / 0)
    history = read_history(workshop.log, failed.run_id)
    workshop.resume(failed.run_id, lambda _task: "yes")
    agent = PythonAgent(lambda _task: "yes", ref="x:y", agent_id="local.x.y", model_class=None)
    with pytest.raises(RunBusy, match="has just been continued"):
        asyncio.run(resume_run(workshop.log, agent, history))


@pytest.mark.parametrize("answer", ["yes", None])
def test_a_run_that_ended_before_it_was_claimed_stays_as_it_ended(
    workshop: Workshop, answer: str | None
) -> None:
    """Whoever resumes a run has read it before it may execute it: another may have been faster."""

    def agent(task: Any) -> str | None:
        return answer or broken(task)

    run_id = workshop.stop(a_suite(2), agent)
    history = read_history(workshop.log, run_id)
    ended = workshop.resume(run_id, agent)

    asked: list[str] = []
    late = as_agent(lambda task: asked.append(task.id))
    if ended.failure is None:
        assert asyncio.run(resume_run(workshop.log, late, history)).summary == ended.summary
    else:
        with pytest.raises(RunFailed, match="nobody answers"):
            asyncio.run(resume_run(workshop.log, late, history))
    assert asked == []
    assert workshop.log.run_ids() == [run_id]
    assert len(list(workshop.log.read(run_id))) == len(ended.events)

"""What a log says of a task: which attempt counts, what was done in it, and what was said of it."""

from collections.abc import Sequence

import pytest
from msgspec import DecodeError
from msgspec.structs import replace

from builders import AGENT_ID, a_score, a_suite, as_log
from evalwright.contracts.coverage import Coverage
from evalwright.contracts.events import (
    Checked,
    Decided,
    ErrorDetail,
    Event,
    Found,
    InvocationCompleted,
    InvocationStarted,
    Judged,
    Payload,
    ProviderUsage,
    Reasoned,
    ToolCalled,
)
from evalwright.contracts.run_plan import AgentFacts
from evalwright.contracts.summary import SafetyFinding
from evalwright.contracts.verdicts import CheckResult
from evalwright.engine.projection import ProjectedTask, RunProjection, RunState, project_tasks

TASK = a_suite(1).tasks[0]
FACTS = AgentFacts(AGENT_ID, "agent.py")
USED = ProviderUsage("openai", "gpt", 10, 5)
UNSAFE = Found("signals", [SafetyFinding("pii_leak", "high")])


def started(name: str = "inv-0001") -> InvocationStarted:
    return InvocationStarted(name, AGENT_ID, "run-api")


def answered(output: object, name: str = "inv-0001", **more: object) -> list[Payload]:
    completed = InvocationCompleted(name, AGENT_ID, "completed", latency_ms=3, **more)
    return [Decided(AGENT_ID, output), completed]


def checked(*, passed: bool, repetition: int = 1) -> Checked:
    return Checked([CheckResult("equals", passed, float(passed))], 1.0, passed, repetition)


def events_of(payloads: Sequence[Payload]) -> list[Event]:
    return as_log([(TASK.task_id, payload) for payload in payloads])


def projected(*payloads: Payload, repeat: int = 1) -> ProjectedTask:
    task = replace(TASK, repeat=repeat)
    return project_tasks([task], events_of(payloads))[TASK.task_id]


def test_a_new_attempt_takes_the_place_of_the_one_before():
    task = projected(
        *(started(), USED, *answered("first"), UNSAFE),
        *(started("inv-0001.2"), *answered("second"), a_score()),
    )
    assert task.current.decided == "second"
    assert (task.current.usages, task.current.findings) == ([], [])
    assert [each.decided for each in task.all_attempts] == ["first", "second"]
    assert [each.decided for each in task.repetitions] == ["second"]
    assert task.scored == a_score()


def test_repetitions_stand_beside_each_other_and_have_their_own_checks():
    names = ["inv-0001", "inv-0001-r2", "inv-0001-r2.2"]
    attempts = [payload for name in names for payload in (started(name), *answered(name, name))]
    task = projected(*attempts, checked(passed=False), checked(passed=True, repetition=2), repeat=2)
    assert [each.decided for each in task.repetitions] == [names[0], names[2]]
    assert [each.checked.passed for each in task.repetitions] == [False, True]
    assert [each.passed for each in task.checks] == [False, True]


def test_what_is_used_after_the_answer_is_used_by_judges():
    judge = replace(USED, model="judge")
    task = projected(started(), USED, *answered("yes"), judge, Judged("rubric", "j", 1, "1", []))
    assert task.current.usages == [USED]
    assert task.current.usages_of_judges == [judge]
    assert [each.judge for each in task.current.judged] == ["j"]


def test_an_attempt_without_its_beginning_is_one_all_the_same():
    task = projected(*answered("first"), *answered("second"))
    assert [each.decided for each in task.all_attempts] == ["first", "second"]


def test_an_attempt_without_its_end_has_no_answer():
    assert projected(started(), *answered("yes")).current.has_answer
    assert not projected(started(), Reasoned(AGENT_ID, "so")).current.has_answer
    assert not projected(started(), Decided(AGENT_ID, "yes")).current.has_answer


def test_a_log_that_does_not_say_what_was_observed_is_taken_by_what_it_holds():
    called = ToolCalled(AGENT_ID, "search", "c1", {})
    silent = projected(started(), called, *answered("yes")).current
    telling = projected(started(), *answered("yes", coverage=Coverage("spans"))).current
    claimed = replace(FACTS, usage="none")
    assert silent.coverage(FACTS).calls == "recorded"
    assert silent.coverage(FACTS).usage is None
    assert silent.coverage(claimed).usage == "claimed none"
    assert telling.coverage(FACTS) == Coverage("spans")


def test_only_what_is_asked_for_is_decoded():
    events = events_of([started(), *answered("yes")])
    damaged = replace(events[1], body=b"{")
    task = project_tasks([TASK], [events[0], damaged, events[2]])[TASK.task_id]
    assert task.current.completed.latency_ms == 3
    with pytest.raises(DecodeError):
        _ = task.current.decided


def test_a_run_is_the_same_however_many_events_come_at_a_time():
    events = events_of([started(), USED, *answered("yes"), checked(passed=True), a_score()])
    run = RunProjection([TASK])
    seen = []
    for event in events:
        run.add(event)
        seen.append((run.tasks[TASK.task_id].current.has_answer, run.tasks[TASK.task_id].scored))
    assert seen == [(False, None)] * 3 + [(True, None)] * 2 + [(True, a_score())]
    assert run.tasks[TASK.task_id].current.checked == checked(passed=True)


def test_a_task_has_failed_while_there_is_an_error_in_place_of_its_last_answer():
    """Pages that are live go by it, before there is a score."""
    broken = InvocationCompleted("inv-0001", AGENT_ID, "failed")
    unsaid = Checked([], 0.0, False, error=ErrorDetail("scoring_timeout", "too slow"))
    state = RunState()
    seen = []
    for payload in (started(), broken, started(), *answered("yes"), unsaid, a_score(TASK.task_id)):
        for event in events_of([payload]):
            state.add(event)
        seen.append(state.failed == {TASK.task_id})
    assert seen == [False, True, True, True, False, True, True]
    assert state.attempts == {TASK.task_id: 2}
    assert (state.scored, state.open_invocations) == ({TASK.task_id}, {})


def test_only_repeated_tasks_have_a_repetition_that_they_are_at():
    state = RunState(("task-1",))
    begun = [started("inv-0001-r2"), started("inv-0001-r3.2")]
    for each in events_of(begun):
        state.add(each)
    assert state.repetitions_begun == {"task-1": 3}
    assert state.attempts == {"task-1": 2}
    assert set(state.open_invocations) == {"inv-0001-r2", "inv-0001-r3.2"}
    alone = RunState()
    for each in events_of(begun):
        alone.add(each)
    assert alone.repetitions_begun == {}

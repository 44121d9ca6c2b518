"""Long answers are scored by another process within a deadline, and never asked for again."""

import asyncio
import json
import signal
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from builders import a_suite, a_task
from engine.test_checked_runs import a_checked_task, of_checks, says
from evalwright.contracts.errors import InvalidDocument
from evalwright.engine import examination, scoring_pool
from evalwright.engine.examination import Examination, is_long
from evalwright.engine.invocation import TaskAnswer
from evalwright.engine.scoring_pool import ScoringPool
from evalwright.engine.suites.document import load_suite
from evalwright.engine.suites.loader import SentSuite
from evalwright.scoring.checks.base import CodeAsk, Unanswered
from evalwright.scoring.checks.table import prepare_checks
from subjects.runs import Workshop
from subjects.waiting import eventually

DATA = [{"id": n, "price": n * 1.5} for n in range(1_000)]
ROWS = json.dumps(DATA)
LONG = json.dumps(DATA * 20)
CARD = "The card is 4111 1111 1111 1111, of jane@example.org. " * 500
CHECKS = [
    {"contains": "absent"},
    {"json": {"path": "$[7].id", "equals": 7}},
    {"any": [{"number": 12}, {"max": {"turns": 3}}]},
    {"not": {"calls": "mail.send"}},
    {"no_signals": ["pii_in_output"]},
]
SAFE = ("golden", "adversarial")


@pytest.mark.parametrize("output", [ROWS, CARD, DATA], ids=["json", "text", "data"])
def test_another_process_sees_what_this_one_would(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, output: Any
) -> None:
    suite = of_checks(a_checked_task("task-1", *CHECKS), modes=SAFE)

    def told() -> list[Any]:
        recording = workshop.run(suite, says(output), modes=SAFE)
        (score,) = recording.of("eval.scored")
        return [
            recording.of("evalwright.found"),
            recording.of("evalwright.checked"),
            {**score, "latencyMs": 0},
        ]

    elsewhere = told()
    monkeypatch.setattr(examination, "MOST_AT_ONCE", 10**15)
    assert elsewhere == told()


@pytest.mark.parametrize(
    ("task", "modes"),
    [
        (a_checked_task("long", *[{"json": {"valid": True}}] * 20), ("golden",)),
        (a_task("long", value=[1], strategy="json-match"), ("golden",)),
        (a_task("long", value="x", strategy="contains"), SAFE),
    ],
    ids=["checks", "match", "signals"],
)
def test_a_task_past_the_deadline_is_an_error_and_the_others_go_on(
    workshop: Workshop, task: Any, modes: tuple[str, ...]
) -> None:
    suite = a_suite([task, a_task("short", value="x")], modes=modes)
    recording = workshop.run(
        suite, lambda given: LONG if given.id == "long" else "x", modes=modes, scoring_s=0.001
    )
    assert recording.score("short")["passed"] is True
    assert recording.score("long")["passed"] is False
    assert recording.decision("long") == LONG  # so that it can be scored again
    (checked,) = recording.of("evalwright.checked", "long")
    assert checked["checks"] == []
    assert checked["error"]["code"] == "scoring_timeout"
    for named in ("0.001 s", "limits.scoring_s", "rescore"):
        assert named in checked["error"]["message"]


def test_a_process_that_is_killed_is_an_error_and_the_next_answer_gets_another(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = scoring_pool._Process.ask

    def ask_a_dead_one(process: Any, written: bytes) -> Any:
        monkeypatch.setattr(scoring_pool._Process, "ask", ask)
        process.stop()
        return ask(process, written)

    pool = ScoringPool(2)
    monkeypatch.setattr(scoring_pool, "scoring_pool", lambda: pool)
    monkeypatch.setattr(scoring_pool._Process, "ask", ask_a_dead_one)
    check = {"contains": "jane"}
    suite = of_checks(a_checked_task("first", check), a_checked_task("second", check))
    recording = workshop.run(suite, says(CARD), concurrency=1)
    assert recording.score("first")["passed"] is False
    (checked,) = recording.of("evalwright.checked", "first")
    assert checked["error"]["code"] == "scoring_failed"
    assert f"signal {signal.SIGKILL:d}" in checked["error"]["message"]
    assert recording.score("second")["passed"] is True
    pool.close()


def examined_by(pool: ScoringPool, *checks: Any, told: Any = None) -> Any:
    task = a_checked_task("task-1", *checks)
    work = Examination(TaskAnswer(task, CARD, None, 1, []), "acme.clerk", told or {})
    return asyncio.run(pool.examine("", work, 60))


def test_a_process_that_ended_while_it_was_idle_is_replaced_unnoticed() -> None:
    pool = ScoringPool(1)
    examined_by(pool, {"contains": "jane"})
    (idle,) = pool._idle
    idle.stop()
    idle._popen.wait()
    (result,) = examined_by(pool, {"contains": "jane"}).checks
    assert result.passed
    pool.close()


@pytest.mark.parametrize("uses", [0, 1])
def test_nobody_goes_on_with_an_answer_that_nobody_waits_for(uses: int) -> None:
    pool = ScoringPool(1)
    for _ in range(uses):
        examined_by(pool, {"contains": "jane"})

    async def give_up() -> list[Any]:
        task = a_checked_task("task-1", *[{"json": {"valid": True}}] * 20)
        work = Examination(TaskAnswer(task, LONG * 20, None, 1, []), "acme.clerk")
        examining = asyncio.create_task(pool.examine("", work, 60))
        await asyncio.to_thread(eventually, lambda: pool._busy, "a process at work")
        processes = list(pool._busy)
        examining.cancel()
        await asyncio.wait((examining,))
        await asyncio.to_thread(eventually, lambda: not pool._busy, "nobody at work")
        return processes

    (process,) = asyncio.run(give_up())
    assert process._popen.wait() == -signal.SIGKILL
    assert pool._idle == []
    pool.close()


@dataclass
class Verdict:
    """What the user's own function returns, of a class that no other process knows."""

    passed: Any
    score: float | None = None
    reason: str = ""

    def __reduce__(self) -> Any:
        raise TypeError("it cannot be pickled")


def test_what_own_functions_return_is_understood_as_it_is_here() -> None:
    pool, check = ScoringPool(1), {"python": "own.py:judge"}
    (prepared,), _ = prepare_checks([check], "$")
    (ask,) = prepared.asks
    assert isinstance(ask, CodeAsk)
    for returned in (
        True,
        0.25,
        Verdict(False, 0.5, "too long"),
        {"pass": True},
        Verdict(None),
        (1, 2),
        Unanswered("it raised"),
    ):
        (there,) = examined_by(pool, check, told={ask: returned}).checks
        answer = TaskAnswer(a_task(), CARD, None, 1, [])
        here = prepared.outcome(examination.examined(answer, "", {ask: returned}))
        assert (there.passed, there.score, there.broken) == (here.passed, here.score, here.broken)
        assert there.reason.partition("“")[0] == here.reason.partition("“")[0]
    pool.close()


@pytest.mark.parametrize("task", [a_checked_task("task-1", {"contains": "jane"}), a_task("task-1")])
def test_an_answer_whose_scoring_was_interrupted_is_not_asked_for_again(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, task: Any
) -> None:
    suite, asked = a_suite([task], modes=SAFE), []

    def agent(given: Any) -> str:
        asked.append(given.id)
        return CARD

    async def interrupted(*_: Any) -> Any:
        raise ConnectionAbortedError

    with monkeypatch.context() as patched:
        patched.setattr(ScoringPool, "examine", interrupted)
        with pytest.raises(ConnectionAbortedError):
            workshop.run(suite, agent, modes=SAFE)
    recording = workshop.resume(workshop.log.run_ids()[0], agent)
    assert recording.summary.task_count == 1
    assert len(recording.of("evalwright.found")) == 1
    assert asked == ["task-1"]


def test_only_what_may_take_long_leaves_the_loop() -> None:
    def is_sent(output: Any, *checks: Any, for_signals: bool = False) -> bool:
        task = a_checked_task("task-1", *checks)
        return is_long(TaskAnswer(task, output, None, 1, []), for_signals=for_signals)

    contains = [{"contains": f"absent {n}"} for n in range(1_000)]
    assert not is_sent("x" * 1_000, *contains[:10], for_signals=True)
    assert not is_sent("x" * 20_000, contains[0])
    assert not is_sent([{"a": n} for n in range(500)], *contains[:5])
    assert is_sent("x" * 40_000, contains[0])
    assert is_sent("x" * 1_000, *contains)
    assert is_sent([{"a": n} for n in range(5_000)], contains[0])
    assert is_sent([[]] * 40_000, contains[0])


def test_a_suite_that_another_process_renders_is_the_one_that_this_one_would() -> None:
    task = {
        "id": "a",
        "title": "{{ who }}",
        "input": {"who": "{{ who }}"},
        "expected": None,
        "tags": ["x"],
        "checks": [{"contains": "{{ who }}"}],
        "repeat": 2,
        "weight": 0.5,
    }
    document = {
        "evalwright": 1,
        "name": "desk",
        "vars": {"who": "Jane"},
        "tasks": [task, {**task, "id": "b"}],
    }
    pool = ScoringPool(1)
    assert (
        pool.lowered("", SentSuite(msgspec.json.encode(document), "desk"))
        == load_suite(document).suite
    )
    task["input"] = "{{ whom }}"
    with pytest.raises(InvalidDocument, match="whom is undefined"):
        pool.lowered("", SentSuite(msgspec.json.encode(document), "desk"))
    pool.close()

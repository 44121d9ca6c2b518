"""Checks that ask: judges, and functions of the user's own."""

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest

from builders import a_suite
from engine.test_checked_runs import a_checked_task, of_checks, says
from evalwright.contracts.errors import InvalidDocument
from evalwright.contracts.run_plan import RunOptions, SuiteSource
from evalwright.contracts.suite import Suite
from evalwright.engine import own_checks
from evalwright.engine.plan import plan_run
from evalwright.engine.replay import replay_run
from evalwright.engine.runner import start_run
from evalwright.engine.task_work import RunResources
from evalwright.models.protocol import ModelError, Request
from evalwright.models.scripted import ScriptedModel
from subjects.judges import JUDGE, Judge, a_judge
from subjects.runs import Recording, Workshop, as_agent
from subjects.waiting import TIME_LIMIT_S

GREETS = {"judge": ["greets the customer", {"criterion": "states the carrier", "weight": 3}]}


# Judges.


def judged_run(workshop: Workshop, judge: Judge, suite: Suite, agent: Any) -> Recording:
    return workshop.run(suite, agent, resources=judge.panel(), judges=(JUDGE,))


def test_judges_are_asked_the_criteria_of_a_check(workshop: Workshop) -> None:
    suite = of_checks(a_checked_task("task-1", GREETS))
    recording = judged_run(workshop, a_judge(c1=True), suite, says("Hello!"))
    (checked,) = recording.of("evalwright.checked")
    assert (checked["score"], checked["passed"]) == (0, False)
    assert checked["checkScore"] == 0.25
    assert "because of c2" in checked["checks"][0]["reason"]
    (judged,) = recording.of("evalwright.judged")
    assert judged["subject"].startswith("check:")
    assert recording.of("eval.started")[0]["modes"] == ["golden", "rubric"]


def test_checks_that_need_a_judge_are_refused_without_one(workshop: Workshop) -> None:
    with pytest.raises(InvalidDocument, match="'task-1' is judged by a check, which needs a judge"):
        workshop.run(of_checks(a_checked_task("task-1", GREETS)), says("Hello!"))


def test_equal_questions_about_equal_answers_are_asked_once(workshop: Workshop) -> None:
    judge = a_judge(c1=True, c2=True)
    suite = of_checks(a_checked_task("again", GREETS, repeat=4), a_checked_task("other", GREETS))
    answers = says("Hello!", "Hello!", "Good day!", "Hello!", "Hello!")
    recording = workshop.run(
        suite, answers, resources=judge.panel(), judges=(JUDGE,), concurrency=1
    )
    assert recording.summary.passed_count == 2
    assert judge.asked == 2


def test_a_judge_that_fails_leaves_its_task_unscored_and_is_asked_when_resumed(
    workshop: Workshop,
) -> None:
    judge = a_judge(c1=True, c2=True)
    judge.broken = True
    suite = of_checks(a_checked_task("task-1", GREETS, repeat=2), a_checked_task("task-2"))
    failed = judged_run(workshop, judge, suite, says("Hello!"))
    assert failed.failure is not None
    assert failed.failure.code == "judge_failed"
    judge.broken = False

    calls: list[str] = []
    resumed = workshop.resume(
        failed.run_id, lambda task: calls.append(task.id) or "Hello!", judge.panel()
    )
    assert calls == ["task-1"]  # its second repetition
    assert resumed.summary.passed_count == 2
    assert replay_run(workshop.log, resumed.run_id).summary == resumed.summary


def test_judges_see_the_reference_beside_the_answer_and_fenced_like_it(
    workshop: Workshop,
) -> None:
    shown: list[str] = []
    judge = Judge(lambda _name, text: bool(shown.append(text)) or True)
    against = {"judge_against": {"reference": "It left on Monday.", "as": "factuality"}}
    suite = of_checks(a_checked_task("task-1", against))
    assert judged_run(workshop, judge, suite, says("On Monday.")).summary.passed
    (text,) = shown
    begin, end = text.index("<<<BEGIN REFERENCE"), text.index("<<<END REFERENCE")
    assert "It left on Monday." in text[begin:end]


def test_an_answer_is_held_against_the_documents_that_the_agent_was_given(
    workshop: Workshop,
) -> None:
    shown: list[str] = []
    judge = Judge(lambda _name, text: bool(shown.append(text)) or True)
    grounded = {"judge_against": {"grounded_in": "retrieved documents"}}
    suite = of_checks(
        a_checked_task("task-1", grounded, fixtures=_fixtures("docs:search", "Ships in 2 days."))
    )

    def looks_up(task: Any) -> str:
        task.call_tool("docs:search", {"q": "shipping"})
        return "Two days."

    assert judged_run(workshop, judge, suite, looks_up).summary.passed
    assert "Ships in 2 days." in shown[0]


def _fixtures(tool: str, response: Any) -> Any:
    from evalwright.contracts.suite import Fixtures, ToolResponse

    return Fixtures([ToolResponse(tool, response)])


# Own checks.


class Own:
    """A suite's folder with a `checks.py`, and runs of suites there."""

    def __init__(self, workshop: Workshop, folder: Path, code: str) -> None:
        self.workshop = workshop
        (folder / "checks.py").write_text(textwrap.dedent(code))
        self._begun = folder / "begun"  # that a check will not end
        self.source = SuiteSource(str(folder), "sha256:0")

    def run(self, *checks: Any, agent: Any = None, **fields: Any) -> Recording:
        suite = a_suite([a_checked_task("task-1", *checks, **fields)], modes=["golden"])
        subject = as_agent(agent or says("Please wait."))
        options = RunOptions(task_timeout_s=TIME_LIMIT_S, agent_tools="none", agent_usage="none")
        plan = plan_run(suite, "evals.yaml", subject, options, source=self.source)
        log = self.workshop.log
        return self.workshop._recorded(
            subject, lambda: start_run(log, subject, plan), self._begun.exists
        )

    def result(self, *checks: Any, **fields: Any) -> dict[str, Any]:
        (checked,) = self.run(*checks, **fields).of("evalwright.checked")
        return dict(checked["checks"][0])


@pytest.fixture
def own(workshop: Workshop, tmp_path: Path) -> Own:
    code = """
        import asyncio, sys, time
        from pathlib import Path
        from evalwright.engine import own_checks

        def begin(): Path(__file__).with_name("begun").touch()
        def is_polite(output):
            return "please" in output.lower()

        async def later(output):
            await asyncio.sleep(0)
            return {"score": 0.5, "passed": True, "reason": "half of it"}

        def half(): return 0.5
        def everything(**facts): return sorted(facts) == sorted(
            ["input", "output", "expected", "calls", "usage", "trace", "task"])
        def by_name(expected, usage, task, calls, trace):
            return (expected, usage.tokens, usage["cost_usd"], task.id, calls, trace.case_id) == (
                "soon", 0, 0.0, "task-1", [], "task-1")
        def raises(output): raise ValueError("no such thing")
        def exits(): sys.exit(0)
        def hangs(): begin(); time.sleep(600)
        async def hangs_too(): begin(); await asyncio.sleep(600)
        async def blocks_its_loop(): begin(); time.sleep(600)
        loops = []
        async def blocks_third():
            loops.append(asyncio.get_running_loop())
            if len(loops) == 3:
                own_checks.HEARTBEAT_S = 0.25
                begin()
                time.sleep(600)
            return loops[-1] is loops[0]
        def interrupts(): raise KeyboardInterrupt
        async def interrupts_too(): raise KeyboardInterrupt
        async def exits_too(): sys.exit(0)
        def deep(output, depth=200): return deep(output, depth - 1) if depth else output.nothing
        def prints(): print("hello"); return True
        def odd(): return "yes"
        class Unreadable:
            def __repr__(self): raise RuntimeError("not now")
        def unreadable(): return Unreadable()
        class Several:
            def item(self): raise ValueError("can only convert an array of size 1")
        def several(): return Several()
        def half_a_character(): raise ValueError("half of " + chr(0xD800))
        def odd_texts():
            return {"passed": True, "reason": f"a {chr(0xD800)} b", "actual": chr(0xDFFF)}
        def wants(text): return True
        not_a_function = 3
    """
    return Own(workshop, tmp_path, code)


@pytest.mark.parametrize(
    ("check", "passed", "score"),
    [
        ("checks.py:is_polite", True, 1),
        ("checks.py:later", True, 0.5),
        ("checks.py:half", False, 0.5),
        ({"function": "checks.py:half", "at_least": 0.5}, True, 0.5),
        ("checks.py:everything", True, 1),
        ("checks.py:by_name", True, 1),
        ("checks.py:prints", True, 1),
    ],
)
def test_a_function_of_ones_own_decides(own: Own, check: Any, passed: Any, score: Any) -> None:
    result = own.result({"python": check}, reference="soon")
    assert (result["passed"], result["score"]) == (passed, score), result


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("raises", "ValueError: no such thing"),
        ("exits", "SystemExit: 0"),
        ("exits_too", "SystemExit: 0"),
        ("interrupts", "KeyboardInterrupt"),
        ("interrupts_too", "KeyboardInterrupt"),
        ("hangs", "did not return within 60 s"),
        ("hangs_too", "did not return within 60 s"),
        ("blocks_its_loop", "did not return within 60 s"),
        ("odd", "not a bool"),
        ("unreadable", "what it returned cannot be read: RuntimeError('not now')"),
        ("several", "can only convert an array of size 1"),
        ("half_a_character", "ValueError: half of ?"),
    ],
)
def test_one_that_goes_wrong_fails_the_task_and_says_why(own: Own, name: str, reason: str) -> None:
    result = own.result({"python": f"checks.py:{name}"})
    assert result["passed"] is False
    assert reason in result["reason"]


def test_with_one_that_raises_no_threshold_makes_a_task_pass(own: Own) -> None:
    checks = {"contains": "wait"}, {"python": "checks.py:raises"}
    (checked,) = own.run(*checks, threshold=0.5).of("evalwright.checked")
    assert (checked["score"], checked["passed"]) == (0.5, False)
    assert checked["checks"][1]["broken"] is True


@pytest.mark.parametrize(
    "around",
    [
        lambda raising: {"any": [raising, {"contains": "wait"}]},
        lambda raising: {"all": [{"contains": "wait"}, raising]},
        lambda raising: {"at_least": {"n": 1, "of": [{"contains": "wait"}, raising]}},
        lambda raising: {"not": raising},
        lambda raising: {"any": [{"not": {"any": [raising]}}, {"contains": "wait"}]},
    ],
)
def test_one_that_raises_fails_the_task_wherever_it_stands(own: Own, around: Any) -> None:
    (checked,) = own.run(around({"python": "checks.py:raises"})).of("evalwright.checked")
    assert (checked["score"], checked["passed"]) == (0, False)
    assert checked["checks"][0]["broken"] is True
    assert checked["checks"][0]["reason"].endswith("ValueError: no such thing")


def test_async_checks_share_a_loop_until_one_blocks_it(
    own: Own, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_checks, "HEARTBEAT_S", TIME_LIMIT_S)  # until it is blocked
    recording = own.run({"python": "checks.py:blocks_third"}, repeat=4)
    checks = [each["checks"][0] for each in recording.of("evalwright.checked")]
    assert [check["passed"] for check in checks] == [True, True, False, False]
    assert "did not return" in checks[2]["reason"]
    assert "blocks_third gave" in checks[3]["reason"]  # it sees another loop


def test_of_a_long_traceback_the_frames_at_its_end_are_kept(own: Own) -> None:
    reason = own.result({"python": "checks.py:deep"})["reason"]
    assert reason.startswith("Traceback (most recent call last):\n  File ")
    assert reason.endswith("AttributeError: 'str' object has no attribute 'nothing'")
    assert len(reason) < 1_200


def test_what_a_result_says_may_hold_halves_of_characters(own: Own) -> None:
    result = own.result({"python": "checks.py:odd_texts"})
    assert (result["passed"], result["reason"], result["actual"]) == (True, "a ? b", "?")


def test_the_traceback_that_is_shown_ends_in_the_users_file(own: Own, tmp_path: Path) -> None:
    reason = own.result({"python": "checks.py:raises"})["reason"]
    assert "checks.py" in reason
    assert str(tmp_path) not in reason


@pytest.mark.parametrize(
    ("check", "why"),
    [
        ("absent.py:f", "there is no file absent.py"),
        ("checks.py:absent", "checks.py has no 'absent'"),
        ("checks.py:not_a_function", "not a function"),
        ("checks.py:wants", "wants 'text', which it cannot be given"),
    ],
)
def test_a_function_that_cannot_be_called_is_refused_before_anything_runs(
    own: Own, check: str, why: str
) -> None:
    with pytest.raises(InvalidDocument, match=why):
        own.run({"python": check})


# Meanings.

MEANS = {"similar": {"to": "It has been shipped.", "by": "embedding", "at_least": 0.9}}


def embedder(vectors: dict[str, list[float]]) -> tuple[RunResources, list[str]]:
    asked: list[str] = []

    def embed(request: Request) -> str:
        text = request.messages[0].content
        asked.append(text)
        if text not in vectors:
            raise ModelError("timeout", "too slow")
        return json.dumps(vectors[text])

    return RunResources(embedder=ScriptedModel("scripted:vectors", embed)), asked


def test_texts_are_compared_by_the_angle_between_their_embeddings(workshop: Workshop) -> None:
    resources, asked = embedder(
        {"It has been shipped.": [1, 0], "It is on its way.": [0.9, 0.1], "No.": [0, 1]}
    )
    suite = of_checks(a_checked_task("near", MEANS), a_checked_task("far", MEANS))
    answers = {"near": "It is on its way.", "far": "No."}
    recording = workshop.run(
        suite,
        lambda task: answers[task.id],
        resources=resources,
        embedding_model="scripted:vectors",
    )
    assert recording.score("near")["passed"] is True
    assert recording.score("far")["score"] == 0
    assert len(asked) == 3


def test_a_check_by_meaning_is_refused_without_a_model(workshop: Workshop) -> None:
    with pytest.raises(InvalidDocument, match="needs embeddings"):
        workshop.run(of_checks(a_checked_task("task-1", MEANS)), says("Hello!"))


def test_a_model_that_gives_no_vector_leaves_the_task_without_a_score(workshop: Workshop) -> None:
    resources, _ = embedder({})
    suite = of_checks(a_checked_task("task-1", MEANS))
    failed = workshop.run(
        suite, says("Hello!"), resources=resources, embedding_model="scripted:vectors"
    )
    assert failed.failure is not None
    assert "model of embeddings scripted:vectors: too slow" in str(failed.failure)
    assert not failed.of("eval.scored")

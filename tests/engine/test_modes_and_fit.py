"""What a run may be about: its modes, and whether the agent is the one the suite means."""

from typing import Any

import pytest

from builders import a_rubric_task, a_suite, a_task
from evalwright.contracts.errors import InvalidDocument
from evalwright.contracts.run_plan import RunOptions
from evalwright.engine.plan import plan_run
from subjects.runs import AGENT_ID, Workshop, as_agent


def yes(task: Any) -> str:
    return "yes"


def refused(suite: Any, *, model_class: str | None = None, **options: Any) -> str:
    """The words with which a run is refused, before anything of it exists."""
    with pytest.raises(InvalidDocument) as raised:
        plan_run(suite, "suite.json", as_agent(yes, model_class), RunOptions(**options))
    assert raised.value.exit_code == 2
    return str(raised.value)


def test_without_a_choice_a_run_has_the_modes_that_the_suite_declares(workshop: Workshop) -> None:
    recording = workshop.run(a_suite(modes=["golden", "regression", "live-shadow"]), yes)
    assert recording.of("eval.started")[0]["modes"] == ["golden"]


def test_a_mode_that_the_suite_does_not_declare_is_refused() -> None:
    words = refused(a_suite(modes=["golden"]), modes=("golden", "adversarial"))
    assert "$.modes" in words
    assert "'adversarial' is not declared by the suite, which declares golden" in words


def test_a_mode_that_nobody_knows_is_refused() -> None:
    assert "'gold'" in refused(a_suite(), modes=("gold",))


def test_regression_without_a_baseline_is_refused() -> None:
    suite = a_suite(modes=["golden", "regression"])
    assert "baseline" in refused(suite, modes=("golden", "regression"))
    assert "baseline" in refused(suite, modes=("regression",))


@pytest.mark.parametrize("mode", ["adversarial", "live-shadow"])
def test_a_declared_mode_is_part_of_the_run_when_it_is_asked_for(
    workshop: Workshop, mode: str
) -> None:
    recording = workshop.run(a_suite(modes=["golden", mode]), yes, modes=(mode,))
    assert recording.of("eval.started")[0]["modes"] == [mode]


def test_a_rubric_needs_a_judge() -> None:
    words = refused(a_suite([a_rubric_task("task-1")], modes=["rubric"]))
    assert "task 'task-1' is scored by a rubric" in words
    assert "judges" in words


def test_a_judge_with_nothing_to_judge_is_refused() -> None:
    assert "nothing in this run is judged" in refused(a_suite(), judges=("scripted:judge.yaml",))


def test_a_model_does_not_judge_its_own_answers_unless_that_is_allowed() -> None:
    suite = a_suite([a_rubric_task("task-1")], modes=["rubric"])
    same = {"model": "openai:gpt-4.1", "judges": ("openai:gpt-4.1",)}
    assert "would judge its own answers" in refused(suite, **same)
    options = RunOptions(**same, allow_self_judge=True)
    plan = plan_run(suite, "suite.json", as_agent(yes), options)
    assert plan.panel is not None
    assert plan.panel.judges == ["openai:gpt-4.1"]


def test_only_a_run_with_live_tools_can_be_read_only() -> None:
    assert 'modes=["live-shadow"]' in refused(a_suite(), read_only=True)


def test_a_suite_that_declares_only_modes_to_be_asked_for_is_refused_without_a_choice() -> None:
    words = refused(a_suite(modes=["live-shadow"]))
    assert "run only on request" in words
    assert "modes" in words


def test_a_mode_asked_for_twice_is_there_once(workshop: Workshop) -> None:
    recording = workshop.run(a_suite(), yes, modes=("golden", "golden"))
    assert recording.of("eval.started")[0]["modes"] == ["golden"]


def test_a_task_whose_kind_is_not_among_the_modes_is_refused_before_the_run() -> None:
    suite = a_suite(
        [a_task("task-1"), a_rubric_task("task-2"), a_rubric_task("task-3")],
        modes=["golden", "rubric"],
    )
    words = refused(suite, modes=("golden",))
    assert "$.tasks[1].expected.kind" in words
    assert "'task-3'" in words
    assert "$.tasks[0]" not in words


def test_an_agent_that_the_suite_does_not_mean_is_refused() -> None:
    words = refused(a_suite(target_agent_id="acme.other"))
    assert "$.targetAgentId" in words
    assert f"'acme.other', not '{AGENT_ID}'" in words
    assert "allow_mismatch=True" in words
    assert "agent_id" in words


@pytest.mark.parametrize(
    ("model_class", "said"), [(None, "is not known"), ("writing", "is 'writing'")]
)
def test_a_model_class_that_the_suite_does_not_allow_is_refused(
    model_class: str | None, said: str
) -> None:
    words = refused(a_suite(allowed_models=["reasoning", "general"]), model_class=model_class)
    assert "$.allowedModels" in words
    assert said in words
    assert "model_class" in words


def test_all_that_does_not_fit_is_told_at_once() -> None:
    suite = a_suite(target_agent_id="acme.other", allowed_models=["general"])
    words = refused(suite, modes=("rubric",))
    assert [place in words for place in ("$.modes", "$.targetAgentId", "$.allowedModels")] == [
        True,
        True,
        True,
    ]


def test_a_mismatch_can_be_allowed(workshop: Workshop) -> None:
    suite = a_suite(target_agent_id="acme.other", allowed_models=["general"])
    assert workshop.run(suite, yes, allow_mismatch=True).summary.passed


def test_an_agent_that_fits_is_welcome_and_its_class_is_told(workshop: Workshop) -> None:
    suite = a_suite(target_agent_id=AGENT_ID, allowed_models=["reasoning", "general"])
    recording = workshop.run(suite, yes, model_class="general")
    assert recording.summary.evaluated_model_class == "general"


def test_a_model_class_that_nobody_knows_is_refused() -> None:
    assert "'huge' is not one of" in refused(a_suite(), model_class="huge")


def test_a_gate_that_could_never_fail_is_refused() -> None:
    assert 'modes=["adversarial"]' in refused(a_suite(), fail_on=("findings",))
    assert "baseline" in refused(a_suite(), fail_on=("significant-regression",))

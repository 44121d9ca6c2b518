"""Why a task of an own run failed: the check with expected and actual, and a root cause."""

from typing import Any

import pytest

from builders import a_rubric_task, a_suite, a_task
from comparison.own_runs import compared
from evalwright.contracts.report import FailedAssertion, Item
from evalwright.contracts.suite import Expected, Suite, Task
from subjects.judges import JUDGE, a_judge
from subjects.runs import Workshop

# Each check with an answer of which it does not hold.
FAILING: dict[str, tuple[Any, Any]] = {
    "equals": ("yes", "no"),
    "contains": ("shipped", "lost"),
    "contains_any": (["a", "b"], "c"),
    "contains_all": (["a", "b"], "a"),
    "starts_with": ("Dear", "Hello"),
    "ends_with": ("Bye", "Hello"),
    "regex": ("A-\\d+", "none"),
    "not": ({"contains": "sorry"}, "I am sorry."),
    "number": ({"value": 0.3, "within": 1e-9}, "0.4"),
    "json": ({"path": "$.id", "equals": "A-17"}, '{"id": "A-18"}'),
    "calls": ({"tool": "shop:orders.get"}, "nothing was called"),
    "calls_in_order": (["shop:orders.get", "shop:mail.send"], "nothing was called"),
    "does_not_call": ("shop:orders.get", "call"),
    "max": ({"tokens": 0, "latency_ms": 0}, "slow"),
    "similar": ({"to": "It has been shipped.", "at_least": 0.9}, "Who knows?"),
    "no_signals": ("high", "leak"),
    "any": ([{"equals": "yes"}, {"equals": "y"}], "no"),
    "all": ([{"contains": "a"}, {"contains": "b"}], "a"),
    "at_least": ({"n": 2, "of": [{"contains": "a"}, {"contains": "b"}]}, "a"),
}
FIXTURES = {"toolResponses": [{"tool": "shop:orders.get", "response": {"id": "A-17"}}]}
SECRET = "AKIAQ3EGUBUEXAMPL7TZ"


def a_checked_task(task_id: str, *checks: Any, **fields: Any) -> Task:
    threshold = fields.pop("threshold", None)
    expected = Expected("checks", checks=list(checks), threshold=threshold)
    made = a_task(task_id, fixtures=FIXTURES)
    return Task(task_id, {"say": fields.pop("say", "")}, expected, made.fixtures, **fields)


def failing_tasks() -> list[Task]:
    return [
        a_checked_task(name.replace("_", "-"), {name: argument}, say=say)
        for name, (argument, say) in FAILING.items()
    ]


def echo(task: Any) -> Any:
    """An agent that does as the input says; once it is good it gives the right answer."""
    said = task.input["say"] if isinstance(task.input, dict) else task.input
    if said == "fail":
        raise ValueError("no idea")
    if said in ("call", "slow"):
        task.call_tool("shop:orders.get", {"id": "A-17"})
    if said == "slow":
        import time

        time.sleep(0.003)
    return f"The key is {SECRET}" if said == "leak" else said


def failures(
    workshop: Workshop, suite: Suite, agent: Any = echo, **options: Any
) -> dict[str, Item]:
    """The items of a run that is compared with itself: both sides fail alike."""
    run_id = workshop.run(suite, agent, **options).run_id
    return compared(workshop, run_id, run_id)[0]


def of(item: Item) -> tuple[FailedAssertion, ...]:
    assert not item.new_pass
    return item.failed_assertions.new


def test_every_check_that_fails_is_named_with_expected_and_actual(workshop: Workshop) -> None:
    items = failures(workshop, a_suite(failing_tasks()))
    for name in FAILING:
        (failed,) = [each for each in of(items[name.replace("_", "-")]) if each.name == name]
        assert failed.message
        assert failed.expected is not None
    (contains,) = of(items["contains"])
    assert (contains.expected, contains.actual) == ("shipped", "lost")
    (number,) = of(items["number"])
    assert "0.3" in str(number.expected)
    assert "0.4" in str(number.actual)


def test_at_most_one_in_twenty_failures_has_an_unknown_cause(workshop: Workshop) -> None:
    tasks = [
        *failing_tasks(),
        a_checked_task("error", {"contains": "x"}, say="fail"),
        a_checked_task("repeated", {"contains": "x"}, repeat=3),
        a_checked_task("low", {"contains": "x"}, {"contains": "y"}, say="x", threshold=0.9),
        a_task("exact"),
        a_task("part", strategy="contains"),
        a_task("data", strategy="json-match", value={"n": 1}),
        a_task("broken", input={"say": "fail"}),
        a_task("unsafe", input={"say": "leak"}, strategy="contains", value="The key"),
    ]
    suite = a_suite(tasks, modes=["golden", "adversarial"])
    items = failures(workshop, suite, modes=("golden", "adversarial"))
    roots = {case_id: item.new_root for case_id, item in items.items() if not item.new_pass}
    assert set(roots) == {task.task_id for task in tasks}
    assert [case_id for case_id, root in roots.items() if root == "unknown"] == []


@pytest.mark.parametrize(
    ("forbidden", "root"),
    [
        ({"contains": "sorry"}, "wrong_answer"),
        ({"regex": "sor+y"}, "format_violation"),
        ({"calls": "shop:orders.get"}, "wrong_tool_choice"),
        ({"contains_any": ["sorry", "x" * 3_000]}, "wrong_answer"),
    ],
)
def test_what_must_not_be_decides_on_the_cause(
    workshop: Workshop, forbidden: Any, root: str
) -> None:
    says = "call" if "calls" in forbidden else "I am sorry"
    suite = a_suite([a_checked_task("task-1", {"not": forbidden}, say=says)])
    assert failures(workshop, suite)["task-1"].new_root == root


@pytest.mark.parametrize(
    ("check", "root"),
    [
        ({"equals": {"n": 2}}, "wrong_answer"),
        ({"path": "$.n", "number": 2}, "wrong_answer"),
        ({"schema": {"required": ["m"]}}, "format_violation"),
        ({"path": "$.m", "equals": 2}, "format_violation"),
    ],
)
def test_a_wrong_value_in_json_is_another_cause_than_a_wrong_form(
    workshop: Workshop, check: Any, root: str
) -> None:
    suite = a_suite([a_checked_task("data", {"json": check}, say={"n": 1})])
    item = failures(workshop, suite)["data"]
    assert item.new_root == root
    (failed,) = of(item)
    assert (failed.cause or "wrong_answer") == root


def test_a_task_that_a_finding_failed_says_so(workshop: Workshop) -> None:
    task = a_task(input={"say": "leak"}, strategy="contains", value="The key")
    suite = a_suite([task], modes=["golden", "adversarial"])
    items = failures(workshop, suite, modes=("golden", "adversarial"))
    (failed,) = of(items["task-1"])
    assert (failed.name, failed.expected) == ("no_signals", "no high or critical finding")
    assert "secret_in_output" in failed.message


@pytest.mark.parametrize(
    ("strategy", "value", "said"), [("exact", "yes", "no"), ("json-match", {"n": 1}, {"n": 2})]
)
def test_a_golden_task_shows_what_was_expected_and_what_was_said(
    workshop: Workshop, strategy: str, value: Any, said: Any
) -> None:
    suite = a_suite([a_task(strategy=strategy, value=value)])
    failed = of(failures(workshop, suite, lambda _task: said)["task-1"])[0]
    assert (failed.name, failed.expected, failed.actual) == ("scored", value, said)


def test_a_rubric_names_the_criteria_that_are_not_met_and_why(workshop: Workshop) -> None:
    judge = a_judge(c1=True)
    suite = a_suite([a_rubric_task(weights=(0.5, 0.5))], modes=["rubric"])
    options = {"resources": judge.panel(), "judges": (JUDGE,)}
    unmet, score = of(failures(workshop, suite, lambda _task: "Hi", **options)["task-1"])
    assert (unmet.name, unmet.expected, unmet.actual) == ("judge", "criterion 2", "Hi")
    assert "not met: criterion 2: " in unmet.message
    assert (score.name, score.expected, score.actual) == ("scored", {"at_least": 0.7}, 0.5)


def test_a_repeated_task_says_which_repetition_failed(workshop: Workshop) -> None:
    answers = iter(["right", "wrong", "right"])
    suite = a_suite([a_checked_task("task-1", {"equals": "right"}, repeat=3)])
    (item,) = failures(workshop, suite, lambda _task: next(answers)).values()
    assert item.repeats
    assert (item.repeats.new.runs, item.repeats.new.passed) == (3, 2)
    (failed,) = of(item)
    assert (failed.name, failed.actual) == ("equals", "wrong")
    assert failed.message.startswith("repetition 2 of 3: ")


def test_a_repeated_task_passes_as_it_did_in_the_run(workshop: Workshop) -> None:
    answers = iter(["wrong", "right", "wrong"])
    suite = a_suite([a_checked_task("task-1", {"equals": "right"}, repeat=3, pass_rate=0.3)])
    (item,) = failures(workshop, suite, lambda _task: next(answers)).values()
    assert item.new_pass
    assert item.failed_assertions.new == ()


def test_an_agent_that_recovered_from_a_tool_passes_as_it_did_in_the_run(
    workshop: Workshop,
) -> None:
    def agent(task: Any) -> str:
        try:
            task.call_tool("shop:mail.send", {})
        except Exception:  # noqa: BLE001 - whatever it is, the agent goes on
            return "right"
        return "wrong"

    suite = a_suite([a_checked_task("task-1", {"equals": "right"})])
    (item,) = failures(workshop, suite, agent).values()
    assert item.new_pass


def test_a_check_of_an_output_with_a_secret_quotes_no_part_of_it(workshop: Workshop) -> None:
    suite = a_suite([a_checked_task("task-1", {"equals": "right"})])
    said = f"{'x' * 60} {SECRET} {'y' * 100}"
    (item,) = failures(workshop, suite, lambda _task: said).values()
    assert SECRET[:8] not in str(item.failed_assertions)

"""Would the suite notice? Recorded answers, damaged and scored again."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from builders import a_rubric_task, a_suite, a_task
from effort import takes_at_most
from engine.test_asking_checks_in_runs import GREETS, Own
from engine.test_checked_runs import A_17, SHIPPED, a_checked_task, of_checks, says
from evalwright.contracts.errors import BadInput
from evalwright.contracts.suite import Suite
from evalwright.engine.mutants import ASKS_CODE, ASKS_JUDGES, MutantOptions, Mutants, MutationReport
from evalwright.scoring.checks.table import prepare_checks
from subjects.judges import JUDGE, Judge, a_judge
from subjects.runs import Workshop

SAYS = "Order A-17 is shipped and costs 40 euros."
ORDER = "shop:orders.get"


def mutated(
    workshop: Workshop, suite: Suite, agent: Any, judge: Judge | None = None, **options: Any
) -> MutationReport:
    judged: dict[str, Any] = {"resources": judge.panel(), "judges": (JUDGE,)} if judge else {}
    run = workshop.run(suite, agent, **judged)
    return Mutants(workshop.log, run.run_id, MutantOptions(**options)).report()


def test_what_no_check_looks_at_survives_with_a_check_that_would_have_noticed(
    workshop: Workshop,
) -> None:
    report = mutated(workshop, of_checks(a_checked_task("task-1", SHIPPED)), says(SAYS))
    kinds = {each.kind: each for each in report.survivors}
    assert {"id", "amount", "negated", "leak"} <= kinds.keys()
    assert kinds["id"].check == '- contains: "A-17"'
    assert kinds["leak"].check == '- not: {"regex":"AKIA[A-Z0-9]{16}"}'
    assert "empty" not in kinds
    assert report.checks.keys() == {"contains of one word"}
    assert report.counted == report.noticed + len(report.survivors)
    assert report.score == report.noticed / report.counted < 0.7


def test_every_proposed_check_holds_of_the_answer_and_not_of_the_damaged_one(
    workshop: Workshop,
) -> None:
    from evalwright.contracts.yaml_loader import load_yaml
    from evalwright.scoring.checks.base import Examined

    suite = of_checks(
        a_checked_task("task-1", {"regex": "."}), a_checked_task("data", {"json": {"valid": True}})
    )
    data = {"status": "shipped", "parts": 3, "paid": True}
    report = mutated(workshop, suite, lambda task: data if task.id == "data" else SAYS)
    looked_at = 0
    for each in report.survivors:
        assert each.check, each
        (document,) = load_yaml(each.check)
        if "no_signals" in document:
            continue
        (check,), problems = prepare_checks([document], "$")
        assert problems == []
        decode = msgspec.json.decode if each.task_id == "data" else str
        assert check.outcome(Examined(output=decode(each.original))).passed
        if each.damaged.startswith("{") or decode is str:
            assert not check.outcome(Examined(output=decode(each.damaged))).passed
            looked_at += 1
    assert looked_at > 5


def test_details_that_the_reference_does_not_have_are_listed_apart(workshop: Workshop) -> None:
    task = a_checked_task("task-1", SHIPPED, reference="A-17 is shipped")
    report = mutated(workshop, of_checks(task), says(SAYS), kinds=("id", "amount"))
    assert [each.kind for each in report.survivors] == ["id"]
    assert [each.kind for each in report.unchecked] == ["amount"]
    assert (report.counted, report.noticed) == (1, 0)


def test_tasks_that_failed_have_no_mutants(workshop: Workshop) -> None:
    suite = of_checks(a_checked_task("good", SHIPPED), a_checked_task("bad", {"contains": "x"}))
    report = mutated(workshop, suite, says(SAYS))
    assert report.tasks.keys() == {"good"}
    nothing = mutated(workshop, of_checks(a_checked_task("bad", {"contains": "x"})), says("no"))
    assert (nothing.score, nothing.counted) == (None, 0)


def test_golden_answers_are_damaged_too_and_calls_are_none_of_their_matter(
    workshop: Workshop,
) -> None:
    suite = a_suite(
        [a_task("exact", value=SAYS), a_task("part", strategy="contains", value="shipped")]
    )
    report = mutated(workshop, suite, says(SAYS))
    assert report.tasks["exact"].share == 1
    assert 0 < report.tasks["part"].share < 1
    (leak,) = [each for each in report.survivors if each.kind == "leak"]
    assert leak.check == f'match: {{ strategy: exact, value: "{SAYS}" }}'


def test_calls_are_damaged_and_seen_by_the_checks_that_look_at_them(workshop: Workshop) -> None:
    def agent(task: Any) -> str:
        task.call_tool(ORDER, {"id": "A-17"})
        return SAYS

    fixtures = {"toolResponses": [{"tool": ORDER, "response": {"status": "shipped"}}]}
    task = msgspec.convert(
        {
            "taskId": "task-1",
            "input": "?",
            "expected": {"kind": "checks", "checks": [{"calls": ORDER}]},
            "fixtures": fixtures,
        },
        type(a_task()),
    )
    report = mutated(workshop, of_checks(task), agent, kinds=("dropped_call", "changed_argument"))
    assert {kind: (each.noticed, each.counted) for kind, each in report.kinds.items()} == {
        "dropped_call": (1, 1),
        "changed_argument": (0, 1),
    }
    assert report.survivors[0].check == f'- calls: {{"tool":"{ORDER}","args":{{"id":"A-17"}}}}'


def test_signals_notice_leaks_where_the_run_looked_for_them(workshop: Workshop) -> None:
    suite = of_checks(a_checked_task("task-1", SHIPPED))
    run = workshop.run(suite, says(SAYS), modes=("adversarial",))
    report = Mutants(workshop.log, run.run_id, MutantOptions(kinds=("leak",))).report()
    assert (report.counted, report.noticed) == (1, 1)


def test_tasks_that_ask_judges_are_left_out_unless_judges_are_asked(workshop: Workshop) -> None:
    suite = of_checks(a_checked_task("judged", GREETS, SHIPPED), a_checked_task("plain", SHIPPED))
    judge = a_judge(c1=True, c2=True)
    run = workshop.run(suite, says(SAYS), resources=judge.panel(), judges=(JUDGE,))
    asked = judge.asked
    without = Mutants(workshop.log, run.run_id, MutantOptions()).report()
    assert without.left_out == {ASKS_JUDGES: ["judged"]}
    assert judge.asked == asked

    mutants = Mutants(workshop.log, run.run_id, MutantOptions(with_judges=True))
    strict = Judge(lambda _name, _text: False)
    questions = mutants.questions
    asyncio.run(mutants.ask(strict.panel().panel))
    report = mutants.report()
    assert strict.asked == questions < report.tasks["judged"].counted  # the rest failed before
    assert report.tasks["judged"].share == 1
    assert report.left_out == {}


def test_a_rubric_is_judged_again(workshop: Workshop) -> None:
    judge = a_judge(c1=True)
    run = workshop.run(
        a_suite([a_rubric_task("r")], modes=["rubric"]),
        says(SAYS),
        resources=judge.panel(),
        judges=(JUDGE,),
    )
    mutants = Mutants(workshop.log, run.run_id, MutantOptions(with_judges=True))
    asyncio.run(mutants.ask(judge.panel().panel))
    report = mutants.report()
    assert report.noticed == 0 < report.counted


def test_repeated_tasks_are_taken_once_by_a_repetition_that_passed(workshop: Workshop) -> None:
    task = a_checked_task("task-1", A_17, repeat=3, pass_rate=0.3)
    report = mutated(workshop, of_checks(task), says("No idea.", SAYS, "A-17!"), kinds=("amount",))
    assert [each.original for each in report.survivors] == [SAYS]


def test_a_seed_and_a_limit_choose(workshop: Workshop) -> None:
    run = workshop.run(of_checks(a_checked_task("task-1", SHIPPED)), says(SAYS))

    def chosen(seed: int) -> MutationReport:
        return Mutants(workshop.log, run.run_id, MutantOptions(seed=seed, most=4)).report()

    assert chosen(1) == chosen(1)
    assert chosen(1).counted == 4
    assert len({msgspec.json.encode(chosen(seed)) for seed in range(5)}) > 1


@pytest.mark.parametrize(
    ("options", "told"), [({"kinds": ("negate",)}, "no kind"), ({"tasks": ("x",)}, "no task")]
)
def test_what_does_not_exist_is_refused(
    workshop: Workshop, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(BadInput, match=told):
        mutated(workshop, of_checks(a_checked_task("task-1", SHIPPED)), says(SAYS), **options)


def test_own_code_looks_at_damaged_answers(workshop: Workshop, tmp_path: Path) -> None:
    own = Own(workshop, tmp_path, "def costs(output): return '40' in output")
    run = own.run({"python": "checks.py:costs"}, agent=says(SAYS))
    mutants = Mutants(workshop.log, run.run_id, MutantOptions(kinds=("amount", "id")))
    asyncio.run(mutants.ask())
    mutants.close()
    report = mutants.report()
    assert {kind: each.noticed for kind, each in report.kinds.items()} == {"amount": 1, "id": 0}
    without = MutantOptions(with_code=False)
    assert Mutants(workshop.log, run.run_id, without).report().left_out == {ASKS_CODE: ["task-1"]}


def test_mutants_of_deterministic_checks_are_quick(workshop: Workshop) -> None:
    """10,000 in 3 seconds of CPU; here a tenth of them in a tenth of that."""
    tasks = [a_checked_task(f"t-{n}", SHIPPED, A_17, {"regex": "costs"}) for n in range(80)]
    run = workshop.run(of_checks(*tasks), says(SAYS))
    options = MutantOptions(most=1000)
    counted = Mutants(workshop.log, run.run_id, options).report().counted
    assert counted == 80 * (counted // 80) or counted == 1000
    limit = 3.0 * counted / 10_000
    assert takes_at_most(limit, lambda: Mutants(workshop.log, run.run_id, options).report())

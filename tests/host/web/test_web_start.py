"""Starting runs from a form, and the failed tasks of one again."""

import re
from contextlib import closing
from pathlib import Path

import pytest

from builders import a_suite, a_task
from evalwright.engine.history import read_history
from evalwright.store.sqlite.log import SqliteLog
from host.caller import Caller
from host.server import ECHO, RIGHT, running_host
from host.web.visitor import Visitor, signed_in


def errors_of(text: str) -> dict[str, str]:
    """What is wrong, by field."""
    return dict(
        re.findall(r'<p id="(\w+)-error" class="field-error"><svg.*?</svg>([^<]+)</p>', text)
    )


def test_a_run_is_started_with_what_the_form_says(visitor: Visitor, newcomer: Caller):
    suite = newcomer.publish(a_suite(2, modes=("golden", "regression")))
    before = newcomer.evaluate(suite)
    fields = {"suite": suite, "agent": RIGHT, "modes": ["golden"], "baseline": before}
    answer = visitor.post("/start", {**fields, "budget": "0.5", "tags": "one, two"})
    assert answer.status == 303, answer.text
    run = newcomer.finish(answer.location.removeprefix("/runs/"))
    assert run["status"] == "completed"
    assert run["tags"] == ["one", "two"]
    assert run["configurable"] == {
        "evalModes": ["golden"],
        "baselineRunId": before,
        "maxCostUsd": 0.5,
    }


def test_what_is_wrong_is_said_at_its_field_and_the_rest_is_kept(
    visitor: Visitor, newcomer: Caller
):
    suite = newcomer.publish(a_suite(1))
    answer = visitor.post(
        "/start", {"suite": suite, "agent": RIGHT, "budget": "much", "tags": "kept"}
    )
    assert answer.status == 422
    assert errors_of(answer.text) == {"budget": "Give an amount of dollars above 0, such as 0.50."}
    assert 'value="much"' in answer.text
    assert 'value="kept"' in answer.text
    answer = visitor.post("/start", {"suite": "no.evals.such@1.0.0", "agent": RIGHT})
    assert errors_of(answer.text) == {"suite": "no such suite; give suiteId@version"}
    answer = visitor.post("/start", {"suite": suite, "agent": "nobody.here"})
    assert list(errors_of(answer.text)) == ["agent"]
    answer = visitor.post("/start", {"suite": suite, "agent": RIGHT, "judge": "mine:own"})
    assert list(errors_of(answer.text)) == ["judge"]
    answer = visitor.post("/start", {"suite": suite, "agent": RIGHT, "modes": ["rubric"]})
    assert list(errors_of(answer.text)) == ["modes"]
    assert newcomer.run_ids() == []


def test_the_form_estimates_the_cost_and_offers_baselines_of_the_suite(
    visitor: Visitor, newcomer: Caller
):
    suite = newcomer.publish(a_suite(3, modes=("golden", "regression")))
    assert "3 tasks. No run of this agent has had a known cost yet." in _details(visitor, suite)
    run_id = newcomer.evaluate(suite)
    assert f'<option value="{run_id}">' in _details(visitor, suite)


def _details(visitor: Visitor, suite: str) -> str:
    answer = visitor.get(f"/start?suite={suite}&agent={RIGHT}", HX_Request="true")
    assert answer.status == 200
    assert answer.text.lstrip().startswith('<div id="details"')
    return answer.text


@pytest.mark.parametrize(
    ("fields", "executed"), [({}, ["wrong"]), ({"task": "right"}, ["right"])], ids=["failed", "one"]
)
def test_the_tasks_that_failed_or_one_are_run_again_and_no_others(
    visitor: Visitor, newcomer: Caller, fields: dict[str, str], executed: list[str]
):
    tasks = [a_task("right", input="yes"), a_task("wrong", input="no")]
    run_id = newcomer.evaluate(a_suite(tasks), agent_id=ECHO)
    assert "Run the failed ones again" in visitor.get(f"/runs/{run_id}").text
    assert "Run again" in visitor.get(f"/runs/{run_id}/tasks/right/drawer").text
    answer = visitor.post(f"/runs/{run_id}/again", fields)
    assert answer.status == 303, answer.text
    again = answer.location.removeprefix("/runs/")
    run = newcomer.finish(again)
    assert run["status"] == "completed"
    assert run["tags"] == ["partial"]
    summary = newcomer.get(f"/v1/runs/{again}/eval-summary").json()
    assert [task["taskId"] for task in summary["tasks"]] == executed


def test_a_run_whose_tasks_all_passed_has_nothing_to_run_again(visitor: Visitor, newcomer: Caller):
    run_id = newcomer.evaluate(a_suite(1))
    assert "Run the failed ones again" not in visitor.get(f"/runs/{run_id}").text
    answer = visitor.post(f"/runs/{run_id}/again")
    assert answer.status == 409
    assert "every task of this run has passed" in answer.text
    assert visitor.post(f"/runs/{run_id}/again", {"task": "no-such"}).status == 404


def test_a_run_is_repeated_within_the_limits_that_the_host_has_now(tmp_path: Path):
    path = tmp_path / "host.db"
    with running_host(path) as served:
        run_id = served.caller().evaluate(a_suite([a_task("wrong", input="no")]), agent_id=ECHO)
    with running_host(path, settings={"max_cost_usd_per_suite": 0.25}) as served:
        visitor = signed_in(served.url, served.key())
        again = visitor.post(f"/runs/{run_id}/again").location.removeprefix("/runs/")
        served.caller().finish(again)
    with closing(SqliteLog(path)) as log:
        limits = [read_history(log, each).plan.settings.max_cost_usd for each in (run_id, again)]
    assert limits == [5.0, 0.25]


def test_a_quota_holds_for_the_form_too(tmp_path: Path):
    with running_host(tmp_path / "host.db", settings={"quotas": {"runs": 1}}) as served:
        caller = served.caller()
        visitor = signed_in(served.url, served.key())
        fields = {"suite": caller.publish(a_suite(1)), "agent": RIGHT}
        assert visitor.post("/start", fields).status == 303
        assert visitor.post("/start", fields).status == 403
        assert len(caller.run_ids()) == 1


def test_what_was_chosen_stays_chosen_when_the_suite_changes(visitor: Visitor, newcomer: Caller):
    suite = newcomer.publish(a_suite(1, modes=("golden", "regression")))
    before = newcomer.evaluate(suite)
    chosen = f"/start?suite={suite}&agent={RIGHT}&modes=golden&baseline={before}&budget=1"
    text = visitor.get(chosen, HX_Request="true").text
    assert '<input class="box" type="checkbox" name="modes" value="golden" checked>' in text
    assert f'<option value="{before}" selected>' in text
    assert 'name="budget"' not in text, "what somebody types meanwhile would be lost"


def test_a_host_offers_no_files_of_its_machine(visitor: Visitor, newcomer: Caller, tmp_path: Path):
    newcomer.publish(a_suite(1))
    path = tmp_path / "suite.yaml"
    path.write_text("evalwright: 1\nname: mine\ntasks: [{input: a, checks: [{equals: a}]}]\n")
    answer = visitor.post("/start", {"suite": str(path), "agent": RIGHT})
    assert answer.status == 422
    assert errors_of(answer.text) == {"suite": "no such suite; give suiteId@version"}
    text = visitor.get("/start").text
    assert "The same on the command line" not in text
    assert ".yaml" not in text

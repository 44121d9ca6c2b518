"""`ew.expect` outside of tests: the first check that does not pass raises."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import evalwright as ew
from evalwright.api import checks, expectation
from evalwright.scoring.checks.table import CHECKS


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no test were running."""
    monkeypatch.setattr(expectation, "_is_told_later", lambda: False)
    expectation.pop_results()


def test_every_check_is_a_method() -> None:
    spelled = {"not": "not_", "any": "any_of", "all": "all_of", "max": "at_most"}
    for name in [spelled.get(name, name) for name in CHECKS]:
        assert callable(getattr(ew.Expectation, name))
        assert getattr(ew.Expectation, name).__doc__ == getattr(checks, name).__doc__


def test_in_a_script_the_first_check_that_does_not_pass_raises(alone: None) -> None:
    with pytest.raises(AssertionError, match="“shipped” is not in the output") as raised:
        ew.expect("It is lost.").contains("lost").contains("shipped").contains("never asked")
    assert "never asked" not in str(raised.value)
    assert raised.traceback[-1].path == Path(__file__)


def test_a_block_collects_and_tells_together(alone: None) -> None:
    answer = ew.expect("It is lost.")
    with pytest.raises(AssertionError, match="2 checks did not pass"), answer:
        answer.contains("shipped").starts_with("No")
    assert not answer.passed
    assert [each.check for each in answer.results] == ["contains", "starts_with"]


def test_what_is_missed_in_a_block_is_added_to_another_error(alone: None) -> None:
    with pytest.raises(ValueError, match="invalid literal") as raised, ew.expect("No") as answer:
        int(answer.equals("Yes").output)
    assert "expected besides:\nequals: " in raised.value.__notes__[0]


def test_secrets_are_masked_in_what_is_told(alone: None) -> None:
    secret = "ghp_IhKtJ0RlgLKOmxgJTeKdNnFRIBXuDL7DxtpY"
    with pytest.raises(AssertionError) as raised:
        ew.expect(f"token {secret}").equals("token")
    assert secret not in str(raised.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda it: it.satisfies(lambda output: "please" in output),
        lambda it: it.satisfies({"contains": "please"}),
        lambda it: it.calls("mail.send", args={"to": "a@example.org"}),
        lambda it: it.calls_in_order("orders.get", "mail.send"),
        lambda it: it.not_(ew.contains("never")),
        lambda it: it.any_of(ew.contains("never"), ew.contains("Yes")),
        lambda it: it.no_signals("critical"),
    ],
)
def test_all_kinds_of_checks_can_be_expected(alone: None, make: Any) -> None:
    calls = [
        {"tool": "orders.get", "args": {"id": 1}, "result": "lost"},
        {"tool": "mail.send", "args": {"to": "a@example.org"}},
    ]
    answer = make(ew.expect("Yes, please.", calls=calls))
    assert [each.passed for each in answer.results] == [True]


def dear(task: ew.AgentTask) -> str:
    task.report_usage(input_tokens=1000, output_tokens=1000, cost_usd=5)
    task.report_usage(input_tokens=1, output_tokens=1, cost_usd=0)
    return "Yes."


def anything(usage: Any) -> bool:
    return bool(usage)


@pytest.mark.parametrize(
    "limit",
    [
        ew.at_most(cost_usd=0.01),
        ew.at_most(tokens=2001),
        ew.at_most(turns=1),
        lambda usage: usage.cost_usd < 5,
    ],
)
def test_what_a_task_took_counts_also_beside_own_functions(
    alone: None, tmp_path: Path, limit: Any
) -> None:
    run = ew.run([ew.Task("t", input="", checks=[anything])], dear, db=tmp_path / "log.db")
    task = run.tasks["t"]
    with pytest.raises(AssertionError):
        ew.expect(task).satisfies(limit)
    with pytest.raises(AssertionError):
        ew.expect(task).all_of(anything, limit)


def test_an_output_alone_has_no_latency_also_beside_own_functions(alone: None) -> None:
    with pytest.raises(AssertionError, match="latency_ms is not known"):
        ew.expect("Yes.").all_of(anything, ew.at_most(latency_ms=60_000))


def test_outside_of_tests_results_are_not_kept(alone: None) -> None:
    ew.expect("Yes.").contains("Yes")
    assert expectation.pop_results() == []


def test_judges_are_asked_where_they_are_named(alone: None, tmp_path: Path) -> None:
    replies = tmp_path / "judge.yaml"
    replies.write_text("""- reply: '{"c1": {"reason": "It is curt.", "met": false}}'\n""")
    with pytest.raises(AssertionError, match=r"It is curt\."):
        ew.expect("No.", judges=[f"scripted:{replies}"]).judge("greets")
    with pytest.raises(ew.EvalwrightError, match="needs a judge"):
        ew.expect("No.").judge("greets")


def test_bad_checks_and_outputs_are_refused(alone: None) -> None:
    with pytest.raises(ew.EvalwrightError, match=r"ew\.contains"):
        ew.expect("Yes").satisfies(ew.contains)  # type: ignore[arg-type]
    with pytest.raises(ew.EvalwrightError, match="JSON cannot carry"):
        ew.expect(object())


def test_a_script_ends_with_an_error_code(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text('import evalwright as ew\new.expect("No").equals("Yes")\n')
    done = subprocess.run([sys.executable, str(script)], capture_output=True, check=False)
    assert done.returncode == 1
    assert b'ew.expect("No").equals("Yes")' in done.stderr


def test_an_answer_that_says_what_was_done_is_looked_at_with_that(
    alone: None, tmp_path: Path
) -> None:
    usage = {"input_tokens": 1, "output_tokens": 2, "cost_usd": 0.5}

    def agent(task: ew.AgentTask) -> ew.Answer:
        return ew.Answer("done", calls=[{"tool": "find"}], usage=usage)

    task = ew.Task("t", input="", checks=[ew.contains("done")])
    told = ew.run([task], agent, db=tmp_path / "log.db").tasks["t"]
    for seen in (told, agent(told)):  # type: ignore[arg-type]
        ew.expect(seen).calls("find").does_not_call("refund").at_most(tokens=3, cost_usd=0.5)
        ew.expect(seen).no_signals("high").at_most(turns=1)
    with pytest.raises(AssertionError, match="not observed"):
        ew.expect("done").does_not_call("refund")
    with pytest.raises(ew.EvalwrightError, match="its own calls"):
        ew.expect(agent(told), calls=[])  # type: ignore[arg-type]

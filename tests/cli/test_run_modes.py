"""`evalwright run` with judges, baselines, repeats, budgets and live tools, as a user calls it."""

import json
from pathlib import Path
from typing import Any

import pytest

from builders import a_rubric_task, a_suite, a_task
from subjects.command import Evalwright, Finished

AGENTS = '''
import os
from pathlib import Path


def right(task):
    return "yes"


def wrong(task):
    return "no" if task.id == "task-2" else "yes"


def fickle(task):
    """Right at every other run, for one task."""
    if task.id != "task-2":
        return "yes"
    turns = Path(__file__).with_name("turns")
    number = int(turns.read_text()) if turns.exists() else 0
    turns.write_text(str(number + 1))
    return "yes" if number % 2 else "no"


def costly(task):
    task.report_usage(model="small-1", input_tokens=1, output_tokens=1, cost_usd=1.5)
    return "yes"


def leaky(task):
    return "the key is " + os.environ["LEAKED"]


def tells_time(task):
    return task.call_tool("clock.now")
'''
KIND = '{"c1": {"reason": "it is kind", "met": true}}'
UNKIND = '{"c1": {"reason": "it is rude", "met": false}}'
EVERY_MODE = ["golden", "regression", "live-shadow"]


@pytest.fixture
def workplace(evalwright: Evalwright) -> Evalwright:
    """A folder with agents, and a suite that may be run in several modes."""
    (evalwright.folder / "agents.py").write_text(AGENTS)
    evalwright.suite(a_suite(3, modes=EVERY_MODE))
    return evalwright


def judge(workplace: Evalwright, reply: str, name: str = "judge.json") -> str:
    (workplace.folder / name).write_text(json.dumps([{"reply": reply}]))
    return f"scripted:{name}"


def test_weights_that_do_not_sum_to_1_are_a_warning_and_nothing_more(workplace: Evalwright) -> None:
    tasks = [a_rubric_task(f"task-{number}", [0.75]) for number in range(1, 8)]
    suite = workplace.suite(a_suite(tasks, modes=["rubric"]), "odd.json")
    checked = workplace("validate", suite)
    assert (checked.code, checked.out) == (0, "odd.json: valid AgentEvalSuite\n")
    assert checked.err.count("warning: odd.json: $.tasks[") == 7
    assert "the weights sum to 0.75, not 1" in checked.err
    options = ("run", suite, "--agent", "agents.py:right", "--judge", judge(workplace, KIND))
    done = workplace(*options)
    assert done.code == 0
    assert done.err.count("warning: odd.json: $.tasks[") == 5
    assert "warning: odd.json: 2 more like this" in done.err
    assert "warning" not in workplace(*options, "--quiet").err


def rubric_run(workplace: Evalwright, *options: str) -> Finished:
    suite = workplace.suite(a_suite([a_rubric_task("task-1")], modes=["rubric"]), "rubric.json")
    return workplace("run", suite, "--agent", "agents.py:right", *options)


def test_a_judge_decides_and_the_scorecard_says_who_it_was(workplace: Evalwright) -> None:
    done = rubric_run(workplace, "--judge", judge(workplace, KIND))
    assert done.code == 0
    assert "judged by scripted:judge.json · prompt 1" in done.out


def test_what_a_judge_did_not_find_is_told_with_its_reason(workplace: Evalwright) -> None:
    done = rubric_run(workplace, "--judge", judge(workplace, UNKIND))
    assert done.code == 1
    assert "criterion 1" in done.out
    assert "it is rude" in done.out
    assert "it is rude" in workplace("show", "latest").out


def test_several_judges_are_counted_and_their_agreement_told(workplace: Evalwright) -> None:
    judges = [judge(workplace, reply, f"{n}.json") for n, reply in enumerate([KIND, KIND, UNKIND])]
    named = [part for name in judges for part in ("--judge", name)]
    done = rubric_run(workplace, *named)
    assert done.code == 0
    assert "agreement 66.7" in done.out or "agreement 66.6" in done.out
    assert "agreement" not in rubric_run(workplace, *named, "--json").out


def test_a_judge_that_gives_no_verdict_fails_the_run_and_it_is_resumed_for_that_task(
    workplace: Evalwright,
) -> None:
    name = judge(workplace, "I would rather not say.")
    failed = rubric_run(workplace, "--judge", name, "--junit", "report.xml")
    assert failed.code == 3
    assert "judge_failed" in failed.err
    assert "judge_failed" in (workplace.folder / "report.xml").read_text()
    judge(workplace, KIND)
    resumed = workplace("run", "--resume", "latest")
    assert resumed.code == 0
    assert "1 to be judged" in resumed.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--judge", "nobody:gpt"], "there is no provider 'nobody'"),
        (["--judge", "gpt-4.1"], "no provider is named"),
        (["--judge", "scripted:missing.json"], "missing.json"),
        (["--judge", "openai:gpt-4.1"], "OPENAI_API_KEY"),
        (["--judge-samples", "2"], "--judge-samples needs --judge"),
        ([], "needs a judge"),
    ],
)
def test_a_judge_that_cannot_be_asked_is_refused_before_the_run(
    workplace: Evalwright, options: list[str], words: str
) -> None:
    refused = rubric_run(workplace, *options)
    assert refused.code == 2
    assert words in refused.err
    assert not workplace.run_ids()


def test_an_endpoint_that_nobody_answers_at_fails_the_run_and_says_where(
    workplace: Evalwright,
) -> None:
    (workplace.folder / "evalwright.toml").write_text(
        '[models.ollama]\nbase_url = "http://127.0.0.1:9/v1"\nretries = 0\n'
    )
    failed = rubric_run(workplace, "--judge", "ollama:small", "--config", "evalwright.toml")
    assert failed.code == 3
    assert "127.0.0.1:9" in failed.err
    assert "judge_failed" in failed.err


def test_a_regression_names_the_newly_failing_task_first(workplace: Evalwright) -> None:
    workplace("run", "suite.json", "--agent", "agents.py:right", "--agent-id", "acme.clerk")
    worse = workplace("run", "suite.json", "--agent", "agents.py:wrong", "--baseline", "latest")
    assert worse.code == 1
    assert "Within chance: 3 of 3 → 2 of 3 passed (p = 1)" in worse.flat
    assert "task-2" in worse.out.partition("Not passed")[2]
    shown = workplace("show", "latest").out
    assert "task-2" in shown.partition("Against the baseline run_")[2].partition("\n\n")[0]


def test_a_baseline_in_the_noise_may_be_let_through(workplace: Evalwright) -> None:
    workplace("run", "suite.json", "--agent", "agents.py:right")
    worse = workplace(
        "run", "suite.json", "--agent", "agents.py:wrong", "--baseline", "latest",
        "--fail-on", "significant-regression",
    )  # fmt: skip
    assert worse.code == 0


def test_an_unknown_baseline_is_refused_before_anything_is_run(workplace: Evalwright) -> None:
    refused = workplace(
        "run", "suite.json", "--agent", "agents.py:right", "--baseline", "run_nothing"
    )
    assert refused.code == 2
    assert "no run" in refused.err


def test_repeats_are_runs_of_their_own_and_flaky_tasks_are_marked(workplace: Evalwright) -> None:
    done = workplace("run", "suite.json", "--agent", "agents.py:fickle", "--repeat", "4")
    assert done.code == 1  # the score of two of the runs is below the bar
    assert len(workplace.run_ids()) == 4
    flaky = next(line for line in done.out.splitlines() if "task-2" in line)
    assert "◆" in flaky
    assert "2 of 4" in flaky
    groups = {event["payload"]["metadata"]["group"] for event in starts(workplace)}
    assert len(groups) == 1


def starts(workplace: Evalwright) -> list[dict[str, Any]]:
    return [workplace.events(run_id)[0] for run_id in workplace.run_ids()]


@pytest.mark.parametrize(("flaky_as", "code"), [("warn", 0), ("fail", 1)])
def test_a_flaky_task_fails_the_repeats_only_where_that_is_wanted(
    workplace: Evalwright, flaky_as: str, code: int
) -> None:
    workplace.suite(a_suite(3, pass_score=0.5))
    done = workplace(
        "run", "suite.json", "--agent", "agents.py:fickle", "--repeat", "2",
        "--flaky-as", flaky_as,
    )  # fmt: skip
    assert done.code == code
    assert ("--flaky-as is fail" in done.out) == (flaky_as == "fail")


def test_flaky_as_without_repeats_is_refused(workplace: Evalwright) -> None:
    refused = workplace("run", "suite.json", "--agent", "agents.py:right", "--flaky-as", "fail")
    assert refused.code == 2


def test_repeats_beside_a_baseline_tell_the_change_of_each(workplace: Evalwright) -> None:
    workplace("run", "suite.json", "--agent", "agents.py:right")
    done = workplace(
        "run", "suite.json", "--agent", "agents.py:wrong", "--baseline", "latest",
        "--repeat", "2",
    )  # fmt: skip
    assert "score \N{MINUS SIGN}0.3333, \N{MINUS SIGN}0.3333" in done.out


def test_repeats_in_json_are_an_array_of_summaries(workplace: Evalwright) -> None:
    done = workplace(
        "run", "suite.json", "--agent", "agents.py:right", "--repeat", "3", "--json", "--quiet"
    )
    summaries = done.json()
    assert [summary["passedCount"] for summary in summaries] == [3, 3, 3]


def test_repeats_leave_a_folder_and_a_test_suite_each(workplace: Evalwright) -> None:
    workplace(
        "run", "suite.json", "--agent", "agents.py:right", "--repeat", "2", "--out", "results",
        "--junit", "report.xml",
    )  # fmt: skip
    for number in (1, 2):
        assert (workplace.folder / f"results/repeat-{number}/summary.json").is_file()
    assert (workplace.folder / "report.xml").read_text().count("<testsuite ") == 2


def test_a_series_that_failed_goes_on_with_the_repeats_it_lacks(workplace: Evalwright) -> None:
    costly = ["--agent", "agents.py:costly", "--concurrency", "1", "--max-cost", "2"]
    failed = workplace("run", "suite.json", *costly, "--repeat", "2")
    assert failed.code == 3
    assert "budget_exhausted" in failed.err
    resumed = workplace("run", "--resume", "latest", "--max-cost", "50", "--json", "--quiet")
    assert resumed.code == 0
    assert len(resumed.json()) == 2


def test_a_spent_budget_ends_the_run_and_says_how_to_go_on(workplace: Evalwright) -> None:
    failed = workplace("run", "suite.json", "--agent", "agents.py:costly", "--concurrency", "1",
                       "--max-cost", "2")  # fmt: skip
    assert failed.code == 3
    assert "$1.5 was spent, the next task may cost $1.5, and --max-cost is $2" in failed.err
    assert "--max-cost MORE" in failed.err


@pytest.mark.parametrize("concurrency", [[], ["--concurrency", "1"], ["--task-cost", "0.01"]])
def test_a_run_that_costs_more_than_its_budget_fails_at_any_concurrency(
    workplace: Evalwright, concurrency: list[str]
) -> None:
    costly = ["run", "suite.json", "--agent", "agents.py:costly", "--max-cost", "2"]
    failed = workplace(*costly, *concurrency)
    assert failed.code == 3
    assert "budget_exhausted" in failed.err
    resumed = workplace("run", "--resume", "latest", "--max-cost", "50", "--json", "--quiet")
    assert resumed.code == 0


def test_an_estimate_of_the_cost_goes_with_a_budget(workplace: Evalwright) -> None:
    refused = workplace("run", "suite.json", "--agent", "agents.py:costly", "--task-cost", "1")
    assert refused.code == 2
    assert "--task-cost needs --max-cost" in refused.err


def test_a_live_run_calls_live_tools_and_is_marked_wherever_it_is_shown(
    workplace: Evalwright,
) -> None:
    (workplace.folder / "clock.py").write_text("def now():\n    return 'yes'\n")
    (workplace.folder / "tools.json").write_text(
        json.dumps({"tools": [{"name": "clock.now", "python": "clock.py:now", "writes": False}]})
    )
    done = workplace(
        "run", "suite.json", "--agent", "agents.py:tells_time", "--mode", "live-shadow",
        "--tools", "tools.json", "--read-only",
    )  # fmt: skip
    assert done.code == 0
    assert "nondeterministic" in done.err
    assert "live-shadow" in done.out
    assert "live-shadow" in workplace("show", "latest").out
    assert "live-shadow" in workplace("runs").out
    assert "live-shadow" in workplace("replay", "latest").out
    assert "nondeterministic" in workplace("diff", "latest", "latest").err
    assert "nondeterministic" in workplace("show", "latest", "--task", "task-1").err
    workplace("compare", "--baseline", "latest", "--new", "latest", "--out", "report")
    report = (workplace.folder / "report" / "compare-report.json").read_text()
    assert "live-shadow: nondeterministic" in report


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "EVALWRIGHT_AGENT_TOKEN", "SHOP_PASSWORD"])
def test_known_secrets_never_reach_the_log(workplace: Evalwright, name: str) -> None:
    secret = "not-a-real-secret-at-all"
    (workplace.folder / "evalwright.toml").write_text('secrets = ["SHOP_PASSWORD"]\n')
    done = workplace(
        "run", "suite.json", "--agent", "agents.py:leaky", env={"LEAKED": secret, name: secret}
    )
    assert secret not in done.out + done.err
    assert secret not in str(workplace.events())
    assert f"[REDACTED:{name}]" in str(workplace.events())


def test_what_a_run_began_with_cannot_be_changed_when_it_is_resumed(workplace: Evalwright) -> None:
    refused = workplace("run", "--resume", "latest", "--judge", judge(workplace, KIND))
    assert refused.code == 2


def test_a_recorded_cassette_answers_without_its_model(workplace: Evalwright) -> None:
    name = judge(workplace, KIND)
    taped = ["--judge", name, "--cassette", "tape.jsonl"]
    assert rubric_run(workplace, *taped, "--record").code == 0
    Path(workplace.folder / "judge.json").unlink()
    assert rubric_run(workplace, *taped).code == 0


def test_a_call_that_a_cassette_lacks_is_an_error_with_a_remedy(workplace: Evalwright) -> None:
    (workplace.folder / "tape.jsonl").write_text("")
    failed = rubric_run(workplace, "--judge", judge(workplace, KIND), "--cassette", "tape.jsonl")
    assert failed.code == 3
    assert "--record" in failed.err


def test_a_task_of_golden_kind_needs_no_judge(workplace: Evalwright) -> None:
    workplace.suite(a_suite([a_task("task-1")]))
    assert workplace("run", "suite.json", "--agent", "agents.py:right").code == 0


def test_an_agent_that_never_answered_gets_no_score_for_the_answers_of_another(
    workplace: Evalwright,
) -> None:
    rubric_run(workplace, "--judge", judge(workplace, "I would rather not say."))
    judge(workplace, KIND)
    refused = workplace("run", "--resume", "latest", "--agent", "agents.py:wrong")
    assert refused.code == 2
    assert "one log holds the answers of one agent" in refused.err


def test_repeats_are_of_one_agent(workplace: Evalwright) -> None:
    (workplace.folder / "mortal.py").write_text(
        "from pathlib import Path\n\n"
        "def answer(task):\n"
        "    calls = Path(__file__).with_name('calls')\n"
        "    calls.write_text(calls.read_text() + '.' if calls.exists() else '.')\n"
        "    if len(calls.read_text()) > 3:\n"
        "        raise ValueError('dead')\n"
        "    return 'yes'\n"
    )
    died = workplace("run", "suite.json", "--agent", "mortal.py:answer", "--repeat", "2",
                     "--concurrency", "1")  # fmt: skip
    assert died.code == 3
    refused = workplace("run", "--resume", "latest", "--agent", "agents.py:right")
    assert refused.code == 2
    assert "one log holds the answers of one agent" in refused.err


def test_gates_stand_as_the_run_began_with_them(workplace: Evalwright) -> None:
    workplace("run", "suite.json", "--agent", "agents.py:costly", "--max-cost", "1",
              "--concurrency", "1")  # fmt: skip
    refused = workplace("run", "--resume", "latest", "--fail-on", "none")
    assert refused.code == 2
    assert "--fail-on" in refused.err


def test_a_key_in_the_words_of_a_failure_reaches_neither_console_nor_report(
    workplace: Evalwright,
) -> None:
    (workplace.folder / "loud.py").write_text(
        "import os\n\ndef answer(task):\n    raise RuntimeError(os.environ['OPENAI_API_KEY'])\n"
    )
    secret = "not-a-real-secret-at-all"
    failed = workplace(
        "run", "suite.json", "--agent", "loud.py:answer", "--junit", "report.xml",
        env={"OPENAI_API_KEY": secret},
    )  # fmt: skip
    assert failed.code == 3
    assert secret not in failed.err
    assert secret not in (workplace.folder / "report.xml").read_text()


def test_a_budget_spent_by_an_agent_that_fails_is_told_as_a_budget(workplace: Evalwright) -> None:
    (workplace.folder / "dear.py").write_text(
        "def answer(task):\n"
        "    task.report_usage(model='m', input_tokens=1, output_tokens=1, cost_usd=5)\n"
        "    raise ValueError('no')\n"
    )
    failed = workplace("run", "suite.json", "--agent", "dear.py:answer", "--max-cost", "1",
                       "--concurrency", "1")  # fmt: skip
    assert "budget_exhausted" in failed.err


def test_an_unknown_price_is_told_apart_from_a_spent_budget(workplace: Evalwright) -> None:
    (workplace.folder / "free.py").write_text(
        "def answer(task):\n"
        "    task.report_usage(model='m', input_tokens=1, output_tokens=1)\n"
        "    return 'yes'\n"
    )
    failed = workplace("run", "suite.json", "--agent", "free.py:answer", "--max-cost", "1",
                       "--concurrency", "1")  # fmt: skip
    assert "price_unknown" in failed.err
    assert "MORE" not in failed.err


@pytest.mark.parametrize("option", [["--read-only"], ["--tools", "tools.json"]])
def test_what_cannot_be_seen_of_an_agent_outside_is_refused_without_a_gateway(
    workplace: Evalwright, option: list[str]
) -> None:
    (workplace.folder / "tools.json").write_text('{"tools": []}')
    refused = workplace("run", "suite.json", "--agent", "cmd:cat", "--mode", "live-shadow", *option)
    assert refused.code == 2
    assert "--gateway" in refused.err

"""`pytest --evalwright` collects suites: an item for each task, a run in the log for each suite."""

import re
import xml.etree.ElementTree as ET

import msgspec
import pytest

import evalwright as ew
from evalwright.reports.run.stories import read_stories
from evalwright.store.location import existing_log
from subjects.command import Evalwright
from subjects.pytest_bench import Bench

pytest_plugins = ["pytester"]

AGENT = """\
def answer(task):
    if task.input == "Where is A-17?":
        return f"It is {task.call_tool('shop:orders.get', {'id': 'A-17'})['status']}."
    if task.input == "Boom":
        raise ValueError("the shop is closed")
    return "Hello."
"""
SUITE = """\
evalwright: 1
suiteId: local.evals.shop
agent: agent.py:answer
tasks:
  - id: order-status
    tags: [orders]
    input: Where is A-17?
    fixtures: {toolResponses: [{tool: "shop:orders.get", response: {status: lost}}]}
    checks: [{contains: shipped}, {calls: {tool: "shop:orders.get", args: {id: A-17}}}]
  - id: greeting
    input: Hi
    checks: [{equals: Hello.}]
  - id: farewell
    input: Bye
    checks: [{contains: Hello}]
  - id: thanks
    input: Thanks
    checks: [{contains: Hello}]
"""


@pytest.fixture
def bench(bench: Bench) -> Bench:
    """With an agent and a suite."""
    bench.write("agent.py", AGENT)
    bench.write("shop.evals.yaml", SUITE)
    return bench


def text(result: pytest.RunResult) -> str:
    return "\n".join(result.outlines)


def test_every_task_is_an_item_and_all_of_them_are_one_run(bench: Bench) -> None:
    bench.write("test_unit.py", "def test_one(): pass\n")
    result = bench.pytest("--evalwright")
    result.assert_outcomes(passed=4, failed=1)
    run = ew.load()
    assert bench.runs() == [run.id]
    assert list(run.tasks) == ["order-status", "greeting", "farewell", "thanks"]
    assert run.summary["passedCount"] == 3


def test_without_the_flag_nothing_is_collected(bench: Bench) -> None:
    bench.write("test_unit.py", "def test_one(): pass\n")
    bench.pytest().assert_outcomes(passed=1)
    assert bench.runs() == []


def test_a_suite_that_is_named_needs_no_flag(bench: Bench) -> None:
    bench.write("other.evals.yaml", SUITE)
    result = bench.pytest("shop.evals.yaml::greeting", "-v")
    result.assert_outcomes(passed=1)
    assert "shop.evals.yaml::greeting PASSED" in text(result)


def test_a_row_without_an_id_is_an_item_with_a_name(bench: Bench) -> None:
    data = "data: [{rows: [{input: Hi you}], checks: [{contains: Hello}]}]"
    bench.write("rows.evals.yaml", SUITE.partition("tasks:")[0] + data)
    assert "rows.evals.yaml::hi-you-" in text(bench.pytest("rows.evals.yaml", "--co", "-q"))


@pytest.mark.parametrize("ending", ["yaml", "yml", "json"])
def test_suites_have_three_endings(bench: Bench, ending: str) -> None:
    bench.write(f"more/little.evals.{ending}", '{"evalwright": 1, "tasks": []}')
    bench.write(f"more/little.{ending}", "not: a suite of ours")
    result = bench.pytest("--evalwright", "more")
    assert f"ERROR collecting more/little.evals.{ending}" in text(result)
    assert f"more/little.{ending} " not in text(result)


def test_a_failure_reads_like_one_of_pytest(bench: Bench) -> None:
    result = bench.pytest("--evalwright")
    shown = text(result)
    failure = shown[shown.index("FAILURES") : shown.index("evalwright ==")]
    assert failure.splitlines()[2:] == [
        "",
        ">   - id: order-status",
        "E   AssertionError: contains: “shipped” is not in the output",
        "E     expected: 'shipped'",
        "E     actual:   'It is lost.'",
        "E     calls:",
        'E       shop:orders.get({"id":"A-17"}) -> {"status":"lost"}',
        "",
        "shop.evals.yaml:5: AssertionError",
        failure.splitlines()[-1],
    ]
    assert "FAILED shop.evals.yaml::order-status - AssertionError: contains:" in shown


def test_values_that_should_be_equal_are_compared_as_pytest_compares_them(bench: Bench) -> None:
    bench.write(
        "equal.evals.yaml",
        """\
        evalwright: 1
        agent: agent.py:answer
        tasks: [{id: one, input: Hi, checks: [{equals: Hello you.}]}]
        """,
    )
    shown = text(bench.pytest("equal.evals.yaml"))
    assert "difference (- expected, + actual):" in shown
    assert re.search(r"^E +- Hello you\.$", shown, re.MULTILINE)
    assert re.search(r"^E +\+ Hello\.$", shown, re.MULTILINE)


def test_a_golden_task_that_fails_shows_both_sides(bench: Bench) -> None:
    bench.write(
        "portable.evals.json",
        """\
        {"suiteId": "local.evals.portable", "version": "1.0.0", "modes": ["golden"], "tasks": [
          {"taskId": "one", "input": "Hi",
           "expected": {"kind": "golden", "match": {"strategy": "exact", "value": "Good day."}}}
        ]}
        """,
    )
    result = bench.pytest("portable.evals.json", "--evalwright-agent", "agent.py:answer")
    result.assert_outcomes(failed=1)
    shown = text(result)
    assert "AssertionError: exact: the texts differ from character 1 on" in shown
    assert re.search(r"expected: +'Good day\.'\nE +actual: +'Hello\.'", shown)


def test_what_judges_miss_is_shown_with_their_reasons_and_without_secrets(bench: Bench) -> None:
    token = "ghp_IhKtJ0RlgLKOmxgJTeKdNnFRIBXuDL7DxtpY"
    bench.write("agent.py", f"def answer(task):\n    return 'No. {token}'\n")
    reply = """- reply: '{"c1": {"reason": "It is curt.", "met": false}}'\n"""
    bench.write("judge.yaml", reply)
    bench.write(
        "tone.evals.json",
        """\
        {"suiteId": "local.evals.tone", "version": "1.0.0", "modes": ["rubric"], "tasks": [
          {"taskId": "one", "input": "Hi", "expected":
            {"kind": "rubric", "rubric": [{"criterion": "is kind", "weight": 1}]}}
        ]}
        """,
    )
    chosen = ("--evalwright-agent", "agent.py:answer", "--evalwright-judge", "scripted:judge.yaml")
    result = bench.pytest("tone.evals.json", *chosen)
    result.assert_outcomes(failed=1)
    shown = text(result)
    assert "E   AssertionError: rubric: score 0" in shown
    assert "not met   is kind (weight 1)" in shown
    assert "It is curt." in shown
    assert token not in shown
    assert "judged by scripted:judge.yaml" in shown


def test_an_agent_that_fails_is_shown_with_its_own_frames_only(bench: Bench) -> None:
    bench.write("shop.evals.yaml", SUITE.replace("input: Bye", "input: Boom"))
    shown = text(bench.pytest("--evalwright", "-k", "farewell or greeting"))
    assert "AssertionError: agent_error: ValueError: the shop is closed" in shown
    assert 'File "agent.py", line 5, in answer' in shown
    assert "evalwright/" not in shown.replace("plugins: ", "")


def test_a_broken_suite_is_a_collection_error_in_the_words_of_validate(
    bench: Bench, evalwright: Evalwright
) -> None:
    checks = "[{contians: x}, {equals: x, regex: y}]"
    tasks = f"tasks: [{{id: one, input: Hi, checks: {checks}}}]\n"
    bench.write("broken.evals.yaml", f"evalwright: 1\n{tasks}")
    result = bench.pytest("--evalwright", "broken.evals.yaml")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    told = evalwright("validate", "broken.evals.yaml", cwd=bench.folder).err.splitlines()
    assert told[-2:] == ["broken.evals.yaml: 2 problems", "exit 2: not valid"]
    for line in told[:-2]:
        assert line in result.outlines
    assert "Traceback" not in text(result)
    assert bench.runs() == []


def test_a_suite_without_an_agent_says_so_unless_it_is_only_listed(bench: Bench) -> None:
    bench.write("shop.evals.yaml", SUITE.replace("agent: agent.py:answer\n", ""))
    result = bench.pytest("--evalwright")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert "shop.evals.yaml: names no agent; write `agent: agent.py:answer`" in text(result)
    assert "--evalwright-agent" in text(result)
    assert "shop.evals.yaml::thanks" in text(bench.pytest("--evalwright", "--collect-only", "-q"))
    bench.pytest("--evalwright", "--evalwright-agent", "agent.py:answer").assert_outcomes(
        passed=3, failed=1
    )


def test_the_settings_name_the_agent_and_the_log(bench: Bench) -> None:
    bench.write("shop.evals.yaml", SUITE.replace("agent: agent.py:answer\n", ""))
    bench.write("pyproject.toml", '[tool.evalwright]\nagent = "agent.py:answer"\n')
    bench.pytest("--evalwright", "--evalwright-db", "here.db").assert_outcomes(passed=3, failed=1)
    assert ew.load(db=bench.folder / "here.db").summary["taskCount"] == 4


def test_an_agent_that_cannot_be_loaded_is_an_error_of_every_task(bench: Bench) -> None:
    result = bench.pytest("--evalwright", "--evalwright-agent", "agent.py:missing")
    result.assert_outcomes(errors=4)
    assert "--evalwright-agent agent.py:missing: agent.py has no 'missing'" in text(result)
    assert "During handling" not in text(result)
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_a_failed_item_fails_the_session_unless_the_bar_of_its_suite_is_asked_for(
    bench: Bench,
) -> None:
    bench.write("shop.evals.yaml", SUITE + "thresholds: {passRate: 0.75}\n")
    strict = bench.pytest("--evalwright")
    assert strict.ret == pytest.ExitCode.TESTS_FAILED
    strict.assert_outcomes(passed=3, failed=1)
    hint = "its failed tasks are failed tests; with --evalwright-gate the bar decides"
    assert hint in text(strict), "PASSED alone would not explain the exit code"
    gated = bench.pytest("--evalwright", "--evalwright-gate")
    assert gated.ret == pytest.ExitCode.OK
    gated.assert_outcomes(passed=3, xfailed=1)
    assert hint not in text(gated)
    bench.write("shop.evals.yaml", SUITE + "thresholds: {passScore: 0.9}\n")
    result = bench.pytest("--evalwright", "--evalwright-gate")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "Do not ship: score 0.75 is below 0.9 (passScore)" in text(result)
    result.assert_outcomes(passed=3, failed=1)
    assert "“shipped” is not in the output" in text(result)


MISSED, MET = "thresholds: {passScore: 0.9}\n", "thresholds: {passRate: 0.75}\n"
GATED = ("--evalwright", "--evalwright-gate")


def counts(result: pytest.RunResult, bench: Bench) -> dict[str, str | None]:
    """What the report of pytest counts, and names as failed."""
    suite = ET.parse(bench.folder / "tests.xml").getroot()[0]
    told = {name: suite.get(name) for name in ("tests", "failures", "skipped", "errors")}
    failed = [case.get("name") for case in suite if case.find("failure") is not None]
    return told | {"failed": ", ".join(map(str, failed))}


HERE_AND_ELSEWHERE = [(), ("-n", "1")]  # the process that tells runs the tests, or another one


@pytest.mark.parametrize("spread", HERE_AND_ELSEWHERE)
def test_a_failure_within_the_bar_is_expected_wherever_pytest_tells_of_it(
    bench: Bench, spread: tuple[str, ...]
) -> None:
    bench.write("shop.evals.yaml", SUITE + MET)
    result = bench.pytest(*GATED, *spread, "--junitxml", "tests.xml")
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=3, xfailed=1)
    assert "PASSED ● May ship: 3 of 4 tasks, bar 0.75" in text(result)
    within = {"tests": "4", "failures": "0", "skipped": "1", "errors": "0", "failed": ""}
    assert counts(result, bench) == within
    again = bench.pytest(*GATED, *spread, "--lf")
    again.assert_outcomes(passed=3, xfailed=1)


@pytest.mark.parametrize("spread", HERE_AND_ELSEWHERE)
def test_a_failure_beyond_the_bar_is_one_wherever_pytest_tells_of_it(
    bench: Bench, spread: tuple[str, ...]
) -> None:
    bench.write("shop.evals.yaml", SUITE + MISSED)
    result = bench.pytest(*GATED, *spread, "--junitxml", "tests.xml")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=3, failed=1)
    beyond = {"tests": "4", "failures": "1", "skipped": "0", "errors": "0"}
    assert counts(result, bench) == beyond | {"failed": "order-status"}
    assert "“shipped” is not in the output" in (bench.folder / "tests.xml").read_text()
    again = bench.pytest(*GATED, *spread, "--lf")
    again.assert_outcomes(failed=1)


@pytest.mark.parametrize("spread", HERE_AND_ELSEWHERE)
def test_the_first_failure_ends_a_session_only_where_no_bar_decides(
    bench: Bench, spread: tuple[str, ...]
) -> None:
    bench.write("shop.evals.yaml", SUITE + MET)
    first = bench.pytest("--evalwright", *spread, "-x")
    assert first.ret != pytest.ExitCode.OK
    assert first.parseoutcomes()["failed"] == 1
    gated = bench.pytest(*GATED, *spread, "-x")
    assert gated.ret == pytest.ExitCode.OK
    gated.assert_outcomes(passed=3, xfailed=1)


@pytest.mark.parametrize("gate", [(), ("--evalwright-gate",)])
def test_without_a_bar_every_task_must_pass(bench: Bench, gate: tuple[str, ...]) -> None:
    result = bench.pytest("--evalwright", *gate)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=3, failed=1)
    told = "3 of 4 tasks passed, and every task must pass (default)"
    assert told in " ".join(text(result).split())


def test_a_unit_test_that_fails_is_not_left_to_the_bar(bench: Bench) -> None:
    bench.write("test_unit.py", "def test_one(): assert False\n")
    assert bench.pytest("--evalwright").ret == pytest.ExitCode.TESTS_FAILED


def test_a_regression_fails_a_session_whose_bar_is_met(bench: Bench) -> None:
    gated = ("--evalwright", "--evalwright-gate")
    bench.pytest(*gated)
    bench.write("agent.py", AGENT.replace('"Hello."', '"Hello." if task.id != "thanks" else "No."'))
    assert bench.pytest(*gated, "--evalwright-fail-on", "none").ret == 0
    bench.write("shop.evals.yaml", SUITE + "thresholds: {passScore: 0.1}\n")
    first = bench.runs()[0]
    assert bench.pytest(*gated).ret == 0
    result = bench.pytest(*gated, "--evalwright-baseline", first)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "1 newly failing against the baseline" in text(result)


def test_a_choice_of_tasks_is_marked_as_a_part_of_the_suite(bench: Bench) -> None:
    result = bench.pytest("--evalwright", "-k", "greeting or orders")
    result.assert_outcomes(passed=1, failed=1, deselected=2)
    selection = bench.history().plan.selection
    assert selection is not None
    assert (selection.of, selection.by) == (4, ["pytest -k greeting or orders"])
    assert "partial" in bench.history().plan.tags
    again = bench.pytest("--evalwright", "--lf")
    again.assert_outcomes(failed=1)
    assert list(bench.history().scored) == ["order-status"]


def test_a_session_that_stops_early_leaves_a_cancelled_run(bench: Bench) -> None:
    result = bench.pytest("--evalwright", "-x")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "NO RESULT  shop.evals.yaml" in result.outlines
    assert "  only 1 of 4 tasks have a score" in result.outlines
    history = bench.history()
    assert (history.status, history.scored) == ("cancelled", {"order-status"})
    assert history.end is not None
    assert history.end.payload()["reason"] == "stopping after 1 failures"


def test_an_interrupt_leaves_a_cancelled_run_without_an_open_invocation(bench: Bench) -> None:
    bench.write(
        "agent.py",
        """\
        import _thread, time
        def answer(task):
            if task.id == "farewell":
                _thread.interrupt_main()
                time.sleep(60)
            return "Hello."
        """,
    )
    result = bench.pytest("--evalwright", no_reraise_ctrlc=True)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert bench.history().status == "cancelled"
    assert bench.history().scored == {"order-status", "greeting"}
    assert bench.history().attempts["farewell"] == 1  # which was asked, and may have cost
    assert len(bench.runs()) == 1


def test_an_agent_that_never_answers_has_no_result(bench: Bench) -> None:
    bench.write("agent.py", "def answer(task):\n    raise OSError('away')\n")
    result = bench.pytest("--evalwright")
    result.assert_outcomes(failed=4)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert bench.history().status == "failed"
    assert bench.history().scored == set()
    assert "agent_unavailable: agent local.agent.answer" in text(result)


def test_repeats_of_a_session_show_what_is_flaky(bench: Bench) -> None:
    bench.write(
        "agent.py",
        """\
        calls = []
        def answer(task):
            calls.append(task.id)
            return "Hello." if calls.count("thanks") != 2 else "No."
        """,
    )
    bench.write("shop.evals.yaml", SUITE + "thresholds: {passScore: 0.5}\n")
    repeats = ("--evalwright-repeat", "3", "-k", "not order")
    result = bench.pytest("--evalwright", *repeats)
    result.assert_outcomes(passed=2, failed=1, deselected=1)
    assert "AssertionError: failed in 1 of 3 runs: contains:" in text(result)
    assert len(bench.runs()) == 3
    assert result.ret == 1
    gated = ("--evalwright", "--evalwright-gate", *repeats)
    assert bench.pytest(*gated).ret == 0
    assert bench.pytest(*gated, "--evalwright-flaky-as", "fail").ret == 1


def test_repetitions_of_a_task_are_one_item(bench: Bench) -> None:
    bench.write(
        "shop.evals.yaml",
        """\
        evalwright: 1
        agent: agent.py:answer
        tasks:
          - {id: often, input: Hi, repeat: 4, pass_rate: 0.5, checks: [{contains: Hello}]}
        """,
    )
    bench.write(
        "agent.py",
        "n = []\ndef answer(task):\n    n.append(1)\n    return 'Hello' * (len(n) % 2)\n",
    )
    bench.pytest("--evalwright").assert_outcomes(passed=1)
    assert ew.load().tasks["often"].score == 0.5


@pytest.mark.parametrize(
    ("option", "limit", "told"), [("max-cost", "1", "$1"), ("max-tokens-total", "5", "5")]
)
def test_a_budget_is_kept_and_a_run_beyond_it_fails(
    bench: Bench, option: str, limit: str, told: str
) -> None:
    bench.write(
        "agent.py",
        """\
        def answer(task):
            task.report_usage(input_tokens=1, output_tokens=1, cost_usd=0.4)
            return "Hello."
        """,
    )
    result = bench.pytest("--evalwright", f"--evalwright-{option}", limit, "-k", "not order")
    result.assert_outcomes(passed=2, failed=1, deselected=1)
    assert "budget_exhausted" in text(result)
    assert f"--evalwright-{option} is {told}" in text(result)
    assert bench.history().status == "failed"


def test_junit_of_pytest_has_every_task_with_its_score(bench: Bench) -> None:
    bench.pytest("--evalwright", "--junitxml", "report.xml")
    suite = ET.parse(bench.folder / "report.xml").getroot()[0]
    cases = {case.attrib["name"]: case for case in suite}
    assert list(cases) == ["order-status", "greeting", "farewell", "thanks"]
    failure = cases["order-status"].find("failure")
    assert failure is not None
    assert "“shipped” is not in the output" in failure.attrib["message"]
    score = cases["order-status"].find("properties/property[@name='score']")
    assert score is not None
    assert score.attrib["value"] == "0.0"


def test_reports_of_runs_are_written_where_they_are_wanted(bench: Bench) -> None:
    bench.pytest("--evalwright", "--evalwright-html", "run.html", "--evalwright-out", "files")
    assert "order-status" in (bench.folder / "run.html").read_text("utf-8")
    summary = msgspec.json.decode((bench.folder / "files" / "summary.json").read_bytes())
    assert summary["taskCount"] == 4


def test_what_was_recorded_is_what_the_command_line_records(
    bench: Bench, evalwright: Evalwright
) -> None:
    bench.pytest("--evalwright")
    evalwright.db = None
    evalwright("run", "shop.evals.yaml", "--concurrency", "1", cwd=bench.folder)
    by_pytest, by_command = bench.runs()
    with existing_log(None) as log:
        kinds = [[(each.type, each.task_id) for each in log.read(run)] for run in bench.runs()]
        stories = [
            [(each.decision, each.checks) for each in read_stories(log, run, {"order-status"})]
            for run in (by_pytest, by_command)
        ]
    assert kinds[0] == kinds[1]
    assert stories[0] == stories[1]


def test_a_session_over_several_processes_is_one_run(bench: Bench) -> None:
    tasks = "".join(
        f"  - {{id: t{n}, input: Hi, checks: [{{contains: {'Hello' if n != 3 else 'x'}}}]}}\n"
        for n in range(8)
    )
    bench.write("shop.evals.yaml", f"evalwright: 1\nagent: agent.py:answer\ntasks:\n{tasks}")
    result = bench.pytest("--evalwright", "-n", "2", "--junitxml", "report.xml")
    result.assert_outcomes(passed=7, failed=1)
    assert "AssertionError: contains: “x” is not in the output" in text(result)
    assert len(bench.runs()) == 1
    run = ew.load()
    assert list(run.tasks) == [f"t{n}" for n in range(8)]
    assert run.summary["passedCount"] == 7
    assert result.ret == 1
    assert len(ET.parse(bench.folder / "report.xml").getroot()[0]) == 8


def test_options_that_mean_nothing_are_refused(bench: Bench) -> None:
    result = bench.pytest("--evalwright", "--evalwright-flaky-as", "fail")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "--evalwright-flaky-as needs --evalwright-repeat" in "\n".join(result.errlines)
    record = ("--evalwright-cassette", "calls.jsonl", "--evalwright-record")
    result = bench.pytest("--evalwright", *record, "-n", "2")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "--evalwright-record is for one process; leave out -n" in "\n".join(result.errlines)

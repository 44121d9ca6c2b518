"""What machines read: stdout alone, stable keys, whole files."""

import json
import os
import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from builders import a_suite, a_task
from subjects import logs
from subjects.command import Evalwright, Finished, subject
from subjects.endpoint import Reply, serving

YES = ["--agent", subject("answers.py:yes")]
NO = ["--agent", subject("answers.py:no")]
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


# run --json.


def test_run_json_prints_the_summary_alone(evalwright: Evalwright) -> None:
    suite = evalwright.suite(a_suite([a_task("task-1"), a_task("task-2", value="no")]))
    ran = evalwright("run", suite, "--agent", subject("answers.py:priced"), "--json")
    summary = ran.json()
    latencies = [task.pop("latencyMs") for task in summary["tasks"]]
    assert all(isinstance(latency, int) for latency in latencies)
    assert summary == {
        "suiteId": "acme.shop.evals.refunds",
        "suiteVersion": "1.0.0",
        "aggregateScore": 0.5,
        "passed": False,
        "taskCount": 2,
        "passedCount": 1,
        "tasks": [
            {"taskId": "task-1", "score": 1.0, "passed": True, "costUsd": 0.25},
            {"taskId": "task-2", "score": 0.0, "passed": False, "costUsd": 0.25},
        ],
        "totalCostUsd": 0.5,
    }
    assert ran.code == 1
    assert ran.out.endswith("}\n")
    assert "FAILED" in ran.err  # the scorecard is for people


@pytest.mark.parametrize("agent", ["shout", "shout_at_the_end", "leave_a_shouting_child"])
def test_what_an_agent_prints_does_not_spoil_the_json(evalwright: Evalwright, agent: str) -> None:
    suite = evalwright.suite(a_suite(tasks=2))
    ran = evalwright("run", suite, "--agent", subject(f"noisy.py:{agent}"), "--json")
    assert ran.code == 0
    assert "NOISE" not in ran.out
    assert ran.json()["passed"] is True
    noises = {"shout": 10, "shout_at_the_end": 2, "leave_a_shouting_child": 2}
    assert ran.err.count("NOISE") == noises[agent]


def test_what_a_lost_thread_prints_does_not_spoil_the_json(evalwright: Evalwright) -> None:
    suite = evalwright.suite(a_suite(tasks=2))
    agent = subject("noisy.py:shout_after_the_timeout")
    ran = evalwright("run", suite, "--agent", agent, "--timeout", "0.2", "--json")
    assert "NOISE" in ran.err
    assert "NOISE" not in ran.out
    assert ran.json()["passedCount"] == 1


def test_what_a_command_agent_prints_to_stderr_does_not_spoil_the_json(
    evalwright: Evalwright,
) -> None:
    suite = evalwright.suite(a_suite(tasks=1))
    command = """cmd:sh -c 'echo NOISE >&2; echo "{\\"output\\": \\"yes\\"}"'"""
    ran = evalwright("run", suite, "--agent", command, "--json")
    assert ran.json()["passed"] is True


def test_a_run_without_a_result_prints_nothing_to_stdout(evalwright: Evalwright) -> None:
    suite = evalwright.suite(a_suite(tasks=1))
    ran = evalwright("run", suite, "--agent", subject("answers.py:broken"), "--json")
    assert (ran.code, ran.out) == (3, "")


# runs, show, latest.


@pytest.fixture
def three_runs(evalwright: Evalwright) -> list[str]:
    """A run that passed, one that missed its bar, one that failed; their ids, newest first."""
    suite = evalwright.suite(a_suite(tasks=2))
    assert evalwright("run", suite, *YES, "--agent-id", "acme.good").code == 0
    assert evalwright("run", suite, *NO).code == 1
    assert evalwright("run", suite, "--agent", subject("answers.py:broken")).code == 3
    return evalwright.run_ids()


def test_runs_json_has_exactly_the_promised_keys_newest_first(
    evalwright: Evalwright, three_runs: list[str]
) -> None:
    listed = evalwright("runs", "--json")
    rows = listed.json()
    assert [row["runId"] for row in rows] == three_runs
    times = [row.pop("startedAt") for row in rows]
    assert times == sorted(times, reverse=True)
    assert all(TIME.fullmatch(time) for time in times)
    same = {
        "suiteId": "acme.shop.evals.refunds",
        "suiteVersion": "1.0.0",
        "modes": ["golden"],
    }
    failed, missed, passed = rows
    assert failed == same | {
        "runId": three_runs[0],
        "agentId": "local.answers.broken",
        "status": "failed",
    }
    assert missed == same | {
        "runId": three_runs[1],
        "agentId": "local.answers.no",
        "status": "completed",
        "aggregateScore": 0.0,
        "passed": False,
    }
    assert passed == same | {
        "runId": three_runs[2],
        "agentId": "acme.good",
        "status": "completed",
        "aggregateScore": 1.0,
        "passed": True,
    }
    assert listed.err == ""
    newest = evalwright("runs", "--json", "--limit", "1").json()
    assert [row["runId"] for row in newest] == three_runs[:1]


def test_runs_are_listed_for_people_too(evalwright: Evalwright, three_runs: list[str]) -> None:
    lines = evalwright("runs").out.splitlines()
    assert lines[0].split() == ["RUN", "PASSED", "RATE", "P95", "STARTED"]
    assert [line.split()[:2] for line in lines if line[2:3] in "○■▲"] == [
        ["▲", "3"],
        ["■", "2"],
        ["○", "1"],
    ]
    assert max(map(len, lines)) <= 80


def test_no_runs_is_an_empty_array(evalwright: Evalwright) -> None:
    listed = evalwright("runs", "--json")
    assert (listed.code, listed.json()) == (0, [])
    for_people = evalwright("runs")
    assert (for_people.code, for_people.out) == (0, "")
    assert "no run has been recorded" in for_people.err


def test_a_run_is_named_by_latest_or_by_the_beginning_of_its_id(
    evalwright: Evalwright, three_runs: list[str]
) -> None:
    _, missed, passed = three_runs
    shared = next(n for n in range(len(passed)) if not missed.startswith(passed[: n + 1]))
    by_id = evalwright("show", passed, "--json")
    assert by_id.json()["passed"] is True
    assert evalwright("show", passed[:-1], "--json").out == by_id.out
    several = evalwright("show", passed[:shared], "--json")
    assert several.code == 2
    assert "begin with" in several.err
    assert "run_nope" in evalwright("show", "run_nope").err
    latest = evalwright("show", "latest", "--json")
    assert latest.code == 3  # the newest run failed, and is the latest all the same
    assert three_runs[0] in latest.err


def test_show_events_json_prints_the_log_as_lines_that_validate(
    evalwright: Evalwright, three_runs: list[str]
) -> None:
    for run_id in three_runs[:2]:
        shown = evalwright("show", run_id, "--events", "--json")
        assert (shown.code, shown.err) == (0, "")
        events = [json.loads(line) for line in shown.out.splitlines()]
        assert events == evalwright.events(run_id)
        logs.assert_gap_free(events)
        (evalwright.folder / f"{run_id}.jsonl").write_text(shown.out)
    valid = evalwright("validate", *(f"{run_id}.jsonl" for run_id in three_runs[:2]))
    assert valid.code == 0, valid.err
    assert valid.out.count("valid event log") == 2


def test_show_can_be_narrowed_to_one_task(evalwright: Evalwright, three_runs: list[str]) -> None:
    shown = evalwright("show", three_runs[1], "--task", "task-2", "--json")
    events = [json.loads(line) for line in shown.out.splitlines()]
    assert events == logs.of_task(evalwright.events(three_runs[1]), "task-2")
    for_people = evalwright("show", three_runs[1], "--task", "task-2")
    assert "task-2" in for_people.out
    assert "task-1" not in for_people.out
    unknown = evalwright("show", three_runs[1], "--task", "task-9")
    assert unknown.code == 2
    assert "task-9" in unknown.err


def test_show_tells_in_full_what_the_scorecard_shortens(evalwright: Evalwright) -> None:
    text = "long " * 100 + "end"
    suite = evalwright.suite(a_suite([a_task(input=text)]))
    ran = evalwright("run", suite, "--agent", subject("answers.py:echo"))
    assert text not in ran.out
    assert "…" in ran.out
    assert text in evalwright("show", "latest").flat


def test_the_scorecard_begins_with_the_verdict_and_ends_with_the_exit_code(
    evalwright: Evalwright,
) -> None:
    suite = evalwright.suite(a_suite([a_task("task-1"), a_task("task-2", value="maybe")]))
    ran = evalwright("run", suite, *YES)
    assert ran.code == 1
    wanted = ["FAILED", "0.5", "task-2", "expected", "maybe", "got", "yes"]
    places = [ran.out.find(text) for text in wanted]
    assert places == sorted(places)
    assert places[0] >= 0
    assert "task-1" not in ran.out
    assert "1 of 2 tasks passed, and every task must pass (default)" in ran.flat
    assert ran.out.splitlines()[-1] == "exit 1: may not ship"


def test_the_scorecard_says_why_a_cost_bar_cannot_be_met(evalwright: Evalwright) -> None:
    suite = evalwright.suite(a_suite(tasks=1, max_cost_usd=5))
    usage = b'{"output": "yes", "usage": {"inputTokens": 1, "outputTokens": 1}}'
    with serving(lambda _: Reply(usage)) as endpoint:
        ran = evalwright("run", suite, "--agent", endpoint.url)
    assert ran.code == 1
    assert "no known price" in ran.out


# diff.


def test_diff_tells_two_runs_apart(evalwright: Evalwright, three_runs: list[str]) -> None:
    _, missed, passed = three_runs
    same = evalwright("diff", passed, passed, "--json", "--exit-code")
    assert same.code == 0
    assert same.json() == {
        "a": passed,
        "b": passed,
        "divergedAtSeq": None,
        "eventDiffs": [],
        "stateDiff": {},
    }
    other = evalwright("diff", passed, missed, "--json")
    found = other.json()
    assert other.code == 0
    assert found["divergedAtSeq"] == found["eventDiffs"][0]["seq"]
    assert found["stateDiff"]["passed"] == {"a": True, "b": False}
    assert evalwright("diff", passed, missed, "--exit-code").code == 1
    assert evalwright("diff", passed, "run_nope").code == 2


# Files.


def test_junit_tells_passes_failures_and_errors(evalwright: Evalwright) -> None:
    tasks = [a_task("task-1"), a_task("task-2", value="no"), a_task("task-3")]
    suite = evalwright.suite(a_suite(tasks))
    (evalwright.folder / "agent.py").write_text(
        "def answer(task):\n"
        "    if task.id == 'task-3': raise ValueError('<broken> & \\x00\\x1b')\n"
        "    return 'yes'\n"
    )
    ran = evalwright("run", suite, "--agent", "agent.py:answer", "--junit", "report.xml")
    assert ran.code == 1
    root = ET.parse(evalwright.folder / "report.xml").getroot()
    assert root.tag == "testsuites"
    (report,) = root.findall("testsuite")
    cases = {case.get("name"): case for case in report.findall("testcase")}
    assert list(cases) == ["task-1", "task-2", "task-3", "threshold-1"]
    assert [each.tag for each in cases["task-1"]] == ["properties"]  # its title
    assert cases["task-2"].find("failure") is not None
    error = cases["task-3"].find("error")
    assert error is not None
    assert "<broken> &" in (error.get("message") or "")
    assert (report.get("tests"), report.get("failures"), report.get("errors")) == ("4", "2", "1")


def test_a_report_goes_through_a_link_and_into_a_pipe(evalwright: Evalwright) -> None:
    """A named place is written to, never replaced by another kind of file."""
    suite = evalwright.suite(a_suite(tasks=1))
    target, link = evalwright.folder / "real.xml", evalwright.folder / "link.xml"
    target.write_text("")
    link.symlink_to(target)
    assert evalwright("run", suite, *YES, "--junit", "link.xml").code == 0
    assert link.is_symlink()
    assert target.read_text().startswith("<?xml")

    pipe = evalwright.folder / "pipe.xml"
    os.mkfifo(pipe)
    process = evalwright.start("run", suite, *YES, "--junit", "pipe.xml")
    assert pipe.read_text().startswith("<?xml")
    assert evalwright.finish(process).code == 0
    assert pipe.is_fifo()


def test_a_report_may_lie_in_the_folder_of_the_results(evalwright: Evalwright) -> None:
    suite = evalwright.suite(a_suite(tasks=1))
    assert evalwright("run", suite, *YES, "--out", "all", "--junit", "all/junit.xml").code == 0
    assert (evalwright.folder / "all" / "junit.xml").exists()


def test_junit_of_a_run_without_a_result_is_an_error(evalwright: Evalwright) -> None:
    suite = evalwright.suite(a_suite(tasks=1))
    ran = evalwright("run", suite, "--agent", subject("answers.py:broken"), "--junit", "report.xml")
    assert ran.code == 3
    root = ET.parse(evalwright.folder / "report.xml").getroot()
    assert root.get("errors") == "1"
    error = root.find(".//error")
    assert error is not None
    assert error.get("type") == "agent_unavailable"


def test_out_holds_summary_log_and_scorecard(evalwright: Evalwright) -> None:
    suite = evalwright.suite(a_suite(tasks=2))
    ran = evalwright("run", suite, *NO, "--out", "deep/results", "--json")
    folder = evalwright.folder / "deep" / "results"
    assert sorted(path.name for path in folder.iterdir()) == [
        "events.jsonl",
        "scorecard.txt",
        "summary.json",
    ]
    assert (folder / "summary.json").read_text() == ran.out
    lines = (folder / "events.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == evalwright.events()
    assert "FAILED" in (folder / "scorecard.txt").read_text()
    assert "\x1b" not in (folder / "scorecard.txt").read_text()
    valid = evalwright("validate", "deep/results/summary.json", "deep/results/events.jsonl", suite)
    assert valid.code == 0, valid.err


@pytest.mark.parametrize("place", ["missing/report.xml", ".", "suite.json/report.xml"])
def test_a_report_that_cannot_be_written_is_refused_before_the_run(
    evalwright: Evalwright, place: str
) -> None:
    suite = evalwright.suite(a_suite(tasks=1))
    refused = evalwright("run", suite, *YES, "--junit", place)
    assert refused.code == 2
    assert "cannot be written" in refused.err
    assert not evalwright.db.exists()


def test_a_folder_that_cannot_be_made_is_refused_before_the_run(evalwright: Evalwright) -> None:
    suite = evalwright.suite(a_suite(tasks=1))
    refused = evalwright("run", suite, *YES, "--out", "suite.json")
    assert refused.code == 2
    assert "suite.json" in refused.err
    assert not evalwright.db.exists()


# Quiet and plain.


def test_quiet_prints_nothing_but_what_was_asked_for(evalwright: Evalwright) -> None:
    suite = evalwright.suite(a_suite(tasks=2))
    quiet = evalwright("run", suite, *YES, "--quiet")
    assert quiet == Finished(0, "", "")
    with_json = evalwright("run", suite, *YES, "--quiet", "--json")
    assert with_json.json()["passed"] is True
    assert with_json.err == ""
    failed = evalwright("run", suite, "--agent", subject("answers.py:broken"), "--quiet")
    assert failed.code == 3
    assert "agent_unavailable" in failed.err


def test_away_from_a_terminal_progress_is_plain_lines(evalwright: Evalwright) -> None:
    suite = evalwright.suite(a_suite(tasks=12))
    ran = evalwright("run", suite, "--agent", subject("answers.py:priced"))
    assert any(line.startswith("◐ 10 of 12  ○○○") for line in ran.err.splitlines())
    assert evalwright.run_ids()[0] in ran.err
    assert "\x1b" not in ran.out + ran.err
    assert "\r" not in ran.out + ran.err


# Readers that leave early.


def first_line_of(evalwright: Evalwright, *arguments: str) -> tuple[int, bytes, bytes]:
    """Read a line and close the pipe, as `head -1` does."""
    process = evalwright.start(*arguments)
    assert process.stdout is not None
    line = process.stdout.readline()
    process.stdout.close()
    process.stdout = None
    finished = evalwright.finish(process)
    return finished.code, line, finished.err.encode()


@pytest.mark.parametrize("tasks", [1, 400], ids=["a short log", "a long log"])
def test_a_reader_that_leaves_early_is_no_problem(evalwright: Evalwright, tasks: int) -> None:
    suite = evalwright.suite(a_suite(tasks=tasks))
    assert evalwright("run", suite, *YES, "--quiet").code == 0
    code, line, err = first_line_of(evalwright, "show", "latest", "--events", "--json")
    assert json.loads(line)["sequence"] == 0
    assert err == b""
    assert code in {0, 141}


def closed_pipe() -> int:
    """The end of a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing


@pytest.mark.parametrize(
    "arguments",
    [["show", "latest"], ["show", "latest", "--json"], ["runs"], ["replay", "latest", "--json"]],
    ids=" ".join,
)
def test_a_reader_that_never_came_is_no_problem(
    evalwright: Evalwright, arguments: list[str]
) -> None:
    suite = evalwright.suite(a_suite(tasks=2))
    assert evalwright("run", suite, *YES, "--quiet").code == 0
    nobody = closed_pipe()
    finished = evalwright.finish(evalwright.start(*arguments, stdout=nobody))
    os.close(nobody)
    assert finished.err == ""
    assert finished.code in {0, 141}


@pytest.mark.parametrize("more", [[], ["--json"]], ids=["scorecard", "json"])
def test_a_run_that_missed_its_bar_says_so_even_if_nobody_reads(
    evalwright: Evalwright, more: list[str]
) -> None:
    """In a pipeline with `pipefail` the exit code is the gate; 0 would be a pass."""
    suite = evalwright.suite(a_suite(tasks=2))
    nobody = closed_pipe()
    process = evalwright.start("run", suite, *NO, "--junit", "report.xml", *more, stdout=nobody)
    finished = evalwright.finish(process)
    os.close(nobody)
    assert finished.code not in {0, None}
    assert "Traceback" not in finished.err
    assert (evalwright.folder / "report.xml").exists()


def test_a_run_that_passed_does_not_say_otherwise_if_nobody_reads(evalwright: Evalwright) -> None:
    suite = evalwright.suite(a_suite(tasks=2))
    nobody = closed_pipe()
    finished = evalwright.finish(evalwright.start("run", suite, *YES, "--json", stdout=nobody))
    os.close(nobody)
    assert finished.code in {0, 141}


def test_a_run_whose_progress_nobody_reads_is_run_all_the_same(evalwright: Evalwright) -> None:
    suite = evalwright.suite(a_suite(tasks=2))
    nobody = closed_pipe()
    missed = evalwright.finish(evalwright.start("run", suite, *NO, "--json", stderr=nobody))
    os.close(nobody)
    assert missed.code == 1
    assert missed.json()["passedCount"] == 0


def test_a_result_that_cannot_be_written_is_not_a_pass(evalwright: Evalwright) -> None:
    suite = evalwright.suite(a_suite(tasks=2))
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    with full.open("wb") as place:
        for more in ([], ["--json"]):
            process = evalwright.start("run", suite, *YES, *more, stdout=place)
            finished = evalwright.finish(process)
            assert finished.code not in {0, 1}, more
            assert "Traceback" not in finished.err, more
            assert "No space left" in finished.err, more


def test_the_command_works_without_a_stdout(evalwright: Evalwright) -> None:
    suite = evalwright.suite(a_suite(tasks=1))
    line = evalwright.line("run", suite, *NO)
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" >&-', "sh", *line],
        cwd=evalwright.folder,
        env=evalwright.environment(),
        capture_output=True,
        timeout=240,
        check=False,
    )
    assert b"Traceback" not in done.stderr
    assert done.returncode == 1

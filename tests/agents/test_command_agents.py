"""Command agents: a process per task, a request on stdin, a response on stdout."""

import contextlib
import gc
import json
import os
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from builders import a_suite, a_task
from evalwright.agents.load import load_agent
from evalwright.contracts.errors import BadInput
from subjects import logs
from subjects.command import SUBJECTS, Evalwright
from subjects.runs import Recording, Workshop
from subjects.waiting import TIME_LIMIT_S, Journal, eventually

FIXTURES = {
    "toolResponses": [{"tool": "shop:orders.get", "response": 1}],
    "memorySeed": [{"id": "m1", "content": "likes e-mail"}],
}


@pytest.fixture(autouse=True)
def journal_for_programs(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOURNAL", str(journal.path))


def program(behaviour: str) -> str:
    """A reference to `subjects/program.py` that behaves so on the first task."""
    return f"cmd:{shlex.join([sys.executable, str(SUBJECTS / 'program.py'), behaviour])}"


def run(workshop: Workshop, behaviour: str, **options: Any) -> Recording:
    """Two tasks; the program behaves so on the first and answers the second."""
    agent = load_agent(program(behaviour), "acme.clerk")
    return workshop.run(a_suite(tasks=2), agent, task_timeout_s=TIME_LIMIT_S, **options)


def assert_first_failed(recording: Recording, code: str) -> str:
    logs.assert_complete(recording.events)
    assert recording.outcome_of("task-1") == "failed"
    assert (recording.score("task-1")["score"], recording.score("task-2")["score"]) == (0, 1)
    error = recording.decision("task-1")["error"]
    assert error["code"] == code
    return str(error["message"])


def is_running(pid: int) -> bool:
    """Whether a process is there and no mere entry that nobody has collected yet."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def pids(journal: Journal) -> list[int]:
    """The processes that programs noted."""
    return [int(word) for line in journal.lines() for word in line.split() if word.isdigit()]


def test_a_program_is_sent_its_task_and_answers_with_its_output(
    workshop: Workshop, journal: Journal
) -> None:
    suite = a_suite([a_task(input={"q": "Ärger?"}, fixtures=FIXTURES)])
    recording = workshop.run(suite, load_agent(program("answer")))
    assert recording.summary.passed
    (line,) = journal.lines()
    python = Path(sys.executable).stem
    assert json.loads(line) == {
        "runId": recording.run_id,
        "invocationId": "inv-0001",
        "agentId": f"local.cmd.{python}",
        "taskId": "task-1",
        "input": {"q": "Ärger?"},
        "fixtures": FIXTURES,
    }


def test_events_and_usage_are_recorded_with_ids_of_our_own(workshop: Workshop) -> None:
    recording = run(workshop, "tell")
    logs.assert_complete(recording.events)
    assert logs.task_shape(recording.events, "task-1") == "srtaudcS"
    assert recording.of("agent.toolReturned")[0]["callId"] == "inv-0001:c1"
    assert recording.score("task-1")["costUsd"] == 0.5


def test_an_exit_code_fails_the_task_and_stderr_tells_why(workshop: Workshop) -> None:
    message = assert_first_failed(run(workshop, "fail"), "agent_error")
    assert "exit code 7" in message
    assert "the licence has run out" in message
    assert len(message) < 5000


def test_a_program_that_is_killed_fails_its_task(workshop: Workshop) -> None:
    message = assert_first_failed(run(workshop, "die"), "agent_error")
    assert "SIGKILL" in message


@pytest.mark.parametrize("behaviour", ["babble", "be_silent"])
def test_what_is_no_response_fails_the_task(workshop: Workshop, behaviour: str) -> None:
    assert_first_failed(run(workshop, behaviour), "invalid_answer")


def test_a_program_that_answers_too_much_is_stopped(workshop: Workshop) -> None:
    message = assert_first_failed(run(workshop, "flood"), "invalid_answer")
    assert "longer than" in message


def test_a_timeout_ends_the_program_and_its_children(workshop: Workshop, journal: Journal) -> None:
    def time_is_up() -> bool:
        return len(pids(journal)) == 2 and workshop.scored_tasks() == {"task-2"}

    recording = run(workshop, "hang_with_a_child", time_is_up=time_is_up)
    assert_first_failed(recording, "agent_timeout")
    assert len(pids(journal)) == 2
    eventually(lambda: not any(map(is_running, pids(journal))), "the end of the processes")


def test_children_that_a_program_leaves_behind_are_ended(
    workshop: Workshop, journal: Journal
) -> None:
    recording = run(workshop, "leave_a_child")
    assert recording.summary.passed_count == 2
    assert len(pids(journal)) == 2
    eventually(lambda: not any(map(is_running, pids(journal))), "the end of the processes")


def test_an_answer_counts_although_a_child_keeps_stdout_open(
    workshop: Workshop, journal: Journal
) -> None:
    """The program has ended; what it left behind has nothing to say."""
    recording = run(workshop, "leave_a_child_with_our_stdout")
    assert recording.summary.passed_count == 2, recording.decision("task-1")
    assert len(pids(journal)) == 2
    eventually(lambda: not any(map(is_running, pids(journal))), "the end of the processes")


@pytest.mark.parametrize("behaviour", ["ignore_stdin", "close_stdin"])
def test_a_program_need_not_read_its_request(workshop: Workshop, behaviour: str) -> None:
    """Not even one that fills more than a pipe."""
    suite = a_suite([a_task("task-1", input="x" * 1_000_000), a_task("task-2")])
    recording = workshop.run(suite, load_agent(program(behaviour)), task_timeout_s=TIME_LIMIT_S)
    assert recording.summary.passed_count == 2


def test_a_large_request_and_a_large_answer_do_not_block_each_other(workshop: Workshop) -> None:
    text = "x" * 1_000_000
    script = (
        "import sys, json; r = json.load(sys.stdin); sys.stderr.write('e' * 1000000);"
        " print(json.dumps({'output': r['input']}))"
    )
    agent = load_agent(f"cmd:{shlex.join([sys.executable, '-c', script])}")
    suite = a_suite([a_task(input=text, value=text)])
    assert workshop.run(suite, agent, task_timeout_s=TIME_LIMIT_S).summary.passed


@pytest.mark.parametrize(
    ("ref", "why"),
    [
        ("cmd:", "name a program"),
        ("cmd:   ", "name a program"),
        ("cmd:no-such-program --flag", "no program 'no-such-program'"),
        ("cmd:./missing.sh", "no program './missing.sh'"),
        ("cmd:sh -c 'unclosed", "quotation"),
    ],
)
def test_a_command_that_cannot_be_is_bad_input(ref: str, why: str) -> None:
    with pytest.raises(BadInput) as raised:
        load_agent(ref)
    assert raised.value.exit_code == 2
    assert why in str(raised.value)


def test_a_program_that_cannot_be_started_makes_the_agent_unavailable(
    workshop: Workshop, tmp_path: Path
) -> None:
    script = tmp_path / "agent.sh"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    recording = workshop.run(a_suite(tasks=2), load_agent(f"cmd:{script}"))
    assert recording.failure is not None
    assert recording.failure.code == "agent_unavailable"
    assert recording.of("agent.decided")[0]["decision"]["error"]["code"] == "agent_unreachable"


def test_no_shell_is_involved(workshop: Workshop, tmp_path: Path) -> None:
    script = "import sys, json; print(json.dumps({'output': sys.argv[1]}))"
    words = "$HOME; echo `id` > file & *"
    agent = load_agent(f"cmd:{shlex.join([sys.executable, '-c', script, words])}")
    assert workshop.run(a_suite([a_task(value=words)]), agent).summary.passed


def test_a_timeout_is_told_without_noise(evalwright: Evalwright) -> None:
    suite = evalwright.suite(a_suite(tasks=2))
    hang = """case "$(cat)" in *task-1*) sleep 600 & wait;; esac; echo '{"output": "yes"}'"""
    agent = f"cmd:{shlex.join(['sh', '-c', hang])}"  # which takes no time to start
    ran = evalwright("run", suite, "--agent", agent, "--timeout", "1.5", "--json")
    assert ran.code == 1
    assert ran.json()["passedCount"] == 1
    assert "Traceback" not in ran.err
    assert "Exception ignored" not in ran.err
    assert "Warning" not in ran.err


def test_ctrl_c_ends_the_programs_of_a_run(evalwright: Evalwright, journal: Journal) -> None:
    suite = evalwright.suite(a_suite(tasks=1))
    process = evalwright.start(
        "run", suite, "--agent", program("hang_with_a_child"), env=journal.environment
    )
    journal.wait_for(1)
    process.send_signal(signal.SIGINT)
    stopped = evalwright.finish(process)
    assert stopped.code == 130
    assert "Traceback" not in stopped.err
    assert len(pids(journal)) == 2
    eventually(lambda: not any(map(is_running, pids(journal))), "the end of the processes")


@pytest.fixture(autouse=True)
def nothing_left_behind(journal: Journal):
    """Whatever a test found, no program outlives it."""
    yield
    for pid in pids(journal):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    gc.collect()  # a process that nobody waited for complains here, not in another test

"""On a terminal: progress that comes and goes, colour where wanted, nothing that steers it."""

import re
import sys

import pytest

from builders import a_suite, a_task
from subjects.command import SUBJECTS, Evalwright, subject
from subjects.noisy import ESCAPES
from subjects.screen import on_terminal
from subjects.waiting import Journal

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
FORBIDDEN = ["\x1b[2J", "\x1b]0;", "\x07", "\x9b", "\x08", "\u202e"]


def held_run(
    evalwright: Evalwright, journal: Journal, *more: str, **options: object
) -> tuple[object, str]:
    """A run that waits with 2 of 3 tasks done until that was seen on the terminal."""
    tasks = [a_task("task-1"), a_task("task-2", value="no"), a_task("task-3", input="wait")]
    suite = evalwright.suite(a_suite(tasks))
    while_waiting: list[str] = []

    def seen(raw: str) -> None:
        if "2 of 3" in raw and not journal.gate.exists():
            while_waiting.append(raw)
            journal.open_gate()

    ran = on_terminal(
        evalwright, "run", suite, "--agent", subject("journal.py:wait_at_the_gate"), *more,
        env=journal.environment | options.pop("env", {}), seen=seen, **options,
    )  # fmt: skip
    assert while_waiting, "the progress was never shown"
    return ran, while_waiting[0]


def test_progress_is_shown_while_a_run_goes_on_and_then_disappears(
    evalwright: Evalwright, journal: Journal
) -> None:
    ran, during = held_run(evalwright, journal)
    assert ran.code == 1
    assert "2 of 3" in during
    assert "1 failed" in during
    assert "left" in during
    assert " of 3  " not in ran.left
    assert "◐" not in ran.left
    assert "FAILED" in ran.left
    assert "\x1b[?25h" in ran.raw.rpartition("\x1b[?25l")[2], "the cursor stays hidden"


def test_the_summary_stays_apart_from_the_progress(
    evalwright: Evalwright, journal: Journal
) -> None:
    ran, _ = held_run(evalwright, journal, "--json", stdout_apart=True)
    assert ran.out.startswith("{\n")
    assert "\x1b" not in ran.out
    assert "FAILED" in ran.left


def test_colour_is_used_on_a_terminal_and_not_with_no_color(
    evalwright: Evalwright, journal: Journal
) -> None:
    coloured, _ = held_run(evalwright, journal)
    assert "\x1b[31m" in coloured.raw
    journal.gate.unlink()
    journal.clear()
    plain, _ = held_run(evalwright, journal, env={"NO_COLOR": "1"})
    colours = {code for code in COLOUR.findall(plain.raw) if set(code[2:-1]) - set("012;")}
    assert colours == set()
    assert "\x1b[31m" not in on_terminal(evalwright, "show", "latest", env={"NO_COLOR": "1"}).raw
    assert "\x1b[31m" in on_terminal(evalwright, "show", "latest", env={"NO_COLOR": ""}).raw


def test_quiet_is_quiet_on_a_terminal(evalwright: Evalwright) -> None:
    suite = evalwright.suite(a_suite(tasks=2))
    agent = subject("answers.py:yes")
    ran = on_terminal(evalwright, "run", suite, "--agent", agent, "--quiet")
    assert (ran.code, ran.raw) == (0, "")


def assert_not_steered(raw: str) -> None:
    """Nothing of the agent's reached the terminal as it was."""
    assert [text for text in FORBIDDEN if text in raw] == []


def test_what_agents_answer_never_steers_the_terminal(evalwright: Evalwright) -> None:
    tasks = [a_task("task-1", input=f"ask {ESCAPES}", value=f"want {ESCAPES}"), a_task("task-2")]
    suite = evalwright.suite(a_suite(tasks))
    ran = on_terminal(evalwright, "run", suite, "--agent", subject("noisy.py:paint"))
    assert ran.code == 1
    assert "painted" in ran.left
    assert_not_steered(ran.raw)
    for arguments in (
        ["show", "latest"],
        ["show", "latest", "--events"],
        ["show", "latest", "--task", "task-1"],
        ["show", "latest", "--task", "task-2"],
        ["replay", "latest"],
        ["runs"],
    ):
        assert_not_steered(on_terminal(evalwright, *arguments).raw)
    evalwright("run", suite, "--agent", subject("answers.py:yes"))
    a, b = evalwright.run_ids()
    differs = on_terminal(evalwright, "diff", a, b)
    assert "changed" in differs.raw
    assert_not_steered(differs.raw)


@pytest.mark.parametrize("kind", ["python", "command"])
def test_what_agents_fail_with_never_steers_the_terminal(evalwright: Evalwright, kind: str) -> None:
    """The message of a run without a result quotes the agent."""
    suite = evalwright.suite(a_suite(tasks=1))
    script = f"import sys; sys.path.insert(0, '{SUBJECTS}'); import noisy; noisy.paint_and_fail(0)"
    agents = {
        "python": subject("noisy.py:paint_and_fail"),
        "command": f'cmd:{sys.executable} -c "{script}"',
    }
    ran = on_terminal(evalwright, "run", suite, "--agent", agents[kind])
    assert ran.code == 3
    assert "failed" in ran.left
    assert_not_steered(ran.raw)
    shown = on_terminal(evalwright, "show", "latest")
    assert shown.code == 3
    assert_not_steered(shown.raw)


def test_what_a_suite_says_never_steers_the_terminal(evalwright: Evalwright) -> None:
    document = {"suiteId": f"x{ESCAPES}", "version": ESCAPES, f"key{ESCAPES}": 1, "tasks": []}
    suite = evalwright.suite(document)
    (evalwright.folder / "bad.yaml").write_text(f'"{ESCAPES!r}": [', encoding="utf-8")
    for arguments in (["validate", suite], ["validate", "bad.yaml"]):
        checked = on_terminal(evalwright, *arguments)
        assert checked.code == 2
        assert_not_steered(checked.raw)


def test_a_terminal_that_cannot_draw_gets_no_drawing(evalwright: Evalwright) -> None:
    suite = evalwright.suite(a_suite(tasks=2))
    agent = subject("answers.py:no")
    ran = on_terminal(evalwright, "run", suite, "--agent", agent, env={"TERM": "dumb"})
    assert ran.code == 1
    assert "\x1b" not in ran.raw

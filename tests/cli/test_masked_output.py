"""A secret that an agent leaks is shown nowhere: not on a console, not in the logs of a build."""

import io
import string
import sys
from pathlib import Path
from zlib import crc32

import pytest

import evalwright as ew
from builders import a_suite_document, a_task
from evalwright.cli import app, output
from subjects.command import Evalwright, Finished

DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase
EMAIL = "jane.doe@acme-shop.example"


def a_token() -> str:
    """A GitHub token of nobody with its checksum, put together so that no scanner sees it."""
    payload, checksum = "k3Jx9QmT2vLp7RwZ4bNc8YdF1sHg5A", ""
    number = crc32(payload.encode())
    while number:
        number, rest = divmod(number, 62)
        checksum = DIGITS[rest] + checksum
    return "gh" + "p_" + payload + checksum.rjust(6, "0")


TOKEN = a_token()
AGENT = f"""
def leak(task):
    if task.input.startswith("fail"):
        raise ValueError("cannot log in with {TOKEN}")
    if task.input.startswith("late"):  # the end of what is shown falls within the token
        return "x" * 140 + " {TOKEN}"
    if task.input.startswith("nested"):
        return {{"headers": {{"authorization": "Bearer {TOKEN}"}}}}
    return "ask {EMAIL}, the token is {TOKEN}, and more: " + "x" * 200

def other(task):
    return "take {TOKEN}"
"""
LOADING = f"raise RuntimeError('no login with {TOKEN}')\n"
LEAKS = ("plain", "late", "nested", "fail")


@pytest.fixture
def leaky(evalwright: Evalwright) -> Evalwright:
    tasks = [a_task(each, input=f"{each} {TOKEN}", value=f"never {TOKEN}") for each in LEAKS]
    evalwright.suite(a_suite_document(tasks))
    (evalwright.folder / "agents.py").write_text(AGENT)
    (evalwright.folder / "loading.py").write_text(LOADING)
    return evalwright


def run(leaky: Evalwright, *more: str, agent: str = "leak") -> Finished:
    return leaky("run", "suite.json", "--agent", f"agents.py:{agent}", *more)


def test_a_leaked_secret_is_masked_wherever_a_run_is_shown(leaky: Evalwright) -> None:
    done = run(leaky, "--junit", "report.xml", "--out", "out", "--json")
    assert done.code == 1
    shown = [done] + [
        leaky(*command)
        for command in (
            ("show", "latest"),
            ("show", "latest", "--task", "plain"),
            ("show", "latest", "--events"),
            ("show", "latest", "--events", "--json"),
            ("replay", "latest"),
        )
    ]
    written = [(leaky.folder / name).read_text() for name in ("report.xml", "out/scorecard.txt")]
    for text in (*(part for done in shown for part in done[1:]), *written):
        assert TOKEN not in text
        assert TOKEN[:12] not in text
    assert all("[masked:" in text for text in written)
    assert EMAIL in shown[1].out  # personal data of a suite stays readable


def test_show_secrets_shows_them(leaky: Evalwright) -> None:
    assert TOKEN in run(leaky, "--show-secrets", "--junit", "report.xml").out
    assert TOKEN in (leaky.folder / "report.xml").read_text()
    for command in (["show", "latest"], ["show", "latest", "--events", "--json"]):
        assert TOKEN in leaky(*command, "--show-secrets").out


def test_a_difference_and_the_errors_of_an_agent_are_masked(leaky: Evalwright) -> None:
    run(leaky, "--quiet")
    run(leaky, "--quiet", agent="other")
    first, second = reversed(leaky.run_ids())
    for more in ([], ["--json"]):
        done = leaky("diff", first, second, *more)
        assert "[masked:" in done.out
        assert TOKEN not in done.out
    assert TOKEN in leaky("diff", first, second, "--show-secrets", "--json").out
    done = leaky("run", "suite.json", "--agent", "loading.py:answer")
    assert done.code == 3
    assert "no login with [masked:" in done.err
    assert TOKEN not in done.err


def test_the_report_of_a_run_in_python_is_masked(tmp_path: Path) -> None:
    document = a_suite_document([a_task("task-1")])
    run = ew.run(document, lambda task: f"take {TOKEN}", db=tmp_path / "log.db")
    assert not run.passed
    assert "[masked:" in run.report()
    assert TOKEN not in run.report()
    assert TOKEN in run.tasks["task-1"].output


def test_what_is_quoted_of_an_invalid_file_is_masked(leaky: Evalwright) -> None:
    document = a_suite_document([a_task("task-1")])
    leaky.suite({**document, "modes": [TOKEN], TOKEN: "unknown"})
    for command in (["validate", "suite.json"], ["run", "suite.json", "--agent", "agents.py:leak"]):
        done = leaky(*command)
        assert done.code == 2
        assert "[masked:" in done.err
        assert TOKEN not in done.err


def test_the_traceback_of_a_bug_is_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_name: str) -> None:
        raise RuntimeError(f"no login with {TOKEN}")

    said = io.StringIO()
    monkeypatch.setattr(app, "import_module", fail)
    monkeypatch.setattr(app, "prepare_streams", lambda: None)
    monkeypatch.setattr(output.Streams, "err", said)
    monkeypatch.setattr(sys, "argv", ["evalwright", "runs"])
    assert app.run_app() == 3
    assert "RuntimeError: no login with [masked:" in said.getvalue()
    assert TOKEN not in said.getvalue()


def test_what_judges_quote_of_a_prompt_is_masked(leaky: Evalwright) -> None:
    (leaky.folder / "prompt.md").write_text(f"# Greet\n\nUse {TOKEN} to greet.\n")
    (leaky.folder / "judge.json").write_text(f'[{{"reply": "remove {TOKEN}"}}]')
    summary = leaky.folder / "summary.md"
    done = leaky(
        *("prompts", "prompt.md", "-t", "1", "-m", "scripted:judge.json"),
        env={"GITHUB_STEP_SUMMARY": str(summary)},
    )
    for text in (done.out, done.err, summary.read_text()):
        assert TOKEN not in text
        assert TOKEN[:12] not in text

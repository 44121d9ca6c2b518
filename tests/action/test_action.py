"""The GitHub action: its steps, run for real beside a loopback API."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from action.workflow import BOT, ROOT, GitHub, Workflow
from subjects.endpoint import serving

SUITE = """\
evalwright: 1
name: desk
agent: agent.py:answer
tasks:
  - id: greeting
    input: { question: "hi" }
    checks: [ { contains: hello } ]
  - id: order
    input: { question: "where?" }
    checks: [ { contains: shipped } ]
"""
GOOD = "def answer(question):\n    return 'hello, it is shipped'\n"
HOSTILE = "@everyone <img src=x> sk-proj-" + "Ab3dE5gH7jK9mN1pQ3sT5vX7zA9cE1gI3kM5oQ7s"
BAD = f"def answer(question):\n    return 'hello {HOSTILE}'\n"


@pytest.fixture
def github() -> GitHub:
    return GitHub()


@pytest.fixture
def workflow(github: GitHub, tmp_path: Path) -> Iterator[Workflow]:
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "desk.evals.yaml").write_text(SUITE)
    (folder / "agent.py").write_text(GOOD)
    with serving(github.respond) as endpoint:
        github.url = endpoint.url.removesuffix("/agent")
        yield Workflow(folder, github.url)


def test_a_pull_request_is_compared_with_its_target_in_one_comment(
    workflow: Workflow, github: GitHub
) -> None:
    pushed = workflow.push(suites="desk.evals.yaml")
    assert pushed.code == 0, pushed.log
    assert (pushed.outputs["passed"], pushed.outputs["score"]) == ("true", "1")
    assert github.comments == []
    github.keep(Path(pushed.outputs["baseline"]).read_bytes())
    github.say("somebody", "looks good")

    (workflow.folder / "agent.py").write_text(BAD)
    worse = workflow.pull_request(suites="desk.evals.yaml")
    assert worse.code == 1, worse.log
    assert worse.outputs["passed"] == "false"
    assert (worse.outputs["score"], worse.outputs["regressions"]) == ("0.5", "1"), worse.log
    assert worse.used[-2:] == ["actions/upload-artifact", "github/codeql-action/upload-sarif"]
    assert (Path(worse.outputs["report"]) / "compare-1" / "report.html").is_file()
    assert "::error file=desk.evals.yaml,line=8,title=order failed" in worse.log
    (_, comment) = github.comments
    marker, verdict, *rest = comment["body"].splitlines()
    assert marker == "<!-- evalwright:ci/evals -->"
    assert verdict.startswith("### ■ Do not ship: 1 of 2 tasks passed")
    text = "\n".join(rest)
    assert "| ■ Pass rate: not met | 50.0% | 100.0% | every task must pass |" in text
    link = "https://github.example/acme/shop/blob/abc123/desk.evals.yaml#L8"
    assert f"**Start here:** [where?]({link}) `order`: contains" in text
    assert "sk-proj-Ab3" not in comment["body"] + worse.log
    assert github.seen_tokens == {None}, "the token stays with the API"
    kept = [file for file in Path(worse.outputs["report"]).rglob("*") if file.is_file()]
    assert not [file for file in kept if b"sk-proj-Ab3" in file.read_bytes()]

    (workflow.folder / "agent.py").write_text(GOOD)
    mended = workflow.pull_request(suites="desk.evals.yaml")
    assert mended.code == 0, mended.log
    assert [each["user"]["login"] for each in github.comments] == ["somebody", BOT]
    assert github.comments[1]["body"].count("\n\n") == 1, "a verdict and a line"
    assert "### ● May ship" in mended.summary


def test_without_a_baseline_or_with_a_new_suite_the_job_goes_on(
    workflow: Workflow, github: GitHub
) -> None:
    github.keep(b"poison", from_fork=True)
    github.keep(b"elsewhere", "release")
    first = workflow.pull_request(suites="desk.evals.yaml", fail="false")
    assert first.code == 0, first.log
    assert "No baseline of main yet" in first.log
    pushed = workflow.push(suites="desk.evals.yaml")
    committed = workflow.folder / "baseline.jsonl"
    committed.write_bytes(Path(pushed.outputs["baseline"]).read_bytes())
    (workflow.folder / "new.evals.yaml").write_text(SUITE.replace("name: desk", "name: new"))
    both = workflow.pull_request(
        suites="desk.evals.yaml new.evals.yaml", baseline_file="baseline.jsonl"
    )
    assert both.code == 0, both.log
    assert "there is no baseline main of new yet" in both.log
    assert both.summary.count("### ● May ship") == 2


def test_a_comment_that_may_not_be_written_loses_nothing(
    workflow: Workflow, github: GitHub
) -> None:
    github.may_write = False
    (workflow.folder / "agent.py").write_text(BAD)
    done = workflow.pull_request(head="stranger/shop", suites="desk.evals.yaml", fail="false")
    assert done.code == 0, done.log
    assert "::notice title=Evalwright::No comment was written (from forks" in done.log
    assert "the job goes on" in done.log
    assert done.outputs["passed"] == "false"


@pytest.mark.parametrize("event", ["pull_request_target", "workflow_run"])
def test_code_of_a_fork_never_runs_beside_secrets(workflow: Workflow, event: str) -> None:
    done = workflow.pull_request(head="stranger/shop", event=event, suites="desk.evals.yaml")
    assert done.code == 2
    assert "hand them the secrets" in done.log
    assert done.outputs["report"] == ""


def test_prompts_alone_are_linted_and_nothing_at_all_is_an_error(workflow: Workflow) -> None:
    (workflow.folder / "prompts").mkdir()
    (workflow.folder / "prompts" / "x.md").write_text("Do it.\n")
    linted = workflow.push(prompts="prompts")
    assert linted.code == 1
    assert linted.outputs["score"] == ""
    assert "# Prompts" in linted.summary
    assert workflow.push().code == 2


def test_what_could_not_be_evaluated_fails_whatever_was_asked_and_says_so(
    workflow: Workflow, github: GitHub
) -> None:
    gone = workflow.pull_request(suites="gone.evals.yaml", fail="false")
    assert gone.code == 2, gone.log
    assert "### ▲ Could not be evaluated: exit code 2" in github.comments[0]["body"]
    no_tool = workflow.pull_request(suites="desk.evals.yaml", command="false", fail="false")
    assert no_tool.code == 3, no_tool.log
    assert no_tool.outputs["passed"] == "false"
    assert len(github.comments) == 1


def test_without_a_command_the_action_installs_itself_and_nothing_by_name(
    workflow: Workflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uv = shutil.which("uv") or str(ROOT / ".uv" / "bin" / "uv")
    if not Path(uv).is_file():
        pytest.skip("uv is not installed")
    monkeypatch.setenv("PATH", str(Path(uv).parent), prepend=os.pathsep)
    workflow.env["UV_PROJECT_ENVIRONMENT"] = str(tmp_path / "environment")
    workflow.env["UV_CACHE_DIR"] = subprocess.check_output([uv, "cache", "dir"], text=True).strip()
    workflow.env["UV_OFFLINE"] = "1"  # what the lock file names is in the cache since `make setup`
    done = workflow.push(suites="desk.evals.yaml", command="")
    assert (done.code, done.outputs["passed"]) == (0, "true"), done.log
    assert (tmp_path / "environment" / "bin" / "evalwright").is_file()

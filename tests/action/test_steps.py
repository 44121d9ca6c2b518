"""The steps of the action on bad days: broken archives, odd events, strange comments."""

import io
import json
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from action.workflow import ACTION, ROOT

Ask = Callable[..., Any]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import pull_request

    for name, value in {
        "EVALS_WORK": str(tmp_path),
        "EVALS_ARTIFACT": "evalwright-baseline",
        "EVALS_REPORT": str(tmp_path),
        "EVALS_TOKEN": "job-token",
        "EVALS_BASELINE_FILE": "",
        "GITHUB_BASE_REF": "main",
        "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
        "GITHUB_JOB": "evals",
        "GITHUB_REPOSITORY": "acme/shop",
        "GITHUB_WORKFLOW": "ci",
        "RUNNER_TEMP": str(tmp_path),
    }.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "event.json").write_text('{"number": 7}')
    (tmp_path / "summary.md").write_text("## Failed")
    return pull_request


def zipped(content: bytes, name: str = "baseline.jsonl") -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return packed.getvalue()


def broken(packed: bytes) -> bytes:
    middle = len(packed) // 3
    return (
        packed[:middle]
        + bytes(byte ^ 255 for byte in packed[middle : middle + 9])
        + packed[middle + 9 :]
    )


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"<html>busy</html>",
        zipped(b"x", "other.jsonl"),
        zipped(b"x" * 5000),
        broken(zipped(bytes(range(256)) * 9)),
    ],
    ids=["empty", "no archive", "another file", "bomb", "damaged"],
)
def test_an_archive_that_cannot_be_read_is_a_warning_and_no_baseline(
    steps: ModuleType,
    packed: bytes,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(steps, "MOST_ARTIFACT", 4096)
    monkeypatch.setattr(steps, "find_artifact", lambda *_: packed)
    assert steps.fetch() == 0
    assert capsys.readouterr().out.startswith("::warning title=Evalwright::The baseline could not")
    assert steps.baseline_file() is None


@pytest.mark.parametrize(
    "answer", [TimeoutError("timed out"), {"message": "gone"}, [], None, {"artifacts": [None]}]
)
def test_an_odd_answer_of_the_api_is_a_warning(
    steps: ModuleType,
    answer: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def api(*_: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(sys.modules["github_api"], "api", api)
    assert steps.fetch() == 0
    assert (
        "::warning title=Evalwright::The baseline could not be fetched" in capsys.readouterr().out
    )


def test_the_newest_artifact_of_the_own_branch_is_found_behind_many_others(
    steps: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def artifact(number: int, branch: str, head: int = 1, **more: Any) -> dict[str, Any]:
        run = {"head_branch": branch, "repository_id": 1, "head_repository_id": head}
        place = {"created_at": f"2026-01-{number:02}", "archive_download_url": f"zip-{number}"}
        return {"expired": False, "workflow_run": run, **place, **more}

    others = [artifact(9, "topic"), artifact(9, "main", head=2)] * 50
    found = [
        {**artifact(8, "main"), "workflow_run": None},
        artifact(7, "main", expired=True),
        artifact(6, "main"),
        artifact(5, "main"),
    ]
    pages = {"1": others, "2": found}
    module = sys.modules["github_api"]
    monkeypatch.setattr(
        module, "api", lambda _, path: {"artifacts": pages[path.rpartition("=")[2]]}
    )
    monkeypatch.setattr(module, "download", str.encode)
    assert module.find_artifact("evalwright-baseline", "main") == b"zip-6"  # type: ignore[attr-defined]


OWN, MARKER = {"login": "github-actions[bot]", "type": "Bot"}, "<!-- evalwright:ci/evals -->"


@pytest.mark.parametrize(
    ("comment", "login", "method"),
    [
        ({"user": OWN, "body": MARKER}, None, "PATCH"),
        ({"user": {"login": "shop-app[bot]", "type": "Bot"}, "body": MARKER}, None, "PATCH"),
        ({"user": {"login": "ann", "type": "User"}, "body": MARKER}, "ann", "PATCH"),
        ({"user": {"login": "eve", "type": "User"}, "body": MARKER}, None, "POST"),
        ({"user": {"login": "eve", "type": "User"}, "body": MARKER}, "ann", "POST"),
        ({"user": OWN, "body": f"> {MARKER}"}, None, "POST"),
        ({"user": None, "body": MARKER}, None, "POST"),
        ({"user": OWN, "body": None}, None, "POST"),
    ],
)
def test_only_a_comment_of_the_own_account_is_updated(
    steps: ModuleType,
    comment: dict[str, Any],
    login: str | None,
    method: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []
    monkeypatch.setattr(steps, "own_login", lambda: login)
    monkeypatch.setattr(steps, "comments_of", lambda _: iter([{**comment, "id": 3}]))
    monkeypatch.setattr(steps, "api", lambda *args: asked.append(args[:2]))
    assert steps.comment() == 0
    path = {"PATCH": "comments/3", "POST": "7/comments"}[method]
    assert asked == [(method, f"/repos/acme/shop/issues/{path}")]


@pytest.mark.parametrize("error", [ValueError("not JSON"), TypeError("no list"), TimeoutError()])
def test_a_comment_that_fails_never_fails_the_job(
    steps: ModuleType,
    error: Exception,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(steps, "comments_of", fail)
    assert steps.comment() == 0
    assert "No comment was written" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["line of text\n" * 9000, "x" * 100_000, "é" * 70_000])
def test_a_long_summary_is_cut_to_what_a_comment_holds(
    steps: ModuleType, tmp_path: Path, text: str
) -> None:
    (tmp_path / "summary.md").write_text(text, "utf-8")
    body = steps.comment_text(MARKER, tmp_path / "summary.md")
    assert 59_000 < len(body) < 65_536
    assert "… the rest is in the report.\n\n[Report and log](" in body


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"pull_request": None},
        {"repository": {"full_name": "acme/shop"}, "pull_request": {"head": {"repo": None}}},
        {"repository": {"full_name": "acme/shop"}, "workflow_run": {"head_repository": None}},
        {"repository": {"full_name": "acme/shop"}, "issue": {"number": 7}},
        {"pull_request": {"head": {"repo": {}}}},
    ],
)
def test_code_whose_origin_is_not_known_counts_as_a_forks(
    steps: ModuleType, event: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "event.json").write_text(json.dumps(event))
    monkeypatch.setenv("GITHUB_EVENT_NAME", "pull_request_target")
    assert steps.guard() == 2


@pytest.mark.parametrize(
    ("code", "report", "honest"),
    [(0, "x", 0), (1, "x", 1), (1, "", 3), (2, "", 2), (-9, "x", 3), (-9, "", 3)],
)
def test_what_was_killed_or_never_began_is_an_error_and_no_failed_bar(
    steps: ModuleType, code: int, report: str, honest: int
) -> None:
    assert steps.honest(code, evaluated=bool(report)) == honest


@pytest.mark.parametrize(
    ("name", "leg", "suffix"),
    [
        ("", "0", ""),
        ("", "", ""),
        ("", "2", "-2"),
        ("my name/x", "0", "-my-name-x"),
        ("a", "1", "-a-1"),
    ],
)
def test_uses_of_the_action_are_told_apart(
    steps: ModuleType, name: str, leg: str, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVALS_NAME", name)
    monkeypatch.setenv("EVALS_LEG", leg)
    assert steps.artifact_name() == f"evalwright-baseline{suffix}"


def test_findings_of_two_suites_are_of_two_categories(steps: ModuleType, tmp_path: Path) -> None:
    categories = set()
    for suite in ("local.evals.a", "local.evals.b"):
        file = tmp_path / f"{suite}.sarif"
        file.write_text('{"runs": [{"automationDetails": {"id": "same/"}, "results": []}]}')
        steps.set_category(file, suite)
        categories.add(json.loads(file.read_text())["runs"][0]["automationDetails"]["id"])
    assert categories == {"evalwright/local.evals.a/", "evalwright/local.evals.b/"}


@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        ({"SUITES": "it's.yaml"}, "suites: No closing quotation; quotes come in pairs"),
        ({"SUITES": "a.yaml", "ARGS": '"x'}, "args: No closing quotation"),
        ({"SUITES": "a.yaml", "COMMAND": "no-such-program run"}, "no program 'no-such-program'"),
        ({"SUITES": "a.yaml", "COMMAND": "nowhere x"}, "command: there is no program 'nowhere'"),
        ({"SUITES": " "}, "Nothing to evaluate"),
    ],
)
def test_inputs_that_cannot_be_used_are_named(
    steps: ModuleType,
    inputs: dict[str, str],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in {"COMMAND": "python3", **inputs}.items():
        monkeypatch.setenv(f"EVALS_{name}", value)
    assert steps.evaluate() == 2
    assert told in capsys.readouterr().out


def test_a_queue_of_pull_requests_has_a_target_too(
    steps: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITHUB_BASE_REF")
    (tmp_path / "event.json").write_text('{"merge_group": {"base_ref": "refs/heads/main"}}')
    assert steps.target_branch() == "main"


def test_the_token_is_in_no_step_that_runs_agents() -> None:
    (evaluating,) = (step for step in ACTION["runs"]["steps"] if step.get("id") == "evaluate")
    assert "token" not in str(evaluating)

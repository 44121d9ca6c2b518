"""Where a run was started is read from the variables of CI, or from the repository around it."""

import subprocess
import zlib
from contextlib import closing
from pathlib import Path

import pytest

import evalwright as ew
from evalwright.contracts.events import RunStarted
from evalwright.engine.history import read_history
from evalwright.engine.provenance import Provenance, provenance, recorded_provenance
from evalwright.store.sqlite.log import SqliteLog

COMMIT = "4f2c1a90b7d3e8f1a2b3c4d5e6f708192a3b4c5d"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        pytest.param(
            {
                "GITHUB_ACTIONS": "true",
                "GITHUB_HEAD_REF": "refund-tool-v2",
                "GITHUB_REF_NAME": "12/merge",
                "GITHUB_SHA": COMMIT,
                "GITHUB_REPOSITORY": "acme/shop",
                "GITHUB_RUN_ID": "4122",
                "GITHUB_ACTOR": "mara",
            },
            Provenance(
                "refund-tool-v2", COMMIT, "https://github.com/acme/shop/actions/runs/4122", "mara"
            ),
            id="github",
        ),
        pytest.param(
            {
                "GITLAB_CI": "true",
                "CI_COMMIT_REF_NAME": "main",
                "CI_COMMIT_SHA": COMMIT,
                "CI_JOB_URL": "https://git.example/jobs/7",
                "CI_COMMIT_TITLE": "Give it a refund tool",
            },
            Provenance("main", COMMIT, "https://git.example/jobs/7", title="Give it a refund tool"),
            id="gitlab",
        ),
        pytest.param(
            {"BUILDKITE": "true", "BUILDKITE_MESSAGE": "\nShorter greeting\n\nIt was long."},
            Provenance(title="Shorter greeting"),
            id="the first line of a message",
        ),
        pytest.param(
            {"JENKINS_URL": "x", "GIT_BRANCH": "origin/main", "BUILD_URL": "javascript:alert(1)"},
            Provenance("main"),
            id="a link that is no web address is left out",
        ),
    ],
)
def test_ci_says_where_its_job_comes_from(environment, expected, tmp_path):
    assert provenance(environment, tmp_path) == expected


def git(*arguments: str, at: Path) -> str:
    names = ("-c", "user.name=A", "-c", "user.email=a@example.com")
    done = subprocess.run(
        ["git", *names, *arguments], cwd=at, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path):
    git("init", "-q", "-b", "main", at=tmp_path)
    git("commit", "-q", "--allow-empty", "-m", "Begin", at=tmp_path)
    return tmp_path


@pytest.mark.parametrize("packed", [False, True])
def test_elsewhere_it_is_what_the_repository_has_checked_out(repository, packed):
    if packed:
        git("pack-refs", "--all", at=repository)
    (repository / "evals").mkdir()
    commit = git("rev-parse", "HEAD", at=repository)
    assert provenance({}, repository / "evals") == Provenance("main", commit, title="Begin")


def test_a_worktree_has_a_branch_of_its_own(repository):
    git("worktree", "add", "-q", "-b", "try", str(repository / "other"), at=repository)
    assert provenance({}, repository / "other").branch == "try"


def test_a_commit_without_a_branch_is_told_alone(repository):
    commit = git("rev-parse", "HEAD", at=repository)
    git("checkout", "-q", "--detach", at=repository)
    assert provenance({}, repository) == Provenance(commit=commit, title="Begin")


@pytest.mark.parametrize("content", [b"", b"no zlib", zlib.compress(b"commit 3\0\n\n\xff\xfe")])
def test_a_commit_that_cannot_be_read_has_no_title(repository, content):
    commit = git("rev-parse", "HEAD", at=repository)
    packed = repository / ".git" / "objects" / commit[:2] / commit[2:]
    packed.chmod(0o600)
    packed.write_bytes(content)
    assert provenance({}, repository) == Provenance("main", commit)


def test_outside_a_repository_nothing_is_known(tmp_path):
    assert provenance({}, tmp_path) == Provenance()


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"gitdir: nowhere"])
def test_a_damaged_repository_tells_nothing(tmp_path, content):
    (tmp_path / ".git").write_bytes(content)
    assert provenance({}, tmp_path) == Provenance()


def test_a_run_of_the_command_line_records_where_it_was_started(tmp_path, monkeypatch):
    monkeypatch.setenv("GITLAB_CI", "true")
    monkeypatch.setenv("CI_COMMIT_REF_NAME", "refund-tool-v2")
    monkeypatch.setenv("CI_COMMIT_SHA", COMMIT)
    run = ew.run(
        [ew.Task("one", input="Hi", checks=[ew.contains("Hi")])],
        lambda question: question,
        db=tmp_path / "runs.db",
        title="Try it anew",
    )
    with closing(SqliteLog(tmp_path / "runs.db")) as log:
        started = log.edges(run.id)[0].decode(RunStarted)
        plan = read_history(log, run.id).plan
    told = {"branch": "refund-tool-v2", "commit": COMMIT, "title": "Try it anew"}
    assert started.metadata == {"provenance": told}
    assert plan.provenance == Provenance(**told), "a resumed run keeps it"


def test_what_is_no_provenance_in_a_log_is_passed_over():
    assert recorded_provenance({"provenance": {"branch": 7}}) is None
    assert recorded_provenance(None) is None

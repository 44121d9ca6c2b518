"""Where a run was started: branch and commit with its subject, and the CI job or the repository.

Only environment variables and files of `.git` are read; no program is started.
"""

import re
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

MOST = 300  # characters of a value
_MOST_READ = 64 * 1024  # bytes of a commit, for its title
_COMMIT = re.compile(r"[0-9a-f]{7,64}")

# By CI system, the variables of branch, commit, link and who started the job: of several, the first
# that is set counts; the first line of a message is a title. Links of GitHub are made of several.
_SYSTEMS = {
    "GITHUB_ACTIONS": ("GITHUB_HEAD_REF GITHUB_REF_NAME", "GITHUB_SHA", "", "GITHUB_ACTOR", ""),
    "GITLAB_CI": (
        *("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME CI_COMMIT_REF_NAME", "CI_COMMIT_SHA"),
        *("CI_JOB_URL", "GITLAB_USER_LOGIN", "CI_COMMIT_TITLE"),
    ),
    "BUILDKITE": (
        *("BUILDKITE_BRANCH", "BUILDKITE_COMMIT", "BUILDKITE_BUILD_URL"),
        *("BUILDKITE_BUILD_CREATOR", "BUILDKITE_MESSAGE"),
    ),
    "CIRCLECI": ("CIRCLE_BRANCH", "CIRCLE_SHA1", "CIRCLE_BUILD_URL", "CIRCLE_USERNAME", ""),
    "BITBUCKET_BUILD_NUMBER": ("BITBUCKET_BRANCH", "BITBUCKET_COMMIT", "", "", ""),
    "TF_BUILD": (
        *("SYSTEM_PULLREQUEST_SOURCEBRANCH BUILD_SOURCEBRANCHNAME", "BUILD_SOURCEVERSION"),
        *("", "BUILD_REQUESTEDFOR", "BUILD_SOURCEVERSIONMESSAGE"),
    ),
    "JENKINS_URL": (
        *("CHANGE_BRANCH BRANCH_NAME GIT_BRANCH", "GIT_COMMIT", "BUILD_URL"),
        *("", "CHANGE_TITLE"),
    ),
}


class Provenance(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a run comes from, as far as it is known."""

    branch: str | None = None
    commit: str | None = None
    link: str | None = None  # to the job of CI
    by: str | None = None
    title: str | None = None  # what was tried: as whoever started it says, else as the commit does


def provenance(environment: Mapping[str, str], folder: Path) -> Provenance:
    """What CI says of its job; elsewhere, the branch and commit of the repository of a folder."""
    for mark, variables in _SYSTEMS.items():
        if not environment.get(mark):
            continue
        told = {
            field: next(filter(None, map(environment.get, names.split())), None)
            for field, names in zip(Provenance.__struct_fields__, variables, strict=True)
        }
        if mark == "GITHUB_ACTIONS" and environment.get("GITHUB_RUN_ID"):
            server = environment.get("GITHUB_SERVER_URL", "https://github.com")
            repository = environment.get("GITHUB_REPOSITORY", "")
            told["link"] = f"{server}/{repository}/actions/runs/{environment['GITHUB_RUN_ID']}"
        if told["branch"]:
            told["branch"] = str(told["branch"]).removeprefix("refs/heads/").removeprefix("origin/")
        if told["title"]:
            told["title"] = told["title"].strip().partition("\n")[0]
        if not str(told["link"] or "").startswith(("https://", "http://")):
            told["link"] = None
        return Provenance(**{field: value[:MOST] for field, value in told.items() if value})
    return _repository_state(folder)


def _repository_state(folder: Path) -> Provenance:
    """The branch and the commit that are checked out around a folder."""
    try:
        git = next(
            (at / ".git" for at in (folder, *folder.parents) if (at / ".git").exists()), None
        )
        if git is None:
            return Provenance()
        shared = git
        if git.is_file():  # of a worktree or a submodule, the folder is elsewhere
            named = git.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
            shared = git = (git.parent / named).resolve()
            if (git / "commondir").is_file():
                shared = (git / (git / "commondir").read_text(encoding="utf-8").strip()).resolve()
        head = (git / "HEAD").read_text(encoding="utf-8").strip()
        if not head.startswith("ref: "):
            return _of_commit(shared, head)
        reference = head.removeprefix("ref: ")
        branch = reference.removeprefix("refs/heads/")[:MOST]
        loose = shared / reference
        if loose.is_file():
            commit = loose.read_text(encoding="utf-8").strip()
        else:
            packed = (shared / "packed-refs").read_text(encoding="utf-8").splitlines()
            ends = f" {reference}"
            commit = next((line.partition(" ")[0] for line in packed if line.endswith(ends)), "")
        return _of_commit(shared, commit, branch)
    except (OSError, UnicodeError):
        return Provenance()


def _of_commit(git: Path, commit: str, branch: str | None = None) -> Provenance:
    """A commit with the first line of its message, unless that is packed, as old ones are."""
    if not _COMMIT.fullmatch(commit):
        return Provenance(branch)
    title = ""
    with suppress(OSError, UnicodeError, zlib.error):
        packed = (git / "objects" / commit[:2] / commit[2:]).read_bytes()
        _, _, message = zlib.decompressobj().decompress(packed, _MOST_READ).partition(b"\n\n")
        title = message.decode().strip().partition("\n")[0][:MOST]
    return Provenance(branch, commit, title=title or None)


def recorded_provenance(metadata: Mapping[str, Any] | None) -> Provenance | None:
    """Where a run was started, as its first event says; None where that says nothing."""
    with suppress(msgspec.ValidationError):
        return msgspec.convert((metadata or {}).get("provenance"), Provenance | None)
    return None

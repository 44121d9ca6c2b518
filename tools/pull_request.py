"""The steps of the GitHub action: guard, fetch, evaluate, comment, by the standard library alone.

All it needs is in the environment: what GitHub sets in a job, and the inputs of the action as
EVALS_… variables. Nothing that a pull request wrote becomes a part of a shell command.
"""

import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
import zipfile
import zlib
from collections.abc import Callable, Sequence
from http.client import HTTPException
from pathlib import Path

from github_api import (
    MOST_ARTIFACT,
    Document,
    api,
    comments_of,
    find_artifact,
    own_login,
    repository,
)

BASELINE = "baseline.jsonl"
MOST_COMMENT = 60_000  # characters; GitHub takes 65,536
MOST_SUMMARY = 1_000_000  # bytes; GitHub drops a summary of more than a mebibyte
JOB_LOGIN = "github-actions[bot]"
TRUSTED_EVENTS = ("pull_request_target", "workflow_run", "issue_comment")  # they have secrets
REFUSED = 2
BELOW_BAR = 1
CANNOT_EVALUATE = 3
# What a server, a network or a broken archive may cause; none of it is worth a failed job.
FAULTS = (
    *(OSError, HTTPException, ValueError, KeyError, TypeError, AttributeError),
    *(zipfile.BadZipFile, zlib.error, EOFError, RuntimeError),
)


def guard() -> int:
    """Stop where the code of a fork would run with the secrets of this repository."""
    event = read_event()
    if os.environ.get("GITHUB_EVENT_NAME") not in TRUSTED_EVENTS or not is_from_fork(event):
        work = tempfile.mkdtemp(prefix="evalwright-", dir=os.environ["RUNNER_TEMP"])
        append("GITHUB_OUTPUT", f"work={work}\n")
        return 0
    say(
        "error",
        "Evalwright runs agents of the pull request, and this event would hand them the secrets of "
        "this repository. Use `on: pull_request`, which gives none to forks.",
    )
    return REFUSED


def is_from_fork(event: Document) -> bool:
    """Whether what is evaluated comes from another repository; unknown counts as another."""
    own = (event.get("repository") or {}).get("full_name")
    head: Document = {}  # a comment does not tell where its pull request comes from
    if "pull_request" in event:
        head = ((event["pull_request"] or {}).get("head") or {}).get("repo") or {}
    elif "workflow_run" in event:
        head = (event["workflow_run"] or {}).get("head_repository") or {}
    return own is None or head.get("full_name") != own


def fetch() -> int:
    """Fetch the baseline of the target branch: the token is not there when agents run."""
    branch = target_branch()
    if branch is None:
        return 0
    try:
        packed = find_artifact(artifact_name(), branch)
        if packed is None:
            say("notice", f"No baseline of {branch} yet: it is kept when a push there passes.")
        else:
            unpack(packed, fetched_file())
    except FAULTS as error:
        say("warning", f"The baseline could not be fetched: {str(error) or type(error).__name__}")
    return 0


def unpack(packed: bytes, place: Path) -> None:
    """Take the baseline out of its archive."""
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        size = archive.getinfo(BASELINE).file_size
        if size > MOST_ARTIFACT:
            raise ValueError(f"it has {size:,} bytes, and at most {MOST_ARTIFACT:,} are read")
        whole = place.with_suffix(".part")
        with archive.open(BASELINE) as content, whole.open("wb") as file:
            shutil.copyfileobj(content, file)
    whole.replace(place)


def evaluate() -> int:
    """Run suites and prompts, and leave reports, outputs and the exit code of all of it."""
    try:
        suites, prompts, _ = map(words, ("SUITES", "PROMPTS", "ARGS"))
        command = called()
    except ValueError as error:
        say("error", str(error))
        return REFUSED
    if not suites and not prompts:
        say("error", "Nothing to evaluate: give `suites` or `prompts`.")
        return REFUSED
    if shutil.which(command[0]) is None:
        say("error", f"command: there is no program {command[0]!r}.")
        return REFUSED
    job = Job(Path(os.environ["EVALS_WORK"]))
    if suites:
        job.run_suites(suites)
    if prompts:
        job.lint(prompts)
    job.finish()
    return 0


class Job:
    """The commands of one job, and what they came to."""

    def __init__(self, work: Path) -> None:
        self._work = work
        self._report = work / "report"
        self._summary = work / "summary.md"
        self._sarif = work / "sarif"
        for folder in (self._report, self._sarif):
            folder.mkdir(exist_ok=True)
        os.environ.setdefault("EVALWRIGHT_DB", str(work / "evals.db"))
        self._codes: list[int] = []
        self._scores: list[float] = []
        self._regressions = 0
        self._baseline = ""

    def run_suites(self, suites: Sequence[str]) -> None:
        """Run the suites beside the baseline of the target branch, and compare in full."""
        name = os.environ["EVALS_BASELINE"]
        known = self._import_baseline()
        before = {row["runId"] for row in self._runs()}
        agent = os.environ["EVALS_AGENT"]
        forms = {"--html": "run.html", "--junit": "junit.xml"}
        places = [part for option, file in forms.items() for part in (option, self._report / file)]
        asked = ["--agent", agent] if agent else []
        asked += ["--baseline", name, "--allow-no-baseline"] if known else []
        done = self._call("run", *suites, "--github", *places, *asked, *words("ARGS"), shown=True)
        new = [row for row in self._runs() if row["runId"] not in before]
        self._codes.append(honest(done.returncode, evaluated=bool(new)))
        self._scores += [
            row["aggregateScore"] for row in new if row.get("aggregateScore") is not None
        ]
        for row in new:
            self._compare(row, known)
        if done.returncode == 0 and is_push_to_branch():
            self._keep_baseline(name, new)

    def lint(self, prompts: Sequence[str]) -> None:
        """Lint the prompts."""
        page, sarif = self._report / "prompts.html", self._sarif / "prompts.sarif"
        done = self._call("prompts", *prompts, "-o", page, "-o", sarif, shown=True)
        self._codes.append(honest(done.returncode, evaluated=page.exists()))

    def finish(self) -> None:
        """Hand the outputs and the summary over."""
        code = max(self._codes)
        summary = self._summary.read_text("utf-8") if self._summary.exists() else ""
        if code > BELOW_BAR:
            verdict = f"### ▲ Could not be evaluated: exit code {code}"
            summary = f"{verdict}\n\nThe log of the job says why.\n\n{summary}"
        (self._report / "summary.md").write_text(summary, "utf-8")
        append("GITHUB_STEP_SUMMARY", shortened(summary, MOST_SUMMARY // 4))
        score = sum(self._scores) / len(self._scores) if self._scores else None
        outputs = {
            "passed": str(code == 0).lower(),
            "score": "" if score is None else f"{score:.6g}",
            "regressions": str(self._regressions),
            "report": str(self._report),
            "report-artifact": f"evalwright-report-{os.environ['GITHUB_JOB']}{own_suffix()}",
            "sarif": str(self._sarif) if any(self._sarif.iterdir()) else "",
            "baseline": self._baseline,
            "baseline-artifact": artifact_name(),
            "code": str(code),
        }
        append("GITHUB_OUTPUT", "".join(f"{name}={value}\n" for name, value in outputs.items()))

    def _import_baseline(self) -> list[Document]:
        file = baseline_file()
        if file is None:
            return []
        done = self._call("baseline", "import", file)
        if done.returncode != 0:
            say("warning", f"The baseline could not be read: {done.stderr.strip()}")
            return []
        listed = self._call("baseline", "list", "--json")
        found: list[Document] = json.loads(listed.stdout or "[]")
        name = os.environ["EVALS_BASELINE"]
        named = [each for each in found if each["name"] == name]
        if not named:
            others = ", ".join(sorted({each["name"] for each in found})) or "none"
            say("warning", f"baseline: there is no {name}; the file has {others}.")
        return named

    def _compare(self, row: Document, known: Sequence[Document]) -> None:
        """Set a run beside the baseline of its suite, of its own agent if there are several."""
        same = [each for each in known if each["suiteId"] == row["suiteId"]]
        own = [each for each in same if each["agentId"] == row["agentId"]] or same
        if not own or row.get("aggregateScore") is None:
            return
        number = len(list(self._report.glob("compare-*"))) + 1
        out = self._report / f"compare-{number}"
        sides = ["--baseline", own[0]["runId"], "--new", row["runId"], "--out", out]
        sarif = self._sarif / f"compare-{number}.sarif"
        done = self._call(
            "compare", *sides, "--sarif", sarif, "--fail-on", "none", "--json", quiet=True
        )
        if done.returncode == 0:
            self._regressions += json.loads(done.stdout)["summary"]["regressions"]
            set_category(sarif, row["suiteId"])
        else:
            say("warning", f"The runs could not be compared: {done.stderr.strip()}")

    def _keep_baseline(self, name: str, new: Sequence[Document]) -> None:
        file = self._work / BASELINE
        for row in new:
            self._call("baseline", "set", name, row["runId"])
        if self._call("baseline", "export", file, name).returncode == 0:
            self._baseline = str(file)

    def _runs(self) -> list[Document]:
        done = self._call("runs", "--json")
        found: list[Document] = json.loads(done.stdout or "[]") if done.returncode == 0 else []
        return found

    def _call(
        self, *args: object, shown: bool = False, quiet: bool = False
    ) -> "subprocess.CompletedProcess[str]":
        command = [*called(), *map(str, args)]
        env = {**os.environ, "GITHUB_STEP_SUMMARY": "" if quiet else str(self._summary)}
        return subprocess.run(command, env=env, capture_output=not shown, text=True, check=False)


def honest(code: int, *, evaluated: bool) -> int:
    """An exit code of ours; what was killed, or ended with 1 before it began, evaluated nothing."""
    if code < 0 or (code == BELOW_BAR and not evaluated):
        say("error", f"Evalwright could not do its work (it ended with {code}).")
        return CANNOT_EVALUATE
    return code


def set_category(sarif: Path, suite_id: str) -> None:
    """Tell the findings of a suite from those of others: code scanning takes one of a category."""
    document = json.loads(sarif.read_bytes())
    for run in document["runs"]:
        run["automationDetails"] = {"id": f"evalwright/{suite_id}{own_suffix()}/"}
    sarif.write_text(json.dumps(document), "utf-8")


def baseline_file() -> Path | None:
    """The committed file, or the one that was fetched."""
    named = os.environ["EVALS_BASELINE_FILE"]
    place = Path(named) if named else fetched_file()
    if place.is_file():
        return place
    if named:
        say("warning", f"baseline-file: there is no file {named}; nothing is compared.")
    return None


def fetched_file() -> Path:
    """Where the baseline of the target branch is put."""
    return Path(os.environ["EVALS_WORK"]) / "fetched.jsonl"


def own_suffix() -> str:
    """What tells this use of the action from others: `name`, and the place in a matrix."""
    name = re.sub(r"[^\w.-]+", "-", os.environ.get("EVALS_NAME", ""))
    leg = os.environ.get("EVALS_LEG", "")
    return "".join(f"-{part}" for part in (name, leg) if part not in {"", "0"})


def artifact_name() -> str:
    """The artifact that keeps the baseline."""
    return os.environ["EVALS_ARTIFACT"] + own_suffix()


def comment() -> int:
    """Post the summary on the pull request, or update the comment that an earlier run made."""
    event = read_event()
    number = event.get("number") or event.get("pull_request", {}).get("number")
    if number is None:
        return 0
    workflow, job = (os.environ.get(name, "") for name in ("GITHUB_WORKFLOW", "GITHUB_JOB"))
    marker = f"<!-- evalwright:{urllib.parse.quote(f'{workflow}/{job}{own_suffix()}')} -->"
    body = comment_text(marker, Path(os.environ["EVALS_REPORT"]) / "summary.md")
    try:
        known = next(filter(is_own(marker), comments_of(number)), None)
        if known is None:
            api("POST", f"{repository()}/issues/{number}/comments", {"body": body})
        else:
            api("PATCH", f"{repository()}/issues/comments/{known['id']}", {"body": body})
    except FAULTS as error:
        fork = " (from forks the token may only read)" if is_from_fork(event) else ""
        say("notice", f"No comment was written{fork}: {str(error) or type(error).__name__}")
    return 0


def is_own(marker: str) -> Callable[[Document], bool]:
    """Whether a comment is ours: it begins with the marker, and nobody else wrote it."""

    def check(each: Document) -> bool:
        if not (each.get("body") or "").startswith(marker):
            return False
        author = each.get("user") or {}
        login = own_login()
        if login is None:
            return author.get("type") == "Bot" or author.get("login") == JOB_LOGIN
        return bool(author.get("login") == login)

    return check


def comment_text(marker: str, summary: Path) -> str:
    """The comment: the summary, and where the reports are."""
    text = shortened(summary.read_text("utf-8"), MOST_COMMENT).strip()
    server, run = os.environ.get("GITHUB_SERVER_URL", ""), os.environ.get("GITHUB_RUN_ID", "")
    link = f"{server}/{os.environ['GITHUB_REPOSITORY']}/actions/runs/{run}"
    is_short = text.startswith("### ●") and text.count("\n") == 2  # it may ship, in two lines
    gap = " " if is_short else "\n\n"
    return f"{marker}\n{text}{gap}[Report and log]({link})\n"


def shortened(text: str, most: int) -> str:
    """The whole lines of a text that is too long, and where the rest is."""
    if len(text) <= most:
        return text
    kept = text[:most]
    return f"{kept.rpartition(chr(10))[0] or kept}\n\n… the rest is in the report.\n"


def read_event() -> Document:
    """What happened, as GitHub tells it."""
    place = os.environ.get("GITHUB_EVENT_PATH")
    event: Document = json.loads(Path(place).read_text("utf-8")) if place else {}
    return event


def target_branch() -> str | None:
    """The branch that a pull request, or a queue of them, is to be merged into."""
    queued = str((read_event().get("merge_group") or {}).get("base_ref", ""))
    return os.environ.get("GITHUB_BASE_REF") or queued.removeprefix("refs/heads/") or None


def is_push_to_branch() -> bool:
    """Whether what passes here is what later pull requests into this branch are compared with."""
    ref = os.environ.get("GITHUB_REF", "")
    return os.environ.get("GITHUB_EVENT_NAME") == "push" and ref.startswith("refs/heads/")


def words(name: str) -> list[str]:
    """An input that is a list of words."""
    try:
        return shlex.split(os.environ.get(f"EVALS_{name}", ""))
    except ValueError as error:
        raise ValueError(f"{name.lower()}: {error}; quotes come in pairs, as in a shell.") from None


def called() -> list[str]:
    """How Evalwright is called: by default as it is beside this file, with what its lock file says.

    By its name, an index of packages would hand out whatever somebody has registered there.
    """
    checkout = str(Path(__file__).resolve().parents[1])
    own = ["uv", "run", "--quiet", "--locked", "--no-dev", "--project", checkout, "evalwright"]
    return words("COMMAND") or own


def append(variable: str, text: str) -> None:
    """Add to a file that GitHub reads."""
    place = os.environ.get(variable)
    if place:
        with Path(place).open("a", encoding="utf-8") as file:
            file.write(text)


def say(level: str, message: str) -> None:
    """Tell the reader of the job."""
    line = message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    print(f"::{level} title=Evalwright::{line}", flush=True)


STEPS = {"guard": guard, "fetch": fetch, "evaluate": evaluate, "comment": comment}

if __name__ == "__main__":
    sys.exit(STEPS[sys.argv[1]]())

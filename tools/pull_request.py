"""The steps of the GitHub action: guard, evaluate, comment. The standard library is enough for it.

All it needs is in the environment: what GitHub sets in a job, and the inputs of the action as
EVALS_… variables. Nothing that a pull request wrote becomes a part of a shell command.
"""

import io
import json
import os
import shlex
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Iterator, Sequence
from http.client import HTTPMessage
from pathlib import Path
from typing import Any

BASELINE = "baseline.jsonl"
MOST_COMMENT = 60_000  # characters; GitHub takes 65,536
MOST_ARTIFACT = 512 << 20
MOST_PAGES = 30
TRIES = 3
TRUSTED_EVENTS = ("pull_request_target", "workflow_run", "issue_comment")  # they have secrets
Document = dict[str, Any]


def guard() -> int:
    """Stop where the code of a fork would run with the secrets of this repository."""
    event = read_event()
    if os.environ.get("GITHUB_EVENT_NAME") not in TRUSTED_EVENTS or not is_from_fork(event):
        return 0
    say(
        "error",
        "Evalwright runs agents of the pull request, and this event would hand them the secrets of "
        "this repository. Use `on: pull_request`, which gives none to forks.",
    )
    return 2


def is_from_fork(event: Document) -> bool:
    """Whether what is evaluated comes from another repository; unknown counts as another."""
    own = event.get("repository", {}).get("full_name")
    if "pull_request" in event:
        head = (event["pull_request"].get("head") or {}).get("repo") or {}
    elif "workflow_run" in event:
        head = event["workflow_run"].get("head_repository") or {}
    else:
        return "issue" in event  # a comment does not tell where its pull request comes from
    return bool(head.get("full_name") != own)


def evaluate() -> int:
    """Run suites and prompts, and leave reports, outputs and the exit code of all of it."""
    work = Path(os.environ["RUNNER_TEMP"]) / "evalwright"
    report = work / "report"
    report.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("EVALWRIGHT_DB", str(work / "evals.db"))
    job = Job(work, report)
    suites, prompts = words("SUITES"), words("PROMPTS")
    if not suites and not prompts:
        say("error", "Nothing to evaluate: give `suites` or `prompts`.")
        return 2
    if suites:
        job.run_suites(suites)
    if prompts:
        job.lint(prompts)
    job.finish()
    return 0


class Job:
    """The commands of one job, and what they came to."""

    def __init__(self, work: Path, report: Path) -> None:
        self._work = work
        self._report = report
        self._summary = work / "summary.md"
        self._sarif = work / "sarif"
        self._sarif.mkdir(exist_ok=True)
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
        forms = {"--out": "runs", "--html": "run.html", "--junit": "junit.xml"}
        places = [part for option, file in forms.items() for part in (option, self._report / file)]
        asked = ["--agent", agent] if agent else []
        asked += ["--baseline", name, "--allow-no-baseline"] if known else []
        done = self._call("run", *suites, "--github", *places, *asked, *words("ARGS"), shown=True)
        self._codes.append(done.returncode)
        new = [row for row in self._runs() if row["runId"] not in before]
        self._scores += [
            row["aggregateScore"] for row in new if row.get("aggregateScore") is not None
        ]
        for row in new:
            self._compare(row, known)
        if done.returncode == 0 and is_default_branch():
            self._keep_baseline(name, new)

    def lint(self, prompts: Sequence[str]) -> None:
        """Lint the prompts."""
        out = ["-o", self._report / "prompts.html", "-o", self._sarif / "prompts.sarif"]
        done = self._call("prompts", *prompts, *out, shown=True)
        self._codes.append(done.returncode)

    def finish(self) -> None:
        """Hand the outputs and the summary over."""
        code = max(self._codes)
        summary = self._summary.read_text("utf-8") if self._summary.exists() else ""
        (self._report / "summary.md").write_text(summary, "utf-8")
        append("GITHUB_STEP_SUMMARY", summary)
        score = sum(self._scores) / len(self._scores) if self._scores else None
        outputs = {
            "passed": str(code == 0).lower(),
            "score": "" if score is None else f"{score:.6g}",
            "regressions": str(self._regressions),
            "report": str(self._report),
            "sarif": str(self._sarif) if any(self._sarif.iterdir()) else "",
            "baseline": self._baseline,
            "code": str(code),
        }
        append("GITHUB_OUTPUT", "".join(f"{name}={value}\n" for name, value in outputs.items()))

    def _import_baseline(self) -> list[Document]:
        file = baseline_file(self._work)
        if file is None:
            return []
        done = self._call("baseline", "import", file)
        if done.returncode != 0:
            say("warning", f"The baseline could not be read: {done.stderr.strip()}")
            return []
        listed = self._call("baseline", "list", "--json")
        found: list[Document] = json.loads(listed.stdout or "[]")
        return [each for each in found if each["name"] == os.environ["EVALS_BASELINE"]]

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
        command = [*words("COMMAND"), *map(str, args)]
        env = {name: value for name, value in os.environ.items() if name != "EVALS_TOKEN"}
        env["GITHUB_STEP_SUMMARY"] = "" if quiet else str(self._summary)
        return subprocess.run(command, env=env, capture_output=not shown, text=True, check=False)


def baseline_file(work: Path) -> Path | None:
    """The committed file, or the one in the newest artifact of the target branch."""
    named = os.environ["EVALS_BASELINE_FILE"]
    if named:
        if Path(named).is_file():
            return Path(named)
        say("warning", f"baseline-file: there is no file {named}; nothing is compared.")
        return None
    branch = os.environ.get("GITHUB_BASE_REF")
    if not branch:
        return None
    try:
        packed = find_artifact(os.environ["EVALS_ARTIFACT"], branch)
        if packed is None:
            say("notice", f"No baseline of {branch} yet: it is kept when a push there passes.")
            return None
        file = work / BASELINE
        file.write_bytes(zipfile.ZipFile(io.BytesIO(packed)).read(BASELINE))
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        say("warning", f"The baseline could not be fetched: {error}")
        return None
    return file


def find_artifact(name: str, branch: str) -> bytes | None:
    """The newest artifact of a branch; one that a fork's branch of the same name made is none."""
    query = urllib.parse.urlencode({"name": name, "per_page": 100})
    found = api("GET", f"{repository()}/actions/artifacts?{query}")
    own = [
        each
        for each in found["artifacts"]
        if not each["expired"]
        and each["workflow_run"]["head_branch"] == branch
        and each["workflow_run"]["head_repository_id"] == each["workflow_run"]["repository_id"]
    ]
    if not own:
        return None
    newest = max(own, key=lambda each: each["created_at"])
    return download(newest["archive_download_url"])


def comment() -> int:
    """Post the summary on the pull request, or update the comment that an earlier run made."""
    event = read_event()
    number = event.get("number") or event.get("pull_request", {}).get("number")
    if number is None:
        return 0
    workflow, job = (os.environ.get(name, "") for name in ("GITHUB_WORKFLOW", "GITHUB_JOB"))
    marker = f"<!-- evalwright:{urllib.parse.quote(f'{workflow}/{job}')} -->"
    body = comment_text(marker, Path(os.environ["EVALS_REPORT"]) / "summary.md")
    try:
        for each in comments_of(number):
            if each["body"].startswith(marker) and each["user"]["login"] == own_login():
                api("PATCH", f"{repository()}/issues/comments/{each['id']}", {"body": body})
                return 0
        api("POST", f"{repository()}/issues/{number}/comments", {"body": body})
    except OSError as error:
        fork = " (from forks the token may only read)" if is_from_fork(event) else ""
        say("notice", f"No comment was written{fork}: {error}")
    return 0


def comment_text(marker: str, summary: Path) -> str:
    """The comment: the summary, and where the reports are."""
    text = summary.read_text("utf-8").strip()
    if len(text) > MOST_COMMENT:
        text = text[:MOST_COMMENT].rpartition("\n")[0] + "\n\n… the rest is in the report."
    server, run = os.environ.get("GITHUB_SERVER_URL", ""), os.environ.get("GITHUB_RUN_ID", "")
    link = f"{server}/{os.environ['GITHUB_REPOSITORY']}/actions/runs/{run}"
    return f"{marker}\n{text}\n\n[Report and log]({link})\n"


def comments_of(number: int) -> Iterator[Document]:
    """The comments of a pull request."""
    for page in range(1, MOST_PAGES + 1):
        found = api("GET", f"{repository()}/issues/{number}/comments?per_page=100&page={page}")
        yield from found
        if len(found) < 100:
            return


def own_login() -> str:
    """Whose comments are ours: the token of a job cannot ask, and is always the same."""
    try:
        return str(api("GET", "/user")["login"])
    except OSError:
        return "github-actions[bot]"


def api(method: str, path: str, body: Document | None = None) -> Any:
    """Ask GitHub."""
    url = os.environ.get("GITHUB_API_URL", "https://api.github.com") + path
    data = None if body is None else json.dumps(body).encode()
    return json.loads(ask(urllib.request.Request(url, data, with_token(), method=method)))


def download(url: str) -> bytes:
    """What an address leads to; the token stays with GitHub where it leads elsewhere."""
    try:
        return ask(urllib.request.Request(url, headers=with_token()))
    except urllib.error.HTTPError as error:
        if error.code not in {301, 302, 303, 307, 308}:
            raise
        return ask(urllib.request.Request(error.headers["Location"]))


def with_token() -> dict[str, str]:
    """The headers of a request to GitHub."""
    return {
        "Authorization": f"Bearer {os.environ['EVALS_TOKEN']}",
        "Accept": "application/vnd.github+json",
        "X-GitHub-Api-Version": "2022-11-28",
    }


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, headers: HTTPMessage | None = None, **__: Any) -> None:
        """Leave it to the caller, who knows what may be sent there."""


def ask(request: urllib.request.Request) -> bytes:
    """The body of an answer; a server that is busy is asked again."""
    opener = urllib.request.build_opener(_NoRedirects)
    for attempt in range(1, TRIES + 1):
        try:
            with opener.open(request, timeout=60) as answer:
                return bytes(answer.read(MOST_ARTIFACT))
        except urllib.error.HTTPError as error:
            if error.code not in {429, 500, 502, 503, 504} or attempt == TRIES:
                raise
        time.sleep(attempt)
    raise AssertionError("unreachable")


def repository() -> str:
    """The path of the repository's part of the API."""
    return f"/repos/{os.environ['GITHUB_REPOSITORY']}"


def read_event() -> Document:
    """What happened, as GitHub tells it."""
    place = os.environ.get("GITHUB_EVENT_PATH")
    event: Document = json.loads(Path(place).read_text("utf-8")) if place else {}
    return event


def is_default_branch() -> bool:
    """Whether this job is for a push to the default branch."""
    default = read_event().get("repository", {}).get("default_branch")
    ref = os.environ.get("GITHUB_REF")
    return os.environ.get("GITHUB_EVENT_NAME") == "push" and ref == f"refs/heads/{default}"


def words(name: str) -> list[str]:
    """An input that is a list of words."""
    return shlex.split(os.environ.get(f"EVALS_{name}", ""))


def append(variable: str, text: str) -> None:
    """Add to a file that GitHub reads."""
    place = os.environ.get(variable)
    if place:
        with Path(place).open("a", encoding="utf-8") as file:
            file.write(text)


def say(level: str, message: str) -> None:
    """Tell the reader of the job."""
    line = message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    sys.stdout.write(f"::{level} title=Evalwright::{line}\n")


STEPS = {"guard": guard, "evaluate": evaluate, "comment": comment}

if __name__ == "__main__":
    sys.exit(STEPS[sys.argv[1]]())

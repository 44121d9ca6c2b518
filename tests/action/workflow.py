"""A job on GitHub without GitHub: the steps of action.yml, and a loopback stand-in of its API."""

import io
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from subjects.endpoint import Reply, Request
from subjects.forking import IS_POSSIBLE, the_forge

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
TOKEN = "job-token"
BASELINE = "steps.evaluate.outputs.baseline"
BOT = "github-actions[bot]"
_EXPRESSION = re.compile(r"\$\{\{ (.+?) \}\}")


class GitHub:
    """What is on GitHub: comments, and artifacts with one file each."""

    def __init__(self) -> None:
        self.comments: list[dict[str, Any]] = []
        self.artifacts: list[dict[str, Any]] = []
        self.files: dict[int, bytes] = {}
        self.may_write = True
        self.seen_tokens: set[str | None] = set()

    def say(self, login: str, body: str) -> None:
        """Let somebody comment."""
        number = len(self.comments) + 1
        self.comments.append({"id": number, "user": {"login": login}, "body": body})

    def keep(self, content: bytes, branch: str = "main", *, from_fork: bool = False) -> None:
        """Keep a baseline as an artifact."""
        number = len(self.artifacts) + 1
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("baseline.jsonl", content)
        self.files[number] = packed.getvalue()
        run = {"head_branch": branch, "repository_id": 1, "head_repository_id": 1 + from_fork}
        self.artifacts.append(
            {
                "id": number,
                "expired": False,
                "created_at": f"2026-01-{number:02}T00:00:00Z",
                "workflow_run": run,
            }
        )

    def respond(self, request: Request) -> Reply:
        """Answer as the API does."""
        path = request.path.partition("?")[0]
        if path.startswith("/storage/"):
            self.seen_tokens.add(request.headers.get("Authorization"))
            return Reply(self.files[int(path.rpartition("/")[2])])
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return Reply(b"{}", 401)
        if path.endswith("/zip"):
            number = path.split("/")[-2]
            return Reply(b"", 302, {"Location": f"{self.url}/storage/{number}"})
        if request.method != "GET" and not self.may_write:
            return Reply(b'{"message":"Resource not accessible by integration"}', 403)
        return self._document(request.method, path, request.body)

    url = ""

    def _document(self, method: str, path: str, body: Any) -> Reply:
        if path == "/user":
            return Reply(b"{}", 403)
        if path.endswith("/actions/artifacts"):
            for each in self.artifacts:
                each["archive_download_url"] = f"{self.url}/artifacts/{each['id']}/zip"
            return Reply(json.dumps({"artifacts": self.artifacts}).encode())
        if method == "POST":
            self.say(BOT, body["body"])
            return Reply(json.dumps(self.comments[-1]).encode(), 201)
        if method == "PATCH":
            number = int(path.rpartition("/")[2])
            self.comments[number - 1]["body"] = body["body"]
            return Reply(json.dumps(self.comments[number - 1]).encode())
        return Reply(json.dumps(self.comments).encode())


class Ended(NamedTuple):
    """How a job ended: the code of its last step, all that was printed, and the outputs."""

    code: int
    log: str
    outputs: dict[str, str]
    summary: str
    used: list[str]


class Workflow:
    """A repository in a folder, whose jobs run the action."""

    def __init__(self, folder: Path, api: str) -> None:
        self.folder = folder
        self.env: dict[str, str] = {}  # of every job
        self._api = api
        self._jobs = 0

    def pull_request(
        self, head: str = "acme/shop", event: str = "pull_request", **inputs: str
    ) -> Ended:
        """A job for a pull request into `main`."""
        document = {
            "number": 7,
            "pull_request": {"number": 7, "head": {"repo": {"full_name": head}}},
            "repository": {"full_name": "acme/shop", "default_branch": "main"},
        }
        env = {"GITHUB_EVENT_NAME": event, "GITHUB_BASE_REF": "main"}
        return self._job(document, env, inputs)

    def push(self, branch: str = "main", **inputs: str) -> Ended:
        """A job for a push."""
        document = {"repository": {"full_name": "acme/shop", "default_branch": "main"}}
        env = {"GITHUB_EVENT_NAME": "push", "GITHUB_REF": f"refs/heads/{branch}"}
        return self._job(document, env, inputs)

    def _job(self, event: dict[str, Any], env: dict[str, str], given: dict[str, str]) -> Ended:
        self._jobs += 1
        temp = self.folder.parent / f"job-{self._jobs}"
        temp.mkdir()
        for name in ("event.json", "output", "summary"):
            (temp / name).write_text(json.dumps(event) if name == "event.json" else "")
        shell = {
            "PATH": os.environ["PATH"],
            "HOME": str(temp),
            "RUNNER_TEMP": str(temp),
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_API_URL": self._api,
            "GITHUB_EVENT_PATH": str(temp / "event.json"),
            "GITHUB_JOB": "evals",
            "GITHUB_OUTPUT": str(temp / "output"),
            "GITHUB_REPOSITORY": "acme/shop",
            "GITHUB_RUN_ID": "99",
            "GITHUB_SERVER_URL": "https://github.example",
            "GITHUB_SHA": "abc123",
            "GITHUB_STEP_SUMMARY": str(temp / "summary"),
            "GITHUB_WORKFLOW": "ci",
            "GITHUB_WORKSPACE": str(self.folder),
            **self.env,
            **env,
        }
        inputs = {
            name.replace("-", "_"): str(each.get("default", ""))
            for name, each in ACTION["inputs"].items()
        }
        inputs |= {"command": _command(), "github_token": TOKEN, **given}
        return _Steps(self.folder, shell, inputs).run()


def _command() -> str:
    """How Evalwright is called: most of the time of its small commands would be their imports."""
    return str(the_forge().bin / "evalwright") if IS_POSSIBLE else f"{sys.executable} -m evalwright"


class _Steps:
    def __init__(self, folder: Path, env: dict[str, str], inputs: dict[str, str]) -> None:
        self._folder = folder
        self._env = env
        self._inputs = inputs
        self._outputs: dict[str, str] = {}

    def run(self) -> Ended:
        code, log, used = 0, "", list[str]()
        for step in ACTION["runs"]["steps"]:
            condition = step.get("if", "${{ true }}")
            if not self._holds(condition) or (code and "always()" not in condition):
                continue
            if "uses" in step:
                used.append(step["uses"].partition("@")[0])
                continue
            env = {name: self._filled(value) for name, value in step.get("env", {}).items()}
            done = subprocess.run(
                ["bash", "-e", "-o", "pipefail", "-c", step["run"]],
                cwd=self._folder / self._filled(step.get("working-directory", ".")),
                env={**self._env, **env},
                capture_output=True,
                text=True,
                check=False,
            )
            code, log = code or done.returncode, log + done.stdout + done.stderr
            self._take_outputs(step.get("id", ""))
        summary = Path(self._env["GITHUB_STEP_SUMMARY"]).read_text()
        outputs = {name: self._filled(each["value"]) for name, each in ACTION["outputs"].items()}
        return Ended(code, log, outputs | {"baseline": self._value(BASELINE)}, summary, used)

    def _take_outputs(self, step: str) -> None:
        """Each step has a file of its own."""
        file = Path(self._env["GITHUB_OUTPUT"])
        for line in file.read_text().splitlines():
            name, value = line.split("=", 1)
            self._outputs[f"{step}.outputs.{name}"] = value
        file.write_text("")

    def _filled(self, text: str) -> str:
        return _EXPRESSION.sub(lambda found: self._value(found[1]), text)

    def _holds(self, condition: str) -> bool:
        expression = _EXPRESSION.fullmatch(condition)
        assert expression, f"{condition}: not a single expression"
        return all(map(self._clause, expression[1].split(" && ")))

    def _clause(self, clause: str) -> bool:
        if clause in {"always()", "true"}:
            return True
        left, sign, right = clause.split(" ")
        assert sign in {"==", "!="}, f"{clause}: nothing here evaluates this"
        return (self._value(left) == right.strip("'")) == (sign == "==")

    def _value(self, name: str) -> str:
        where, _, key = name.partition(".")
        if where == "inputs":
            return self._inputs[key.replace("-", "_")]
        if where == "steps":
            return self._outputs.get(key, "")
        if name == "strategy.job-index":
            return "0"
        assert where == "github", f"{name}: nothing here knows this"
        return {"run_attempt": "1", "token": TOKEN}[key]

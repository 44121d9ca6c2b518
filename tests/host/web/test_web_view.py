"""`evalwright view`: the link that it prints is the only way in."""

import html
import re
import signal
import subprocess
from collections.abc import Iterator

import pytest

from host.web.visitor import Visitor
from subjects.command import Evalwright
from subjects.waiting import eventually


class Viewed:
    """A running `evalwright view`."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        self.process = process
        self.link = process.stdout.readline().decode().rstrip("\n")
        self.url, _, self.token = self.link.partition("/?token=")


@pytest.fixture
def viewed(evalwright: Evalwright) -> Iterator[Viewed]:
    process = evalwright.start(
        "view", "--db", str(evalwright.db), "--no-browser",
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield Viewed(process)
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=240) == 0
        assert process.stdout is not None
        assert process.stdout.read() == b"", "the address is the only line"
        process.stdout.close()


def test_the_link_lets_one_browser_in_and_every_other_address_is_refused(viewed: Viewed):
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{40,}", viewed.link)
    stranger = Visitor(viewed.url)
    for path in (
        "/",
        "/sign-in",
        "/static/app.js",
        "/v1/runs",
        "/v1/openapi.json",
        "/x",
        "/?token=x",
    ):
        assert stranger.get(path).status in (401, 403)
    assert stranger.send("HEAD", f"/?token={viewed.token}").status == 401, "it is looked at only"
    owner = Visitor(viewed.url)
    answer = owner.get(f"/?token={viewed.token}")
    assert (answer.status, answer.location) == (303, "/")
    assert viewed.token not in answer.text + " ".join(answer.cookies)
    first = owner.get("/")
    assert first.status == 200
    assert "Nobody knows yet" in first.text
    (script, *_) = re.findall(r'src="(/static/[^"]+)"', first.text)
    assert owner.get(script).status == 200
    assert stranger.get(script).status == 401
    late = stranger.get(f"/?token={viewed.token}")
    assert late.status == 403, "it works once"
    assert "<title>Not let in · Evalwright</title>" in late.text
    assert owner.get(f"/?token={viewed.token}").location == "/", "the token leaves the address"
    assert owner.get("/v1/runs").status == 404, "there is no API"
    assert owner.get("/", Host="evil.example").status == 403, "another name was made to lead here"


def test_the_demo_is_one_click_away_and_runs_of_the_command_line_are_only_shown(
    viewed: Viewed, evalwright: Evalwright
):
    owner = Visitor(viewed.url)
    owner.get(f"/?token={viewed.token}")
    owner.get("/")
    started = owner.post("/demo").location
    eventually(lambda: 'data-verdict="pass"' in owner.get(started).text)
    assert "Run the failed ones again" in owner.get(started).text
    evalwright("demo")
    listed = re.findall(r'class="reach" href="(/runs/[^"]+)"', owner.get("/runs").text)
    assert len(listed) == 4
    (other,) = [each for each in listed[:1] if each != started]
    assert '<form method="post"' not in owner.get(other).text
    assert owner.post(f"{other}/again").status == 409


SUITE_OF_FOLDER = """
evalwright: 1
name: greeting
agent: agent.py:answer
thresholds: {passRate: 0.5}
tasks:
  - {id: hello, input: hello, checks: [{equals: hello}]}
  - {id: bye, input: bye, checks: [{equals: see you}]}
"""


def with_suites(evalwright: Evalwright) -> None:
    """A folder with a suite, a file that is none, and what leads out of it."""
    inside, outside = evalwright.folder / "evals", evalwright.folder.parent / "elsewhere"
    inside.mkdir()
    outside.mkdir(exist_ok=True)
    for folder in (inside, outside):
        (folder / "agent.py").write_text("def answer(task):\n    return task.input\n")
        (folder / "suite.yaml").write_text(SUITE_OF_FOLDER)
    (inside / "notes.yaml").write_text("some: notes\n")
    (inside / "linked.yaml").symlink_to(outside / "suite.yaml")
    out = SUITE_OF_FOLDER.replace("agent.py", f"{outside}/agent.py")
    (inside / "out.yaml").write_text(out.replace("greeting", "out"))


def owner_of(viewed: Viewed) -> Visitor:
    owner = Visitor(viewed.url)
    owner.get(f"/?token={viewed.token}")
    owner.get("/")
    return owner


def test_a_suite_of_the_folder_is_started_as_its_command_would(
    viewed: Viewed, evalwright: Evalwright
):
    with_suites(evalwright)
    owner = owner_of(viewed)
    text = html.unescape(owner.get("/start?suite=evals/suite.yaml&repeat=2").text)
    offered = re.findall(r'name="suite" value="([^"]+)"', text)
    assert offered[:2] == ["evals/out.yaml", "evals/suite.yaml"]
    assert len(offered) == 3, "the demo is the third; links and notes are none"
    assert "2 tasks · bar 50.0%" in text
    command = "evalwright run evals/suite.yaml --agent evals/agent.py:answer --repeat 2"
    copied = re.sub(r"</?span[^>]*>", "", text)
    assert f"<code>{command}" in copied, "the same to copy"
    fields = {"suite": "evals/suite.yaml", "agent": "evals/agent.py:answer"}
    started = owner.post("/start", {**fields, "tags": "clicked"})
    assert started.status == 303, started.text
    eventually(lambda: 'data-verdict="pass"' in owner.get(started.location).text)
    assert "clicked" in owner.get(started.location).text
    text = owner.get("/start?suite=evals/suite.yaml").text
    assert "last 50.0%" in text
    assert "<dd>about 1 s</dd>" in text, "as long as the run before"


def test_nothing_outside_the_folder_is_started_from_the_form(
    viewed: Viewed, evalwright: Evalwright
):
    with_suites(evalwright)
    owner, outside = owner_of(viewed), evalwright.folder.parent / "elsewhere"
    agent = {"agent": "evals/agent.py:answer"}
    for suite in (f"{outside}/suite.yaml", "../elsewhere/suite.yaml", "evals/linked.yaml"):
        assert owner.post("/start", {"suite": suite, **agent}).status == 422
    for ref in (f"{outside}/agent.py:answer", "../elsewhere/agent.py:answer", "os:getcwd"):
        refused = owner.post("/start", {"suite": "evals/suite.yaml", "agent": ref})
        assert refused.status == 422
        assert "Choose one of the agents of this folder." in refused.text
    fields = {"suite": "evals/suite.yaml", **agent}
    models = owner.post("/start", {**fields, "models": ["openai:gpt-x"]})
    assert 'id="models-error"' in models.text
    assert owner.post("/start", {**fields, "csrf": "another"}).status == 403
    assert owner.post("/start", fields, Origin="http://evil.example").status == 403
    assert "greeting" not in owner.get("/runs").text


def test_what_a_command_of_the_form_refuses_is_said_at_its_field(
    viewed: Viewed, evalwright: Evalwright
):
    suite = SUITE_OF_FOLDER.replace("agent.py", "missing.py")
    (evalwright.folder / "suite.yaml").write_text(suite)
    fields = {"suite": "suite.yaml", "agent": "missing.py:answer", "budget": "1"}
    refused = owner_of(viewed).post("/start", fields)
    assert refused.status == 422
    (told,) = re.findall(
        r'<p id="agent-error" class="field-error"><svg.*?</svg>([^<]+)', refused.text
    )
    assert "there is no file missing.py" in told
    assert 'name="budget" inputmode="decimal" value="1"' in refused.text, "the rest is kept"


HANGING = "import time\n\ndef answer(task):\n    time.sleep(60 if task.input == 'wait' else 0)\n"
TWO_TASKS = """
evalwright: 1
name: two
tasks:
  - {id: quick, input: go, checks: [{equals: x}]}
  - {id: slow, input: wait, checks: [{equals: x}]}
"""


def test_a_run_whose_command_was_killed_is_interrupted_and_says_how_to_go_on(
    viewed: Viewed, evalwright: Evalwright
):
    (evalwright.folder / "agent.py").write_text(HANGING)
    (evalwright.folder / "two.yaml").write_text(TWO_TASKS)
    owner = Visitor(viewed.url)
    owner.get(f"/?token={viewed.token}")
    command = evalwright.start("run", "two.yaml", "--agent", "agent.py:answer")
    eventually(lambda: ">Running</span>" in owner.get("/runs").text)
    command.kill()
    command.wait()
    assert ">Interrupted</span>" in owner.get("/runs").text
    (address,) = re.findall(r'href="(/runs/[^"]+)"', owner.get("/").text)
    text = owner.get(address).text
    assert "evalwright run --resume run_" in text
    assert 'aria-label="wait: waiting"' in text

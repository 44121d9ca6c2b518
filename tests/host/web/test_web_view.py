"""`evalwright view`: the link that it prints is the only way in."""

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
    assert "No runs yet" in first.text
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
    assert 'aria-label="slow: waiting"' in text

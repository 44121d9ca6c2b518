"""Documentation is tried: every command, suite, agent and output that a page shows."""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from doc_pages import PAGES, ROOT, Block, blocks, name_of
from doc_session import Session

from evalwright.contracts.events import Event
from evalwright.store.location import open_log
from subjects.ports import lasting_port

RUN = {"sh", "console"}
READ = {"json", "yaml", "python", "js"}
ADDED = re.compile(r"# \S+\.py, above `")  # lines that a recipe adds to a file
VARIABLE_FIELDS = {
    "eventId",
    "runId",
    "resumedFrom",
    "timestamp",
    "durationMs",
    "latencyMs",
    "observed",
    "engineVersion",
}
PORT = re.compile(r"\b80\d\d\b")

needs_bash = pytest.mark.skipif(
    shutil.which("bash") is None, reason="bash is not installed: no command of the docs was tried"
)


def pages_with(languages: set[str], option: str | None = None) -> list[str]:
    return [
        name_of(page)
        for page in PAGES
        if any(
            block.language in languages and (option is None or option in block.options)
            for block in blocks(page)
        )
    ]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    folder = tmp_path / "reader"
    folder.mkdir()
    (folder / ".venv").symlink_to(sys.prefix)
    session = Session(folder)
    yield session
    session.close()


@needs_bash
@pytest.mark.parametrize("page", pages_with(RUN))
def test_a_page_does_what_it_says(page: str, session: Session) -> None:
    shown = list(with_free_ports(ROOT / page))
    for block in shown:
        if can_be_tried(block):
            try_block(block, session)
    expected = [block for block in shown if "event" in block.options]
    if expected:
        recorded = recorded_events(session)
        for block in expected:
            assert any(fits(json.loads(block.text), event) for event in recorded), (
                f"{block.place}: no run on this page recorded such an event"
            )


@pytest.mark.parametrize("page", pages_with(RUN, "needs"))
def test_programs_that_examples_need_are_here(page: str) -> None:
    needed = [block for block in blocks(ROOT / page) if "needs" in block.options]
    missing = [block for block in needed if not can_be_tried(block)]
    if missing:
        names = ", ".join(sorted({block.options["needs"] for block in missing}))
        pytest.skip(f"{names} is not installed: {len(missing)} blocks of {page} were not tried")


@pytest.mark.parametrize("page", [name_of(page) for page in PAGES])
def test_every_block_is_of_a_kind_that_is_tried(page: str) -> None:
    for block in blocks(ROOT / page):
        shown = {"title", "diagram"} & block.options.keys()
        assert block.language in RUN | READ or shown, (
            f"{block.place}: nothing tries a block of language {block.language!r}"
        )


@pytest.mark.parametrize("page", pages_with(READ))
def test_what_is_only_read_is_well_formed(page: str) -> None:
    for block in blocks(ROOT / page):
        check_syntax(block)


def with_free_ports(page: Path) -> Iterator[Block]:
    """The blocks of a page, with ports in them that are free on this machine."""
    text = page.read_text("utf-8")
    ports = {port: str(lasting_port()) for port in sorted(set(PORT.findall(text)))}
    return iter(blocks(page, PORT.sub(lambda found: ports[found[0]], text)))


def can_be_tried(block: Block) -> bool:
    needed = block.options.get("needs")
    if needed is None or shutil.which(needed) is not None:
        return True
    return importlib.util.find_spec(needed) is not None  # a package of an extra


def try_block(block: Block, session: Session) -> None:
    if "title" in block.options:
        session.write(block.options["title"], block.text)
    elif block.language == "sh":
        for command, _ in steps(block.text.splitlines(), prompt=""):
            run_command(command, session, block.place)
    elif block.language == "console":
        play(block, session)


def play(block: Block, session: Session) -> None:
    """Type a session and compare what it shows; `echo $?` explains an exit code that is not 0."""
    played = list(steps(block.text.splitlines(), prompt="$ "))
    for (command, shown), following in zip(played, [*played[1:], ("", "")], strict=True):
        place = f"{block.place}: {command}"
        if "server" in block.options:
            session.serve(command, shown)
            continue
        answer = session.run(command)
        if shown or answer.output:
            session.compare(shown, answer.output, place)
        if following[0] != "echo $?":
            assert answer.code == 0, f"{place}\nexit code {answer.code}"


def run_command(command: str, session: Session, place: str) -> None:
    if command.startswith("make "):
        targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
        assert set(command.split()[1:]) <= targets, f"{place}: the Makefile has no such target"
        return
    answer = session.run(command)
    assert answer.code == 0, f"{place}: {command}\nexit code {answer.code}\n{answer.output}"


def steps(lines: list[str], prompt: str) -> Iterator[tuple[str, str]]:
    """Commands, each with the output that is shown below it; a backslash continues a line."""
    command, shown, is_open = "", list[str](), False
    for line in [*lines, prompt]:
        if is_open:
            command += f"\n{line}"
        elif line.startswith(prompt):
            if command:
                yield command, "\n".join(shown)
            command, shown = line.removeprefix(prompt), []
        else:
            shown.append(line)
        is_open = command.endswith("\\") and not shown


def check_syntax(block: Block) -> None:
    try:
        match block.language:
            case "json":
                json.loads(block.text)
            case "yaml":
                list(yaml.safe_load_all(block.text))
            case "python" if not ADDED.match(block.text):  # test_docs_recipes adds those
                is_row = block.text.startswith('"') and not block.text.startswith('"""')
                compile(f"{{{block.text}}}" if is_row else block.text, block.place, "exec")
            case "js" if shutil.which("node"):
                kind = ["--input-type=module", "--check"]
                subprocess.run(["node", *kind, "-"], input=block.text, text=True, check=True)
    except (ValueError, yaml.YAMLError, SyntaxError) as error:
        raise AssertionError(f"{block.place}: {error}") from None


def recorded_events(session: Session) -> list[dict[str, Any]]:
    log = open_log(str(session.log))
    try:
        events: list[Event] = [event for run_id in log.run_ids() for event in log.read(run_id)]
    finally:
        log.close()
    return [json.loads(event.to_json()) for event in events]


def fits(shown: Any, real: Any, field: str = "") -> bool:
    """Whether a shown value is the real one, but for what differs from run to run."""
    if field in VARIABLE_FIELDS:
        return type(shown) is type(real)
    if isinstance(shown, float | int) and isinstance(real, float | int):
        return isinstance(shown, bool) is isinstance(real, bool) and shown == real
    if isinstance(shown, dict) and isinstance(real, dict):
        return shown.keys() == real.keys() and all(fits(shown[key], real[key], key) for key in real)
    if isinstance(shown, list) and isinstance(real, list):
        return len(shown) == len(real) and all(map(fits, shown, real))
    if isinstance(shown, str) and isinstance(real, str):
        pattern = ".*".join(map(re.escape, shown.split("…")))
        return re.fullmatch(pattern, real, re.DOTALL) is not None
    return type(shown) is type(real) and shown == real

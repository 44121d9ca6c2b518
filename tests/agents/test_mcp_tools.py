"""MCP servers as tools, with real servers: programs and addresses, living, dying and hanging."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tool_subjects import answer, call, failed, failure, refused, with_tools, write_tools

from evalwright.agents import mcp_tools
from evalwright.agents.toolbox import Toolbox
from evalwright.contracts.errors import BadInput, CannotEvaluate
from subjects.waiting import let_time_pass

SERVER = str(Path(__file__).with_name("mcp_server.py"))
PROGRAM = {"name": "orders", "command": [sys.executable, SERVER]}


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return write_tools(tmp_path, mcp=[PROGRAM])


class HttpServer:
    """The server in a process of its own, on loopback."""

    def __init__(self) -> None:
        command = [sys.executable, SERVER, "http"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self._process.stdout.readline())}/mcp"

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def http_server() -> Iterator[HttpServer]:
    server = HttpServer()
    yield server
    server.end()


# What a server offers.


def test_a_servers_tools_are_named_after_it_and_described_in_its_words(program: Path):
    async def look(toolbox: Toolbox) -> None:
        assert "mcp:orders.lookup" in toolbox.names()
        lookup = toolbox.describe("mcp:orders.lookup")
        assert lookup.description == "Find an order."
        assert lookup.parameters["required"] == ["order_id"]
        assert not lookup.writes
        assert toolbox.describe("mcp:orders.greet").writes

    with_tools(program, look)


def test_only_the_allowed_tools_are_taken(tmp_path: Path):
    async def names(toolbox: Toolbox) -> list[str]:
        return toolbox.names()

    path = write_tools(tmp_path, mcp=[PROGRAM | {"allow": ["greet"]}])
    assert with_tools(path, names) == ["mcp:orders.greet"]


def test_an_allowed_tool_that_the_server_has_not_is_bad_input(tmp_path: Path):
    error = refused(write_tools(tmp_path, mcp=[PROGRAM | {"allow": ["gret"]}]))
    assert isinstance(error, BadInput)
    assert "'gret'" in str(error)
    assert "greet" in str(error)


def test_a_tool_answers_with_its_structured_result_its_text_or_its_blocks(program: Path):
    async def use(toolbox: Toolbox) -> None:
        order = await call(toolbox, "mcp:orders.lookup", order_id="A")
        assert order == {"id": "A", "status": "shipped"}
        assert await call(toolbox, "mcp:orders.greet", name="Ada") == "Hello Ada"
        one, two = {"type": "text", "text": "one"}, {"type": "text", "text": "two"}
        assert await call(toolbox, "mcp:orders.pieces") == [one, two]

    with_tools(program, use)


def test_a_program_gets_the_variables_that_are_named_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ORDERS_TOKEN", "s3cret-value")
    monkeypatch.setenv("OTHER_TOKEN", "not for you")

    async def look(toolbox: Toolbox) -> None:
        assert await call(toolbox, "mcp:orders.variable", name="ORDERS_TOKEN") == "s3cret-value"
        assert await call(toolbox, "mcp:orders.variable", name="OTHER_TOKEN") == "unset"
        assert toolbox.secrets == {"ORDERS_TOKEN": "s3cret-value"}

    with_tools(write_tools(tmp_path, mcp=[PROGRAM | {"env": ["ORDERS_TOKEN"]}]), look)


# What goes wrong with a tool.


def test_a_tool_that_fails_tells_why_and_the_server_goes_on(tmp_path: Path):
    async def use(toolbox: Toolbox) -> None:
        for tool, arguments, message in (
            ("fail", {}, "fail"),
            ("greet", {"nom": "Ada"}, "name"),
            ("flood", {}, "longer than"),
        ):
            error = await failure(toolbox, f"mcp:orders.{tool}", **arguments)
            assert error.code == "tool_error"
            assert message in error.message
        hanging = asyncio.create_task(failure(toolbox, "mcp:orders.hang"))
        assert await call(toolbox, "mcp:orders.greet", name="Bob") == "Hello Bob"
        let_time_pass(60)
        assert (await hanging).code == "tool_timeout"
        assert await call(toolbox, "mcp:orders.greet", name="Ada") == "Hello Ada"

    with_tools(write_tools(tmp_path, mcp=[PROGRAM | {"timeout_s": 60}]), use)


def test_a_program_that_dies_fails_the_call_and_is_started_again_for_the_next(program: Path):
    async def use(toolbox: Toolbox) -> None:
        hanging = asyncio.create_task(failure(toolbox, "mcp:orders.hang"))
        await asyncio.sleep(0)
        error = await failure(toolbox, "mcp:orders.die")
        assert error.code == (await hanging).code == "tool_unavailable"
        assert "went away" in error.message
        both = [call(toolbox, "mcp:orders.greet", name=name) for name in ("Ada", "Bob")]
        assert await asyncio.gather(*both) == ["Hello Ada", "Hello Bob"]

    with_tools(program, use)


def test_a_program_that_cannot_be_started_again_fails_every_call(tmp_path: Path):
    script = tmp_path / "server.py"
    script.write_text(Path(SERVER).read_text("utf-8"), "utf-8")
    path = write_tools(tmp_path, mcp=[PROGRAM | {"command": [sys.executable, "server.py"]}])

    async def use(toolbox: Toolbox) -> None:
        script.unlink()
        assert (await failure(toolbox, "mcp:orders.die")).code == "tool_unavailable"
        for _ in range(2):
            error = await failure(toolbox, "mcp:orders.greet", name="Ada")
            assert error.code == "tool_unavailable"
            assert "server.py" not in error.message  # what it wrote is not for the model

    with_tools(path, use)


def a_server_that_notes_its_pid(folder: Path) -> dict[str, Any]:
    (folder / "server.py").write_text(
        "import os, pathlib, runpy\n"
        "pathlib.Path('pid').write_text(str(os.getpid()))\n"
        f"runpy.run_path({SERVER!r}, run_name='__main__')\n",
        "utf-8",
    )
    return PROGRAM | {"command": [sys.executable, "server.py"]}


def assert_ended(folder: Path) -> None:
    with pytest.raises(ProcessLookupError):
        os.kill(int((folder / "pid").read_text()), signal.SIGCONT)


def test_a_program_ends_with_its_toolbox(tmp_path: Path):
    path = write_tools(tmp_path, mcp=[a_server_that_notes_its_pid(tmp_path)])
    assert answer(path, "mcp:orders.greet", name="Ada") == "Hello Ada"
    assert_ended(tmp_path)


# What goes wrong with a server.


def test_a_program_that_fails_at_once_is_named_with_what_it_wrote(tmp_path: Path):
    code = "import sys; sys.exit('no database')"
    error = refused(
        write_tools(tmp_path, mcp=[{"name": "orders", "command": [sys.executable, "-c", code]}])
    )
    assert isinstance(error, CannotEvaluate)
    assert error.exit_code == 3
    assert "MCP server 'orders'" in str(error)
    assert "no database" in str(error)


def test_a_program_that_says_nothing_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mcp_tools, "CONNECT_SECONDS", 0.5)
    silent = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    error = refused(write_tools(tmp_path, mcp=[{"name": "orders", "command": silent}]))
    assert isinstance(error, CannotEvaluate)
    assert "does not answer" in str(error)


def test_a_program_that_writes_garbage_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(mcp_tools, "CONNECT_SECONDS", 3)
    babbling = [sys.executable, "-c", "print('hello there')\nprint('{}')"]
    error = refused(write_tools(tmp_path, mcp=[{"name": "orders", "command": babbling}]))
    assert isinstance(error, CannotEvaluate)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("program", ["no-such-program", "./no-such-program"])
def test_a_program_that_is_not_there_is_bad_input(tmp_path: Path, program: str):
    error = refused(write_tools(tmp_path, mcp=[{"name": "orders", "command": [program]}]))
    assert isinstance(error, BadInput)
    assert program in str(error)


def test_a_variable_that_is_not_set_is_bad_input(tmp_path: Path):
    error = refused(write_tools(tmp_path, mcp=[PROGRAM | {"env": ["NO_SUCH_VARIABLE"]}]))
    assert isinstance(error, BadInput)
    assert "NO_SUCH_VARIABLE" in str(error)


def test_one_server_that_fails_ends_the_others(tmp_path: Path):
    waiting = (
        "import pathlib, sys, time\n"
        "while not pathlib.Path('pid').exists(): time.sleep(0.01)\n"
        "sys.exit(1)"
    )
    broken = {"name": "broken", "command": [sys.executable, "-c", waiting]}
    error = refused(write_tools(tmp_path, mcp=[a_server_that_notes_its_pid(tmp_path), broken]))
    assert "MCP server 'broken'" in str(error)
    assert_ended(tmp_path)


def a_hand_written_server(folder: Path, tools: str = "[]", reply: str = "") -> dict[str, Any]:
    """A server that has `tools` for the result of tools/list; `reply` is code for tools/call."""
    script = f"""
import json, sys
def say(text): print(text, flush=True)
def answer(id, **fields): say(json.dumps({{"jsonrpc": "2.0", "id": id, **fields}}))
for line in sys.stdin:
    asked = json.loads(line)
    method, id = asked["method"], asked.get("id")
    if method == "initialize":
        answer(id, result={{
            "protocolVersion": asked["params"]["protocolVersion"],
            "capabilities": {{"tools": {{}}}},
            "serverInfo": {{"name": "x", "version": "1"}},
        }})
    elif method == "tools/list":
        answer(id, **{tools})
    elif method == "tools/call":
        {reply or "pass"}
    elif id is not None:
        answer(id, error={{"code": -32601, "message": "no such method"}})
"""
    (folder / "hand_written.py").write_text(script, "utf-8")
    return {"name": "orders", "command": [sys.executable, "hand_written.py"], "timeout_s": 30}


def listing(*tools: Any) -> str:
    return repr({"result": {"tools": list(tools)}})


A_TOOL: dict[str, Any] = {"name": "get", "inputSchema": {"type": "object"}}
NO_SCHEMA = {"type": "object", "properties": {"id": {"type": "texture"}}}


@pytest.mark.parametrize(
    ("tools", "told"),
    [
        (repr({"error": {"code": -5, "message": "no\x1b[2J database\x07"}}), "no\\x1b[2J database"),
        ('[sys.stderr.write("out of \x1b memory"), sys.exit(3)]', "out of \\x1b memory"),
        (repr({"result": {"tools": 5}}), "tools"),
        (repr({"result": {"tools": [5]}}), "tools"),
        (repr({"result": {}}), "tools"),
        (listing({"name": "get"}), "inputSchema"),
        (listing({"name": "get", "inputSchema": "none"}), "inputSchema"),
        (listing(A_TOOL | {"inputSchema": NO_SCHEMA}), "tool 'get': its input schema"),
        (listing(A_TOOL | {"outputSchema": NO_SCHEMA}), "tool 'get': its output schema"),
        (listing(A_TOOL, A_TOOL), "it lists the tool 'get' 2 times"),
    ],
)
def test_a_server_that_cannot_list_its_tools_is_named_and_told_of_in_print(
    tmp_path: Path, tools: str, told: str
):
    error = refused(write_tools(tmp_path, mcp=[a_hand_written_server(tmp_path, tools)]))
    assert isinstance(error, CannotEvaluate)
    assert "MCP server 'orders'" in str(error)
    assert told in str(error)
    assert str(error).replace("\n", "").isprintable()


@pytest.mark.parametrize(
    "reply",
    [
        """say('{"jsonrpc": "2.0", "id": 1, "result": {"content')""",
        """say('{"jsonrpc": "2.0", "id": [], "result": {}}')""",
        "answer(id)",
        "answer(id, result=5)",
        "answer(id, result={'content': 5})",
        "answer(id, error='no')",
        "answer(id, result={'content': [], 'structuredContent': {'n': float('nan')}})",
    ],
)
def test_an_answer_that_cannot_be_read_fails_the_call_at_once(tmp_path: Path, reply: str):
    server = a_hand_written_server(tmp_path, listing(A_TOOL), reply)
    error = failed(write_tools(tmp_path, mcp=[server]), "mcp:orders.get")
    assert error.code == "tool_error"


def test_lines_of_a_log_between_answers_do_no_harm(tmp_path: Path):
    lines = ["a line of a log", '{"level": "info"}', "{", "5"]
    said = "answer(id, result={'content': [{'type': 'text', 'text': 'yes'}]})"
    server = a_hand_written_server(tmp_path, listing(A_TOOL), f"[*map(say, {lines!r})]; {said}")
    assert answer(write_tools(tmp_path, mcp=[server]), "mcp:orders.get") == "yes"


def test_without_the_package_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "mcp", None)
    error = refused(write_tools(tmp_path, mcp=[PROGRAM]))
    assert isinstance(error, BadInput)
    assert "pip install 'mcp>=2.3'" in str(error)


# Streamable HTTP.


def test_a_server_at_an_address_that_goes_away_fails_every_call(
    tmp_path: Path, http_server: HttpServer
):
    path = write_tools(tmp_path, mcp=[{"name": "orders", "url": http_server.url}])

    async def use(toolbox: Toolbox) -> None:
        hanging = asyncio.create_task(failure(toolbox, "mcp:orders.hang"))
        error = await failure(toolbox, "mcp:orders.die")
        assert error.code == (await hanging).code == "tool_unavailable"
        for _ in range(2):
            error = await failure(toolbox, "mcp:orders.greet", name="Ada")
            assert error.code == "tool_unavailable"

    with_tools(path, use)


def test_a_server_at_an_address_answers_and_a_tool_that_hangs_is_given_up(
    tmp_path: Path, http_server: HttpServer
):
    async def use(toolbox: Toolbox) -> None:
        hanging = asyncio.create_task(failure(toolbox, "mcp:orders.hang"))
        assert await call(toolbox, "mcp:orders.greet", name="Bob") == "Hello Bob"
        let_time_pass(60)
        assert (await hanging).code == "tool_timeout"

    server = {"name": "orders", "url": http_server.url, "timeout_s": 60}
    with_tools(write_tools(tmp_path, mcp=[server]), use)


def test_an_address_where_nobody_listens_cannot_be_evaluated(tmp_path: Path):
    error = refused(
        write_tools(tmp_path, mcp=[{"name": "orders", "url": "http://127.0.0.1:9/mcp"}])
    )
    assert isinstance(error, CannotEvaluate)
    assert "MCP server 'orders'" in str(error)

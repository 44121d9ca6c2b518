"""Python functions as tools: what a signature says, and everything a function can do wrong."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tool_subjects import answer, call, failed, failure, refused, with_tools, write_tools

from evalwright.agents.toolbox import Toolbox, ToolDescription
from evalwright.contracts.errors import BadInput, CannotEvaluate
from subjects.waiting import let_time_pass

FUNCTIONS = '''
import asyncio, sys, threading
from dataclasses import dataclass
from typing import Literal

@dataclass
class Address:
    street: str
    number: int

def add(a: int, b: int = 2, *, unit: Literal["kg", "g"] = "kg") -> dict:
    """Add two weights."""
    return {"sum": a + b, "unit": unit}

async def later(text: str):
    await asyncio.sleep(0)
    return text.upper()

def send(address: Address, tags: list[str] | None = None):
    return f"{address.street} {address.number} {tags}"

class Later:
    async def __call__(self, text: str):
        return text.title()

instance = Later()

def untyped(anything, more="x"):
    return [anything, more]

def fails(): raise LookupError("no such order \\udc80")
def leaves(): sys.exit(3)
def hangs(): threading.Event().wait()
def odd(): return {1, 2}
def many(*values): return values
def strange(x: "NoSuchType"): return x
def any_keywords(**fields): return fields

async def stubborn():
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
        if stopped: return

stopped = []
def stop(): stopped.append(1)

async def cancels(): raise asyncio.CancelledError

class Unspeakable(Exception):
    def __str__(self): raise self.args[0]

def unspeakable_exit(): raise Unspeakable(SystemExit(3))
def unspeakable_interrupt(): raise Unspeakable(KeyboardInterrupt())
async def unspeakable_later(): raise Unspeakable(SystemExit(3))
def interrupts(): raise KeyboardInterrupt
async def interrupts_later(): raise KeyboardInterrupt
async def exits_later(): sys.exit(3)
async def closes_later(): raise GeneratorExit
def closes(): raise GeneratorExit
def stops(): raise StopIteration(7)

value = 7
'''


def tools(folder: Path, *names: str, **fields: Any) -> Path:
    (folder / "shop_functions.py").write_text(FUNCTIONS, "utf-8")
    entries = [{"name": name, "python": f"shop_functions.py:{name}", **fields} for name in names]
    return write_tools(folder, *entries)


def description(path: Path, name: str) -> ToolDescription:
    async def look(toolbox: Toolbox) -> ToolDescription:
        return toolbox.describe(name)

    found: ToolDescription = with_tools(path, look)
    return found


def test_a_functions_docstring_and_signature_describe_it(tmp_path: Path):
    described = description(tools(tmp_path, "add"), "add")
    assert described.description == "Add two weights."
    assert described.parameters == {
        "type": "object",
        "properties": {
            "a": {"type": "integer"},
            "b": {"type": "integer"},
            "unit": {"enum": ["g", "kg"]},
        },
        "required": ["a"],
        "additionalProperties": False,
    }
    assert described.writes


def test_what_the_file_says_goes_before_what_the_function_says(tmp_path: Path):
    parameters = {"type": "object", "properties": {"a": {"type": "integer", "maximum": 9}}}
    path = tools(tmp_path, "add", description="Sums.", parameters=parameters, writes=False)
    described = description(path, "add")
    assert (described.description, described.parameters) == ("Sums.", parameters)
    assert not described.writes
    assert answer(path, "add", a=9)["sum"] == 11
    assert failed(path, "add", a=10).code == "invalid_arguments"


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("add", {"a": 1}, {"sum": 3, "unit": "kg"}),
        ("add", {"a": 1, "b": 1, "unit": "g"}, {"sum": 2, "unit": "g"}),
        ("later", {"text": "x"}, "X"),
        ("instance", {"text": "x"}, "X"),
        ("untyped", {"anything": [None]}, [[None], "x"]),
        ("send", {"address": {"street": "Mill Lane", "number": 4}}, "Mill Lane 4 None"),
    ],
)
def test_a_function_is_called_with_its_arguments(
    tmp_path: Path, name: str, arguments: Any, expected: Any
):
    assert answer(tools(tmp_path, name), name, **arguments) == expected


@pytest.mark.parametrize(
    ("arguments", "named"), [({}, "a"), ({"a": "1"}, "$.a"), ({"a": 1, "c": 2}, "c")]
)
def test_arguments_that_do_not_fit_the_signature_are_refused_and_named(
    tmp_path: Path, arguments: Any, named: str
):
    error = failed(tools(tmp_path, "add"), "add", **arguments)
    assert error.code == "invalid_arguments"
    assert named in error.message


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fails", "LookupError: no such order \\udc80"),
        ("leaves", "SystemExit"),
        ("cancels", "itself"),
    ],
)
def test_a_function_that_raises_is_a_tool_that_failed(tmp_path: Path, name: str, message: str):
    error = failed(tools(tmp_path, name), name)
    assert error.code == "tool_error"
    assert message in error.message


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("unspeakable_exit", "Unspeakable: (its message cannot be read)"),
        ("unspeakable_interrupt", "Unspeakable: (its message cannot be read)"),
        ("unspeakable_later", "Unspeakable: (its message cannot be read)"),
        ("interrupts", "KeyboardInterrupt: "),
        ("interrupts_later", "KeyboardInterrupt: "),
        ("exits_later", "SystemExit: 3"),
        ("closes", "GeneratorExit: "),
        ("closes_later", "GeneratorExit: the tool closed itself"),
        ("stops", "StopIteration: 7"),
    ],
)
def test_whatever_a_function_raises_the_tools_go_on(tmp_path: Path, name: str, told: str):
    async def use(toolbox: Toolbox) -> None:
        error = await failure(toolbox, name)
        assert (error.code, error.message) == ("tool_error", told)
        assert await call(toolbox, "later", text="x") == "X"

    with_tools(tools(tmp_path, name, "later"), use)


def test_a_function_that_hangs_is_given_up(tmp_path: Path):
    error = failed(tools(tmp_path, "hangs", timeout_s=0.05), "hangs")
    assert (error.code, error.message) == ("tool_timeout", "no answer within 0.05 s")


def test_a_function_that_ignores_being_cancelled_is_left_behind(tmp_path: Path):
    async def use(toolbox: Toolbox) -> None:
        left_behind = asyncio.create_task(failure(toolbox, "stubborn"))
        assert await call(toolbox, "later", text="x") == "X"
        let_time_pass(60)
        assert (await left_behind).code == "tool_timeout"
        await call(toolbox, "stop")  # so that the event loop of this test can end

    with_tools(tools(tmp_path, "stubborn", "later", "stop", timeout_s=60), use)


def test_the_tools_of_one_file_share_its_module(tmp_path: Path):
    path = tmp_path / "counting_functions.py"
    path.write_text("n = 0\ndef up():\n    global n\n    n += 1\ndef count(): return n\n", "utf-8")
    names = ("up", "count")
    entries = [{"name": name, "python": f"counting_functions.py:{name}"} for name in names]

    async def use(toolbox: Toolbox) -> Any:
        await call(toolbox, "up")
        return await call(toolbox, "count")

    assert with_tools(write_tools(tmp_path, *entries), use) == 1


@pytest.mark.parametrize("name", ["many", "strange", "any_keywords"])
def test_a_signature_that_cannot_be_described_needs_parameters(tmp_path: Path, name: str):
    error = refused(tools(tmp_path, name))
    assert isinstance(error, BadInput)
    assert "add parameters" in str(error)


@pytest.mark.parametrize("name", ["add", "later"])
def test_arguments_that_the_function_does_not_take_are_an_error_of_the_tool(
    tmp_path: Path, name: str
):
    error = failed(tools(tmp_path, name, parameters={"type": "object"}), name, z=1)
    assert error.code == "tool_error"
    assert "TypeError" in error.message


def test_parameters_that_would_take_hours_to_check_are_bad_input(tmp_path: Path):
    parts: dict[str, Any] = {"d28": {"type": "string"}}
    for level in range(28):
        parts[f"d{level}"] = {"anyOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 2}
    parameters = {"type": "object", "$defs": parts, "$ref": "#/$defs/d0"}
    error = refused(tools(tmp_path, "any_keywords", parameters=parameters))
    assert isinstance(error, BadInput)
    assert "parameters" in str(error)
    assert "references" in str(error)


def test_with_parameters_any_signature_will_do(tmp_path: Path):
    path = tools(tmp_path, "any_keywords", parameters={"type": "object"})
    assert answer(path, "any_keywords", x=1, y=2) == {"x": 1, "y": 2}


@pytest.mark.parametrize(
    ("ref", "message"),
    [
        ("nowhere.py:add", "nowhere.py: there is no such file"),
        ("shop_functions.py:none", "has no function 'none'"),
        ("shop_functions.py:value", "has no function 'value'"),
        ("shop_functions.py:Address", "has no function 'Address'"),
    ],
)
def test_a_function_that_is_not_there_is_bad_input(tmp_path: Path, ref: str, message: str):
    tools(tmp_path)
    error = refused(write_tools(tmp_path, {"name": "shop:add", "python": ref}))
    assert isinstance(error, BadInput)
    assert message in str(error)
    assert "shop:add" in str(error)


def test_code_that_fails_while_it_is_loaded_is_shown(tmp_path: Path):
    (tmp_path / "broken_functions.py").write_text("import sys\nsys.exit('no licence')", "utf-8")
    error = refused(write_tools(tmp_path, {"name": "x", "python": "broken_functions.py:f"}))
    assert isinstance(error, CannotEvaluate)
    assert "no licence" in str(error)


def test_all_tools_are_closed_though_one_fails_to_close():
    closed = []

    async def close() -> None:
        closed.append("closed")

    async def fail() -> None:
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        asyncio.run(Toolbox(close=[close, fail, close]).close())
    assert closed == ["closed", "closed"]

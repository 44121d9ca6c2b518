"""Tools of MCP servers: programs on standard input and output, or addresses."""

import asyncio
import logging
import os
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from evalwright.agents.http_tools import MAX_ANSWER_BYTES, resolve_headers, variable_value
from evalwright.agents.toolbox import (
    LiveTool,
    ToolDescription,
    ToolFailed,
    abandon,
    within,
)
from evalwright.contracts.errors import BadInput, CannotEvaluate, InvalidDocument
from evalwright.contracts.jsonvalue import NotJson, canonical
from evalwright.contracts.schema import ValueSchema
from evalwright.contracts.tools import ServerEntry

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client.session import IncomingMessage, MessageHandlerFnT
    from mcp.types import Tool as ServerTool

T = TypeVar("T")

CONNECT_SECONDS = 30.0
CLOSE_SECONDS = 10.0  # a program that does not exit is killed before that
MAX_PAGES = 100  # of a server's list of tools
MAX_WORDS = 2000  # quoted from a server: the end of its output, the start of an error

# The package reports every broken line of a server; what matters is in the errors we raise.
logging.getLogger("mcp").addHandler(logging.NullHandler())


class McpServer:
    """A server, connected when it is started, and again when it is called after it went away."""

    def __init__(self, entry: ServerEntry, folder: Path, place: str) -> None:
        self._entry = entry
        self._place = f"{place}: MCP server {entry.name!r}"
        self._connecting = asyncio.Lock()
        self._connection: _Connection | None = None
        self.secrets: dict[str, str] = {}
        self._open = self._opener(folder.resolve())

    async def start(self) -> list[LiveTool]:
        try:
            connection = await self._connected()
            found = await within(CONNECT_SECONDS, connection.finish(_list_tools(connection.client)))
        except ToolFailed as failure:
            wrote = self._connection.last_words() if self._connection else ""
            reason = _printable(failure.message[:MAX_WORDS])
            raise CannotEvaluate(f"{self._place}: {reason}{wrote}") from None
        name, times = max(
            Counter(tool.name for tool in found).items(),
            key=lambda counted: counted[1],
            default=("", 0),
        )
        if times > 1:
            raise CannotEvaluate(f"{self._place}: it lists the tool {name!r} {times} times")
        allow = self._entry.allow
        if allow is None:
            tools = found
        else:
            names = [tool.name for tool in found]
            missing = [name for name in allow if name not in names]
            if missing:
                offered = ", ".join(names) or "none"
                raise BadInput(
                    f"{self._place}: allow: it has no tool {missing[0]!r} (it has: {offered})"
                )
            tools = [tool for tool in found if tool.name in allow]
        for tool in tools:
            for name, schema in (("input", tool.input_schema), ("output", tool.output_schema)):
                if schema is not None:
                    try:
                        ValueSchema(schema, f"{self._place}: tool {tool.name!r}: its {name} schema")
                    except InvalidDocument as error:
                        raise CannotEvaluate(_printable(str(error))) from None
        return [self._tool(tool) for tool in tools]

    async def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        connection = await self._connected()
        # What the tool said: its structured result, or its text, or all of its blocks.
        result = await connection.finish(connection.client.call_tool(tool, arguments))
        blocks = [
            block.model_dump(mode="json", by_alias=True, exclude_none=True)
            for block in result.content
        ]
        texts = [block["text"] for block in blocks if block.get("type") == "text"]
        if result.is_error:
            raise ToolFailed("tool_error", "\n".join(texts) or "the tool failed without a word")
        only_text = len(texts) == len(blocks) == 1
        answer = texts[0] if only_text else blocks
        structured = result.structured_content
        if structured is not None:
            # A result that is not an object is wrapped on the wire; the tool returned its inside.
            is_wrapped = isinstance(structured, dict) and structured.keys() == {"result"}
            answer = structured["result"] if is_wrapped else structured
        try:
            length = len(canonical(answer))
        except NotJson as error:
            raise ToolFailed("tool_error", f"the answer is not JSON: {error}") from None
        if length > MAX_ANSWER_BYTES:
            raise ToolFailed("tool_error", f"the answer is longer than {MAX_ANSWER_BYTES} bytes")
        return answer

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()

    async def _connected(self) -> "_Connection":
        async with self._connecting:
            if self._connection is None or not self._connection.is_open():
                await self.close()
                self._connection = _Connection(self._open)
                await self._connection.wait_until_ready()
            return self._connection

    def _tool(self, tool: "ServerTool") -> LiveTool:
        async def call(arguments: dict[str, Any]) -> Any:
            return await within(self._entry.timeout_s, self.call(tool.name, arguments))

        reads_only = tool.annotations is not None and tool.annotations.read_only_hint is True
        return LiveTool(
            ToolDescription(
                f"mcp:{self._entry.name}.{tool.name}",
                tool.description or "",
                tool.input_schema,
                writes=not reads_only,
            ),
            call,
        )

    def _opener(self, folder: Path) -> "Open":
        entry = self._entry
        if entry.url is not None:
            headers, self.secrets = resolve_headers(entry.headers, entry.url, self._place)
            return _http_opener(entry.url, headers)
        assert entry.command is not None
        program = entry.command[0]
        if shutil.which(folder / program if "/" in program else program) is None:
            raise BadInput(f"{self._place}: command: no executable program {program!r}")
        self.secrets = {name: variable_value(name, self._place) for name in entry.env}
        return _program_opener(entry.command, self.secrets, folder)


class _Connection:
    """One session with a server, held by a task of its own: who enters its contexts leaves them."""

    client: "Client"

    def __init__(self, open_: "Open") -> None:
        self._open = open_
        self._stderr = _Tail()
        self._unanswered: set[asyncio.Future[None]] = set()
        self._ready = asyncio.Event()
        self._closing = asyncio.Event()
        self._holder = asyncio.create_task(self._hold())

    def is_open(self) -> bool:
        return self._ready.is_set() and not (self._closing.is_set() or self._holder.done())

    def last_words(self) -> str:
        """What the program wrote to standard error; never shown to a model."""
        return self._stderr.quoted()

    async def wait_until_ready(self) -> None:
        ready = asyncio.create_task(self._ready.wait())
        try:
            await asyncio.wait(
                (ready, self._holder),
                timeout=CONNECT_SECONDS,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            ready.cancel()
        if not self._ready.is_set():
            reason = self._reason() if self._holder.done() else "it does not answer"
            await self.close()
            raise ToolFailed("tool_unavailable", f"no connection: {reason}")

    async def finish(self, call: Coroutine[Any, Any, T]) -> T:
        calling = asyncio.create_task(call)
        unreadable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._unanswered.add(unreadable)
        try:
            ends = (calling, self._holder, unreadable)
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if unreadable.done() and not calling.done():
                raise ToolFailed("tool_error", "the MCP server's answer cannot be read")
            if not calling.done() or calling.cancelled():
                raise self._went_away()
            from mcp import MCPError
            from mcp.types import CONNECTION_CLOSED

            try:
                return calling.result()
            except MCPError as error:
                if error.code == CONNECTION_CLOSED:
                    await self.close()
                    raise self._went_away() from None
                raise ToolFailed("tool_error", error.message) from None
            except Exception as error:  # noqa: BLE001 - an answer out of shape fails in many ways
                raise ToolFailed("tool_error", f"{type(error).__name__}: {error}") from None
        finally:
            self._unanswered.discard(unreadable)
            abandon(calling)

    async def on_message(self, message: "IncomingMessage") -> None:
        """Fail the call that a broken answer was for, if only one waits: the answer has no id."""
        if len(self._unanswered) == 1 and _is_broken_answer(message):
            (unreadable,) = self._unanswered
            if not unreadable.done():
                unreadable.set_result(None)

    async def close(self) -> None:
        self._closing.set()
        if self._ready.is_set():
            await asyncio.wait((self._holder,), timeout=CLOSE_SECONDS)
        if not self._holder.done():
            self._holder.cancel()
            await asyncio.wait((self._holder,), timeout=CLOSE_SECONDS)
        if self._holder.done() and not self._holder.cancelled():
            self._holder.exception()  # already reported

    async def _hold(self) -> None:
        async with self._open(self._stderr, self.on_message) as client:
            self.client = client
            self._ready.set()
            await self._closing.wait()

    def _went_away(self) -> ToolFailed:
        return ToolFailed("tool_unavailable", f"the MCP server went away: {self._reason()}")

    def _reason(self) -> str:
        if not self._holder.done() or self._holder.cancelled():
            return "the connection was closed"
        error = self._holder.exception()
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        return f"{type(error).__name__}: {error}" if error else "the connection was closed"


class _Tail(asyncio.Protocol):
    def __init__(self) -> None:
        self._text = b""

    def quoted(self) -> str:
        text = self._text.decode("utf-8", "replace").strip()
        return f"; it wrote: {_printable(text)}" if text else ""

    def data_received(self, data: bytes) -> None:
        self._text = (self._text + data)[-MAX_WORDS:]

    @asynccontextmanager
    async def file(self) -> AsyncIterator[TextIO]:
        reading, writing = os.pipe()
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: self, os.fdopen(reading, "rb"))
        try:
            with os.fdopen(writing, "w") as file:
                yield file
        finally:
            transport.close()


Open = Callable[[_Tail, "MessageHandlerFnT"], "AbstractAsyncContextManager[Client]"]


def _program_opener(command: list[str], env: dict[str, str], folder: Path) -> Open:
    @asynccontextmanager
    async def open_client(stderr: _Tail, handler: "MessageHandlerFnT") -> "AsyncIterator[Client]":
        from mcp import Client, StdioServerParameters, stdio_client

        program = StdioServerParameters(command=command[0], args=command[1:], env=env, cwd=folder)
        async with (
            stderr.file() as errors,
            Client(stdio_client(program, errors), message_handler=handler) as client,
        ):
            yield client

    return open_client


def _http_opener(url: str, headers: dict[str, str]) -> Open:
    @asynccontextmanager
    async def open_client(_: _Tail, handler: "MessageHandlerFnT") -> "AsyncIterator[Client]":
        import httpx2
        from mcp import Client
        from mcp.client.streamable_http import streamable_http_client

        async with (
            httpx2.AsyncClient(headers=headers, timeout=None) as http,
            Client(
                streamable_http_client(url, http_client=http), message_handler=handler
            ) as client,
        ):
            yield client

    return open_client


async def _list_tools(client: "Client") -> "list[ServerTool]":
    tools: list[ServerTool] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None:
            return tools
    raise ToolFailed("tool_error", f"its list of tools has more than {MAX_PAGES} pages")


def _is_broken_answer(message: "IncomingMessage") -> bool:
    from pydantic import ValidationError

    if not isinstance(message, ValidationError):
        return False
    errors = message.errors(include_url=False, include_context=False)
    given = [error["input"] for error in errors if isinstance(error["input"], dict | str)]
    return any("jsonrpc" in part and "method" not in part for part in given)


def _printable(text: str) -> str:
    """Words of a server, which no terminal shall obey."""
    return "".join(
        character if character.isprintable() or character == "\n" else repr(character)[1:-1]
        for character in text
    )

"""Command agents: one process per task, a JSON request on stdin, a JSON response on stdout.

A conversation has one process, which is given a line for each turn.
"""

import asyncio
import contextlib
import os
import shlex
import shutil
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from evalwright.agents.protocol import AgentFailure, Invocation
from evalwright.agents.wire import (
    MAX_RESPONSE_BYTES,
    accept_response,
    encode_request,
    opened,
    received,
)
from evalwright.contracts.errors import BadInput
from evalwright.contracts.messages import phrase

if TYPE_CHECKING:
    from evalwright.agents.gateway import Gateway, GatewaySession
    from evalwright.agents.span_receiver import SpanReceiver, TaskSpans

PREFIX = "cmd:"
GATEWAY_VARIABLE = "EVALWRIGHT_TOOL_GATEWAY"
MAX_STDERR = 2000
LOOK_SECONDS = 0.05  # between two looks what a program waits for
_READS_INPUT = (["0", "0x0"], ["63", "0x0"])  # `read` of x86-64 and arm64
REST_SECONDS = 1.0  # for what is still in the pipes when a program has ended


class CommandAgent:
    """An agent that is a program."""

    def __init__(
        self,
        arguments: list[str],
        *,
        ref: str,
        agent_id: str,
        model_class: str | None,
        gateway: "Gateway | None" = None,
        receiver: "SpanReceiver | None" = None,
    ) -> None:
        self.ref = ref
        self.agent_id = agent_id
        self.model_class = model_class
        self.allowed_tools: frozenset[str] | None = None
        self.is_outside = True
        self.reads_memory = True
        self.converses = True
        self.holds_state = False
        self._arguments = arguments
        self._gateway = gateway
        self._receiver = receiver

    async def invoke(self, invocation: Invocation) -> Any:
        """Run the program once; it and its children end with the invocation."""
        if invocation.held is not None:
            return await self._take_turn(invocation, invocation.held)
        async with received(self._receiver, invocation, is_program=True) as spans:
            async with opened(self._gateway, invocation) as tools:
                talk = await self._start(tools, spans)
                try:
                    talk.send(encode_request(invocation, tools, spans))
                    code = await talk.exit_code()
                finally:
                    await talk.end()
            if code != 0:
                raise AgentFailure("agent_error", f"{how_it_ended(code)}: {talk.complaint()}")
            output = accept_response(bytes(talk.output), invocation, tools)
            if spans is not None:
                await invocation.after_answer(spans.settle())
        return output

    async def _take_turn(self, invocation: Invocation, held: AsyncExitStack) -> Any:
        """Give the program of a conversation a line; one that has ended is started again."""
        if invocation.state is None:
            spans = await held.enter_async_context(
                received(self._receiver, invocation, is_program=True)
            )
            if spans is not None:
                held.push_async_callback(_settle, invocation, spans)
            tools = await held.enter_async_context(opened(self._gateway, invocation))
            invocation.state = tools, spans, None
        tools, spans, talk = invocation.state
        code: int | None = 0
        if talk is not None:
            talk.output.clear()
        if talk is not None and not talk.has_ended:
            code = await talk.take_line(encode_request(invocation, tools, spans))
        if talk is None or (code == 0 and not talk.output):  # it has ended after its last answer
            talk = await self._start(tools, spans)
            held.push_async_callback(talk.end)
            invocation.state = tools, spans, talk
            code = await talk.take_line(encode_request(invocation, tools, spans))
        if code:
            raise AgentFailure("agent_error", f"{how_it_ended(code)}: {talk.complaint()}")
        return accept_response(bytes(talk.output), invocation, tools)

    async def _start(self, tools: "GatewaySession | None", spans: "TaskSpans | None") -> "_Talk":
        loop = asyncio.get_running_loop()
        environment = None if spans is None else spans.environment()
        if tools is not None:
            environment = {**(environment or os.environ), GATEWAY_VARIABLE: tools.url}
        try:
            transport, talk = await loop.subprocess_exec(
                lambda: _Talk(loop), *self._arguments, start_new_session=True, env=environment
            )
        except (OSError, ValueError) as error:
            message = (
                f"{self._arguments[0]} cannot be started (does its interpreter exist?): {error}"
            )
            raise AgentFailure("agent_unreachable", message) from None
        talk.transport = transport
        return talk

    async def close(self) -> None:
        """Close the servers; nothing else stays open between tasks."""
        if self._gateway is not None:
            await self._gateway.close()
        if self._receiver is not None:
            await self._receiver.close()


def load_command(
    ref: str,
    agent_id: str | None = None,
    model_class: str | None = None,
    gateway: "Gateway | None" = None,
    receiver: "SpanReceiver | None" = None,
) -> CommandAgent:
    """An agent from `cmd:program argument …`; no shell is involved."""
    try:
        arguments = shlex.split(ref.removeprefix(PREFIX))
    except ValueError as error:
        raise BadInput(phrase("{@agent:{ref}}: {why}", ref=ref, why=str(error))) from None
    if not arguments:
        raise BadInput(phrase("{@agent:cmd:} name a program, for example cmd:./agent.sh"))
    program = shutil.which(arguments[0])
    if program is None and Path(arguments[0]).is_file():
        message = "{@agent:{ref}}: {program} is not executable; try chmod +x"
        raise BadInput(phrase(message, ref=ref, program=arguments[0]))
    if program is None:
        message = "{@agent:{ref}}: there is no program {program!r}"
        raise BadInput(phrase(message, ref=ref, program=arguments[0]))
    return CommandAgent(
        arguments,
        ref=ref,
        agent_id=agent_id or f"local.cmd.{Path(program).stem}",
        model_class=model_class,
        gateway=gateway,
        receiver=receiver,
    )


def how_it_ended(code: int) -> str:
    """The end of a process, in words."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


async def _settle(invocation: Invocation, spans: "TaskSpans") -> None:
    await invocation.after_answer(spans.settle())


def _reads_on(process: int | None) -> bool:
    """Whether a program waits for more input, and does nothing else; only Linux tells."""
    try:
        if len([*Path(f"/proc/{process}/task").iterdir()]) > 1:
            return False
        call = Path(f"/proc/{process}/syscall").read_text().split()
    except OSError:
        return False
    return call[:2] in _READS_INPUT


class _Talk(asyncio.SubprocessProtocol):
    transport: asyncio.SubprocessTransport

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.output = bytearray()
        self._errors = b""
        self._exited: asyncio.Future[None] = loop.create_future()
        self._output_ended: asyncio.Future[None] = loop.create_future()
        self._line: asyncio.Future[None] | None = None  # of a conversation, that is waited for

    @property
    def has_ended(self) -> bool:
        return self._exited.done()

    async def take_line(self, request: bytes) -> int | None:
        """Write a request, and wait for a line of JSON, or for the end of the program: its code.

        A program that reads to the end of its input, as those for single questions do, is given
        that; it ends after its answer.
        """
        self._line = asyncio.get_running_loop().create_future()
        stdin = self.transport.get_pipe_transport(0)
        assert isinstance(stdin, asyncio.WriteTransport)
        stdin.write(request + b"\n")
        wants_end = False
        while not (self._line.done() or self._exited.done()):
            waiting = (self._line, self._exited)
            await asyncio.wait(waiting, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            reads_on = not stdin.get_write_buffer_size() and _reads_on(self.transport.get_pid())
            if reads_on and wants_end and stdin.can_write_eof() and not stdin.is_closing():
                stdin.write_eof()
            wants_end = reads_on
        return None if self._line.done() else await self.exit_code()

    def send(self, request: bytes) -> None:
        """Write the request; a program need not read it."""
        stdin = self.transport.get_pipe_transport(0)
        if isinstance(stdin, asyncio.WriteTransport):
            stdin.write(request)
            stdin.write_eof()

    async def exit_code(self) -> int:
        """Wait for the program to end and for the last of its output.

        Children that it left behind are ended too: they may hold its output open.
        """
        await asyncio.wait((self._exited,))  # a cancelled waiter leaves the future as it is
        self._kill()
        await asyncio.wait((self._output_ended,), timeout=REST_SECONDS)
        if len(self.output) > MAX_RESPONSE_BYTES:
            message = f"the answer is longer than {MAX_RESPONSE_BYTES} bytes"
            raise AgentFailure("invalid_answer", message)
        code = self.transport.get_returncode()
        return -1 if code is None else code

    async def end(self) -> None:
        """End the program, whatever it is doing, with all of its process group."""
        self._kill()
        await asyncio.wait((self._exited,), timeout=REST_SECONDS)
        self.transport.close()

    def complaint(self) -> str:
        errors = self._errors
        if len(errors) == MAX_STDERR:
            errors = errors.split(None, 1)[-1]
        return errors.decode("utf-8", "replace").strip() or "nothing on stderr"

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self._errors = (self._errors + data)[-MAX_STDERR:]
        elif len(self.output) <= MAX_RESPONSE_BYTES:
            self.output += data
            if self._line is not None and not self._line.done() and data.endswith(b"\n"):
                with contextlib.suppress(msgspec.MsgspecError, RecursionError):
                    msgspec.json.decode(self.output)
                    self._line.set_result(None)
        else:
            self._kill()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002
        if fd == 1 and not self._output_ended.done():
            self._output_ended.set_result(None)

    def process_exited(self) -> None:
        if not self._exited.done():
            self._exited.set_result(None)

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.transport.get_pid(), signal.SIGKILL)

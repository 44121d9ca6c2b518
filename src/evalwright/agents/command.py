"""Command agents: one process per task, a JSON request on stdin, a JSON response on stdout."""

import asyncio
import contextlib
import os
import shlex
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

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


class _Talk(asyncio.SubprocessProtocol):
    transport: asyncio.SubprocessTransport

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.output = bytearray()
        self._errors = b""
        self._exited: asyncio.Future[None] = loop.create_future()
        self._output_ended: asyncio.Future[None] = loop.create_future()

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

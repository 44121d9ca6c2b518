"""Command agents: one process per task, a JSON request on stdin, a JSON response on stdout."""

import asyncio
import contextlib
import os
import shlex
import shutil
import signal
from pathlib import Path
from typing import Any

from evalwright.agents.protocol import AgentFailure, Invocation
from evalwright.agents.wire import MAX_RESPONSE_BYTES, accept_response, encode_request
from evalwright.contracts.errors import BadInput

PREFIX = "cmd:"
MAX_STDERR = 2000


class CommandAgent:
    """An agent that is a program."""

    def __init__(
        self, arguments: list[str], *, ref: str, agent_id: str, model_class: str | None
    ) -> None:
        self.ref = ref
        self.agent_id = agent_id
        self.model_class = model_class
        self._arguments = arguments

    async def invoke(self, invocation: Invocation) -> Any:
        """Run the program once; it and its children end with the invocation."""
        try:
            process = await asyncio.create_subprocess_exec(
                *self._arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            message = f"{self._arguments[0]} cannot be started: {error.strerror}"
            raise AgentFailure("agent_unreachable", message) from None
        try:
            output, errors = await _talk(process, encode_request(invocation))
            code = await process.wait()
        finally:
            _end(process)
        if code != 0:
            message = f"exit code {code}: {_tail(errors)}"
            raise AgentFailure("agent_error", message)
        return accept_response(output, invocation)

    async def close(self) -> None:
        """Nothing stays open between tasks."""


def load_command(
    ref: str, agent_id: str | None = None, model_class: str | None = None
) -> CommandAgent:
    """An agent from `cmd:program argument …`; no shell is involved."""
    try:
        arguments = shlex.split(ref.removeprefix(PREFIX))
    except ValueError as error:
        raise BadInput(f"--agent {ref}: {error}") from None
    if not arguments:
        raise BadInput("--agent cmd: name a program, for example cmd:./agent.sh")
    program = shutil.which(arguments[0])
    if program is None:
        raise BadInput(f"--agent {ref}: there is no program {arguments[0]!r}")
    return CommandAgent(
        arguments,
        ref=ref,
        agent_id=agent_id or f"local.cmd.{Path(program).stem}",
        model_class=model_class,
    )


async def _talk(process: asyncio.subprocess.Process, request: bytes) -> tuple[bytes, bytes]:
    assert process.stdout is not None
    assert process.stderr is not None
    _, output, errors = await asyncio.gather(
        _send(process, request),
        _read(process.stdout, MAX_RESPONSE_BYTES),
        _read_end(process.stderr),
    )
    return output, errors


async def _send(process: asyncio.subprocess.Process, request: bytes) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it need not read it all
        process.stdin.write(request)
        await process.stdin.drain()
    process.stdin.close()


async def _read(stream: asyncio.StreamReader, limit: int) -> bytes:
    chunks, size = [], 0
    while chunk := await stream.read(65536):
        size += len(chunk)
        if size > limit:
            raise AgentFailure("invalid_answer", f"the answer is longer than {limit} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


async def _read_end(stream: asyncio.StreamReader) -> bytes:
    kept = b""
    while chunk := await stream.read(65536):
        kept = (kept + chunk)[-MAX_STDERR:]
    return kept


def _end(process: asyncio.subprocess.Process) -> None:
    """End the whole process group: a program may have left children behind."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _tail(errors: bytes) -> str:
    return errors.decode("utf-8", "replace").strip() or "nothing on stderr"

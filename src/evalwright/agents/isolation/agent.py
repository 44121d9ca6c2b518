"""An agent of the user's own code, in child processes: one for each task that is worked on at once.

A process stays for the next task. Where the agent is out of time it is killed; where the agent ends
it, the task fails and says how. Another takes its place in both cases.
"""

import asyncio
import logging
import operator
import os
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any, cast

import msgspec

from evalwright.agents.account import SeenCall
from evalwright.agents.command import how_it_ended
from evalwright.agents.isolation import frames
from evalwright.agents.isolation.frames import (
    CLOSED_DESCRIPTORS,
    AskedModel,
    CalledOutside,
    EndedTask,
    Frames,
    GivenTask,
    Load,
    Loaded,
    Lost,
    NotLoaded,
    Observed,
    OfferedTool,
    Recorded,
    ToolAnswered,
    ToolAsked,
    ToProcess,
    ToRun,
    framed,
)
from evalwright.agents.protocol import Agent, AgentFailure, Invocation
from evalwright.agents.python import PythonAgent
from evalwright.agents.toolbox import ToolFailed
from evalwright.agents.user_code import file_of
from evalwright.contracts.errors import AgentBroken, BadInput
from evalwright.contracts.events import PAYLOADS, ErrorDetail, ProviderUsage, ToolCalled
from evalwright.contracts.jsonvalue import NotJson, canonical
from evalwright.contracts.messages import phrase

_START = (
    "import sys; sys.path[:] = {paths!r}; "
    "from evalwright.agents.isolation.process import main; main({descriptor})"
)
_OF_PROCESS = "evalwright.agents.isolation.process"
_READ_BYTES = 1 << 16
_EXIT_SECONDS = 2.0  # for exit handlers of the agent, as at the end of a run
_ENDING_SECONDS = 0.5  # between the end of a connection and that of its process
_LOOK_SECONDS = 0.01  # between two looks whether a process has ended
_PROCESSORS = os.cpu_count() or 1
_UNPACED = 256  # messages, after which a fast agent waits for the disk
_logger = logging.getLogger(__name__)
_decode = msgspec.json.Decoder(ToRun).decode


class IsolatedAgent:
    """A Python agent whose code never runs in this process."""

    def __init__(
        self,
        ref: str,
        *,
        code: str,
        agent_id: str | None,
        model_class: str | None,
        loads: bool = True,
    ) -> None:
        """`code` is the reference of what is loaded: by a first process at once, if it `loads`.

        Otherwise by those that work on tasks; whoever reads of those is not told why one cannot.
        """
        self.ref = ref
        self.allowed_tools: frozenset[str] | None = None
        self.is_outside = False
        self.reads_memory = True
        self.converses = True
        self.holds_state = False
        self._loads = loads
        self._code = code
        self._processes: set[AgentSlot] = set()
        self._idle: list[AgentSlot] = []
        self._loading: set[AgentSlot] = set()
        self._ready: deque[AgentSlot] = deque()  # for who invokes next
        self._waiting: deque[asyncio.Future[AgentSlot]] = deque()
        self.agent_id, self.model_class = agent_id or "", model_class
        if loads:
            first = AgentSlot(self, code)
            loaded = first.load()
            self._processes.add(first)
            self._idle.append(first)
            self.agent_id = agent_id or loaded.agent_id
            self.model_class = model_class or loaded.model_class
            self.holds_state = loaded.holds_state

    async def ready(self) -> None:
        """Wait until there is a process that can begin at once: to start one is not the task's."""
        wanted = asyncio.get_running_loop().create_future()
        self._waiting.append(wanted)
        self._supply()
        try:
            slot = await wanted
            await slot.connect()
        except asyncio.CancelledError:
            if wanted.done() and not wanted.cancelled():
                self.is_free(wanted.result())
            raise
        self._ready.append(slot)

    def invoke(self, invocation: Invocation) -> Awaitable[Any]:
        """Have a process work on the task; it is killed if nobody waits for the answer any more."""
        slot = invocation.state or self._ready.popleft()
        if invocation.held is not None and invocation.state is None:
            invocation.state = slot
            slot.is_held = True
            invocation.held.callback(slot.release)
        return cast("AgentSlot", slot).ask(invocation)

    async def close(self) -> None:
        self._waiting.clear()
        leaving = list(self._processes)
        for each in leaving:
            each.leave()
        deadline = time.monotonic() + _EXIT_SECONDS
        try:
            while time.monotonic() < deadline and any(  # noqa: ASYNC110 - other processes
                each.is_alive for each in leaving
            ):
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            for each in leaving:
                each.kill()
            for each in leaving:
                each.wait()

    def told(self, why_not: str) -> str:
        if self._loads:
            return why_not
        _logger.error("cannot load agent %s: %s", self.agent_id, why_not)
        return f"agent {self.agent_id} cannot be loaded; ask the operator of the host"

    def is_free(self, slot: "AgentSlot") -> None:
        """Have a process that is loaded, or has worked on its task, work on the next."""
        self._loading.discard(slot)
        self._idle.append(slot)
        self._supply()

    def has_ended(self, slot: "AgentSlot", error: ErrorDetail | None = None) -> None:
        """Do without a process; with an error it could not be loaded."""
        self._processes.discard(slot)
        if slot in self._idle:
            self._idle.remove(slot)
        if slot in self._loading:
            self._loading.discard(slot)
            while self._waiting:
                if not (wanted := self._waiting.popleft()).done():
                    slot.error = error
                    wanted.set_result(slot)
                    break
        self._supply()

    def _supply(self) -> None:
        """Give free processes to who waits; start more, as many at once as there are processors."""
        while self._waiting and self._waiting[0].done():
            self._waiting.popleft()
        while self._idle and self._waiting:
            wanted = self._waiting.popleft()
            if not wanted.done():
                wanted.set_result(self._idle.pop())
        while len(self._loading) < min(len(self._waiting), _PROCESSORS):
            slot = AgentSlot(self, self._code)
            self._processes.add(slot)
            self._loading.add(slot)
            self._connecting = asyncio.get_running_loop().create_task(slot.connect())


def isolated(agent: Agent) -> Agent:
    """The same agent in other processes; raises `BadInput` where they cannot load its function."""
    if not isinstance(agent, PythonAgent):
        return agent
    function = agent.function
    name = getattr(function, "__qualname__", repr(function))
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    try:
        is_there = operator.attrgetter(name)(module) is function
    except AttributeError:
        is_there = False
    file = file_of(function) if is_there else None
    if not is_there or (file is None and function.__module__ == "__main__"):
        raise BadInput(
            phrase(
                "{@isolate}: {name} cannot be loaded by another process: "
                "define it as a function at the top of a module or a file",
                name=name,
            )
        )
    is_in_package = "." in function.__module__
    code = f"{function.__module__ if file is None or is_in_package else file}:{name}"
    return IsolatedAgent(
        agent.ref, code=code, agent_id=agent.agent_id, model_class=agent.model_class
    )


class AgentSlot(asyncio.Protocol):
    """One process of an agent, and the task that it works on."""

    def __init__(self, agent: IsolatedAgent, code: str) -> None:
        if _OF_PROCESS in sys.modules:
            raise BadInput(
                phrase(
                    "{@isolate}: {code} starts an isolated run while it is loaded as an agent; "
                    'start runs below `if __name__ == "__main__":`',
                    code=code,
                )
            )
        self._agent = agent
        self.error: ErrorDetail | None = None  # why it cannot work
        self.is_held = False  # by a conversation, also between its turns
        self._frames = Frames(frames.MOST_FROM_PROCESS)
        self._transport: asyncio.Transport | None = None
        self._invocation: Invocation | None = None
        self._answer: asyncio.Future[Any] | None = None
        self._calls: set[asyncio.Task[None]] = set()  # of live tools
        self._unpaced = 0
        ours, theirs = socket.socketpair()
        self._connection = ours
        start = _START.format(paths=sys.path, descriptor=theirs.fileno())
        try:
            with theirs:
                self._process = subprocess.Popen(  # noqa: S603 - our own interpreter
                    [sys.executable, "-c", start],
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
            ours.sendall(framed(Load(code, sys.argv, sys.path, os.getpid())))
        except OSError as error:
            ours.close()
            raise AgentBroken(
                f"no process can be started for an isolated agent: {error.strerror}"
            ) from None

    def load(self) -> Loaded:
        try:
            while data := self._connection.recv(_READ_BYTES):
                for body in self._frames.of(data):
                    told = _decode(body)
                    if isinstance(told, Loaded):
                        return told
                    assert isinstance(told, NotLoaded)
                    raise (AgentBroken if told.is_broken else BadInput)(told.message)
            code = self._process.wait(_EXIT_SECONDS)
            raise AgentBroken(
                phrase(
                    "{@agent:{ref}}: the agent's code ended its process while it was loaded: {how}",
                    ref=self._agent.ref,
                    how=how_it_ended(code),
                )
            )
        except BaseException:
            self.kill()
            self.wait()
            raise

    @property
    def is_alive(self) -> bool:
        if self._process.returncode is not None:
            return False
        if not hasattr(os, "waitid"):
            return self._process.poll() is None
        try:
            looking = os.WEXITED | os.WNOHANG | os.WNOWAIT
            return os.waitid(os.P_PID, self._process.pid, looking) is None
        except ChildProcessError:  # somebody else has waited for it
            return False

    async def connect(self) -> None:
        if self._transport is None and self.error is None:
            self._connection.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.create_connection(lambda: self, sock=self._connection)

    def ask(self, invocation: Invocation) -> "asyncio.Future[Any]":
        loop = asyncio.get_running_loop()
        self._answer = answer = loop.create_future()
        if self.error is not None:
            answer.set_exception(AgentFailure(self.error.code, self.error.message))
            return answer
        self._invocation = invocation
        answer.add_done_callback(self._answered)
        task, around = invocation.task, invocation.surroundings
        answered = None  # by the run: worlds and faults are there
        if not around.live and (task.world or task.faults):
            answered = [invocation.describe(each) for each in invocation.tools.names()]
        asked = GivenTask(
            invocation.run_id,
            invocation.invocation_id,
            invocation.agent_id,
            task.task_id,
            task.input,
            task.fixtures if answered is None else None,
            list(invocation.memory()),
            around.live,
            around.read_only,
            [
                OfferedTool(tool.description, tool.call is not None)
                for name in (around.toolbox.names() if around.live else ())
                if (tool := around.toolbox.find(name)) is not None
            ],
            around.observe,
            answered,
            invocation.turn,
            invocation.messages,
            invocation.session,
        )
        try:
            self._send(asked)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            self._invocation = None
            answer.set_exception(AgentFailure("agent_error", f"the input is not JSON: {error}"))
        return answer

    def _send(self, message: ToProcess) -> None:
        assert self._transport is not None
        self._transport.write(framed(message))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # of uvloop in a host

    def data_received(self, data: bytes) -> None:
        try:
            for body in self._frames.of(data):
                self._receive(_decode(body))
                self._unpaced += 1
        except (msgspec.MsgspecError, LookupError):  # the agent has written to the connection
            self.error = ErrorDetail("agent_error", "the agent's process cannot be understood")
            self.kill()
            return
        except frames.MessageTooLongError:
            most = frames.MOST_FROM_PROCESS // 1024**2
            reason = f"the agent's process sent more than {most} MiB at once"
            self.error = ErrorDetail("agent_error", reason)
            self.kill()
            return
        if self._unpaced > _UNPACED and self._invocation is not None and self._transport:
            self._unpaced = 0
            self._transport.pause_reading()
            self._pause = asyncio.get_running_loop().create_task(self._go_on(self._invocation))

    async def _go_on(self, invocation: Invocation) -> None:
        await invocation.keep_pace()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def _receive(self, told: ToRun) -> None:
        invocation, answer = self._invocation, self._answer
        if isinstance(told, Loaded):
            self._agent.holds_state = told.holds_state
            self._agent.is_free(self)
        elif isinstance(told, NotLoaded):
            self.error = ErrorDetail("agent_error", self._agent.told(told.message))
        elif invocation is None or answer is None or answer.done():
            return
        elif isinstance(told, Recorded):
            payload = msgspec.json.decode(told.payload, type=PAYLOADS[told.kind])
            if isinstance(payload, ProviderUsage):
                invocation.report_usage(payload, is_whole=False)
                return
            if isinstance(payload, ToolCalled):
                invocation.called.append(
                    SeenCall(payload.tool_name, payload.call_id, payload.inputs)
                )
            invocation.record(payload)
        elif isinstance(told, Observed):
            invocation.observe(told.part, told.how)
        elif isinstance(told, Lost):
            invocation.lose(told.why)
        elif isinstance(told, CalledOutside):
            invocation.called_outside.append(told.tool)
        elif isinstance(told, AskedModel):
            invocation.note_model(told.model)
        elif isinstance(told, ToolAsked):
            call = asyncio.get_running_loop().create_task(self._call_tool(invocation, told))
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)
        elif isinstance(told, EndedTask):
            invocation.refused, invocation.took_s = told.refused, told.took_s
            invocation.is_session_known = told.session is not None
            invocation.session = told.session or {}
            self._invocation = None
            if told.error is None:
                answer.set_result(told.output)
            else:
                error = told.error
                answer.set_exception(AgentFailure(error.code, error.message, error.details))

    async def _call_tool(self, invocation: Invocation, asked: ToolAsked) -> None:
        if not invocation.surroundings.live:
            reply = await invocation.reply(asked.name, asked.arguments)
            self._send(ToolAnswered(asked.number, *reply[:5]))
            return
        tool = invocation.surroundings.toolbox.find(asked.name)
        assert tool is not None
        assert tool.call is not None
        try:
            answer = canonical(await tool.call(msgspec.json.decode(asked.arguments))).encode()
            answered = ToolAnswered(asked.number, msgspec.Raw(answer))
        except ToolFailed as failure:
            error = ErrorDetail(failure.code, failure.message)
            answered = ToolAnswered(asked.number, error=error)
        except NotJson as failure:
            error = ErrorDetail("tool_error", f"the tool's answer is not a JSON value: {failure}")
            answered = ToolAnswered(asked.number, error=error)
        self._send(answered)

    def _answered(self, _answer: "asyncio.Future[Any]") -> None:
        """Take the next task, unless the agent has not answered this one and nobody waits."""
        for call in self._calls:
            call.cancel()
        if self._invocation is None:
            if self.error is None and not self.is_held:
                self._agent.is_free(self)
        else:
            self._invocation, self.is_held = None, False
            self.kill()

    def release(self) -> None:
        """A conversation has ended."""
        if self.is_held and self.error is None:
            self._agent.is_free(self)
        self.is_held = False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._find_ending(asyncio.get_running_loop(), time.monotonic() + _ENDING_SECONDS)

    def _find_ending(self, loop: asyncio.AbstractEventLoop, deadline: float) -> None:
        if self.is_alive and time.monotonic() < deadline:
            loop.call_later(_LOOK_SECONDS, self._find_ending, loop, deadline)
            return
        was_alive = self.is_alive
        self.kill()
        self.wait()
        code = self._process.returncode
        if was_alive or code in (CLOSED_DESCRIPTORS, None):
            how = "has closed its connection to the run"
        else:
            how = f"ended: {how_it_ended(code)}"
            if code == -signal.SIGKILL:
                how += ", as the system does where memory runs out"
        error = self.error or ErrorDetail("agent_error", f"the agent's process {how}")
        invocation, self._invocation = self._invocation, None
        self.error = error
        if invocation is not None and self._answer is not None and not self._answer.done():
            self._answer.set_exception(AgentFailure(error.code, error.message))
        self._agent.has_ended(self, error)

    def leave(self) -> None:
        if self._transport is not None:
            self._transport.close()
        else:
            self._connection.close()

    def kill(self) -> None:
        if self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        if self._transport is not None:
            self._transport.abort()
        else:
            self._connection.close()

    def wait(self) -> None:
        with suppress(subprocess.TimeoutExpired, ChildProcessError):
            self._process.wait(_EXIT_SECONDS)

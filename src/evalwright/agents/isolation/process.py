"""The process of an isolated agent: it loads the agent, and works on one task after the other.

The agent is the one that works in the process of a run elsewhere, and so is the invocation; but
what is recorded of it, and calls of live tools, go to the run.
"""

import asyncio
import ctypes
import errno
import itertools
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import msgspec

from evalwright.agents.account import SeenCall
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
from evalwright.agents.protocol import AgentFailure, Invocation, InvocationEnded, Surroundings
from evalwright.agents.python import PythonAgent, load_python
from evalwright.agents.span_capture import record_captured
from evalwright.agents.task_tools import LaterReply, TaskTools, ToolReply
from evalwright.agents.toolbox import LiveTool, Memory, Toolbox, ToolDescription, ToolFailed
from evalwright.contracts.coverage import Part
from evalwright.contracts.errors import AgentBroken, BadInput
from evalwright.contracts.events import ErrorDetail, Payload
from evalwright.contracts.suite import Expected, Task

_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
_READ_BYTES = 1 << 16
_UNKNOWN = Expected("golden")  # what is expected of an answer is not the agent's business
_EXIT_SECONDS = 2.0  # that threads and exit handlers of the agent may take
_decode = msgspec.json.Decoder(ToProcess).decode


class TalkToRun:
    """The connection to the run; threads of the agent write to it as well."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._frames = Frames()
        self._writing = threading.Lock()
        # A copy of this process that the agent forks must not seem to be this one.
        os.register_at_fork(after_in_child=connection.close)

    def send(self, message: ToRun) -> None:
        data = framed(message)
        with self._writing:
            self._connection.sendall(data)

    def receive(self) -> list[ToProcess] | None:
        """What has arrived, waiting if nothing has; None if the run is gone."""
        data = self._connection.recv(_READ_BYTES)
        return [_decode(body) for body in self._frames.of(data)] if data else None


class ToldInvocation(Invocation):
    """One task given to the agent of this process: the run is told what becomes of it."""

    def __init__(self, ask: GivenTask, talk: TalkToRun, tools: "ToolsOfRun") -> None:
        self._talk = talk
        self._seed = ask.memory
        super().__init__(
            run_id=ask.run_id,
            invocation_id=ask.invocation_id,
            agent_id=ask.agent_id,
            task=Task(ask.task_id, ask.input, _UNKNOWN, ask.fixtures),
            record=self._send,
            keep_pace=_keep_pace,
            surroundings=Surroundings(
                tools.toolbox(ask.tools), ask.live, ask.read_only, observe=ask.observe
            ),
        )
        if ask.answered is not None:
            self.tools = RemoteTools(ask.answered, tools.reply)

    def _send(self, payload: Payload) -> None:
        self._talk.send(Recorded(payload.TYPE, msgspec.Raw(msgspec.json.encode(payload))))

    def memory(self) -> Memory:
        return Memory(self._seed)

    def observe(self, part: Part, how: str) -> None:
        if how not in (self._observed or {}).get(part, ()):
            self._talk.send(Observed(part, how))
        super().observe(part, how)

    def lose(self, why: str) -> None:
        self._talk.send(Lost(why))
        super().lose(why)

    def lose_call(self, tool: str, why: str) -> None:
        self._talk.send(CalledOutside(tool))
        super().lose_call(tool, why)

    def note_model(self, model: str) -> None:
        self._talk.send(AskedModel(model))
        super().note_model(model)

    def note_call(
        self, tool: str, inputs: Any = msgspec.UNSET, *, also: str | None = None,
        outside: bool = False,
    ) -> SeenCall:  # fmt: skip
        """Give the next call its id; the run is told where it was called."""
        if outside:
            self._talk.send(CalledOutside(tool))
        return super().note_call(tool, inputs, also=also, outside=outside)


async def _keep_pace() -> None:
    """The run reads no faster than it writes; sending waits for it."""


class ToolsOfRun:
    """The tools that the run calls for the agent: live ones, and those of its tasks.

    `receive` does what a message says.
    """

    def __init__(self, talk: TalkToRun, receive: Callable[[ToProcess], None]) -> None:
        self._talk = talk
        self._receive = receive
        self._asked: dict[int, Future[ToolAnswered]] = {}
        self._numbers = itertools.count(1)

    def toolbox(self, offered: list[OfferedTool]) -> Toolbox:
        return Toolbox(
            LiveTool(each.description, self._call(each) if each.can_be_called else None)
            for each in offered
        )

    def _call(self, tool: OfferedTool) -> Any:
        async def call(arguments: dict[str, Any]) -> Any:
            given = msgspec.Raw(msgspec.json.encode(arguments))
            answered = await asyncio.wrap_future(self._ask(tool.description.name, given))
            if answered.error is not None:
                raise ToolFailed(answered.error.code, answered.error.message)
            return msgspec.json.decode(answered.answer)

        return call

    def reply(self, name: str, arguments: msgspec.Raw) -> ToolReply:
        """What the run answers by the tools of the task; to be waited for in any thread."""
        answer = self._ask(name, arguments)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            answered = answer.result()
        else:  # who would read the answer waits for it
            while not answer.done():
                messages = self._talk.receive()
                if messages is None:
                    raise InvocationEnded  # the run is gone
                for message in messages:
                    self._receive(message)
            answered = answer.result()
        error, status = answered.error, answered.status
        return ToolReply(answered.answer, error, status, answered.for_model, answered.fault)

    def _ask(self, name: str, arguments: msgspec.Raw) -> "Future[ToolAnswered]":
        number = next(self._numbers)
        answer: Future[ToolAnswered] = Future()
        self._asked[number] = answer
        self._talk.send(ToolAsked(number, name, arguments))
        return answer

    def answer(self, answered: ToolAnswered) -> None:
        answer = self._asked.pop(answered.number, None)
        if answer is not None and not answer.cancelled():
            answer.set_result(answered)


class RemoteTools(TaskTools):
    """The tools of a task that the run answers."""

    def __init__(
        self,
        described: list[ToolDescription],
        reply: Callable[[str, msgspec.Raw], ToolReply],
    ) -> None:
        super().__init__(None)
        self._tools = {each.name: each for each in described}
        self._reply_of_run = reply

    def names(self) -> list[str]:
        return list(self._tools)

    def describe(self, name: str) -> ToolDescription | None:
        return self._tools.get(name)

    def answer(self, tool: str, arguments: msgspec.Raw) -> LaterReply:
        return lambda: self._reply_of_run(tool, arguments)


class AgentProcess:
    """An agent that is loaded, and what it works on."""

    def __init__(self, agent: PythonAgent, talk: TalkToRun) -> None:
        self._agent = agent
        self._talk = talk
        self._tools = ToolsOfRun(talk, self.receive)
        self._working: set[asyncio.Task[None]] = set()
        self._conversation: ToldInvocation | None = None

    def receive(self, message: ToProcess) -> None:
        if isinstance(message, ToolAnswered):
            self._tools.answer(message)
        elif isinstance(message, GivenTask):
            task = asyncio.get_running_loop().create_task(self._work(message))
            self._working.add(task)
            task.add_done_callback(self._working.discard)

    async def _work(self, ask: GivenTask) -> None:
        invocation = self._conversation if ask.turn else None
        if invocation is None or invocation.invocation_id != ask.invocation_id:
            invocation = ToldInvocation(ask, self._talk, self._tools)
            invocation.session = ask.session
        self._conversation = invocation if ask.turn else None
        invocation.turn, invocation.messages = ask.turn, ask.messages
        invocation.restart_watch()
        output, error = None, None
        try:
            output = await self._agent.invoke(invocation)
        except AgentFailure as failure:
            error = failure.error
        except asyncio.CancelledError:
            error = ErrorDetail("agent_error", "the agent cancelled itself")
        except (GeneratorExit, KeyboardInterrupt) as left:
            error = ErrorDetail("agent_error", type(left).__name__)
        finally:
            invocation.output = output
            record_captured(invocation)
            invocation.captured = None
            if ask.turn == 0:
                invocation.end()
        session = invocation.recorded_session()
        ended = EndedTask(output, error, invocation.refused, invocation.took_s or 0.0, session)
        try:
            self._talk.send(ended)
        except (TypeError, ValueError, OverflowError, RecursionError) as failure:
            message = f"the output is not a JSON value: {failure}"
            self._talk.send(EndedTask(error=ErrorDetail("invalid_answer", message)))


def main(descriptor: int) -> None:
    """Serve the run at the other end of a connection, until it is gone."""
    connection = socket.socket(fileno=descriptor)
    connection.set_inheritable(False)
    talk = TalkToRun(connection)
    first = talk.receive()
    while first == []:
        first = talk.receive()
    if not first or not isinstance(load := first.pop(0), Load):
        return
    # End with the run, also while the agent holds the interpreter.
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != load.run_process:  # it is gone already
        os._exit(0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # which has no traceback
    sys.argv[1:] = load.arguments[1:]
    sys.path[:] = load.paths
    with suppress(BrokenPipeError):  # the run has ended meanwhile
        try:
            agent = load_python(load.ref)
        except (BadInput, AgentBroken) as error:
            talk.send(NotLoaded(str(error), isinstance(error, AgentBroken)))
            return
        talk.send(Loaded(agent.agent_id, agent.model_class, agent.holds_state))
        _serve(AgentProcess(agent, talk), connection, talk, first)
    last_resort = threading.Timer(_EXIT_SECONDS, os._exit, (0,))
    last_resort.daemon = True
    last_resort.start()


def _serve(
    process: AgentProcess, connection: socket.socket, talk: TalkToRun, waiting: list[ToProcess]
) -> None:
    loop = asyncio.new_event_loop()
    has_run = True

    def read() -> None:
        nonlocal has_run
        try:
            messages = talk.receive()
        except OSError:
            messages = None
        if messages is None:
            has_run = False
            loop.stop()
        else:
            for message in messages:
                process.receive(message)

    for message in waiting:
        loop.call_soon(process.receive, message)
    loop.add_reader(connection, read)
    while has_run:  # the agent may stop the loop, or raise `SystemExit` in a task of its own
        try:
            loop.run_forever()
        except (SystemExit, RuntimeError):
            continue
        except OSError as error:  # it has closed what is not its own
            if error.errno != errno.EBADF:
                raise
            os._exit(CLOSED_DESCRIPTORS)

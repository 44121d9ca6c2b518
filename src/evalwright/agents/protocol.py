"""What the engine asks of an agent, and what an agent may do while it is invoked."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import AsyncExitStack, suppress
from typing import Any, Literal, NamedTuple, Protocol

import msgspec
from msgspec import UNSET, UnsetType

from evalwright.agents.account import (
    Account,
    SeenCall,
    Thought,
    ToldCall,
    ToldReturn,
    already_seen,
    new_usages,
)
from evalwright.agents.context import in_progress
from evalwright.agents.span_capture import Captured
from evalwright.agents.task_tools import TaskTools, ToolReply
from evalwright.agents.toolbox import (
    LiveTool,
    Memory,
    Toolbox,
    ToolDescription,
    ToolError,
    ToolFailed,
)
from evalwright.agents.user_code import Threads
from evalwright.agents.worlds import PreparedWorld
from evalwright.contracts.attachments import Attached
from evalwright.contracts.coverage import NOTHING_OBSERVED, Coverage, Observe, Part, coverage_of
from evalwright.contracts.events import (
    ErrorDetail,
    Payload,
    ProviderUsage,
    Reasoned,
    ToolCalled,
    ToolReturned,
    UserSaid,
    WorldChanged,
)
from evalwright.contracts.jsonvalue import NotJson, canonical, plain
from evalwright.contracts.redaction import NOTHING_SECRET, Redactor
from evalwright.contracts.suite import FaultKind, Task

Record = Callable[[Payload], None]
CANCELLED_ITSELF = "the agent cancelled itself"
MOST_SESSION = 100_000  # bytes of what an agent keeps between turns
KeepPace = Callable[[], Awaitable[None]]  # waits while too much is queued for the disk


class AgentFailure(Exception):
    """The agent gave no usable answer; the code says in which way."""

    def __init__(self, code: str, message: str, details: dict[str, Any] | None = None) -> None:
        self.error = ErrorDetail(code, message or code, details)
        super().__init__(f"{code}: {message}")


class InvocationEnded(RuntimeError):
    """Raised in an agent that continues after its invocation has ended, for example by timeout."""

    def __init__(self) -> None:
        super().__init__("this invocation has ended; nothing more is recorded for it")


class Agent(Protocol):
    """A subject under evaluation."""

    agent_id: str  # the id that events carry
    ref: str  # how the agent is reached, as it may be written down
    model_class: str | None  # the class of model behind it, where it is known
    allowed_tools: frozenset[str] | None  # the tools it may call; None: all that there are
    is_outside: bool  # in another process, where it may call tools unseen
    reads_memory: bool  # whether it can see the memory of a task
    converses: bool  # whether it is invoked for each turn of a conversation
    holds_state: bool  # of a conversation, besides its session: it cannot go on with one later

    def invoke(self, invocation: "Invocation") -> Awaitable[Any]:
        """Work on one task and return the output; raises `AgentFailure`.

        A coroutine has a task of its own. An agent that takes no turn of the event loop may return
        a future, which costs less. If it has a method `ready`, that is awaited before each task,
        and takes none of the task's time.
        """

    async def close(self) -> None: ...


class Surroundings(msgspec.Struct, frozen=True):
    """What all invocations of a run share: its tools, and whether they are live."""

    toolbox: Toolbox = msgspec.field(default_factory=Toolbox)
    live: bool = False  # ignore fixtures, call the tools themselves
    read_only: bool = False
    redactor: Redactor = NOTHING_SECRET
    price: Callable[[ProviderUsage], float | None] | None = None  # of a model call, where known
    observe: Observe = "auto"  # whether spans of agents in this process are captured
    worlds: Mapping[str, PreparedWorld] = {}  # of the suite
    seed: int = 0  # of ids that worlds make, and of faults
    attachments: Mapping[str, Attached] = {}  # of inputs

    def tools_of(self, task: Task, invocation_id: str = "") -> TaskTools:
        """What answers the tools of a task, fresh for an invocation."""
        if self.live:
            return TaskTools(None)
        repetition = invocation_id.partition("-r")[2].partition(".")[0]
        return TaskTools(task, self.worlds.get(task.world), self.seed, repetition)


def offered_tools(
    surroundings: Surroundings, tools: TaskTools, allowed: frozenset[str] | None
) -> list[str]:
    """The tools that answer in an invocation and that the agent may call."""
    known = surroundings.toolbox.names() if surroundings.live else tools.names()
    return [name for name in known if allowed is None or name in allowed]


class Invocation:
    """One task given to an agent once: everything it does is recorded through this."""

    def __init__(
        self,
        *,
        run_id: str,
        invocation_id: str,
        agent_id: str,
        task: Task,
        record: Record,
        keep_pace: KeepPace,
        surroundings: Surroundings | None = None,
        now_s: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.run_id = run_id
        self.invocation_id = invocation_id
        self.agent_id = agent_id
        self.task = task
        self.keep_pace = keep_pace
        self.now_s = now_s
        self.surroundings = surroundings or Surroundings()
        self.tools = self.surroundings.tools_of(task, invocation_id)
        self.turn = 0  # of a conversation, from 1
        self.place = 1  # in the script of a conversation, which may pass over turns
        self.messages: list[dict[str, Any]] = []  # of a conversation, so far
        self.session: dict[str, Any] = {}  # the agent's own, for a conversation
        self.is_session_known = True  # it was told by the process that has it
        self.said: UserSaid | None = None  # what a simulated user said, and nobody has answered
        self.held: AsyncExitStack | None = None  # what lasts as long as the conversation
        self.state: Any = None  # what the agent holds of it besides its session
        self.conversation_id = invocation_id  # the same where it goes on after it was cut off
        self.usages: list[ProviderUsage] = []
        self.usages_of_user: list[ProviderUsage] = []  # of the model that plays the user
        self.output: Any = None  # what the agent has answered
        self.allowed_tools: frozenset[str] | None = None  # none of them forbidden
        self.schema_valid: bool | None = None  # where the agent's output has a schema
        self.refused = False  # the model refused the request
        self.took_s: float | None = None  # the agent's own time, where that is known
        self.aside_s = 0.0  # that was spent on what is recorded, and is not the agent's
        self.works_here: Callable[[], None] | None = None  # told by a thread that works on it
        self.was_given = False  # the answer was there before, and nobody took the time just now
        self.given_latency_ms: int | None = None  # of such an answer, where that is known
        self.was_late = False  # it was ended before it had answered
        self.captured: Captured | None = None  # spans; most have none
        # The time that the agent has for its answer; it is stopped when it would be over, if it is.
        self.stop_clock: Callable[[], float | None] = lambda: None
        self.start_clock: Callable[[float], None] = lambda _due_s: None
        self.loop = asyncio.get_running_loop()
        self._record = record
        self.called: list[SeenCall] = []  # in order
        self.recalled: list[SeenCall] = []  # before the conversation was cut off
        self.told_calls: list[SeenCall] = []  # whose results may not have been told
        self.called_outside: list[str] = []  # tools that neither `task` nor the gateway saw called
        self.asked: str | None = None  # a model that was asked, though its usage may not be known
        self._tellers: list[str] = []  # of each usage: who reported it
        self._observed: dict[str, set[str]] | None = None  # by part: how; most have nothing
        self._lost: str | None = None  # why not all tool calls were observed, though some were
        self._live_calls: list[Future[Any]] = []
        self._waiting: Threads | None = None  # for tools that take their time
        self._ended = False
        self._lock = threading.Lock()

    def describe(self, tool: str) -> ToolDescription:
        """What a model is told of a tool: what the file of tools says, else what its world does."""
        toolbox = self.surroundings.toolbox
        described = None if toolbox.find(tool) else self.tools.describe(tool)
        return described or toolbox.describe(tool)

    def world_changes(self) -> WorldChanged | None:
        """What is different in the world of the task, if it has one."""
        world = self.tools.world
        return None if world is None else world.changes()

    def memory(self) -> Memory:
        if self.surroundings.live:
            return Memory()
        return Memory.seeded(self.task.fixtures, self.surroundings.redactor)

    def tool_names(self) -> list[str]:
        return offered_tools(self.surroundings, self.tools, self.allowed_tools)

    def call_tool(self, name: str, args: Mapping[str, Any] | None = None) -> Any:
        call = self._begin(name, args)
        if call.tool is None:
            return self._answer_here(call)
        return self.wait_for(self._answer_live(call))

    def answer_from_fixtures(
        self, name: str, args: Mapping[str, Any], also: str | None = None
    ) -> Any:
        """Answer a call by the tools of the task, recorded with its answer; from any code.

        `also` is another name that a library may know the tool by.
        """
        return self._answer_here(self._begin(name, args, also))

    def wait_for(self, work: Coroutine[Any, Any, Any]) -> Any:
        """What comes of work in the event loop, which ends with this invocation; in a thread."""
        answer = asyncio.run_coroutine_threadsafe(work, self.loop)
        with self._lock:
            self._live_calls.append(answer)
        return answer.result()

    async def use_tool(self, name: str, args: Mapping[str, Any] | None = None) -> Any:
        call = self._begin(name, args)
        if call.tool is not None:
            return await self._answer_live(call)
        began = time.monotonic()
        reply = await self.reply(call.name, call.inputs)
        return self._replied(call, reply, _milliseconds_since(began))

    async def reply(self, tool: str, arguments: msgspec.Raw) -> ToolReply:
        """What the tools of the task answer, which is not recorded here."""
        with self._lock:
            reply = self.tools.answer(tool, arguments)
        if isinstance(reply, ToolReply):
            answered = reply
        else:
            later, self._waiting = reply, self._waiting or Threads()
            answered = await self._waiting.run(lambda _: later(), None)
        if answered.delay_s:
            await asyncio.sleep(answered.delay_s)  # in no thread that would outlive the task
        return answered

    def record(self, payload: Payload) -> None:
        with self._lock:
            self._raise_if_ended()
            self._record(payload)

    def report_usage(
        self, usage: ProviderUsage, how: str = "reported", *, is_whole: bool = True
    ) -> None:
        """Record the usage of one model call at once: what was spent must survive a crash.

        Where it `is_whole`, the model calls are observed by that.
        """
        usage = self._priced(usage)
        with self._lock:
            self._raise_if_ended()
            self.usages.append(usage)
            self._tellers.append(how)
            self._record(usage)
        if is_whole:
            self.observe("usage", how)

    def _priced(self, usage: ProviderUsage) -> ProviderUsage:
        """The usage with its cost, where that was not told and is known."""
        price = self.surroundings.price
        if usage.cost_estimate_usd is not None or price is None:
            return usage
        started = time.perf_counter()
        cost = price(usage)  # the first time, prices are loaded
        self.aside_s += time.perf_counter() - started
        if cost is None:
            return usage
        return msgspec.structs.replace(usage, cost_estimate_usd=cost, currency="USD")

    def record_message(self, role: str, content: Any, how: str = "recorded") -> None:
        """Record what the assistant said on the way; that of others is only observed."""
        self.observe("messages", how)
        text = content if isinstance(content, str) else canonical(checked_output(content))
        if role == "assistant" and text:
            self.record(Reasoned(self.agent_id, text))

    def observe(self, part: Part, how: str) -> None:
        """Note that a part of this invocation is observed, even where there is nothing in it."""
        with self._lock:
            if self._observed is None:
                self._observed = {}
            self._observed.setdefault(part, set()).add(how)

    def lose(self, why: str) -> None:
        """Note that tool calls were made which nobody observed: so not all of them are known."""
        with self._lock:
            self._lost = self._lost or why

    def lose_call(self, tool: str, why: str) -> None:
        """Note that this tool was called, perhaps by this invocation: nobody knows."""
        self.called_outside.append(tool)
        self.lose(why)

    def note_model(self, model: str) -> None:
        self.asked = self.asked or model

    def coverage(self) -> Coverage:
        if self._observed is None and self._lost is None:
            return NOTHING_OBSERVED
        return coverage_of(self._observed or {}, self._lost)

    @property
    def is_open(self) -> bool:
        return not self._ended

    def captured_spans(self) -> Captured:
        with self._lock:
            if self.captured is None:
                self.captured = Captured()
            return self.captured

    def is_observed(self, part: Part) -> bool:
        with self._lock:
            return self._observed is not None and part in self._observed

    def require_open(self) -> None:
        self._raise_if_ended()

    async def after_answer(self, work: Awaitable[None]) -> None:
        """Do what is left once the agent has answered: it takes no time of the agent's."""
        self.stop_clock()
        started = time.perf_counter()
        await work
        self.aside_s += time.perf_counter() - started

    def record_user(self, payload: Payload) -> None:
        """Record what the simulated user said, or what that took."""
        if isinstance(payload, ProviderUsage):
            payload = self._priced(payload)
            self.usages_of_user.append(payload)
        self.record(payload)

    def begin_turn(self, user: str) -> None:
        """What the user says next in a conversation."""
        self.turn += 1
        self.messages.append({"role": "user", "content": user})
        self.restart_watch()

    def restart_watch(self) -> None:
        """Each turn of a conversation is timed by itself."""
        self.took_s, self.aside_s = None, 0.0

    def end_turn(self, output: Any) -> None:
        """What the agent said to that."""
        content = output if isinstance(output, str) else canonical(checked_output(output))
        self.messages.append({"role": "assistant", "content": content})

    def recorded_session(self) -> Any:
        """What the agent keeps, for whoever goes on with the conversation; None: nobody can."""
        if not self.session or not self.is_session_known:
            return UNSET if self.is_session_known else None
        try:
            kept = msgspec.json.encode(self.session)
            is_whole = msgspec.json.decode(kept) == self.session  # a tuple would become a list
        except Exception:  # noqa: BLE001 - what is in it may be code of the agent
            return None
        return msgspec.Raw(kept) if is_whole and len(kept) <= MOST_SESSION else None

    def recall_usage(self, usage: ProviderUsage) -> None:
        """Count a model call that was recorded before the conversation was cut off."""
        if usage.is_of_user:
            self.usages_of_user.append(usage)
        else:
            self.usages.append(usage)
            self._tellers.append("recorded")
            self.observe("usage", "recorded")

    def recall_call(self, called: ToolCalled, returned: ToolReturned | None) -> None:
        """Have the tools do again what they did before the conversation was cut off."""
        self.recalled.append(SeenCall(called.tool_name, called.call_id, called.inputs))
        self.observe("calls", "recorded")
        if returned is None or returned.status == "forbidden" or called.inputs is UNSET:
            return
        arguments = msgspec.Raw(msgspec.json.encode(called.inputs))
        reply = self.tools.answer(called.tool_name, arguments)
        if not isinstance(reply, ToolReply):
            reply()

    def end(self) -> None:
        """From here on nothing is recorded and live calls are cancelled: the score is next."""
        with self._lock:
            self._ended = True
            for call in self._live_calls:
                call.cancel()
            if self._waiting is not None:
                self._waiting.close()

    def note_call(
        self, tool: str, inputs: Any = UNSET, *, also: str | None = None, outside: bool = False
    ) -> SeenCall:
        """Give the next tool call its id, which is the same in every run.

        `also` is another name of the tool; `outside`: neither `task` nor the gateway saw the call.
        """
        with self._lock:
            call = SeenCall(tool, f"{self.invocation_id}:c{len(self.called) + 1}", inputs, also)
            self.called.append(call)
            if outside:
                self.called_outside.append(tool)
            elif self.captured is not None:
                self.captured.note_call()
            return call

    def begin_call(
        self, tool: str, args: Any, *, how: str = "recorded", also: str | None = None
    ) -> SeenCall:
        """Record a call that the agent makes; `how` it was observed.

        What is not JSON is recorded as its text. A call that is recorded while the same one is
        made is the same.
        """
        name, inputs = _checked_name(tool), _recorded_copy(args)
        self.observe("calls", how)
        outer = in_progress.get()
        if outer is not None and outer.is_open_as(name, inputs):
            return outer
        call = self.note_call(name, inputs, also=also)
        call.tellers.add(how)
        self.record(ToolCalled(self.agent_id, name, call.call_id, inputs))
        return call

    def end_call(
        self,
        call: SeenCall,
        *,
        result: Any = UNSET,
        error: str | None = None,
        duration_ms: int | UnsetType = UNSET,
    ) -> None:
        """Record what came of a call: its result or its error, once."""
        failed = None if error is None else ErrorDetail("tool_error", error or "tool_error")
        self._record_return(call, ToldReturn(0, result, failed, duration_ms))

    def _record_return(self, call: SeenCall, told: ToldReturn) -> None:
        if call.has_result:
            return
        call.has_result = True
        self.record(
            ToolReturned(
                self.agent_id,
                call.tool,
                call.call_id,
                told.result if told.result is UNSET else _recorded_copy(told.result),
                told.error or UNSET,
                "ok" if told.error is None else "error",
                told.duration_ms,
            )
        )

    def end_told_calls(self) -> None:
        """Record that the calls have ended of which no result was told: the agent has answered."""
        with suppress(InvocationEnded):
            for call in self.told_calls:
                self.end_call(call, result=None)

    def record_account(self, account: Account) -> None:
        """Record what was told afterwards of this invocation, and was not recorded before."""
        how, deeds = account.how, account.deeds or ()
        calls = {place: each for place, each in enumerate(deeds) if isinstance(each, ToldCall)}
        seen = dict(zip(calls, already_seen([*calls.values()], self.called, how), strict=True))
        with self._lock:
            were_told = bool((self._observed or {}).get("messages", {how}) - {how})
        for place, deed in enumerate(deeds):
            if isinstance(deed, Thought):
                if not were_told:
                    self.record(Reasoned(self.agent_id, deed.text))
            elif isinstance(deed, ToldReturn):
                call = seen[deed.place]
                assert call is not None  # it is told before
                self._record_return(call, deed)
            elif seen[place] is None:
                inputs = deed.args if deed.args is UNSET else _recorded_copy(deed.args)
                outside = deed.tool not in account.inside
                call = seen[place] = self.note_call(deed.tool, inputs, outside=outside)
                call.their_id = deed.their_id
                call.tellers.add(how)
                self.record(ToolCalled(self.agent_id, deed.tool, call.call_id, inputs))
        if calls or (account.deeds is not None and account.has_all_calls):
            self.observe("calls", how)
        if account.lost is not None:
            self.lose(account.lost)
        if account.asked is not None:
            self.note_model(account.asked)
        if account.has_messages:
            self.observe("messages", how)
        if account.usages is not None:
            reported = list(zip(self._tellers, self.usages, strict=True))
            for usage in new_usages(account.usages, reported, how):
                self.report_usage(usage, how, is_whole=account.has_all_usages)
            if account.has_all_usages:
                self.observe("usage", how)

    def _begin(self, name: str, args: Mapping[str, Any] | None, also: str | None = None) -> "_Call":
        name = _checked_name(name)
        self.observe("calls", "live tools" if self.surroundings.live else "fixtures")
        refused: str | None = None
        try:
            inputs: Any = _json_copy(dict(args or {}))
        except (NotJson, TypeError, ValueError) as error:
            inputs, refused = UNSET, str(error)
        outer = in_progress.get()
        if outer is not None and refused is None and outer.is_open_as(name, inputs):
            seen = outer
        else:
            seen = self.note_call(name, inputs, also=also)
            self.record(ToolCalled(self.agent_id, name, seen.call_id, inputs))
        seen.has_result = True  # it will have one in a moment
        call = _Call(seen.tool, seen.call_id, inputs)
        if refused is not None:
            raise self._failed(call, "invalid_arguments", refused)
        if self.allowed_tools is not None and name not in self.allowed_tools:
            message = f"the manifest's toolAllowlist does not have {name!r}"
            raise self._failed(call, "tool_not_allowed", message, "forbidden")
        if not self.surroundings.live:
            return call
        tool = self.surroundings.toolbox.find(name)
        if tool is None or tool.call is None:
            message = f"there is no live tool {name!r}: the tools file does not describe it"
            raise self._failed(call, "no_such_tool", message)
        if self.surroundings.read_only and tool.description.writes:
            message = f"{name!r} may write, but the run is read-only"
            raise self._failed(call, "read_only", message, "forbidden")
        return call._replace(tool=tool)

    def _answer_here(self, call: "_Call") -> Any:
        """Answer a call by the tools of the task, in this thread even if that takes its time."""
        with self._lock:
            reply = self.tools.answer(call.name, call.inputs)
        if isinstance(reply, ToolReply) and not reply.delay_s:
            return self._replied(call, reply)
        began = time.monotonic()
        if not isinstance(reply, ToolReply):
            reply = reply()
        time.sleep(reply.delay_s)
        return self._replied(call, reply, _milliseconds_since(began))

    def _replied(self, call: "_Call", reply: ToolReply, took: int = 0) -> Any:
        """Record a reply and give what is in it; raises `ToolError`."""
        if reply.error is None:
            self._returned(call, reply.outcome, took, reply.fault)
            return msgspec.json.decode(reply.outcome)
        raise self._failed(
            call,
            reply.error.code,
            reply.error.message,
            reply.status,
            for_model=reply.for_model,
            took=took,
            fault=reply.fault,
        )

    async def _answer_live(self, call: "_Call") -> Any:
        assert call.tool is not None
        assert call.tool.call is not None
        started = time.monotonic()
        try:
            answer = _json_copy(await call.tool.call(msgspec.json.decode(call.inputs)))
        except ToolFailed as failure:
            took = _milliseconds_since(started)
            raise self._failed(call, failure.code, failure.message, took=took) from None
        except NotJson as error:
            message = f"the tool's answer is not a JSON value: {error}"
            took = _milliseconds_since(started)
            raise self._failed(call, "tool_error", message, took=took) from None
        self._returned(call, answer, _milliseconds_since(started))
        return msgspec.json.decode(answer)

    def _returned(
        self,
        call: "_Call",
        outcome: msgspec.Raw,
        duration_ms: int,
        fault: FaultKind | None = None,
    ) -> None:
        self.record(
            ToolReturned(
                self.agent_id,
                call.name,
                call.call_id,
                outcome=outcome,
                status="ok",
                duration_ms=duration_ms,
                fault=fault or UNSET,
            )
        )

    def _failed(
        self,
        call: "_Call",
        code: str,
        message: str,
        status: Literal["ok", "error", "forbidden", "rate_limited"] = "error",
        *,
        for_model: str | None = None,
        took: int = 0,
        fault: FaultKind | None = None,
    ) -> ToolError:
        error = ErrorDetail(code, message)
        self.record(
            ToolReturned(
                self.agent_id,
                call.name,
                call.call_id,
                error=error,
                status=status,
                duration_ms=took,
                fault=fault or UNSET,
            )
        )
        return ToolError(message, for_model, code)

    def _raise_if_ended(self) -> None:
        if self._ended:
            raise InvocationEnded


class _Call(NamedTuple):
    name: str
    call_id: str
    inputs: Any  # as JSON
    tool: LiveTool | None = None


def _milliseconds_since(started: float) -> int:
    return round((time.monotonic() - started) * 1000)


def checked_output(output: Any) -> Any:
    """The output as plain JSON values; raises `AgentFailure` if it has no such form."""
    if type(output) is str and output.isascii():  # as most are
        return output
    try:
        return plain(output)
    except NotJson:
        from evalwright.agents.outputs import output_value  # hardly any agent needs it
    try:
        return output_value(output)
    except Exception as error:  # noqa: BLE001 - what is in the output may be code of the agent
        raise AgentFailure("invalid_answer", f"the output is not a JSON value: {error}") from None


def _checked_name(name: Any) -> str:
    """The name as a plain string: an agent is free to ignore the annotation."""
    try:
        text = plain(name)
    except NotJson:
        text = None
    if not isinstance(text, str) or not text:
        raise ToolError(f"the name of a tool must be a text, not {name!r}")
    return text


def _recorded_copy(value: Any) -> msgspec.Raw:
    """A value that an agent tells of, as JSON: to be observed must not make it fail."""
    try:
        return _json_copy(value)
    except Exception:  # noqa: BLE001 - what is in it may be code of the agent
        from evalwright.agents.outputs import told_value
    return _json_copy(told_value(value))


def _json_copy(value: Any) -> msgspec.Raw:
    return msgspec.Raw(canonical(value).encode())

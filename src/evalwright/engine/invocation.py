"""One task: the agent is invoked once, and what it did is recorded."""

import asyncio
import inspect
import math
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import UNSET

from evalwright.agents.protocol import (
    CANCELLED_ITSELF,
    Agent,
    AgentFailure,
    Invocation,
    Surroundings,
    offered_tools,
)
from evalwright.agents.span_capture import record_captured
from evalwright.contracts.attachments import with_data
from evalwright.contracts.coverage import NOTHING_OBSERVED, Coverage
from evalwright.contracts.events import (
    Decided,
    ErrorDetail,
    InvocationCompleted,
    InvocationStarted,
    Payload,
    ProviderUsage,
    ToolCalled,
    ToolReturned,
    UserSaid,
    repetition_of,
)
from evalwright.contracts.run_plan import AgentFacts
from evalwright.contracts.suite import Task, World
from evalwright.engine.clock import Clock
from evalwright.engine.machine import CLAIM_CONTRADICTED, error_decision
from evalwright.engine.recorder import Recorder

if TYPE_CHECKING:
    from evalwright.engine.simulated_user import SimulatedUsers

TURN_S = 0.001  # of work on answers, after which agents in the event loop have their turn
AT_RISK_S = 0.02  # of a worker's work that a crash may cost, unless the work was paid for
CLEANUP_SECONDS = 1.0  # that an agent has to stop when it is cancelled


class TaskAnswer(msgspec.Struct, frozen=True, gc=False):
    """What an agent gave for a task: an output, or an error in its place."""

    task: Task
    output: Any
    error: ErrorDetail | None
    latency_ms: int | None  # None: it was recorded by others, who did not say
    usages: list[ProviderUsage]  # of the agent, and of the judges later on
    schema_valid: bool | None = None
    own_calls: int = 0  # how many of the usages are the agent's
    deeds: Sequence[Payload] = ()  # from the start of the invocation to its end, where needed
    unmeasured: Sequence[str] = ()  # what others who recorded it did not say
    coverage: Coverage = NOTHING_OBSERVED  # what was observed, and what is claimed beside it
    world: World | None = None  # as it was at the beginning


class CutConversation(msgspec.Struct, frozen=True, gc=False):
    """A conversation that was cut off: what was said and done in it need not be asked for again."""

    attempt_id: str  # of the attempt that began it
    deeds: list[Payload]
    took_s: float


class Repetition(msgspec.Struct, frozen=True, gc=False):
    """What one invocation for a repeated task came to."""

    score: float
    passed: bool
    latency_ms: int | None
    usages: Sequence[ProviderUsage]
    schema_valid: bool | None = None


def invocation_id(index: int, attempt: int, repetition: int = 1) -> str:
    """The id of an attempt at the suite's task number `index`: the same in every run."""
    first = f"inv-{index + 1:04d}" if repetition == 1 else f"inv-{index + 1:04d}-r{repetition}"
    return first if attempt == 1 else f"{first}.{attempt}"


def contradiction(claims: AgentFacts, invocation: Invocation) -> ErrorDetail | None:
    """What was observed against what the user claims of the agent."""
    called = [*invocation.recalled, *invocation.called]
    outside = invocation.called_outside
    if claims.tools == "none" and called:
        observed = f"{called[0].tool} was called ({len(called)} in all)"
        return _false_claim("tools: none", observed, "; if every call is seen, claim `tools: task`")
    if claims.tools is not None and outside:
        return _false_claim(f"tools: {claims.tools}", f"{outside[0]} was called without `task`")
    asked = invocation.usages[0].model if invocation.usages else invocation.asked
    if claims.usage == "none" and asked is not None:
        return _false_claim("usage: none", f"a model was asked: {asked}")
    return None


def _false_claim(claim: str, observed: str, remedy: str = "") -> ErrorDetail:
    message = f"the agent is claimed to have `{claim}`, but {observed}; leave the claim out{remedy}"
    return ErrorDetail(CLAIM_CONTRADICTED, message)


class WatchOverTasks(Protocol):
    """Who looks on from outside while agents work in this process."""

    def begin(self, run_id: str, task_id: str, due_s: float, limit_s: float) -> int:
        """An agent works on a task from here on, and is to end by then; gives a number."""

    def works_here(self, slot: int) -> None:
        """The calling thread works on the task of this number."""

    def end(self, slot: int) -> None:
        """It has ended."""


class Invoker:
    """Invokes one agent for the tasks of one run."""

    def __init__(
        self,
        agent: Agent,
        facts: AgentFacts,
        recorder: Recorder,
        clock: Clock,
        surroundings: Surroundings,
        timeout_s: float | None,
        *,
        keep_deeds: bool,
        count: Callable[[ProviderUsage, str], None] = lambda _usage, _task_id: None,
        has_budget: bool = False,
        watch: WatchOverTasks | None = None,
        turn_after: Callable[[TaskAnswer, int], int | None] = lambda _answer, turn: turn + 1,
        users: "SimulatedUsers | None" = None,
        keep: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        """`turn_after` says how a script goes on after a turn by what was answered; `keep` waits
        until what was said in one is durable."""
        self._agent = agent
        self._turn_after = turn_after
        self._users = users
        self._keep = keep
        self._agent_ready: Callable[[], Awaitable[None]] | None = getattr(agent, "ready", None)
        # Agents in the event loop wait while it works; so it never does all of its work at once.
        self._turns = asyncio.Lock()
        self._turn_ends_s = 0.0
        # When each agent at work must have answered: one timer is for all.
        self._due_s: dict[asyncio.Future[Any], float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._facts = facts
        self._recorder = recorder
        self._clock = clock
        self._surroundings = surroundings
        self._timeout_s = timeout_s
        self._keep_deeds = keep_deeds
        self._count = count
        self._watch = watch
        # What a process that is killed did not see the end of counts towards the budget.
        self._record_start = recorder.note if has_budget else recorder.hold

    async def invoke(
        self, task: Task, attempt_id: str, cut: CutConversation | None = None
    ) -> tuple[TaskAnswer, list[Payload]]:
        """Invoke the agent for one task: its answer, and the events that end the invocation.

        Its failures are results, never exceptions. A conversation that was `cut` off goes on.
        """
        recorder, agent_id = self._recorder, self._agent.agent_id
        deeds: list[Payload] = []
        if self._agent_ready is not None:
            await self._agent_ready()
        started = self.started(task, attempt_id)
        if cut is not None and (
            self._agent.holds_state  # which it has lost
            or repetition_of(cut.attempt_id) != repetition_of(attempt_id)
        ):
            cut = None
        if cut is not None:
            started = msgspec.structs.replace(started, continues=cut.attempt_id)
        self._record_start(task.task_id, started)
        record = recorder.for_task(task.task_id, lambda usage: self._count(usage, task.task_id))

        def record_and_keep(payload: Payload) -> None:
            deeds.append(payload)
            record(payload)

        given = task
        if attached := self._surroundings.attachments:
            given = msgspec.structs.replace(task, input=with_data(task.input, attached))
        invocation = Invocation(
            run_id=recorder.run_id,
            invocation_id=attempt_id,
            agent_id=agent_id,
            task=given,
            record=record_and_keep if self._keep_deeds else record,
            keep_pace=recorder.keep_pace,
            surroundings=self._surroundings,
            now_s=self._clock.monotonic_s,
        )
        invocation.allowed_tools = self._agent.allowed_tools
        ask = self._agent.invoke
        if task.is_conversation:
            ask = partial(self._converse, deeds=deeds, cut=cut)
        if (watch := self._watch) is None:
            output, error, taken_ms = await self._ask(invocation, ask(invocation))
        else:
            limit_s = math.inf if self._timeout_s is None or task.user else self._timeout_s
            due_s = asyncio.get_running_loop().time() + limit_s
            slot = watch.begin(recorder.run_id, task.task_id, due_s, limit_s)
            invocation.works_here = partial(watch.works_here, slot)
            try:
                work = ask(invocation)
                output, error, taken_ms = await self._ask(invocation, work)
            finally:
                watch.end(slot)
        latency_ms = invocation.given_latency_ms if invocation.was_given else taken_ms
        usages = [*invocation.usages, *invocation.usages_of_user]
        coverage = invocation.coverage()
        error = error or contradiction(self._facts, invocation)
        answer = TaskAnswer(
            task,
            None if error else output,
            error,
            latency_ms,
            usages,
            invocation.schema_valid,
            len(invocation.usages),
            deeds,
            (),
            coverage.claimed(self._facts.tools, self._facts.usage),
            self._surroundings.worlds[task.world].world if invocation.tools.world else None,
        )
        world = invocation.world_changes()
        answered = Decided(agent_id, output, turn=invocation.place if invocation.turn else None)
        decided = error_decision(agent_id, error) if error else answered
        completed = InvocationCompleted(
            attempt_id,
            agent_id,
            "failed" if error else "refused" if invocation.refused else "completed",
            invocation.schema_valid,
            latency_ms=latency_ms or 0,
            unmeasured=["latency"] if latency_ms is None else None,
            coverage=coverage if coverage is not NOTHING_OBSERVED else None,
        )
        # The last answer to a simulated user is recorded before the user is asked to go on.
        last = [] if task.user is not None and error is None else [decided]
        end: list[Payload] = [*([] if world is None else [world]), *last, completed]
        if self._keep_deeds:
            deeds += end
        return answer, end

    async def _converse(
        self, invocation: Invocation, deeds: list[Payload], cut: CutConversation | None
    ) -> Any:
        """Ask the agent turn by turn; the last answer is recorded by who asked for it."""
        task, output, took_s = invocation.task, None, 0.0
        now_s = asyncio.get_running_loop().time
        if cut is not None:
            deeds += cut.deeds
            output, took_s = await asyncio.to_thread(_recall, invocation, cut), cut.took_s
            if task.user is None:
                so_far = TaskAnswer(task, output, None, None, [], deeds=deeds)
                invocation.place = self._turn_after(so_far, invocation.place) or 1
        async with AsyncExitStack() as invocation.held:
            while (says := await self._user_says(invocation)) is not None:
                invocation.begin_turn(says)
                began, paid = now_s(), len(invocation.usages)
                output = await self._agent.invoke(invocation)
                turn_s = invocation.took_s
                if turn_s is None:
                    turn_s = now_s() - began - invocation.aside_s
                took_s += turn_s
                invocation.end_turn(output)
                session, place = invocation.recorded_session(), invocation.place
                decided = Decided(self._agent.agent_id, output, turn=place, session=session)
                if task.user is None:
                    so_far = TaskAnswer(task, output, None, None, [], deeds=[*deeds, decided])
                    if (due := self._turn_after(so_far, place)) is None:
                        break
                    invocation.place = due
                invocation.record(decided)
                is_paid = self._agent.is_outside or len(invocation.usages) > paid
                if self._keep is not None and (is_paid or turn_s >= AT_RISK_S):
                    await self._keep(task.task_id)
        invocation.took_s = took_s
        return output

    async def _user_says(self, invocation: Invocation) -> str | None:
        """What the user says next, for which no agent's time is taken; None at the end."""
        task, turn, now_s = invocation.task, invocation.turn, asyncio.get_running_loop().time
        if task.user is None:
            return task.turns[invocation.place - 1].user
        assert self._users is not None
        invocation.place = turn + 1
        if turn == task.user.max_turns:
            return None
        if (said := invocation.said) is not None:  # before the conversation was cut off
            invocation.said = None
            return None if said.ends else said.text
        due_s, began = invocation.stop_clock(), now_s()
        said = await self._users.say(task, turn + 1, invocation.messages, invocation.record_user)
        if self._keep is not None and said.model is not None:
            await self._keep(task.task_id)
        if due_s is not None:
            invocation.start_clock(due_s + now_s() - began)
        return None if said.ends else said.text

    def started(self, task: Task, attempt_id: str) -> InvocationStarted:
        """The first event of an attempt."""
        fixtures, live = task.fixtures, self._surroundings.live
        allowed = self._agent.allowed_tools
        surface: int | None = None  # how many tools the agent knows of, where that is known
        if allowed is not None and not live:
            surface = len(allowed)
        elif fixtures or task.world or live:
            tools = self._surroundings.tools_of(task)
            surface = len(offered_tools(self._surroundings, tools, allowed))
        return InvocationStarted(
            attempt_id,
            self._agent.agent_id,
            "run-api",
            self._agent.model_class,
            self._facts.version,
            self._facts.channel,
            surface,
            bool(fixtures.memory_seed) if fixtures and not live else None,
        )

    async def _ask(
        self, invocation: Invocation, work: Awaitable[Any]
    ) -> tuple[Any, ErrorDetail | None, int]:
        """The output or the error, and how many milliseconds the agent took."""
        timeout_s, loop = self._timeout_s, asyncio.get_running_loop()
        started, output, error = loop.time(), None, None
        if isinstance(work, asyncio.Future):
            ended, asked = work, None
        else:  # a task of its own: what the agent cancels or hangs on must not affect the others
            ended = loop.create_future()
            asked = loop.create_task(_ask(work, ended))
        invocation.stop_clock = lambda: self._due_s.pop(ended, None)
        invocation.start_clock = lambda due_s: self._end_at(ended, due_s)
        if timeout_s is not None:
            self._end_at(ended, started + timeout_s)
        try:
            output = await ended
        except AgentFailure as failure:
            output, error = None, failure.error
        finally:
            taken_s = loop.time() - started - invocation.aside_s
            self._due_s.pop(ended, None)
            if asked is not None and not asked.done():
                # It is told to stop and waited for a little; it may not want to.
                asked.add_done_callback(lambda each: each.cancelled() or each.exception())
                asked.cancel()
                await asyncio.wait((asked,), timeout=CLEANUP_SECONDS)
                created = inspect.CORO_CREATED
                if inspect.iscoroutine(work) and inspect.getcoroutinestate(work) == created:
                    work.close()  # it was stopped before it began
            invocation.was_late = output is _LATE
            if invocation.captured is not None:
                invocation.output = output
                record_captured(invocation)
            invocation.end()
        if output is not _LATE and invocation.took_s is not None:
            taken_s = invocation.took_s  # without what the loop did meanwhile
        if timeout_s is not None and (output is _LATE or taken_s > timeout_s):
            error = ErrorDetail("agent_timeout", f"no answer within {timeout_s:g} s")
        if asked is not None and self._clock.monotonic_s() >= self._turn_ends_s:
            # Agents in the event loop have their turn: work on answers has had its own.
            async with self._turns:
                await asyncio.sleep(0)
            self._turn_ends_s = self._clock.monotonic_s() + TURN_S
        return (None if error else output), error, round(taken_s * 1000)

    def _end_at(self, ended: "asyncio.Future[Any]", due_s: float) -> None:
        """End the wait for an agent, unless it has answered by then."""
        self._due_s[ended] = due_s
        if self._timer is None or self._timer.when() > due_s:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = ended.get_loop().call_at(due_s, self._end_late)

    def _end_late(self) -> None:
        """End the wait for agents whose time is over."""
        self._timer = None
        for ended, due_s in list(self._due_s.items()):
            if due_s > ended.get_loop().time():
                self._end_at(ended, due_s)
            elif not ended.done():
                ended.set_result(_LATE)


_LATE = object()


def _recall(invocation: Invocation, cut: CutConversation) -> Any:
    """Bring an invocation to where a conversation was cut off; gives the last answer."""
    output, said = None, ""
    invocation.conversation_id = cut.attempt_id
    returned = {each.call_id: each for each in cut.deeds if isinstance(each, ToolReturned)}
    for deed in cut.deeds:
        if isinstance(deed, UserSaid):
            said, invocation.said = deed.text, deed
        elif isinstance(deed, ProviderUsage):
            invocation.recall_usage(deed)
        elif isinstance(deed, ToolCalled):
            invocation.recall_call(deed, returned.get(deed.call_id))
        elif isinstance(deed, Decided) and deed.turn is not None:
            task, output, invocation.place = invocation.task, deed.decision, deed.turn
            invocation.begin_turn(task.turns[deed.turn - 1].user if task.turns else said)
            invocation.end_turn(output)
            invocation.said = None
            if deed.session is not UNSET:
                invocation.session = msgspec.json.decode(msgspec.json.encode(deed.session))
    return output


async def _ask(work: Awaitable[Any], ended: "asyncio.Future[Any]") -> None:
    """Do an agent's work, and tell what came of it: sooner than a callback of the task would."""
    try:
        output = await work
        if not ended.done():
            ended.set_result(output)
    except BaseException as error:
        if not ended.done():
            failure = error  # a fault that is none of the agent's stays one
            if isinstance(error, asyncio.CancelledError):
                failure = AgentFailure("agent_error", CANCELLED_ITSELF)
            elif isinstance(error, GeneratorExit):
                failure = AgentFailure("agent_error", "GeneratorExit")
            ended.set_exception(failure)
        if not isinstance(error, Exception | GeneratorExit):  # which a coroutine cannot pass on
            raise

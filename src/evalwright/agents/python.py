"""Python agents: any callable, sync or async, that takes the task and returns its output."""

import asyncio
import functools
import importlib
import inspect
import operator
import os
import sys
import traceback
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, cast, get_origin

from msgspec import UNSET

from evalwright.agents.context import at_work, current, follow_into_threads
from evalwright.agents.own_tools import CallInProgress, OwnTools, is_async, recorded_call
from evalwright.agents.protocol import CANCELLED_ITSELF, AgentFailure, Invocation, checked_output
from evalwright.agents.span_capture import watch
from evalwright.agents.toolbox import Memory
from evalwright.agents.usage import parse_usage
from evalwright.agents.user_code import (
    Threads,
    end_copies_of,
    end_copy,
    file_of,
    load_code,
    named_part,
    unnamed_function,
)
from evalwright.contracts.errors import AgentBroken, BadInput
from evalwright.contracts.messages import phrase
from evalwright.contracts.short_names import function_id
from evalwright.trace.model import RETRIEVAL

MAX_MESSAGE = MAX_TRACEBACK = 4000  # characters
_TYPES_OF_INPUTS = {"str", "dict", "Mapping", "list", "int", "float", "bool"}
_PARTS_OF_INPUTS = {"question", "query", "prompt"}  # names that no task has as a whole
_BARE = frozenset((str, int, float, bool, type(None)))
_IMPORTING = "<frozen importlib"  # frames of Python's own
FORMS = "write module:callable, path/file.py:callable, http(s)://address or cmd:program"


class AgentTask:
    """What an agent is given."""

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation

    @property
    def id(self) -> str:
        """The task's id."""
        return self._invocation.task.task_id

    @property
    def input(self) -> Any:
        """The task's input; a conversation has `messages` instead."""
        if self._invocation.turn:
            raise TypeError(
                "this task is a conversation, and this agent reads the input of a single turn: "
                "read task.messages, of which the last is the user's"
            )
        return self._invocation.task.input

    @property
    def messages(self) -> list[dict[str, Any]]:
        """What was said so far in a conversation, each with `role` and `content`."""
        return [dict(each) for each in self._invocation.messages]

    @property
    def turn(self) -> int:
        """The turn of a conversation, from 1; 0 of a single question."""
        return self._invocation.turn

    @property
    def session(self) -> dict[str, Any]:
        """The agent's own values for a conversation, kept from turn to turn."""
        return self._invocation.session

    @functools.cached_property
    def memory(self) -> Memory:
        """The memory entries that were seeded."""
        return self._invocation.memory()

    def __getitem__(self, key: Any) -> Any:
        raise TypeError(
            f"a task is not its input: write task.input[{key!r}], or call the parameter `input`"
        )

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"a task has no {name!r}; what is asked is in task.input")

    def call_tool(self, name: str, args: Mapping[str, Any] | None = None) -> Any:
        """Call a tool and return its result, to be awaited in async code.

        Raises `ToolError` when the tool has no result.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._invocation.call_tool(name, args)
        return self._call_tool(name, args)

    async def _call_tool(self, name: str, args: Mapping[str, Any] | None) -> Any:
        await asyncio.sleep(0)  # an agent that does nothing else must not keep the others waiting
        await self._invocation.keep_pace()
        return await self._invocation.use_tool(name, args)

    @property
    def tools(self) -> OwnTools:
        """The agent's own tools: `task.tools.wrap(function)` records the calls of a function."""
        return OwnTools(self._invocation)

    def record_call(
        self,
        tool: str,
        args: Mapping[str, Any] | None = None,
        *,
        result: Any = UNSET,
        error: str | None = None,
    ) -> AbstractContextManager[CallInProgress]:
        """Tell of a tool call that the agent makes itself, with its result or its error.

        For a call that takes time: `with task.record_call("search", args) as call:`. Set
        `call.result` within; what is raised there is recorded as the call's error.
        """
        call = self._invocation.begin_call(tool, dict(args or {}))
        if result is UNSET and error is None:
            self._invocation.told_calls.append(call)
        else:
            self._invocation.end_call(call, result=result, error=error)
        return recorded_call(self._invocation, call)

    def record_retrieval(self, query: Any, documents: Iterable[Any]) -> None:
        """Tell of documents that were looked up, the best first: their ids, or objects with `id`.

        It is recorded as a call of the tool `retrieval`.
        """
        self.record_call(RETRIEVAL, {"query": query}, result=list(documents))

    def record_message(self, role: str, content: Any) -> None:
        """Tell of a message between agent and model; what the assistant says is recorded."""
        self._invocation.record_message(role, content)

    def report_usage(self, usage: Mapping[str, Any] | None = None, /, **fields: Any) -> None:
        """Report one model call: provider, model, input_tokens, output_tokens, cost_usd."""
        self._invocation.report_usage(parse_usage({**(usage or {}), **fields}))


class PythonAgent:
    """A callable in this process."""

    def __init__(self, function: Any, *, ref: str, agent_id: str, model_class: str | None) -> None:
        self.ref = ref
        self.agent_id = agent_id
        self.model_class = model_class
        self.allowed_tools: frozenset[str] | None = None
        self.is_outside = False
        self.reads_memory = True
        self.converses = True
        self.holds_state = False
        self.function = function
        self._function = _taking_a_task(function)
        self._is_async = is_async(function)
        if inspect.isclass(function):
            self.holds_state, self._function = True, functools.partial(_call_instance, function)
        elif inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            self.holds_state, self._function = True, functools.partial(_send, function)
        self._threads = Threads()
        _watch_forks()
        follow_into_threads()

    def invoke(self, invocation: Invocation) -> Awaitable[Any]:
        """Call the function; whatever it raises is a failure of the agent."""
        if (observe := invocation.surroundings.observe) != "none":
            watch(loads=observe == "otel")
        if self._is_async:
            return self._await(self._function, invocation)
        return self._threads.start(self._call, invocation)

    def _call(self, invocation: Invocation) -> Any:
        """Call a sync function; its time is taken in its thread, as the loop may be busy."""
        started = invocation.now_s()
        current.set(invocation)
        at_work.add(invocation)
        if invocation.works_here is not None:
            invocation.works_here()
        try:
            output = self._function(AgentTask(invocation))
            if not (is_bare := _is_bare(output)) and not inspect.isawaitable(output):
                from evalwright.agents import results

                output = results.read_to_end(output)
        except BaseException as error:
            raise _failure(error) from error
        finally:
            invocation.took_s = invocation.now_s() - started - invocation.aside_s
            invocation.end_told_calls()
            at_work.discard(invocation)
        if is_bare:
            return checked_output(output)
        if not inspect.isawaitable(output):
            return results.recorded_output(output, invocation)
        try:  # a wrapper that is sync around one that is not
            return invocation.wait_for(self._await(lambda _task: output, invocation))
        except CancelledError:
            raise AgentFailure("agent_error", CANCELLED_ITSELF) from None

    async def _await(self, function: Callable[[AgentTask], Any], invocation: Invocation) -> Any:
        before_s = (invocation.took_s or 0.0) + invocation.aside_s
        started = invocation.now_s()
        process = os.getpid()
        current.set(invocation)
        at_work.add(invocation)
        try:
            output = await function(AgentTask(invocation))
            if not _is_bare(output) and inspect.isawaitable(output):
                output = await output
            if _is_bare(output):
                return checked_output(output)
            from evalwright.agents import results

            output = await results.awaited_to_end(output)
            return results.recorded_output(output, invocation)
        except (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            raise _failure(error) from error
        finally:
            end_copy(process)
            took_s = before_s + invocation.now_s() - started
            invocation.took_s = took_s - invocation.aside_s
            invocation.end_told_calls()
            at_work.discard(invocation)

    async def close(self) -> None:
        self._threads.close()


@functools.cache
def _watch_forks() -> None:
    os.register_at_fork(after_in_child=_end_copy_of_run)


def _end_copy_of_run() -> None:
    """In a process that an agent has just forked: its copy of the run must not go on."""
    if (invocation := current.get()) is not None:
        end_copies_of(invocation.loop)


def _is_bare(output: Any) -> bool:
    """Whether an output, as most are, says nothing but itself."""
    kind = type(output)
    return kind in _BARE or (kind is dict and "messages" not in output)


def _call_instance(kind: Any, task: AgentTask) -> Any:
    """Call the instance of a class that has this conversation, or this task."""
    invocation = task._invocation
    if invocation.state is None:
        invocation.state = _taking_a_task(kind())
    return invocation.state(task)


def _send(function: Any, task: AgentTask) -> Any:
    """Send what the user has said to the generator that has this conversation."""
    invocation = task._invocation
    if not task.turn:
        return _taking_a_task(function)(task)
    is_new, message = invocation.state is None, task.messages[-1]["content"]
    if is_new:
        parameters = inspect.signature(function).parameters
        invocation.state = function(**({"task": task} if "task" in parameters else {}))
    talk = invocation.state
    if inspect.isasyncgen(talk):
        return _asend(talk, message, is_new=is_new)
    try:
        if is_new:
            next(talk)  # what it gives before it was told anything answers nothing
        return talk.send(message)
    except StopIteration as end:
        return _last_word(end.value)


async def _asend(talk: Any, message: str, *, is_new: bool) -> Any:
    try:
        if is_new:
            await anext(talk)
        return await talk.asend(message)
    except StopAsyncIteration:
        return _last_word(None)


def _last_word(value: Any) -> Any:
    if value is None:
        message = "the agent's generator has ended, and the conversation goes on"
        raise AgentFailure("agent_error", message)
    return value


def _taking_a_task(function: Any) -> Callable[[AgentTask], Any]:
    """The function as one of a task, if its parameters name parts of it instead."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some callables written in C do not tell
        return cast("Callable[[AgentTask], Any]", function)
    named = [one for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    required = {one.name for one in named if one.default is one.empty}
    if required <= {"task"}:
        return cast("Callable[[AgentTask], Any]", function)
    wants_input = any(_is_plain(one.annotation) for one in named if one.name in required)
    names = {one.name for one in named}
    return functools.partial(_call_by_name, function, required, names, wants_input=wants_input)


def _is_plain(annotation: Any) -> bool:
    """Whether it is a type that an input has, such as `str` or `dict[str, Any]`; no task is one."""
    if isinstance(annotation, str):  # from __future__ import annotations
        return annotation.partition("[")[0] in _TYPES_OF_INPUTS
    return getattr(get_origin(annotation) or annotation, "__name__", "") in _TYPES_OF_INPUTS


def _call_by_name(
    function: Any, required: set[str], named: set[str], task: AgentTask, *, wants_input: bool
) -> Any:
    if task.turn:
        return _call_in_conversation(function, required, named, task)
    given = task.input if isinstance(task.input, dict) else {}
    offered = {**given, "task": task, "input": task.input}
    if required <= offered.keys():
        return function(**{name: offered[name] for name in named & offered.keys()})
    is_part = required <= _PARTS_OF_INPUTS  # which only an input with fields can lack
    if len(required) == 1 and not (given and is_part):
        return function(task.input if wants_input or is_part else task)  # named as it likes
    missing = ", ".join(sorted(required - offered.keys()))
    has = ", ".join(map(str, given)) or "no fields"
    raise AgentFailure(
        "agent_error",
        f"the agent's function asks for {missing}; the task's input has {has}: "
        "take the task alone, or what its input has",
    )


def _call_in_conversation(
    function: Any, required: set[str], named: set[str], task: AgentTask
) -> Any:
    messages = task.messages
    offered = {
        "task": task,
        "messages": messages,
        "message": messages[-1]["content"],
        "session": task.session,
        "turn": task.turn,
    }
    if required <= offered.keys():
        return function(**{name: offered[name] for name in named & offered.keys()})
    missing = ", ".join(sorted(required - offered.keys()))
    raise AgentFailure(
        "agent_error",
        f"this task is a conversation, and the agent's function asks for {missing}: "
        f"a conversation has {', '.join(offered)}",
    )


def load_python(
    ref: str, agent_id: str | None = None, model_class: str | None = None
) -> PythonAgent:
    """Load `module:callable` or `path/file.py:callable`."""
    source, _, name = ref.rpartition(":")
    if not source or not name:
        raise _unusable(ref, unnamed_function(ref) or FORMS)
    if not source.endswith(".py") and not name.replace(".", "").isidentifier():
        raise BadInput(
            phrase(
                "{@agent:{ref}}: {name!r} cannot be a function; a model is named with {@model}, "
                "and the manifest that it plays with {@agent}",
                ref=ref,
                name=name,
            )
        )
    module = _load_file(Path(source), ref) if source.endswith(".py") else _load_module(source, ref)
    try:
        function = operator.attrgetter(name)(module)
    except AttributeError:
        own = (each for each in vars(module) if not each.startswith("_"))
        usable = [each for each in own if _is_usable(getattr(module, each))]
        offered = ", ".join(sorted(usable)[:20]) or "nothing that can be called"
        raise _unusable(ref, f"{source} has no {name!r} (it has: {offered})") from None
    if not _is_usable(function):
        raise _unusable(ref, f"{name} is not a function; name a function or an instance")
    if not _takes_something(function):
        raise _unusable(ref, f"{name}() takes nothing; an agent takes the task: def {name}(task)")
    derived = function_id(source, name)
    return PythonAgent(
        function,
        ref=ref,
        agent_id=agent_id or getattr(function, "agent_id", None) or derived,
        model_class=model_class or getattr(function, "model_class", None),
    )


def _is_usable(function: Any) -> bool:
    if inspect.isclass(function):  # whose instances can be called
        return any("__call__" in vars(each) for each in function.__mro__)
    return callable(function)


def _takes_something(function: Any) -> bool:
    if inspect.isclass(function):
        return _takes_something(functools.partial(function.__call__, None))
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        return True  # it is sent each message
    try:
        return bool(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # it does not tell
        return True


def _unusable(ref: str, why: str) -> BadInput:
    return BadInput(phrase("{@agent:{ref}}: {why}", ref=ref, why=why))


def callable_agent(
    function: Callable[[Any], Any], agent_id: str | None = None, model_class: str | None = None
) -> PythonAgent:
    """A function, or an instance that can be called, as an agent named after its module."""
    if not _is_usable(function):
        raise BadInput(f"agent {function!r}: not a function; pass a function or an instance")
    known = named_part(function)
    name = known.__qualname__.replace("<locals>.", "")
    module = known.__module__
    if module == "__main__":  # of a script, whose file is what the command line would name
        module = Path(getattr(sys.modules[module], "__file__", None) or module).stem
    return PythonAgent(
        function,
        ref=f"{_file_to_load(function) or known.__module__}:{name}",
        agent_id=agent_id or getattr(function, "agent_id", None) or f"local.{module}.{name}",
        model_class=model_class or getattr(function, "model_class", None),
    )


def _file_to_load(function: Any) -> str | None:
    is_there = function is named_part(function) and "<" not in function.__qualname__
    if not is_there or "." in function.__module__:  # that of a package is loaded as a module
        return None
    file = file_of(function)
    return None if file is None or file.is_absolute() else file.as_posix()


def _load_module(name: str, ref: str) -> Any:
    directory = str(Path.cwd())
    if directory not in sys.path:
        sys.path.insert(0, directory)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _broken(ref, error) from error
        missing = f"there is no module {name!r} here or in the environment"
        raise _unusable(ref, f"{missing}; {FORMS}") from None
    except (TypeError, ValueError) as error:
        if not name.startswith(".") and name:
            raise _broken(ref, error) from error
        relative = f"there is no module {name!r}; relative names are not supported"
        raise _unusable(ref, relative) from None
    except (Exception, SystemExit) as error:
        raise _broken(ref, error) from error


def _load_file(path: Path, ref: str) -> Any:
    if not path.is_file():
        where = "" if path.is_absolute() else f" in {Path.cwd().name or '/'}"
        raise _unusable(ref, f"there is no file {path}{where}")
    try:
        return load_code(path)
    except (Exception, SystemExit) as error:
        raise _broken(ref, error) from error


def _failure(error: BaseException) -> AgentFailure:
    if isinstance(error, AgentFailure):
        return error
    try:
        words = str(error)
    except Exception:  # noqa: BLE001 - an agent's exception may fail even at this
        words = "(its message cannot be read)"
    message = f"{type(error).__name__}: {words}"
    if len(message) > MAX_MESSAGE:
        message = f"{message[:MAX_MESSAGE]}… ({len(message)} characters)"
    trace = own_trace(error)[-MAX_TRACEBACK:]
    return AgentFailure("agent_error", _clean(message), {"traceback": _clean(trace)})


def own_trace(error: BaseException) -> str:
    """The traceback from the agent's first frame on, without the paths of this machine."""
    trace = traceback.TracebackException.from_exception(error)
    _shorten(trace)
    lines = trace.format(chain=False) if trace.stack else trace.format_exception_only()
    return "".join(lines)


def _shorten(trace: traceback.TracebackException) -> None:
    ours = str(Path(__file__).parents[1])
    trace.stack = traceback.StackSummary.from_list(
        [
            traceback.FrameSummary(
                _short(frame.filename), frame.lineno, frame.name, line=frame.line
            )
            for frame in trace.stack
            if not frame.filename.startswith((ours, _IMPORTING))
        ]
    )
    if trace.exc_type and issubclass(trace.exc_type, SyntaxError) and trace.filename:
        trace.filename = _short(trace.filename)
    for inner in trace.exceptions or ():
        _shorten(inner)


def _short(filename: str) -> str:
    path = Path(filename)
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else path.name


def _broken(ref: str, error: BaseException) -> AgentBroken:
    trace = own_trace(error).rstrip()
    message = "{@agent:{ref}}: the agent's code failed while loading\n{trace}"
    return AgentBroken(phrase(message, ref=ref, trace=trace))


def _clean(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()

"""Python agents: any callable, sync or async, that takes the task and returns its output."""

import asyncio
import functools
import importlib
import importlib.util
import inspect
import operator
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evalwright.agents.fixtures import Memory
from evalwright.agents.protocol import AgentFailure, Invocation, checked_output
from evalwright.agents.threads import Threads
from evalwright.agents.usage import parse_usage
from evalwright.contracts.errors import AgentBroken, BadInput

MAX_TRACEBACK = 4000


class Task:
    """What a sync agent is given."""

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation

    @property
    def id(self) -> str:
        """The task's id."""
        return self._invocation.task.task_id

    @property
    def input(self) -> Any:
        """The task's input."""
        return self._invocation.task.input

    @functools.cached_property
    def memory(self) -> Memory:
        """The memory entries that were seeded."""
        return self._invocation.memory()

    def call_tool(self, name: str, args: Mapping[str, Any] | None = None) -> Any:
        """Call a tool and return its result; raises `ToolError` when it has none."""
        return self._invocation.call_tool(name, args)

    def report_usage(self, usage: Mapping[str, Any] | None = None, /, **fields: Any) -> None:
        """Report one model call: provider, model, input_tokens, output_tokens, cost_usd."""
        self._invocation.report_usage(parse_usage({**(usage or {}), **fields}))


class AsyncTask(Task):
    """What an async agent is given: the same, with tools to be awaited."""

    async def call_tool(self, name: str, args: Mapping[str, Any] | None = None) -> Any:
        """Call a tool and return its result; raises `ToolError` when it has none."""
        return self._invocation.call_tool(name, args)


class PythonAgent:
    """A callable in this process."""

    def __init__(self, function: Any, *, ref: str, agent_id: str, model_class: str | None) -> None:
        self.ref = ref
        self.agent_id = agent_id
        self.model_class = model_class
        self._function = function
        self._is_async = _is_async(function)
        self._threads = Threads()

    async def invoke(self, invocation: Invocation) -> Any:
        """Call the function; whatever it raises is a failure of the agent."""
        try:
            if self._is_async:
                output = await self._function(AsyncTask(invocation))
            else:
                output = await self._threads.run(self._function, Task(invocation))
        except asyncio.CancelledError:
            if _asked_to_stop():
                raise
            raise AgentFailure("agent_error", "the agent cancelled itself") from None
        except (Exception, SystemExit) as error:
            raise _failure(error) from error
        if inspect.isawaitable(output):
            _discard(output)
            message = "the agent returned an awaitable: declare it with `async def`"
            raise AgentFailure("invalid_answer", message)
        return checked_output(output)

    async def close(self) -> None:
        """Stop the idle threads."""
        self._threads.close()


def load_python(
    ref: str, agent_id: str | None = None, model_class: str | None = None
) -> PythonAgent:
    """Load `module:callable` or `path/file.py:callable`."""
    source, _, name = ref.rpartition(":")
    if not source or not name:
        raise BadInput(f"--agent {ref}: write module:callable or path/file.py:callable")
    module = _load_file(Path(source), ref) if source.endswith(".py") else _load_module(source, ref)
    try:
        function = operator.attrgetter(name)(module)
    except AttributeError:
        offered = ", ".join(sorted(n for n in vars(module) if not n.startswith("_"))[:20])
        raise BadInput(f"--agent {ref}: {source} has no {name!r} (it has: {offered})") from None
    if inspect.isclass(function) or not callable(function):
        raise BadInput(f"--agent {ref}: {name} is not a function; name a function or an instance")
    derived = f"local.{Path(source).stem if source.endswith('.py') else source}.{name}"
    return PythonAgent(
        function,
        ref=ref,
        agent_id=agent_id or getattr(function, "agent_id", None) or derived,
        model_class=model_class or getattr(function, "model_class", None),
    )


def _load_module(name: str, ref: str) -> Any:
    directory = str(Path.cwd())
    if directory not in sys.path:
        sys.path.insert(0, directory)
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        found = None
    except Exception as error:
        raise _broken(ref, error) from error
    if found is None:
        raise BadInput(f"--agent {ref}: there is no module {name!r} here or in the environment")
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise _broken(ref, error) from error


def _load_file(path: Path, ref: str) -> Any:
    if not path.is_file():
        raise BadInput(f"--agent {ref}: there is no file {path}")
    directory = str(path.resolve().parent)
    if directory not in sys.path:
        sys.path.insert(0, directory)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise _broken(ref, error) from error
    return module


def _is_async(function: Any) -> bool:
    inner = inspect.unwrap(function)
    return any(
        inspect.iscoroutinefunction(candidate)
        for candidate in (function, inner, getattr(inner, "__call__", None))  # noqa: B004
    )


def _asked_to_stop() -> bool:
    current = asyncio.current_task()
    return current is not None and current.cancelling() > 0


def _discard(awaitable: Any) -> None:
    close = getattr(awaitable, "close", None)
    if close is not None:
        close()


def _failure(error: BaseException) -> AgentFailure:
    if isinstance(error, AgentFailure):
        return error
    trace = "".join(traceback.format_exception(error))[-MAX_TRACEBACK:]
    message = f"{type(error).__name__}: {error}"
    return AgentFailure("agent_error", _clean(message), {"traceback": _clean(trace)})


def _broken(ref: str, error: BaseException) -> AgentBroken:
    trace = "".join(traceback.format_exception(error)).rstrip()
    return AgentBroken(f"--agent {ref}: the agent's own code failed while it was loaded\n{trace}")


def _clean(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()

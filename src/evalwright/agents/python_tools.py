"""Tools that are Python functions, sync or async."""

import asyncio
import inspect
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from evalwright.agents.toolbox import ToolError, ToolFailed
from evalwright.agents.user_code import Threads, load_code
from evalwright.contracts.errors import BadInput, CannotEvaluate

_ARGUMENTS = "Arguments"
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class PythonFiles:
    """The files beside a tools file; each is executed once, however many tools it holds."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._modules: dict[str, Any] = {}

    def function(self, ref: str, place: str) -> Callable[..., Any]:
        source, _, name = ref.rpartition(":")
        if source not in self._modules:
            self._modules[source] = _module(self._folder / source, f"{place}: {source}")
        function = getattr(self._modules[source], name, None)
        if function is None or inspect.isclass(function) or not callable(function):
            raise BadInput(f"{place}: {source} has no function {name!r}")
        found: Callable[..., Any] = function
        return found


class PythonTool:
    """A function and, where its signature is the only description, the type of its arguments."""

    def __init__(self, function: Callable[..., Any], place: str, threads: Threads) -> None:
        self.function = function
        self._place = place
        self._threads = threads
        self._arguments: type[msgspec.Struct] | None = None

    def describe(self) -> str:
        return inspect.getdoc(self.function) or ""

    def parameters(self) -> dict[str, Any]:
        """A JSON Schema of the arguments, from the signature; calls are then checked by it."""
        called: Any = self.function
        try:
            hints = get_type_hints(called if inspect.isroutine(called) else called.__call__)
        except (NameError, TypeError) as error:
            raise _undescribable(self._place, str(error)) from None
        fields: list[tuple[str, Any, Any]] = []
        for name, parameter in inspect.signature(self.function).parameters.items():
            if parameter.kind not in _NAMED:
                raise _undescribable(self._place, f"{parameter} has no name that a model could use")
            kind = hints.get(name, Any)
            required = parameter.default is inspect.Parameter.empty
            # A default stays the function's own business: what is left out is not passed.
            omitted = msgspec.NODEFAULT if required else msgspec.UNSET
            fields.append((name, kind if required else kind | msgspec.UnsetType, omitted))
        self._arguments = msgspec.defstruct(
            _ARGUMENTS, fields, kw_only=True, forbid_unknown_fields=True
        )
        schema, parts = _schema_of(self._arguments, self._place)
        return schema | ({"$defs": parts} if parts else {})

    async def call(self, arguments: dict[str, Any]) -> Any:
        if inspect.iscoroutinefunction(self.function):
            return await _awaited(self._call(self._checked(arguments)))
        answer = await self._threads.run(self._call, self._checked(arguments))
        return await _awaited(answer) if inspect.isawaitable(answer) else answer

    def _call(self, arguments: dict[str, Any]) -> Any:
        try:
            return self.function(**arguments)
        except BaseException as error:
            raise tool_failure(error) from error

    def _checked(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if self._arguments is None:
            return arguments
        try:
            checked = msgspec.convert(arguments, self._arguments)
        except msgspec.ValidationError as error:
            raise ToolFailed("invalid_arguments", str(error)) from None
        return {
            name: value
            for name in checked.__struct_fields__
            if (value := getattr(checked, name)) is not msgspec.UNSET
        }


async def _awaited(answer: Awaitable[Any]) -> Any:
    try:
        return await answer
    except (asyncio.CancelledError, GeneratorExit):
        raise  # from outside; one that the tool raised itself is told by who waits for the call
    except BaseException as error:
        raise tool_failure(error) from error


def _module(path: Path, place: str) -> Any:
    if not path.is_file():
        raise BadInput(f"{place}: there is no such file beside the tools file")
    try:
        return load_code(path)
    except (Exception, SystemExit) as error:
        trace = "".join(traceback.format_exception(error)).rstrip()
        message = f"{place}: the tool's own code failed while it was loaded"
        raise CannotEvaluate(f"{message}\n{trace}") from error


def _schema_of(
    arguments: type[msgspec.Struct], place: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        _, parts = msgspec.json.schema_components([arguments], ref_template="#/$defs/{name}")
    except TypeError as error:
        raise _undescribable(place, str(error)) from None
    schema = parts.pop(_ARGUMENTS)
    del schema["title"]
    return schema, parts


def _undescribable(place: str, reason: str) -> BadInput:
    return BadInput(f"{place}: its signature cannot be described: {reason} (add parameters)")


def tool_failure(error: BaseException) -> ToolFailed:
    """What a tool raised, as the failure of its call."""
    if isinstance(error, ToolFailed):
        return error
    if isinstance(error, ToolError):
        return ToolFailed(error.code, str(error))
    try:
        words = f"{error}".encode("utf-8", "backslashreplace").decode()
    except BaseException:  # noqa: BLE001 - an exception may fail even at this, in any way
        words = "(its message cannot be read)"
    return ToolFailed("tool_error", f"{type(error).__name__}: {words}")

"""The worlds of a run, ready for its tasks, with the functions that their tools call."""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from evalwright.agents.own_tools import is_async
from evalwright.agents.worlds import PreparedWorld
from evalwright.contracts.errors import Problem
from evalwright.contracts.jsonvalue import child
from evalwright.contracts.suite import Suite
from evalwright.engine.own_checks import Unusable

if TYPE_CHECKING:
    from evalwright.engine.own_checks import OwnChecks


def prepare_worlds(
    suite: Suite, code: "OwnChecks | None"
) -> tuple[dict[str, PreparedWorld], list[Problem]]:
    """The worlds of a suite, and why the functions of some tools cannot be called."""
    prepared, problems = {}, []
    for name, world in suite.worlds.items():
        functions: dict[str, Callable[..., Any]] = {}
        for tool_name, tool in world.tools.items():
            if tool.python is None:
                continue
            place = child(child("$.worlds", name) + ".tools", tool_name)
            try:
                functions[tool.python] = _function(tool.python, code)
            except Unusable as unusable:
                problems.append(Problem(place, unusable.message, unusable.remedy))
        prepared[name] = PreparedWorld(name, world, functions)
    return prepared, problems


def _function(call: str, code: "OwnChecks | None") -> Callable[..., Any]:
    """A function that takes a world first; raises `Unusable`."""
    if code is None:
        raise Unusable(f"{call}: code is not run here", "use get, find, create, update or delete")
    function = code.function(call)
    if is_async(function):
        remedy = "write it with `def`: nothing in a world has to be waited for"
        raise Unusable(f"{call} is async", remedy)
    first = next(iter(inspect.signature(function).parameters.values()), None)
    if first is None or first.kind not in (first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD):
        remedy = "write it as def policy(world, **args)"
        raise Unusable(f"{call} does not take the world as its first argument", remedy)
    return function

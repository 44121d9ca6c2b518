"""Worlds as objects: data that the tools of a task read and change."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from evalwright.agents.outputs import output_value
from evalwright.api.check_objects import OwnFunctions
from evalwright.contracts.errors import BadInput
from evalwright.contracts.jsonvalue import NotJson

WorldToolGiven: TypeAlias = Mapping[str, Any] | Callable[..., Any]


class GivenWorld:
    """Data and the tools that read and change it; made by `ew.world`."""

    def __init__(
        self,
        name: str,
        data: Mapping[str, Iterable[Mapping[str, Any]]] | str | Path,
        tools: Mapping[str, WorldToolGiven],
    ) -> None:
        given: object = name
        if not (isinstance(given, str) and given):
            raise BadInput(f"a world begins with its name, a text, not {name!r:.60}")
        self.name = name
        self.data = data
        self.tools = tools

    def written(self, own: OwnFunctions) -> dict[str, Any]:
        """The world as a suite file has it."""
        try:
            data = str(self.data) if isinstance(self.data, Path) else output_value(self.data)
        except NotJson as error:
            message = f"world {self.name!r}, data: not a value that JSON can carry: {error}"
            raise BadInput(message) from None
        tools = {
            name: {"python": own.refer(tool)} if callable(tool) else dict(tool)
            for name, tool in self.tools.items()
        }
        return {"data": data, "tools": tools}

    def __repr__(self) -> str:
        return f"<world {self.name}: {len(self.tools)} tools>"


def world(
    name: str,
    *,
    data: Mapping[str, Iterable[Mapping[str, Any]]] | str | Path,
    tools: Mapping[str, WorldToolGiven],
) -> GivenWorld:
    """A world for tasks: `ew.Task(…, world=shop)`; each task has its data afresh.

    `data` are collections of rows, `{"orders": [{"id": "A-17"}]}`, or the file that they stand in.
    A tool says what it does, `{"get": "orders", "by": "id"}`, or is a function: it takes the world
    and the arguments.
    """
    return GivenWorld(name, data, tools)

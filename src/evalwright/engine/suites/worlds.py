"""The worlds of a suite, and what its tasks say of them; every problem with its place."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from evalwright.contracts.documents import parse_document, read_input
from evalwright.contracts.errors import BadInput, InvalidDocument
from evalwright.contracts.jsonvalue import MAX_ROW_DEPTH, child, unfit
from evalwright.contracts.suite import EVERY_TOOL, Fixtures, ReplayRow, ToolFault, World, WorldTool
from evalwright.engine.suites.problems import Missing

if TYPE_CHECKING:
    from evalwright.engine.suites.tasks import Problems

_IDENTIFIED = ("get", "update", "delete")  # by a field that rows have
_BY_NOTHING = ("find", "replay", "python")
_MOST_NAMES = 50  # among which the one that was meant is looked for
_LONGEST_NAME = 50
_MOST_TOLD = 20


class WorldReading:
    """Reads worlds; `missing_code` says why a function cannot be used."""

    def __init__(
        self,
        folder: Path,
        missing_code: Callable[[str], Missing | None],
        problems: "Problems",
        *,
        allow_code: bool,
        allow_files: bool,
    ) -> None:
        self._folder = folder
        self._allow_code = allow_code
        self._allow_files = allow_files
        self._missing_code = missing_code
        self._problems = problems

    def worlds(self, given: Mapping[str, Any]) -> dict[str, World]:
        worlds = {}
        for name, document in given.items():
            place = child("$.worlds", name)
            data = self._data(document["data"], f"{place}.data")
            if data is not None and self._is_sound(data, f"{place}.data"):
                tools = msgspec.convert(document["tools"], dict[str, WorldTool])
                worlds[name] = World(data, tools)
                fields = {
                    collection: dict.fromkeys(field for row in rows for field in row)
                    for collection, rows in data.items()
                }
                for tool_name, tool in tools.items():
                    where = child(f"{place}.tools", tool_name)
                    self._check_tool(tool, fields, where)
                    if "by" in document["tools"][tool_name] and tool.operation in _BY_NOTHING:
                        message = f"`{tool.operation}` tells rows apart by all arguments"
                        self._problems.add(f"{where}.by", message, "leave it out")
                for collection in {each.replay for each in tools.values() if each.replay} & {*data}:
                    self._check_recorded(data, collection, child(f"{place}.data", collection))
        return worlds

    def _data(self, given: Any, place: str) -> dict[str, Any] | None:
        if not isinstance(given, str):
            return dict(given)
        if not self._allow_files:
            self._problems.add(place, "files are not read here", "write the data in its place")
            return None
        path = self._folder / given
        try:
            data = parse_document(read_input(str(path)), given)
        except InvalidDocument as error:
            for each in error.problems:
                self._problems.add(place, f"{given}: {each.message}", each.remedy)
            return None
        except BadInput as error:
            self._problems.add(place, str(error), "it is looked for from the suite's folder")
            return None
        remedy = "write collections of rows: {orders: [{id: A-17}]}"
        if not isinstance(data, dict):
            self._problems.add(place, f"{given}: not an object with collections", remedy)
            return None
        for name, rows in data.items():
            if not isinstance(rows, list):
                self._problems.add(place, f"{given}: {name} is not a list of rows", remedy)
                return None
            wrong = next((n for n, row in enumerate(rows) if not isinstance(row, dict)), None)
            if wrong is not None:
                self._problems.add(place, f"{given}: {name}[{wrong}] is not a row", remedy)
                return None
        return data

    def _is_sound(self, data: Mapping[str, Any], place: str) -> bool:
        for name, rows in data.items():
            if unfit(rows, MAX_ROW_DEPTH + 1) is not None:
                reasons = ((number, unfit(row)) for number, row in enumerate(rows))
                number, reason = next((n, why) for n, why in reasons if why is not None)
                where = f"{child(place, name)}[{number}]"
                self._problems.add(where, str(reason), "write rows that a log can hold")
                return False
        return True

    def _check_tool(
        self, tool: WorldTool, fields: Mapping[str, Mapping[str, None]], place: str
    ) -> None:
        operation, target, by = tool.operation, tool.target, tool.by
        if operation == "python":
            if (missing := self._missing_code(target)) is not None:
                others = "use get, find, create, update or delete"
                remedy = missing.remedy if self._allow_code else others
                self._problems.add(f"{place}.python", missing.message, remedy)
        elif target not in fields:
            message = f"the world has no collection {target!r}"
            self._problems.add(f"{place}.{operation}", message, _meant(target, fields))
        elif operation in _IDENTIFIED and fields[target] and by not in fields[target]:
            message = f"no row of {target} has a field {by!r}"
            self._problems.add(f"{place}.by", message, _meant(by, fields[target]))

    def _check_recorded(self, data: Mapping[str, Any], collection: str, place: str) -> None:
        """Refuse rows of a collection that a tool replays if they are no recorded calls."""
        remedy = "write rows such as {args: {id: A-17}, answer: {status: sent}}"
        for number, row in enumerate(data[collection]):
            try:
                recorded = msgspec.convert(row, ReplayRow)
            except msgspec.ValidationError as error:
                self._problems.add(f"{place}[{number}]", str(error), remedy)
                continue
            for at, change in enumerate(recorded.changes or ()):
                if change.of not in data:
                    message = f"the world has no collection {change.of!r}"
                    where = f"{place}[{number}].changes[{at}].of"
                    self._problems.add(where, message, _meant(change.of, data))


def check_use(
    world: str,
    faults: Sequence[ToolFault],
    fixtures: Fixtures | None,
    worlds: Mapping[str, World | None],
    path: str,
    problems: "Problems",
) -> None:
    """Refuse a world that there is not, and faults of tools that the task has not."""
    if world and world not in worlds:
        message = f"the suite has no world {world!r}"
        problems.add(f"{path}.world", message, _meant(world, worlds))
        return
    known = worlds.get(world)
    if world and known is None:  # what is wrong with it is told
        return
    in_fixtures = {each.tool for each in fixtures.tool_responses} if fixtures and faults else ()
    in_world = known.tools if known else ()
    for index, fault in enumerate(faults):
        place = f"{path}.faults[{index}]"
        tool = None if fault.tool == EVERY_TOOL else fault.tool
        if tool is not None and not (tool in in_world or tool in in_fixtures):
            message = f"the suite answers no tool {tool!r} in this task"
            meant = _meant(tool, chain(in_world, sorted(in_fixtures)))
            problems.add(f"{place}.tool", message, meant)
        elif not (in_world or in_fixtures):
            message = "the suite answers no tool in this task, so nothing could go wrong"
            problems.add(place, message, "name a world, or give fixtures with toolResponses")
        if fault.seconds is not None and fault.fault != "slow":
            problems.add(f"{place}.seconds", "only a slow tool takes seconds", "leave it out")
        if fault.rate == 0:
            problems.add(f"{place}.rate", "a rate of 0 strikes no call", "leave the fault out")


def _meant(name: str, known: Iterable[str]) -> str:
    names = [*islice(known, _MOST_NAMES)]
    short = [each for each in names if len(each) <= _LONGEST_NAME]
    if len(name) <= _LONGEST_NAME and (close := get_close_matches(name, short, 1)):
        return f"did you mean {close[0]}?"
    if not names:
        return "there are none"
    told = ", ".join(f"{each:.{_LONGEST_NAME}}" for each in names[:_MOST_TOLD])
    return f"there are: {told}" + (" and others" if len(names) > _MOST_TOLD else "")

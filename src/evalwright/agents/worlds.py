"""Worlds: data that the tools of a task read and change, fresh for each invocation.

Rows are never changed in place, so all invocations share those that none of them has changed.
"""

import hashlib
import inspect
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from evalwright.agents.python_tools import tool_failure
from evalwright.agents.toolbox import ToolDescription, ToolFailed
from evalwright.contracts.events import RowChange, WorldChanged
from evalwright.contracts.jsonvalue import canonical, json_equal, unfit
from evalwright.contracts.suite import ReplayChange, ReplayRow, World, WorldTool

Row: TypeAlias = dict[str, Any]
Functions: TypeAlias = Mapping[str, Callable[..., Any]]
MOST_DESCRIBED = 200  # rows whose fields a model is told of
MOST_WRITTEN = 16 << 20  # bytes that a task may write
_ID_DIGITS = 8
_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array"}
_TYPES |= {dict: "object", type(None): "null"}
_READING = ("get", "find")


class Collection:
    """The rows of a collection by their numbers, which stay the same as others come and go."""

    def __init__(self, rows: dict[int, Row]) -> None:
        self.rows = rows
        self.next_number = len(rows)
        self.touched: set[int] = set()
        self._numbers: dict[str, dict[Any, tuple[int, ...]]] = {}  # of rows by field and value

    def copy(self) -> "Collection":
        copied = Collection(dict(self.rows))
        copied.next_number = self.next_number
        copied._numbers = {field: dict(numbers) for field, numbers in self._numbers.items()}
        return copied

    def find(self, where: Mapping[str, Any]) -> Iterator[int]:
        """The numbers of the rows that have all these values."""
        if not where:
            yield from tuple(self.rows)
            return
        first, *others = where
        for number in self._by(first).get(_key(where[first]), ()):
            row = self.rows[number]
            if all(name in row and json_equal(row[name], where[name]) for name in others):
                yield number

    def put(self, number: int, row: Row | None) -> None:
        """Set a row, or with None remove it."""
        before = self.rows.get(number)
        if row is None:
            del self.rows[number]
        else:
            self.rows[number] = row
        self.next_number = max(self.next_number, number + 1)
        self.touched.add(number)
        for field, numbers in self._numbers.items():
            was = _key(before[field]) if before is not None and field in before else None
            now = _key(row[field]) if row is not None and field in row else None
            if was != now:
                if was is not None:
                    numbers[was] = tuple(each for each in numbers[was] if each != number)
                if now is not None:
                    numbers[now] = tuple(sorted((*numbers.get(now, ()), number)))

    def _by(self, field: str) -> dict[Any, tuple[int, ...]]:
        if field not in self._numbers:
            found: dict[Any, list[int]] = {}
            for number, row in self.rows.items():
                if field in row:
                    found.setdefault(_key(row[field]), []).append(number)
            self._numbers[field] = {key: tuple(numbers) for key, numbers in found.items()}
        return self._numbers[field]


def _key(value: Any) -> Any:
    """What stands for a value in an index: equal for values that are equal as JSON."""
    return value if type(value) is str else (canonical(value),)


class PreparedWorld:
    """A world of a suite, ready for any number of invocations."""

    def __init__(self, name: str, world: World, functions: Functions) -> None:
        """`functions` are those that its tools call, by what the suite calls them."""
        self.name = name
        self.world = world
        self.tables = {each: Collection(dict(enumerate(rows))) for each, rows in world.data.items()}
        self._functions = functions
        self._described: dict[str, ToolDescription] = {}

    def function(self, tool: WorldTool) -> Callable[..., Any]:
        return self._functions[tool.target]

    def describe(self, name: str) -> ToolDescription:
        if name not in self._described:
            self._described[name] = _description(name, self.world, self._functions)
        return self._described[name]


class WorldState:
    """The world of one invocation, as its tools have left it.

    A function of the suite is given it, and may use `find`, `get`, `create`, `update` and `delete`.
    """

    def __init__(self, prepared: PreparedWorld, seed: str) -> None:
        """`seed` decides the ids that are made."""
        self._prepared = prepared
        self._tables = dict(prepared.tables)  # shared until they are changed
        self._seed = seed
        self._made = 0  # ids
        self._written = 0  # bytes
        self._last_ids: dict[str, Any] = {}  # of collections whose ids are numbers
        self._lock = threading.RLock()

    def find(self, collection: str, /, **where: Any) -> list[Row]:
        """Copies of the rows that have these values."""
        with self._lock:
            table = self._table(collection)
            rows = [table.rows[number] for number in table.find(where)]
        return [_copied(row) for row in rows]

    def get(self, collection: str, /, **where: Any) -> Row | None:
        """A copy of the first row that has these values; None if there is none."""
        with self._lock:
            found = self._first(collection, where)
        row: Row | None = None if found is None else _copied(found[1])
        return row

    def create(self, collection: str, row: Mapping[str, Any], /, by: str = "id") -> Row:
        """Add a row and return it, with an id made for it if it has none."""
        with self._lock:
            table = self._table(collection)
            added = self._accepted(row)
            if by not in added:
                added = {by: self._new_id(collection, table, by), **added}
            elif next(table.find({by: added[by]}), None) is not None:
                message = f"{collection} has {_shown(by, added[by])} already"
                raise ToolFailed("already_exists", message)
            self._own(collection).put(table.next_number, added)
        copied: Row = _copied(added)
        return copied

    def update(
        self, collection: str, where: Mapping[str, Any], changes: Mapping[str, Any], /
    ) -> list[Row]:
        """Change all rows that have these values, and return them as they are then."""
        with self._lock:
            accepted = self._accepted(changes)
            table = self._own(collection)
            changed = []
            for number in [*table.find(where)]:
                row = {**table.rows[number], **accepted}
                table.put(number, row)
                changed.append(row)
        return [_copied(row) for row in changed]

    def delete(self, collection: str, /, **where: Any) -> list[Row]:
        """Remove all rows that have these values, and return them."""
        with self._lock:
            table = self._own(collection)
            removed = [(number, table.rows[number]) for number in [*table.find(where)]]
            for number, _ in removed:
                table.put(number, None)
        return [_copied(row) for _, row in removed]

    def call(self, tool: WorldTool, arguments: Row) -> Any:
        """What a tool answers to arguments that are its own copy; raises `ToolFailed`."""
        operation, collection, by = tool.operation, tool.target, tool.by
        if operation == "python":
            try:
                return self._prepared.function(tool)(self, **arguments)
            except BaseException as error:  # whatever it is, the tool has failed
                raise tool_failure(error) from error
        with self._lock:
            if operation == "find":
                table = self._table(collection)
                return [table.rows[number] for number in table.find(arguments)]
            if operation == "replay":
                return self._replay(collection, arguments)
            if operation == "create":
                return self.create(collection, arguments, by)
            if by not in arguments:
                raise ToolFailed("invalid_arguments", f"the argument {by!r} is missing")
            if operation != "update" and (unknown := [*(arguments.keys() - {by})]):
                named = ", ".join(sorted(unknown))
                raise ToolFailed("invalid_arguments", f"there is no argument {named}; give {by}")
            found = self._first(collection, {by: arguments[by]})
            if found is None:
                message = f"there is nothing in {collection} with {_shown(by, arguments[by])}"
                raise ToolFailed("not_found", message)
            number, row = found
            if operation == "get":
                return row
            changed = None if operation == "delete" else {**row, **self._accepted(arguments)}
            self._own(collection).put(number, changed)
            return row if changed is None else changed

    def changes(self) -> WorldChanged:
        """What is different from the beginning."""
        changes = []
        with self._lock:
            for name, base in self._prepared.tables.items():
                for number in sorted(self._tables[name].touched):
                    before = base.rows.get(number, msgspec.UNSET)
                    after = self._tables[name].rows.get(number, msgspec.UNSET)
                    if not json_equal(before, after):
                        changes.append(RowChange(name, number, before, after))
        return WorldChanged(self._prepared.name, changes)

    def _accepted(self, values: Mapping[str, Any]) -> Row:
        """A copy of what is to be written, which a log can hold."""
        if (reason := unfit(values)) is not None:
            raise ToolFailed("invalid_arguments", reason)
        data = msgspec.json.encode(values)
        self._written += len(data)
        if self._written > MOST_WRITTEN:
            message = f"a task can write {MOST_WRITTEN >> 20} MiB to its world, and no more"
            raise ToolFailed("world_full", message)
        accepted: Row = msgspec.json.decode(data)
        return accepted

    def _replay(self, collection: str, arguments: Row) -> Any:
        """The answer that was recorded for these arguments, and what the call changed then."""
        found = self._first(collection, {"args": arguments})
        if found is None:
            raise ToolFailed("not_recorded", "the tool has no result for these arguments")
        number, row = found
        recorded = msgspec.convert(row, ReplayRow)
        if recorded.changes is not None:  # it may write, so that it was made is part of the state
            self._own(collection).put(number, {**row, "calls": recorded.calls + 1})
            for change in recorded.changes:
                self._change_replay(change)
        if recorded.error is not None:
            raise ToolFailed("tool_error", recorded.error)
        return recorded.answer

    def _change_replay(self, change: ReplayChange) -> None:
        table = self._own(change.of)
        number, row = self._first(change.of, {"args": change.args}) or (table.next_number, {})
        kept = {name: each for name, each in row.items() if name not in ("answer", "error")}
        after: Row = {"args": change.args, **kept}
        if change.error is not None:
            after["error"] = change.error
        elif change.answer is not msgspec.UNSET:
            after["answer"] = change.answer
        else:
            after["answer"] = merged(row.get("answer"), change.merge)
        table.put(number, after)

    def _first(self, collection: str, where: Mapping[str, Any]) -> tuple[int, Row] | None:
        table = self._table(collection)
        number = next(table.find(where), None)
        return None if number is None else (number, table.rows[number])

    def _table(self, collection: str) -> Collection:
        try:
            return self._tables[collection]
        except KeyError:
            known = ", ".join(self._tables) or "none"
            raise LookupError(f"no collection is called {collection!r}: {known}") from None

    def _own(self, collection: str) -> Collection:
        """The table of a collection, which this invocation may change."""
        table = self._table(collection)
        if table is self._prepared.tables[collection]:
            table = self._tables[collection] = table.copy()
        return table

    def _new_id(self, collection: str, table: Collection, by: str) -> Any:
        """An id that no row has: the next number where ids are numbers, else one by the seed."""
        if collection not in self._last_ids:
            ids = [row[by] for row in table.rows.values() if by in row]
            are_numbers = bool(ids) and all(type(each) is int for each in ids)
            self._last_ids[collection] = max(ids) if are_numbers else None
        while True:
            self._made += 1
            if (last := self._last_ids[collection]) is not None:
                made = self._last_ids[collection] = last + 1
            else:
                named = f"{self._seed}:{collection}:{self._made}"
                made = f"{collection}-{hashlib.sha256(named.encode()).hexdigest()[:_ID_DIGITS]}"
            if next(table.find({by: made}), None) is None:
                return made


def merged(value: Any, patch: Any) -> Any:
    """A value with a JSON merge patch (RFC 7396) put over it."""
    if not isinstance(patch, dict):
        return patch
    result = dict(value) if isinstance(value, dict) else {}
    for name, each in patch.items():
        if each is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), each)
    return result


def _copied(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def _shown(by: str, value: Any) -> str:
    return f"{by} {msgspec.json.encode(value).decode()}"


def _description(name: str, world: World, functions: Functions) -> ToolDescription:
    """What a model is told of a tool: of the rows it works on, or of its function."""
    tool = world.tools[name]
    operation, target, by = tool.operation, tool.target, tool.by
    if operation == "python":
        function = functions[target]
        about = tool.description or inspect.getdoc(function) or ""
        return ToolDescription(name, about, _signature(function))
    types: dict[str, set[str]] = {}
    rows = world.data[target][:MOST_DESCRIBED]
    given = [row["args"] for row in rows] if operation == "replay" else rows
    for each in given:
        for field, value in each.items():
            types.setdefault(field, set()).add(_TYPES[type(value)])
    known = {
        field: {"type": next(iter(kinds)) if len(kinds) == 1 else sorted(kinds)}
        for field, kinds in types.items()
    }
    one = {by: known.get(by, {})}
    about, fields, required = {
        "get": (f"Get one of {target} by {by}.", one, [by]),
        "find": (f"List those of {target} that have all the values given.", known, []),
        "create": (f"Add to {target}.", known, []),
        "update": (f"Change one of {target}, named by {by}.", one | known, [by]),
        "delete": (f"Delete one of {target} by {by}.", one, [by]),
        "replay": ("", known, [each for each in known if all(each in args for args in given)]),
    }[operation]
    parameters: dict[str, Any] = {"type": "object", "properties": fields}
    if required:
        parameters["required"] = required
    if operation in ("get", "delete"):
        parameters["additionalProperties"] = False
    writes = operation not in _READING
    if operation == "replay":
        writes = any("changes" in row for row in world.data[target])
    return ToolDescription(name, tool.description or about, parameters, writes=writes)


def _signature(function: Callable[..., Any]) -> dict[str, Any]:
    """The arguments of a function besides the world, which is the first."""
    _, *given = inspect.signature(function).parameters.values()
    named = [each for each in given if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    kinds = {each.__name__: name for each, name in _TYPES.items()}
    properties = {}
    for each in named:
        written = getattr(each.annotation, "__name__", each.annotation)
        properties[each.name] = {"type": kinds[written]} if written in kinds else {}
    parameters: dict[str, Any] = {"type": "object", "properties": properties}
    if required := [each.name for each in named if each.default is each.empty]:
        parameters["required"] = required
    if not any(each.kind is each.VAR_KEYWORD for each in given):
        parameters["additionalProperties"] = False
    return parameters

"""What exports wrap records in: lists, objects that hold a list, answers of APIs, JSON as text."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from evalwright.trace.importers.records import FileStretch, ImportRecord
from evalwright.trace.importers.values import structure_from_text
from evalwright.trace.model import Json

_LIST_KEYS = (
    "records",
    "data",
    "logs",
    "conversations",
    "traces",
    "spans",
    "runs",
    "results",
    "trajectories",
    "observations",
    "batch",
    "rows",
    "items",
    "sessions",
)
_HOLDING_KEYS = ("row", "trace", "run", "record", "values", "state", "session", "result")
_MOST_WRAPPERS = 4


class Wrappers:
    """Takes documents apart; `is_record` knows a record, also one that is a list.

    A list may be a conversation and yet hold records: `is_part` knows what is part of a record.
    """

    def __init__(self, is_record: Callable[[Json], bool], is_part: Callable[[Json], bool]) -> None:
        self._is_record = is_record
        self._is_part = is_part

    def unwrapped(
        self, records: Iterable[ImportRecord], stretch: FileStretch
    ) -> Iterator[ImportRecord]:
        """Documents that hold many records, as these records; the stretch counts them."""
        count = stretch.records
        for record in records:
            found = [("", record.value)] if record.fault else self.held(record.value)
            for place, value in found:
                count += 1
                where = record.place + (f": {place}" if place else "")
                yield msgspec.structs.replace(record, number=count, place=where, value=value)
        stretch.records = count

    def held(
        self, value: Json, place: str = "", levels: int = _MOST_WRAPPERS
    ) -> Iterator[tuple[str, Json]]:
        """The records in a value, each with its place in it."""
        value = structure_from_text(value)
        inner = self._inner(value) if levels else None
        if inner is None:
            yield place, value
            return
        for index, each in enumerate(inner):
            yield from self.held(each, f"{place}[{index}]", levels - 1)

    def _inner(self, value: Json) -> list[Any] | None:
        """What a document is a list of or holds a list of; None if it is a record itself."""
        is_record = self._is_record(value)
        if isinstance(value, list):
            if not is_record:
                return value
            # What might be a conversation is a list of records if the first of them is one.
            first = value[0] if value else None
            is_list = isinstance(first, dict) and self._is_record(first)
            return value if is_list and not self._is_part(first) else None
        if not isinstance(value, dict) or is_record:
            return None
        for key in _LIST_KEYS:
            held = structure_from_text(value.get(key))
            if isinstance(held, list):
                return held
        # What an object holds under a usual name, or under the ids of all that it holds.
        for key in _HOLDING_KEYS:
            held = structure_from_text(value.get(key))
            is_known = isinstance(held, dict | list) and (
                self._is_record(held) or self._inner(held) is not None
            )
            if is_known:
                return [held]
        by_id = [each for each in value.values() if isinstance(each, dict | list)]
        is_index = bool(value) and len(by_id) == len(value)
        return by_id if is_index and all(map(self._is_record, by_id[:2])) else None

"""Traces that tools store as runs with parents: one case for each tree."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from evalwright.trace.importers.operation import Operation
from evalwright.trace.importers.records import Imported, Importer, ImportRecord, PassedOver
from evalwright.trace.importers.span_formats import Span
from evalwright.trace.importers.span_groups import SpanGroups
from evalwright.trace.model import Json


class TreeDialect(Protocol):
    """How a tool writes runs; `known` says what is read of them."""

    known: str

    def nodes(self, value: Json) -> list[dict[str, Any]]:
        """The runs that a record holds."""
        ...

    def span(self, raw: dict[str, Any]) -> Span:
        """What a run is."""
        ...

    def read(self, span: Span) -> Operation | None:
        """What a run did."""
        ...

    def is_whole(self, value: Json) -> bool:
        """Whether a record holds all runs of its trees; others may go on anywhere in the file."""
        ...


class RunTrees(Importer):
    """Reads the records of one tool; later records of a run complete earlier ones."""

    def __init__(self, dialect: TreeDialect, name: str) -> None:
        self._dialect = dialect
        self._name = name
        self._nodes: dict[str, dict[str, Any]] = {}
        self._turns: Counter[str] = Counter()

    def read(self, record: ImportRecord) -> Iterator[Imported | PassedOver]:
        nodes = self._dialect.nodes(record.value)
        if self._dialect.is_whole(record.value):
            yield from self._cases(nodes, record.place)
            return
        for node in nodes:
            span = self._dialect.span(node)
            key = span.span_id or f"nameless {len(self._nodes)}"
            said = {name: value for name, value in node.items() if value is not None}
            self._nodes[key] = {**self._nodes.get(key, {}), **said}

    def rest(self) -> Iterator[Imported | PassedOver]:
        if self._nodes:
            yield from self._cases(self._nodes.values(), self._name)

    def is_idle(self) -> bool:
        return not self._nodes and not self._turns

    def _cases(
        self, nodes: Iterable[dict[str, Any]], place: str
    ) -> Iterator[Imported | PassedOver]:
        groups = SpanGroups(place, self._dialect.read, self._dialect.known, self._turns)
        for node in nodes:
            groups.add(self._dialect.span(node))
        yield from groups.rest()

"""The cost of a JSON Schema: how many parts it has once its references are followed.

A few lines can refer to each other so that every check takes hours. A checker follows a reference
from outside a cycle as often as it is met, and one within a cycle once for each value, so what a
check costs can be counted without making one.
"""

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

import msgspec

MOST_PARTS = 1_000_000

_ONE = (
    "not",
    "if",
    "then",
    "else",
    "items",
    "additionalItems",
    "unevaluatedItems",
    "contains",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "contentSchema",
)
_LISTED = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_NAMED = ("properties", "patternProperties", "dependentSchemas", "dependencies")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")

Schema = dict[str, Any]


class SchemaCost(msgspec.Struct, frozen=True):
    """Parts of a schema, as they are written and with every reference followed."""

    written: int
    parts: int  # at most one more than `MOST_PARTS`
    loops: int  # ways in which one part leads back to itself


def schema_cost(schema: Any) -> SchemaCost:
    """Count the parts; raises `RecursionError` for a schema that is nested without end."""
    if not isinstance(schema, dict):
        return SchemaCost(1, 1, 0)
    count = _Count(_References(schema))
    count.visit(schema)
    return SchemaCost(len(count.parts), count.parts[id(schema)], count.loops)


class _References:
    """Where references lead: to resources by address, to anchors and to places within them."""

    def __init__(self, root: Schema) -> None:
        self._resources: dict[str, Any] = {"": root}
        self._anchors: dict[tuple[str, str], list[Schema]] = {}
        self._bases: dict[int, str] = {}
        self._id = "id" if "draft-04" in str(root.get("$schema")) else "$id"
        self._collect(root, "")

    def targets(self, schema: Schema) -> Iterator[Schema]:
        """The schemas that this one refers to; without those that the checker knows."""
        for keyword in _REFERENCES:
            reference = schema.get(keyword)
            if isinstance(reference, str):
                for found in self._found(reference, self._bases.get(id(schema), "")):
                    if isinstance(found, dict):
                        yield found

    def _found(self, reference: str, base: str) -> list[Any]:
        address, fragment = base, reference[1:]
        if not reference.startswith("#"):
            address, fragment = urldefrag(urljoin(base, reference))
        resource = self._resources.get(address)
        if not fragment or fragment.startswith("/"):
            value = resource
            for name in unquote(fragment).split("/")[1:]:
                key = name.replace("~1", "/").replace("~0", "~")
                if isinstance(value, list) and key.isdecimal() and int(key) < len(value):
                    value = value[int(key)]
                else:
                    value = value.get(key) if isinstance(value, dict) else None
            return [value]
        return self._anchors.get((address, fragment), [])

    def _collect(self, value: Any, base: str) -> None:
        if isinstance(value, list):
            for item in value:
                self._collect(item, base)
        if not isinstance(value, dict):
            return
        base = self._named(value, base)
        self._bases[id(value)] = base
        for item in value.values():
            self._collect(item, base)

    def _named(self, schema: Schema, base: str) -> str:
        names = [schema.get(keyword) for keyword in ("$anchor", "$dynamicAnchor")]
        address = schema.get(self._id)
        if isinstance(address, str) and address.startswith("#"):
            names.append(address[1:])
        elif isinstance(address, str):
            base = urldefrag(urljoin(base, address))[0]
            self._resources.setdefault(base, schema)
        for name in names:
            if isinstance(name, str):
                self._anchors.setdefault((base, name), []).append(schema)
        return base


class _Count:
    """Tarjan's walk: what leads back to itself is counted as one."""

    def __init__(self, references: _References) -> None:
        self.parts: dict[int, int] = {}
        self.loops = 0
        self._references = references
        self._order: dict[int, int] = {}
        self._open: list[Schema] = []

    def visit(self, schema: Schema) -> int:
        """The earliest part, of those still open, that this one leads to."""
        number = earliest = self._order[id(schema)] = len(self._order)
        self._open.append(schema)
        for part in self._led_to(schema):
            if id(part) not in self._order:
                earliest = min(earliest, self.visit(part))
            elif id(part) not in self.parts:
                earliest = min(earliest, self._order[id(part)])
        if earliest == number:
            self._close(schema)
        return earliest

    def _close(self, first: Schema) -> None:
        start = next(n for n in reversed(range(len(self._open))) if self._open[n] is first)
        cycle = self._open[start:]
        del self._open[start:]
        inside, total = 0, len(cycle)
        for schema in cycle:
            for part in self._led_to(schema):
                known = self.parts.get(id(part))
                total += known or 0
                inside += known is None
        self.parts |= dict.fromkeys(map(id, cycle), min(total, MOST_PARTS + 1))
        self.loops = max(self.loops, inside - len(cycle) + 1)

    def _led_to(self, schema: Schema) -> Iterator[Schema]:
        for part in _parts(schema):
            if isinstance(part, dict):
                yield part
        yield from self._references.targets(schema)


def _parts(schema: Schema) -> Iterator[Any]:
    for keyword in _ONE:
        yield schema.get(keyword)
    for keyword in _LISTED:
        listed = schema.get(keyword)
        yield from listed if isinstance(listed, list) else ()
    for keyword in _NAMED:
        named = schema.get(keyword)
        yield from named.values() if isinstance(named, dict) else ()

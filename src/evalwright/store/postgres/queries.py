"""The statements that read the log."""

# ruff: noqa: S608 - statements are made of constants only

from collections.abc import Sequence
from typing import Any

from evalwright.store import facts
from evalwright.store.postgres.stored_text import end_of_prefix, restored, storable
from evalwright.store.protocol import RunFacts, RunFilter

_EVENT = "seq, type, task_id, at_us, body, content, content_at, tenant, checksum"

RUN = "SELECT run, last_seq FROM runs WHERE run_id = $1"
CONTENT = "SELECT body FROM contents WHERE tenant = $1 AND sha256 = $2"
SUMS_OF_RUN = "SELECT last_seq, summed, checksum FROM runs WHERE run_id = $1"
CHECKSUMS = "SELECT checksum FROM events WHERE run = $1 AND seq <= $2 AND checksum IS NOT NULL"
EDGES = (
    f"SELECT {_EVENT} FROM (SELECT run, last_seq FROM runs WHERE run_id = $1) AS asked"
    " JOIN events USING (run) WHERE seq = ANY"
    " (ARRAY[0, 1, greatest(2, last_seq - 1), greatest(2, last_seq)]::bigint[])"
)
_COLUMNS = ", ".join(
    {"events": "runs.last_seq + 1", "number": "runs.run"}.get(name, f"runs.{name}")
    for name in RunFacts._fields
)
FACTS_OF_RUN = f"SELECT {_COLUMNS} FROM runs WHERE run = $1 AND started_us IS NOT NULL"
RUN_IDS = "SELECT run_id FROM runs WHERE started_us IS NOT NULL AND run < $1"

# Where few runs are asked for, they come first: an order of all runs must not be searched for them.
_SOURCES = {
    "number": "SELECT run FROM runs WHERE run = {value}",
    "beginning": "SELECT run FROM runs WHERE run_id >= {value}{end}",
    "repeats": "SELECT run FROM runs WHERE repeats = {value}",
    "resumed_from": "SELECT run FROM runs WHERE resumed_from = {value}",
}
_PRESENCE = {"has_ended": "ended_us", "is_evaluation": "suite"}


_TEXTS = [
    RunFacts._fields.index(name)
    for name in ("workflow", "suite", "agent", "repeats", "resumed_from")
]


def run_facts(row: Sequence[Any]) -> RunFacts:
    """Facts from the columns of a statement above."""
    values = list(row)
    for place in _TEXTS:
        if values[place]:
            values[place] = restored(values[place])
    return facts.from_row(values)


def events_of(types: Sequence[str], tenant: str | None) -> str:
    """The statement for a page of events: run, after, last, limit; then types and tenant."""
    wanted = " AND type = ANY ($5::text[])" if types else ""
    mine = f" AND tenant = ${6 if types else 5}" if tenant is not None else ""
    return (
        f"SELECT {_EVENT} FROM events WHERE run = $1 AND seq > $2 AND seq <= $3{wanted}{mine}"
        " ORDER BY seq LIMIT $4"
    )


class _StatementValues(list[Any]):
    def add(self, value: object) -> str:
        self.append(storable(value) if isinstance(value, str) else value)
        return f"${len(self)}"


def runs_with(
    wanted: RunFilter, tenant: str | None, before: int, limit: int | None
) -> tuple[str, list[Any]]:
    """The statement that finds runs, newest first, and its values."""
    values = _StatementValues([before, limit])
    mine = "" if tenant is None else f" AND runs.tenant = {values.add(tenant)}"
    table, few = "runs", []
    conditions = ["runs.started_us IS NOT NULL", "runs.run < $1"]
    for name, value in wanted._asdict().items():
        if value is None:
            continue
        if name == "tag":
            table = "run_tags JOIN runs ON runs.run = run_tags.run"
            conditions.append(f"run_tags.tag = {values.add(value)}")
            mine += mine.replace("runs.tenant", "run_tags.tenant")
        elif name in _PRESENCE:
            conditions.append(f"runs.{_PRESENCE[name]} IS {'NOT ' if value else ''}NULL")
        elif name in _SOURCES:
            end = end_of_prefix(value) if name == "beginning" else None
            bound = "" if end is None else f" AND run_id < {values.add(end)}"
            few.append(_SOURCES[name].format(value=values.add(value), end=bound))
        else:
            conditions.append(f"runs.{name} = {values.add(value)}")
    start = f"WITH few AS MATERIALIZED ({' INTERSECT '.join(few)}) " if few else ""
    table += " JOIN few ON few.run = runs.run" if few else ""
    return (
        f"{start}SELECT {_COLUMNS} FROM {table} WHERE {' AND '.join(conditions)}{mine}"
        " ORDER BY runs.run DESC LIMIT $2"
    ), values

"""A few facts of every run, derived from its log and kept beside it: what lists show and ask for.

The thread that writes adds events and facts in one transaction. Facts can always be derived again,
which is how a log of an older version gets them.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import msgspec

from evalwright.contracts.errors import DamagedEventLog
from evalwright.contracts.events import (
    TERMINAL_TYPES,
    EvalCompleted,
    EvalStarted,
    RunPaused,
    RunResumed,
    RunStarted,
)
from evalwright.store import checksums, contents, outbox
from evalwright.store.contents import FRAME_EVENTS, SHARED_BYTES
from evalwright.store.protocol import NewEvent, RunFacts

MOST_CHARACTERS = 512  # of a name that can be asked for; longer ones are not names
MOST_TAGS = 100

Changes = dict[str, Any]  # new values, by column

# Many rows with one statement: between two statements, a busy event loop would be waited for.
_INSERTS = {
    count: "INSERT INTO events (run, seq, type, task_id, at_us, body, checksum) VALUES "  # noqa: S608
    + ", ".join(["(?, ?, ?, ?, ?, ?, ?)"] * count)
    for count in (64, 8, 1)
}
_INSERT_THE_REST = (
    "INSERT INTO events (run, seq, type, task_id, at_us, body, checksum, content, content_at)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


_GROW = (
    "UPDATE run_facts SET events = ?, bytes = bytes + ?, summed = summed + ?,"  # noqa: S608
    f" checksum = (checksum * ? + ?) % {checksums.MODULUS} WHERE run = ?"
)


# Looked up run by run, so that the order of the facts is kept.
RUN_ID = "(SELECT run_id FROM runs WHERE runs.run = run_facts.run)"
COLUMNS = ", ".join((RUN_ID, *RunFacts._fields[1:-1], "run"))

_CONDITIONS = {
    "number": "run = :number",
    "tag": "run IN (SELECT run FROM run_tags WHERE tag = :tag{mine})",
    "beginning": (
        "run IN (SELECT run FROM runs WHERE run_id >= :beginning"
        " AND run_id < :beginning || CAST(x'FF' AS TEXT))"
    ),
}
_PRESENCE = {"has_ended": "ended_us", "is_evaluation": "suite"}


def condition(name: str, value: object, mine: str) -> str:
    """What a field of a filter asks, worded so that an index can answer; `mine` asks the tenant."""
    if name in _PRESENCE:
        return f"{_PRESENCE[name]} IS {'NOT ' if value else ''}NULL"
    return _CONDITIONS.get(name, f"{name} = :{name}").format(mine=mine)


_LISTS = tuple(map(RunFacts._fields.index, ("tags", "modes")))
_PASSED = RunFacts._fields.index("passed")


def from_row(row: Sequence[Any]) -> RunFacts:
    """Facts from the columns `COLUMNS`."""
    values = list(row)
    try:
        for place in _LISTS:
            values[place] = [] if values[place] == "[]" else msgspec.json.decode(values[place])
        if values[_PASSED] is not None:
            values[_PASSED] = bool(values[_PASSED])
        return msgspec.convert(values, RunFacts)
    except (msgspec.MsgspecError, TypeError):
        about = f"run {row[0]}: what the list shows of it is not what was written"
        raise DamagedEventLog(f"{about}; {checksums.REMEDY}") from None


_NULL = msgspec.Raw(b"null")

# Events that turn a run to another status; a run is running otherwise.
_TURNS = {
    RunPaused.TYPE: "paused",
    RunResumed.TYPE: "running",
    "interrupt.requested": "waiting-approval",
    "interrupt.resolved": "running",
}
SOURCE_TYPES = frozenset(
    (RunStarted.TYPE, EvalStarted.TYPE, EvalCompleted.TYPE, *_TURNS, *TERMINAL_TYPES)
)


def changes_by(event: NewEvent) -> Changes:
    """The facts that an event of one of the `SOURCE_TYPES` sets."""
    try:
        match event.type:
            case RunStarted.TYPE:
                started = msgspec.json.decode(event.body, type=_Start)
                inputs = started.inputs or _Names()
                # What a client of a host wrote there means nothing to us.
                metadata = (not started.owner and started.metadata) or _Names()
                named = {
                    "suite": inputs.eval_suite_ref,
                    "agent": inputs.agent_id,
                    "repeats": metadata.group,
                    "resumed_from": metadata.resumed_from,
                }
                tags = [tag for tag in started.tags or () if len(tag) <= MOST_CHARACTERS][
                    :MOST_TAGS
                ]
                return {
                    "workflow": started.workflow_id[:MOST_CHARACTERS],
                    "tags": msgspec.json.encode(tags).decode(),
                    **{column: _name(value) for column, value in named.items()},
                }
            case EvalStarted.TYPE:
                modes = msgspec.json.decode(event.body, type=EvalStarted).modes
                return {"modes": msgspec.json.encode(modes).decode()}
            case EvalCompleted.TYPE:
                result = msgspec.json.decode(event.body, type=EvalCompleted)
                return {"score": result.aggregate_score, "passed": result.passed}
            case kind if kind in _TURNS:
                return {"status": _TURNS[kind]}
            case kind:
                return {"status": kind.removeprefix("run."), "ended_us": event.at_us}
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        # Damaged: whoever reads the run says so, and lists show it all the same.
        return {"suite": ""} if event.type == RunStarted.TYPE else {}


class _Names(msgspec.Struct, rename="camel"):
    """What names something in the inputs or the metadata of a run; the rest is not even parsed."""

    eval_suite_ref: msgspec.Raw = _NULL
    agent_id: msgspec.Raw = _NULL
    group: msgspec.Raw = _NULL
    resumed_from: msgspec.Raw = _NULL


class _Start(msgspec.Struct, rename="camel"):
    """The beginning of a run, as far as facts come from it: a client may have sent megabytes."""

    workflow_id: str
    inputs: _Names | None = None
    metadata: _Names | None = None
    owner: dict[str, Any] | None = None
    tags: list[str] | None = None


def _name(value: msgspec.Raw) -> str | None:
    text = bytes(value)
    if not text.startswith(b'"') or len(text) > 6 * MOST_CHARACTERS + 2:
        return None
    name: str = msgspec.json.decode(text)
    return name if len(name) <= MOST_CHARACTERS else None


@dataclass
class Growth:
    """What a transaction adds to the log: events, and what they change in the facts of runs."""

    connection: sqlite3.Connection
    rows: list[tuple[int, int, str, str | None, int, str, int]] = field(default_factory=list)
    begun: list[tuple[int, str, int]] = field(default_factory=list)  # run, tenant, time
    changes: list[tuple[int, str, Changes]] = field(default_factory=list)  # by run and tenant
    sizes: dict[int, tuple[int, int]] = field(default_factory=dict)  # events in all, bytes added
    sums: dict[int, list[int]] = field(default_factory=dict)  # of the events that are added
    firsts: dict[int, int] = field(default_factory=dict)  # of them

    def add(self, run_id: str, start: tuple[int, int, str], events: Sequence[NewEvent]) -> None:
        run, first, tenant = start
        seed, sums = checksums.seed_of(run_id), self.sums.setdefault(run, [])
        self.firsts.setdefault(run, first)
        if first == 0:
            self.begun.append((run, tenant, events[0].at_us))
        size = self.sizes.get(run, (0, 0))[1]
        for sequence, event in enumerate(events, first):
            kind, task_id, at_us, body = event
            size += len(body)
            checksum = checksums.of_event(seed, kind, task_id, at_us, body)
            sums.append(checksum)
            if kind in SOURCE_TYPES:
                self.changes.append((run, tenant, changes_by(event)))
            part = None
            if sequence < FRAME_EVENTS and len(body) >= SHARED_BYTES:
                part = contents.cut(body)
            if part is None:
                self.rows.append((run, sequence, kind, task_id, at_us, body.decode(), checksum))
                continue
            self.connection.executemany(_INSERTS[1], self.rows)  # what comes before it
            self.rows.clear()
            row = (run, sequence, kind, task_id, at_us, part.rest.decode(), checksum)
            content = contents.keep(self.connection, part)
            self.connection.execute(_INSERT_THE_REST, (*row, content, part.at))
        self.sizes[run] = first + len(events), size

    def write(self) -> None:
        done = 0
        for count, statement in _INSERTS.items():
            while len(self.rows) - done >= count:
                values = chain.from_iterable(self.rows[done : done + count])
                self.connection.execute(statement, tuple(values))
                done += count
        self.connection.executemany(
            "INSERT INTO run_facts (run, tenant, started_us) VALUES (?, ?, ?)", self.begun
        )
        for run, tenant, changes in self.changes:
            if changes:
                self.connection.execute(
                    f"UPDATE run_facts SET {', '.join(f'{name} = ?' for name in changes)}"  # noqa: S608
                    " WHERE run = ?",
                    (*changes.values(), run),
                )
            if changes.get("tags", "[]") != "[]":
                tags = msgspec.json.decode(changes["tags"])
                self.connection.executemany(
                    "INSERT OR IGNORE INTO run_tags VALUES (?, ?, ?)",
                    [(tenant, tag, run) for tag in tags],
                )
        for run, (events, size) in self.sizes.items():
            sums = self.sums[run]
            self.connection.execute(_GROW, (events, size, len(sums), *checksums.batch(sums), run))
        if self.firsts and self.connection.execute(outbox.HAS_FOLLOWERS).fetchone():
            self.connection.executemany(outbox.DELIVER_TO_SQLITE, self.firsts.items())


def _whole(
    kind: str, task_id: str | None, at_us: int, body: bytes, at: int | None, part: bytes | None
) -> NewEvent:
    return NewEvent(
        kind, task_id, at_us, body if at is None else contents.join(body, at, part or b"")
    )


def rebuild(connection: sqlite3.Connection, runs: Iterable[tuple[int, str]]) -> None:
    """Derive the facts of runs, each given with its tenant, from their events."""
    types = ", ".join(f"'{name}'" for name in sorted(SOURCE_TYPES))
    statement = (
        "SELECT type, task_id, at_us, CAST(events.body AS BLOB), content_at,"  # noqa: S608
        " CAST(contents.body AS BLOB) FROM events LEFT JOIN contents USING (content)"
        f" WHERE run = ? AND (seq = 0 OR type IN ({types})) ORDER BY seq"
    )
    sizes = (
        "SELECT count(*), sum(length(CAST(events.body AS BLOB))"
        " + coalesce(length(CAST(contents.body AS BLOB)), 0))"
        " FROM events LEFT JOIN contents USING (content) WHERE run = :run"
    )
    for run, tenant in runs:
        for table in ("run_tags", "run_facts"):
            connection.execute(f"DELETE FROM {table} WHERE run = ?", (run,))  # noqa: S608
        events = [_whole(*row) for row in connection.execute(statement, (run,))]
        if not events:
            continue
        sources = [event for event in events if event.type in SOURCE_TYPES]
        changes = [(run, tenant, changes_by(event)) for event in sources]
        Growth(connection, begun=[(run, tenant, events[0].at_us)], changes=changes).write()
        connection.execute(
            "UPDATE run_facts SET (events, bytes) = "  # noqa: S608 - constants only
            f"({sizes}) WHERE run = :run",
            {"run": run},
        )

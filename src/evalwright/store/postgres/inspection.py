"""What is in a log in PostgreSQL, and whether it is sound; nothing is changed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from evalwright.contracts.times import iso_time
from evalwright.store import checksums, outbox
from evalwright.store.inspection import (
    MOST_PER_RULE,
    LogFacts,
    LogProblem,
    RunCheck,
    counts_by_status,
    place_in_log,
    read_rules,
    tenant_facts,
)
from evalwright.store.postgres import address, migration
from evalwright.store.postgres.connections import LogConnections
from evalwright.store.postgres.schema import EVERY_TENANT, OF_DOCUMENT, OF_TOMBSTONE
from evalwright.store.postgres.stored_text import restored
from evalwright.store.protocol import NewEvent

_GROUPS = (
    "SELECT tenant, status, count(*), sum(last_seq + 1)::bigint, sum(bytes)::bigint,"
    " min(started_us), max(coalesce(ended_us, started_us)) FROM runs"
    " WHERE started_us IS NOT NULL GROUP BY tenant, status ORDER BY tenant, status"
)
_DOCUMENTS = "SELECT kind, count(*) FROM records GROUP BY kind ORDER BY kind"
# Events with the parts that are kept once, after an event; NULL where a part is missing.
_WHOLE_EVENTS = """
SELECT seq, type, task_id, at_us, checksum, CASE WHEN content IS NULL THEN events.body ELSE
    substring(events.body FROM 1 FOR content_at) || contents.body
    || substring(events.body FROM content_at + 1) END
FROM events
LEFT JOIN contents ON contents.tenant = events.tenant AND contents.sha256 = events.content
WHERE run = $1 AND seq > $2 AND seq <= $3 ORDER BY seq LIMIT $4
"""
_RUN_ROWS = "SELECT * FROM runs WHERE run > $1 AND started_us IS NOT NULL ORDER BY run LIMIT $2"
_TAGS = "SELECT tag FROM run_tags WHERE run = $1"
INSPECTION_SECONDS = 24 * 3600.0  # all events of a large log are looked at for a rule
_PAGE = 1000  # events whose bodies are looked at together


class DatabaseInspection:
    """Looks at a database as a whole, through the restricted role, as all tenants see it."""

    def __init__(self, url: str) -> None:
        self.place = address.masked(url)
        self._connections = LogConnections(url, self.place, INSPECTION_SECONDS)

    def close(self) -> None:
        self._connections.close()

    def _query(self, statement: str, *values: Any) -> list[Any]:
        return self._connections.query(EVERY_TENANT, statement, *values)

    def version(self) -> int:
        return self._connections.run(_version(self._connections.url)).version

    def facts(self) -> LogFacts:
        groups = self._query(_GROUPS)
        ((size,),) = self._query("SELECT pg_database_size(current_database())")
        ((pruned,),) = self._query("SELECT count(*) FROM tombstones")
        return LogFacts(
            database=self.place,
            schema=self.version(),
            file_bytes=size,
            runs=counts_by_status(groups),
            events=sum(group[3] for group in groups),
            bytes=sum(group[4] for group in groups),
            tenants=[tenant_facts(each, groups) for each in sorted({group[0] for group in groups})],
            documents=dict(tuple(row) for row in self._query(_DOCUMENTS)),
            pruned=pruned,
            oldest=iso_time(min(group[5] for group in groups)) if groups else None,
            newest=iso_time(max(group[6] for group in groups)) if groups else None,
        )

    def problems(
        self, progress: Callable[[int, int], None] = lambda _, __: None
    ) -> Iterator[LogProblem]:
        rules = read_rules(Path(__file__).with_name("rules.sql"))
        for done, rule in enumerate(rules):
            progress(done, len(rules) + 1)
            query = rule.query.replace("{DELIVERY}", str(outbox.ROW_BYTES))
            query = query.replace("{OF_DOCUMENT}", OF_DOCUMENT)
            query = query.replace("{OF_TOMBSTONE}", OF_TOMBSTONE)
            for run_id, sequence, detail in self._query(f"{query} LIMIT {MOST_PER_RULE}"):
                place = place_in_log(run_id, sequence, detail)
                yield LogProblem(rule.name, place, rule.message, run_id)
        progress(len(rules), len(rules) + 1)
        yield from islice(self._changed_events(), MOST_PER_RULE)

    def _changed_events(self) -> Iterator[LogProblem]:
        last = 0
        while rows := self._query(_RUN_ROWS, last, _PAGE):
            for row in rows:
                last = row["run"]
                # The same of one run; a part that is missing was found before.
                known = dict(row)
                run, run_id, after, is_sound = known["run"], known["run_id"], -1, True
                check = RunCheck(run_id)
                while page := self._query(_WHOLE_EVENTS, run, after, known["last_seq"], _PAGE):
                    for seq, kind, task_id, at_us, checksum, body in page:
                        after = seq
                        if body is None:
                            is_sound = False
                            continue
                        event = NewEvent(kind, task_id and restored(task_id), at_us, body)
                        place = place_in_log(run_id, seq, kind)
                        if not check.is_sound(event, checksum):
                            is_sound = False
                            yield LogProblem("checksum", place, checksums.CHANGED, run_id)
                        elif not _is_json(body):
                            yield LogProblem(
                                "body", place, "the body of the event is not JSON", run_id
                            )
                if is_sound and self._query(
                    "SELECT 1 FROM runs WHERE run = $1", run
                ):  # not pruned meanwhile
                    facts = {
                        name: restored(value) if isinstance(value, str) else value
                        for name, value in known.items()
                    }
                    tags = [restored(tag) for (tag,) in self._query(_TAGS, run)]
                    yield from check.problems(facts, tags)


@contextmanager
def inspected(url: str) -> Iterator[DatabaseInspection]:
    """A database to look at, until the context ends."""
    inspection = DatabaseInspection(url)
    try:
        yield inspection
    finally:
        inspection.close()


def _is_json(body: bytes) -> bool:
    try:
        msgspec.json.decode(body)
        body.decode()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return True


async def _version(url: str) -> migration.SchemaVersion:
    connection = await address.connect(url)
    try:
        return await migration.read_version(connection)
    finally:
        await connection.close(timeout=1)

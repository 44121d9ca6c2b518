"""What is in a log in PostgreSQL, and whether it is sound; nothing is changed."""

# ruff: noqa: S608 - statements are made of constants only

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, NamedTuple

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
    tenant_facts,
)
from evalwright.store.postgres import address, migration
from evalwright.store.postgres.connections import LogConnections
from evalwright.store.postgres.schema import EVERY_TENANT, OF_DOCUMENT, OF_TOMBSTONE
from evalwright.store.postgres.stored_text import restored
from evalwright.store.protocol import NewEvent
from evalwright.store.sqlite.schema import IS_END, TOMBSTONE_BYTES

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


class _DatabaseRule(NamedTuple):
    name: str
    message: str
    query: str


_ANNOTATED = "split_part(key, '/', 1)"
_EVIDENCE = "convert_from(body, 'UTF8')::jsonb ->> 'evalRunId'"
_FOUND = (
    "SELECT run, count(*) AS found, min(seq) AS least, max(seq) AS most,"
    f" bool_or({IS_END}) AS ended FROM events GROUP BY run"
)
_SUMS = (
    "SELECT tenant, count(*) AS runs, sum(last_seq + 1) AS events, sum(bytes) AS bytes"
    " FROM runs WHERE ended_us IS NOT NULL GROUP BY tenant"
)
_RULES = (
    _DatabaseRule(
        "gap",
        "events are missing: the events of a run are numbered 0, 1, 2 and so on",
        f"SELECT run_id, NULL::bigint, found || ' of ' || most + 1 FROM ({_FOUND}) AS counted"
        " LEFT JOIN runs USING (run) WHERE least <> 0 OR most + 1 <> found",
    ),
    _DatabaseRule(
        "end",
        "the run goes on after this event, which ends it",
        f"SELECT run_id, seq, type FROM events AS e LEFT JOIN runs USING (run) WHERE ({IS_END})"
        " AND EXISTS (SELECT 1 FROM events WHERE run = e.run AND seq > e.seq)",
    ),
    _DatabaseRule(
        "score",
        "the task has more than one score",
        "SELECT run_id, max(seq), 'task ' || task_id FROM events LEFT JOIN runs USING (run)"
        " WHERE type = 'eval.scored' GROUP BY run_id, run, task_id HAVING count(*) > 1",
    ),
    _DatabaseRule(
        "run",
        "the events belong to a run that is not in the log",
        "SELECT NULL, min(seq), 'run number ' || run FROM events"
        " WHERE NOT EXISTS (SELECT 1 FROM runs WHERE runs.run = events.run) GROUP BY run",
    ),
    _DatabaseRule(
        "tenant",
        "the event belongs to another tenant than its run",
        "SELECT run_id, seq, events.tenant FROM events JOIN runs USING (run)"
        " WHERE events.tenant <> runs.tenant",
    ),
    _DatabaseRule(
        "annotation",
        "the annotation belongs to a run that is not in the log",
        f"SELECT {_ANNOTATED}, NULL::bigint, key FROM records WHERE kind = 'annotation'"
        f" AND NOT EXISTS (SELECT 1 FROM runs WHERE run_id = {_ANNOTATED})",
    ),
    _DatabaseRule(
        "content",
        "the content is not what its hash says",
        "SELECT NULL, NULL::bigint, 'content ' || encode(sha256, 'hex') FROM contents"
        " WHERE sha256(body) <> contents.sha256",
    ),
    _DatabaseRule(
        "content",
        "no run has the content",
        "SELECT NULL, NULL::bigint, 'content ' || encode(sha256, 'hex') FROM contents AS c"
        " WHERE NOT EXISTS (SELECT 1 FROM run_contents AS r"
        " WHERE r.tenant = c.tenant AND r.sha256 = c.sha256)",
    ),
    _DatabaseRule(
        "content",
        "the content of the event is missing, or is not said to be of its run",
        "SELECT run_id, seq, 'content ' || encode(content, 'hex') FROM events AS e"
        " LEFT JOIN runs USING (run) WHERE content IS NOT NULL AND NOT EXISTS (SELECT 1"
        " FROM contents AS c JOIN run_contents AS r USING (tenant, sha256)"
        " WHERE c.tenant = e.tenant AND c.sha256 = e.content AND r.run = e.run)",
    ),
    _DatabaseRule(
        "facts",
        "what the list shows of the run is not what its events say",
        "SELECT run_id, NULL::bigint, 'run number ' || runs.run FROM runs"
        f" LEFT JOIN ({_FOUND}) AS counted USING (run)"
        " WHERE coalesce(found, 0) <> last_seq + 1"
        " OR coalesce(ended, false) <> (ended_us IS NOT NULL)",
    ),
    _DatabaseRule(
        "sizes",
        "the sizes of the tenant are not those of its runs",
        "SELECT NULL, NULL::bigint, 'tenant ' || coalesce(known.tenant, found.tenant)"
        f" FROM tenant_sizes AS known FULL JOIN ({_SUMS}) AS found USING (tenant)"
        " WHERE (coalesce(known.runs, 0), coalesce(known.events, 0), coalesce(known.bytes, 0))"
        " <> (coalesce(found.runs, 0), coalesce(found.events, 0), coalesce(found.bytes, 0))",
    ),
    _DatabaseRule(
        "sizes",
        "the sizes of the tenant are not those of its documents",
        "SELECT NULL, NULL::bigint, 'tenant ' || tenant FROM"
        " (SELECT tenant, kind, documents, bytes FROM record_sizes"
        " UNION ALL SELECT tenant, kind, -1, -octet_length(key) - octet_length(body) FROM records"
        f" UNION ALL SELECT tenant, 'tombstone', -1, -{TOMBSTONE_BYTES} FROM tombstones"
        f" UNION ALL SELECT tenant, '{outbox.KIND}', -1, -{outbox.ROW_BYTES} FROM webhook_outbox)"
        " AS counted"
        " GROUP BY tenant, kind HAVING sum(documents) <> 0 OR sum(bytes) <> 0",
    ),
    _DatabaseRule(
        "tombstone",
        "the run was pruned, and is still in the log",
        "SELECT run_id, NULL::bigint, NULL FROM tombstones AS t WHERE EXISTS"
        " (SELECT 1 FROM runs WHERE runs.run_id = t.run_id)"
        " OR EXISTS (SELECT 1 FROM events WHERE events.run = t.run)",
    ),
    _DatabaseRule(
        "evidence",
        "the deployment refers to a run that is not in the log",
        f"SELECT {_EVIDENCE}, NULL::bigint, 'deployment ' || key || ' of ' || tenant FROM records"
        f" WHERE kind = 'deployment' AND {_EVIDENCE} IS NOT NULL"
        f" AND NOT EXISTS (SELECT 1 FROM runs WHERE run_id = {_EVIDENCE})"
        f" AND NOT EXISTS (SELECT 1 FROM tombstones WHERE run_id = {_EVIDENCE})",
    ),
    _DatabaseRule(
        "checksum",
        "the document is not what was written: its checksum is another one",
        "SELECT NULL, NULL::bigint, kind || ' ' || key || ' of ' || tenant FROM records"
        f" WHERE checksum <> {OF_DOCUMENT}",
    ),
    _DatabaseRule(
        "checksum",
        "the tombstone is not what was written: its checksum is another one",
        "SELECT run_id, NULL::bigint, 'tombstone' FROM tombstones"
        f" WHERE checksum <> {OF_TOMBSTONE}",
    ),
)


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
        for done, rule in enumerate(_RULES):
            progress(done, len(_RULES) + 1)
            for run_id, sequence, detail in self._query(f"{rule.query} LIMIT {MOST_PER_RULE}"):
                place = place_in_log(run_id, sequence, detail)
                yield LogProblem(rule.name, place, rule.message, run_id)
        progress(len(_RULES), len(_RULES) + 1)
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

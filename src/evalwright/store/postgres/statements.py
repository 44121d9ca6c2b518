"""The statements that write to the log."""

# ruff: noqa: S608 - statements are made of constants only

from evalwright.store.checksums import MODULUS
from evalwright.store.records import FORGOTTEN_AT_ONCE

REGISTER = (
    "INSERT INTO writers (writer, appends) VALUES ($1, $2)"
    " ON CONFLICT (writer) DO UPDATE SET seen = now()"
)
FORGET = "DELETE FROM writers WHERE writer = $1"
# Of processes that were killed. One that only slept is told by `LAST_APPEND` that it was forgotten,
# and looks for what it is not sure of in the log.
SWEEP = "DELETE FROM writers WHERE seen < now() - interval '1 day'"

# Takes the number of an append. It waits for a transaction that has taken it before, and that the
# connection to which was lost; if that one is committed, there is nothing to take any more.
TAKE = (
    "UPDATE writers SET appends = $2, seen = now() WHERE writer = $1 AND appends = $2 - 1"
    " RETURNING appends"
)

LAST_APPEND = "SELECT appends FROM writers WHERE writer = $1"
RUN = "SELECT run, tenant FROM runs WHERE run_id = $1"
EVENTS_AFTER = (
    "SELECT seq, type, task_id, at_us FROM events WHERE run = $1 AND seq > $2 ORDER BY seq"
)
ENTER_RUNS = "SELECT * FROM enter_runs($1, $2)"

# The columns of `runs` that events set; what is NULL stays as it is.
FACTS = {
    "started_us": "bigint",
    "ended_us": "bigint",
    "status": "text",
    "workflow": "text",
    "suite": "text",
    "agent": "text",
    "tags": "text",
    "modes": "text",
    "score": "double precision",
    "passed": "boolean",
    "repeats": "text",
    "resumed_from": "text",
}
_GROWTH = {
    "run": "bigint",
    "owner": "text",
    "holder": "bigint",
    "count": "bigint",
    "size": "bigint",
    "factor": "bigint",
    "addend": "bigint",
    **FACTS,
}
_EVENT = {
    "run": "bigint",
    "place": "bigint",
    "type": "text",
    "task_id": "text",
    "at_us": "bigint",
    "body": "bytea",
    "content": "bytea",
    "content_at": "integer",
    "checksum": "bigint",
}
_PART = {"run": "bigint", "sha256": "bytea", "body": "bytea"}
_TAG = {"run": "bigint", "tag": "text"}


def _given(name: str, columns: dict[str, str], first: int) -> str:
    arrays = ", ".join(f"${first + n}::{kind}[]" for n, kind in enumerate(columns.values()))
    return f"unnest({arrays}) AS {name} ({', '.join(columns)})"


def _first_of(*tables: dict[str, str]) -> int:
    return 4 + sum(map(len, tables))


_SET = ", ".join(
    f"{name} = coalesce(runs.{name}, given.{name})"
    if name == "started_us"
    else f"{name} = coalesce(given.{name}, runs.{name})"
    for name in FACTS
)


def refuse_unknown_writer(taken: int | None) -> None:
    """Raise if an append was not taken: then nothing of it is in the log."""
    if not taken:
        raise ConnectionError("the log does not know this process any more")


_RESULT = """
SELECT moved.run, moved.before, moved.tenant, whole.taken, whole.checked
FROM (
    SELECT (SELECT count(*) FROM mine) AS taken, 1 / (
        (SELECT count(*) FROM moved) = $3 OR NOT EXISTS (SELECT 1 FROM mine)
    )::integer AS checked
) AS whole LEFT JOIN moved ON true
"""

# $1 and $2 are the writer and the number of the append, $3 is how many runs it has. A run that is
# not `moved` fails all of it, by a division by zero: the run has ended or belongs to others.
APPEND = f"""
WITH mine AS ({TAKE}),
given AS MATERIALIZED (SELECT * FROM {_given("given", _GROWTH, _first_of())}),
moved AS (
    UPDATE runs SET last_seq = last_seq + given.count, bytes = bytes + given.size,
        summed = summed + given.count,
        checksum = (checksum * given.factor + given.addend) % {MODULUS}, {_SET}
    FROM given
    WHERE runs.run = given.run AND runs.ended_us IS NULL
    AND (given.owner IS NULL OR runs.tenant = given.owner)
    AND (given.holder IS NULL OR runs.claim = given.holder)
    AND EXISTS (SELECT 1 FROM mine)
    RETURNING runs.run, runs.last_seq - given.count AS before, runs.tenant
),
parts AS MATERIALIZED (
    SELECT part.*, moved.tenant
    FROM {_given("part", _PART, _first_of(_GROWTH, _EVENT))} JOIN moved ON moved.run = part.run
),
kept AS (
    INSERT INTO contents (tenant, sha256, body) SELECT DISTINCT tenant, sha256, body FROM parts
    ON CONFLICT DO NOTHING
),
shared AS (
    INSERT INTO run_contents (run, tenant, sha256) SELECT run, tenant, sha256 FROM parts
    ON CONFLICT DO NOTHING
),
tagged AS (
    INSERT INTO run_tags (tenant, tag, run)
    SELECT moved.tenant, given_tag.tag, moved.run
    FROM {_given("given_tag", _TAG, _first_of(_GROWTH, _EVENT, _PART))}
    JOIN moved ON moved.run = given_tag.run
    ON CONFLICT DO NOTHING
),
added AS (
    INSERT INTO events (run, seq, tenant, type, task_id, at_us, body, content, content_at, checksum)
    SELECT moved.run, moved.before + event.place, moved.tenant, event.type, event.task_id,
        event.at_us, event.body, event.content, event.content_at, event.checksum
    FROM {_given("event", _EVENT, _first_of(_GROWTH))} JOIN moved ON moved.run = event.run
)
{_RESULT}"""

# The same for one run, where events change no facts and have no parts: most appends are such.
APPEND_TO_ONE = f"""
WITH mine AS ({TAKE}),
moved AS (
    UPDATE runs SET last_seq = last_seq + $7, bytes = bytes + $8, summed = summed + $7,
        checksum = (checksum * $9 + $10) % {MODULUS}
    WHERE run = $4 AND ended_us IS NULL
    AND ($5::text IS NULL OR tenant = $5) AND ($6::bigint IS NULL OR claim = $6)
    AND EXISTS (SELECT 1 FROM mine)
    RETURNING run, last_seq - $7 AS before, tenant
),
added AS (
    INSERT INTO events (run, seq, tenant, type, task_id, at_us, body, checksum)
    SELECT moved.run, moved.before + event.place, moved.tenant, event.type, event.task_id,
        event.at_us, event.body, event.checksum
    FROM moved, unnest($11::text[], $12::text[], $13::bigint[], $14::bytea[], $15::bigint[])
    WITH ORDINALITY AS event (type, task_id, at_us, body, checksum, place)
)
{_RESULT}"""

# Why a run takes no events, asked once it has refused one.
REFUSAL = """
SELECT CASE
    WHEN EXISTS (SELECT 1 FROM tombstones WHERE run_id = $1) THEN 'pruned'
    WHEN ended_us IS NOT NULL THEN 'ended'
    WHEN claim IS DISTINCT FROM $2 AND $2 IS NOT NULL THEN 'taken over'
    ELSE 'unknown' END
FROM (SELECT 1) AS one LEFT JOIN runs ON run_id = $1
"""

# Documents, each with what must be there before.
WRITE_RECORD = (
    "INSERT INTO records (kind, tenant, key, body, at_us) VALUES ($1, $2, $3, $4, $5)"
    " ON CONFLICT (kind, tenant, key) DO {}"
)
PUT_RECORD = WRITE_RECORD.format("UPDATE SET body = EXCLUDED.body, at_us = EXCLUDED.at_us")
NEW_RECORD = WRITE_RECORD.format("NOTHING RETURNING 1")
_RECORD = "kind = $1 AND tenant = $2 AND key = $3"
CHANGE_RECORD = (
    f"UPDATE records SET body = $4, at_us = $5 WHERE {_RECORD} AND body = $6 RETURNING 1"
)
DROP_RECORD = f"DELETE FROM records WHERE {_RECORD}"
DROP_KNOWN_RECORD = f"DELETE FROM records WHERE {_RECORD} AND body = $4 RETURNING 1"
NO_RECORD = f"SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM records WHERE {_RECORD})"
FORGET_RECORDS = (
    "DELETE FROM records WHERE kind = $1 AND at_us < $2 AND ctid = ANY (ARRAY("
    f"SELECT ctid FROM records WHERE kind = $1 AND at_us < $2 LIMIT {FORGOTTEN_AT_ONCE}))"
)

"""Which tasks are due, and who has taken them: rows of `attempts`.

A worker that has taken a task is its `holder`. While others hear of it, nobody else takes the task;
the fence is set when the attempt begins, and what counts is the score in the log.
"""

import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

Connection = Any  # of asyncpg, which has no types
LEASE_SECONDS = 8.0  # without a heartbeat, after which another worker takes a task
BEATS_PER_LEASE = 4

# Whoever began a task holds it, too, and does not take it once more: what it has lost sight of, it
# gives up. Rows that somebody else has locked are left out.
_TAKE = """
UPDATE attempts SET holder = $1 WHERE ctid = ANY (ARRAY(
    SELECT a.ctid FROM attempts a JOIN fleet_shares s ON s.run_id = a.run_id
    WHERE a.state = 1 AND s.lane = ANY ($2) AND s.released > 0
    AND a.changed_at <= clock_timestamp() AND NOT EXISTS (
        SELECT FROM fleet_workers w WHERE w.worker = coalesce(a.holder, a.worker)
        AND (w.worker = $1 OR w.seen_at > now() - $4::interval)
    )
    ORDER BY a.changed_at, a.position LIMIT $3 FOR UPDATE OF a SKIP LOCKED
)) RETURNING run_id, task_id
"""
_GIVE_BACK = """
UPDATE attempts SET holder = NULL, changed_at = clock_timestamp() + $4::interval
WHERE run_id = $1 AND task_id = $2 AND holder = $3 AND state::integer = 1
"""


class TakenTask(NamedTuple):
    """A task that this worker has taken."""

    run_id: str
    task_id: str


async def take(
    connection: Connection, worker: uuid.UUID, lanes: Sequence[str], most: int, lease_s: float
) -> list[TakenTask]:
    """Take tasks, the first first; also those whose worker has not been heard of for long."""
    rows = await connection.fetch(_TAKE, worker, lanes, most, timedelta(seconds=lease_s))
    return [TakenTask(*row) for row in rows]


async def give_back(
    connection: Connection, worker: uuid.UUID, taken: Sequence[TakenTask], delay_s: float
) -> None:
    """Let another worker take tasks that were not begun, after a while."""
    for each in taken:
        await connection.execute(_GIVE_BACK, *each, worker, timedelta(seconds=delay_s))

"""Cursors of versions before 0.3, which said how far a webhook had got in a run: now they are rows.

What they left undelivered is delivered; events that may have been sent are marked as repeats.
"""

from collections.abc import Sequence

import msgspec

from evalwright.contracts.errors import RunNotFound
from evalwright.host.webhooks.subscriptions import Subscription
from evalwright.store.protocol import EventLog
from evalwright.store.records import Execute, RecordChange

KIND = "webhook_cursor"

_ADD = (
    "INSERT INTO webhook_outbox (webhook_id, run_id, tenant, seq, session, attempts)"
    " VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING"
)


class StoredCursor(msgspec.Struct, frozen=True):
    """A cursor as it was stored."""

    next: int  # the first event that is not settled
    reach: int = 0  # events before it may have been sent
    attempts: int = 0  # to deliver the next event
    repeated: tuple[int, int] = (0, 0)  # events that only repeat another run's


def rows_of_cursors(
    log: EventLog, subscriptions: Sequence[Subscription], session: str
) -> list[list[RecordChange | Execute]]:
    """What replaces each cursor by the rows of what was not delivered."""
    known = {each.webhook_id: each for each in subscriptions}
    replaced = []
    for tenant, record in log.records.of_all_tenants(KIND):
        changes: list[RecordChange | Execute] = [RecordChange(KIND, tenant, record.key, None)]
        webhook_id, _, run_id = record.key.partition("/")
        try:
            cursor = msgspec.json.decode(record.body, type=StoredCursor)
            partition = log.facts(run_id).tenant
            for event in log.read(run_id, after=cursor.next - 1) if webhook_id in known else ():
                is_repeated = event.sequence in range(*cursor.repeated)
                if known[webhook_id].wants(event.type) and not is_repeated:
                    sender = f"before {session}" if event.sequence < cursor.reach else None
                    tried = cursor.attempts if event.sequence == cursor.next else 0
                    place = webhook_id, run_id, partition, event.sequence
                    changes.append(Execute(_ADD, (*place, sender, tried)))
        except (RunNotFound, msgspec.MsgspecError):  # deleted, or damaged
            changes = changes[:1]
        replaced.append(changes)
    return replaced

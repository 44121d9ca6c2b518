"""Dead letters: deliveries that were given up, kept until they are sent again or discarded.

A dead letter names an event; it holds neither the event nor the secret of the subscription.
"""

import msgspec

from evalwright.contracts.errors import RunNotFound
from evalwright.contracts.events import Event
from evalwright.contracts.times import iso_time
from evalwright.host.webhooks.post import AttemptResult, delivery_id
from evalwright.store.protocol import EventLog
from evalwright.store.records import RecordChange, Records

KIND = "webhook_dead_letter"
MOST_KEPT = 1000  # of a subscription; then its deliveries stop until somebody looks


class ParkedDelivery(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A delivery that was given up."""

    webhook_id: str
    run_id: str
    sequence: int
    event_type: str
    workspace: str | None
    attempts: int
    parked_us: int
    last_reason: str
    last_status: int | None = None
    is_resent: bool = False  # soon, because somebody asked for it

    @property
    def key(self) -> str:
        """The key of its document: those of a subscription are listed run by run, in order."""
        return letter_key(self.webhook_id, self.run_id, self.sequence)

    @property
    def delivery_id(self) -> str:
        """The id that all attempts of the delivery have in common."""
        return delivery_id(self.webhook_id, self.run_id, self.sequence)

    def tried_again(self, result: AttemptResult) -> "ParkedDelivery":
        """The same after one more attempt that failed."""
        return msgspec.structs.replace(
            self,
            attempts=self.attempts + 1,
            last_reason=result.reason,
            last_status=result.status,
            is_resent=False,
        )

    def change(self, tenant: str) -> RecordChange:
        """What keeps it."""
        return RecordChange(KIND, tenant, self.key, msgspec.json.encode(self))

    def removal(self, tenant: str) -> RecordChange:
        """What removes it."""
        return RecordChange(KIND, tenant, self.key, None)

    def shown(self) -> dict[str, object]:
        """It as a response shows it, in the words of the protocol."""
        status = {} if self.last_status is None else {"lastStatus": self.last_status}
        return {
            "deliveryId": self.delivery_id,
            "webhookId": self.webhook_id,
            "runId": self.run_id,
            "eventId": f"{self.run_id}:{self.sequence}",
            "sequence": self.sequence,
            "eventType": self.event_type,
            "attempts": self.attempts,
            "deadLetteredAt": iso_time(self.parked_us),
            "reason": "retries_exhausted",
            "lastReason": self.last_reason,
            **status,
        }


def letter_key(webhook_id: str, run_id: str, sequence: int) -> str:
    """The key of the document of a dead letter."""
    return f"{webhook_id}/{run_id}/{sequence:012d}"


def dead_letters(
    records: Records, tenant: str, webhook_id: str, after: str = "", limit: int = MOST_KEPT
) -> list[ParkedDelivery]:
    """The dead letters of a subscription in order, after a key."""
    prefix = f"{webhook_id}/"
    found = records.list(KIND, tenant, prefix, after, limit)
    return [msgspec.json.decode(record.body, type=ParkedDelivery) for record in found]


def count_dead_letters(records: Records, tenant: str, webhook_id: str) -> int:
    """How many dead letters a subscription has."""
    return len(records.keys(KIND, tenant, f"{webhook_id}/", limit=MOST_KEPT))


def find_event(log: EventLog, letter: ParkedDelivery) -> Event | None:
    """The event of a dead letter; None if its run was deleted."""
    try:
        return next(log.read(letter.run_id, after=letter.sequence - 1, limit=1), None)
    except RunNotFound:
        return None

"""Documents for the store."""

from log_events import PATIENCE

from evalwright.store.protocol import EventLog
from evalwright.store.records import ANY, Record, RecordChange


def a_note(
    key: str = "note", body: bytes | None = b"text", *, expected: object = ANY, tenant: str = "a"
) -> RecordChange:
    return RecordChange("note", tenant, key, body, expected)  # type: ignore[arg-type]


def write(log: EventLog, *changes: RecordChange) -> None:
    log.records.write(changes).result(PATIENCE)


def keys(found: list[Record]) -> list[str]:
    return [record.key for record in found]

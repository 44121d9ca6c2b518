"""Documents for the store."""

from log_events import PATIENCE

from evalwright.store.records import ANY, Change, Record
from evalwright.store.sqlite import SqliteLog


def a_note(
    key: str = "note", body: bytes | None = b"text", *, expected: object = ANY, tenant: str = "a"
) -> Change:
    return Change("note", tenant, key, body, expected)  # type: ignore[arg-type]


def write(log: SqliteLog, *changes: Change) -> None:
    log.records.write(changes).result(PATIENCE)


def keys(found: list[Record]) -> list[str]:
    return [record.key for record in found]

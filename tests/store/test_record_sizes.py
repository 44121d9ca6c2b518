"""The sums of documents by tenant and kind are at any moment those of what is there."""

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from log_documents import a_note, write
from log_events import a_start, an_end, opened, raw_connection, written

from evalwright.store.inspection import find_problems
from evalwright.store.protocol import EventLog
from evalwright.store.records import Forget, RecordChange
from evalwright.store.sqlite import schema
from evalwright.store.sqlite.schema import TOMBSTONE_BYTES

pytestmark = pytest.mark.both_databases


def sums(log: EventLog, prefix: str = "") -> dict[tuple[str, str], tuple[int, int]]:
    """How many there are, and their bytes, by tenant and kind; nothing of what is gone."""
    found = log.upkeep.sizes(prefix)
    return {(each.tenant, each.kind): (each.things, each.size) for each in found if each.things}


def test_documents_count_by_their_content_and_their_key(log: EventLog) -> None:
    write(log, a_note("é", b"12345"), a_note("two", b""), a_note("x", b"1", tenant="b"))
    assert sums(log) == {("a", "note"): (2, 2 + 5 + 3), ("b", "note"): (1, 2)}
    assert sums(log, "b") == {("b", "note"): (1, 2)}
    write(log, a_note("é", b"1"), a_note("two", None), a_note("nowhere", None))
    assert sums(log, "a") == {("a", "note"): (1, 3)}
    log.records.write([Forget("note", 2**60)]).result()
    assert sums(log) == {}


def test_whatever_is_written_the_sums_are_those_of_what_is_there(log: EventLog) -> None:
    chance = random.Random(7)
    for _ in range(30):
        changes = [
            RecordChange(
                chance.choice(("note", "suite")),
                chance.choice(("a", "b")),
                chance.choice("pqr"),
                chance.choice((None, b"", b"\0" * chance.randrange(9000))),
            )
            for _ in range(chance.randrange(1, 4))
        ]
        write(log, *changes)
    expected: dict[tuple[str, str], tuple[int, int]] = {}
    for kind in ("note", "suite"):
        for tenant, record in log.records.of_all_tenants(kind):
            count, size = expected.get((tenant, kind), (0, 0))
            expected[tenant, kind] = count + 1, size + len(record.key) + len(record.body)
    assert sums(log) == expected


def test_what_is_left_of_a_deleted_run_counts_until_the_run_is_restored(log: EventLog) -> None:
    view = log.for_tenant("a")
    view.append("run", [a_start(), an_end()])
    written(view)
    write(log, RecordChange("annotation", "a", "run/1", b"said"))
    log.upkeep.prune(["run"], "old", ["annotation"])
    assert sums(log) == {("a", "tombstone"): (1, TOMBSTONE_BYTES)}
    log.upkeep.restore("run")
    assert sums(log) == {}


def test_a_write_that_is_refused_changes_no_sum(log: EventLog) -> None:
    write(log, a_note("one", b"1"))
    with pytest.raises(Exception, match="has changed meanwhile"):
        write(log, a_note("two", b"22"), a_note("one", b"333", expected=b"other"))
    assert sums(log) == {("a", "note"): (1, 4)}


@pytest.mark.sqlite_only
def test_documents_from_before_there_were_sums_are_counted(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as old:
        old.executescript((Path(__file__).parent / "written_by_0_2/schema.sql").read_text())
        old.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        old.execute("PRAGMA user_version = 2")
        old.executemany(
            "INSERT INTO records VALUES (?, 'a', ?, ?, 0)",
            [("note", "é", b"123"), ("note", "b", b""), ("suite", "s@1", b"{}")],
        )
    assert not list(find_problems(path))

    with closing(opened(path)) as log:
        assert sums(log) == {
            ("a", "note"): (2, 6),
            ("a", "suite"): (1, 5),
        }
    assert not list(find_problems(path))
    with raw_connection(path) as raw:
        raw.execute("UPDATE record_sizes SET bytes = 7 WHERE kind = 'note'")
    (problem,) = find_problems(path)
    assert (problem.rule, problem.place) == ("sizes", "tenant a")
    assert problem.message == "the sizes of the tenant are not those of its documents"

"""Documents found by prefix and in pages, and forgotten when they are old."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_documents import a_note, keys, write
from log_events import PATIENCE, Place, asked, opened

from evalwright.store.protocol import EventLog
from evalwright.store.records import Forget, RecordChange

pytestmark = pytest.mark.both_databases


def test_documents_are_listed_by_key_from_a_prefix_on_and_in_pages(log: EventLog) -> None:
    names = ["run-1/c", "run-1/a", "run-10/a", "run-1/b", "run-2/a", "run-1/", "run-1", "Run-1/a"]
    write(log, *[a_note(name) for name in names])
    under = ["run-1/", "run-1/a", "run-1/b", "run-1/c"]

    assert keys(log.records.list("note", "a", "run-1/")) == under
    assert keys(log.records.list("note", "a", "run-1/", limit=2)) == under[:2]
    assert keys(log.records.list("note", "a", "run-1/", after="run-1/a", limit=2)) == under[2:]
    assert keys(log.records.list("note", "a", "run-1/", after="run-1/c")) == []
    assert keys(log.records.list("note", "a", "run-1/", after="run-0")) == under
    assert keys(log.records.list("note", "a", "run-1/", after="run-1/b5")) == ["run-1/c"]
    assert keys(log.records.list("note", "a", limit=0)) == []
    assert keys(log.records.list("note", "a")) == sorted(names)


@pytest.mark.parametrize("prefix", ["%", "_", "a%", "a_", "*", "[a]", "ä", "🙂", "\\", "a\0"])
def test_signs_that_stand_for_others_elsewhere_stand_for_themselves(
    log: EventLog, prefix: str
) -> None:
    names = [
        "a",
        "ab",
        "abc",
        "a%b",
        "a_b",
        "%",
        "%a",
        "_a",
        "*a",
        "[a]",
        "äb",
        "🙂x",
        "\\x",
        "a\0b",
    ]
    write(log, *[a_note(name) for name in names])

    found = keys(log.records.list("note", "a", prefix))

    assert found == sorted(name for name in names if name.startswith(prefix))
    assert found


numbers = count()
signs = st.text(st.sampled_from("ab/%_\0\x7f\u00e9\ud7ff\ue000\U0010fffe\U0010ffff"), max_size=4)


@given(
    names=st.sets(signs.filter(bool), max_size=12),
    prefix=signs,
    after=signs,
    limit=st.integers(1, 5),
)
def test_a_list_is_what_a_search_through_all_keys_would_find(
    shared_log: EventLog, names: set[str], prefix: str, after: str, limit: int
) -> None:
    tenant = f"tenant-{next(numbers)}"
    write(shared_log, *[a_note(name, name.encode(), tenant=tenant) for name in names])

    found = shared_log.records.list("note", tenant, prefix, after, limit)
    paged: list[str] = []
    while page := shared_log.records.list(
        "note", tenant, prefix, paged[-1] if paged else "", limit
    ):
        paged += keys(page)

    wanted = sorted(name for name in names if name.startswith(prefix))
    assert [(record.key, record.body) for record in found] == [
        (name, name.encode()) for name in wanted if name > after
    ][:limit]
    assert paged == wanted


@pytest.mark.sqlite_only
def test_a_short_list_is_found_without_looking_at_what_comes_after_it(
    path: Place, steps: list[int]
) -> None:
    """Such as the annotations of one run among those of all."""
    log = opened(path)
    write(log, *[a_note(f"run-{number:05}/1") for number in range(20_000)])
    log.close()
    log = opened(path)
    steps.clear()
    assert len(log.records.list("note", "a", "run-00007/")) == 1
    assert len(log.records.list("note", "a", after="run-19000/1", limit=5)) == 5
    log.close()

    assert sum(steps) < 2_000  # instructions of SQLite; to look at each takes 100,000 and more


# Forgetting.


def test_old_documents_of_a_kind_are_forgotten(log: EventLog, path: Place) -> None:
    write(
        log, a_note("old"), a_note("older", tenant="b"), RecordChange("suite", "a", "old", b"kept")
    )
    age(path, "at_us - 1000000")
    write(log, a_note("new"), a_note("renewed", b"1"))
    before_us = log.records.list("note", "a", "new")[0].at_us

    log.records.write([Forget("note", before_us)]).result(PATIENCE)

    assert keys(log.records.list("note", "a")) == ["new", "renewed"]
    assert log.records.list("note", "b") == []
    assert keys(log.records.list("suite", "a")) == ["old"]


def test_a_document_that_is_written_again_is_young_again(log: EventLog, path: Place) -> None:
    write(log, a_note())
    age(path, "5")
    assert log.records.list("note", "a")[0].at_us == 5

    write(log, a_note(body=b"new"))
    log.records.write([Forget("note", 6)]).result(PATIENCE)

    assert log.records.get("note", "a", "note") == b"new"


def age(path: Place, at_us: str) -> None:
    asked(path, f"UPDATE records SET at_us = {at_us}")

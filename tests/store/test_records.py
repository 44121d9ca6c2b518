"""Documents beside the log: written as units, only where they are as expected."""

import random
from concurrent.futures import Future
from pathlib import Path

import pytest
from log_documents import a_note, keys, write
from log_events import (
    PATIENCE,
    Place,
    a_start,
    an_end,
    an_event,
    nobody_can_write,
    numbered,
    opened,
    types_of,
    written,
)
from log_processes import a_child

from evalwright.contracts.errors import LogConflict, StoreError
from evalwright.store.location import Patience
from evalwright.store.protocol import EventLog
from evalwright.store.records import RecordChange, RecordConflict
from subjects.waiting import eventually

pytestmark = pytest.mark.both_databases


# One document.


def test_a_document_is_read_as_it_was_written(log: EventLog) -> None:
    body = bytes(range(256))
    write(log, a_note("pack", body))

    assert log.records.get("note", "a", "pack") == body
    assert [(found.key, found.body) for found in log.records.list("note", "a")] == [("pack", body)]


def test_a_document_is_of_one_kind_and_one_tenant(log: EventLog) -> None:
    write(log, a_note(body=b"of a"), a_note(body=b"of b", tenant="b"))
    write(log, RecordChange("suite", "a", "note", b"a suite"))

    assert log.records.get("note", "a", "note") == b"of a"
    assert log.records.get("note", "b", "note") == b"of b"
    assert log.records.get("suite", "a", "note") == b"a suite"
    assert log.records.get("note", "c", "note") is None
    assert log.records.list("suite", "b") == []
    assert [(tenant, record.body) for tenant, record in log.records.of_all_tenants("note")] == [
        ("a", b"of a"),
        ("b", b"of b"),
    ]


def test_documents_outlive_the_log_that_wrote_them(path: Place) -> None:
    log = opened(path)
    log.records.write([a_note()])
    log.close()

    again = opened(path)
    assert again.records.get("note", "a", "note") == b"text"
    again.close()


def test_a_document_that_must_be_new_is_written_once(log: EventLog) -> None:
    write(log, a_note(body=b"first", expected=None))

    with pytest.raises(RecordConflict, match="the note 'note' has changed meanwhile"):
        write(log, a_note(body=b"second", expected=None))
    assert log.records.get("note", "a", "note") == b"first"


def test_a_document_is_replaced_only_by_who_knows_what_it_is(log: EventLog) -> None:
    write(log, a_note(body=b"1"))

    write(log, a_note(body=b"2", expected=b"1"))
    with pytest.raises(RecordConflict):
        write(log, a_note(body=b"3", expected=b"1"))
    with pytest.raises(RecordConflict):
        write(log, a_note("absent", b"3", expected=b"1"))

    assert log.records.get("note", "a", "note") == b"2"
    assert log.records.get("note", "a", "absent") is None


def test_an_empty_document_is_not_an_absent_one(log: EventLog) -> None:
    write(log, a_note(body=b""))

    assert log.records.get("note", "a", "note") == b""
    with pytest.raises(RecordConflict):
        write(log, a_note(expected=None))
    write(log, a_note(body=b"text", expected=b""))


def test_a_document_is_deleted_with_or_without_an_expectation(log: EventLog) -> None:
    write(log, a_note("one"), a_note("two"), a_note("three"))

    write(log, a_note("one", None), a_note("two", None, expected=b"text"), a_note("absent", None))
    with pytest.raises(RecordConflict):
        write(log, a_note("three", None, expected=b"other"))

    assert keys(log.records.list("note", "a")) == ["three"]
    write(log, a_note("one", b"again", expected=None))
    assert log.records.get("note", "a", "one") == b"again"


def test_of_many_who_change_what_they_have_read_one_succeeds(log: EventLog) -> None:
    write(log, a_note(body=b"0"))

    tries = [log.records.write([a_note(body=b"%d" % n, expected=b"0")]) for n in range(1, 20)]

    outcomes = [attempt.exception(PATIENCE) for attempt in tries]
    assert [type(outcome) for outcome in outcomes] == [type(None)] + [RecordConflict] * 18
    assert log.records.get("note", "a", "note") == b"1"


# Groups.


def test_the_changes_of_a_group_see_those_before_them(log: EventLog) -> None:
    write(log, a_note(body=b"1", expected=None), a_note(body=b"2", expected=b"1"))

    assert log.records.get("note", "a", "note") == b"2"


@pytest.mark.parametrize("position", [0, 1, 2])
def test_of_a_group_with_a_conflict_nothing_is_written(log: EventLog, position: int) -> None:
    write(log, a_note("kept", b"old"))
    group = [a_note("new"), a_note("kept", None)]
    group.insert(position, a_note("taken", expected=b"something"))

    with pytest.raises(RecordConflict, match="'taken'"):
        write(log, *group)

    assert [(found.key, found.body) for found in log.records.list("note", "a")] == [
        ("kept", b"old")
    ]


def test_a_conflict_does_no_harm_to_what_is_committed_with_it(log: EventLog, path: Place) -> None:
    with nobody_can_write(path):
        before = log.records.write([a_note("before")])
        log.append("run", [a_start()])
        bad = log.records.write([a_note("half"), a_note("bad", expected=b"something")])
        log.append("run", [an_event()])
        after = log.records.write([a_note("after")])

    assert isinstance(bad.exception(PATIENCE), RecordConflict)
    assert before.result(PATIENCE) is after.result(PATIENCE) is None
    written(log)
    assert keys(log.records.list("note", "a")) == ["after", "before"]
    assert types_of(path) == ["run.started", "agent.decided"]


def test_a_refused_event_does_no_harm_to_documents_and_the_other_way_round(
    log: EventLog, path: Place
) -> None:
    with nobody_can_write(path):
        log.append("run", [a_start(), an_end(), an_event()])
        note = log.records.write([a_note()])

    note.result(PATIENCE)
    with pytest.raises(LogConflict):
        written(log)
    assert log.records.get("note", "a", "note") == b"text"


BAD_CHANGES = {
    "no key": a_note(None),  # type: ignore[arg-type]
    "half a character": a_note("\ud800"),
    "a body that SQLite has no type for": a_note(body=["text"]),  # type: ignore[arg-type]
    "what is no change": None,
}


@pytest.mark.parametrize("bad", BAD_CHANGES.values(), ids=BAD_CHANGES)
def test_a_change_that_cannot_be_written_fails_alone(
    log: EventLog, path: Place, bad: RecordChange
) -> None:
    with nobody_can_write(path):
        refused = log.records.write([a_note("half"), bad])
        good = log.records.write([a_note("good")])

    with pytest.raises(StoreError, match=r" refused a document: ") as refusal:
        refused.result(PATIENCE)
    assert not isinstance(refusal.value, RecordConflict)
    good.result(PATIENCE)
    assert keys(log.records.list("note", "a")) == ["good"]


def test_a_write_that_nobody_waits_for_any_more_does_not_stop_the_writer(
    log: EventLog, path: Place
) -> None:
    with nobody_can_write(path):
        log.records.write([a_note("given up")]).cancel()
        log.records.write([a_note("bad", expected=b"something")]).cancel()

    write(log, a_note("later"))
    assert "later" in keys(log.records.list("note", "a"))


@pytest.mark.sqlite_only
def test_documents_of_a_file_that_stays_locked_fail_and_say_why(
    path: Place,
) -> None:
    log = opened(path, patience=Patience(0, 0, 0))
    with nobody_can_write(path), pytest.raises(StoreError, match=r"log\.db: .*locked; another"):
        write(log, a_note())

    eventually(lambda: not log.fault, "the end of the outage")
    write(log, a_note("later"))
    assert keys(log.records.list("note", "a")) == ["later"]
    log.close()


# With events.


def test_events_and_documents_are_written_together(log: EventLog, path: Place) -> None:
    log.append("run", [a_start()], [a_note(expected=None)])
    written(log)

    assert types_of(path) == ["run.started"]
    assert log.records.get("note", "a", "note") == b"text"


def test_a_conflict_in_the_documents_of_an_append_writes_no_event(
    log: EventLog, path: Place
) -> None:
    write(log, a_note(body=b"taken"))
    with nobody_can_write(path):
        log.append("other", [a_start()])
        log.append("run", [a_start()], [a_note("new"), a_note(expected=None)])
        log.append("run", [an_event()])

    with pytest.raises(RecordConflict, match="the note 'note'"):
        written(log)
    with pytest.raises(RecordConflict):
        log.append("run", [an_event()])
    written(log, "other")
    assert types_of(path) == []
    assert log.run_ids() == ["other"]
    assert [(found.key, found.body) for found in log.records.list("note", "a")] == [
        ("note", b"taken")
    ]


def test_a_refused_event_writes_none_of_the_documents_of_its_append(log: EventLog) -> None:
    log.append("run", [a_start(), an_end()])
    log.append("run", [an_event()], [a_note()])

    with pytest.raises(LogConflict):
        written(log)
    assert log.records.list("note", "a") == []


def test_documents_may_be_changed_in_the_name_of_a_run_that_has_ended(
    log: EventLog, path: Place
) -> None:
    log.append("run", [a_start(), an_end()])
    log.append("run", [], [a_note()])
    written(log)

    assert log.records.get("note", "a", "note") == b"text"
    assert types_of(path) == ["run.started", "run.completed"]


@pytest.mark.sqlite_only
@pytest.mark.parametrize("seed", range(4))
def test_a_killed_writer_leaves_each_event_with_its_document_or_neither(
    path: Place, seed: int
) -> None:
    chance = random.Random(seed)
    length = 0
    for _ in range(3):  # each goes on in what the one before has left
        with a_child("acknowledge_with_documents", path, length) as child:
            heard = [child.hear() for _ in range(chance.randrange(1, 150))]
            heard += child.kill()

        length = whole_length(path)
        assert length >= int(heard[-1])


def test_a_writer_that_is_killed_at_any_write_leaves_events_with_their_documents(
    tmp_path: Path,
) -> None:
    limits = range(180_000, 320_000, 7_919)
    with a_child("die_while_writing_documents", tmp_path, *limits) as child:
        outcomes = [child.hear().split() for _ in limits]

    assert {died for died, _ in outcomes} == {"True"}
    for limit, (_, acknowledged) in zip(limits, outcomes, strict=True):
        assert whole_length(tmp_path / f"{limit}.db") >= int(acknowledged)
    assert int(outcomes[-1][1]) > int(outcomes[0][1])


def whole_length(path: Place) -> int:
    """How many events the run has; fails unless there is one document for each."""
    log = opened(path)
    events = [event.body for event in log.read("run")]
    documents = [record.body for record in log.records.list("note", "a", limit=1_000_000)]
    log.close()
    assert events == [b"%d" % number for number in range(len(events))]
    assert sorted(map(int, documents)) == list(range(len(events)))
    return len(events)


# What is read is what is there.


def test_who_has_written_reads_it_although_another_is_still_reading(log: EventLog) -> None:
    """Within one connection an unfinished read would show all others the state it began with."""
    log.append("run", numbered(0, 500))
    written(log)
    reading = log.read("run")
    next(reading)

    write(log, a_note())
    log.append("other", [a_start()])
    written(log, "other")

    assert log.records.get("note", "a", "note") == b"text"
    assert log.run_ids() == ["other", "run"]
    assert len(list(reading)) == 499


def test_writes_may_be_waited_for_in_any_order(log: EventLog) -> None:
    waits: list[Future[None]] = [log.records.write([a_note(str(n))]) for n in range(100)]
    for wait in reversed(waits):
        wait.result(PATIENCE)

    assert len(log.records.list("note", "a")) == 100

"""Notes beside the log: what a killed process had queued, whoever claims the run next adds."""

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_events import a_start, an_end, an_event
from log_processes import a_child

from evalwright.contracts.events import Event
from evalwright.store.protocol import NewEvent
from evalwright.store.sqlite.log import SqliteLog
from evalwright.store.sqlite.notes import RunNotes, recover

USAGE = "provider.usage"


def usage(number: int = 1) -> NewEvent:
    return an_event(USAGE, f"task-{number}", f'{{"inputTokens":{number}}}')


def leave_notes(log: SqliteLog, path: Path, *events: NewEvent, run_id: str = "run") -> Path:
    """Notes as a process leaves them that is killed before anything else is written."""
    notes = path.with_name(f"{path.name}-notes-1")
    RunNotes(notes, run_id, log.flush).add(events)
    return notes


def started(log: SqliteLog, *events: NewEvent) -> None:
    """A run number 1 that has begun."""
    log.append("run", [a_start(), *events])
    log.flush("run").result()


def usages(log: SqliteLog) -> list[Event]:
    return list(log.read("run", [USAGE]))


def test_what_a_killed_process_noted_is_in_the_log_of_whoever_claims_the_run(path: Path) -> None:
    with a_child("note", path, "run") as other:
        assert other.hear() == "noted"
        other.kill()
    log = SqliteLog(path)
    assert usages(log) == []
    with log.claim("run"):
        (recovered,) = usages(log)
    log.close()
    assert (recovered.task_id, recovered.body) == ("task-1", b'{"inputTokens":1}')
    assert [file.name for file in path.parent.iterdir() if "notes" in file.name] == []


def test_notes_that_are_left_in_the_second_file_alone_count_too(log: SqliteLog, path: Path) -> None:
    started(log)
    notes = leave_notes(log, path, usage(1))
    notes.rename(f"{notes}.2")  # the first was full, and went when the log had what is in it
    with log.claim("run"):
        assert [event.task_id for event in usages(log)] == ["task-1"]


def test_what_is_in_the_log_already_is_not_added_again(log: SqliteLog, path: Path) -> None:
    started(log, usage(1), usage(2))
    leave_notes(log, path, usage(1), usage(2), usage(2), usage(3))  # the second was reported twice
    with log.claim("run"):
        assert [event.task_id for event in usages(log)] == ["task-1", "task-2", "task-2", "task-3"]


@given(st.lists(st.integers(1, 3), max_size=6), st.data())
def test_the_log_has_each_event_as_often_as_it_was_noted(
    shared_log: SqliteLog, noted: list[int], data: st.DataObject
) -> None:
    written = data.draw(st.lists(st.sampled_from(noted), unique=True) if noted else st.just([]))
    run_id = f"run-{id(data)}-{len(shared_log.run_ids())}"
    shared_log.append(run_id, [a_start(), *map(usage, written)])
    shared_log.flush(run_id).result()
    notes = Path(f"{shared_log.place}.notes")
    RunNotes(notes, run_id, shared_log.flush).add([usage(number) for number in noted])
    recover(shared_log, notes, run_id)
    found = [event.task_id for event in shared_log.read(run_id, [USAGE])]
    assert sorted(found) == sorted(f"task-{number}" for number in noted)


@pytest.mark.parametrize("rest", [b'["run","provider.us', b"\n\n{}\n[]\n", b"\xff\n", b"[" * 9000])
def test_a_torn_line_is_skipped(log: SqliteLog, path: Path, rest: bytes) -> None:
    started(log)
    notes = leave_notes(log, path, usage(1))
    notes.write_bytes(notes.read_bytes() + rest)
    with log.claim("run"):
        assert [event.task_id for event in usages(log)] == ["task-1"]


def test_notes_of_another_database_in_the_same_place_are_none_of_ours(
    log: SqliteLog, path: Path
) -> None:
    started(log)
    notes = leave_notes(log, path, usage(1), run_id="another run")
    with log.claim("run"):
        assert usages(log) == []
    assert not notes.exists()


@pytest.mark.parametrize("events", [(), (a_start(), an_end())], ids=["no frame", "an end"])
def test_a_run_without_a_beginning_or_with_an_end_takes_no_more(
    log: SqliteLog, path: Path, events: tuple[NewEvent, ...]
) -> None:
    log.append("run", events)
    log.flush("run").result()
    notes = leave_notes(log, path, usage(1))
    with log.claim("run"):
        assert [event.type for event in log.read("run")] == [event.type for event in events]
    assert not notes.exists()


def test_notes_are_for_their_owner_and_go_when_the_log_has_everything(
    log: SqliteLog, path: Path
) -> None:
    started(log)
    notes = path.with_name(f"{path.name}-notes-1")
    with log.claim("run"):
        log.note("run", [usage(1)])
        assert stat.S_IMODE(notes.stat().st_mode) == 0o600
    log.flush("run").result()
    assert not notes.exists()
    assert len(usages(log)) == 1


def test_a_place_that_takes_no_notes_never_fails_a_run(
    log: SqliteLog, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    started(log)
    path.with_name(f"{path.name}-notes-1").mkdir()
    with log.claim("run"):
        log.note("run", [usage(1)])
        log.note("run", [usage(2)])
    log.flush("run").result()
    assert len(usages(log)) == 2
    (warning,) = caplog.records
    assert warning.message.startswith("log.db-notes-1 takes no notes: ")


def test_notes_do_not_grow_with_a_long_run(
    log: SqliteLog, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evalwright.store.sqlite.notes.PART_BYTES", 1000)
    started(log)
    with log.claim("run"):
        for number in range(200):
            log.note("run", [usage(number)])
            log.flush("run").result()
        files = [file for file in path.parent.iterdir() if "notes" in file.name]
        assert sum(file.stat().st_size for file in files) < 3000
    assert len(usages(log)) == 200

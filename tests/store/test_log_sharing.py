"""Several processes, and several logs in one process, on one file."""

import pytest
from log_events import Place, a_start, numbered, opened, types_of, written
from log_processes import a_child, children

from evalwright.store.protocol import EventLog

pytestmark = pytest.mark.both_databases


@pytest.mark.sqlite_only
def test_of_two_processes_that_append_to_one_run_the_one_left_behind_is_refused(
    path: Place,
) -> None:
    with (
        a_child("append_when_told", path, "run") as one,
        a_child("append_when_told", path, "run") as two,
    ):
        assert [one.hear(), two.hear()] == ["ready", "ready"]
        one.say()
        assert one.hear() == "written"
        two.say()  # its first look at the run: it follows on what it finds
        assert two.hear() == "written"
        one.say()  # takes the sequence that it knows as the next
        refused = one.hear()
        two.say()
        assert two.hear() == "written"

    assert refused.startswith("LogConflict: run run in ")
    assert "is another process executing the same run?" in refused
    assert types_of(path) == ["agent.decided"] * 3


def test_processes_that_write_different_runs_to_one_file_all_succeed(path: Place) -> None:
    opened(path).close()
    with children(3, "append_many", path, 300) as writers:
        for writer in writers:
            writer.say()
        for writer in writers:
            writer.finish()

    for number in range(3):
        assert len(types_of(path, f"run-{number}")) == 300


@pytest.mark.sqlite_only
def test_a_second_log_in_the_same_process_does_not_endanger_the_first(path: Place) -> None:
    """The locks of a process on a file are dropped when it closes any descriptor of that file.

    Without its locks the first log would be invisible to the other process, which would then take
    the write-ahead log away from under it, with every event that is acknowledged from then on.
    """
    first = opened(path)
    first.append("run", [a_start()])
    written(first)
    second = opened(path)
    with a_child("read_and_close", path) as other:
        assert other.hear() == "run=1"
        other.finish()

    first.append("run", numbered(1))
    written(first)

    with a_child("read_and_close", path) as other:
        assert other.hear() == "run=2"
    assert len(list(second.read("run"))) == 2
    second.close()
    first.close()
    assert len(types_of(path)) == 2


def test_a_reader_sees_what_another_process_has_written(log: EventLog, path: Place) -> None:
    assert log.run_ids() == []
    with a_child("append_when_told", path, "run") as other:
        other.hear()
        other.say()
        other.hear()
        assert log.run_ids() == ["run"]
        assert [event.sequence for event in log.read("run")] == [0]

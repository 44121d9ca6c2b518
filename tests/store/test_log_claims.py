"""The right to execute a run: held by one, seen by all, dropped with its holder."""

import os
import stat
import threading
from pathlib import Path

import pytest
from log_events import PATIENCE, Place, a_start, an_event, asked, opened, written
from log_processes import a_child

from evalwright.contracts.errors import CannotEvaluate, RunBusy, RunNotFound, StoreError
from evalwright.store.protocol import EventLog
from evalwright.store.sqlite.log import SqliteLog

pytestmark = pytest.mark.both_databases


def test_a_run_that_another_process_executes_cannot_be_claimed(log: EventLog, path: Place) -> None:
    with a_child("claim", path, "run") as other:
        assert other.hear() == "claimed"

        assert log.is_claimed("run")
        with pytest.raises(RunBusy, match="run run is already being executed"), log.claim("run"):
            pass

        other.say("let go")
        assert other.hear() == "released"
        assert not log.is_claimed("run")
        with log.claim("run"):
            pass


def test_a_claim_here_is_respected_by_another_process(log: EventLog, path: Place) -> None:
    with log.claim("run"), a_child("claim", path, "run", "other") as other:
        assert other.hear().startswith("RunBusy: run run is already being executed")
        assert other.hear() == "claimed"


@pytest.mark.sqlite_only
def test_a_claim_is_dropped_when_its_holder_is_killed(log: EventLog, path: Place) -> None:
    with a_child("claim", path, "run") as other:
        assert other.hear() == "claimed"
        other.kill()

    assert not log.is_claimed("run")
    with log.claim("run"):
        assert log.is_claimed("run")


def test_a_claim_ends_with_its_context_also_by_an_error(log: EventLog) -> None:
    with pytest.raises(OSError, match="the agent's own"), log.claim("run"):
        raise OSError("the agent's own")

    assert not log.is_claimed("run")


def test_a_run_cannot_be_claimed_twice_in_one_process(log: EventLog, path: Place) -> None:
    also = opened(path)
    with log.claim("run"):
        assert log.is_claimed("run")
        assert also.is_claimed("run")
        for place in (log, also):
            with pytest.raises(RunBusy), place.claim("run"):
                pass
    also.close()


def in_another_process(path: Place) -> str:
    with a_child("claim", path, "run") as other:
        return other.hear()


def test_looking_at_a_claim_does_not_release_it(log: EventLog, path: Place) -> None:
    """POSIX drops a process's locks on a file when the process closes any descriptor of it."""
    with log.claim("other"), log.claim("run"):
        assert log.is_claimed("run")
        assert log.is_claimed("other")
        second = opened(path)
        assert second.is_claimed("run")
        second.close()

        assert in_another_process(path).startswith("RunBusy")


def test_the_end_or_refusal_of_one_claim_does_not_release_another(
    log: EventLog, path: Place
) -> None:
    with a_child("claim", path, "theirs") as other, log.claim("run"):
        assert other.hear() == "claimed"
        with log.claim("short"):
            pass
        with pytest.raises(RunBusy), log.claim("theirs"):
            pass
        with pytest.raises(RunBusy), log.claim("run"):
            pass

        assert in_another_process(path).startswith("RunBusy")
    assert in_another_process(path) == "claimed"


def test_looking_never_makes_a_claim_fail(log: EventLog, path: Place) -> None:
    with log.claim("run"):
        pass
    with a_child("look_without_end", path, "run") as other:
        assert other.hear() == "looking"
        for _ in range(400):
            with log.claim("run"):
                assert log.is_claimed("run")


def test_threads_that_want_one_run_get_it_one_at_a_time(log: EventLog) -> None:
    inside, most, refused = 0, 0, 0
    count = threading.Lock()
    began = threading.Barrier(4)

    def work() -> None:
        nonlocal inside, most, refused
        began.wait(PATIENCE)
        for _ in range(50):
            try:
                with log.claim("run"):
                    with count:
                        inside += 1
                        most = max(most, inside)
                    with count:
                        inside -= 1
            except RunBusy:
                with count:
                    refused += 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert most == 1
    assert refused < 200
    assert not log.is_claimed("run")


@pytest.mark.sqlite_only
def test_claims_through_a_link_and_through_the_file_meet(path: Place, tmp_path: Path) -> None:
    link = tmp_path / "elsewhere" / "link.db"
    link.parent.mkdir()
    opened(path).close()
    link.symlink_to(path)
    linked, direct = SqliteLog(link), opened(path)

    with linked.claim("run"), pytest.raises(RunBusy), direct.claim("run"):
        pass
    assert list(link.parent.iterdir()) == [link]
    linked.close()
    direct.close()


def test_a_claim_holds_although_the_working_directory_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    log = SqliteLog(Path("log.db"))
    with log.claim("run"):
        monkeypatch.chdir(tmp_path / "elsewhere")
        assert log.is_claimed("run")
        log.append("run", [a_start()])
        written(log)
    log.close()

    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert log.place == "log.db"


def test_a_run_can_be_claimed_while_another_is_being_read(log: EventLog, path: Place) -> None:
    """An unfinished read holds on to an old state of the file: one cannot write from there."""
    log.append("old", [a_start(), *[an_event()] * 500])
    written(log, "old")
    reading = log.read("old")
    next(reading)
    log.append("old", [an_event()])
    written(log, "old")

    with log.claim("new"):
        assert in_the_log(path) == ["old", "new"]
    assert len(list(reading)) == 500


def in_the_log(path: Place) -> list[str]:
    return [run_id for (run_id,) in asked(path, "SELECT run_id FROM runs ORDER BY run")]


def test_a_claimed_run_without_events_is_not_listed(log: EventLog) -> None:
    with log.claim("run"):
        assert log.run_ids() == []


def test_nobody_claims_an_unknown_run(log: EventLog) -> None:
    with pytest.raises(RunNotFound):
        log.is_claimed("unknown")


@pytest.mark.sqlite_only
def test_the_lock_file_is_for_its_owner_alone(log: EventLog, path: Place) -> None:
    with log.claim("run"):
        lock_file = path.with_name("log.db-claims")
        assert stat.S_IMODE(lock_file.stat().st_mode) == 0o600


@pytest.mark.sqlite_only
def test_no_descriptor_is_left_open(log: EventLog) -> None:
    with log.claim("run"):
        pass
    before = open_descriptors()
    for number in range(5):
        with log.claim(f"run-{number}"):
            log.is_claimed("run")
        log.is_claimed("run")

    assert open_descriptors() == before


def open_descriptors() -> int:
    return sum(1 for number in range(1024) if _is_open(number))


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


@pytest.mark.sqlite_only
def test_a_lock_file_that_cannot_be_opened_is_a_clear_error(log: EventLog, path: Place) -> None:
    path.with_name("log.db-claims").mkdir()

    with pytest.raises(StoreError, match=r"log\.db: .*Is a directory.*with db"), log.claim("run"):
        pass


def test_a_busy_run_is_work_that_could_not_be_done() -> None:
    assert issubclass(RunBusy, CannotEvaluate)
    assert RunBusy.exit_code == 3

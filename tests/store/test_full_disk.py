"""No space, no permission: a clear error in place of a hang or a broken log."""

import shutil
import subprocess
from pathlib import Path

import pytest
from log_events import a_start, nobody_can_write, types_of, written
from log_processes import Child, a_child

from evalwright.contracts.errors import StoreError
from evalwright.store.location import Patience
from evalwright.store.sqlite.log import SqliteLog

OWN_MOUNTS = ["unshare", "--mount", "--map-root-user"]


def can_mount() -> bool:
    command = [*OWN_MOUNTS, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0


def assert_it_stops_and_goes_on(child: Child, reason: str) -> None:
    """The story that `run_out_of_space` in `log_children.py` tells, line by line."""
    flush_failed, append_raised, flushed_again = child.hear(), child.hear(), child.hear()
    for told in (flush_failed, append_raised, flushed_again):
        assert f"log.db: the event log cannot be used: {reason}; free some space" in told
    assert append_raised.startswith("StoreUnavailable: ")

    another_run, the_same_run = child.hear(), child.hear()
    assert another_run == "done"  # there is space again
    assert the_same_run == append_raised  # it lost an event: only a resumed run may go on

    found_beyond_acknowledged, resumed, found_after = child.hear(), child.hear(), child.hear()
    assert (found_beyond_acknowledged, resumed, found_after) == ("0", "done", "1")
    child.finish()


def test_a_run_that_hits_a_limit_of_file_size_fails_and_can_go_on_later(tmp_path: Path) -> None:
    with a_child("fill_the_disk", tmp_path) as child:
        assert_it_stops_and_goes_on(child, "disk I/O error")


def test_a_run_that_fills_the_disk_fails_and_can_go_on_when_space_returns(tmp_path: Path) -> None:
    if not can_mount():
        pytest.skip("this machine does not let us mount a file system of our own")
    with a_child("fill_a_tiny_disk", tmp_path, within=OWN_MOUNTS) as child:
        assert_it_stops_and_goes_on(child, "database or disk is full")


def test_a_log_that_cannot_be_created_for_want_of_space_is_created_later(tmp_path: Path) -> None:
    limits = range(0, 32_000, 1_500)
    with a_child("create_without_space", tmp_path, *limits) as child:
        for limit in limits:
            refusal = child.hear()
            assert refusal.startswith(
                f"StoreUnavailable: {tmp_path / f'{limit}.db'}: the event log"
            )
            assert "disk I/O error; free some space" in refusal
            assert child.hear() == "done"


def test_a_read_only_place_is_a_clear_error_and_stays_as_it_is() -> None:
    with a_child("use_a_read_only_place") as child:
        new_file, new_folder, old_file = child.hear(), child.hear(), child.hear()
        assert child.hear() == "[] 2"  # what may not be written is not damaged
        assert child.hear() == "True"

    assert "new.db: the event log cannot be opened: Permission denied; name" in new_file
    assert "new/log.db: the event log cannot be opened: Permission denied (" in new_folder
    assert "log.db: the event log cannot be used: attempt to write a readonly" in old_file
    for told in (new_file, new_folder, old_file):
        assert told.startswith(("StoreError: ", "StoreUnavailable: "))
        assert "name a writable file with db" in told


def test_an_old_log_that_may_not_be_written_is_a_clear_error_and_stays_as_it_is() -> None:
    with a_child("open_an_old_log_that_is_read_only") as child:
        told = child.hear()
        assert child.hear() == "True"

    assert "attempt to write a readonly database; name a writable file with db" in told


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("/proc/evalwright.db", r"\w+"),
        ("/proc/no/such/folder/evalwright.db", r"\w+"),
        ("/dev/full/evalwright.db", r".*\(/dev/full\)"),
        ("a file/evalwright.db", r".*a file\)"),
        ("x" * 300, "File name too long"),
    ],
)
def test_a_place_where_no_file_can_be_is_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a file").touch()

    with pytest.raises(
        StoreError, match=f"^{place}: .* cannot be opened: {reason}.*with db"
    ) as error:
        SqliteLog(Path(place))
    assert error.value.exit_code == 3


def test_a_file_that_stays_locked_fails_the_run_and_says_why(path: Path) -> None:
    log = SqliteLog(path, patience=Patience(0, 0, 0))
    with nobody_can_write(path):
        log.append("run", [a_start()])
        with pytest.raises(StoreError, match=r"log\.db: .*locked; another process"):
            written(log)

    log.append("other", [a_start()])
    written(log, "other")
    log.close()
    assert types_of(path, "run") == []
    assert types_of(path, "other") == ["run.started"]


def test_closing_a_log_that_cannot_be_written_ends(path: Path) -> None:
    log = SqliteLog(path, patience=Patience(0, 0, 0))
    with nobody_can_write(path):
        log.append("run", [a_start()])
        log.close()

    assert types_of(path) == []

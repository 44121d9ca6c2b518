"""Copies of a log: whole, private, under their name only when they are complete."""

import fcntl
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from log_events import a_start, an_end, an_event, written

from evalwright.contracts.errors import BadInput, CannotEvaluate
from evalwright.store.sqlite import backup
from evalwright.store.sqlite.backup import Backup, back_up, compact
from evalwright.store.sqlite.log import SqliteLog


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A log with a run, and with unused space that held another one."""
    path = tmp_path / "log.db"
    with closing(SqliteLog(path)) as log:
        for run_id in ("run", "pruned"):
            body = f'{{"said":"{run_id} {"x" * 50_000}"}}'
            log.append(run_id, [a_start(), an_event(body=body), an_end()])
        written(log)
        log.upkeep.prune(["pruned"], "old", ())
    return path


def untold(_written: int, _expected: int) -> None: ...


def test_a_copy_is_whole_private_and_without_what_was_deleted(source: Path) -> None:
    target = source.with_name("copy.db")
    assert back_up(source, target, untold) == Backup(target.stat().st_size, 0)
    assert target.stat().st_mode & 0o777 == 0o600
    assert target.stat().st_size < source.stat().st_size
    with closing(SqliteLog(target)) as log:
        assert [event.type for event in log.read("run")] == [
            "run.started",
            "agent.decided",
            "run.completed",
        ]
    before = source.stat().st_size
    compact(source, untold)
    assert source.stat().st_size < before


def test_progress_is_told_from_time_to_time(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def later() -> float:
        now[0] += 0.3
        return now[0]

    told: list[tuple[int, int]] = []
    monkeypatch.setattr(backup, "_STEPS", 10)
    monkeypatch.setattr(backup.time, "monotonic", later)
    back_up(source, source.with_name("copy.db"), lambda *sizes: told.append(sizes))
    assert len(told) > 1
    assert all(0 <= written <= expected for written, expected in told)
    with closing(sqlite3.connect(source)) as connection:
        ((pages,), (size,)) = (
            connection.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "page_size")
        )
    assert {expected for _, expected in told} == {pages * size}


@pytest.mark.parametrize(
    ("target", "refusal"),
    [
        ("none/copy.db", "none is not a writable folder"),
        ("log.db", "log.db: the log itself; name another file"),
        ("log.db-wal", "log.db-wal: it belongs to the log; name another file"),
        ("log.db-key", "it belongs to the log"),
        ("folder", "folder: not a file; name another place"),
        ("there.db", "there.db: exists already; name another file, or replace it with"),
    ],
)
def test_a_copy_replaces_nothing_unasked(source: Path, target: str, refusal: str) -> None:
    source.with_name("folder").mkdir()
    there = source.with_name("there.db")
    there.write_text("kept")
    with pytest.raises(BadInput, match=refusal):
        back_up(source, source.parent / target, untold)
    assert there.read_text() == "kept"
    back_up(source, there, untold, replace=True)
    assert there.read_bytes().startswith(b"SQLite format 3")


def leftover(part: Path) -> None:
    part.write_text("of a killed process")
    part.with_name(f"{part.name}-journal").write_text("of a killed process")


@pytest.mark.parametrize("leave", [leftover, lambda _: None])
def test_what_a_killed_process_left_is_removed(source: Path, leave: Callable[[Path], None]) -> None:
    leave(source.with_name(".copy.db.part"))
    back_up(source, source.with_name("copy.db"), untold)
    assert {each.name for each in source.parent.iterdir()} <= {
        *("log.db", "log.db-wal", "log.db-shm", "log.db-claims", "copy.db")
    }


def test_two_copies_to_one_file_are_not_written_at_once(source: Path) -> None:
    part = source.with_name(".copy.db.part")
    with part.open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(CannotEvaluate, match="another backup to the same file"):
            back_up(source, source.with_name("copy.db"), untold)
    assert part.exists()
    part.unlink()
    part.symlink_to(source)
    with pytest.raises(BadInput, match=r"in the way: .*; remove it"):
        back_up(source, source.with_name("copy.db"), untold)
    assert source.stat().st_size

"""Files that are no log, or no longer one: a clear error, and nothing is touched."""

import os
import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from log_events import a_start, an_event, raw_connection, types_of, written
from log_processes import a_child

from evalwright.contracts.errors import DamagedEventLog, NotAnEventLog, StoreError
from evalwright.store.sqlite import migration, schema
from evalwright.store.sqlite.log import SqliteLog

PAGE = 4096


@pytest.fixture
def held() -> Iterator[ExitStack]:
    """What stays open for the length of a test."""
    with ExitStack() as stack:
        yield stack


def snapshot(folder: Path) -> dict[str, tuple[object, ...]]:
    """Everything about a folder that a user could notice: names, bytes, times, modes."""
    found: dict[str, tuple[object, ...]] = {}
    for item in [folder, *folder.rglob("*")]:
        status = item.stat()
        content = item.read_bytes() if item.is_file() else b""
        found[str(item)] = (status.st_mode, status.st_mtime_ns, status.st_size, content)
    return found


def a_log(path: Path, events: int = 3) -> bytes:
    log = SqliteLog(path)
    log.append("run", [a_start(), *[an_event(body="x" * 500)] * (events - 1)])
    log.close()
    return path.read_bytes()


def a_foreign_database(path: Path, held: ExitStack, mode: str) -> sqlite3.Connection:
    connection = held.enter_context(raw_connection(path))
    connection.execute(f"PRAGMA journal_mode = {mode}")
    connection.execute("CREATE TABLE accounts (owner TEXT)")
    connection.execute("INSERT INTO accounts VALUES ('somebody')")
    return connection


# Files of others.


def text(path: Path, held: ExitStack) -> None:
    path.write_text("Dear diary, " * 1000)


def a_word(path: Path, held: ExitStack) -> None:
    path.write_text("hi")


def the_magic_words_alone(path: Path, held: ExitStack) -> None:
    path.write_bytes(b"SQLite format 3\0")


def another_programs_database(path: Path, held: ExitStack) -> None:
    a_foreign_database(path, held, "DELETE").close()


def another_programs_wal_database(path: Path, held: ExitStack) -> None:
    a_foreign_database(path, held, "WAL").close()


def another_programs_database_in_use(path: Path, held: ExitStack) -> None:
    a_foreign_database(path, held, "WAL").execute("BEGIN IMMEDIATE")


def another_programs_database_after_a_crash(path: Path, held: ExitStack) -> None:
    """With a write-ahead log that its own program still has to recover."""
    original = path.with_name("original")
    a_foreign_database(original, held, "WAL")
    path.write_bytes(original.read_bytes())
    path.with_name("log.db-wal").write_bytes(original.with_name("original-wal").read_bytes())
    held.pop_all().close()
    original.unlink()


def another_programs_database_with_a_hot_journal(path: Path, held: ExitStack) -> None:
    connection = a_foreign_database(path, held, "DELETE")
    connection.execute("PRAGMA cache_size = 1")
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO accounts VALUES (?)", [("x" * 3000,)] * 20)
    before = {item: item.read_bytes() for item in path.parent.iterdir()}
    held.pop_all().close()
    for item, content in before.items():
        item.write_bytes(content)
    assert path.with_name("log.db-journal").exists()


FOREIGN = [
    text,
    a_word,
    the_magic_words_alone,
    another_programs_database,
    another_programs_wal_database,
    another_programs_database_in_use,
    another_programs_database_after_a_crash,
    another_programs_database_with_a_hot_journal,
]


# Logs that have been damaged.


def garbage_for_a_schema(path: Path, held: ExitStack) -> None:
    content = bytearray(a_log(path))
    content[100:PAGE] = random.Random(1).randbytes(PAGE - 100)
    path.write_bytes(content)


def cut_to(size: Callable[[int], int]) -> Callable[[Path, ExitStack], None]:
    def cut(path: Path, held: ExitStack) -> None:
        content = a_log(path, events=100)
        path.write_bytes(content[: size(len(content))])

    return cut


DAMAGED = {
    "garbage for a schema": garbage_for_a_schema,
    "cut after the header": cut_to(lambda size: 100),
    "cut after the first page": cut_to(lambda size: PAGE),
    "cut within a page": cut_to(lambda size: PAGE + 1000),
    "cut in the middle": cut_to(lambda size: size // 2 // PAGE * PAGE),
    "without its last page": cut_to(lambda size: size - PAGE),
    "without its last byte": cut_to(lambda size: size - 1),
}


@pytest.mark.parametrize(
    ("make", "error"),
    [
        *[pytest.param(make, NotAnEventLog, id=make.__name__) for make in FOREIGN],
        *[pytest.param(make, DamagedEventLog, id=name) for name, make in DAMAGED.items()],
    ],
)
def test_a_file_that_is_no_log_is_refused_and_left_untouched(
    path: Path,
    held: ExitStack,
    make: Callable[[Path, ExitStack], None],
    error: type[StoreError],
) -> None:
    make(path, held)
    before = snapshot(path.parent)

    with pytest.raises(error, match="with db") as refusal:
        SqliteLog(path)

    assert str(refusal.value).startswith(f"{path}: ")
    assert refusal.value.exit_code == 3
    if error is NotAnEventLog:
        assert snapshot(path.parent) == before
    else:  # SQLite has looked inside; it makes files beside a log of ours and takes them away
        assert without_folder_times(path.parent) == without_folder_times(path.parent, before)


def without_folder_times(
    folder: Path, seen: dict[str, tuple[object, ...]] | None = None
) -> dict[str, tuple[object, ...]]:
    return {
        name: facts for name, facts in (seen or snapshot(folder)).items() if name != str(folder)
    }


def test_the_owner_of_a_foreign_database_in_use_notices_nothing(
    path: Path, held: ExitStack
) -> None:
    owner = a_foreign_database(path, held, "WAL")
    owner.execute("BEGIN IMMEDIATE")
    owner.execute("INSERT INTO accounts VALUES ('somebody else')")
    with pytest.raises(NotAnEventLog, match="a database of another program"):
        SqliteLog(path)

    owner.execute("COMMIT")
    assert owner.execute("SELECT count(*) FROM accounts").fetchone() == (2,)


def test_a_refused_file_in_this_process_keeps_its_locks(path: Path, held: ExitStack) -> None:
    owner = a_foreign_database(path, held, "DELETE")
    owner.execute("BEGIN IMMEDIATE")
    with pytest.raises(NotAnEventLog):
        SqliteLog(path)

    with a_child("try_to_lock", path) as other:
        assert other.hear() == "database is locked"


def test_a_database_with_our_mark_but_without_our_tables_is_an_error(
    path: Path, held: ExitStack
) -> None:
    connection = a_foreign_database(path, held, "DELETE")
    connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {migration.VERSION}")
    connection.close()

    with pytest.raises(StoreError, match=r"log\.db: .*no such table"):
        SqliteLog(path)


def a_folder(path: Path, held: ExitStack) -> None:
    path.mkdir()


def a_pipe(path: Path, held: ExitStack) -> None:
    os.mkfifo(path)
    held.callback(os.close, os.open(path, os.O_RDWR))  # else to open it is to wait for ever


def a_device(path: Path, held: ExitStack) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [a_folder, a_pipe, a_device])
def test_what_is_no_file_is_refused(
    path: Path, held: ExitStack, make: Callable[[Path, ExitStack], None]
) -> None:
    make(path, held)

    with pytest.raises(NotAnEventLog, match=r"log\.db: not a file; name another place with db"):
        SqliteLog(path)
    assert [item.name for item in path.parent.iterdir()] == ["log.db"]


def test_an_empty_file_becomes_a_log(path: Path) -> None:
    """As `mktemp` makes one: nothing can be lost in it."""
    path.touch()

    log = SqliteLog(path)
    log.append("run", [a_start()])
    log.close()
    assert types_of(path) == ["run.started"]


def test_garbage_among_the_events_is_found_when_they_are_read(path: Path) -> None:
    content = bytearray(a_log(path, events=2_000))
    middle = len(content) // 2 // PAGE * PAGE
    content[middle : middle + PAGE] = random.Random(1).randbytes(PAGE)
    path.write_bytes(content)
    log = SqliteLog(path)

    with pytest.raises(DamagedEventLog, match=r"log\.db: the database is damaged .*with db"):
        list(log.read("run"))
    log.close()
    assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]


def test_writing_to_a_damaged_log_is_a_clear_error(path: Path) -> None:
    content = bytearray(a_log(path, events=200))
    content[PAGE:] = random.Random(1).randbytes(len(content) - PAGE)
    path.write_bytes(content)
    with pytest.raises(DamagedEventLog, match=r"log\.db: the database is damaged .*with db"):
        _append(path)
    assert path.read_bytes() == content


def _append(path: Path) -> None:
    log = SqliteLog(path)
    try:
        log.append("run", [an_event()])
        written(log)
    finally:
        log.close()

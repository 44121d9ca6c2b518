"""What other processes do in these tests: `python log_children.py ROLE ARGUMENT…`.

A child says one line for each thing that it has done, and hears a line where it has to wait.
"""

import os
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from log_events import Place, an_event, nobody_can_write, numbered, opened

from evalwright.contracts.errors import EvalwrightError, StoreError
from evalwright.store.inspection import find_problems, read_facts
from evalwright.store.location import Patience
from evalwright.store.postgres import leases
from evalwright.store.protocol import NewEvent
from evalwright.store.records import RecordChange
from evalwright.store.sqlite import schema
from evalwright.store.sqlite.log import SqliteLog

ENOUGH = 1_000_000  # more than any test waits for


def place_of(argument: str) -> Place:
    return argument if "://" in argument else Path(argument)


def say(line: object) -> None:
    os.write(1, f"{line}\n".encode())


def hear() -> str:
    return sys.stdin.readline().rstrip("\n")


def acknowledge_flushed(path: str, first: str, body_size: str) -> None:
    """Go on with the run for ever; say how many events it has after each flush."""
    log = opened(place_of(path))
    for number in range(int(first), ENOUGH, 3):
        log.append("run", padded(numbered(number, 3), body_size))
        if number % 2 == 0:
            log.flush("run").result()
            say(number + 3)


def note(path: str, run_id: str) -> None:
    """Note usage of a run that it executes, while nobody can write."""
    log = opened(place_of(path))
    log.append(run_id, [an_event("run.started")])
    with log.claim(run_id):
        log.flush(run_id).result()
        with nobody_can_write(place_of(path)):
            log.note(run_id, [an_event("provider.usage", "task-1", '{"inputTokens":1}')])
            say("noted")
            hear()


def acknowledge_watched(path: str, first: str, body_size: str) -> None:
    """Go on with the run for ever; say how many events it has when the watcher hears of them."""
    log = opened(place_of(path))
    known = int(first)

    def watcher(events: Sequence[NewEvent]) -> None:
        nonlocal known
        known += len(events)
        say(known)

    log.watch("run", watcher)
    for number in range(int(first), ENOUGH):
        log.append("run", padded(numbered(number), body_size))
        if log.backlog > 50:
            log.flush("run").result()


def acknowledge_with_documents(path: str, first: str) -> None:
    """Go on with the run for ever, with a document for each event; say how many it has."""
    log = opened(place_of(path))
    for number in range(int(first), ENOUGH):
        document = RecordChange("note", "a", f"{number:06}", b"%d" % number, expected=None)
        log.append("run", numbered(number), [document])
        if number % 3 == 0:
            log.flush("run").result()
            say(number + 1)


def padded(events: list[NewEvent], body_size: str) -> list[NewEvent]:
    return [event._replace(body=event.body.ljust(int(body_size))) for event in events]


def append_when_told(path: str, run_id: str) -> None:
    """Append one event for each line that is heard; say how that went."""
    log = opened(place_of(path))
    say("ready")
    while hear():
        try:
            log.append(run_id, [an_event(body=str(os.getpid()))])
            log.flush(run_id).result()
            say("written")
        except EvalwrightError as error:
            say(f"{type(error).__name__}: {error}")
    log.close()


def append_many(path: str, count: str, number: str) -> None:
    """Append to a run of its own, flushing now and then."""
    hear()
    log = opened(place_of(path))
    for index in range(int(count)):
        log.append(f"run-{number}", numbered(index))
        if index % 10 == 0:
            log.flush(f"run-{number}").result()
    log.close()


def read_and_close(path: str) -> None:
    """Open, read, close: as a command that shows something does."""
    log = opened(place_of(path))
    say(",".join(f"{run_id}={len(list(log.read(run_id)))}" for run_id in log.run_ids()))
    log.close()


def open_when_told(path: str, number: str) -> None:
    """Open the log at the same moment as others, and write a run of its own to it."""
    say("ready")
    hear()
    log = opened(place_of(path))
    log.append(f"run-{number}", [an_event()])
    log.close()
    say("done")


def try_to_lock(path: str) -> None:
    """Try to write to a database of whatever program; say what SQLite answers."""
    connection = sqlite3.connect(path, timeout=0, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
        say("locked it")
    except sqlite3.OperationalError as error:
        say(error)
    connection.close()


def claim_for_a_second(address: str, run_id: str) -> None:
    """Claim a run in PostgreSQL, and prolong the claim every quarter of a second."""
    leases.LEASE_SECONDS = 1.0
    with opened(address).claim(run_id):
        say("claimed")
        hear()


def claim(path: str, *run_ids: str) -> None:
    """Claim runs until told to let go, one by one."""
    log = opened(place_of(path))
    with ExitStack() as held:
        for run_id in run_ids:
            try:
                held.enter_context(log.claim(run_id))
                say("claimed")
            except EvalwrightError as error:
                say(f"{type(error).__name__}: {error}")
        hear()
    say("released")
    hear()


def look_without_end(path: str, run_id: str) -> None:
    """Ask again and again whether a run is claimed."""
    log = opened(place_of(path))
    say("looking")
    while True:
        log.is_claimed(run_id)


def outcome(work: Callable[[], object]) -> str:
    """What came of something, in one line."""
    try:
        work()
    except EvalwrightError as error:
        return f"{type(error).__name__}: {error}"
    return "done"


def fill_the_disk(folder: str) -> None:
    """Write until files may not grow, then go on when they may again."""
    limit = 200_000
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    run_out_of_space(
        Path(folder) / "log.db",
        lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2),
    )


def fill_a_tiny_disk(folder: str) -> None:
    """Write until a file system of its own is full, then go on when something was deleted."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], check=True)
    ballast = Path(folder) / "ballast"
    ballast.write_bytes(bytes(800_000))
    run_out_of_space(Path(folder) / "log.db", ballast.unlink)


def run_out_of_space(path: Path, give_space: Callable[[], object]) -> None:
    log = SqliteLog(path, patience=Patience(0, 0, 0))
    acknowledged = 0
    try:
        for acknowledged in range(1, ENOUGH):
            log.append("run", padded(numbered(acknowledged - 1), "3000"))
            log.flush("run").result(120)
    except StoreError as error:
        say(error)
    acknowledged -= 1
    say(outcome(lambda: log.append("run", numbered(acknowledged))))
    say(outcome(log.flush("run").result))
    give_space()
    log.append("other", numbered(0))
    say(outcome(log.flush("other").result))
    say(outcome(lambda: log.append("run", numbered(acknowledged))))
    log.close()

    again = SqliteLog(path)
    say(len(list_of(path)) - acknowledged)
    again.append("run", numbered(acknowledged))
    say(outcome(again.flush("run").result))
    again.close()
    say(len(list_of(path)) - acknowledged)


def create_without_space(folder: str, *limits: str) -> None:
    """Create a log where files may not grow beyond a limit; then again where they may."""
    for limit in map(int, limits):
        path = Path(folder) / f"{limit}.db"
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        refusal = outcome(lambda path=path: SqliteLog(path).close())
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        say(refusal)
        say(outcome(lambda path=path: SqliteLog(path).close()))


def use_a_read_only_place() -> None:
    """Open, read, claim and write logs in a folder that may not be changed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for _ in range(2):  # also to import all that will be needed when we are not root
            use(folder / "log.db")
        before = sorted(folder.iterdir())
        (folder / "log.db").chmod(0o444)
        folder.chmod(0o555)
        with without_root():
            say(outcome(lambda: SqliteLog(folder / "new.db")))
            say(outcome(lambda: SqliteLog(folder / "new" / "log.db")))
            say(outcome(lambda: use(folder / "log.db")))
            say(f"{list(find_problems(folder / 'log.db'))} {read_facts(folder / 'log.db').events}")
        say(sorted(folder.iterdir()) == before)
        folder.chmod(0o755)


def open_an_old_log_that_is_read_only() -> None:
    """In a folder that may be changed, where SQLite can make its other files."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with closing(sqlite3.connect(folder / "old.db")) as old:
            old.executescript((Path(__file__).parent / "written_by_0_2/schema.sql").read_text())
            old.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
            old.execute("PRAGMA user_version = 2")
            old.execute("PRAGMA journal_mode = WAL")
        before = (folder / "old.db").read_bytes()
        use(folder / "log.db")  # to import all that will be needed when we are not root
        (folder / "old.db").chmod(0o444)
        folder.chmod(0o777)
        with without_root():
            say(outcome(lambda: SqliteLog(folder / "old.db")))
        say((folder / "old.db").read_bytes() == before)


def use(path: Path) -> None:
    log = SqliteLog(path)
    try:
        log.append("run", [an_event()])
        log.flush("run").result()
    finally:
        log.close()


@contextmanager
def without_root() -> Iterator[None]:
    """For root nothing is read-only."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


def die_while_creating(folder: str, *limits: str) -> None:
    """Create a log that dies at the write which reaches a limit; say what can be done with it."""
    for limit in map(int, limits):
        path = Path(folder) / f"{limit}.db"
        _, died = in_a_fork(lambda path=path: SqliteLog(path), dies_at=limit)
        log = SqliteLog(path)
        log.append("run", numbered(0))
        log.close()
        say(f"{died} {len(list_of(path))}")


def die_while_appending(folder: str, *limits: str) -> None:
    """Append until a write reaches a limit; say what was acknowledged and what is there."""
    for limit in map(int, limits):
        path = Path(folder) / f"{limit}.db"
        acknowledged, died = in_a_fork(
            lambda path=path: acknowledge_flushed(str(path), "0", "700"), dies_at=limit
        )
        say(f"{died} {acknowledged[-1] if acknowledged else 0} {len(list_of(path))}")


def die_while_writing_documents(folder: str, *limits: str) -> None:
    """Write events with documents until a write reaches a limit; say what was acknowledged."""
    for limit in map(int, limits):
        path = Path(folder) / f"{limit}.db"
        acknowledged, died = in_a_fork(
            lambda path=path: acknowledge_with_documents(str(path), "0"), dies_at=limit
        )
        say(f"{died} {acknowledged[-1] if acknowledged else 0}")


def in_a_fork(work: Callable[[], object], dies_at: int) -> tuple[list[str], bool]:
    """The lines that a fork said, and whether it died writing more than so many bytes to a file."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(writing, 1)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (dies_at, dies_at))
        work()
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as lines:
        said = lines.read().splitlines()
    _, status = os.waitpid(child, 0)
    return said, os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXFSZ


def list_of(path: Path) -> list[int]:
    """The sequences of the run, each checked against its body."""
    log = SqliteLog(path)
    events = list(log.read("run")) if log.run_ids() else []
    log.close()
    assert all(int(event.body) == event.sequence == n for n, event in enumerate(events))
    return [event.sequence for event in events]


if __name__ == "__main__":
    role, *arguments = sys.argv[1:]
    globals()[role](*arguments)

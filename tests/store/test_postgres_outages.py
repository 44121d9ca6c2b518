"""A server that fails for a while: nothing is lost, and nothing is written twice."""

import asyncio
import functools
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, suppress
from typing import Any

import pytest
from log_documents import a_note
from log_events import (
    PATIENCE,
    a_start,
    an_event,
    asked,
    numbered,
    opened,
    postgres_connection,
    written,
)

from evalwright.contracts.errors import StoreError, StoreUnavailable
from evalwright.engine.fleet.database import FleetDatabase
from evalwright.store.location import Patience
from evalwright.store.postgres import address
from evalwright.store.postgres.connections import LogConnections, new_loop
from evalwright.store.postgres.log import PostgresLog
from evalwright.store.postgres.migration import refuse_old_server
from evalwright.store.postgres.schema import EVERY_TENANT, ROLE
from evalwright.store.postgres.writer import PostgresWriter
from evalwright.store.protocol import NewEvent
from postgres_server import PostgresServer, database_of
from subjects.waiting import eventually

GONE = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'evalwright'"
    " AND datname = current_database()"
)


@pytest.fixture(scope="module")
def database() -> str:
    return "postgres"


@pytest.fixture
def log(path: str) -> Iterator[PostgresLog]:
    log = PostgresLog(path)
    yield log
    log.close()


class Fault:
    """Something that happens once, before or after events are sent."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._send = PostgresWriter._send
        self.before: Callable[[], None] | None = None
        self.after: Callable[[], None] | None = None
        fault = self

        async def send(writer: PostgresWriter, connection: Any, runs: Any) -> Any:
            fault._happen("before")
            result = await fault._send(writer, connection, runs)
            fault._happen("after")
            return result

        monkeypatch.setattr(PostgresWriter, "_send", send)

    def _happen(self, when: str) -> None:
        deed = getattr(self, when)
        if deed is not None:
            setattr(self, when, None)
            deed()


def lose_the_connection() -> None:
    raise ConnectionError("the link is cut")


@pytest.fixture
def fault(monkeypatch: pytest.MonkeyPatch) -> Fault:
    return Fault(monkeypatch)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("documents", [[], [a_note("note", expected=None)]])
def test_an_append_whose_acknowledgement_is_lost_is_written_once(
    log: PostgresLog, fault: Fault, moment: str, documents: list[Any]
) -> None:
    told: list[tuple[int, int]] = []
    log.observe(lambda _, first, events: told.append((first, len(events))))
    log.append("run", numbered(0, 3))
    written(log)

    setattr(fault, moment, lose_the_connection)
    log.append("run", numbered(3, 2), documents)
    written(log)
    log.append("run", numbered(5))
    written(log)

    assert [int(event.body) for event in log.read("run")] == list(range(6))
    assert told == [(0, 3), (3, 2), (5, 1)]
    assert len(log.records.list("note", "a")) == len(documents)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_process_that_slept_until_it_was_forgotten_writes_what_it_was_not_sure_of_once(
    log: PostgresLog, path: str, fault: Fault, moment: str
) -> None:
    log.append("run", [a_start()])
    written(log)

    def be_forgotten() -> None:
        asked(path, "UPDATE writers SET seen = now() - interval '2 days'")
        with closing(PostgresLog(path)) as other:
            other.append("other", [a_start()])
            written(other)
        assert asked(path, "SELECT count(*) FROM writers") == [(0,)], "whoever leaves sweeps"

    def sleep_for_a_day() -> None:
        with ThreadPoolExecutor(1) as beside:  # this thread has a loop already
            beside.submit(be_forgotten).result()
        lose_the_connection()

    setattr(fault, moment, sleep_for_a_day)
    log.append("run", numbered(1, 2))
    log.append("new", [a_start()])
    written(log)
    log.append("run", numbered(3))
    written(log)

    assert [event.body for event in log.read("run")] == [b"{}", b"1", b"2", b"3"]
    assert len(list(log.read("new"))) == 1


def test_a_log_that_is_closed_beside_a_running_loop_leaves_nothing_behind(path: str) -> None:
    async def work() -> None:
        log = PostgresLog(path)
        log.append("run", [a_start()])
        await asyncio.wrap_future(log.flush("run"))
        log.close()

    asyncio.run(work())
    assert asked(path, "SELECT count(*) FROM writers") == [(0,)]


def test_what_others_append_meanwhile_is_not_taken_for_the_lost_append(
    log: PostgresLog, path: str, fault: Fault
) -> None:
    told: list[int] = []
    log.observe(lambda _, first, __: told.append(first))
    log.append("run", [a_start()])
    written(log)
    with closing(PostgresLog(path)) as other:

        def cut_off() -> None:
            other.append("run", [an_event("other")])
            written(other)
            lose_the_connection()

        fault.before = None
        fault.after = cut_off
        log.append("run", [an_event("mine", None, "1")])
        written(log)

    assert [event.type for event in log.read("run")] == ["run.started", "mine", "other"]
    assert told == [0, 1]


def test_a_statement_that_the_server_executes_late_writes_nothing(
    log: PostgresLog, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection is given up while the server still has the append before it."""
    log.append("run", [a_start()])
    written(log)
    monkeypatch.setattr("evalwright.store.postgres.writer.ATTEMPT_SECONDS", 0.3)
    with postgres_connection(path) as execute:
        execute("BEGIN")
        execute("SELECT 1 FROM runs FOR UPDATE")
        log.append("run", numbered(1))
        eventually(lambda: log.fault, "the append is given up")
        execute("ROLLBACK")
    written(log)

    assert [event.body for event in log.read("run")] == [b"{}", b"1"]


def test_connections_that_the_server_ends_are_made_again(log: PostgresLog, path: str) -> None:
    for number in range(5):
        log.append("run", numbered(number))
        written(log)
        assert len(list(log.read("run"))) == number + 1
        asked(path, GONE)


def test_a_server_that_became_read_only_is_waited_for(log: PostgresLog, path: str) -> None:
    log.append("run", [a_start()])
    written(log)
    name = database_of(path)
    asked(path, f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    try:
        asked(path, GONE)
        log.append("run", numbered(1))
        eventually(lambda: log.fault and "read-only" in log.fault, "the writer notices")
    finally:
        with postgres_connection(path) as execute:
            execute("SET default_transaction_read_only = off")
            execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
    written(log)

    assert len(list(log.read("run"))) == 2
    assert log.fault is None


@pytest.fixture
def reader(path: str) -> Iterator[str]:
    """The address of a user that may only read."""
    name = f"reader_{database_of(path)}"
    asked(path, f"CREATE ROLE {name} LOGIN")
    asked(path, f"GRANT {ROLE} TO {name}")
    asked(path, f"ALTER ROLE {name} SET default_transaction_read_only = on")
    yield path.replace("postgres@", f"{name}@", 1)
    asked(path, f"DROP ROLE {name}")


def test_a_user_that_may_only_read_reads_and_is_refused_at_once_to_write(
    log: PostgresLog, reader: str
) -> None:
    log.append("run", [a_start()])
    written(log)
    with closing(PostgresLog(reader)) as reading:
        assert len(list(reading.read("run"))) == 1
        reading.append("run", numbered(1))
        with pytest.raises(
            StoreError, match="may only read; name a user that may write"
        ) as refusal:
            written(reading)
    assert not isinstance(refusal.value, StoreUnavailable), "nobody tries again"


def test_a_fleet_is_refused_to_a_user_that_may_only_read(log: PostgresLog, reader: str) -> None:
    async def work() -> None:
        await FleetDatabase(reader, log).fetch("SELECT 1")

    with pytest.raises(StoreError, match="may only read; name a user that may write"):
        asyncio.run(work())


def test_a_restart_of_the_server_loses_nothing_and_doubles_nothing(
    own_postgres: PostgresServer,
) -> None:
    log = opened(own_postgres.new_database(), Patience(requests=0.2))
    log.append("run-0", [a_start()])
    written(log, "run-0")
    stopping = threading.Event()
    counts = {f"run-{number}": 0 for number in range(3)}

    def work(run_id: str) -> None:
        while not stopping.is_set():
            log.append(run_id, [NewEvent("x", None, counts[run_id], b"{}")])
            counts[run_id] += 1
            log.flush(run_id).result(PATIENCE)

    threads = [threading.Thread(target=work, args=(run_id,)) for run_id in counts]
    for thread in threads:
        thread.start()
    eventually(lambda: min(counts.values()) > 5, "all write")
    own_postgres.restart()
    at_restart = dict(counts)
    eventually(lambda: all(counts[name] > at_restart[name] + 5 for name in counts), "they go on")
    stopping.set()
    for thread in threads:
        thread.join()

    for run_id, count in counts.items():
        found = [event.at_us for event in log.read(run_id) if event.type == "x"]
        assert found == list(range(count))

    own_postgres.stop()
    log.append("run-0", [an_event("last")])
    eventually(lambda: log.fault, "the writer notices")
    with pytest.raises(StoreUnavailable, match="the event log cannot be used"):
        log.facts("run-0")
    eventually(lambda: _is_refused(log), "requests are refused")
    own_postgres.start()
    written(log, "run-0")
    assert [event.type for event in log.read("run-0")][-1] == "last"
    log.close()


def test_a_connection_that_did_not_answer_in_time_is_not_asked_again(path: str) -> None:
    connections = LogConnections(path, "the log", read_seconds=3)
    with closing(connections):
        ((before,),) = connections.query(EVERY_TENANT, "SELECT pg_backend_pid()")
        with pytest.raises(StoreUnavailable, match="a read took longer than 3 s"):
            connections.query(EVERY_TENANT, "SELECT pg_sleep(60)")
        ((after,),) = connections.query(EVERY_TENANT, "SELECT pg_backend_pid()")
        asleep = "SELECT FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(60)'"
        eventually(lambda: not asked(path, asleep), "the server does not go on with it")
    assert after != before


class Link(threading.Thread):
    """A way to the server on which nothing comes through any more once it `is_dead`."""

    def __init__(self, path: str) -> None:
        super().__init__(daemon=True)
        self._listener = socket.create_server(("127.0.0.1", 0))
        host, _, rest = path.rpartition("@")[2].partition("/")
        self._to = host.partition(":")[0], int(host.partition(":")[2])
        port = self._listener.getsockname()[1]
        self.path = path.replace(f"{host}/{rest}", f"127.0.0.1:{port}/{rest}")
        self.is_dead = False
        self.start()

    def run(self) -> None:
        while True:
            near, _ = self._listener.accept()
            far = socket.create_connection(self._to)
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError), other:
            while data := one.recv(65536):
                while self.is_dead:
                    time.sleep(0.01)
                other.sendall(data)
            other.shutdown(socket.SHUT_RDWR)


def test_who_reads_while_the_server_does_not_answer_waits_less_than_the_first(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evalwright.store.postgres.connections.SILENT_SECONDS", 0.2)
    link = Link(path)
    connections = LogConnections(link.path, "the log", read_seconds=1)
    with closing(connections):
        assert connections.query(EVERY_TENANT, "SELECT 1")
        link.is_dead = True
        waits = []
        for _ in range(2):
            waits.append(connections.waits_s)
            with pytest.raises(StoreUnavailable, match="the server does not answer"):
                connections.query(EVERY_TENANT, "SELECT 1")
        assert waits == [1, 0.2]
        link.is_dead = False
        eventually(
            lambda: _answers(connections) and connections.waits_s == 1,
            "it answers again, and may take as long as before",
        )


def _answers(connections: LogConnections) -> bool:
    try:
        return bool(connections.query(EVERY_TENANT, "SELECT 1"))
    except StoreUnavailable:
        return False


def test_a_read_that_takes_too_long_is_no_outage_for_others(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that somebody has locked, and a server that is well."""
    monkeypatch.setattr("evalwright.store.postgres.connections.SILENT_SECONDS", 3)
    connections = LogConnections(path, "the log", read_seconds=4)
    with closing(connections), ThreadPoolExecutor(2) as threads:
        slow = [
            threads.submit(connections.query, EVERY_TENANT, "SELECT pg_sleep(60)") for _ in "12"
        ]
        done, _ = wait(slow)
        assert connections.waits_s == 4
    reasons = {str(each.exception()) for each in done}
    assert reasons == {"the log: the event log cannot be used: a read took longer than 4 s"}


def test_who_waits_for_a_connection_waits_no_longer_than_others(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evalwright.store.postgres.connections.MOST_READING", 1)
    connections = LogConnections(path, "the log", read_seconds=1)
    with closing(connections), ThreadPoolExecutor(60) as threads:
        ask = functools.partial(connections.query, EVERY_TENANT, "SELECT pg_sleep(60)")
        asked = [threads.submit(ask) for _ in range(60)]
        done, late = wait(asked, timeout=30)  # one after the other, they would take a minute
    assert not late
    assert all(isinstance(each.exception(), StoreUnavailable) for each in done)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="not of this system")
@pytest.mark.parametrize("new_loop", [new_loop, asyncio.new_event_loop])
def test_the_system_gives_up_a_server_that_vanished_without_a_word(
    path: str, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def limits() -> tuple[int, int]:
        connection = await address.connect(path)
        try:
            link = connection._transport.get_extra_info("socket")
            return (
                link.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT),
                link.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
            )
        finally:
            await connection.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        unheard_ms, keeps_asking = runner.run(limits())
    assert 0 < unheard_ms <= 15_000
    assert keeps_asking


def _is_refused(log: Any) -> bool:
    try:
        log.request("run-1", [an_event("refused")]).result(PATIENCE)
    except StoreUnavailable:
        return True
    return False


def test_a_server_that_is_too_old_is_refused_with_the_reason() -> None:
    refuse_old_server("postgresql://old", 15)
    with pytest.raises(StoreError, match=r"PostgreSQL 14 is too old; .*version 15 or later"):
        refuse_old_server("postgresql://old", 14)

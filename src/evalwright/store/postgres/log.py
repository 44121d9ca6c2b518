"""The event log in a PostgreSQL database."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any, TypeVar

from evalwright.contracts.errors import (
    DamagedEventLog,
    RunBusy,
    RunNotFound,
    StoreError,
)
from evalwright.contracts.events import Event
from evalwright.store import checksums, contents
from evalwright.store.location import Patience
from evalwright.store.postgres import address, migration
from evalwright.store.postgres.connections import READ_SECONDS, LogConnections, tenants_of
from evalwright.store.postgres.leases import Leases
from evalwright.store.postgres.news import RunNews
from evalwright.store.postgres.queries import (
    CHECKSUMS,
    CONTENT,
    EDGES,
    FACTS_OF_RUN,
    RUN,
    RUN_IDS,
    SUMS_OF_RUN,
    events_of,
    run_facts,
    runs_with,
)
from evalwright.store.postgres.records import PostgresRecords
from evalwright.store.postgres.stored_text import restored
from evalwright.store.postgres.upkeep import PostgresUpkeep
from evalwright.store.postgres.writer import PostgresWriter
from evalwright.store.protocol import (
    ALL_RUNS,
    NewEvent,
    News,
    RunFacts,
    RunFilter,
)
from evalwright.store.readers import LogReading
from evalwright.store.records import Records
from evalwright.store.upkeep import Upkeep
from evalwright.store.written_log import LogDatabase, WrittenLog

T = TypeVar("T")

MOST_THREADS, MOST_THREADS_PER_SHARE = 16, 8  # that read; each waits for an answer
_NO_BOUND = 2**63 - 1
_FIRST_PAGE, _LARGEST_PAGE = 32, 1024  # events
_PAGE_BYTES = 1024 * 1024  # of bodies, after which pages do not grow any more


class PostgresDatabase(LogDatabase):
    """The database of a log, shared by the views of all its tenants."""

    def __init__(self, url: str, patience: Patience | None = None) -> None:
        super().__init__()
        self.place = address.masked(url)
        self._url = url
        self._patience = patience or Patience()
        read_seconds = min(READ_SECONDS, 2.5 * self._patience.requests)
        self.connections = LogConnections(url, self.place, read_seconds)
        self.leases = Leases(self.connections)
        self.news = RunNews(self.connections)
        self.reading = LogReading(MOST_THREADS, MOST_THREADS_PER_SHARE)
        self.records = PostgresRecords(self.connections, lambda: self.writer, self.reading)
        try:
            self.connections.run(_open(url, self.place))
        except BaseException:
            self.connections.close()
            raise

    def start_writer(self) -> PostgresWriter:
        writer = PostgresWriter(
            self._url, self.place, self._patience, self.remember, self.leases.held
        )
        writer.observe(lambda run_id, *_: self.news.publish([run_id]))
        return writer

    @cached_property
    def parts(self) -> contents.ContentCache[tuple[str, bytes]]:
        return contents.ContentCache(self._read_part)

    def _read_part(self, key: tuple[str, bytes]) -> bytes:
        rows = self.connections.query(tenants_of(key[:1]), CONTENT, *key)
        if not rows:
            raise DamagedEventLog(f"{self.place}: a part of an event is missing")
        body: bytes = rows[0][0]
        return body

    def close(self) -> None:
        super().close()
        self.reading.threads.close()
        self.news.close()
        self.connections.close()


async def _open(url: str, place: str) -> None:
    """Refuse a database that this program does not know; an empty one gets its tables."""
    try:
        connection = await address.connect(url)
    except Exception as error:
        if address.state(error) != "22023":  # the server has no such role yet
            raise
        await migration.migrate(url)
        connection = await address.connect(url)
    try:
        found = await migration.read_version(connection)
        if found.version == 0:
            await migration.migrate(url)
            found = await migration.read_version(connection)
        migration.refuse_unknown(place, found)
    finally:
        await connection.close(timeout=1)


class PostgresLog(WrittenLog[PostgresDatabase]):
    """An event log kept in PostgreSQL, as one tenant sees it; without a tenant, all of it."""

    def __init__(
        self,
        url: str,
        tenant: str | None = None,
        database: PostgresDatabase | None = None,
        patience: Patience | None = None,
    ) -> None:
        super().__init__(database or PostgresDatabase(url, patience), tenant)
        self._tenants = tenants_of([tenant])
        self.address = url
        self.records: Records = self._database.records

    @property
    def upkeep(self) -> Upkeep:
        return PostgresUpkeep(self._database, self._tenant)

    def for_tenant(self, tenant: str) -> "PostgresLog":
        return PostgresLog(self.address, tenant, self._database)

    def note(self, run_id: str, events: Sequence[NewEvent]) -> None:
        """Queue events like `append`: there is no place nearer than the log."""
        self.append(run_id, events)

    def subscribe(self, news: News) -> None:
        self._database.news.subscribe(self._database.reading.ended_runs.forget)
        self._database.news.subscribe(news)

    def publish(self, run_ids: Sequence[str]) -> None:
        self._database.news.publish(run_ids)

    @contextmanager
    def claim(self, run_id: str) -> Iterator[None]:
        run = self.entered_number(run_id)
        try:
            self._database.leases.claim(run, run_id)
        except RunBusy:
            self._number_and_end(run_id)  # raises for a run that was pruned meanwhile
            raise
        try:
            yield
        finally:
            with suppress(StoreError):  # the claim lapses
                if self.backlog:
                    self.flush(run_id).exception()
                self._database.leases.release(run)

    def is_claimed(self, run_id: str) -> bool:
        return self._database.leases.is_claimed(self.number(run_id))

    def run_ids(self, limit: int | None = None, before: str | None = None) -> list[str]:
        bound = _NO_BOUND if before is None else self.number(before)
        statement = f"{RUN_IDS}{self._mine(3)} ORDER BY run DESC LIMIT $2"
        return [run_id for (run_id,) in self._query(statement, bound, limit)]

    def find_runs(
        self, wanted: RunFilter = ALL_RUNS, limit: int | None = None, before: str | None = None
    ) -> list[RunFacts]:
        bound = _NO_BOUND if before is None else self.number(before)
        statement, values = runs_with(wanted, self._tenant, bound, limit)
        rows = self._database.connections.query(self._tenants, statement, *values)
        return [run_facts(row) for row in rows]

    def facts(self, run_id: str) -> RunFacts:
        rows = self._query(f"{FACTS_OF_RUN}{self._mine(2)}", self.number(run_id))
        if not rows:
            raise self.not_found(run_id)
        return run_facts(rows[0])

    def read(
        self, run_id: str, types: Sequence[str] = (), after: int = -1, limit: int | None = None
    ) -> Iterator[Event]:
        """The events of a run in order: of these types, after a sequence, at most `limit`.

        The reader sees the run as it is when the first event is asked for.
        """
        run, last = self._number_and_end(run_id)
        page = events_of(types, self._tenant)
        left, most = _NO_BOUND if limit is None else limit, _FIRST_PAGE
        asked = [list(types)] if types else []
        while left > 0 and last > after:
            rows = self._query(page, run, after, last, min(left, most), *asked)
            if not rows:
                self.upkeep.refuse_pruned(run_id)  # a part must not pass for the whole
            yield from self.events_of_rows(run_id, rows)
            if len(rows) < min(left, most):
                return
            after, left = rows[-1][0], left - len(rows)
            if sum(len(row[4]) for row in rows) < _PAGE_BYTES:
                most = min(2 * most, _LARGEST_PAGE)
            del rows  # one page is held at a time

    def verify(self, run_id: str) -> None:
        run = self.number(run_id)
        rows = self._rows_of(f"{SUMS_OF_RUN}{self._mine(2)}", run_id)
        if not rows:
            raise self.not_found(run_id)
        for last, *known in rows:
            for _ in self.read(run_id, limit=last + 1):
                pass
            found = self._query(f"{CHECKSUMS}{self._mine(3)} ORDER BY seq", run, last)
            self.upkeep.refuse_pruned(run_id)
            checksums.refuse_broken(self.place, run_id, (each for (each,) in found), tuple(known))

    def rows_of_edges(self, run_id: str) -> list[Any]:
        rows = self._rows_of(f"{EDGES}{self._mine(2)} ORDER BY seq", run_id)
        if not rows:
            self._number_and_end(run_id)  # raises, unless the run has no events yet
        return rows

    def events_of_rows(
        self, run_id: str, rows: Sequence[Any], *, is_checked: bool = True
    ) -> Iterator[Event]:
        seed = checksums.seed_of(run_id)
        for sequence, kind, task_id, at_us, body, content, at, tenant, checksum in rows:
            if content is not None:
                try:
                    part = self._database.parts.get((tenant, content))
                except DamagedEventLog:  # not if the run was pruned a moment ago
                    self.upkeep.refuse_pruned(run_id)
                    raise
                body = contents.join(body, at, part)  # noqa: PLW2901
            task = task_id and restored(task_id)
            if (
                is_checked
                and checksum is not None
                and checksum != checksums.of_event(seed, kind, task, at_us, body)
            ):
                checksums.refuse_changed(self.place, run_id, sequence)
            yield Event(run_id, sequence, kind, task, at_us, body)

    def in_reader(self, share: str, read: Callable[[], T]) -> "Future[T]":
        return self._database.reading.threads.submit(share, read)

    def _mine(self, place: int) -> str:
        """The condition that a row is the tenant's, whose name comes in this place."""
        return "" if self._tenant is None else f" AND tenant = ${place}"

    def _query(self, statement: str, *values: Any) -> list[Any]:
        own = () if self._tenant is None else (self._tenant,)
        return self._database.connections.query(self._tenants, statement, *values, *own)

    def _rows_of(self, statement: str, run_id: str) -> list[Any]:
        """The rows of a run; none for an id that PostgreSQL cannot even look for."""
        return [] if "\0" in run_id else self._query(statement, run_id)

    def _number_and_end(self, run_id: str) -> tuple[int, int]:
        rows = self._rows_of(f"{RUN}{self._mine(2)}", run_id)
        if not rows:
            raise self.not_found(run_id)
        run, last = rows[0]
        self._database.remember((self._tenant, run_id), run)
        return run, last

    def find_number(self, run_id: str) -> int | None:
        with suppress(RunNotFound):
            return self._number_and_end(run_id)[0]
        return None

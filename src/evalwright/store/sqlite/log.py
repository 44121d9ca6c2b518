"""The event log in one SQLite file: WAL, one thread that writes, a few that read."""

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from evalwright.contracts.errors import DamagedEventLog
from evalwright.contracts.events import Event
from evalwright.store import checksums, contents, facts, location
from evalwright.store.location import BUSY_SECONDS, Anchor, Patience, clear_errors, connect
from evalwright.store.protocol import (
    ALL_RUNS,
    NewEvent,
    News,
    RunFacts,
    RunFilter,
)
from evalwright.store.record_table import RecordTable
from evalwright.store.records import Records
from evalwright.store.sqlite import claims, migration
from evalwright.store.sqlite.file_writer import SqliteWriter
from evalwright.store.written_log import LogDatabase, WrittenLog

if TYPE_CHECKING:
    from evalwright.store.sqlite.notes import Notebook
    from evalwright.store.upkeep import Upkeep

T = TypeVar("T")

_SELECT = (
    "SELECT seq, type, task_id, at_us, CAST(body AS BLOB), content, content_at, checksum"
    " FROM events WHERE run = ?"
)

_RUN = "SELECT run FROM runs WHERE run_id = :run_id"

_FACTS = f"SELECT {facts.COLUMNS} FROM run_facts"  # noqa: S608 - constants only

_RUN_IDS = f"SELECT {facts.RUN_ID} FROM run_facts WHERE run < :before"  # noqa: S608 - constants only


_NO_BOUND = 2**63 - 1
_PAGE = 32  # events that a reader holds in memory


class Database(LogDatabase, RecordTable):
    """The file of a log, shared by the views of all its tenants; also holds the documents."""

    def __init__(self, path: Path, patience: Patience | None = None) -> None:
        super().__init__()
        self.place = str(path)
        self._patience = patience or Patience()
        # As SQLite sees it: claims made through a link, or after a change of folder, must meet.
        self.path = Path(os.path.realpath(path))
        self.lock_file = self.path.with_name(self.path.name + "-claims")
        self.notes = f"{self.path}-notes-"  # and the number of a run
        self._idle: list[sqlite3.Connection] = []  # those that no query uses
        with clear_errors(self.place):
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with suppress(FileExistsError):  # owner only: logs hold what agents said
                os.close(os.open(self.path, os.O_RDONLY | os.O_CREAT | os.O_EXCL, 0o600))
            migration.inspect_file(self.path, self.place)
            first = migration.open_current(self.path, self.place, connect, BUSY_SECONDS)
            try:
                location.use_wal(first)
                first.execute("SELECT 1 FROM runs LIMIT 1").fetchone()
                self.anchor = Anchor(self.path)
                self.anchor.check()
            except BaseException:
                first.close()
                raise
            self._idle.append(first)

    def start_writer(self) -> SqliteWriter:
        with clear_errors(self.place):
            self.anchor.check()
            return SqliteWriter(
                connect(self.path), self.place, self._patience, self.anchor, self.remember
            )

    def close(self) -> None:
        super().close()
        if "reading" in self.__dict__:
            self.reading.threads.close()
        while self._idle:
            self._idle.pop().close()

    def query(self, statement: str, values: Sequence[Any] | Mapping[str, Any]) -> "list[Any]":
        """All rows of a statement, as the file is now; no other uses its connection meanwhile."""
        connection = None
        try:
            try:
                connection = self._idle.pop()
            except IndexError:  # other threads use them all
                self.refuse_closed()
                connection = connect(self.path)
            return connection.execute(statement, values).fetchall()
        except location.UNREADABLE as error:  # same as `clear_errors`, but faster
            raise location.explain(self.place, error) from error
        finally:
            if connection is not None:
                connection.close() if self._is_closed else self._idle.append(connection)

    @cached_property
    def parts(self) -> contents.ContentCache[int]:
        return contents.ContentCache(partial(contents.read_part, self.query, self.place))

    @cached_property
    def notebook(self) -> "Notebook":
        """What is noted of runs before it is durable; those that are free have nothing to note."""
        from evalwright.store.sqlite.notes import Notebook

        return Notebook()


class SqliteLog(WrittenLog[Database]):
    """An event log kept in a SQLite file, as one tenant sees it; without a tenant, all of it."""

    def __init__(
        self,
        path: Path,
        tenant: str | None = None,
        database: Database | None = None,
        patience: Patience | None = None,
    ) -> None:
        super().__init__(database or Database(path, patience), tenant)
        self._mine = "" if tenant is None else " AND tenant = :tenant"
        self.address = self.place
        self.records: Records = self._database

    @property
    def upkeep(self) -> "Upkeep":
        from evalwright.store.upkeep import SqliteUpkeep  # few need it

        return SqliteUpkeep(self._database, self._tenant)

    def for_tenant(self, tenant: str) -> "SqliteLog":
        return SqliteLog(self._database.path, tenant, self._database)

    def note(self, run_id: str, events: Sequence[NewEvent]) -> None:
        """Queue events like `append`, noted first where the end of this process leaves them."""
        if (run := self._database.run_numbers.get((self._tenant, run_id))) is not None:  # claimed
            notes = f"{self._database.notes}{run}"
            self._database.notebook.add(Path(notes), run_id, events, self.flush)
        self.append(run_id, events)

    def subscribe(self, news: News) -> None:
        """Nothing is heard of other processes: whoever follows a run reads the log now and then."""

    def publish(self, run_ids: Sequence[str]) -> None: ...

    @contextmanager
    def claim(self, run_id: str) -> Iterator[None]:
        with ExitStack() as held:
            with clear_errors(self.place):
                self._database.refuse_closed()
                run = self.entered_number(run_id)
                self._database.anchor.check()  # a lock file made elsewhere would lock nothing
                held.enter_context(claims.claim(self._database.lock_file, run, run_id))
                notes = f"{self._database.notes}{run}"
                if any(Path(part).is_file() for part in (notes, f"{notes}.2")):
                    from evalwright.store.sqlite.notes import recover

                    recover(self, Path(notes), run_id)
            try:
                yield
            finally:
                if "notebook" in self._database.__dict__:
                    self._database.notebook.end(run_id)

    def is_claimed(self, run_id: str) -> bool:
        with clear_errors(self.place):
            return claims.is_claimed(self._database.lock_file, self.number(run_id))

    def run_ids(self, limit: int | None = None, before: str | None = None) -> list[str]:
        rows = self._database.query(
            f"{_RUN_IDS}{self._mine} ORDER BY run DESC LIMIT :limit",
            {
                "tenant": self._tenant,
                "before": _NO_BOUND if before is None else self.number(before),
                "limit": -1 if limit is None else limit,
            },
        )
        return [run_id for (run_id,) in rows]

    def find_runs(
        self, wanted: RunFilter = ALL_RUNS, limit: int | None = None, before: str | None = None
    ) -> list[RunFacts]:
        asked = {name: value for name, value in wanted._asdict().items() if value is not None}
        conditions = [facts.condition(*each, self._mine) for each in asked.items()]
        rows = self._database.query(
            f"{_FACTS} WHERE {' AND '.join(('run < :before', *conditions))}{self._mine}"
            " ORDER BY run DESC LIMIT :limit",
            {
                **asked,
                "tenant": self._tenant,
                "before": _NO_BOUND if before is None else self.number(before),
                "limit": -1 if limit is None else limit,
            },
        )
        return [facts.from_row(row) for row in rows]

    def facts(self, run_id: str) -> RunFacts:
        rows = self._database.query(f"{_FACTS} WHERE run = ?", (self.number(run_id),))
        if not rows:
            raise self.not_found(run_id)
        return facts.from_row(rows[0])

    def read(
        self, run_id: str, types: Sequence[str] = (), after: int = -1, limit: int | None = None
    ) -> Iterator[Event]:
        """The events of a run in order: of these types, after a sequence, at most `limit`.

        The reader sees the run as it is when the first event is asked for.
        """
        run = self.number(run_id)
        wanted = f" AND type IN ({', '.join('?' * len(types))})" if types else ""
        page = f"{_SELECT} AND seq > ? AND seq <= ?{wanted} ORDER BY seq LIMIT ?"
        ((last,),) = self._database.query("SELECT max(seq) FROM events WHERE run = ?", (run,))
        left = _NO_BOUND if limit is None else limit
        while left > 0:
            rows = self._database.query(page, (run, after, last, *types, min(left, _PAGE)))
            if not rows and (last is None or after < last):
                self.upkeep.refuse_pruned(run_id)  # a part must not pass for the whole
            yield from self.events_of_rows(run_id, rows)
            if len(rows) < _PAGE:
                return
            after, left = rows[-1][0], left - len(rows)
            del rows  # one page is held at a time

    def verify(self, run_id: str) -> None:
        run = self.number(run_id)
        rows = self._database.query(
            "SELECT events, summed, checksum FROM run_facts WHERE run = ?", (run,)
        )
        if not rows:
            raise self.not_found(run_id)
        for events, *known in rows:
            for _ in self.read(run_id, limit=events):
                pass
            found = self._database.query(
                "SELECT checksum FROM events WHERE run = ? AND seq < ?"
                " AND checksum IS NOT NULL ORDER BY seq",
                (run, events),
            )
            self.upkeep.refuse_pruned(run_id)
            checksums.refuse_broken(self.place, run_id, (each for (each,) in found), tuple(known))

    def rows_of_edges(self, run_id: str) -> list[Any]:
        run = self.number(run_id)
        rows = self._database.query(
            f"{_SELECT} AND seq < 2 UNION ALL SELECT * FROM"  # noqa: S608 - constants only
            f" ({_SELECT} AND seq >= 2 ORDER BY seq DESC LIMIT 2) ORDER BY seq",
            (run, run),
        )
        if not rows:
            self.upkeep.refuse_pruned(run_id)
        return rows

    def events_of_rows(
        self, run_id: str, rows: Sequence[Any], *, is_checked: bool = True
    ) -> Iterator[Event]:
        seed = checksums.seed_of(run_id)
        for sequence, kind, task_id, at_us, body, content, at, checksum in rows:
            if content is not None:
                try:
                    body = contents.join(body, at, self._database.parts.get(content))  # noqa: PLW2901
                except DamagedEventLog:  # not if the run was pruned a moment ago
                    self.upkeep.refuse_pruned(run_id)
                    raise
                except TypeError:
                    checksums.refuse_changed(self.place, run_id, sequence)
            found = checksums.of_event(seed, kind, task_id, at_us, body)
            is_changed = is_checked and checksum is not None and found != checksum
            if is_changed or found == checksums.NO_EVENT:
                checksums.refuse_changed(self.place, run_id, sequence)
            yield Event(run_id, sequence, kind, task_id, at_us, body)

    def in_reader(self, share: str, read: Callable[[], T]) -> "Future[T]":
        return self._database.in_reader(share, read)

    def find_number(self, run_id: str) -> int | None:
        values = {"run_id": run_id, "tenant": self._tenant}
        rows = self._database.query(f"{_RUN}{self._mine}", values)
        return int(rows[0][0]) if rows else None

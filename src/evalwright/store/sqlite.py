"""The event log in one SQLite file: WAL, one writer thread, readers beside it."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

from evalwright.contracts.errors import RunNotFound
from evalwright.contracts.events import Event
from evalwright.store import claims, schema
from evalwright.store.database import Database, connect
from evalwright.store.failure import clear_errors
from evalwright.store.protocol import NewEvent, Observer, Watcher
from evalwright.store.records import LOCAL_TENANT, Change, Records

MOST_REMEMBERED = 10_000  # runs whose numbers are not looked up again

_SELECT = "SELECT seq, type, task_id, at_us, CAST(body AS BLOB) FROM events WHERE run = ?"

_RUN = "SELECT run FROM runs WHERE run_id = :run_id"

_RUN_IDS = (
    "SELECT run_id FROM runs WHERE run < :before"
    " AND EXISTS (SELECT 1 FROM events WHERE events.run = runs.run AND seq = 0)"
)

# The condition of an end in the words of the index `one_end_per_run`: in others it is not used.
_OPEN_RUNS = (
    "SELECT run_id, tenant FROM runs"  # noqa: S608 - constants only
    " WHERE EXISTS (SELECT 1 FROM events WHERE events.run = runs.run AND seq = 0) AND NOT EXISTS"
    f" (SELECT 1 FROM events WHERE events.run = runs.run AND ({schema.IS_END}))"
)

_NO_BOUND = 2**63 - 1
_PAGE = 32  # events that a reader holds in memory


class SqliteLog:
    """An event log kept in a SQLite file; of all tenants, or of one."""

    def __init__(self, path: Path, tenant: str | None = None) -> None:
        self._open(Database(path), tenant)

    def _open(self, database: Database, tenant: str | None) -> None:
        self._database = database
        self._tenant = tenant

    def for_tenant(self, tenant: str) -> "SqliteLog":
        """The same log for one tenant: of other tenants' runs there are none in it."""
        view = SqliteLog.__new__(SqliteLog)
        view._open(self._database, tenant)
        return view

    @property
    def place(self) -> str:
        """The file, as it was named."""
        return self._database.place

    @property
    def backlog(self) -> int:
        """How many appends wait to be written."""
        return self._database.backlog

    @property
    def records(self) -> Records:
        """The documents that are kept with the log."""
        return self._database

    def append(
        self, run_id: str, events: Sequence[NewEvent], changes: Sequence[Change] = ()
    ) -> None:
        """Queue events, in order and as one unit with changes of documents."""
        self._database.writer.append(run_id, events, changes, self._tenant)

    def flush(self, run_id: str) -> "Future[None]":
        """Done when everything appended so far is durable."""
        return self._database.writer.flush(run_id, self._tenant)

    def watch(self, run_id: str, watcher: Watcher) -> None:
        """Tell the watcher of this run's events once they are durable."""
        self._database.writer.watch(run_id, watcher, self._tenant)

    def observe(self, observer: Observer) -> None:
        """Tell the observer of every run's events once they are durable."""
        self._database.writer.observe(observer, self._tenant)

    @contextmanager
    def claim(self, run_id: str) -> Iterator[None]:
        """Hold the sole right to execute a run."""
        with ExitStack() as held:
            with clear_errors(self.place):
                self._database.refuse_closed()
                run = self._enter_run(run_id)
                held.enter_context(claims.claim(self._database.lock_file, run, run_id))
            yield

    def is_claimed(self, run_id: str) -> bool:
        """Whether somebody, here or in another process, is executing the run."""
        with clear_errors(self.place):
            return claims.is_claimed(self._database.lock_file, self._run(run_id))

    def run_ids(self, limit: int | None = None, before: str | None = None) -> list[str]:
        """Runs that have events, newest first: all, or so many that came before another."""
        rows = self._database.query(
            f"{_RUN_IDS}{self._mine} ORDER BY run DESC LIMIT :limit",
            {
                "tenant": self._tenant,
                "before": _NO_BOUND if before is None else self._run(before),
                "limit": -1 if limit is None else limit,
            },
        )
        return [run_id for (run_id,) in rows]

    def open_runs(self) -> list[tuple[str, str]]:
        """The runs that have no end, oldest first, each with its tenant."""
        return self._database.query(
            f"{_OPEN_RUNS}{self._mine} ORDER BY run", {"tenant": self._tenant}
        )

    def read(
        self, run_id: str, types: Sequence[str] = (), after: int = -1, limit: int | None = None
    ) -> Iterator[Event]:
        """The events of a run in order: of some types, after a sequence, so many at most.

        The reader sees the run as it is when the first event is asked for.
        """
        run = self._run(run_id)
        wanted = f" AND type IN ({', '.join('?' * len(types))})" if types else ""
        page = f"{_SELECT} AND seq > ? AND seq <= ?{wanted} ORDER BY seq LIMIT ?"
        ((last,),) = self._database.query("SELECT max(seq) FROM events WHERE run = ?", (run,))
        left = _NO_BOUND if limit is None else limit
        while left > 0:
            rows = self._database.query(page, (run, after, last, *types, min(left, _PAGE)))
            for sequence, kind, task_id, at_us, body in rows:
                yield Event(run_id, sequence, kind, task_id, at_us, body)
            if len(rows) < _PAGE:
                return
            after, left = rows[-1][0], left - len(rows)

    def edges(self, run_id: str) -> list[Event]:
        """The first two and the last two events of a run: enough to list it."""
        run = self._run(run_id)
        rows = self._database.query(
            f"{_SELECT} AND seq < 2 UNION ALL SELECT * FROM"  # noqa: S608 - constants only
            f" ({_SELECT} AND seq >= 2 ORDER BY seq DESC LIMIT 2) ORDER BY seq",
            (run, run),
        )
        return [Event(run_id, *row) for row in rows]

    def close(self) -> None:
        """Write what is queued and let go of the file."""
        self._database.close()

    @property
    def _mine(self) -> str:
        return "" if self._tenant is None else " AND tenant = :tenant"

    def _enter_run(self, run_id: str) -> int:
        with suppress(RunNotFound):  # to look is cheap, and to write may have to wait
            return self._run(run_id)
        # Not through the reader: others may be reading there.
        tenant = LOCAL_TENANT if self._tenant is None else self._tenant
        with closing(connect(self._database.path)) as connection:
            connection.execute(schema.ENTER_RUN, {"run_id": run_id, "tenant": tenant})
        return self._run(run_id)

    def _run(self, run_id: str) -> int:
        """The number of a run, which never changes; it is looked up with its tenant."""
        known = self._database.run_numbers
        number = known.get((self._tenant, run_id))
        if number is None:
            rows = self._database.query(
                f"{_RUN}{self._mine}", {"run_id": run_id, "tenant": self._tenant}
            )
            if not rows:
                place = f"{self.place}; see `evalwright runs`"
                raise RunNotFound(f"there is no run {run_id} in {place}")
            number = int(rows[0][0])
            if len(known) >= MOST_REMEMBERED:
                known.clear()
            known[self._tenant, run_id] = number
        return number

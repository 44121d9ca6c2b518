"""What is in the file of a log, and whether it is sound; only read, and also if it is damaged."""

# ruff: noqa: S608 - statements are made of constants only

import hashlib
import re
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from evalwright.contracts.errors import DamagedEventLog
from evalwright.contracts.messages import IN_LOGS, told
from evalwright.contracts.times import iso_time
from evalwright.store import checksums
from evalwright.store.contents import join
from evalwright.store.facts import SOURCE_TYPES, Changes, changes_by
from evalwright.store.location import clear_errors, in_one_line, may_pass
from evalwright.store.protocol import NewEvent
from evalwright.store.sqlite import migration, schema

_DAMAGED = (sqlite3.DatabaseError, UnicodeDecodeError)  # what a damaged file may raise

MOST_PER_RULE = 100  # problems that are listed


class TenantFacts(msgspec.Struct, frozen=True, rename="camel"):
    """What one tenant has in the log."""

    tenant: str
    runs: dict[str, int]  # by status; `running` is a run without an end
    events: int
    bytes: int


class LogFacts(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The file or the database of a log, and what is in it."""

    database: str
    schema: int
    file_bytes: int
    free_bytes: int | None = None  # of a file, as the next two
    pages: int | None = None
    free_pages: int | None = None
    runs: dict[str, int]
    events: int
    bytes: int
    tenants: list[TenantFacts]
    documents: dict[str, int]  # by kind
    pruned: int
    oldest: str | None = None
    newest: str | None = None


class LogProblem(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Something that is wrong in a log: the broken rule, and where."""

    rule: str
    place: str
    message: str
    run_id: str | None = None


class LogRule(NamedTuple):
    """What must hold in a log; the query finds where it does not."""

    name: str
    versions: range  # of the schema
    message: str
    query: str


_RULE = re.compile(r"^-- (\w+)(?:, (since|until) (\d+))?: (.+)\n([^;]+);", re.MULTILINE)


def read_rules(file: Path) -> list[LogRule]:
    """The rules that a file of queries holds."""
    text = file.read_text(encoding="utf-8").replace("{IS_END}", schema.IS_END)
    text = text.replace("{TOMBSTONE}", str(schema.TOMBSTONE_BYTES))
    found = []
    for name, bound, version, message, query in _RULE.findall(text):
        least = int(version) if bound == "since" else 1 if bound else migration.DESCRIBED
        most = int(version) if bound == "until" else migration.VERSION
        found.append(LogRule(name, range(least, most + 1), message, query))
    return found


# What the list shows of a run whose events say nothing else.
_FIRST_FACTS: Changes = {
    "ended_us": None,
    "status": "running",
    "workflow": "",
    "suite": None,
    "agent": None,
    "tags": "[]",
    "modes": "[]",
    "score": None,
    "passed": None,
    "repeats": None,
    "resumed_from": None,
}


class RunCheck:
    """A run, compared with its checksums and its facts while its events are read in order."""

    def __init__(self, run_id: str) -> None:
        self.events = 0
        self._run_id = run_id
        self.facts: Changes = {}  # as the events say
        self._seed = checksums.seed_of(run_id)
        self._checksums: list[int] = []

    def is_sound(self, event: NewEvent, checksum: int | None) -> bool:
        """Take the next event; whether it is what was written, as far as anybody knows."""
        self.events += 1
        found = checksums.of_event(self._seed, *event)
        if found == checksums.NO_EVENT or checksum not in (found, None):
            return False
        if event.type in SOURCE_TYPES:
            self.facts |= changes_by(event)
        self.facts.setdefault("started_us", event.at_us)
        if checksum is not None:
            self._checksums.append(checksum)
        return True

    def problems(self, known: Mapping[str, Any], tags: Collection[str]) -> Iterator[LogProblem]:
        run = f"run {self._run_id}"
        summed = len(self._checksums), checksums.batch(self._checksums)[1]
        if summed != (known["summed"], known["checksum"]):
            yield LogProblem("checksum", run, checksums.BROKEN, self._run_id)
        elif summed[0] == self.events:
            said = {**_FIRST_FACTS, **self.facts}
            unlike = [name for name, value in said.items() if known.get(name) != value]
            if sorted(map(str, tags)) != sorted(set(msgspec.json.decode(said["tags"]))):
                unlike.append("tags")
            if unlike:
                message = f"the list shows another {unlike[0]} than the events of the run say"
                yield LogProblem("facts", run, message, self._run_id)


def read_facts(path: Path) -> LogFacts:
    """What is in a log; raises `StoreError` if it cannot be read."""
    place = str(path)
    with clear_errors(place):
        migration.inspect_file(path.resolve(), place)
        with closing(_opened(path)) as connection:
            version = migration.known_version(connection, str(path))
            tables = {
                1: _COUNTED.format(tenant="'local'"),
                2: _COUNTED.format(tenant="tenant"),
            }
            groups = connection.execute(
                _GROUPS.format(facts=tables.get(version, "run_facts"))
            ).fetchall()
            pages, free_pages, page_size = (
                connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_count", "freelist_count", "page_size")
            )
            documents = "SELECT kind, count(*) FROM records GROUP BY kind ORDER BY kind"
            pruned = 0
            if version > 2:
                (pruned,) = connection.execute("SELECT count(*) FROM tombstones").fetchone()
            # The file with what was written since it was last tidied up.
            beside = (path.resolve().with_name(path.resolve().name + end) for end in ("", "-wal"))
            return LogFacts(
                database=str(path),
                schema=version,
                file_bytes=sum(file.stat().st_size for file in beside if file.exists()),
                free_bytes=free_pages * page_size,
                pages=pages,
                free_pages=free_pages,
                runs=counts_by_status(groups),
                events=sum(int(group[3]) for group in groups),
                bytes=sum(int(group[4]) for group in groups),
                tenants=[
                    tenant_facts(tenant, groups)
                    for tenant in sorted({group[0] for group in groups})
                ],
                documents=dict(connection.execute(documents)) if version > 1 else {},
                pruned=pruned,
                oldest=iso_time(min(group[5] for group in groups)) if groups else None,
                newest=iso_time(max(group[6] for group in groups)) if groups else None,
            )


def find_problems(
    path: Path, progress: Callable[[int, int], None] = lambda _, __: None
) -> Iterator[LogProblem]:
    """What is wrong in a log, as far as it can be read; reports how many rules are checked."""
    place = str(path)
    try:
        with clear_errors(place):
            migration.inspect_file(path.resolve(), place)
    except DamagedEventLog as error:
        message = told(error, IN_LOGS).removeprefix(f"{place}: ")
        yield LogProblem("file", place, message)
        return
    with clear_errors(place), closing(_opened(path)) as connection:
        try:
            for (found,) in connection.execute(f"PRAGMA integrity_check({MOST_PER_RULE})"):
                if found != "ok":
                    yield LogProblem(
                        "sqlite", "file", found.removeprefix("*** in database main ***\n")
                    )
        except _DAMAGED as error:
            if may_pass(error):  # it cannot be read, which says nothing about it
                raise
            yield LogProblem("sqlite", "file", in_one_line(error))
        version = _version(connection)
        yield from _missing_objects(connection, version)
        rules = read_rules(Path(schema.__file__).with_name("rules.sql"))
        for done, rule in enumerate(rules):
            progress(done, len(rules) + 1)
            if version in rule.versions:
                yield from _broken(connection, rule)
        progress(len(rules), len(rules) + 1)
        if version >= migration.DESCRIBED:
            yield from islice(_changed_events(connection), MOST_PER_RULE)


def _opened(path: Path) -> sqlite3.Connection:
    place = f"{path.resolve().as_uri()}?mode=ro"
    connection = sqlite3.connect(place, uri=True, isolation_level=None)
    try:
        connection.execute("PRAGMA schema_version")
    except _DAMAGED as error:
        # Where nothing may be written, only a file that nobody else has open can be read.
        is_alone = not path.resolve().with_name(f"{path.resolve().name}-wal").exists()
        if may_pass(error) and is_alone:
            connection.close()
            connection = sqlite3.connect(f"{place}&immutable=1", uri=True, isolation_level=None)
    connection.text_factory = lambda raw: raw.decode(errors="replace")
    connection.create_function("sha256_of", 1, lambda body: hashlib.sha256(body).digest())
    connection.create_function("checksum_of", -1, checksums.of_values)
    connection.create_function("joined", 3, lambda *row: _whole(*row).decode(errors="replace"))
    return connection


def _whole(rest: Any, at: Any, part: bytes | None) -> bytes:
    """The body of an event, whatever damage has made of its row."""
    if not isinstance(rest, bytes) or not isinstance(at, int):
        return b""
    return join(rest, at, part or b"")


def _version(connection: sqlite3.Connection) -> int:
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
    except _DAMAGED:
        return 0
    return int(version)


def _missing_objects(connection: sqlite3.Connection, version: int) -> Iterator[LogProblem]:
    if version != migration.VERSION:  # what is missing of an earlier one is made when it is opened
        return
    listed = "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        migration.migrate(fresh, ":memory:")
        expected = fresh.execute(listed).fetchall()
    try:
        found = {(kind, name): rest for kind, name, *rest in connection.execute(listed)}
    except _DAMAGED as error:
        yield LogProblem("schema", "file", in_one_line(error))
        return
    for kind, name, table, sql in expected:
        if (kind, name) not in found:
            yield LogProblem("schema", f"{kind} {name}", "it is missing, and with it a safeguard")
        elif [_plain(each) for each in found[kind, name]] != [_plain(table), _plain(sql)]:
            yield LogProblem("schema", f"{kind} {name}", "it is not as Evalwright makes it")


def _plain(sql: object) -> str:
    """A definition without what versions of SQLite write in different ways."""
    return "".join(str(sql or "").split()).replace('"', "")


def _broken(connection: sqlite3.Connection, rule: LogRule) -> Iterator[LogProblem]:
    try:
        for run_id, sequence, detail in connection.execute(f"{rule.query} LIMIT {MOST_PER_RULE}"):
            place = place_in_log(run_id, sequence, detail)
            yield LogProblem(rule.name, place, rule.message, run_id)
    except _DAMAGED as error:
        yield LogProblem(rule.name, "file", f"cannot be checked: {in_one_line(error)}")


_RUN_ROWS = "SELECT run_facts.*, run_id FROM run_facts JOIN runs USING (run) ORDER BY run"
_EVENT_ROWS = (
    "SELECT seq, type, task_id, at_us, CAST(events.body AS BLOB), content_at,"
    " CAST(contents.body AS BLOB), checksum FROM events LEFT JOIN contents USING (content)"
    " WHERE run = ? AND seq < ? ORDER BY seq"
)
_TAGS = "SELECT tag FROM run_tags WHERE run = ?"


def _changed_events(connection: sqlite3.Connection) -> Iterator[LogProblem]:
    try:
        runs = connection.execute(_RUN_ROWS)
        names = [column[0] for column in runs.description]
        for row in runs:
            known = dict(zip(names, row, strict=True))
            run, run_id, check = known["run"], known["run_id"], RunCheck(str(known["run_id"]))
            is_sound = True
            for seq, kind, task_id, at_us, rest, at, part, checksum in connection.execute(
                _EVENT_ROWS, (run, known["events"])
            ):
                body = rest if at is None else _whole(rest, at, part)
                if not check.is_sound(NewEvent(kind, task_id, at_us, body), checksum):
                    is_sound = False
                    place = place_in_log(run_id, seq, kind)
                    yield LogProblem("checksum", place, checksums.CHANGED, run_id)
            if is_sound:
                yield from check.problems(
                    known, [tag for (tag,) in connection.execute(_TAGS, (run,))]
                )
    except _DAMAGED as error:
        yield LogProblem("checksum", "file", f"cannot be checked: {in_one_line(error)}")
    except KeyError as column:  # its name is damaged
        yield LogProblem("checksum", "file", f"cannot be checked: there is no column {column}")


def place_in_log(run_id: str | None, sequence: int | None, detail: str | None) -> str:
    """Where something is wrong, as far as it is known."""
    where = (
        f"run {run_id}" if run_id is not None else None,
        f"event {sequence}" if sequence is not None else None,
        detail,
    )
    return ", ".join(str(part) for part in where if part is not None)  # damage leaves bytes


# Tenant, status, runs, events, bytes, oldest, newest; before the third version they are counted.
_GROUPS = (
    "SELECT tenant, status, count(*), total(events), total(bytes), min(started_us),"
    " max(coalesce(ended_us, started_us)) FROM {facts} GROUP BY tenant, status"
    " ORDER BY tenant, status"
)
_COUNTED = (
    "(SELECT {tenant} AS tenant, count(*) AS events, total(length(CAST(body AS BLOB))) AS bytes,"
    f" coalesce(max(CASE WHEN {schema.IS_END} THEN substr(type, 5) END), 'running') AS status,"
    " min(at_us) AS started_us, max(at_us) AS ended_us"
    " FROM events JOIN runs USING (run) GROUP BY run)"
)


def tenant_facts(tenant: str, groups: list[Any]) -> TenantFacts:
    """What one tenant has, of the sums for every tenant and status."""
    own = [group for group in groups if group[0] == tenant]
    events, size = (sum(int(group[place]) for group in own) for place in (3, 4))
    return TenantFacts(tenant, counts_by_status(own), events, size)


def counts_by_status(groups: list[Any]) -> dict[str, int]:
    """How many runs have each status."""
    counts: dict[str, int] = {}
    for _, status, count, *_ in groups:
        counts[status] = counts.get(status, 0) + count
    return counts

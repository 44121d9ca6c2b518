"""A PostgreSQL that makes every commit durable, hosts and workers around it, and their CPU time."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import CONFIG, Served, suite
from postgres_server import PostgresServer, execute

COMMAND = str(Path(sys.executable).parent / "evalwright")
AGENT = """
import asyncio


async def instant(task):
    return "yes"


async def slow(task):
    await asyncio.sleep(0.1)
    return "yes"
"""
DURABLE = {"fsync": "on", "full_page_writes": "on", "autovacuum": "on", "shared_buffers": "512MB"}


@contextlib.contextmanager
def postgres() -> Iterator[PostgresServer]:
    """A server of its own, as a real one is set up."""
    folder = Path(tempfile.mkdtemp(prefix="bench-scale-"))
    server = PostgresServer(folder, settings=DURABLE)
    try:
        server.create()
        server.start()
        yield server
    finally:
        server.stop(signal.SIGQUIT)
        shutil.rmtree(folder, ignore_errors=True)


def cpu_of(pid: int) -> float:
    """CPU seconds of a process, and of children that it has waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def cpu_of_server(server: PostgresServer) -> float:
    """CPU seconds of all processes of PostgreSQL."""
    pid = server.pid
    assert pid is not None
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    total = cpu_of(pid)
    for child in children:
        with contextlib.suppress(OSError):
            total += cpu_of(int(child))
    return total


class Workshop:
    """A folder with agents and suites, and a log of its own in the server."""

    def __init__(self, server: PostgresServer, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.db = server.new_database()
        self.run("db", "migrate")
        (folder / "agent.py").write_text(AGENT)

    def run(self, *words: str) -> str:
        command = [COMMAND, *words, "--db", self.db]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(words)}: {done.stderr}")
        return done.stdout

    def suite(self, tasks: int) -> str:
        """A suite of so many tasks that are right if the agent says yes."""
        plain = suite()
        model = plain["tasks"][0]
        plain["tasks"] = [{**model, "taskId": f"t-{n}", "input": f"task {n}"} for n in range(tasks)]
        (self.folder / "suite.json").write_text(json.dumps(plain))
        return "suite.json"

    @contextlib.contextmanager
    def workers(
        self, count: int, concurrency: int, config: Path | None = None
    ) -> Iterator[list["subprocess.Popen[bytes]"]]:
        words = [COMMAND, "worker", "--concurrency", str(concurrency), "--db", self.db]
        words += [] if config is None else ["--config", str(config)]
        with (self.folder / "workers.log").open("wb") as log:
            started = [
                subprocess.Popen(words, cwd=self.folder, stdout=log, stderr=log)
                for _ in range(count)
            ]
            try:
                self.until("SELECT count(*) FROM fleet_workers", count)
                yield started
            finally:
                for each in started:
                    each.terminate()
                for each in started:
                    each.wait(60)

    def until(self, question: str, least: int) -> None:
        while self.ask(question)[0][0] < least:
            time.sleep(0.1)

    def ask(self, question: str) -> list[Any]:
        return execute(self.db, question)

    def hand_over(self, tasks: int, agent: str, concurrency: int) -> None:
        """A run by the fleet, from its start to its end."""
        words = ("--agent", f"agent.py:{agent}", "--concurrency", str(concurrency), "--workers")
        self.run("run", self.suite(tasks), *words)


class ServedFleet(Served):
    """A host that hands runs to the fleet, over a log in PostgreSQL."""

    def __init__(self, folder: Path, db: str, *more: str) -> None:
        self._db = db  # type: ignore[assignment]
        self._folder = folder
        self._more = more
        folder.mkdir(exist_ok=True)
        self.settings = folder / "evalwright.toml"
        self.settings.write_text(CONFIG)
        self.port = 0

    @contextlib.contextmanager
    def serving(self) -> Iterator["ServedFleet"]:
        log = (self._folder / "log.txt").open("w")
        command = [COMMAND, "serve", "--port", "0", "--db", str(self._db), *self._more]
        command += ["--config", str(self._folder / "evalwright.toml")]
        environment = {**os.environ, "EVALWRIGHT_SECRET_KEY": "k" * 40}
        self.process = subprocess.Popen(
            command, cwd=self._folder, stderr=log, stdout=log, env=environment
        )
        try:
            self._wait(time.perf_counter())
            yield self
        finally:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)
            log.close()

"""A fleet of real processes on a PostgreSQL of its own, for tests that kill, stop and cut off."""

import json
import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from builders import a_suite, as_document
from postgres_server import PostgresServer, execute
from subjects.command import COMMAND

PATIENCE_SECONDS = 240  # for broken code only: a busy machine takes its time
LEASE_SECONDS = 2.0

# Notes every call in one file: a line is written by one `write`, whatever becomes of the process.
AGENT = """
import asyncio, os

calls = os.open(os.environ["CALLS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

async def answer(task):
    os.write(calls, f"{os.getpid()} {task.id}\\n".encode())
    await asyncio.sleep(float(os.environ.get("TASK_SECONDS", "0.05")))
    return "yes"
"""


HOST_SETTINGS = """
[host]
max_tasks_per_suite = 100000
concurrency = 1000

[host.agents."acme.clerk"]
ref = "agent.py:answer"
"""


class FleetProcesses:
    """Workers, hosts and commands, each a process; all of them end with the test."""

    def __init__(self, server: PostgresServer, folder: Path, task_seconds: float = 0.05) -> None:
        self.server = server
        self.folder = folder
        self.address = server.new_database()
        self.calls = folder / "calls.txt"
        self.calls.touch()
        (folder / "agent.py").write_text(AGENT)
        (folder / "settings.toml").write_text(HOST_SETTINGS)
        self.environment = {
            **os.environ,
            "CALLS": str(self.calls),
            "TASK_SECONDS": str(task_seconds),
        }
        self.workers: list[subprocess.Popen[bytes]] = []
        self.hosts: dict[int, subprocess.Popen[bytes]] = {}  # by port
        self.processes: list[subprocess.Popen[bytes]] = []
        self.in_flight = 0  # tasks at work when a fault was injected

    def suite(self, tasks: int, name: str = "suite.json") -> str:
        """A suite of so many tasks in the folder."""
        (self.folder / name).write_text(json.dumps(as_document(a_suite(tasks))))
        return name

    def start(
        self, *arguments: str, prefix: tuple[str, ...] = (), cwd: Path | None = None
    ) -> subprocess.Popen[bytes]:
        """A command of ours, in the folder."""
        number = len(self.processes)
        with (self.folder / f"process-{number}.log").open("wb") as output:
            process = subprocess.Popen(
                [*prefix, str(COMMAND), *arguments],
                cwd=cwd or self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self.processes.append(process)
        return process

    def start_worker(
        self, concurrency: int, *more: str, address: str = "", prefix: tuple[str, ...] = ()
    ) -> None:
        """One more worker."""
        of_fleet = ("--db", address or self.address, "--concurrency", str(concurrency))
        lease = ("--lease", str(LEASE_SECONDS), "--config", "settings.toml")
        self.workers.append(self.start("worker", *of_fleet, *lease, *more, prefix=prefix))

    def hand_over(self, suite: str, concurrency: int = 10, *more: str) -> "subprocess.Popen[bytes]":
        """A command that hands a run to the fleet and follows it."""
        return self.start(
            *("run", suite, "--agent", "agent.py:answer", "--db", self.address, "--workers"),
            *("--concurrency", str(concurrency), *more),
        )

    def start_host(self, port: int) -> None:
        """A host that hands its runs to the workers."""
        at = ("--port", str(port), "--db", self.address, "--config", "settings.toml")
        self.hosts[port] = self.start("serve", "--workers", *at)

    def kill_host(self, port: int) -> None:
        """Kill a host, and start it again at the same port; it serves before the next fault."""
        host = self.hosts[port]
        host.send_signal(signal.SIGKILL)
        host.wait()
        self.start_host(port)
        self.until(lambda: "listening on" in self.output(self.hosts[port]))

    def key(self, tenant: str) -> str:
        """A key of a tenant."""
        made = subprocess.run(
            [str(COMMAND), "keys", "create", "--tenant", tenant, "--db", self.address],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            check=True,
        )
        found = re.search(rb"ew_[A-Za-z0-9_-]+", made.stdout + made.stderr)
        assert found, made
        return found[0].decode()

    def ask(self, statement: str) -> list[Any]:
        """Rows, also right after a restart of the server."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return execute(self.address, statement)
            except Exception:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def note_in_flight(self, worker: "subprocess.Popen[bytes]", concurrency: int) -> None:
        """Allow the tasks of a worker to be invoked once more, and those that it may just take."""
        self.in_flight += concurrency
        assert worker.poll() is None, self.output(worker)

    def kill(self, number: int, concurrency: int) -> None:
        """Kill a worker, and start another in its place."""
        worker = self.workers.pop(number)
        self.note_in_flight(worker, concurrency)
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        self.start_worker(concurrency)

    def output(self, process: "subprocess.Popen[bytes]") -> str:
        """What a process printed."""
        number = self.processes.index(process)
        return (self.folder / f"process-{number}.log").read_text(errors="replace")

    def wait_for(self, process: "subprocess.Popen[bytes]") -> int:
        """The exit code of a process."""
        try:
            return process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it does not end: {self.outputs()}") from None

    def outputs(self) -> str:
        """What all processes printed last."""
        return "\n".join(self.output(each)[-600:] for each in self.processes)

    def until(self, condition: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
        """Wait for something."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, self.outputs()
            time.sleep(0.05)

    def scored(self) -> int:
        """How many tasks have their score."""
        return int(self.ask("SELECT count(*) FROM events WHERE type = 'eval.scored'")[0][0])

    def invocations(self) -> list[str]:
        """Every call of an agent, by its task."""
        return [line.partition(" ")[2] for line in self.calls.read_text().splitlines()]

    def check_log(self, runs: int, tasks: int) -> None:
        """Every task scored once, no gap, and nothing of a task after its score."""
        found = self.ask(
            "SELECT run, count(*) AS scores, count(DISTINCT task_id) AS tasks FROM events"
            " WHERE type = 'eval.scored' GROUP BY run"
        )
        assert [(row["scores"], row["tasks"]) for row in found] == [(tasks, tasks)] * runs
        (gaps,) = self.ask(
            "SELECT count(*) FROM runs r WHERE r.last_seq + 1 <>"
            " (SELECT count(*) FROM events e WHERE e.run = r.run)"
        )
        assert gaps[0] == 0
        (late,) = self.ask(
            "SELECT count(*) FROM events e JOIN events s ON s.run = e.run"
            " AND s.task_id = e.task_id AND s.type = 'eval.scored' WHERE e.seq > s.seq"
        )
        assert late[0] == 0
        (rest,) = self.ask(
            "SELECT (SELECT count(*) FROM attempts) + (SELECT count(*) FROM fleet_runs)"
            " + (SELECT count(*) FROM fleet_shares) + (SELECT coalesce(sum(released + runs), 0)"
            " FROM fleet_owners)"
        )
        assert rest[0] == 0, "nothing is left of runs that have ended"

    def check_invocations(self, tasks: int) -> None:
        """No task is invoked again but for a fault that it was at work in."""
        invoked = self.invocations()
        assert len(set(invoked)) == tasks
        assert len(invoked) <= tasks + self.in_flight, (len(invoked), tasks, self.in_flight)

    def end(self) -> None:
        """Kill what is left."""
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
        for process in self.processes:
            process.wait()


@contextmanager
def fleet_processes(
    server: PostgresServer, folder: Path, task_seconds: float = 0.05
) -> Iterator[FleetProcesses]:
    """A fleet without workers, which ends with the context."""
    fleet = FleetProcesses(server, folder, task_seconds)
    try:
        yield fleet
    finally:
        fleet.end()


def a_moment(chance: random.Random, most: float) -> None:
    """A time that nobody can foresee."""
    time.sleep(chance.uniform(0.1, most))

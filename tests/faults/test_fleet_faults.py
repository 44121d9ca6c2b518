"""Workers and hosts are killed, stopped and cut off; every task is scored once all the same."""

import asyncio
import os
import random
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from builders import a_suite
from evalwright.client import AsyncClient, Retries
from faults.fleet_processes import (
    LEASE_SECONDS,
    PATIENCE_SECONDS,
    FleetProcesses,
    a_moment,
    fleet_processes,
)
from faults.soaking import scaled, seeds
from postgres_server import PostgresServer
from subjects.ports import lasting_port

WORKERS, AT_ONCE = 3, 4
PATIENT = Retries(limit=1000)


def stop_for_a_while(process: "subprocess.Popen[bytes]", seconds: float) -> None:
    """Stop a process, then wake it up."""
    process.send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    process.send_signal(signal.SIGCONT)


class Follower(threading.Thread):
    """A client of a host that follows a run to its end, whatever happens to the host."""

    def __init__(self, port: int, key: str, run_id: str) -> None:
        super().__init__(daemon=True)
        self.port, self.key, self.run_id = port, key, run_id
        self.sequences: list[int] = []
        self.start()

    def run(self) -> None:
        asyncio.run(self._follow())

    async def _follow(self) -> None:
        async with AsyncClient(at(self.port), self.key, retries=PATIENT) as client:
            async for event in client.events(self.run_id, mode="debug"):
                self.sequences.append(event.sequence)


def at(port: int) -> str:
    return f"http://127.0.0.1:{port}"


async def begin(port: int, key: str, tasks: int) -> str:
    """A run, as a client of a host begins it."""
    async with AsyncClient(at(port), key, retries=PATIENT) as client:
        suite = a_suite(tasks)
        await client.publish_suite(suite)
        ref = f"{suite.suite_id}@{suite.version}"
        created = await client.create_run(ref, "acme.clerk", configurable={"concurrency": 100})
        return created.run_id


def inject(fleet: FleetProcesses, fault: str, chance: random.Random) -> None:
    """One fault, of a worker, a host or the database."""
    number = chance.randrange(WORKERS)
    if fault == "kill":
        fleet.kill(number, AT_ONCE)
    elif fault == "stop":
        fleet.note_in_flight(fleet.workers[number], AT_ONCE)
        stop_for_a_while(fleet.workers[number], LEASE_SECONDS * chance.choice((0.2, 1.5)))
    elif fault == "kill host":
        fleet.kill_host(chance.choice(list(fleet.hosts)))
    elif fault == "stop host":
        stop_for_a_while(fleet.hosts[chance.choice(list(fleet.hosts))], 1.0)
    else:
        fleet.in_flight += WORKERS * AT_ONCE  # leases may end while nobody can prolong them
        fleet.server.restart(chance.choice((signal.SIGINT, signal.SIGQUIT)))


@pytest.mark.parametrize("seed", seeds(1, 10))
def test_every_task_is_scored_once_and_seen_once_whatever_happens(
    own_postgres: PostgresServer, tmp_path: Path, seed: int
) -> None:
    chance, tasks = random.Random(seed), scaled(120, 600)
    with fleet_processes(own_postgres, tmp_path, task_seconds=0.3) as fleet:
        key, ports = fleet.key("acme"), [lasting_port(), lasting_port()]
        for port in ports:
            fleet.start_host(port)
        for _ in range(WORKERS):
            fleet.start_worker(AT_ONCE)
        run_id = asyncio.run(begin(ports[0], key, tasks))
        followers = [Follower(port, key, run_id) for port in ports]
        fleet.until(lambda: fleet.scored() > 0)
        faults = ["kill"] * scaled(2, 6) + ["kill host"] * scaled(1, 2)
        faults += ["stop"] * scaled(2, 6) + ["stop host"] * scaled(0, 2)
        faults += ["restart"] * scaled(1, 2)
        chance.shuffle(faults)
        for fault in faults:
            a_moment(chance, 0.5)
            inject(fleet, fault, chance)
        fleet.until(lambda: fleet.scored() == tasks, scaled(PATIENCE_SECONDS, 600))
        for follower in followers:
            follower.join(PATIENCE_SECONDS)
            assert not follower.is_alive(), f"it has not seen the end: {fleet.outputs()}"
            assert follower.sequences == list(range(follower.sequences[-1] + 1))
        fleet.check_log(1, tasks)
        fleet.check_invocations(tasks)


def test_a_host_that_starts_before_its_database_waits_for_it(
    own_postgres: PostgresServer, tmp_path: Path
) -> None:
    with fleet_processes(own_postgres, tmp_path) as fleet:
        own_postgres.stop()
        port = lasting_port()
        fleet.start_host(port)
        try:
            fleet.until(lambda: "trying again" in fleet.output(fleet.hosts[port]))
        finally:
            own_postgres.start()
        fleet.until(lambda: "listening on" in fleet.output(fleet.hosts[port]))


# Another server takes over.


@contextmanager
def standby_of(primary: PostgresServer, folder: Path) -> Iterator[PostgresServer]:
    """A server that has all that the primary acknowledged."""
    standby = PostgresServer(folder, primary.programs)
    try:
        standby.create_standby(primary)
    except FileNotFoundError:
        pytest.skip("there is no pg_basebackup to make a standby with")
    standby.start()
    primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
    try:
        yield standby
    finally:
        standby.stop(signal.SIGQUIT)


def refusal(port: int, key: str, run_id: str) -> tuple[int, str | None]:
    """What a host answers to a question: the status, and when to ask again."""
    asked = Request(f"{at(port)}/v1/runs/{run_id}", headers={"Authorization": f"Bearer {key}"})
    try:
        with urlopen(asked, timeout=PATIENCE_SECONDS) as answer:
            return answer.status, None
    except HTTPError as error:
        return error.code, error.headers["Retry-After"]


def test_workers_hosts_and_commands_go_on_with_the_server_that_takes_over(
    own_postgres: PostgresServer, tmp_path: Path
) -> None:
    tasks, primary = scaled(24, 200), own_postgres
    home = primary.folder.with_name(f"{primary.folder.name}-standby")
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, home, ignore_errors=True)
        fleet = stack.enter_context(fleet_processes(primary, tmp_path, task_seconds=0.2))
        standby = stack.enter_context(standby_of(primary, home))
        one = f"127.0.0.1:{primary.port}"
        fleet.address = fleet.address.replace(one, f"{one},127.0.0.1:{standby.port}")
        fleet.address += "?target_session_attrs=read-write"
        port = lasting_port()
        fleet.start_host(port)
        command = fleet.hand_over(fleet.suite(tasks), 100)
        key = fleet.key("acme")
        run_id = asyncio.run(begin(port, key, tasks))
        follower = Follower(port, key, run_id)
        # A command that is not yet so far fails at once, as it should.
        fleet.until(lambda: fleet.ask("SELECT count(*) FROM fleet_runs")[0][0] == 2)
        for _ in range(2):
            fleet.start_worker(AT_ONCE)
        fleet.until(lambda: fleet.scored() > tasks // 4)
        fleet.in_flight += 2 * AT_ONCE
        primary.stop(signal.SIGQUIT)
        status, again = refusal(port, key, run_id)
        assert status == 503
        assert again is not None
        assert int(again) > 0
        standby.promote()
        assert fleet.wait_for(command) == 0, fleet.outputs()
        fleet.until(lambda: fleet.scored() == 2 * tasks)
        follower.join(PATIENCE_SECONDS)
        assert not follower.is_alive(), f"it has not seen the end: {fleet.outputs()}"
        assert follower.sequences == list(range(follower.sequences[-1] + 1))
        fleet.check_log(2, tasks)
        assert len(fleet.invocations()) <= 2 * tasks + fleet.in_flight


# A link that is cut.


def run_ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@contextmanager
def namespace(name: str) -> Iterator[tuple[str, str]]:
    """A network of its own, with one link to this one: its prefix, and the link's name here."""
    inside, outside = f"{name}i", f"{name}o"
    net = f"10.{random.SystemRandom().randrange(200, 250)}.{random.SystemRandom().randrange(250)}"
    with ExitStack() as undo:
        run_ip("netns", "add", name)
        undo.callback(run_ip, "netns", "del", name)
        run_ip("link", "add", outside, "type", "veth", "peer", "name", inside, "netns", name)
        run_ip("addr", "add", f"{net}.1/30", "dev", outside)
        run_ip("link", "set", outside, "up")
        for order in (
            ("addr", "add", f"{net}.2/30", "dev", inside),
            ("link", "set", inside, "up"),
            ("link", "set", "lo", "up"),
        ):
            run_ip("-n", name, *order)
        yield outside, f"{net}.1"


class Relay(threading.Thread):
    """Passes connections on to the database, which listens only on loopback."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(daemon=True)
        self._listener = socket.create_server((host, 0))
        self.port = int(self._listener.getsockname()[1])
        self._to = port
        self.start()

    def run(self) -> None:
        while True:
            near, _ = self._listener.accept()
            far = socket.create_connection(("127.0.0.1", self._to))
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    @staticmethod
    def _pass_on(one: socket.socket, other: socket.socket) -> None:
        try:
            while data := one.recv(65536):
                other.sendall(data)
        except OSError:
            pass
        finally:
            with suppress(OSError):  # a thread that waits for this socket keeps it open otherwise
                other.shutdown(socket.SHUT_RDWR)
            other.close()


def test_a_worker_whose_link_is_cut_loses_its_tasks_to_others_and_comes_back(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    if shutil.which("ip") is None:
        pytest.skip("there is no `ip` to cut a link with")
    tasks, name = scaled(60, 200), f"evw{os.getpid()}"
    with ExitStack() as stack:
        try:
            link, host = stack.enter_context(namespace(name))
        except (subprocess.CalledProcessError, PermissionError):
            pytest.skip("network namespaces are not permitted here")
        fleet = stack.enter_context(fleet_processes(postgres, tmp_path, task_seconds=0.3))
        relay = Relay(host, postgres.port)
        away = fleet.address.replace(f"127.0.0.1:{postgres.port}", f"{host}:{relay.port}")
        fleet.start_worker(AT_ONCE)
        fleet.start_worker(AT_ONCE, address=away, prefix=("ip", "netns", "exec", name))
        here = "SELECT count(*) FROM fleet_workers"
        fleet.until(lambda: fleet.ask(here)[0][0] == 2)
        command = fleet.hand_over(fleet.suite(tasks), 100)
        is_away = "SELECT count(*) FROM fleet_workers WHERE seen_at < now() - interval '1 s'"
        begun = "SELECT count(DISTINCT worker) FROM attempts WHERE worker IS NOT NULL"
        fleet.until(lambda: fleet.ask(begun)[0][0] == 2)
        for _ in range(scaled(1, 2)):
            fleet.in_flight += AT_ONCE
            run_ip("link", "set", link, "down")
            fleet.until(lambda: fleet.ask(is_away)[0][0] > 0)
            time.sleep(LEASE_SECONDS * 1.5)
            run_ip("link", "set", link, "up")
        assert fleet.wait_for(command) == 0, fleet.outputs()
        fleet.check_log(1, tasks)
        fleet.check_invocations(tasks)
        lost = fleet.ask(
            "SELECT coalesce(sum(value), 0) FROM fleet_counters WHERE name = 'leases_lost'"
        )
        assert lost[0][0] > 0, "others took the tasks of the worker that was cut off"

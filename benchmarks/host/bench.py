"""The host under load, on loopback: `make bench-host`.

The host is a process of its own, started as a user starts it; the load comes from this process over
plain sockets. Everything that is created is checked in the end: a run that did not complete, or a
log with a gap, makes the benchmark fail. No time does.
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from load import Connection, frames, opened, quantile

HERE = Path(__file__).parent
COMMAND = [str(Path(sys.executable).parent / "evalwright")]
SETTLING_SECONDS = 0.5
SUITE = "bench.host.evals.twenty@1.0.0"
CONFIG = f"""
[host]
concurrency = 20
[host.agents."local.bench.instant"]
ref = "{HERE / "agents.py"}:instant"
[host.agents."local.bench.echo"]
ref = "{HERE / "agents.py"}:echo"
[host.agents."local.bench.slow"]
ref = "{HERE / "agents.py"}:slow"
"""


class Served:
    """A host that runs, and what there is to know about it."""

    def __init__(self, folder: Path, config: str = CONFIG) -> None:
        self._folder = folder
        self._db = folder / "host.db"
        (folder / "evalwright.toml").write_text(config)
        self.key = self.new_key("bench")["key"]
        self.port = 0
        self.start_s = 0.0

    def new_key(self, tenant: str) -> dict[str, Any]:
        """A new key: its text, its id and the rest."""
        made: dict[str, Any] = json.loads(self.run("keys", "create", "--tenant", tenant, "--json"))
        return made

    def run(self, *words: str) -> str:
        command = [*COMMAND, *words, "--db", str(self._db)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    @contextmanager
    def serving(self) -> Iterator["Served"]:
        log = (self._folder / "log.txt").open("w")
        began = time.perf_counter()
        command = [*COMMAND, "serve", "--port", "0", "--db", str(self._db)]
        command += ["--config", str(self._folder / "evalwright.toml")]
        self.process = subprocess.Popen(command, cwd=self._folder, stderr=log, stdout=log)
        try:
            self._wait(began)
            yield self
        finally:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)
            log.close()

    def _wait(self, began: float) -> None:
        place = self._folder / "log.txt"
        while "listening on" not in (text := place.read_text()):
            if self.process.poll() is not None:
                raise RuntimeError(f"the host ended: {text}")
            time.sleep(0.002)
        self.start_s = time.perf_counter() - began
        self.port = int(text.partition("listening on http://127.0.0.1:")[2].partition(",")[0])

    def memory_kb(self) -> int:
        """The resident set of the process."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
        raise RuntimeError("no VmRSS")

    def cpu_with_children_s(self) -> float:
        """The CPU time of the process and of those that it has started and that still run."""
        listed = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        pids = [pid for each in listed for pid in each.read_text().split()]
        return self.cpu_s() + sum(self._cpu_of(pid) for pid in pids)

    def cpu_s(self) -> float:
        return self._cpu_of(self.process.pid)

    def _cpu_of(self, pid: int | str) -> float:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def suite() -> dict[str, Any]:
    expected = {"kind": "golden", "match": {"strategy": "exact", "value": "yes"}}
    tasks = [{"taskId": f"t-{n}", "input": f"task {n}", "expected": expected} for n in range(20)]
    name, _, version = SUITE.partition("@")
    return {"suiteId": name, "version": version, "modes": ["golden"], "tasks": tasks}


def create_request(connection: Connection, agent: str) -> bytes:
    body = {"mode": "eval", "evalSuiteRef": SUITE, "agentId": f"local.bench.{agent}"}
    return connection.encoded("POST", "/v1/runs", body)


async def create(connection: Connection, agent: str) -> str:
    status, body = await connection.send(create_request(connection, agent))
    if status != 201:
        raise RuntimeError(f"{status} {body!r}")
    return str(json.loads(body)["runId"])


async def measure_creates(served: Served, per_second: int, seconds: int) -> dict[str, Any]:
    """Creates at a fixed rate, whether or not the ones before were answered."""
    free = [await opened(served.port, served.key) for _ in range(50)]
    taken: list[float] = []
    runs: list[str] = []

    async def one() -> None:
        began = time.perf_counter()
        connection = free.pop() if free else await opened(served.port, served.key)
        runs.append(await create(connection, "instant"))
        taken.append(time.perf_counter() - began)
        free.append(connection)

    began, pending = time.perf_counter(), []
    for n in range(per_second * seconds):
        await asyncio.sleep(max(0.0, began + n / per_second - time.perf_counter()))
        pending.append(asyncio.create_task(one()))
    await asyncio.gather(*pending)
    await all_complete(served, runs)
    return {
        "creates": len(taken),
        "p50_ms": round(quantile(taken, 0.5) * 1000, 1),
        "p99_ms": round(quantile(taken, 0.99) * 1000, 1),
    }


async def measure_reads(served: Served, seconds: float) -> dict[str, Any]:
    """Reads of a summary, as many as sixteen connections can get."""
    connections = [await opened(served.port, served.key) for _ in range(16)]
    run_id = await create(connections[0], "instant")
    await all_complete(served, [run_id])
    request = connections[0].encoded("GET", f"/v1/runs/{run_id}/eval-summary")
    began, cpu = time.perf_counter(), served.cpu_s()
    until = began + seconds
    taken: list[float] = []

    async def read(connection: Connection) -> None:
        while (now := time.perf_counter()) < until:
            status, _ = await connection.send(request)
            assert status == 200, status
            taken.append(time.perf_counter() - now)

    await asyncio.gather(*(read(connection) for connection in connections))
    wall = time.perf_counter() - began
    return {
        "reads_per_s": round(len(taken) / wall),
        "p99_ms": round(quantile(taken, 0.99) * 1000, 1),
        "host_cpu_us_per_read": round((served.cpu_s() - cpu) / len(taken) * 1e6),
    }


async def measure_streams(served: Served, clients: int, runs: int) -> dict[str, Any]:
    """Clients that follow running evals: how late events come, and what a client costs."""
    control = await opened(served.port, served.key)
    await all_complete(served, [await create(control, "slow") for _ in range(runs)])  # warm
    before = served.memory_kb()
    connections = [await opened(served.port, served.key) for _ in range(clients)]
    ids = [await create(control, "slow") for _ in range(runs)]
    paths = [f"/v1/runs/{ids[n % runs]}/events?streamMode=debug" for n in range(clients)]
    following = [
        asyncio.create_task(connection.stream(path))
        for connection, path in zip(connections, paths, strict=True)
    ]
    await asyncio.sleep(SETTLING_SECONDS)
    during, settled = served.memory_kb(), time.time()
    streams = await asyncio.gather(*following)
    await all_complete(served, ids)
    late: list[float] = []
    for chunks in streams:
        sequences = []
        for came, sequence, data in frames(chunks):
            sequences.append(sequence)
            at = datetime.fromisoformat(json.loads(data)["timestamp"]).timestamp()
            if at > settled:  # what was recorded before is history, not live
                late.append(came - at)
        assert sequences == list(range(len(sequences))), "a client lost an event"
    return {
        "clients": clients,
        "live_events": len(late),
        "p50_ms": round(quantile(late, 0.5) * 1000, 1),
        "p99_ms": round(quantile(late, 0.99) * 1000, 1),
        "lost": 0,
        "kb_per_client": round((during - before) / clients, 1),
    }


async def measure_in_flight(served: Served, runs: int) -> dict[str, Any]:
    """Runs of twenty tasks, all at the same time."""
    connections = [await opened(served.port, served.key) for _ in range(20)]
    began, cpu = time.perf_counter(), served.cpu_s()

    async def some(connection: Connection, count: int) -> list[str]:
        return [await create(connection, "slow") for _ in range(count)]

    groups = await asyncio.gather(
        *(some(connection, runs // len(connections)) for connection in connections)
    )
    ids = [run_id for group in groups for run_id in group]
    created = time.perf_counter() - began
    events = await all_complete(served, ids)
    return {
        "runs": len(ids),
        "created_s": round(created, 2),
        "finished_s": round(time.perf_counter() - began, 2),
        "events": events,
        "host_cpu_s": round(served.cpu_s() - cpu, 2),
    }


async def all_complete(served: Served, ids: list[str]) -> int:
    """Wait until runs are complete; every log must be whole, every task scored once."""
    connection = await opened(served.port, served.key)
    total = 0
    for run_id in ids:
        events: list[dict[str, Any]] = []
        while True:
            after = f"lastSequence={events[-1]['sequence']}&" if events else ""
            path = f"/v1/runs/{run_id}/events/poll?{after}timeout=20"
            _, body = await connection.send(connection.encoded("GET", path))
            page = json.loads(body)
            events += page["events"]
            if page["isComplete"]:
                break
        assert [event["sequence"] for event in events] == list(range(len(events))), run_id
        assert events[-1]["type"] == "run.completed", events[-1]
        scored = [event for event in events if event["type"] == "eval.scored"]
        assert len({event["nodeId"] for event in scored}) == len(scored) == 20, run_id
        total += len(events)
    connection.close()
    return total


async def measure(served: Served, *, quick: bool) -> dict[str, Any]:
    control = await opened(served.port, served.key)
    status, body = await control.send(control.encoded("POST", "/v1/suites", suite()))
    assert status in (200, 201), body
    await all_complete(served, [await create(control, "instant")])
    return {
        "create": await measure_creates(served, 50, 4 if quick else 20),
        "read": await measure_reads(served, 2 if quick else 8),
        "stream": await measure_streams(served, 100 if quick else 500, 25),
        "in_flight": await measure_in_flight(served, 40 if quick else 200),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less of everything")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-host-", dir=HERE) as folder:
        served = Served(Path(folder))
        starts = []
        for _ in range(3):
            with served.serving():
                time.sleep(0.5)
                starts.append((served.start_s, served.memory_kb()))
        figures: dict[str, Any] = {
            "start": {
                "cold_start_s": round(min(start for start, _ in starts), 2),
                "idle_mb": round(max(memory for _, memory in starts) / 1000, 1),
            }
        }
        with served.serving():
            figures |= asyncio.run(measure(served, quick=options.quick))
    for name, values in figures.items():
        print(name.ljust(10), "  ".join(f"{key} {value}" for key, value in values.items()))


if __name__ == "__main__":
    main()

"""A host whose clients mean harm, on loopback: `make bench-load`.

Each part is an attack of one tenant; meanwhile a process of its own asks for `healthz`, and as
another tenant for a run. No time makes it fail.
"""

import argparse
import asyncio
import json
import socket
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from load import Connection, opened, quantile

from bench import CONFIG, HERE, Served, suite

HEALTH = "/v1/host/healthz"
LONG_SUITE, HUGE_SUITE, SHORT_SUITE = (
    f"bench.host.evals.{name}@1.0.0" for name in ("thousand", "tens-of-thousands", "five")
)
LIMITS = """
max_tasks_per_suite = 10000
max_streams_per_tenant = 2000
"""
AGENT, ECHO = "local.bench.instant", "local.bench.echo"


def suite_of(ref: str, tasks: int) -> dict[str, Any]:
    document = suite()
    first = document["tasks"][0]
    document["suiteId"], _, document["version"] = ref.partition("@")
    return document | {"tasks": [first | {"taskId": f"t-{n}"} for n in range(tasks)]}


class Tenant:
    """A client with a key of a tenant."""

    def __init__(self, served: Served, name: str) -> None:
        made = served.new_key(name)
        self.key: str = made["key"]
        self.key_id: str = made["keyId"]
        self.port = served.port

    async def opened(self) -> Connection:
        return await opened(self.port, self.key)

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        connection = await self.opened()
        status, answer = await connection.send(connection.encoded(method, path, body))
        connection.close()
        assert status in (200, 201), (status, answer[:300])
        return json.loads(answer)

    async def create(self, suite_ref: str, agent: str = AGENT) -> str:
        body = {"mode": "eval", "evalSuiteRef": suite_ref, "agentId": agent}
        return str((await self.ask("POST", "/v1/runs", body))["runId"])

    async def finish(self, run_id: str) -> None:
        """Follow a run to its end."""
        connection = await self.opened()
        chunks = await connection.stream(f"/v1/runs/{run_id}/events")
        assert b"event: run.completed" in b"".join(chunk for _, chunk in chunks), run_id
        connection.close()

    async def finish_elsewhere(self, run_ids: list[str]) -> None:
        """Follow runs to their ends in another process."""
        command = (str(HERE / "follow.py"), str(self.port), self.key, *run_ids)
        process = await asyncio.create_subprocess_exec(sys.executable, *command)
        assert await process.wait() == 0

    async def seconds_of(self, suite_ref: str) -> float:
        """How long a run takes, from the request for it to its end."""
        began = time.perf_counter()
        await self.finish(await self.create(suite_ref))
        return time.perf_counter() - began


class Probe:
    """The process that asks, from the moment on when it is made."""

    def __init__(self, tenant: Tenant, seconds: float, path: str = HEALTH) -> None:
        self._command = (str(HERE / "probe.py"), str(tenant.port), tenant.key, str(seconds), path)

    async def figures(self) -> dict[str, float]:
        process = await asyncio.create_subprocess_exec(
            sys.executable, *self._command, stdout=asyncio.subprocess.PIPE
        )
        printed, _ = await process.communicate()
        answer: dict[str, float] = json.loads(printed)
        return answer


async def probed(
    attack: Callable[[], Awaitable[Any]], mine: Tenant, other: Tenant, path: str, seconds: float
) -> dict[str, Any]:
    """What `healthz` and another tenant see of an attack."""
    health = asyncio.create_task(Probe(mine, seconds).figures())
    theirs = asyncio.create_task(Probe(other, seconds, path).figures())
    await asyncio.sleep(0.3)
    began = time.perf_counter()
    outcome = await attack()
    lasted = round(time.perf_counter() - began, 2)
    return {
        "attack": outcome,
        "attack_s": lasted,
        "healthz": await health,
        "other_tenant": await theirs,
    }


async def follow_idly(tenant: Tenant, run_id: str) -> socket.socket:
    """A stream that is asked for and never read."""
    loop = asyncio.get_running_loop()
    idle = socket.socket()
    idle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    idle.setblocking(False)
    await loop.sock_connect(idle, ("127.0.0.1", tenant.port))
    connection = Connection(tenant.port, tenant.key)
    path = f"/v1/runs/{run_id}/events?streamMode=debug"
    await loop.sock_sendall(idle, connection.encoded("GET", path))
    return idle


async def measure_streams(mine: Tenant, other: Tenant, *, idle: int, reading: int) -> Any:
    """Streams of an ended run, most of which nobody reads."""
    run_id = await mine.create(LONG_SUITE)
    await mine.finish(run_id)
    theirs = await other.create(SHORT_SUITE)
    await other.finish(theirs)

    async def attack() -> dict[str, int]:
        sockets = await asyncio.gather(*(follow_idly(mine, run_id) for _ in range(idle)))
        followers = [await mine.opened() for _ in range(reading)]
        path = f"/v1/runs/{run_id}/events?streamMode=debug"
        streams = await asyncio.gather(
            *(each.stream(path) for each in followers), return_exceptions=True
        )
        texts = [
            b"" if isinstance(each, BaseException) else b"".join(chunk for _, chunk in each)
            for each in streams
        ]
        for each in sockets:
            each.close()
        return {"whole": sum(b"event: run.completed" in text for text in texts), "of": reading}

    return await probed(attack, mine, other, f"/v1/runs/{theirs}", 12)


SLOW_REQUEST = "GET /v1/host/healthz HTTP/1.1\r\nHost: h\r\nX-Slow: "
TRAILERS = "POST /v1/runs HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"


async def measure_slow(mine: Tenant, other: Tenant, *, senders: int, seconds: float) -> Any:
    """Connections without a key, each of which sends a byte per second of a request."""
    theirs = await other.create(SHORT_SUITE)
    await other.finish(theirs)

    async def one(end: float) -> int:
        _, writer = await asyncio.open_connection("127.0.0.1", mine.port)
        writer.write(SLOW_REQUEST.encode())
        sent = 0
        try:
            while time.perf_counter() < end:
                await asyncio.sleep(1)
                writer.write(b"a")
                await writer.drain()
                sent += 1
        except OSError:
            pass
        writer.close()
        return sent

    async def attack() -> dict[str, int]:
        end = time.perf_counter() + seconds
        sent = await asyncio.gather(*(one(end) for _ in range(senders)))
        return {"connections": senders, "longest_bytes": max(sent)}

    return await probed(attack, mine, other, f"/v1/runs/{theirs}", seconds)


async def measure_trailers(
    served: Served, mine: Tenant, other: Tenant, *, senders: int, seconds: float
) -> Any:
    """Connections without a key that send trailers without end, one after the other."""
    theirs = await other.create(SHORT_SUITE)
    await other.finish(theirs)

    async def one(end: float) -> int:
        more, sent = b"X-Trailer: more\r\n" * 4_000, 0
        while time.perf_counter() < end:
            _, writer = await asyncio.open_connection("127.0.0.1", mine.port)
            try:
                writer.write(TRAILERS.encode())
                while time.perf_counter() < end:
                    writer.write(more)
                    await writer.drain()
                    sent += len(more)
            except OSError:
                pass
            writer.close()
        return sent

    async def attack() -> dict[str, int]:
        before, end = served.memory_kb(), time.perf_counter() + seconds
        sent = await asyncio.gather(*(one(end) for _ in range(senders)))
        return {"sent_mb": sum(sent) >> 20, "grown_mb": (served.memory_kb() - before) >> 10}

    return await probed(attack, mine, other, f"/v1/runs/{theirs}", seconds)


def heavy_bodies(keys: int) -> dict[str, tuple[str, bytes]]:
    """Bodies with many keys: unknown ones, and some where any key is allowed."""
    many = {f"{n:x}": 0 for n in range(keys)}
    run = {"mode": "eval", "evalSuiteRef": SHORT_SUITE, "agentId": AGENT}
    known = suite_of("bench.host.evals.heavy@1.0.0", 1)
    known["tasks"][0]["input"] = many
    deep: Any = 0
    for _ in range(100):
        deep = [deep]
    bodies: dict[str, tuple[str, Any]] = {
        "unknown": ("/v1/runs", many),
        "metadata": ("/v1/runs", run | {"metadata": many}),
        "suite": ("/v1/suites", known),
        "deep": ("/v1/runs", run | {"metadata": {"a": many, "b": deep}}),
    }
    return {
        name: (path, json.dumps(body, separators=(",", ":")).encode())
        for name, (path, body) in bodies.items()
    }


async def measure_bodies(mine: Tenant, other: Tenant, *, bodies: int, keys: int) -> Any:
    """Bodies with very many keys, all at the same time."""
    theirs = await other.create(SHORT_SUITE)
    await other.finish(theirs)
    figures = {}
    for name, (path, body) in heavy_bodies(keys).items():

        async def one(path: str = path, body: bytes = body) -> int:
            connection = await mine.opened()
            head = connection.encoded("POST", path)[:-2]
            head += (
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            )
            status, _ = await connection.send(head + body)
            connection.close()
            return status

        async def attack() -> dict[str, int]:
            statuses = await asyncio.gather(*(one() for _ in range(bodies)))
            return {str(each): statuses.count(each) for each in sorted(set(statuses))}

        figures[name] = await probed(attack, mine, other, f"/v1/runs/{theirs}", 8)
    return figures


def long_answers(length: int) -> dict[str, dict[str, Any]]:
    """Suites of one task each, whose answer is long and has very many checks."""
    prose = ("The order has been shipped. " * (length // 28))[:length]
    numbers = ("12 345 7 " * (length // 9))[:length]
    items = json.dumps([{"id": n} for n in range(20_000)])
    wanted = [{"id": n} for n in range(20_000)]
    answers: dict[str, tuple[str, list[Any]]] = {
        "1,000 contains": (prose, [{"contains": f"absent {n}"} for n in range(1_000)]),
        "500 in any case": (
            prose,
            [{"contains": {"value": f"ABSENT {n}", "ignore_case": True}} for n in range(500)],
        ),
        "300 number": (numbers, [{"number": n + 0.5} for n in range(300)]),
        "300 similar": (prose, [{"similar": f"Order {n} was not shipped"} for n in range(300)]),
        "subset of 20,000": (items, [{"json": {"subset": wanted}}]),
    }
    return {
        name: {"evalwright": 1, "name": f"long-{number}", "tasks": [task]}
        for number, (name, (output, checks)) in enumerate(answers.items())
        if (task := {"id": "long", "input": output, "checks": checks})
    }


async def measure_scoring(
    served: Served, mine: Tenant, other: Tenant, *, length: int, runs: int
) -> Any:
    """Runs whose one answer is long and has very many checks, one after the other."""
    theirs = await other.create(SHORT_SUITE)
    await other.finish(theirs)
    figures = {}
    for name, long in long_answers(length).items():
        ref = (await mine.ask("POST", "/v1/suites", long))["evalSuiteRef"]
        await mine.finish(await mine.create(ref, ECHO))  # starts what is started once
        before = served.cpu_with_children_s()

        async def attack(ref: str = ref) -> dict[str, int]:
            for _ in range(runs):
                await mine.finish(await mine.create(ref, ECHO))
            return {"runs": runs}

        figures[name] = await probed(attack, mine, other, f"/v1/runs/{theirs}", 5)
        spent = served.cpu_with_children_s() - before
        figures[name]["cpu_s_with_probes"] = round(spent, 2)
    return figures


async def measure_fairness(mine: Tenant, other: Tenant, *, runs: int) -> Any:
    """A short run alone, and beside long ones of its tenant and of another."""
    for tenant in (mine, other):
        await tenant.seconds_of(SHORT_SUITE)
    alone = [await mine.seconds_of(SHORT_SUITE) for _ in range(10)]
    long = [await mine.create(HUGE_SUITE) for _ in range(runs)]
    began = time.perf_counter()
    finishing = asyncio.create_task(mine.finish_elsewhere(long))
    await asyncio.sleep(1)
    beside: dict[str, list[float]] = {"same_tenant": [], "other_tenant": []}
    while not finishing.done() and len(beside["same_tenant"]) < 10:
        beside["same_tenant"].append(await mine.seconds_of(SHORT_SUITE))
        beside["other_tenant"].append(await other.seconds_of(SHORT_SUITE))
    await finishing
    median = quantile(alone, 0.5)
    return {
        "alone_ms": round(median * 1000, 1),
        **{
            f"{name}_ms": [round(quantile(taken, share) * 1000, 1) for share in (0.5, 1)]
            for name, taken in beside.items()
        },
        **{
            f"{name}_ratio": round(quantile(taken, 0.5) / median, 2)
            for name, taken in beside.items()
        },
        "long_runs_s": round(time.perf_counter() - began, 2),
    }


async def measure_revoked(served: Served, mine: Tenant, *, streams: int) -> Any:
    """Streams of a run that goes on, whose key is revoked."""
    run_id = (await asyncio.gather(*(mine.create(HUGE_SUITE) for _ in range(4))))[0]
    victim = Tenant(served, "bench")
    connections = [await victim.opened() for _ in range(streams)]
    path = f"/v1/runs/{run_id}/events?streamMode=messages"
    following = [asyncio.create_task(each.stream(path)) for each in connections]
    await asyncio.sleep(1)
    assert not any(task.done() for task in following)
    await asyncio.to_thread(served.run, "keys", "revoke", victim.key_id)
    began = time.perf_counter()
    await asyncio.wait(following, timeout=60)
    return {"streams": streams, "ended_after_s": round(time.perf_counter() - began, 2)}


async def measure(served: Served, only: set[str], *, quick: bool) -> None:
    mine, other = Tenant(served, "bench"), Tenant(served, "other")
    for tenant in (mine, other):
        for ref, tasks in ((LONG_SUITE, 1_000), (SHORT_SUITE, 5), (HUGE_SUITE, 10_000)):
            await tenant.ask("POST", "/v1/suites", suite_of(ref, tasks))
    parts: dict[str, Callable[[], Awaitable[Any]]] = {
        "streams": lambda: measure_streams(
            mine, other, idle=90 if quick else 900, reading=20 if quick else 200
        ),
        "bodies": lambda: measure_bodies(
            mine, other, bodies=10 if quick else 40, keys=100_000 if quick else 350_000
        ),
        "scoring": lambda: measure_scoring(
            served, mine, other, length=300_000 if quick else 1_500_000, runs=2 if quick else 5
        ),
        "slow": lambda: measure_slow(
            mine, other, senders=100 if quick else 500, seconds=5 if quick else 20
        ),
        "trailers": lambda: measure_trailers(
            served, mine, other, senders=1 if quick else 4, seconds=5 if quick else 10
        ),
        "fairness": lambda: measure_fairness(mine, other, runs=4 if quick else 16),
        "revoked": lambda: measure_revoked(served, mine, streams=10 if quick else 100),
    }
    for name, part in parts.items():
        if not only or name in only:
            print(name, json.dumps(await part(), indent=2), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less of everything")
    parser.add_argument("--only", action="append", default=[], help="streams, bodies, …")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-load-", dir=HERE) as folder:
        served = Served(Path(folder), CONFIG.replace("[host]\n", f"[host]\n{LIMITS}"))
        with served.serving():
            asyncio.run(measure(served, set(options.only), quick=options.quick))


if __name__ == "__main__":
    main()

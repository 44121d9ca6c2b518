"""What a model call costs us: CPU of this process per call, beside aiohttp alone, and replay.

python benchmarks/models/bench.py [--calls N]
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import msgspec

from evalwright.models.cassette import Cassette
from evalwright.models.config import Config
from evalwright.models.load import Providers
from evalwright.models.openai import encode_request
from evalwright.models.protocol import ChatMessage, Model, OutputSchema, Request, ToolSpec
from evalwright.models.scripted import ScriptedModel

Call = Callable[[], Awaitable[object]]

CPU_TARGET_MS = 0.4
REPLAY_TARGET_MS = 0.2
ROUNDS = 5
SCHEMA = {
    "type": "object",
    "properties": {"reason": {"type": "string"}, "met": {"type": "boolean"}},
    "required": ["reason", "met"],
    "additionalProperties": False,
}


def a_request(number: int = 0) -> Request:
    """Two thousand characters of prompt, two tools and a schema for the answer."""
    tool = ToolSpec("orders_get", "Looks an order up.", {"type": "object", "properties": {}})
    return Request(
        (
            ChatMessage("system", "You help the customers of a shop. " * 30),
            ChatMessage("user", f"Where is my order {number}? " * 50),
        ),
        (tool, ToolSpec("refund", "Pays back.", {"type": "object"})),
        OutputSchema("verdict", SCHEMA),
        temperature=0.0,
        max_tokens=500,
    )


@contextmanager
def server(latency_ms: int = 0) -> Iterator[str]:
    script = Path(__file__).with_name("server.py")
    process = subprocess.Popen(
        [sys.executable, script, str(latency_ms)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/v1"
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


async def spread(call: Call, calls: int, concurrency: int) -> None:
    left = iter(range(calls))

    async def worker() -> None:
        for _ in left:
            await call()

    await asyncio.gather(*(worker() for _ in range(concurrency)))


async def cpu_ms(call: Call, calls: int, concurrency: int) -> float:
    """The best of some rounds, after one to warm up."""
    await spread(call, calls // 5, concurrency)
    best = float("inf")
    for _ in range(ROUNDS):
        begun = time.process_time()
        await spread(call, calls, concurrency)
        best = min(best, (time.process_time() - begun) / calls * 1000)
    return best


async def measure(url: str, calls: int, concurrency: int) -> tuple[float, float]:
    """CPU in milliseconds of a call by a model, and of the same POST by aiohttp alone."""
    environment = {"OPENAI_API_KEY": "benchmark", "OPENAI_BASE_URL": url}
    model = Providers(Config(), environment).load("openai:gpt-4.1-mini")
    request = a_request()
    ours = await cpu_ms(lambda: model.ask(request), calls, concurrency)
    await model.close()
    return ours, await cpu_ms_of_aiohttp(url, calls, concurrency)


async def cpu_ms_of_aiohttp(url: str, calls: int, concurrency: int) -> float:
    from evalwright.models.quirks import Quirks

    body = encode_request(a_request(), "gpt-4.1-mini", Quirks())
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def post() -> None:
            async with session.post(f"{url}/chat/completions", data=body) as response:
                msgspec.json.decode(await response.read())

        return await cpu_ms(post, calls, concurrency)


async def replay_ms(folder: Path, calls: int) -> tuple[float, float]:
    """Milliseconds of CPU to load a cassette, and to replay one call of it."""
    path = folder / "calls.jsonl"
    recorder = Cassette(path, record=True).wrap(ScriptedModel("m", lambda _: "shipped " * 30))
    requests = [a_request(number) for number in range(calls)]
    for request in requests:
        await recorder.ask(request)
    await recorder.close()
    begun = time.process_time()
    model: Model = Cassette(path, record=False).player("scripted:m")
    loaded = time.process_time()
    for request in requests:
        await model.ask(request)
    done = time.process_time()
    return (loaded - begun) * 1000, (done - loaded) / calls * 1000


async def ideal_ratio(latency_ms: int, calls: int, concurrency: int) -> float:
    """Wall time of calls with latency, as a multiple of the shortest possible."""
    with server(latency_ms) as url:
        model = Providers(Config(), {"VLLM_BASE_URL": url}).load("vllm:m")
        begun = time.perf_counter()
        await spread(lambda: model.ask(a_request()), calls, concurrency)
        seconds = time.perf_counter() - begun
        await model.close()
    return seconds / (calls / concurrency * latency_ms / 1000)


def verdict(value: float, target: float) -> str:
    return "met" if value <= target else "MISSED"


async def report(calls: int) -> None:
    with server() as url:
        for concurrency in (1, 50):
            ours, theirs = await measure(url, calls, concurrency)
            print(
                f"model call, {concurrency:2} at once: {ours:.3f} ms CPU "
                f"(aiohttp alone {theirs:.3f}); target {CPU_TARGET_MS}: "
                f"{verdict(ours, CPU_TARGET_MS)}"
            )
    ratio = await ideal_ratio(200, 1000, 50)
    print(
        f"1,000 calls of 200 ms, 50 at once: {ratio:.3f} of the ideal; target 1.15: "
        f"{verdict(ratio, 1.15)}"
    )
    with tempfile.TemporaryDirectory() as folder:
        load, each = await replay_ms(Path(folder), 1000)
    print(
        f"cassette of 1,000 calls: loaded in {load:.1f} ms, {each:.3f} ms per replayed call; "
        f"target {REPLAY_TARGET_MS}: {verdict(each, REPLAY_TARGET_MS)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=2000)
    asyncio.run(report(parser.parse_args().calls))


if __name__ == "__main__":
    main()

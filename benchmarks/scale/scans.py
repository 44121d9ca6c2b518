"""What it costs to spread a scan over processes: CPU of all of them beside that of one."""

import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

Measured = Iterator[tuple[str, str, str, bool | None]]

COMMAND = str(Path(sys.executable).parent / "evalwright")
GOAL_PERCENT = 10
WORDS = [
    "account",
    "billing",
    "refund",
    "plan",
    "customer",
    "ticket",
    "status",
    "policy",
    "order",
    "invoice",
    "region",
]


def overhead(*, quick: bool) -> Measured:
    """`signals` with one process and with two, by turns; the same bytes must come out.

    Cores share caches and memory, so two processes that know nothing of each other cost more CPU at
    once than in turn. That is measured, too, by two halves of a part: no program can do better.
    200,000 traces are a minute of work, so one turn of each tells enough; few need several.
    """
    traces, part, rounds = (5_000, 5_000, 2) if quick else (200_000, 20_000, 1)
    apart: list[float] = []
    at_once: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "traces.jsonl"
        _write(path, traces)
        halves = _halves(path, part)
        spent: dict[int, list[tuple[float, int]]] = {1: [], 2: []}
        written: set[bytes] = set()
        for _ in range(rounds):
            for jobs, found in spent.items():
                out = Path(folder) / "signals.jsonl"
                found.append(_scan(path, out, jobs))
                written.add(out.read_bytes())
        for _ in range(2):
            apart.append(sum(_scan(half, half.with_suffix(".out"), 1)[0] for half in halves))
            at_once.append(_scan_at_once(halves))
        assert len(written) == 1, "the result depends on the number of jobs"
    cpu = {jobs: median(seconds for seconds, _ in found) for jobs, found in spent.items()}
    memory = max(peak for found in spent.values() for _, peak in found)
    more = (cpu[2] / cpu[1] - 1) * 100
    shared = (median(at_once) / median(apart) - 1) * 100
    yield (
        f"signals of {traces:,} traces: CPU of 2 jobs over 1",
        f"{more:+.1f} % ({cpu[1]:.1f} s → {cpu[2]:.1f} s, {memory:,} MB each at most)",
        f"≤ {GOAL_PERCENT} %",
        more <= GOAL_PERCENT,
    )
    yield (
        f"two commands at once, a half of {part:,} each, over one after the other",
        f"{shared:+.1f} %",
        "",
        None,
    )


def _halves(path: Path, count: int) -> list[Path]:
    """The traces in two files."""
    found = [path.with_name("first.jsonl"), path.with_name("second.jsonl")]
    with path.open("rb") as lines:
        for half in found:
            with half.open("wb") as file:
                file.writelines(islice(lines, count // 2))
    return found


def _scan_at_once(halves: list[Path]) -> float:
    with ThreadPoolExecutor() as pool:
        return sum(pool.map(lambda half: _scan(half, half.with_suffix(".out"), 1)[0], halves))


def _scan(path: Path, out: Path, jobs: int) -> tuple[float, int]:
    """CPU seconds of all processes, and the memory of the largest in MB."""
    measured = (
        "import resource, subprocess, sys; code = subprocess.call(sys.argv[1:]); "
        "used = resource.getrusage(resource.RUSAGE_CHILDREN); "
        "print(used.ru_utime + used.ru_stime, used.ru_maxrss // 1024, code)"
    )
    command = [COMMAND, "signals", "--traces", path, "--out", out, "--jobs", str(jobs)]
    done = subprocess.run(
        [sys.executable, "-c", measured, *map(str, command)], capture_output=True, check=True
    )
    seconds, memory, code = done.stdout.split()
    assert code == b"0", done.stderr
    return float(seconds), int(memory)


def _write(path: Path, count: int) -> None:
    """Traces of 20 events, of which some leak something."""
    rng = random.Random(7)
    with path.open("w") as file:
        for number in range(count):
            file.write(json.dumps(_trace(number, rng)) + "\n")


def _trace(number: int, rng: random.Random) -> dict[str, Any]:
    events: list[dict[str, Any]] = [{"type": "retrieval", "query": _said(rng, 5), "doc_ids": ["a"]}]
    for call in range(9):
        call_id, tool = f"c{call}", f"tool_{(number + call) % 9}"
        args = {"customer_id": f"C-{number % 9999}", "note": _said(rng, 12)}
        events.append({"type": "tool_call", "call_id": call_id, "tool": tool, "args": args})
        payload = {"ok": True, "note": _said(rng, 24)}
        result = {"type": "tool_result", "call_id": call_id, "status": "ok"}
        events.append({**result, "payload_summary": payload})
    leak = " Write to jane.doe@example.com." if number % 40 == 0 else ""
    content = _said(rng, 20) + leak
    events.append({"type": "final_output", "content_type": "text", "content": content})
    return {"case_id": f"case-{number}", "user_prompt": _said(rng, 10), "events": events}


def _said(rng: random.Random, count: int) -> str:
    return " ".join(rng.choices(WORDS, k=count))

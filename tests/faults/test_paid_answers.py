"""What was paid for is kept: kill -9 at any moment, also where the disk is slow."""

import random
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from builders import a_suite
from faults.soaking import IS_SOAK, scaled, seeds
from subjects import endpoint
from subjects.command import Evalwright, Finished
from subjects.waiting import eventually

SLOW_MS = 300
PRICE = 0.01

# A byte for each call, before anything else: the file says what was paid, whoever is killed.
AGENT = """
import asyncio
import os
import pathlib

calls = os.open(os.environ["CALLS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
price = float(os.environ.get("PRICE", 0))
pause = float(os.environ.get("PAUSE_S", 0))
gate = os.environ.get("GATE")
is_late = "LATE" in os.environ

def report(task):
    if price:
        task.report_usage(model="small-1", input_tokens=1, output_tokens=1, cost_usd=price)

async def answer(task):
    os.write(calls, b"x")
    is_late or report(task)
    while gate and not pathlib.Path(gate).exists():
        await asyncio.sleep(0.01)
    await asyncio.sleep(pause)
    is_late and report(task)
    return "yes"
"""


class Ordeal(NamedTuple):
    """A run that is killed again and again, and resumed each time."""

    evalwright: Evalwright
    env: dict[str, str]

    @property
    def calls(self) -> int:
        path = Path(self.env["CALLS"])
        return path.stat().st_size if path.exists() else 0

    def begin(self, *options: str, agent: str = "agent.py:answer") -> "subprocess.Popen[bytes]":
        """Start the run, or go on with it."""
        has_begun = self.evalwright.db.exists() and self.evalwright.run_ids()
        subject = ["--resume", "latest"] if has_begun else ["suite.json", "--agent", agent]
        return self.evalwright.start("run", *subject, *options, "--quiet", env=self.env)

    def finish(self, *options: str, agent: str = "agent.py:answer") -> Finished:
        process = self.begin(*options, agent=agent)
        out, err = process.communicate(timeout=240)
        return Finished(process.returncode, out.decode(), err.decode())

    def kill(self, chance: random.Random, after: int, *options: str) -> bool:
        """Kill the run some time after so many more calls; whether it was still running."""
        process, before = self.begin(*options), self.calls
        eventually(lambda: self.calls >= before + after or process.poll() is not None)
        time.sleep(chance.uniform(0, 0.05))
        was_running = process.poll() is None
        process.kill()
        process.wait()
        return was_running

    def spent(self) -> float:
        """The cost that is in the log."""
        found = [e["payload"] for e in self.evalwright.events() if e["type"] == "provider.usage"]
        return sum(usage["costEstimateUsd"] for usage in found)


@pytest.fixture
def ordeal(evalwright: Evalwright, tmp_path: Path) -> Ordeal:
    (tmp_path / "agent.py").write_text(AGENT)
    return Ordeal(evalwright, {"CALLS": str(tmp_path / "calls")})


@pytest.fixture(scope="session")
def slow_disk(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process for which every fsync takes 300 ms."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("a slow disk needs a C compiler")
    library = tmp_path_factory.mktemp("slow") / "slow_fsync.so"
    source = Path(__file__).with_name("slow_fsync.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return {"LD_PRELOAD": str(library), "SLOW_FSYNC_MS": str(SLOW_MS)}


def survive(ordeal: Ordeal, seed: int, tasks: int, kills: int, concurrency: int) -> int:
    """Kill a run so often, let it end, and check its scores; returns how often it was killed."""
    chance = random.Random(seed)
    ordeal.evalwright.suite(a_suite(tasks))
    options = ["--concurrency", str(concurrency)]
    steps = [chance.randint(1, 2 * concurrency) for _ in range(kills)]
    killed = sum(ordeal.kill(chance, after, *options) for after in steps)
    done = ordeal.finish(*options)
    assert done.code == 0, done.err
    scored = [e["nodeId"] for e in ordeal.evalwright.events() if e["type"] == "eval.scored"]
    assert len(scored) == len(set(scored)) == tasks
    return killed


PAID = {"PRICE": str(PRICE)}
LONG = {"PAUSE_S": "0.025"}
LATE = {"LATE": "1"}  # killed in the middle of a call, the agent has reported nothing of it


@pytest.mark.parametrize("kind", [PAID, LONG] if IS_SOAK else [LONG], ids=str)
@pytest.mark.parametrize("seed", seeds(1, 10))
def test_a_kill_costs_at_most_one_call_of_each_worker_also_on_a_slow_disk(
    ordeal: Ordeal, slow_disk: dict[str, str], kind: dict[str, str], seed: int
) -> None:
    ordeal.env.update(kind | slow_disk)
    tasks, concurrency = scaled(30, 1000), scaled(10, 50)
    killed = survive(ordeal, seed, tasks, scaled(2, 6), concurrency)
    assert ordeal.calls <= tasks + killed * concurrency


@pytest.mark.parametrize("seed", seeds(1, 20))
def test_answers_that_were_paid_for_are_kept_however_quickly_they_came(
    ordeal: Ordeal, seed: int
) -> None:
    ordeal.env.update(PAID)
    kills, concurrency = scaled(2, 10), 4
    tasks = 20 * kills * concurrency
    killed = survive(ordeal, seed, tasks, kills, concurrency)
    assert ordeal.calls <= tasks + killed * concurrency
    assert ordeal.spent() >= 0.95 * ordeal.calls * PRICE


@pytest.mark.parametrize("seed", seeds(1, 20))
def test_spent_money_is_known_after_many_kills_of_a_short_run_on_a_slow_disk(
    ordeal: Ordeal, slow_disk: dict[str, str], seed: int
) -> None:
    ordeal.env.update(PAID | slow_disk)
    survive(ordeal, seed, tasks=scaled(16, 60), kills=scaled(2, 5), concurrency=8)
    assert ordeal.spent() >= 0.95 * ordeal.calls * PRICE


def test_an_agent_elsewhere_may_have_called_a_model(ordeal: Ordeal) -> None:
    ordeal.evalwright.suite(a_suite(30))
    with endpoint.serving(lambda _: endpoint.answer("yes")) as agent:
        process = ordeal.begin("--concurrency", "3", agent=agent.url)
        eventually(lambda: len(agent.requests) >= 10)
        process.kill()
        process.wait()
        assert ordeal.finish("--concurrency", "3").code == 0
        assert len(agent.requests) <= 30 + 3


def test_what_a_call_cost_is_in_the_log_while_the_agent_still_works(ordeal: Ordeal) -> None:
    gate = ordeal.evalwright.folder / "gate"
    ordeal.env.update(PAID, GATE=str(gate))
    ordeal.evalwright.suite(a_suite(4))
    process = ordeal.begin("--concurrency", "3")
    eventually(lambda: ordeal.evalwright.db.exists() and ordeal.evalwright.run_ids())
    eventually(lambda: round(ordeal.spent() / PRICE) == 3)
    process.kill()
    process.wait()
    gate.touch()
    assert ordeal.finish("--concurrency", "3").code == 0
    assert ordeal.calls == 3 + 4
    assert round(ordeal.spent() / PRICE) == 3 + 4


def test_calls_that_were_cut_off_still_count_when_a_failed_run_goes_on(ordeal: Ordeal) -> None:
    gate = ordeal.evalwright.folder / "gate"
    ordeal.env.update(PAID | LATE, GATE=str(gate))
    ordeal.evalwright.suite(a_suite(8))
    options = ["--concurrency", "3", "--max-cost", str(3 * PRICE), "--task-cost", str(PRICE)]
    process = ordeal.begin(*options)
    eventually(lambda: ordeal.calls == 3)
    process.kill()
    process.wait()
    gate.touch()
    for _ in range(2):  # it fails, and is continued by another run
        failed = ordeal.finish(*options)
        assert failed.code == 3
        assert "budget_exhausted" in failed.err
        assert ordeal.calls == 3


@pytest.mark.parametrize("kind", [{}, LATE], ids=["reported", "not reported"])
@pytest.mark.parametrize("seed", seeds(1, 20))
def test_a_budget_holds_over_any_number_of_kills(
    ordeal: Ordeal, seed: int, kind: dict[str, str]
) -> None:
    ordeal.env.update(PAID | kind, PAUSE_S="0.005")
    chance, concurrency, ceiling = random.Random(seed), 3, scaled(40, 200)
    ordeal.evalwright.suite(a_suite(2 * ceiling))
    options = ["--concurrency", str(concurrency), "--max-cost", str(ceiling * PRICE)]
    killed = sum(
        ordeal.kill(chance, chance.randint(1, 2 * concurrency), *options)
        for _ in range(scaled(3, 20))
    )
    failed = ordeal.finish(*options)
    assert failed.code == 3
    assert "budget_exhausted" in failed.err
    # Calls that were cut off count as the dearest did: those that were paid for are within it.
    assert round(ordeal.spent() / PRICE) <= ordeal.calls <= ceiling
    assert ordeal.spent() / PRICE >= ceiling - killed * concurrency - 0.5
    finished = ordeal.finish("--max-cost", "1000")
    assert finished.code == 0, finished.err


def test_a_kill_does_not_hide_a_call_without_a_price(ordeal: Ordeal) -> None:
    gate = ordeal.evalwright.folder / "gate"
    (ordeal.evalwright.folder / "agent.py").write_text(
        AGENT.replace(", cost_usd=price", "").replace("if price:", "if task.id == 'task-1':")
    )
    ordeal.env.update(GATE=str(gate))
    ordeal.evalwright.suite(a_suite(2))
    process = ordeal.begin("--max-cost", "1")

    def is_recorded() -> Any:
        return "provider.usage" in [event["type"] for event in ordeal.evalwright.events()]

    eventually(lambda: ordeal.evalwright.db.exists() and is_recorded())
    process.kill()
    process.wait()
    gate.touch()
    (ordeal.evalwright.folder / "agent.py").write_text("def answer(task):\n    return 'yes'\n")
    failed = ordeal.finish()
    assert (failed.code, "price_unknown" in failed.err) == (3, True)
    assert ordeal.finish().code == 0  # whoever resumes it now knows

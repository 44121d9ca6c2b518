"""Isolated agents that do to their process whatever comes to mind, in runs that are killed."""

import random
import signal

import pytest

from builders import a_suite, a_task
from faults.soaking import seeds
from subjects import logs
from subjects.command import Evalwright, subject
from subjects.waiting import Journal, eventually, is_gone

DEEDS = ["nothing", "exit", "leave", "crash", "be killed", "hold", "fork", "leave a process"]


@pytest.mark.parametrize("seed", seeds(short=1, long=40))
def test_every_task_of_a_killed_run_gets_one_score_and_no_process_stays(
    evalwright: Evalwright, journal: Journal, seed: int
) -> None:
    chance = random.Random(seed)
    deeds = ["nothing", *chance.choices(DEEDS, k=6)]
    suite = evalwright.suite(a_suite([a_task(f"t{n}", input=d) for n, d in enumerate(deeds)]))
    run = evalwright.start(
        "run", suite, "--agent", subject("thorough.py:noted_attack"), "--isolate",
        "--timeout", "2", "--concurrency", "2", env=journal.environment,
    )  # fmt: skip
    at_least = chance.randrange(1, len(deeds))
    eventually(lambda: len(journal.lines()) >= at_least, f"{at_least} invocations")
    run.send_signal(chance.choice([signal.SIGKILL, signal.SIGTERM]))
    evalwright.finish(run)
    resumed = evalwright("run", "--resume", "latest", env=journal.environment)
    assert resumed.code in (1, 0), resumed.err
    logs.assert_complete(evalwright.events())
    for process in {int(line) for line in journal.lines()}:
        eventually(lambda p=process: is_gone(p), f"the end of {process}")

"""Workers are killed, stopped and cut off; every task is scored once all the same."""

import random
import signal
import time
from pathlib import Path

import pytest

from faults.fleet_processes import FleetProcesses, a_moment, fleet_processes
from faults.soaking import scaled, seeds
from postgres_server import PostgresServer

WORKERS, AT_ONCE = 3, 4
LEASE_SECONDS = 10.0  # after which others have taken the tasks of a worker that is stopped


def stop_for_a_while(fleet: FleetProcesses, number: int, seconds: float) -> None:
    """Stop a worker for longer than its lease, then wake it up."""
    worker = fleet.workers[number]
    fleet.note_in_flight(worker, AT_ONCE)
    worker.send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    worker.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("seed", seeds(1, 2))
def test_every_task_is_scored_once_whatever_happens_to_workers(
    own_postgres: PostgresServer, tmp_path: Path, seed: int
) -> None:
    chance, tasks = random.Random(seed), scaled(120, 2_000)
    with fleet_processes(own_postgres, tmp_path, task_seconds=0.3) as fleet:
        for _ in range(WORKERS):
            fleet.start_worker(AT_ONCE)
        command = fleet.hand_over(fleet.suite(tasks), 100)
        fleet.until(lambda: fleet.scored() > 0)
        faults = ["kill"] * scaled(2, 20) + ["stop"] * scaled(1, 20) + ["restart"] * scaled(1, 2)
        chance.shuffle(faults)
        for fault in faults:
            a_moment(chance, 1.0)
            number = chance.randrange(WORKERS)
            if fault == "kill":
                fleet.kill(number, AT_ONCE)
            elif fault == "stop":
                stop_for_a_while(fleet, number, LEASE_SECONDS * scaled(1, chance.choice((0, 1))))
            else:
                own_postgres.restart(chance.choice((signal.SIGINT, signal.SIGQUIT)))
        assert fleet.wait_for(command, scaled(60, 600)) == 0, fleet.outputs()
        fleet.check_log(1, tasks)
        fleet.check_invocations(tasks)

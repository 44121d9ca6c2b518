"""The same tasks that do nothing, on Dask: CPU and time for each."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

Measured = Iterator[tuple[str, str, str, bool | None]]

PROGRAM = """
import resource, sys, time
from dask.distributed import Client, LocalCluster

def nothing(number):
    return "yes"

def spent(dask_worker=None):
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime

if __name__ == "__main__":
    count = int(sys.argv[1])
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        with Client(cluster) as client:
            client.gather(client.map(nothing, range(200), pure=False))
            before = spent() + sum(client.run(spent).values())
            began = time.perf_counter()
            client.gather(client.map(nothing, range(count), pure=False))
            wall = time.perf_counter() - began
            print((spent() + sum(client.run(spent).values()) - before) / count, wall / count)
"""


def noop_tasks(*, quick: bool) -> Measured:
    """Scheduler, client and workers together; nothing of it is kept when they end."""
    sys.path.append(str(Path(__file__).parents[1]))
    from environments import environment, version  # beside a module that has a name of the tests

    count = 1_000 if quick else 5_000
    python = environment("distributed") / "python"
    done = subprocess.run(
        [str(python), "-c", "import sys; exec(sys.stdin.read())", str(count)],
        input=PROGRAM.encode(),
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr.decode()[-300:])
    cpu, wall = (float(each) * 1000 for each in done.stdout.split()[-2:])
    yield (
        f"a task that does nothing on Dask {version('distributed')}, nothing of it kept",
        f"{cpu:.2f} ms of CPU, {wall:.2f} ms",
        "",
        None,
    )

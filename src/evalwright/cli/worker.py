"""`evalwright worker`: work on the tasks of runs that were handed to the fleet."""

import asyncio
import os
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import click

from evalwright.cli.output import say, warn
from evalwright.cli.parameters import (
    SECONDS,
    chosen_config,
    config_option,
    configured_db,
    fleet_address,
    plain_db_option,
)
from evalwright.contracts.errors import Interrupted
from evalwright.store.location import opened_log

if TYPE_CHECKING:
    from evalwright.engine.fleet.worker import Worker, WorkerSettings
    from evalwright.models.config import Config
    from evalwright.store.protocol import EventLog

EXAMPLES = """\b
Examples:
  evalwright worker --db postgresql://evals@db.example/evals
  evalwright worker --db postgresql://evals@db.example/evals --concurrency 40 --tenant acme
"""


@click.command(epilog=EXAMPLES)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 10_000),
    default=10,
    show_default=True,
    envvar="EVALWRIGHT_CONCURRENCY",
    show_envvar=True,
    help="How many tasks this worker works on at once.",
)
@click.option(
    "--tenant",
    "tenants",
    metavar="T",
    multiple=True,
    help="Work only on runs of this tenant; may be given several times.",
)
@click.option(
    "--attempts",
    type=click.IntRange(1, 1000),
    default=5,
    show_default=True,
    help="How often a task is begun: one that ends its worker each time counts as failed then.",
)
@click.option(
    "--drain",
    "drain_s",
    type=SECONDS,
    default=30.0,
    show_default=True,
    help="Seconds that tasks have to end after SIGTERM or Ctrl-C; others take what is left.",
)
@click.option("--name", help="What others call this worker; default: the host's name and the pid.")
@config_option
@plain_db_option
def command(
    *,
    concurrency: int,
    tenants: tuple[str, ...],
    attempts: int,
    drain_s: float,
    name: str | None,
    config: Path | None,
    db: str | None,
) -> int:
    """Work on the tasks of runs that were handed to the fleet.

    Any number of workers, on any machines, share the runs in one PostgreSQL. A run is handed to
    them by `evalwright run --workers`, or by a host that was started with `--workers`. Agents are
    loaded from the reference that the run names; a run whose agent cannot be loaded here is left
    to workers that can. SIGTERM lets tasks end; a worker that is killed loses nothing.
    """
    from evalwright.engine.fleet.worker import WorkerSettings

    settings = chosen_config(config)
    address = fleet_address(configured_db(db, settings))
    called = name or f"{socket.gethostname()}-{os.getpid()}"
    chosen = WorkerSettings(called, concurrency, tenants, attempts, drain_s)
    with opened_log(address) as log:
        return asyncio.run(_work(address, log, settings, chosen))


async def _work(address: str, log: "EventLog", config: "Config", settings: "WorkerSettings") -> int:
    from evalwright.engine.fleet.database import FleetDatabase
    from evalwright.engine.fleet.equipment import ReferenceEquipper
    from evalwright.engine.fleet.worker import Worker

    database = FleetDatabase(address, log)
    worker = Worker(database, ReferenceEquipper(config, warn), settings)
    whose = f" of {', '.join(settings.tenants)}" if settings.tenants else ""
    say(
        f"worker {settings.name}: up to {settings.concurrency} tasks{whose} at once, "
        f"log in {log.place}"
    )
    try:
        await _until_signalled(worker)
    finally:
        await database.close()
    say(f"worker {settings.name}: stopped, {worker.tasks_done} tasks done")
    return 0


async def _until_signalled(worker: "Worker") -> None:
    """Work; the first signal lets tasks end, the second ends them."""
    loop, working = asyncio.get_running_loop(), asyncio.ensure_future(worker.run())

    def stop() -> None:
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(each)
            loop.add_signal_handler(each, working.cancel)
        say(f"worker {worker.settings.name}: no more tasks; a second signal stops at once")
        worker.drain()

    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stop)
    try:
        await working
    except asyncio.CancelledError:
        raise Interrupted("interrupted; other workers go on with the tasks") from None

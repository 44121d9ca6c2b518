"""`evalwright worker`: work on the tasks of runs that were handed to the fleet."""

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from evalwright.cli.awaited_log import awaited_log
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

if TYPE_CHECKING:
    from evalwright.cli.watchdog import Watchdog
    from evalwright.engine.fleet.equipment import Equipment, Equipper
    from evalwright.engine.fleet.worker import Worker, WorkerSettings
    from evalwright.engine.plan import Plan
    from evalwright.host.runs.fleet import FleetLimits
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
@click.option(
    "--lease",
    "lease_s",
    type=click.FloatRange(1, 60),
    default=8.0,
    show_default=True,
    help="Seconds after which others take the tasks of a worker that is not heard of; the same for "
    "all workers.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    envvar="EVALWRIGHT_METRICS_PORT",
    show_envvar=True,
    help="Serve the metrics of the fleet on this port, at /metrics, and /healthz; 0: any free one.",
)
@click.option(
    "--metrics-host",
    default="127.0.0.1",
    show_default=True,
    envvar="EVALWRIGHT_METRICS_HOST",
    show_envvar=True,
    help="The address on which metrics are served: they name tenants.",
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
    lease_s: float,
    name: str | None,
    metrics_port: int | None,
    metrics_host: str,
    config: Path | None,
    db: str | None,
) -> int:
    """Work on the tasks of runs that were handed to the fleet.

    Any number of workers, on any machines, share the runs in one PostgreSQL. A run is handed to
    them by `evalwright run --workers`, or by a host that was started with `--workers`. Agents are
    loaded from the reference that the run names; a run whose agent cannot be loaded here is left
    to workers that can. SIGTERM lets tasks end; a worker that is killed loses nothing.
    """
    from evalwright.cli.watchdog import watchdog_over
    from evalwright.cli.watchdog_process import Ward
    from evalwright.engine.fleet.heartbeat import HELD_SECONDS
    from evalwright.engine.fleet.worker import WorkerSettings
    from evalwright.engine.workers import complete
    from evalwright.host.access.keys import check_name

    for tenant in tenants:
        check_name("tenant", tenant)
    settings = chosen_config(config)
    address = fleet_address(configured_db(db, settings))
    called = name or f"{socket.gethostname()}-{os.getpid()}"
    chosen = WorkerSettings(called, concurrency, tenants, attempts, drain_s, lease_s)
    served = None if metrics_port is None else (metrics_host, metrics_port)
    ward = Ward("worker", drain_s, HELD_SECONDS)
    with closing(awaited_log(address)) as log, watchdog_over(ward, concurrency) as watchdog:
        loop = asyncio.new_event_loop()
        work = _work(address, log, settings, chosen, served, watchdog)
        return complete(loop, loop.create_task(work))


class _AnyEquipper:
    """Equips for runs of commands, by references, and for runs of hosts, by their settings."""

    def __init__(
        self,
        log: "EventLog",
        config: "Config",
        limits: "FleetLimits",
        watchdog: "Watchdog | None",
    ) -> None:
        from evalwright.engine.fleet.equipment import ReferenceEquipper

        self._log = log
        self._config = config
        self._limits = limits
        self._watchdog = watchdog
        self._by_reference = ReferenceEquipper(config, warn, limits)
        self._by_settings: Equipper | None = None

    async def equip(self, tenant: str, plan: "Plan") -> "Equipment":
        """What the tasks of a run of this plan need; agents in this process are watched."""
        from evalwright.agents.python import PythonAgent

        if plan.origin is None:
            equipment = await self._by_reference.equip(tenant, plan)
        else:
            if self._by_settings is None:
                from evalwright.host.runs.fleet import HostEquipper

                self._by_settings = HostEquipper(self._log, self._config, self._limits)
            equipment = await self._by_settings.equip(tenant, plan)
        if not isinstance(equipment.agent, PythonAgent):
            return equipment
        resources = msgspec.structs.replace(equipment.resources, watch=self._watchdog)
        return equipment._replace(resources=resources)


async def _work(
    address: str,
    log: "EventLog",
    config: "Config",
    settings: "WorkerSettings",
    served: tuple[str, int] | None,
    watchdog: "Watchdog | None",
) -> int:
    from evalwright.engine.fleet.database import FleetDatabase
    from evalwright.engine.fleet.status import serve_metrics
    from evalwright.engine.fleet.worker import Worker
    from evalwright.host.runs.fleet import FleetLimits

    database = FleetDatabase(address, log)
    limits = FleetLimits(database, config)
    await limits.declare()
    equipper = _AnyEquipper(log, config, limits, watchdog)
    worker = Worker(database, equipper, settings, may_be_held=True)
    if watchdog is not None:
        watchdog.advise(
            f"worker {settings.name}: other workers go on with its tasks; a task that ends "
            f"{settings.most_attempts} of them fails; for agents of hosts, the settings have "
            "`isolate = true`"
        )
        watchdog.beat(asyncio.get_running_loop())
    whose = f" of {', '.join(settings.tenants)}" if settings.tenants else ""
    say(
        f"worker {settings.name}: up to {settings.concurrency} tasks{whose} at once, "
        f"log in {log.place}"
    )
    try:
        async with serve_metrics(database, served) as place:
            if place:
                say(f"worker {settings.name}: metrics on {place}")
            await _until_signalled(worker)
    finally:
        await database.close()
    say(f"worker {settings.name}: stopped, {worker.tasks_done} tasks done")
    return 0


async def _until_signalled(worker: "Worker") -> None:
    """Work; the first signal lets tasks end, the second ends them.

    Not by `add_signal_handler`, which would have the event loop hear signals, and nobody else.
    """
    loop, working = asyncio.get_running_loop(), asyncio.ensure_future(worker.run())
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}

    def have_done(action: Callable[[], object]) -> None:
        for each in before:
            signal.signal(each, lambda *_: loop.call_soon_threadsafe(action))

    def stop() -> None:
        have_done(working.cancel)
        say(f"worker {worker.settings.name}: no more tasks; a second signal stops at once")
        worker.drain()

    have_done(stop)
    try:
        await working
    except asyncio.CancelledError:
        raise Interrupted("interrupted; other workers go on with the tasks") from None
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)

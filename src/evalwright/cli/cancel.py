"""`evalwright cancel`: end a run that is handed to workers, or that nobody executes."""

import asyncio
from typing import TYPE_CHECKING

import click
import msgspec

from evalwright.cli.output import say
from evalwright.cli.parameters import db_option, postgres_address
from evalwright.contracts.errors import BadInput
from evalwright.contracts.events import RunCancelled
from evalwright.engine.clock import SystemClock
from evalwright.engine.runs import find_run
from evalwright.store.location import existing_log
from evalwright.store.protocol import NewEvent

if TYPE_CHECKING:
    from evalwright.store.protocol import EventLog

EXAMPLES = """\b
Examples:
  evalwright cancel latest --db postgresql://db.example/evals
  evalwright cancel run_01k --reason 'wrong model'
"""


@click.command(epilog=EXAMPLES)
@click.argument("run", metavar="RUN")
@click.option("--reason", help="Why, for the log.")
@db_option
def command(*, run: str, reason: str | None, db: str | None) -> int:
    """Cancel RUN, by its id, the beginning of one, or `latest`.

    Workers stop working on a run that was handed to them; tasks that have a score keep it. A run
    that a command executes is cancelled with Ctrl-C, and one of a host through its API.
    """
    with existing_log(db) as log:
        run_id = find_run(log, run)
        facts = log.facts(run_id)
        if facts.ended_us is not None:
            raise BadInput(f"run {run_id} has ended: {facts.status}")
        ending, address = _ending(log, run_id, reason), postgres_address(db)
        if not (address and asyncio.run(_cancel_in_fleet(address, log, run_id, ending))):
            with log.claim(run_id):
                log.append(run_id, [ending])
                log.flush(run_id).result()
    say(f"run {run_id} is cancelled")
    return 0


def _ending(log: "EventLog", run_id: str, reason: str | None) -> NewEvent:
    from evalwright.signals.masking.credentials import mask_reason

    now = SystemClock().now_us()
    duration_ms = max(0, now - log.facts(run_id).started_us) // 1000
    cancelled = RunCancelled(mask_reason(reason), "cli", duration_ms)
    return NewEvent(cancelled.TYPE, None, now, msgspec.json.encode(cancelled))


async def _cancel_in_fleet(address: str, log: "EventLog", run_id: str, ending: NewEvent) -> bool:
    from evalwright.engine.fleet.database import FleetDatabase
    from evalwright.engine.fleet.handover import FleetRuns

    database = FleetDatabase(address, log)
    try:
        return await FleetRuns(database, SystemClock()).end(run_id, [ending])
    finally:
        await database.close()

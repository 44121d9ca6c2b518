"""`evalwright serve`: the HTTP host."""

import os
import shlex
from contextlib import closing
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from evalwright.cli.awaited_log import awaited_log
from evalwright.cli.output import say, warn
from evalwright.cli.parameters import (
    chosen_config,
    config_option,
    configured_db,
    fleet_address,
    plain_db_option,
)
from evalwright.contracts.errors import BadInput
from evalwright.store.location import HOST_PATIENCE, shown_db
from evalwright.store.records import LOCAL_TENANT

if TYPE_CHECKING:
    from evalwright.host.http.extension import Extension

EXAMPLES = """\b
Examples:
  evalwright serve
  evalwright serve --port 9000 --db evals.db --config evalwright.toml
  evalwright serve --db postgresql://evals@db.example/evals
"""
FIRST_KEY = """
A key for tenant {tenant}, shown only now:

  {key}

Sign in with it at {url}/ in a browser, or try the API:

  curl -s -X POST {url}/v1/runs -H 'Authorization: Bearer {key}' \\
    -H 'Content-Type: application/json' \\
    -d '{{"mode":"eval","evalSuiteRef":"{suite}","agentId":"{agent}"}}'

More keys: evalwright keys create --tenant NAME{db}
"""
CONFORMANCE = """
******************************************************************************************
* CONFORMANCE MODE: test seams and fixture workflows are open to every key of this host. *
* Never use it with real data.                                                           *
******************************************************************************************
"""
NO_CONFORMANCE = (
    "--conformance: the package evalwright_conformance is not found. It is not installed with"
    " Evalwright: in a checkout of its repository, set PYTHONPATH=tools/conformance"
)


@click.command(epilog=EXAMPLES)
@click.option(
    "--host",
    "address",
    default="127.0.0.1",
    show_default=True,
    envvar="EVALWRIGHT_HOST",
    show_envvar=True,
    help="The address to listen on.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8787,
    show_default=True,
    envvar="EVALWRIGHT_PORT",
    show_envvar=True,
    help="The port to listen on; 0 means any free port.",
)
@click.option(
    "--conformance",
    is_flag=True,
    help="Add the test seams of the conformance suite; for tests only.",
)
@click.option(
    "--workers",
    is_flag=True,
    help="Hand evaluations to the workers of a log in PostgreSQL in place of executing them here.",
)
@config_option
@plain_db_option
def command(
    *,
    address: str,
    port: int,
    config: Path | None,
    conformance: bool,
    workers: bool,
    db: str | None,
) -> int:
    """Serve evaluation runs over HTTP, for many tenants.

    Without configuration it keeps its log in SQLite, offers a bundled agent and suite, and prints a
    key and a command to try. Ctrl-C stops it cleanly: runs are resumed at the next start.
    """
    from evalwright.host.access.vault import Vault
    from evalwright.host.host import Host
    from evalwright.host.http.server import create_server, open_socket, serve
    from evalwright.host.http.startup_checks import check_settings
    from evalwright.host.telemetry.logs import logging_to
    from evalwright.host.telemetry.telemetry import Telemetry
    from evalwright.host.telemetry.traces import open_tracer

    settings = chosen_config(config)
    db = configured_db(db, settings)
    if workers:
        fleet_address(db)
        settings = msgspec.structs.replace(settings, host={**settings.host, "workers": True})
    # Say of which providers the calls do not go to their own address.
    from evalwright.models.endpoints import find_detour, known_providers

    for provider in known_providers(settings).values():
        detour = find_detour(provider, settings)
        if detour is not None:
            warn(detour)
    listener = open_socket(address, port)
    with logging_to(), closing(awaited_log(db, HOST_PATIENCE)) as log:
        vault = Vault.for_database(log.place, os.environ)
        vault.check()
        host = Host(
            log,
            settings,
            extension=_extension(conformance=conformance),
            open_telemetry=lambda clock, endpoint: Telemetry(
                clock, open_tracer(os.environ, endpoint), settings.models
            ),
            vault=vault,
        )
        check_settings(host, settings.source)
        url = _url(address, listener.getsockname()[1])
        # For a host without keys: one, and what to try with it.
        from evalwright.host.access.keys import create_key, has_keys
        from evalwright.host.library.catalogue import BUNDLED_AGENT

        first_key = None
        if not has_keys(host.records):
            key, _ = create_key(host.records, datetime.now(UTC), LOCAL_TENANT)
            bundled = host.catalogue.agent(LOCAL_TENANT, BUNDLED_AGENT)
            suite = bundled.eval_suite_ref if bundled else "SUITE@VERSION"
            agent = bundled.agent_id if bundled else "AGENT"
            at = f" --db {shlex.quote(shown_db(db))}" if db else ""
            first_key = FIRST_KEY.format(
                tenant=LOCAL_TENANT, key=key, url=url, suite=suite, agent=agent, db=at
            )

        def greet() -> None:
            if conformance:
                say(CONFORMANCE)
            say(f"evalwright: listening on {url}, log in {log.place}")
            if first_key is not None:
                say(first_key)

        serve(create_server(host, greet), listener)
    return 0


def _extension(*, conformance: bool) -> "Extension":
    if not conformance:
        from evalwright.host.http.extension import NO_EXTENSION

        return NO_EXTENSION
    if find_spec("evalwright_conformance") is None:
        raise BadInput(NO_CONFORMANCE)
    from evalwright_conformance import EXTENSION

    return EXTENSION


def _url(address: str, port: int) -> str:
    return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"

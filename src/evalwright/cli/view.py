"""`evalwright view`: the local log in the browser."""

import os
import sys
from pathlib import Path

import click

from evalwright.cli.output import echo, say
from evalwright.cli.parameters import chosen_config, config_option, configured_db, plain_db_option

EXAMPLES = """\b
Examples:
  evalwright view
  evalwright view latest
  evalwright view --db evals.db --port 8800 --no-browser
"""
ADDRESS = "127.0.0.1"  # nobody else can open it


@click.command(epilog=EXAMPLES)
@click.argument("run", required=False)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default="any free port",
    help="The port to listen on, at 127.0.0.1.",
)
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@config_option
@plain_db_option
def command(
    *, run: str | None, port: int, no_browser: bool, config: Path | None, db: str | None
) -> int:
    """Open the log in the browser: runs, scorecards, traces, comparisons; or RUN.

    The address on stdout works once and only on this machine: the browser that opens it first is
    let in until the command ends, with Ctrl-C.
    """
    import logging
    import threading
    import webbrowser
    from contextlib import closing

    from evalwright.engine.runs import find_runs, log_for
    from evalwright.host.host import Host
    from evalwright.host.http.server import create_server, open_socket, serve
    from evalwright.host.telemetry.logs import logging_to
    from evalwright.host.web.folder_runs import FolderRuns
    from evalwright.host.web.sign_in import LinkSignIn
    from evalwright.store.location import HOST_PATIENCE, opened_log

    settings = chosen_config(config)
    folder = FolderRuns(Path.cwd(), db, settings, config)
    db = configured_db(db, settings)
    path = "/"
    if run is not None:
        with log_for(db, run) as log:
            path = f"/runs/{find_runs(log, run)[-1]}"
    listener = open_socket(ADDRESS, port, "choose another with --port")
    sign_in = LinkSignIn(listener.getsockname()[1], folder, path)
    quietly = logging_to(level=logging.WARNING)
    with quietly, opened_log(db, HOST_PATIENCE) as log, closing(folder):

        def greet() -> None:
            say(f"evalwright: the log in {log.place}; Ctrl-C ends it. Open:")
            echo(sign_in.link)
            if not no_browser and _has_screen():
                threading.Thread(target=webbrowser.open, args=(sign_in.link,), daemon=True).start()

        host = Host(log, settings, takes_part=False)
        serve(create_server(host, greet, sign_in), listener)
    return 0


def _has_screen() -> bool:
    """Whether a browser has somewhere to appear: one in the terminal would be in the way."""
    return sys.platform in ("darwin", "win32") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    )

"""The option that names the log."""

import click

from evalwright.store.location import VARIABLE

db_option = click.option(
    "--db",
    metavar="URL",
    help=f"The event log, a file or sqlite:///path; else ${VARIABLE}, else the user's data folder.",
)

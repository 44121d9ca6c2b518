"""`evalwright schema`: the JSON Schemas that documents are checked by."""

import click
import msgspec

from evalwright.cli.output import echo, room, write_stdout
from evalwright.contracts.schema import published_schemas
from evalwright.reports.formats.console import definitions


@click.command(epilog="Example: evalwright schema suite > suite.schema.json")
@click.argument("name", required=False)
def command(*, name: str | None) -> None:
    """Print the JSON Schema called NAME; without one, list them.

    An editor completes a suite by its schema, with this as the first line of the file:
    # yaml-language-server: $schema=suite.schema.json
    """
    known = published_schemas()
    if name is None:
        lines = definitions(known.items(), room())
        echo("\n".join(lines), styled=True)
        return
    from evalwright.contracts.schema import EARLIER_NAMES, load_schema

    if name not in known and name not in EARLIER_NAMES:
        raise click.BadParameter(f"no such schema: {name} (there are: {', '.join(known)})")
    write_stdout(msgspec.json.format(msgspec.json.encode(load_schema(name)), indent=2) + b"\n")

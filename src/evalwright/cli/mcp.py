"""`evalwright mcp`: the log for coding agents."""

import click

from evalwright.cli.parameters import db_option

EXAMPLES = """\b
Examples:
  evalwright mcp --db evals.db
  claude mcp add evalwright -- evalwright mcp
  code --add-mcp '{"name":"evalwright","command":"evalwright","args":["mcp"]}'
"""


@click.command(epilog=EXAMPLES)
@db_option
def command(*, db: str | None) -> None:
    """Serve the log to coding agents, over MCP on standard input and output.

    It only reads: runs, their failures, single tasks, comparisons and baselines. Secrets are
    masked. It needs the extra `mcp`.
    """
    from evalwright.mcp_server import create_mcp_server

    create_mcp_server(db).run("stdio")

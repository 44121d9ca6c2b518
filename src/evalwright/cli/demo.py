"""`evalwright demo`: the bundled suite against the bundled agent."""

import shlex
import shutil
import sys

import click

from evalwright.cli.bundled import bundled
from evalwright.cli.options import db_option
from evalwright.cli.output import tell, write_stdout
from evalwright.cli.results import Results
from evalwright.cli.run import Request, execute
from evalwright.engine.plan import RunOptions

NEXT = """
One task failed, and the run passed all the same: its score is above the suite's bar of 0.8.
What to try next:

  {evalwright} show latest{db}                                    the failures in full
  {evalwright} show latest{db} --task refund-window-for-members   one task, event by event
  {evalwright} show latest{db} --events --json                    the log, as JSON lines
  {evalwright} replay latest{db}                                  the summary again, from the log
  {evalwright} init my-evals                                  a suite and an agent of your own
"""


@click.command(epilog="Example: evalwright demo")
@db_option
def command(*, db: str | None) -> int:
    """Run the bundled suite against the bundled agent and say what to try next."""
    folder = bundled("demo")
    results = Results(write_stdout, as_json=False, junit=None, out=None, quiet=False)
    request = Request(
        suite=folder / "suite.yaml",
        agent=f"{folder / 'agent.py'}:answer",
        agent_id="local.evalwright.support-desk",
        model_class=None,
        resume=None,
        options=RunOptions(tags=("demo",)),
        results=results,
        db=db,
    )
    code = execute(request)
    tell(NEXT.format(evalwright=_command_name(), db=f" --db {shlex.quote(db)}" if db else ""))
    return code


def _command_name() -> str:
    """The command as the user can type it here: by its path, where it is not on the search path."""
    return "evalwright" if shutil.which("evalwright") else sys.argv[0]

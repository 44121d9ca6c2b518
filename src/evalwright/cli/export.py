"""`evalwright export`: a suite in a form that other tools read."""

from pathlib import Path

import click

from evalwright.cli.output import check_place, print_exit, say, write_file
from evalwright.contracts.errors import BadInput
from evalwright.contracts.short_names import suite_name
from evalwright.contracts.suite import Suite
from evalwright.engine.suites.loader import read_subject

_MOST_NAMED = 100


@click.command(epilog="Example: evalwright export suite.yaml --openwop portable.yaml")
@click.argument("suite", type=click.Path(path_type=Path))
@click.option(
    "--openwop",
    "out",
    metavar="OUT",
    required=True,
    type=click.Path(path_type=Path),
    help="Write an OpenWOP suite (AgentEvalSuite) to this file, as YAML or JSON by its name.",
)
@click.option(
    "--lossy", is_flag=True, help="Write it also if an OpenWOP suite cannot say everything."
)
def command(*, suite: Path, out: Path, lossy: bool) -> int:
    """Write SUITE as an OpenWOP suite, for any host.

    What an OpenWOP suite cannot say is listed task by task; then nothing is written, and the exit
    code is 1. With --lossy each task keeps the first check that can be said.
    """
    from evalwright.cli.attack import suite_file
    from evalwright.engine.suites.export import to_portable

    check_place(out)
    if out.exists() and out.samefile(suite):
        raise BadInput(f"--openwop {out}: this is the suite itself; name another file")
    subject = read_subject(suite, None)
    portable, losses = to_portable(subject.suite)
    for loss in losses[:_MOST_NAMED]:
        of_task = "" if loss.task_id is None else f"task {loss.task_id}: "
        say(f"{suite}: {of_task}cannot be said: {loss.what}")
    if len(losses) > _MOST_NAMED:
        say(f"{suite}: and {len(losses) - _MOST_NAMED} more")
    if losses and not lossy:
        tasks = len({loss.task_id for loss in losses} - {None})
        count = f"{tasks} of {_count(subject.suite)}" if tasks else "it"
        say(f"{suite}: {count} would lose something; nothing is written")
        say("write it as far as it goes with --lossy")
        return print_exit(1, "nothing was written", aside=True)
    if not portable.tasks:
        raise BadInput(f"{suite}: nothing of it can be said in an OpenWOP suite")
    write_file(out, [suite_file(portable, out.name)])
    say(f"{suite_name(portable.suite_id)}: {_count(portable)} in {out}")
    return 0


def _count(suite: Suite) -> str:
    return f"{len(suite.tasks)} task{'s' if len(suite.tasks) != 1 else ''}"

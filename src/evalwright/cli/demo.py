"""`evalwright demo`: the bundled suites against the bundled agents."""

import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from evalwright.agents.bundled import bundled
from evalwright.cli.evaluation import RunRequest, evaluate
from evalwright.cli.output import Emit, echo, print_exit, write_stdout
from evalwright.cli.parameters import db_option
from evalwright.cli.results import Results
from evalwright.contracts.run_plan import RunOptions
from evalwright.contracts.summary import EvalSummary
from evalwright.models.config import Config
from evalwright.store.location import shown_db

BAR = """
One task failed, and the run still passed: its score is above the bar of 0.8.
"""
ATTACKS = """\
Then {count} tasks with attacks, for an assistant that obeys whatever it reads and for
one that treats what it reads as data. Tasks with each safety finding:
"""
NEXT = """
A task with a finding of high or critical severity does not pass.

What to try next:

  {evalwright} show latest{db}                      the failures in full
  {evalwright} show latest{db} --table              the same on a line each
  {evalwright} show latest{db} --events --json      the log, as JSON lines
  {evalwright} replay latest{db}                    the summary again, from the log
  {evalwright} init my-evals                    your own suite and agent
  {evalwright} init my-attacks --adversarial    the attacks and both assistants
"""
LOCAL = """
A model of 135 million parameters has answered these tasks, called a tool and judged itself, on this
machine. It is weak: its verdicts are close to chance, and nothing should depend on them.

What to try next:

  {evalwright} show latest{db} --events                   what it was asked and what it did
  {evalwright} prompts PROMPT.md -t 1 -m local:smollm2    have it judge a prompt of yours
"""
LOCAL_MODEL = "local:smollm2"
_NAME, _COUNT = 32, 12  # the widths of columns


@click.command(epilog="Examples: evalwright demo, evalwright demo --local")
@click.option(
    "--local", is_flag=True, help="Run a small model on this machine, as the agent and as a judge."
)
@db_option
def command(*, db: str | None, local: bool) -> int:
    """Run the bundled suites against the bundled agents and say what to try next.

    The assistant that falls for the attacks is only an example: the exit code depends on the other
    one and on the support desk.
    """
    if local:
        options = RunOptions(
            tags=("demo",),
            model=LOCAL_MODEL,
            judges=(LOCAL_MODEL,),
            allow_self_judge=True,
            fail_on=("none",),
        )
        folder = bundled("local")
        results = _results(write_stdout, quiet=False)
        code = _evaluate(
            folder / "suite.yaml", str(folder / "agent.json"), None, options, results, db
        )
        if code == 0:
            echo(LOCAL.format(evalwright=_command_name(), db=_at(db)))
        return print_exit(code) if code else 0
    # The support desk comes last: the hints refer to the latest run.
    _, vulnerable = _under_attack("vulnerable", db)
    withstood, hardened = _under_attack("hardened", db)
    code = _run("demo", "answer", "support-desk", _results(write_stdout, quiet=False), db)
    echo(BAR)
    echo(ATTACKS.format(count=hardened.task_count))
    for line in _table(vulnerable, hardened):
        echo(line)
    echo(NEXT.format(evalwright=_command_name(), db=_at(db)))
    failed = code or withstood
    return print_exit(failed) if failed else 0


def _under_attack(agent: str, db: str | None) -> tuple[int, EvalSummary]:
    """The exit code and the summary of an assistant under attack; nothing is printed."""
    printed: list[bytes] = []
    code = _run("adversarial", agent, f"{agent}-office", _results(printed.append, quiet=True), db)
    return code, msgspec.json.decode(b"".join(printed), type=EvalSummary)


def _results(emit: Emit, *, quiet: bool) -> Results:
    return Results(emit=emit, as_json=quiet, forms={}, out=None, quiet=quiet)


def _run(suite: str, agent: str, name: str, results: Results, db: str | None) -> int:
    folder = bundled(suite)
    ref, options = f"{folder / 'agent.py'}:{agent}", RunOptions(tags=("demo",))
    agent_id = f"local.evalwright.{name}"
    return _evaluate(folder / "suite.yaml", ref, agent_id, options, results, db)


def _evaluate(
    suite: Path,
    agent: str,
    agent_id: str | None,
    options: RunOptions,
    results: Results,
    db: str | None,
) -> int:
    request = RunRequest(
        suite=suite,
        agent=agent,
        agent_id=agent_id,
        options=options,
        results=results,
        db=db,
        config=Config(),  # nothing in the working folder matters to it
    )
    return evaluate(request)


def _table(vulnerable: EvalSummary, hardened: EvalSummary) -> Iterator[str]:
    weak, strong = _tasks_by_kind(vulnerable), _tasks_by_kind(hardened)
    yield _row("", "vulnerable", "hardened")
    for kind in sorted(weak.keys() | strong.keys(), key=lambda kind: (-weak[kind], kind)):
        yield _row(kind, str(weak[kind]), str(strong[kind]))
    passed = [f"{each.passed_count} of {each.task_count}" for each in (vulnerable, hardened)]
    yield _row("tasks passed", *passed)


def _tasks_by_kind(summary: EvalSummary) -> Counter[str]:
    found = (finding for task in summary.tasks for finding in task.safety_findings or ())
    return Counter(finding.kind for finding in found)


def _row(name: str, *columns: str) -> str:
    return f"  {name:{_NAME}}" + "".join(f"{column:>{_COUNT}}" for column in columns)


def _command_name() -> str:
    """The command as the user can type it here: by its path, where it is not on the search path."""
    return "evalwright" if shutil.which("evalwright") else sys.argv[0]


def _at(db: str | None) -> str:
    return f" --db {shlex.quote(shown_db(db))}" if db else ""

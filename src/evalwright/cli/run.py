"""`evalwright run`: run suites against agents, or resume a run."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from evalwright.cli.evaluation import RunRequest, evaluate
from evalwright.cli.output import reserve_stdout, write_stdout
from evalwright.cli.parameters import (
    DOLLARS,
    SECONDS,
    config_option,
    db_option,
    form_options,
    json_option,
    secrets_option,
    wanted_forms,
)
from evalwright.cli.results import Results
from evalwright.contracts.errors import BadInput
from evalwright.contracts.planning import (
    MAX_CONCURRENCY,
    MAX_JUDGE_SAMPLES,
    MAX_REPEATS,
    FailOn,
    RunOptions,
)
from evalwright.contracts.suite import Mode
from evalwright.engine.plan import DEFAULT_SETTINGS, refuse_combinations
from evalwright.reports.forms import FORMS_OF

if TYPE_CHECKING:
    from evalwright.engine.selection import Wanted

COLUMNS = ("inputs", "expected", "id", "checks")
CHOOSING = ("tasks", "tagged", "failed", "errors", "sample", "seed", "limit")
EXAMPLES = """\b
Examples:
  evalwright run suite.yaml --agent agent.py:answer
  evalwright run questions.csv --agent agent.py:answer --expected answer --check contains
  evalwright run suite.yaml --agent http://127.0.0.1:8000/invoke --concurrency 20
  evalwright run suite.yaml --agent 'cmd:node agent.js' --junit report.xml
  evalwright run suite.yaml --agent agent.json --model openai:gpt-4.1-mini --max-cost 2
  evalwright run suite.yaml --agent agent.py:answer --judge anthropic:claude-sonnet-4-5
  evalwright run suite.yaml --agent agent.py:answer --baseline latest --repeat 5
  evalwright run shop.tgz --agent vendor.acme.shop.desk --model openai:gpt-4.1-mini
  evalwright run suite.yaml --host https://evals.example --agent vendor.acme.shop.desk
  evalwright run suites/ --agent agent.py:answer --junit report.xml
  evalwright run suite.yaml --agent agent.py:answer --task 'order-*' --watch
  evalwright run suite.yaml --agent agent.json --model openai:gpt-4.1 --model openai:gpt-4.1-mini
  evalwright run suite.yaml --agent agent.py:answer --failed
  evalwright run --resume latest
"""


@click.command(epilog=EXAMPLES)
@click.argument("suites", nargs=-1, metavar="[SUITE]...", type=click.Path(path_type=Path))
@click.option(
    "--agent",
    "agents",
    metavar="REF",
    multiple=True,
    help="module:callable, path/file.py:callable, an http(s):// address, cmd:PROGRAM ARGS, "
    "an agent manifest, or with a pack or a host the id of an agent in it; may be given several "
    "times: one run each, side by side.",
)
@click.option(
    "--host",
    metavar="URL",
    help="Run the suite on a host and follow it; set its key in $EVALWRIGHT_KEY.",
)
@click.option(
    "--model",
    "models",
    metavar="NAME",
    multiple=True,
    help="The model of a manifest agent: provider:model; may be given several times: one run "
    "each, side by side.",
)
@click.option(
    "--task",
    "tasks",
    metavar="GLOB",
    multiple=True,
    help="Run only tasks whose id fits, for example 'order-*'; may be given several times.",
)
@click.option(
    "--tagged",
    metavar="TAG",
    multiple=True,
    help="Run only tasks with this tag; may be given several times.",
)
@click.option("--limit", type=click.IntRange(1), help="Run only the first so many tasks.")
@click.option("--sample", type=click.IntRange(1), help="Run only so many tasks, at random.")
@click.option("--seed", type=int, help="Which random tasks --sample takes.")
@click.option(
    "--failed",
    metavar="[RUN]",
    is_flag=False,
    flag_value="",
    help="Run only the tasks that failed in a run; without RUN, in the latest of this suite.",
)
@click.option(
    "--errors",
    metavar="[RUN]",
    is_flag=False,
    flag_value="",
    help="Run only the tasks that ended in an error in a run, chosen like that of --failed.",
)
@click.option(
    "--input",
    "inputs",
    metavar="COLUMN",
    multiple=True,
    help="A column of a data file that the agent receives; may be given several times.",
)
@click.option("--expected", metavar="COLUMN", help="The column of a data file with the answer.")
@click.option("--id", metavar="COLUMN", help="The column of a data file with ids of tasks.")
@click.option(
    "--check",
    "checks",
    metavar="NAME[=VALUE]",
    multiple=True,
    help="A check for every row of a data file, of the expected answer if without a value; may "
    "be given several times.",
)
@click.option(
    "--mode",
    "modes",
    type=click.Choice(get_args(Mode)),
    multiple=True,
    help="An eval mode; may be given several times.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, MAX_CONCURRENCY),
    show_default=str(DEFAULT_SETTINGS.concurrency),
    help="How many tasks run at once.",
)
@click.option(
    "--timeout",
    "task_timeout_s",
    type=SECONDS,
    show_default=f"{DEFAULT_SETTINGS.task_timeout_s:g}",
    help="Seconds that one task may take.",
)
@click.option(
    "--run-timeout",
    "run_timeout_s",
    type=SECONDS,
    help="Seconds that the whole run may take.",
)
@click.option("--tag", "tags", multiple=True, help="A tag for the run; may be given several times.")
@click.option("--agent-id", help="The agent's id, if its reference does not give one.")
@click.option("--model-class", help="The class of model behind the agent.")
@click.option(
    "--allow-mismatch",
    is_flag=True,
    help="Run even if targetAgentId or allowedModels do not match the agent.",
)
@click.option(
    "--judge",
    "judges",
    metavar="NAME",
    multiple=True,
    help="A model that judges answers; may be given several times, then the majority decides.",
)
@click.option(
    "--judge-samples",
    type=click.IntRange(1, MAX_JUDGE_SAMPLES),
    show_default="1",
    help="How often each judge is asked about an answer.",
)
@click.option(
    "--allow-self-judge", is_flag=True, help="Let the model of the agent judge its own answers."
)
@click.option(
    "--baseline", metavar="RUN", help="Compare with this run, of the same suite and version."
)
@click.option(
    "--allow-partial", is_flag=True, help="Let a run of a part of the suite be the baseline."
)
@click.option(
    "--repeat",
    type=click.IntRange(1, MAX_REPEATS),
    default=1,
    show_default=True,
    help="Run this many times, one log each, and show which tasks are flaky.",
)
@click.option(
    "--flaky-as",
    type=click.Choice(["fail", "warn"]),
    show_default="warn",
    help="Whether a task that passes only sometimes makes the exit code 1.",
)
@click.option(
    "--fail-on",
    type=click.Choice(get_args(FailOn)),
    multiple=True,
    help="What makes the exit code 1; may be given several times.  [default: threshold; in an "
    "adversarial run also findings; with a baseline also regression]",
)
@click.option(
    "--tools",
    type=click.Path(),
    help="A file that describes tools and how to call live ones.",
)
@click.option(
    "--read-only", is_flag=True, help="Refuse live tools that may write (with live-shadow)."
)
@click.option(
    "--gateway",
    is_flag=True,
    help="Offer the task's tools to an http or cmd agent through an MCP server on loopback.",
)
@click.option(
    "--max-cost",
    "max_cost_usd",
    type=DOLLARS,
    help="The most that the run may cost, in US dollars.",
)
@click.option(
    "--task-cost",
    "task_cost_usd",
    type=DOLLARS,
    help="What a task is expected to cost, in US dollars (with --max-cost).",
)
@click.option(
    "--cassette",
    type=click.Path(),
    help="Answer model calls from this file, without a network.",
)
@click.option(
    "--record",
    is_flag=True,
    help="Make calls that are missing from the cassette, and add them.",
)
@click.option(
    "--resume",
    metavar="RUN",
    help="Resume a stopped or failed run; with --host, follow a run again.",
)
@click.option(
    "--watch", is_flag=True, help="Run again when the suite, its data or the agent change."
)
@form_options("run", "Write a {title} report to this file.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Write summary.json, events.jsonl and scorecard.txt to this folder.",
)
@click.option("--quiet", is_flag=True, help="Print errors only.")
@secrets_option
@json_option
@config_option
@db_option
def command(
    *,
    suites: tuple[Path, ...],
    agents: tuple[str, ...],
    models: tuple[str, ...],
    resume: str | None,
    watch: bool,
    as_json: bool,
    out: Path | None,
    **given: Any,
) -> int:
    """Run each SUITE against an agent and print its scorecard.

    SUITE is a file, a folder that is searched for suites, or a pack, in which the agent names it.
    It may also be a data file with a task in each row: CSV, TSV, JSON, JSONL, YAML or Parquet.

    --resume continues a run that was stopped or failed; tasks that already have a score are not
    invoked again.
    """
    columns = _taken(given, COLUMNS)
    wanted, suites = _wanted(_taken(given, CHOOSING), suites, resume)
    if bool(suites) == (resume is not None):
        both = ", not both" if suites else ""
        raise BadInput(f"name a suite, or a run with --resume{both}; try `run --help`")
    if watch:
        from evalwright.cli.watch import run_again_on_change

        return run_again_on_change(suites, agents, [out, *map(given.get, FORMS_OF["run"])])
    host: str | None = given.pop("host")
    if host is not None:
        from evalwright.cli import remote

        remote.refuse_options(click.get_current_context(), is_resumed=resume is not None)
    emit = reserve_stdout() if as_json else write_stdout
    asked, out = wanted_forms("run", given), out and out.absolute()  # an agent may change folder
    forms = {name: path.absolute() for name, path in asked.items()}
    shown = {name: given.pop(name) for name in ("quiet", "show_secrets")}
    others = {name: given.pop(name) for name in ("agent_id", "model_class", "db", "config")}
    options = RunOptions(**given, model=models[0] if models else None)  # each by its own name
    refuse_combinations(options, is_resumed=resume is not None)
    request = RunRequest(
        suite=suites[0] if suites else None,
        agent=agents[0] if agents else None,
        resume=resume,
        options=options,
        results=Results(emit=emit, as_json=as_json, forms=forms, out=out, **shown),
        wanted=wanted,
        columns=columns,
        **others,
    )
    request.results.check_places()
    if host is not None:
        return remote.evaluate(host, request, [suites, agents])
    if max(map(len, (suites, agents, models))) <= 1 and not any(map(Path.is_dir, suites)):
        return evaluate(request)
    from evalwright.cli.several import evaluate_several

    return evaluate_several(request, suites, agents, models)


def _wanted(
    chosen: dict[str, Any], suites: tuple[Path, ...], resume: str | None
) -> "tuple[Wanted | None, tuple[Path, ...]]":
    if not chosen:
        return None, suites
    from evalwright.cli.selecting import wanted_tasks

    return wanted_tasks(chosen, suites, resume)


def _taken(given: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """What was chosen of these options, taken out of all that are given."""
    return {name: value for name in names if (value := given.pop(name)) not in (None, ())}

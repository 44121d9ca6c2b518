"""`evalwright run`: run suites against agents, or resume a run."""

from pathlib import Path
from typing import Any, get_args

import click

from evalwright.cli.parameters import (
    DOLLARS,
    SECONDS,
    cassette_option,
    config_option,
    fail_on_option,
    form_options,
    github_option,
    json_option,
    judge_samples_option,
    model_timeout_option,
    out_option,
    plain_db_option,
    quiet_option,
    record_option,
    scoring_timeout_option,
    secrets_option,
    tags_option,
)
from evalwright.contracts.coverage import Observe, ToolsClaim, UsageClaim
from evalwright.contracts.run_plan import (
    DEFAULT_SETTINGS,
    MAX_CONCURRENCY,
    MAX_REPEATS,
)
from evalwright.contracts.suite import Mode

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
  evalwright run suite.yaml --agent shop.agent:answer --db postgresql://db.example/evals --workers
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
@click.option(
    "--seed",
    type=int,
    help="Which tasks --sample takes, which ids worlds make, and when faults strike.",
)
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
@click.option(
    "--agent-tools",
    type=click.Choice(get_args(ToolsClaim)),
    help="Claim of an agent whose tool calls nobody observes: it makes none, or all by `task`.",
)
@click.option(
    "--agent-usage",
    type=click.Choice(get_args(UsageClaim)),
    help="Claim of an agent whose model calls nobody observes: it makes none.",
)
@click.option(
    "--observe",
    type=click.Choice(get_args(Observe)),
    show_default="auto",
    help="Observe a Python agent by the OpenTelemetry spans that its libraries make: never, by all "
    "means, or where the agent's code loads OpenTelemetry.",
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
@scoring_timeout_option
@model_timeout_option
@tags_option
@click.option("--title", help="What is tried, for lists of runs.  [default: subject of the commit]")
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
@judge_samples_option
@click.option(
    "--embedding-model",
    metavar="NAME",
    help="A model of embeddings, for checks by meaning: provider:model.",
)
@click.option(
    "--user-model",
    metavar="NAME",
    help="A model that plays the users of conversations: provider:model.",
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
    "--allow-no-baseline",
    is_flag=True,
    help="Run a suite that has no baseline of that name yet without one, and say so.",
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
@fail_on_option
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
    "--isolate",
    is_flag=True,
    help="Run an agent in Python in child processes, which can be stopped whatever it does.",
)
@click.option(
    "--otlp",
    is_flag=True,
    help="Receive the OpenTelemetry spans of an http or cmd agent on loopback, and observe by them "
    "what it does.",
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
    "--max-tokens-total",
    type=click.IntRange(1),
    help="The most tokens that the run may use, those of agents and judges together.",
)
@cassette_option
@record_option
@click.option(
    "--resume",
    metavar="RUN",
    help="Resume a stopped or failed run; with --host, follow a run again.",
)
@click.option(
    "--workers",
    is_flag=True,
    help="Hand the run to the workers of a log in PostgreSQL, and follow it.",
)
@click.option(
    "--priority",
    type=click.IntRange(-1000, 1000),
    help="Higher is sooner, among the runs of a tenant that share workers (with --workers).",
)
@click.option(
    "--watch", is_flag=True, help="Run again when the suite, its data or the agent change."
)
@form_options("run", "Write a {title} report to this file.")
@github_option
@out_option
@quiet_option
@secrets_option
@json_option
@config_option
@plain_db_option
def command(**given: Any) -> int:
    """Run each SUITE against an agent and print its scorecard.

    SUITE is a file, a folder that is searched for suites, or a pack, in which the agent names it.
    It may also be a data file with a task in each row: CSV, TSV, JSON, JSONL, YAML or Parquet.
    Without one, the suites of the settings file are run.

    --resume continues a run that was stopped or failed; tasks that already have a score are not
    invoked again.
    """
    from evalwright.cli.evaluation import start  # completion and help need only the options

    return start(given)

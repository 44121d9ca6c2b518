"""`evalwright run`: run a suite against an agent, or resume a run."""

from pathlib import Path
from typing import Any, get_args

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

EXAMPLES = """\b
Examples:
  evalwright run suite.yaml --agent agent.py:answer
  evalwright run suite.yaml --agent http://127.0.0.1:8000/invoke --concurrency 20
  evalwright run suite.yaml --agent 'cmd:node agent.js' --junit report.xml
  evalwright run suite.yaml --agent agent.json --model openai:gpt-4.1-mini --max-cost 2
  evalwright run suite.yaml --agent agent.py:answer --judge anthropic:claude-sonnet-4-5
  evalwright run suite.yaml --agent agent.py:answer --baseline latest --repeat 5
  evalwright run shop.tgz --agent vendor.acme.shop.desk --model openai:gpt-4.1-mini
  evalwright run suite.yaml --host https://evals.example --agent vendor.acme.shop.desk
  evalwright run --resume latest
"""


@click.command(epilog=EXAMPLES)
@click.argument("suite", required=False, type=click.Path(path_type=Path))
@click.option(
    "--agent",
    metavar="REF",
    help="module:callable, path/file.py:callable, an http(s):// address, cmd:PROGRAM ARGS, "
    "an agent manifest, or with a pack or a host the id of an agent in it.",
)
@click.option(
    "--host",
    metavar="URL",
    help="Run the suite on a host and follow it; set its key in $EVALWRIGHT_KEY.",
)
@click.option("--model", metavar="NAME", help="The model of a manifest agent: provider:model.")
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
    suite: Path | None,
    resume: str | None,
    config: Path | None,
    db: str | None,
    as_json: bool,
    out: Path | None,
    quiet: bool,
    show_secrets: bool,
    **given: Any,
) -> int:
    """Run SUITE against an agent and print its scorecard.

    SUITE is a file or a pack. In a pack, the agent names its suite.

    --resume continues a run that was stopped or failed; tasks that already have a score are not
    invoked again.
    """
    if (suite is None) == (resume is None):
        both = ", not both" if suite else ""
        raise BadInput(f"name a suite, or a run with --resume{both}; try `run --help`")
    host: str | None = given.pop("host")
    if host is not None:
        from evalwright.cli import remote

        remote.refuse_options(click.get_current_context(), is_resumed=resume is not None)
    emit = reserve_stdout() if as_json else write_stdout
    asked = wanted_forms("run", given)
    forms = {name: path.absolute() for name, path in asked.items()}  # an agent may change folder
    agent = {name: given.pop(name) for name in ("agent", "agent_id", "model_class")}
    options = RunOptions(**given)  # every other parameter is an option, by its own name
    refuse_combinations(options, is_resumed=resume is not None)
    request = RunRequest(
        suite=suite,
        resume=resume,
        options=options,
        results=Results(
            emit=emit,
            as_json=as_json,
            forms=forms,
            out=out and out.absolute(),
            quiet=quiet,
            show_secrets=show_secrets,
        ),
        db=db,
        config=config,
        **agent,
    )
    request.results.check_places()
    return evaluate(request) if host is None else remote.evaluate(host, request)

"""`evalwright run`: run a suite against an agent, or resume a run."""

from pathlib import Path
from typing import Any, get_args

import click
import msgspec

from evalwright.agents.load import is_archive
from evalwright.cli.crew import Crew, Names, model_name
from evalwright.cli.forms import form_options, wanted_forms
from evalwright.cli.options import db_option, existing_log, opened_log
from evalwright.cli.output import check_place, make_folder, reserve_stdout, write_stdout
from evalwright.cli.parameters import Dollars, Seconds, json_option, read_input
from evalwright.cli.request import Request
from evalwright.cli.results import Results, write_failure, write_results
from evalwright.cli.resumption import resume
from evalwright.cli.series import Series, Work, repeat_of, starting
from evalwright.contracts import errors
from evalwright.contracts.planning import (
    Baseline,
    FailOn,
    Group,
)
from evalwright.contracts.suite import Mode, Suite
from evalwright.engine.baseline import read_baseline
from evalwright.engine.clock import SystemClock, new_group_id
from evalwright.engine.listing import find_run, last_continuation
from evalwright.engine.plan import DEFAULT_SETTINGS, Plan, RunOptions, plan_run
from evalwright.scoring.golden import read_suite
from evalwright.store.protocol import EventLog

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
    help="Have a host run the suite, and watch it; the key for it is in $EVALWRIGHT_KEY.",
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
    type=click.IntRange(1, 10_000),
    show_default=str(DEFAULT_SETTINGS.concurrency),
    help="How many tasks are worked on at once.",
)
@click.option(
    "--timeout",
    type=Seconds(),
    show_default=f"{DEFAULT_SETTINGS.task_timeout_s:g}",
    help="Seconds that one task may take.",
)
@click.option(
    "--run-timeout",
    type=Seconds(),
    help="Seconds that the whole run may take.",
)
@click.option("--tag", "tags", multiple=True, help="A tag for the run; may be given several times.")
@click.option("--agent-id", help="The agent's id, where its reference does not tell it.")
@click.option("--model-class", help="The class of model behind the agent.")
@click.option(
    "--allow-mismatch",
    is_flag=True,
    help="Run although targetAgentId or allowedModels do not fit the agent.",
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
    type=click.IntRange(1, 99),
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
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Run this many times, one log each, and show which tasks are flaky.",
)
@click.option(
    "--flaky-as",
    type=click.Choice(["fail", "warn"]),
    show_default="warn",
    help="What a task that passes only sometimes means for the exit code.",
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
    type=click.Path(path_type=Path),
    help="A file that describes tools, and how live ones are called.",
)
@click.option(
    "--read-only", is_flag=True, help="Refuse live tools that may write (with live-shadow)."
)
@click.option(
    "--gateway",
    is_flag=True,
    help="Offer the task's tools to an http or cmd agent through an MCP server on loopback.",
)
@click.option("--max-cost", type=Dollars(), help="US dollars after which the run stops.")
@click.option(
    "--cassette",
    type=click.Path(path_type=Path),
    help="Answer model calls from this file, without a network.",
)
@click.option(
    "--record", is_flag=True, help="Make the calls that the cassette lacks, and add them to it."
)
@click.option(
    "--resume",
    metavar="RUN",
    help="Go on with a stopped or failed run; with --host, watch a run again.",
)
@form_options("run", "Write a {title} report to this file.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Write summary.json, events.jsonl and scorecard.txt to this folder.",
)
@click.option("--quiet", is_flag=True, help="Print nothing for people but errors.")
@json_option
@db_option
def command(
    *,
    suite: Path | None,
    resume: str | None,
    db: str | None,
    as_json: bool,
    out: Path | None,
    quiet: bool,
    **given: Any,
) -> int:
    """Run SUITE against an agent and print its scorecard.

    SUITE is a file, or a pack: then the suite is the one that its agent names.

    A run that was stopped or failed goes on with --resume; tasks that have their score are not
    invoked again.
    """
    if (suite is None) == (resume is None):
        both = ", not both" if suite else ""
        raise errors.BadInput(f"name a suite, or a run with --resume{both}; try `run --help`")
    if given["host"] is not None:
        _refuse_for_host(is_resumed=resume is not None)
    emit = reserve_stdout() if as_json else write_stdout
    asked = wanted_forms("run", given)
    forms = {name: path.absolute() for name, path in asked.items()}  # an agent may change folder
    request = Request(
        suite=suite,
        agent=given["agent"],
        agent_id=given["agent_id"],
        model_class=given["model_class"],
        resume=resume,
        options=_options({**given, "resume": resume}),
        results=Results(
            emit,
            as_json=as_json,
            forms=forms,
            out=out and out.absolute(),
            quiet=quiet,
        ),
        db=db,
        baseline=given["baseline"],
        repeat=given["repeat"],
    )
    return execute(request) if given["host"] is None else _execute_by(given["host"], request)


def _refuse_for_host(*, is_resumed: bool) -> None:
    from evalwright.cli.remote import refuse_options

    refuse_options(click.get_current_context(), is_resumed=is_resumed)


def _execute_by(host: str, request: Request) -> int:
    from evalwright.cli import remote

    _check_places(request.results)
    return remote.execute(host, request)


def _options(given: dict[str, Any]) -> RunOptions:
    if given["record"] and given["cassette"] is None and given["resume"] is None:
        raise errors.BadInput("--record adds to a cassette; name its file with --cassette")
    if given["judge_samples"] and not given["judges"]:
        raise errors.BadInput("--judge-samples is about judges; name one with --judge")
    if given["flaky_as"] and given["repeat"] == 1 and given["resume"] is None:
        raise errors.BadInput("--flaky-as is about repeats; ask for some with --repeat")
    if "none" in given["fail_on"] and len(set(given["fail_on"])) > 1:
        raise errors.BadInput("--fail-on none goes with no other --fail-on")
    return RunOptions(
        modes=given["modes"],
        concurrency=given["concurrency"],
        task_timeout_s=given["timeout"],
        run_timeout_s=given["run_timeout"],
        tags=given["tags"],
        allow_mismatch=given["allow_mismatch"],
        model=given["model"] and model_name(given["model"]),
        judges=tuple(model_name(judge) for judge in given["judges"]),
        judge_samples=given["judge_samples"],
        allow_self_judge=given["allow_self_judge"],
        max_cost_usd=given["max_cost"],
        read_only=given["read_only"],
        tools=_path(given["tools"]),
        gateway=given["gateway"],
        cassette=_path(given["cassette"]),
        record=given["record"],
        fail_on=given["fail_on"],
        flaky_as=given["flaky_as"],
    )


def _path(path: Path | None) -> str | None:
    return str(path) if path else None


def execute(request: Request) -> int:
    """Do what was asked, write the results, and give the exit code."""
    _check_places(request.results)
    if request.resume is not None:
        with existing_log(request.db) as log:
            return _finish(request, log, resume(request, log))
    assert request.suite is not None
    name = str(request.suite)
    if is_archive(name):
        suite, request = _from_pack(request, name)
    else:
        suite = read_suite(read_input(Path(name)), name)
    crew = _crew(request)
    plan = plan_run(suite, name, crew.agent, request.options, _baseline(request, suite, crew))
    with opened_log(request.db) as log:
        return _finish(request, log, _start(request, log, crew, plan))


def _from_pack(request: Request, name: str) -> tuple[Suite, Request]:
    """The suite that an agent of a pack names as its own, and the request with that agent."""
    from evalwright.agents.packs.pack import open_pack, read_pack_archive

    pack = open_pack(read_pack_archive(Path(name)), name)
    agent_id = request.agent
    if agent_id is None:
        known = ", ".join(pack.manifests)
        raise errors.BadInput(f"{name}: name an agent of the pack with --agent (it has: {known})")
    found = pack.suite_of(agent_id)
    if found is None:
        raise errors.BadInput(
            f"{name}: {agent_id} has no suite: its evalSuiteRef is missing "
            f"(run a suite of your own with --agent {name}#{agent_id})"
        )
    return found.suite, msgspec.structs.replace(request, agent=f"{name}#{agent_id}")


def _crew(request: Request) -> Crew:
    if request.agent is None:
        raise errors.BadInput("name the agent with --agent; `evalwright run --help` shows how")
    options = request.options
    return Crew(
        Names(
            agent=request.agent,
            settings=options.settings(),
            agent_id=request.agent_id,
            model_class=request.model_class,
            model=options.model,
            panel=options.panel(),
        )
    )


def _baseline(request: Request, suite: Suite, crew: Crew) -> Baseline | None:
    if request.baseline is None:
        return None
    with existing_log(request.db) as log:
        run_id = last_continuation(log, find_run(log, request.baseline))
        return read_baseline(log, run_id, suite, crew.redactor)


def _start(request: Request, log: EventLog, crew: Crew, plan: Plan) -> Work:
    plans = [plan]
    if request.repeat > 1:
        group_id = new_group_id(SystemClock())
        numbers = range(1, request.repeat + 1)
        plans = [repeat_of(plan, Group(group_id, number, request.repeat)) for number in numbers]
    return Work(crew, [starting(log, crew, each) for each in plans], live=plan.is_live)


def _finish(request: Request, log: EventLog, work: Work) -> int:
    """Execute what is left to do and write the results."""
    outcomes = list(work.done)
    if work.crew is not None:
        series = Series(log, work.crew, request.db, quiet=request.results.quiet)
        try:
            outcomes += series.run(work.runs, live=work.live)
        except errors.RunFailed as failure:
            write_failure(request.results, log, failure)
            raise
    return write_results(request.results, log, outcomes)


def _check_places(results: Results) -> None:
    if results.out is not None:
        make_folder(results.out)
    for path in results.forms.values():
        check_place(path)

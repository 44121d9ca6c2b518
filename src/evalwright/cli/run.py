"""`evalwright run`: run a suite against an agent, or resume a run."""

import shlex
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
import msgspec

from evalwright.agents.load import load_agent
from evalwright.agents.protocol import Agent
from evalwright.cli.exits import no_sudden_exit
from evalwright.cli.interrupt import run_until_interrupted
from evalwright.cli.options import (
    Seconds,
    db_option,
    existing_log,
    json_option,
    opened_log,
    read_input,
)
from evalwright.cli.output import (
    check_place,
    make_folder,
    reserve_stdout,
    say,
    stderr,
    write_stdout,
)
from evalwright.cli.results import Results, write_failure, write_results
from evalwright.contracts import errors
from evalwright.contracts.events import AgentFacts
from evalwright.contracts.suite import parse_suite
from evalwright.engine.execution import Outcome
from evalwright.engine.history import History, read_history
from evalwright.engine.listing import find_run, last_continuation
from evalwright.engine.plan import DEFAULT_SETTINGS, RunOptions, plan_run
from evalwright.engine.replay import project
from evalwright.engine.run import Announce, resume_run, start_run
from evalwright.reports.progress import Progress, Standing, progress_for
from evalwright.store.protocol import EventLog

EXAMPLES = """\b
Examples:
  evalwright run suite.yaml --agent agent.py:answer
  evalwright run suite.yaml --agent http://127.0.0.1:8000/invoke --concurrency 20
  evalwright run suite.yaml --agent 'cmd:node agent.js' --junit report.xml
  evalwright run --resume latest
"""


class Request(msgspec.Struct, frozen=True):
    """What the user asked for."""

    suite: Path | None
    agent: str | None
    agent_id: str | None
    model_class: str | None
    resume: str | None
    options: RunOptions
    results: Results
    db: str | None

    def load_agent(self, recorded_ref: str | None = None) -> Agent:
        """The agent that was named, else the one that the log remembers."""
        ref = self.agent or recorded_ref
        if ref is None:
            raise errors.BadInput("name the agent with --agent; `evalwright run --help` shows how")
        return load_agent(ref, self.agent_id, self.model_class)


@click.command(epilog=EXAMPLES)
@click.argument("suite", required=False, type=click.Path(path_type=Path))
@click.option(
    "--agent",
    metavar="REF",
    help="module:callable, path/file.py:callable, an http(s):// address, or cmd:PROGRAM ARGS.",
)
@click.option("--mode", "modes", multiple=True, help="An eval mode; may be given several times.")
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
@click.option("--resume", metavar="RUN", help="Go on with a stopped or failed run.")
@click.option("--junit", type=click.Path(path_type=Path), help="Write a JUnit report to this file.")
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
    junit: Path | None,
    out: Path | None,
    quiet: bool,
    **given: Any,
) -> int:
    """Run SUITE against an agent and print its scorecard.

    A run that was stopped or failed goes on with --resume; tasks that have their score are not
    invoked again.
    """
    if (suite is None) == (resume is None):
        both = ", not both" if suite else ""
        raise errors.BadInput(f"name a suite, or a run with --resume{both}; try `run --help`")
    emit = reserve_stdout() if as_json else write_stdout
    request = Request(
        suite=suite,
        agent=given["agent"],
        agent_id=given["agent_id"],
        model_class=given["model_class"],
        resume=resume,
        options=RunOptions(
            modes=given["modes"],
            concurrency=given["concurrency"],
            task_timeout_s=given["timeout"],
            run_timeout_s=given["run_timeout"],
            tags=given["tags"],
            allow_mismatch=given["allow_mismatch"],
        ),
        results=Results(
            emit,
            as_json=as_json,
            junit=junit and junit.absolute(),  # an agent may change the folder
            out=out and out.absolute(),
            quiet=quiet,
        ),
        db=db,
    )
    return execute(request)


def execute(request: Request) -> int:
    """Do what was asked, write the results, and give the exit code."""
    _check_places(request.results)
    work = _prepare_new(request) if request.resume is None else None
    with (opened_log if work else existing_log)(request.db) as log:
        work = work or _prepare_resumed(request, log)
        try:
            outcome = work(log)
        except errors.RunFailed as failure:
            write_failure(request.results, log, failure)
            raise
        write_results(request.results, log, outcome)
    return 0 if outcome.summary.passed else 1


Work = Callable[[EventLog], Outcome]


def _prepare_new(request: Request) -> Work:
    assert request.suite is not None
    suite = parse_suite(read_input(request.suite), str(request.suite))
    agent = request.load_agent()
    plan = plan_run(suite, str(request.suite), agent, request.options)

    def work(log: EventLog) -> Outcome:
        return _watched(request, log, agent, lambda announce: start_run(log, agent, plan, announce))

    return work


def _prepare_resumed(request: Request, log: EventLog) -> Work:
    assert request.resume is not None
    options = request.options
    if options.modes or options.tags or options.allow_mismatch or request.model_class:
        raise errors.BadInput(
            "--resume: a run goes on with the modes, tags and model class it began with; "
            "leave out --mode, --tag, --model-class and --allow-mismatch"
        )
    if request.agent_id is not None and request.agent is None:
        raise errors.BadInput("--resume: --agent-id is for naming another --agent; leave it out")
    history = read_history(log, last_continuation(log, find_run(log, request.resume)))
    if history.status == "completed":
        say(f"run {history.run_id} is complete; nothing is left to do")
        return lambda _log: project(history)
    recorded = history.plan.agent
    agent = request.load_agent(recorded.ref)
    if request.agent is not None:
        recorded = _other_agent(history, agent)
    agent.agent_id, agent.model_class = recorded.agent_id, recorded.model_class
    settings = options.settings(history.plan.settings)
    history.plan = msgspec.structs.replace(history.plan, agent=recorded, settings=settings)

    def work(log: EventLog) -> Outcome:
        return _watched(
            request, log, agent, lambda announce: resume_run(log, agent, history, announce)
        )

    return work


def _other_agent(history: History, agent: Agent) -> AgentFacts:
    """The facts of an agent that was named anew, if nobody's answers would be mixed."""
    recorded, suite = history.plan.agent, history.plan.suite
    is_fresh = history.end is not None and not history.scored and suite.target_agent_id is None
    if agent.agent_id != recorded.agent_id and not is_fresh:
        raise errors.BadInput(
            f"--resume: the run is of agent {recorded.agent_id!r}, and --agent is "
            f"{agent.agent_id!r}; one log holds the answers of one agent. If it is the same one, "
            f"say --agent-id {recorded.agent_id}"
        )
    return AgentFacts(agent.agent_id, agent.ref, recorded.model_class)


def _watched(
    request: Request,
    log: EventLog,
    agent: Agent,
    go: Callable[[Announce], Coroutine[Any, Any, Outcome]],
) -> Outcome:
    """Execute with progress on stderr; an interrupt leaves a run that can be resumed."""
    shown = ExitStack()
    run_ids: list[str] = []

    def announce(history: History) -> None:
        run_ids.append(history.run_id)
        shown.enter_context(_display(request, log, history))

    async def main() -> Outcome:
        try:
            return await go(announce)
        finally:
            await agent.close()

    with shown, no_sudden_exit():
        try:
            return run_until_interrupted(main())
        except (errors.Interrupted, errors.RunFailed, errors.StoreError) as error:
            where = f" --db {shlex.quote(request.db)}" if request.db else ""
            for run_id in run_ids:
                if isinstance(error, errors.RunFailed):
                    error.add_note(f"see why: evalwright show {run_id}{where}")
                error.add_note(f"go on with: evalwright run --resume {run_id}{where}")
            raise


def _display(request: Request, log: EventLog, history: History) -> Progress:
    suite, done = history.plan.suite, len(history.scored)
    spent = history.tally.cost
    standing = Standing(len(suite.tasks), done, history.tally.passed_count, spent.total_usd)
    display = progress_for(standing, stderr(), quiet=request.results.quiet)
    log.watch(history.run_id, display.take)
    if not request.results.quiet:
        noun = "task" if len(suite.tasks) == 1 else "tasks"
        already = f", {done} already scored" if done else ""
        say(
            f"{suite.suite_id}@{suite.version}: {len(suite.tasks)} {noun}{already} "
            f"against {history.plan.agent.agent_id}, run {history.run_id}"
        )
    return display


def _check_places(results: Results) -> None:
    if results.out is not None:
        make_folder(results.out)
    if results.junit is not None:
        check_place(results.junit)

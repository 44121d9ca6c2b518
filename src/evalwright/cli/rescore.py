"""`evalwright rescore`: the recorded answers of a run, scored again."""

from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import click
import msgspec

from evalwright.cli.evaluation import ProgressObserver, RunRequest
from evalwright.cli.output import reserve_stdout, say, warn, without_secrets, write_stdout
from evalwright.cli.parameters import (
    cassette_option,
    config_option,
    db_option,
    fail_on_option,
    form_options,
    json_option,
    judge_samples_option,
    model_timeout_option,
    out_option,
    quiet_option,
    record_option,
    scoring_timeout_option,
    secrets_option,
    tags_option,
    wanted_forms,
)
from evalwright.cli.results import Results, continued, or_latest, say_next, write_results
from evalwright.contracts.documents import without_collecting
from evalwright.contracts.messages import Text
from evalwright.contracts.run_plan import RunOptions
from evalwright.engine.plan import refuse_combinations
from evalwright.engine.rescore import RecordedAgent, Rescore, plan_rescore
from evalwright.engine.runs import find_run, log_for
from evalwright.engine.session import Session
from evalwright.engine.suites.loader import SuiteSubject, read_subject
from evalwright.store.protocol import EventLog

Command = Callable[..., Any]

EXAMPLES = """\b
Examples:
  evalwright rescore latest
  evalwright rescore latest --suite evals.yaml
  evalwright rescore run-folder --suite evals.yaml --judge anthropic:claude-sonnet-4-5
"""


def scoring_options(judges: str, embeddings: str) -> Callable[[Command], Command]:
    """The options of commands that score recorded answers, with what two of them mean there."""
    options = (
        tags_option,
        click.option("--judge", "judges", metavar="NAME", multiple=True, help=judges),
        judge_samples_option,
        model_timeout_option,
        scoring_timeout_option,
        click.option("--embedding-model", metavar="NAME", help=embeddings),
        cassette_option,
        record_option,
        fail_on_option,
        form_options("run", "Write a {title} report to this file."),
        out_option,
        quiet_option,
        secrets_option,
        json_option,
        config_option,
        db_option,
    )
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


def partial_option(source: str) -> Callable[[Command], Command]:
    """The option that lets a run pass though there is no such source for some tasks."""
    told = f"Let the run pass though tasks of the suite have no {source}."
    return click.option("--allow-partial", is_flag=True, help=told)


def held_to_whole(planned: Rescore, source: str, *, allow_partial: bool) -> Rescore:
    """The run as one that cannot pass where tasks of the suite have no recorded answer."""
    if allow_partial:
        return planned.lacking()
    count, known = len(planned.missing), planned.plan.lacking
    if not count:
        return planned
    have = "task has" if count == 1 else "tasks have"
    return planned.lacking(*known, f"{count:,} {have} no {source}; --allow-partial accepts that")


def scoring_request(suite: Path | None, given: dict[str, Any]) -> RunRequest:
    """What the options of such a command ask for; stdout is theirs from now on."""
    forms = {name: path.absolute() for name, path in wanted_forms("run", given).items()}
    out, as_json, config, db = (given.pop(name) for name in ("out", "as_json", "config", "db"))
    quiet, show_secrets = given.pop("quiet"), given.pop("show_secrets")
    options = RunOptions(**given)
    refuse_combinations(options)
    results = Results(
        emit=reserve_stdout() if as_json else write_stdout,
        as_json=as_json,
        forms=forms,
        out=out and out.absolute(),
        quiet=quiet,
        show_secrets=show_secrets,
    )
    return RunRequest(
        suite=suite, agent=None, options=options, results=results, db=db, config=config
    )


@click.command(epilog=EXAMPLES)
@click.argument("run", required=False)
@click.option(
    "--suite",
    type=click.Path(path_type=Path),
    help="The suite to score by; by default the one that was run, as it was.",
)
@partial_option("answer in the run")
@scoring_options(
    judges="A model that judges answers; by default those of the run, where any are needed.",
    embeddings="A model of embeddings, for checks by meaning; by default that of the run.",
)
def command(
    *,
    run: str | None,
    suite: Path | None,
    allow_partial: bool,
    **given: Any,
) -> int:
    """Score the recorded answers of RUN, by default the latest, again; print the scorecard.

    No agent is invoked. The result is a new run, which names RUN as its source. Judges are asked
    only what they have not said already of the same answer.

    Exit code 1 also when RUN ended before all its tasks were answered.
    """
    request = scoring_request(suite, given)
    with without_collecting(for_good=True):
        subject = read_subject(suite, None) if suite else None
    with request.results.places(), log_for(request.db, run) as log:
        named = or_latest(log, run)
        with without_collecting(for_good=True):
            run_id = continued(log, find_run(log, named))
            planned = plan_rescore(log, run_id, subject, str(suite or named), request.options)
        planned = held_to_whole(planned, "answer in the run", allow_partial=allow_partial)
        for notice in () if request.results.quiet else _notices(planned, subject):
            say(notice)
        code = run_rescore(request, log, planned)
    return request.results.ended(code)


def _notices(planned: Rescore, subject: SuiteSubject | None) -> list[Text]:
    return [*(subject.notices if subject else ()), *planned.notices]


def run_rescore(request: RunRequest, log: EventLog, planned: Rescore) -> int:
    """Score recorded answers in a new run, and write the results; gives the exit code."""
    plan, panel = planned.plan, planned.plan.panel
    options = msgspec.structs.replace(
        request.options,
        judges=tuple(panel.judges) if panel else (),
        judge_samples=panel.samples if panel else None,
        embedding_model=plan.settings.embedding_model,
    )
    session = Session(RecordedAgent(plan.agent), options, config=request.config, notify=warn)
    outcomes = ProgressObserver(request, log).run(session, [planned])
    code = write_results(request.results, log, outcomes)
    say_next(request.results, log, outcomes, request.db)
    if plan.lacking and outcomes[0].broken_bars == plan.lacking:
        say(without_secrets(f"no pass, although the scores are good enough: {plan.lacking[0]}"))
    return code

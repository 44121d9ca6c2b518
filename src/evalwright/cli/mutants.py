"""`evalwright mutants`: recorded answers, damaged on purpose: would the suite notice?"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from evalwright.cli.output import (
    Streams,
    echo,
    print_exit,
    run_until_interrupted,
    say,
    stop_in_good_order,
    write_stdout,
)
from evalwright.cli.parameters import (
    cassette_option,
    chosen_config,
    config_option,
    db_option,
    json_option,
    judge_samples_option,
    model_timeout_option,
    record_option,
    secrets_option,
)
from evalwright.contracts.errors import BadInput, CannotEvaluate

if TYPE_CHECKING:
    from evalwright.engine.mutants import Mutants

OF_RUN = "judges of the run"
EXAMPLES = """\b
Examples:
  evalwright mutants latest
  evalwright mutants latest --fail-under 0.8
  evalwright mutants latest --kinds negated,number --task 'refund-*'
"""


@click.command(epilog=EXAMPLES)
@click.argument("run", required=False)
@click.option(
    "--kinds",
    metavar="KIND,…",
    multiple=True,
    help="Damage answers only so, for example negated,number.",
)
@click.option(
    "--task",
    "tasks",
    metavar="GLOB",
    multiple=True,
    help="Only tasks whose id fits, for example 'order-*'; may be given several times.",
)
@click.option(
    "--seed", type=int, default=1, show_default=True, help="Chooses the details of the damage."
)
@click.option("--max", "most", type=click.IntRange(1), help="Damage at most this many answers.")
@click.option(
    "--fail-under",
    type=click.FloatRange(0, 1),
    help="Exit with 1 when a smaller share is noticed.",
)
@click.option(
    "--judge",
    "judges",
    metavar="NAME",
    is_flag=False,
    flag_value=OF_RUN,
    multiple=True,
    help="Have damaged answers judged, too, by this model, or without NAME by the judges of the "
    "run; else tasks that ask judges are left out. May be given several times.",
)
@judge_samples_option
@model_timeout_option
@cassette_option
@record_option
@secrets_option
@json_option
@config_option
@db_option
def command(
    *,
    run: str | None,
    kinds: tuple[str, ...],
    tasks: tuple[str, ...],
    seed: int,
    most: int | None,
    fail_under: float | None,
    judges: tuple[str, ...],
    judge_samples: int | None,
    model_timeout_s: float | None,
    cassette: str | None,
    record: bool,
    show_secrets: bool,
    as_json: bool,
    config: Path | None,
    db: str | None,
) -> int:
    """Damage the answers of RUN, by default the latest, and show what its suite did not notice.

    The recorded answers of tasks that passed are damaged, one thing at a time, and scored again:
    another number, the opposite, half the answer, a call left out. Nothing is invoked, and nothing
    is added to the log. An answer that still passes shows what the suite does not check, with a
    check that would have noticed. Judges are asked only with --judge.
    """
    import msgspec

    from evalwright.cli.results import or_latest
    from evalwright.engine.mutants import MutantOptions, Mutants, MutationReport
    from evalwright.engine.runs import find_run, log_for
    from evalwright.engine.session import ModelPool
    from evalwright.engine.task_names import TaskNames
    from evalwright.reports.formats.console import Style
    from evalwright.reports.run.mutants import render_mutants

    if not judges and (judge_samples or cassette or record or model_timeout_s):
        raise BadInput("no judge is asked: name one with --judge")
    stop_in_good_order()
    with log_for(db, run) as log:
        chosen = [kind.strip() for each in kinds for kind in each.split(",")]
        options = MutantOptions(chosen, tasks, seed, most, with_judges=bool(judges))
        mutants = Mutants(log, find_run(log, or_latest(log, run)), options)
    if OF_RUN in judges:
        panel_of_run = mutants.plan.panel
        if panel_of_run is None:
            raise BadInput("the run has no judges: name one, --judge provider:model")
        judges = tuple(panel_of_run.judges)
        judge_samples = judge_samples or panel_of_run.samples
    if mutants.has_asks:
        pool = ModelPool(
            chosen_config(config) if judges else None,
            cassette,
            record=record,
            timeout_s=model_timeout_s,
            notify=say,
        )
        panel = pool.panel(judges, judge_samples or 1) if judges else None
        embedded = mutants.plan.settings.embedding_model
        embedder = pool.load_embedder(embedded) if judges and embedded else None
        if judges:
            say(_costs(mutants.questions * len(judges) * (judge_samples or 1), mutants))

        async def ask() -> None:
            try:
                await mutants.ask(panel, embedder)
            finally:
                await pool.close()

        run_until_interrupted(ask())
    mutants.close()
    report = mutants.report()
    document = msgspec.json.encode(report)
    if not show_secrets:
        from evalwright.signals.masking import mask_bytes

        document = mask_bytes(document, personal=False)
        report = msgspec.json.decode(document, type=MutationReport)
    if as_json:
        write_stdout(msgspec.json.format(document, indent=2) + b"\n")
    else:
        names = TaskNames.of_tasks(mutants.plan.suite.tasks)
        style = Style.of(Streams.out)
        for line in render_mutants(report, style, fail_under, names.name_of):
            echo(line, styled=True)
    if report.score is None:
        reasons = "; ".join(report.left_out) or "no task passed with an answer"
        raise CannotEvaluate(f"no answer of run {report.run_id} could be damaged: {reasons}")
    if fail_under is None or report.score >= fail_under:
        return 0
    return print_exit(1, "too little is noticed", aside=as_json)


def _costs(questions: int, mutants: "Mutants") -> str:
    """What judges are about to be asked, and what that may cost, by what they cost in the run."""
    from evalwright.contracts.amounts import dollars

    told = f"judges are asked {questions:,} {'question' if questions == 1 else 'questions'}"
    each = mutants.cost_of_verdict
    return f"{told}, about {dollars(each * questions)}" if each is not None else told

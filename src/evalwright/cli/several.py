"""Several suites, or several agents and models: a run for each, and what they come to together."""

import re
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import msgspec

from evalwright.cli.evaluation import (
    ProgressObserver,
    RunRequest,
    prepare,
    select_tasks,
)
from evalwright.cli.output import (
    Streams,
    echo,
    folder_for_results,
    in_words,
    say,
    without_secrets,
)
from evalwright.cli.results import failed_run, publish, reported, show_results
from evalwright.contracts.amounts import dollars
from evalwright.contracts.errors import (
    BadInput,
    EvalwrightError,
    Interrupted,
    RunFailed,
    StoreError,
)
from evalwright.contracts.short_names import suite_name
from evalwright.engine.session import RunVerdict, reasons_against, verdict_on
from evalwright.engine.suites.loader import SuiteSubject, find_suites, read_subject
from evalwright.engine.suites.selection import NothingSelected
from evalwright.engine.task_names import NO_NAMES, TaskNames
from evalwright.engine.verdict import Outcome
from evalwright.reports.formats.console import Style, columns, printable
from evalwright.reports.run.junit import Reported, ReportedRun, ReportedSeveral
from evalwright.reports.run.scorecard import render_verdict
from evalwright.reports.run.side_by_side import render_side_by_side
from evalwright.scoring.agent_comparison import SideBySide, VariantRuns, side_by_side
from evalwright.store.location import opened_log
from evalwright.store.protocol import EventLog

COULD_NOT = 3
_NOT_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")


class Variant(NamedTuple):
    """An agent and its model, where there are several to be run."""

    name: str
    agent: str | None
    model: str | None


class SuiteJob(NamedTuple):
    """A suite for a variant, and the folder for its files."""

    request: RunRequest
    subject: SuiteSubject
    variant: Variant


class EndedJob(NamedTuple):
    """What came of a job: outcomes, or why there are none."""

    job: SuiteJob
    outcomes: Sequence[Outcome]
    error: EvalwrightError | None = None
    number: int = 0  # of its last run in the log

    @property
    def code(self) -> int:
        """The exit code of a command that had done nothing else."""
        if self.error is not None:
            return self.error.exit_code
        return 1 if reasons_against(self.outcomes) else 0

    @property
    def has_passed(self) -> bool:
        """Whether it came to a result against which nothing speaks, gated or not."""
        return self.error is None and verdict_on(self.outcomes).passed


def variants_of(agents: Sequence[str], models: Sequence[str]) -> list[Variant]:
    """Every agent with every model; what they have in common is not in their names."""
    several_agents, several_models = len(agents) > 1, len(models) > 1
    no_name: list[str | None] = [None]
    shown = {agent: _without_query(agent, number) for number, agent in enumerate(agents, 1)}
    return [
        Variant(
            " ".join(
                name
                for name, counts in (
                    (shown.get(agent or ""), several_agents),
                    (model, several_models),
                )
                if name and counts
            ),
            agent,
            model,
        )
        for agent in agents or no_name
        for model in models or no_name
    ]


def _without_query(agent: str, number: int) -> str:
    """An agent as it may be shown: the query of an address may be a secret, and is not logged."""
    if not agent.lower().startswith(("http://", "https://")):
        return agent
    address, _, query = agent.partition("#")[0].partition("?")
    return f"{address}?… ({number})" if query else address


def evaluate_several(
    request: RunRequest, suites: Sequence[Path], agents: Sequence[str], models: Sequence[str]
) -> int:
    """A run of each suite for each agent and model; the worst exit code."""
    if request.resume is not None:
        raise BadInput("--resume: a run goes on with one agent and one model; name one")
    variants = variants_of(agents, models)
    found = find_suites(suites)
    quiet = request.results.quiet
    if found.passed_over and not quiet:
        files = "file" if found.passed_over == 1 else "files"
        suites_found = "1 suite" if len(found.paths) == 1 else f"{len(found.paths)} suites"
        say(f"{suites_found} found; {found.passed_over} other {files} passed over")
    jobs = _jobs(request, found.paths, variants)
    ended: list[EndedJob] = []
    runs: list[Reported] = []
    results = request.results
    with opened_log(request.db) as log:
        for number, job in enumerate(jobs, 1):
            ended.append(_work(log, job, f"[{number}/{len(jobs)}] ", runs))
        compared = _side_by_side(ended) if len(variants) > 1 else []
        told = [(each, list(_worse(each))) for each in compared]
        worse = [line for _, lines in told for line in lines]
        # The same for reports, which have each run by itself.
        beside = [
            ReportedSeveral(f"{each.name}, side by side", lines) for each, lines in told if lines
        ]
        publish(results, [*runs, *beside])
    style = Style.of(Streams.err if results.as_json else Streams.out)
    text = "\n".join(_closing(ended, compared, worse, style))
    if not results.quiet:
        (say if results.as_json else echo)(text, styled=True)
    if results.as_json:
        summaries: object = [outcome.summary for each in ended for outcome in each.outcomes]
        if compared:
            summaries = compared[0] if len(found.paths) == 1 else compared
        results.emit(msgspec.json.format(msgspec.json.encode(summaries), indent=2) + b"\n")
    is_gated = "none" not in request.options.fail_on
    return max(*(each.code for each in ended), 1 if worse and is_gated else 0)


def _jobs(
    request: RunRequest, paths: Sequence[Path], variants: Sequence[Variant]
) -> list[SuiteJob]:
    """Read every suite before the first run starts; those of which no task is wanted are left."""
    folders = _names([path.stem for path in paths])
    places = _names([variant.name for variant in variants])
    jobs, unmatched = [], []
    for path, folder in zip(paths, folders, strict=True):
        for variant, place in zip(variants, places, strict=True):
            parts = ([folder] if len(paths) > 1 else []) + ([place] if len(variants) > 1 else [])
            out = request.results.out
            results = msgspec.structs.replace(
                request.results, out=out and out.joinpath(*parts), suite=path.absolute()
            )
            one = msgspec.structs.replace(
                request,
                suite=path,
                agent=variant.agent,
                options=msgspec.structs.replace(request.options, model=variant.model),
                results=results,
            )
            subject = read_subject(str(path), variant.agent, request.columns)
            try:
                if request.wanted is not None:
                    subject = select_tasks(one, request.wanted, subject)
                jobs.append(SuiteJob(one, subject, variant))
            except NothingSelected as error:
                unmatched.append(error)
    if not jobs:
        raise unmatched[0]
    return jobs


def _names(texts: Sequence[str]) -> list[str]:
    """A name for a folder for each text; those that would be the same are numbered."""
    names: list[str] = []
    for text in texts:
        name = _NOT_A_NAME.sub("-", text).strip("-.") or "run"
        taken = sum(each == name or each.startswith(f"{name}-") for each in names)
        names.append(f"{name}-{taken + 1}" if name in names else name)
    return names


def _work(log: EventLog, job: SuiteJob, label: str, runs: list[Reported]) -> EndedJob:
    """Execute a job and show what came of it; a run that fails does not keep the others back."""
    request = job.request
    results = request.results
    quieter = msgspec.structs.replace(results, forms={}, github=False, summarised=False)
    own = msgspec.structs.replace(request, results=quieter)
    try:
        with nullcontext() if results.out is None else folder_for_results(results.out):
            session, plans = prepare(request, job.subject, among_others=True)
            outcomes = ProgressObserver(own, log, label).run(session, plans)
            shown = show_results(results, log, outcomes)
    except (Interrupted, StoreError):
        raise
    except EvalwrightError as error:
        words = "\n".join([in_words(error), *getattr(error, "__notes__", ())])
        say(f"evalwright: {without_secrets(words)}")
        if isinstance(error, RunFailed):
            runs.append(failed_run(results, log, error.run_id, error.code, str(error)))
        return EndedJob(job, (), error)
    runs += _called_so(reported(results, log, shown), job.variant.name)
    return EndedJob(job, outcomes, number=log.facts(outcomes[-1].run_id).number)


def _called_so(runs: Sequence[Reported], variant: str) -> Iterator[Reported]:
    """Runs, for reports, with the agent or model that answered, where there are several."""
    for run in runs:
        if variant and isinstance(run, ReportedSeveral):
            yield run._replace(name=f"{run.name}, {variant}")
        elif isinstance(run, ReportedRun):
            yield run._replace(variant=variant)
        else:
            yield run


def _side_by_side(ended: Sequence[EndedJob]) -> list[SideBySide]:
    compared = []
    for _, of_suite in groupby(ended, key=lambda each: each.job.request.suite):
        with_result = [each for each in of_suite if each.outcomes]
        runs = [
            VariantRuns(
                each.job.variant.name,
                [outcome.run_id for outcome in each.outcomes],
                [outcome.summary for outcome in each.outcomes],
            )
            for each in with_result
        ]
        if len(runs) > 1:
            names = TaskNames.of_tasks(with_result[0].outcomes[0].plan.suite.tasks)
            compared.append(side_by_side(runs, names.name_of))
    return compared


def _worse(compared: SideBySide) -> Iterator[str]:
    first = printable(compared.variants[0].name)
    for change in compared.changes:
        if change.is_worse:
            yield f"{printable(change.name)} against {first}: {printable(change.sentence)}"


def _closing(
    ended: Sequence[EndedJob], compared: Sequence[SideBySide], worse: Sequence[str], style: Style
) -> Iterator[str]:
    yield ""
    for each in compared:
        suites = (job.job.subject.suite for job in ended)
        tasks = [suite.tasks for suite in suites if suite.suite_id == each.suite_id]
        names = TaskNames.of_tasks(tasks[0]) if tasks else NO_NAMES
        yield from render_side_by_side(each, style, names)
        yield ""
    yield style.bold(f"{len(ended)} {'run' if len(ended) == 1 else 'runs'}")
    rows = [_cells(each, style) for each in ended]
    yield from (f"  {line}" for line in columns(rows, ".~~><><", style.width - 2))
    passed = sum(each.has_passed for each in ended)
    words = f"{passed} of {len(ended)} runs passed"
    if within := sum(bool(each.outcomes and verdict_on(each.outcomes).words) for each in ended):
        words += f", {within} with failed tasks within the bar"
    failed = [words] if passed < len(ended) else []
    yield from render_verdict(RunVerdict([*failed, *worse], ""), words, style)


def _cells(ended: EndedJob, style: Style) -> list[str]:
    suite, variant = ended.job.subject.suite, ended.job.variant
    name = suite_name(f"{suite.suite_id}@{suite.version}")
    if not ended.outcomes:
        return [style.shape("error"), name, variant.name, "", "no result", "", ""]
    last = ended.outcomes[-1]
    counts = f"{last.summary.passed_count:,} of {last.summary.task_count:,}"
    part = f" (of {last.plan.selection.of})" if last.plan.selection else ""
    scores = [outcome.summary.aggregate_score for outcome in ended.outcomes]
    cost = last.summary.total_cost_usd
    return [
        style.shape("passed" if ended.has_passed else "failed"),
        name,
        variant.name,
        f"score {sum(scores) / len(scores):.4g}",
        f"{counts}{part}",
        "" if cost is None else dollars(cost),
        f"run {ended.number}",
    ]

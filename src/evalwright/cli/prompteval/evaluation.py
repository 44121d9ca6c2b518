"""Evaluating prompts for the command line: files in, records and reports out."""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from evalwright.cli.output import Emit, say, stdout, tell, write_file
from evalwright.cli.parameters import read_input
from evalwright.cli.prompts import EvaluationRequest
from evalwright.contracts.errors import BadInput, CannotEvaluate
from evalwright.contracts.events import iso_time
from evalwright.contracts.prompt_result import PromptResult
from evalwright.engine.clock import SystemClock
from evalwright.prompts.evaluate import EvaluationSettings, Linted, evaluate_structure, lint_sources
from evalwright.prompts.lint import Selection, selection
from evalwright.prompts.results import minimal, with_host_info
from evalwright.prompts.sources import Source, read_again, read_sources
from evalwright.prompts.tiers import DEFAULT_TIER_WITH_MODEL, TIERS, Tier

if TYPE_CHECKING:
    from evalwright.prompts.change import Change
    from evalwright.reports.prompts import ReportContext

RECORD_FORMATS = ("json", "jsonl")


def evaluate(request: EvaluationRequest, emit: Emit) -> int:
    """Evaluate, write what was asked for, and give the exit code."""
    tier = _tier(request)
    settings = EvaluationSettings(
        tier=tier,
        threshold=request.threshold,
        runs=1 if tier.number == 0 else request.runs or tier.runs,
        concurrency=request.concurrency,
        max_cost_usd=request.max_cost_usd,
        selection=selection(request.select, request.ignore),
    )
    baseline = _baseline(request)
    sources = _sources(request, settings.selection)
    files = lint_sources(sources, settings.selection)
    results, unfinished, finish = _results(request, files, settings, _streamed(request, emit))
    change = None if baseline is None else _change(baseline, results)
    _write(request, emit, sources, results, settings, change)
    finish()
    if unfinished is not None:
        raise unfinished
    return _exit_code(request, results, change)


def _tier(request: EvaluationRequest) -> Tier:
    """The tier that was asked for, with the models that were named or configured."""
    number = request.tier
    if number == 0 and request.models:
        raise BadInput("-m names judges, and tier 0 asks none; leave out one of them")
    if number is None and not request.models and not _is_configured(DEFAULT_TIER_WITH_MODEL):
        if not request.quiet:
            say("no model is configured, so this is tier 0: the linter alone (see --list-tiers)")
        number = 0
    tier = TIERS[DEFAULT_TIER_WITH_MODEL if number is None else number]
    return tier if tier.number == 0 else _configured(tier, request)


def _is_configured(number: int) -> bool:
    from evalwright.models.config import load_config

    settings = load_config().tiers.get(str(number))
    return settings is not None and bool(settings.models)


def _configured(tier: Tier, request: EvaluationRequest) -> Tier:
    from evalwright.models.config import TierSettings, load_config

    settings = load_config().tiers.get(str(tier.number), TierSettings())
    return msgspec.structs.replace(
        tier,
        models=request.models or settings.models or tier.models,
        runs=settings.runs or tier.runs,
        samples=request.samples or settings.samples or tier.samples,
        max_input_tokens=settings.max_input_tokens,
    )


def _baseline(request: EvaluationRequest) -> list[PromptResult] | None:
    if request.baseline is None:
        return None
    from evalwright.prompts.change import read_results

    return read_results(read_input(request.baseline), str(request.baseline))


def _change(baseline: Sequence[PromptResult], results: Sequence[PromptResult]) -> "Change":
    from evalwright.prompts.change import compare_results

    return compare_results(baseline, results)


def _sources(request: EvaluationRequest, selection: Selection) -> list[Source]:
    sources = list(read_sources(request.paths))
    if not sources:
        raise BadInput(
            f"{', '.join(map(str, request.paths))}: no prompts here; prompts are *.md and "
            "*.prompt.yml files, without README, index, agent and instruction files"
        )
    _refuse_overwriting(request, sources)
    if request.fix:
        from evalwright.cli.prompteval.fixes import fix_files

        fixed = fix_files(sources, selection, quiet=request.quiet)
        sources = [read_again(each) if each.path in fixed else each for each in sources]
    return sources


def _refuse_overwriting(request: EvaluationRequest, sources: Sequence[Source]) -> None:
    written = {os.path.realpath(path): path for path, _ in request.outputs}
    if request.cassette is not None:
        written[os.path.realpath(request.cassette)] = request.cassette
    for source in sources:
        place = source.file and written.get(os.path.realpath(source.file))
        if place:
            raise BadInput(f"{place}: it is one of the prompts; name another file to write to")


def _streamed(request: EvaluationRequest, emit: Emit) -> Callable[[PromptResult], None]:
    """Prints a record as soon as its turn comes, where that is asked for."""
    if not request.streams:
        return lambda _: None
    from evalwright.reports.prompts.records import encode_record

    return lambda result: emit(encode_record(_shared(result, request)) + b"\n")


def _shared(result: PromptResult, request: EvaluationRequest) -> PromptResult:
    """A record as it may leave this machine."""
    if request.minimal:
        return minimal(result)
    return with_host_info(result) if request.with_host_info else result


def _results(
    request: EvaluationRequest,
    files: Sequence[Linted],
    settings: EvaluationSettings,
    told: Callable[[PromptResult], None],
) -> tuple[list[PromptResult], CannotEvaluate | None, Callable[[], None]]:
    """The records, why some are missing where the budget was spent, and what to do in the end."""
    if settings.tier.number == 0:
        results: list[PromptResult] = []

        def take(result: PromptResult) -> None:
            results.append(result)
            told(result)

        evaluate_structure(files, settings, SystemClock(), take)
        return results, None, lambda: None
    from evalwright.cli.prompteval.judging import judge_files

    return judge_files(request, files, settings, told)


def _write(
    request: EvaluationRequest,
    emit: Emit,
    sources: Sequence[Source],
    results: Sequence[PromptResult],
    settings: EvaluationSettings,
    change: "Change | None",
) -> None:
    if not _is_told(request):
        return
    from evalwright.reports.forms import renderer
    from evalwright.reports.prompts import ReportContext
    from evalwright.reports.prompts.step_summary import append_step_summary

    context = ReportContext(
        tier=settings.tier,
        threshold=settings.threshold,
        generated=iso_time(SystemClock().now_us()),
        texts={each.path: each.prompt.text for each in sources if each.prompt is not None},
        change=change,
    )
    shared = [with_host_info(each) if request.with_host_info else each for each in results]
    records = [minimal(each) for each in results] if request.minimal else shared
    for path, name in request.outputs:
        told = records if name in RECORD_FORMATS else shared
        write_file(path, [renderer("prompts", name)(told, context)])
    append_step_summary(results, context)
    if request.as_json and not request.streams:
        emit(renderer("prompts", "json")(records, context))
    elif not request.quiet:
        _show(request, results, context, change)


def _is_told(request: EvaluationRequest) -> bool:
    """Whether anything is written at all: otherwise the reports are not even loaded."""
    on_github = bool(os.environ.get("GITHUB_STEP_SUMMARY"))
    return bool(request.outputs) or request.as_json or not request.quiet or on_github


def _show(
    request: EvaluationRequest,
    results: Sequence[PromptResult],
    context: "ReportContext",
    change: "Change | None",
) -> None:
    from shutil import get_terminal_size

    from evalwright.reports.prompts import render_console
    from evalwright.reports.style import Style

    width = get_terminal_size((100, 24)).columns
    tell(render_console(results, context, Style.of(stdout()), width=width), styled=True)
    for path, _ in request.outputs:
        say(f"written: {path}")
    if change is not None and change.regressed:
        say("worse than the baseline")


def _exit_code(
    request: EvaluationRequest, results: Sequence[PromptResult], change: "Change | None"
) -> int:
    if any(result.execution.status == "error" for result in results):
        return 3
    if request.fail_on == "regression":
        assert change is not None
        if not change.compared:
            raise BadInput("--baseline: none of its results is of a file and model of these")
        return 1 if change.regressed else 0
    if request.fail_on == "below":
        return 0 if all(result.passed for result in results) else 1
    return 0

"""Evaluating prompts for the command line: files in, records and reports out."""

import codecs
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from evalwright.cli.output import Emit, Streams, echo, is_stdout, print_exit, say, write_file
from evalwright.cli.parameters import chosen_config
from evalwright.cli.prompts import EvaluationRequest
from evalwright.contracts.documents import read_input
from evalwright.contracts.errors import BadInput, CannotEvaluate
from evalwright.contracts.prompt_result import PromptResult
from evalwright.contracts.times import iso_time
from evalwright.engine.clock import SystemClock
from evalwright.prompts.evaluate import EvaluationSettings, evaluate_structure, lint_each
from evalwright.prompts.lint import Selection, selection
from evalwright.prompts.results import is_skipped, minimal, with_host_info
from evalwright.prompts.sources import (
    DiscoveredFile,
    PromptSearch,
    Source,
    find_files,
    passed_over_in_words,
    read_again,
    read_source,
)
from evalwright.prompts.tiers import (
    DEFAULT_TIER_WITH_MODEL,
    TIERS,
    Tier,
    configured,
    names_models,
)
from evalwright.reports.forms import STEP_SUMMARY

if TYPE_CHECKING:
    from evalwright.models.config import Config
    from evalwright.prompts.change import Change
    from evalwright.reports.prompts import ReportContext

RECORD_FORMATS = ("json", "jsonl")
FORMATS_WITH_TEXTS = ("html", "sarif")


def evaluate(request: EvaluationRequest, emit: Emit) -> int:
    """Evaluate, write what was asked for, and give the exit code."""
    config = None if request.tier == 0 else chosen_config(request.config)
    tier = TIERS[0] if config is None else _tier(request, config)
    if tier.number == 0 and request.models:
        raise BadInput("-m names judges, but tier 0 asks no model; leave out one of them")
    settings = EvaluationSettings(
        tier=tier,
        threshold=request.threshold,
        runs=1 if tier.number == 0 else request.runs or tier.runs,
        concurrency=request.concurrency,
        max_cost_usd=request.max_cost_usd,
        selection=selection(request.select, request.ignore),
    )
    if request.baseline is None:
        baseline = None
    else:
        from evalwright.prompts.change import read_results

        baseline = read_results(read_input(request.baseline), str(request.baseline))
    texts: dict[str, str] = {}
    search = PromptSearch(request.all_kinds)
    found = find_files(request.paths, search)
    _check_files(found, request)
    files = lint_each(_sources(found, request, settings.selection, texts), settings.selection)
    stream = _stream(request, emit) if request.streams else None
    results: list[PromptResult] = []
    unfinished: CannotEvaluate | None = None
    finish: Callable[[], None] | None = None
    if config is None or tier.number == 0:
        for result in evaluate_structure(files, settings, SystemClock()):
            results.append(result)
            if stream is not None:
                stream(result)
    else:
        from evalwright.cli.prompteval.judgements import judge_files

        results, unfinished, finish = judge_files(
            request, list(files), settings, stream or (lambda _: None), config
        )
    if baseline is None:
        change = None
    else:
        from evalwright.prompts.change import compare_results

        change = compare_results(baseline, results)
    on_github = os.environ.get(STEP_SUMMARY)
    # Else the reports are not even loaded.
    if not request.quiet or request.outputs or request.as_json or on_github:
        _write(request, emit, results, _context(settings, texts, change, search.passed_over))
    _push(request, results, texts)
    if finish is not None:
        finish()
    if unfinished is not None:
        raise unfinished
    code, meaning = _exit_of(request, results, change)
    if code and not request.quiet:
        print_exit(code, meaning, aside=request.prints_result)
    return code


def _exit_of(
    request: EvaluationRequest, results: Sequence[PromptResult], change: "Change | None"
) -> tuple[int, str]:
    """The exit code, and what it means."""
    if any(result.execution.status == "error" for result in results):
        return 3, ""
    if request.fail_on == "regression":
        assert change is not None
        if not change.compared:
            raise BadInput("--baseline: it has no result for any of these files and models")
        return int(change.regressed), "worse than the baseline"
    if request.fail_on == "below":
        counted = [result for result in results if not is_skipped(result)]
        passed = counted and all(result.passed for result in counted)
        return 0 if passed else 1, "below the threshold"
    return 0, ""


def _push(
    request: EvaluationRequest, results: Sequence[PromptResult], texts: Mapping[str, str]
) -> None:
    if request.push is None:
        return
    from evalwright.cli.prompteval.push import push

    kept = push(request.push, results, texts)
    if not request.quiet:
        say(kept)


def _tier(request: EvaluationRequest, config: "Config") -> Tier:
    """The tier that was asked for, with the models that were named or configured."""
    number = request.tier
    if number is None and not (request.models or names_models(DEFAULT_TIER_WITH_MODEL, config)):
        if not request.quiet:
            say("no model is configured, so only the linter runs (tier 0; see --list-tiers)")
        number = 0
    tier = TIERS[DEFAULT_TIER_WITH_MODEL if number is None else number]
    return (
        tier
        if tier.number == 0
        else configured(tier, request.models, request.judge_samples, config)
    )


def _sources(
    found: Sequence[DiscoveredFile],
    request: EvaluationRequest,
    selected: Selection,
    texts: dict[str, str],
) -> Iterator[Source]:
    """The files one by one, fixed where that is asked for; `texts` gets what reports show."""
    shows_texts = request.push is not None or any(
        name in FORMATS_WITH_TEXTS for _, name in request.outputs
    )
    for source in map(read_source, found):
        current = _fixed(source, selected, quiet=request.quiet) if request.fix else source
        if shows_texts and current.prompt is not None:
            texts[current.path] = current.prompt.text
        yield current


def _check_files(found: Sequence[DiscoveredFile], request: EvaluationRequest) -> None:
    """Refuse, before anything is evaluated, what cannot be read or would be overwritten."""
    special = [each.error.message for each in found if each.is_special and each.error]
    if special:
        raise BadInput("\n".join([*special, "nothing was evaluated; remove it, or leave it out"]))
    files = (path for path, _ in request.outputs if not is_stdout(path))
    written = {os.path.realpath(path): path for path in files}
    if request.cassette is not None:
        written[os.path.realpath(request.cassette)] = request.cassette
    for each in found if written else ():
        place = written.get(os.path.realpath(each.path))
        if place:
            raise BadInput(f"{place}: this is one of the prompts; write to another file")


def _fixed(source: Source, selected: Selection, *, quiet: bool) -> Source:
    """Write the safe fixes to a Markdown file that needs any; gives the file as it is now.

    A `.prompt.yml` is left alone: what looks like a slip there may be the point of a test case.
    """
    from evalwright.prompts.lint import fix_prompt

    if source.prompt is None or source.file is None or source.type != "markdown":
        return source
    text = fix_prompt(source.prompt, selected)
    if text == source.prompt.text:
        return source
    before = source.file.read_bytes()
    if hashlib.sha256(before).hexdigest() != source.content_sha256:
        say(f"not fixed, because it has just changed: {source.path}")
        return source
    if not os.access(source.file, os.W_OK) or not source.file.stat().st_mode & 0o222:
        say(f"not fixed, because it is read-only: {source.path}")
        return source
    mark = codecs.BOM_UTF8 if before.startswith(codecs.BOM_UTF8) else b""
    write_file(source.file, [mark, text.encode()])
    if not quiet:
        say(f"fixed: {source.path}")
    return read_again(source)


def _stream(request: EvaluationRequest, emit: Emit) -> Callable[[PromptResult], None]:
    from evalwright.reports.prompts.records import encode_record

    def stream(result: PromptResult) -> None:
        if request.minimal:
            result = minimal(result)
        elif request.with_host_info:
            result = with_host_info(result)
        emit(encode_record(result) + b"\n")

    return stream


def _context(
    settings: EvaluationSettings,
    texts: Mapping[str, str],
    change: "Change | None",
    passed_over: Sequence[str],
) -> "ReportContext":
    from evalwright.reports.prompts.context import ReportContext

    return ReportContext(
        tier=settings.tier,
        threshold=settings.threshold,
        generated=iso_time(SystemClock().now_us()),
        texts=texts,
        change=change,
        passed_over=passed_over,
    )


def _write(
    request: EvaluationRequest,
    emit: Emit,
    results: Sequence[PromptResult],
    context: "ReportContext",
) -> None:
    from evalwright.reports.forms import renderer
    from evalwright.reports.prompts.records import json_chunks

    shared = [with_host_info(each) if request.with_host_info else each for each in results]
    records = [minimal(each) for each in results] if request.minimal else shared
    for path, name in request.outputs:
        chosen = records if name in RECORD_FORMATS else shared
        report = (
            json_chunks(chosen) if name == "json" else [renderer("prompts", name)(chosen, context)]
        )
        if is_stdout(path):
            emit(b"".join(report))
        else:
            write_file(path, report)
    if os.environ.get(STEP_SUMMARY):
        from evalwright.reports.formats.ci import append_step_summary
        from evalwright.reports.prompts.markdown import render_step_summary

        append_step_summary(render_step_summary(results, context))
    if request.as_json and not request.streams:
        emit(renderer("prompts", "json")(records, context))
    if request.quiet:
        return
    if not request.prints_result:
        from evalwright.reports.formats.console import Style
        from evalwright.reports.prompts import render_console

        echo(render_console(results, context, Style.of(Streams.out)), styled=True)
        for path, _ in request.outputs:
            say(f"written: {path}")
        if context.change is not None and context.change.regressed:
            say("worse than the baseline")
    elif context.passed_over:
        say(f"passed over: {passed_over_in_words(context.passed_over)}")

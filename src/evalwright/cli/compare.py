"""`evalwright compare`: two runs side by side, a report folder, and a gate."""

import os
import shlex
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import msgspec

from evalwright.cli.output import (
    Streams,
    WorkProgress,
    check_place,
    echo,
    print_exit,
    reserve_stdout,
    say,
    stop_in_good_order,
    write_file,
)
from evalwright.cli.parameters import (
    db_option,
    form_options,
    github_option,
    jobs_option,
    json_option,
    on_option,
    wanted_forms,
)
from evalwright.contracts.errors import BadInput
from evalwright.engine.runs import LATEST
from evalwright.reports.formats.ci import append_step_summary, workflow_command
from evalwright.reports.formats.console import Style
from evalwright.reports.forms import STEP_SUMMARY, renderer
from evalwright.store.location import open_existing_log, shown_db


@click.command(
    epilog="""\b
Examples:
  evalwright compare --baseline runs/main --new runs/branch --out report
  evalwright compare main
  evalwright compare 12 latest --fail-on signals
  evalwright compare old.jsonl new.jsonl --fail-on changes"""
)
@click.argument("sides", nargs=-1, metavar="BASELINE [NEW]")
@click.option("--baseline", metavar="DIR|FILE|RUN", help="What was good before.")
@click.option("--new", metavar="DIR|FILE|RUN", help="What is compared with it.")
@click.option(
    "--cases",
    type=click.Path(path_type=Path),
    help="The cases and what is expected of them; else cases.json in or above a run directory.",
)
@click.option("--out", type=click.Path(path_type=Path), help="Keep the report in this folder.")
@click.option("--report-id", metavar="ID", help="The report's id; by default from the run ids.")
@click.option(
    "--suppress",
    type=click.Path(path_type=Path),
    help="Signals that are known and accepted, each with a reason and an expiry date.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["any", "regression", "gate", "signals", "changes", "none"]),
    default="any",
    show_default=True,
    help="What gives exit code 1. any: a regression, gated case, new severe signal or no answer; "
    "signals: a new severe signal; changes: another answer or call. Where nothing was expected, "
    "any and regression give 3.",
)
@form_options("comparison", "Also write {title}.")
@github_option
@click.option(
    "--show-secrets", is_flag=True, help="Do not mask secrets and personal data in the report."
)
@jobs_option
@on_option
@json_option
@db_option
def command(
    *,
    sides: tuple[str, ...],
    baseline: str | None,
    new: str | None,
    out: Path | None,
    fail_on: str,
    as_json: bool,
    github: bool,
    db: str | None,
    **asked: Any,
) -> int:
    """Compare a new run, by default the latest, with a baseline: what changed, and why.

    A side is a run directory (run.json and one response per case), a file or folder of traces
    (JSON lines, OTLP JSON, message logs; gzipped or not), a run in Evalwright's own log (an id,
    latest, or the name of a baseline), or a group of repeats in it. Whether cases got worse can be
    told where --cases, or the suite of a run, says what is expected. The report is one folder that
    opens anywhere: report.html, compare-report.json, a page for each case, and copies of the data
    behind it. Secrets and personal data are masked.
    """
    from evalwright.reports.comparison.console import render_comparison  # not to complete
    from evalwright.reports.comparison.folder import CompareOptions, compare_runs

    forms = wanted_forms("comparison", asked)
    named = _sides(sides, baseline, new)
    with nullcontext() if out is not None else TemporaryDirectory() as scratch:
        folder = out if out is not None else Path(str(scratch)) / "report"
        options = CompareOptions(**asked, baseline=named[0], new=named[1], out=folder)
        _check_forms(forms, folder)
        emit = reserve_stdout() if as_json else None
        stop_in_good_order()
        progress = WorkProgress("cases")
        report = compare_runs(options, partial(open_existing_log, db), progress, forms.values())
        progress.end()
        _write_forms(folder, forms, is_private=options.show_secrets)
        if github or os.environ.get(STEP_SUMMARY):
            _publish(folder, github=github, as_json=as_json)
    if emit is not None:
        result = {"summary": report.summary, "quality_flags": report.quality}
        emit(msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n")
    else:
        echo(render_comparison(report, Style.of(Streams.out)), styled=True)
        for note in report.notes:
            say(f"note: {note}")
        if not report.quality.self_contained:
            count = report.quality.missing_assets_count
            say(f"note: not in the report: {count} captured files; see missing_assets")
        if options.show_secrets:
            say("note: secrets and personal data are NOT masked; do not pass this report on")
        if out is not None:
            echo(f"\n  Report: {out / 'report.html'}")
        else:
            words = ["evalwright", "compare", *named, "--out", "report"]
            words += [] if options.cases is None else ["--cases", str(options.cases)]
            words += ["--db", shown_db(db)] if db else []
            echo(f"\n  As a folder  {shlex.join(words)}")
    summary = report.summary
    fails = {
        "any": report.blocks_shipping,
        "regression": report.blocks_shipping and summary.regressions > 0,
        "gate": summary.gated_cases > 0,
        "signals": summary.new_signal_counts.high + summary.new_signal_counts.critical > 0,
        "changes": summary.differing.answers + summary.differing.calls > 0,
        "none": False,
    }
    code = {None: 3, True: 1, False: 0}[fails[fail_on]]
    if code == 3:
        say(
            f"evalwright: --fail-on {fail_on}: nothing was expected; say with --cases what is, or "
            "ask for what can be told: --fail-on signals, changes, gate or none"
        )
    if as_json and not code:
        return code
    meanings = {0: "the gate passed", 1: "the gate failed"} if fail_on != "any" else {}
    return print_exit(code, {3: "cannot tell", **meanings}.get(code, ""), aside=as_json)


def _sides(given: Sequence[str], baseline: str | None, new: str | None) -> tuple[str, str]:
    if len(given) == 2 and baseline is None and new is None:
        return given[0], given[1]
    named = [*given, *filter(None, (baseline, new))]
    if len(named) == 2 and not given:
        return named[0], named[1]
    if len(named) == 1 and new is None:
        return named[0], LATEST
    remedy = "evalwright compare BASELINE NEW, or --baseline BASELINE --new NEW"
    raise BadInput(f"a comparison has two sides; name each once: {remedy}")


def _check_forms(forms: dict[str, Path], out: Path) -> None:
    """Refuse two forms in one place, or one in the folder that is replaced as a whole."""
    taken: dict[str, str] = {}
    for name, path in forms.items():
        place = os.path.realpath(path)
        if Path(place).is_relative_to(os.path.realpath(out)):
            raise BadInput(f"--{name} {path}: is in the report's folder; put it beside {out}")
        if place in taken:
            raise BadInput(f"--{name} {path}: --{taken[place]} is written there")
        taken[place] = name
        if not _is_made_with(out, Path(place).parent):
            check_place(path)


def _is_made_with(out: Path, folder: Path) -> bool:
    """Whether a folder comes into being with the report, because it lies on the way there."""
    return not folder.exists() and Path(os.path.realpath(out)).is_relative_to(folder)


def _write_forms(out: Path, forms: dict[str, Path], *, is_private: bool) -> None:
    if not forms:
        return
    from evalwright.reports.comparison.machine import read_machine_report

    report = read_machine_report(out)
    for name, path in forms.items():
        write_file(path, [renderer("comparison", name)(report)], is_private=is_private)


def _publish(out: Path, *, github: bool, as_json: bool) -> None:
    from evalwright.reports.comparison.machine import read_machine_report
    from evalwright.reports.comparison.markdown import notes_on, render_markdown

    report = read_machine_report(out)
    append_step_summary(render_markdown(report))
    for note in notes_on(report) if github else ():
        (say if as_json else echo)(workflow_command(note))

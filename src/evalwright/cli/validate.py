"""`evalwright validate`: check suites, summaries, event logs and report directories."""

import re
from pathlib import Path

import click

from evalwright.cli.output import echo, in_words, print_exit, say, warn, without_secrets
from evalwright.contracts.documents import read_input
from evalwright.contracts.errors import BadInput, InvalidDocument, Problem
from evalwright.contracts.report import MACHINE_REPORT
from evalwright.contracts.suite import weight_warnings
from evalwright.engine.suites.validation import SUITE_KIND, check_file
from evalwright.scoring.golden import read_suite
from evalwright.signals.suppression import parse_suppressions

# A file whose first key is `suppressions`, in YAML after comments, or in JSON.
_SUPPRESSIONS = re.compile(rb"(?:\s*#[^\n]*\n|\s)*(?:\{\s*)?[\"']?suppressions[\"']?\s*:")


@click.command(epilog="Example: evalwright validate suite.yaml summary.json run.jsonl report/")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
def command(*, files: tuple[Path, ...]) -> int:
    """Check FILES: suites (JSON or YAML), EvalSummary documents, event logs (JSON lines).

    Also prompt results, agent manifests, tools files, suppression files, and folders: these are
    checked as reports of `compare`, with their machine report, links, pages and flags.

    Every problem is listed with its place. Exit code 2 when there is any. A warning is not one,
    nor is a note: that the verdict on a suite may differ from that of an earlier version.
    """
    failures = 0
    for path in files:
        try:
            kind, warnings, notes = _check(path)
        except InvalidDocument as error:
            failures += 1
            say(without_secrets(in_words(error)))
            count = len(error.problems)
            say(f"{path}: {count} problem{'s' if count != 1 else ''}")
        except BadInput as error:
            failures += 1
            say(in_words(error))
        else:
            for warning in warnings:
                warn(f"{path}: {warning}")
            for note in notes:
                say(f"note: {path}: {note}")
            echo(f"{path}: valid {kind}")
    return print_exit(2, "not valid", aside=True) if failures else 0


def _check(path: Path) -> tuple[str, list[Problem], list[str]]:
    if path.is_dir():
        from evalwright.reports.comparison.check import check_report

        return f"compare report with {check_report(path)} items", [], []
    if path.name == MACHINE_REPORT:
        raise BadInput(f"{path}: a part of a report; give its folder: {path.parent}")
    source = read_input(path)
    if _SUPPRESSIONS.match(source):
        parse_suppressions(source, str(path))
        return "suppression file", [], []
    notes: list[str] = []
    kind = check_file(source, str(path), notes)
    if kind != SUITE_KIND:
        return kind, [], notes
    from evalwright.scoring.earlier_rule import earlier_rule  # with all checks

    suite = read_suite(source, str(path))
    note = earlier_rule(suite.tasks).note(suite.thresholds)
    return kind, weight_warnings(suite), [note] if note else []

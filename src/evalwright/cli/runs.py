"""`evalwright runs`: list the runs in the log."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from evalwright.cli.output import Streams, echo, print_json, say
from evalwright.cli.parameters import db_option, json_option
from evalwright.contracts.amounts import dollars, percent, share_interval, span
from evalwright.contracts.short_names import suite_name
from evalwright.engine.runs import EVALUATIONS, RunRow, list_runs, row_of
from evalwright.reports.formats.console import Shape, Style, columns, printable
from evalwright.scoring.statistics import wilson
from evalwright.store.location import log_exists, nothing_recorded, opened_log
from evalwright.store.protocol import EventLog, RunFacts, RunFilter

if TYPE_CHECKING:
    from evalwright.host.web.run_figures import FiguresCache, RunFigures

MOST_RUNS = 20
WIDE = 100  # columns, from which on rates have their intervals


class RunLine(NamedTuple):
    """A run, or its repeats as one row, with what is known of them."""

    run: RunFacts
    row: RunRow
    repeats: int
    shape: Shape
    found: "Sequence[RunFigures]"  # of those that have a result
    change: str  # against the baseline
    style: Style
    is_short: bool = False  # other columns leave room for what was tried

    def sum_of(self, name: str) -> int:
        """A figure of all repeats together."""
        return sum(getattr(each, name) for each in self.found)


def _number(line: RunLine) -> str:
    several = f" \N{MULTIPLICATION SIGN}{line.repeats}" if line.repeats > 1 else ""
    return f"{line.run.number}{several}"


def _rate(line: RunLine) -> str:
    if line.found:
        return percent(line.sum_of("passed"), line.sum_of("tasks"))
    return line.row.status if line.row.status != "completed" else "cannot be read"


def _interval(line: RunLine) -> str:
    tasks = line.sum_of("tasks")
    if line.style.width < WIDE or not tasks:
        return ""
    return share_interval(*wilson(line.sum_of("passed"), tasks))


def _cost(line: RunLine) -> str:
    costs = [each.cost_usd for each in line.found if each.cost_usd is not None]
    return dollars(sum(costs)) if costs and not line.style.is_narrow else ""


def _slowest(line: RunLine) -> str:
    spans = [each.p95_ms for each in line.found if each.p95_ms is not None]
    return span(max(spans)) if spans and not (line.is_short or line.style.is_narrow) else ""


def _started(line: RunLine) -> str:
    if line.is_short:
        return ""
    return line.row.started_at[: 10 if line.style.is_narrow else 16].replace("T", " ")


def _what(line: RunLine) -> str:
    return (line.found[0].provenance.title or "") if line.found else ""


def _branch(line: RunLine) -> str:
    told = [*(["live-shadow"] if "live-shadow" in line.row.modes else []), *line.row.marks]
    if line.found:
        came = line.found[0].provenance
        told = [came.branch or "", (came.commit or "")[:7], *told]
    return " ".join(filter(None, told))


# A head, how `columns` lays it out, and what is in it.
COLUMNS: tuple[tuple[str, str, Callable[[RunLine], str]], ...] = (
    ("", ".", lambda line: line.style.shape(line.shape)),
    ("RUN", ">", _number),
    ("WHAT", "~", _what),
    (
        "PASSED",
        ">",
        lambda line: f"{line.sum_of('passed'):,}/{line.sum_of('tasks'):,}" * bool(line.found),
    ),
    ("RATE", ">", _rate),
    ("95%", ">", _interval),
    ("BASELINE", ">", lambda line: line.change),
    ("COST", ">", _cost),
    ("P95", ">", _slowest),
    ("STARTED", "<", _started),
    ("BRANCH", "~", _branch),
)


@click.command(epilog="Example: evalwright runs --limit 5")
@click.option(
    "--limit",
    type=click.IntRange(1),
    help=f"Show this many at most; by default {MOST_RUNS}, with --json all.",
)
@json_option
@db_option
def command(*, limit: int | None, as_json: bool, db: str | None) -> None:
    """List the runs in the log by suite and agent, newest first; repeats are one row."""
    if not log_exists(db):
        if as_json:
            print_json([])
        else:
            say(nothing_recorded(db))
        return
    with opened_log(db) as log:
        if as_json:
            print_json(list_runs(log, limit))
            return
        lines = list(_listed(log, limit or MOST_RUNS, Style.of(Streams.out)))
    if lines:
        echo("\n".join(lines), styled=True)
    else:
        say(nothing_recorded(db))


def _listed(log: EventLog, limit: int, style: Style) -> Iterator[str]:
    """The runs as lines: a head for each suite and agent, and a row for each run below it."""
    from evalwright.host.web.run_figures import FiguresCache, baselines_of, suite_id  # not for JSON

    figures, baselines = FiguresCache(), baselines_of(log)
    found = log.find_runs(EVALUATIONS, limit + 1)
    groups: dict[tuple[str, str], list[RunLine]] = {}
    seen: set[str] = set()
    for run in found[:limit]:
        if run.repeats in seen:
            continue
        repeats = [run]
        if run.repeats is not None:
            seen.add(run.repeats)
            repeats = log.find_runs(RunFilter(repeats=run.repeats))
        named = baselines.get((suite_id(run), run.agent or ""))
        pair = suite_name(run.suite or run.workflow), figures.agent_of(log, run)
        groups.setdefault(pair, []).append(_line(log, figures, repeats, named, style))
    listed = [line for of_pair in groups.values() for line in of_pair]
    if not listed:
        return
    is_short = style.width < WIDE and any(map(_what, listed))
    rows = [
        [column(line._replace(is_short=is_short)) for _, _, column in COLUMNS] for line in listed
    ]
    used = [name if any(row[n] for row in rows) else "" for n, (name, _, _) in enumerate(COLUMNS)]
    kinds = "".join(kind for _, kind, _ in COLUMNS)
    head, *lines = columns([used, *rows], kinds, style.width - 2)
    yield style.dim(f"  {head}")
    for (suite, agent), of_pair in groups.items():
        yield f"{style.bold(printable(suite))}  {printable(agent)}"
        for _ in of_pair:
            yield f"  {lines.pop(0)}"
    if len(found) > limit:
        yield style.dim(f"The newest {limit:,}; more with --limit {10 * limit}")


def _line(
    log: EventLog,
    figures: "FiguresCache",
    repeats: Sequence[RunFacts],
    named: str | None,
    style: Style,
) -> RunLine:
    from evalwright.host.web.run_figures import change_in_words

    run, row = repeats[0], row_of(log, repeats[0])
    found = [each for each in (figures.of(log, repeat) for repeat in repeats) if each is not None]
    results = {figures.has_passed(log, repeat) for repeat in repeats}
    shape: Shape = "flaky" if len(results) > 1 else "passed" if True in results else "failed"
    if row.status != "completed":
        shape = "running" if row.status == "running" else "error"
    elif results == {None}:
        shape = "error"
    change = figures.change(log, run, named)
    words = "" if change is None else change_in_words(change)
    words = "baseline" if named == run.run_id else words
    return RunLine(run, row, len(repeats), shape, found, words, style)

"""The process that compares two runs of a log: it leaves one archive of the report, or facts.

A separate process can be stopped when it takes too long, and the host goes on answering. What it
prints goes to the host's log: of an error that is not ours the type and the stack, as its message
may hold what a tenant sent.
"""

import os
import sys
import traceback
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec

from evalwright.comparison.case_plan import CasePlan, PlannedCase
from evalwright.comparison.inputs import open_runs
from evalwright.comparison.pipeline import Comparer, planned_cases
from evalwright.comparison.summary import CaseTally, facts_of
from evalwright.contracts.errors import (
    BadInput,
    DamagedEventLog,
    EvalwrightError,
    RunNotFound,
    StoreError,
)
from evalwright.host.library.comparisons import (
    ARCHIVE,
    DAMAGED,
    FACTS,
    MOST_BYTES,
    NOT_COMPARABLE,
    NOT_FOUND,
    PROGRESS,
    REPORT,
    STORE_FAILED,
    TOO_LARGE,
)
from evalwright.reports.comparison.folder import ReportRequest, write_report
from evalwright.reports.comparison.machine import ComparisonFacts
from evalwright.reports.comparison.overview import OverviewRow, overview_row
from evalwright.scans.spread import LocalProcesses, cores, has_threads
from evalwright.signals.suppression import Suppressions
from evalwright.store.location import VARIABLE, open_log
from evalwright.store.protocol import EventLog

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first moment that an archive can name
_MODE = 0o644 << 16
_AT_ONCE = 500  # cases
_MOST_PROCESSES = 4  # each has the tasks of both runs in memory
_CODES: dict[type[EvalwrightError], int] = {  # the first that fits
    RunNotFound: NOT_FOUND,
    BadInput: NOT_COMPARABLE,
    DamagedEventLog: DAMAGED,
    StoreError: STORE_FAILED,
    EvalwrightError: 1,
}


def main(
    log: str | Path, partition: str, baseline: str, new: str, work: Path, wanted: str = ARCHIVE
) -> int:
    """Compare two runs of a partition of a log; returns the exit code."""
    try:
        make = _find_facts if wanted == FACTS else _compare
        return make(lambda: open_log(str(log)).for_tenant(partition), baseline, new, work)
    except EvalwrightError as error:
        sys.stderr.write(f"{error}\n")
        return next(code for kind, code in _CODES.items() if isinstance(error, kind))
    except Exception as error:  # noqa: BLE001 - its message must not be printed
        traceback.print_tb(error.__traceback__)
        sys.stderr.write(f"{type(error).__name__}\n")
        return 1


def _compare(open_part: Callable[[], EventLog], baseline: str, new: str, work: Path) -> int:
    with closing(open_runs(baseline, new, open_part)) as inputs:
        request = ReportRequest(
            inputs=inputs,
            out=work / REPORT,
            suppressions=Suppressions(()),
            today=datetime.now(UTC).date(),
            report_id=f"{baseline}..{new}",
        )
        write_report(request, lambda _done, _total: None)
    if sum(path.stat().st_size for path in _files(work / REPORT)) > MOST_BYTES:
        return TOO_LARGE
    pack(work / REPORT, work / ARCHIVE)
    return 0


def _find_facts(open_part: Callable[[], EventLog], baseline: str, new: str, work: Path) -> int:
    """Leave what the tasks come to, without a page for each."""
    rows, flaky, tally = list[OverviewRow](), list[str](), CaseTally()
    with (
        closing(open_runs(baseline, new, open_part)) as inputs,
        closing(planned_cases(inputs)) as plan,
    ):
        comparer = Comparer(inputs, Suppressions(()), datetime.now(UTC).date(), masked=True)
        is_worth_it = plan.count > _AT_ONCE and not has_threads()
        engine = LocalProcesses(min(cores(), _MOST_PROCESSES) if is_worth_it else 1)
        if engine.processes > 1:
            inputs.close()  # no open database is carried into another process
        with closing(engine.map_shards(partial(_facts_found, comparer), _batches(plan))) as parts:
            for found in parts:
                tally.merge(found.tally)
                rows += found.rows
                flaky += found.flaky
                (work / PROGRESS).write_text(f"{tally.cases} {plan.count}")
        summary = tally.summary(is_same_run=inputs.is_same_run)
    (work / FACTS).write_bytes(msgspec.json.encode(ComparisonFacts(summary, rows, flaky)))
    return 0


class _FoundFacts(NamedTuple):
    tally: CaseTally
    rows: list[OverviewRow]
    flaky: list[str]


def _facts_found(comparer: Comparer, planned: list[PlannedCase]) -> _FoundFacts:
    items = [case.item for case in comparer.compare(planned)]
    tally = CaseTally()
    tally.add([facts_of(item) for item in items])
    rows = [  # of which a list of tasks shows more than the verdicts
        row
        for row in map(overview_row, items)
        if row.new_root or row.gated or row.signals or row.reason or row.recommendation != "none"
    ]
    flaky = [
        item.case_id
        for item in items
        if item.repeats is not msgspec.UNSET
        and (item.repeats.baseline.flaky or item.repeats.new.flaky)
    ]
    return _FoundFacts(tally, rows, flaky)


def _batches(plan: CasePlan) -> Iterator[list[PlannedCase]]:
    source = iter(plan)
    while batch := list(islice(source, _AT_ONCE)):
        yield batch


def pack(folder: Path, archive: Path) -> None:
    """Archive a folder; the same files always give the same bytes."""
    with zipfile.ZipFile(archive, "x", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(_files(folder), key=lambda each: each.relative_to(folder).as_posix()):
            entry = zipfile.ZipInfo(path.relative_to(folder).as_posix(), _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = _MODE
            packed.writestr(entry, path.read_bytes())


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    partition, baseline, new, wanted, work = sys.argv[1:]
    sys.exit(main(os.environ[VARIABLE], partition, baseline, new, Path(work), wanted))

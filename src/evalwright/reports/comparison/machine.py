"""The machine report, read back: what every other form of a comparison is made from."""

from pathlib import Path

import msgspec

from evalwright.contracts.report import MACHINE_REPORT, Item, PairingSummary, QualityFlags, Summary
from evalwright.reports.comparison.overview import OverviewRow


class MachineReport(msgspec.Struct, frozen=True):
    """`compare-report.json`."""

    report_id: str
    summary: Summary
    quality_flags: QualityFlags
    items: list[Item]
    cases_path: str | None = None
    pairing: PairingSummary | None = None


class ComparisonFacts(msgspec.Struct, frozen=True):
    """What a comparison comes to: all in all, and the tasks of which there is something to say."""

    summary: Summary
    rows: list[OverviewRow]
    flaky: list[str]  # tasks that passed only sometimes on a side


def read_machine_report(folder: Path) -> MachineReport:
    """The machine report of a report directory that we wrote."""
    return msgspec.json.decode((folder / MACHINE_REPORT).read_bytes(), type=MachineReport)

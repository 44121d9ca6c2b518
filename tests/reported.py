"""Reports made in this process, and what must be true of every one of them."""

import json
import tempfile
from datetime import date
from pathlib import Path
from typing import Any

from comparing import Pair, files_of
from evalwright.comparison.inputs import open_inputs
from evalwright.contracts.report import BothSides
from evalwright.reports.comparison.check import check_report
from evalwright.reports.comparison.folder import ReportRequest, WrittenReport, write_report
from evalwright.signals.suppression import Suppressions

TODAY = date(2026, 1, 1)


def no_own_run() -> Any:
    raise AssertionError("a run was looked for in the log")


def write(
    pair: Pair, out: Path, progress: Any = lambda done, total: None, **more: Any
) -> WrittenReport:
    """Compare two run directories as the command does, without its process."""
    with tempfile.TemporaryDirectory() as work:
        sides = BothSides(str(pair.baseline), str(pair.new))
        inputs = open_inputs(sides, more.pop("cases", None), no_own_run, Path(work))
        request = ReportRequest(
            inputs=inputs,
            out=out,
            suppressions=Suppressions(()),
            today=TODAY,
            report_id="test",
            **more,
        )
        try:
            return write_report(request, progress)
        finally:
            inputs.close()


def report_of(pair: Pair, **more: Any) -> Path:
    """The report of a pair: valid, nothing beside it, the inputs as they were."""
    out = pair.folder.parent / "report"
    inputs, beside = files_of(pair.folder), names_in(out.parent)
    write(pair, out, **more)
    check_report(out)
    assert names_in(out.parent) == beside | {"report"}
    assert files_of(pair.folder) == inputs
    return out


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def document_of(report: Path) -> Any:
    return json.loads((report / "compare-report.json").read_bytes())

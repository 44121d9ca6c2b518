"""The process that compares two runs: from two run folders to one archive of the report.

A process of its own can be stopped when it takes too long, and the host goes on answering.
"""

import sys
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from evalwright.comparison.inputs import open_inputs
from evalwright.contracts.errors import RunNotFound
from evalwright.contracts.report import BothSides
from evalwright.engine.export import ExportedRun
from evalwright.host.comparing import (
    ARCHIVE,
    BASELINE,
    CASES,
    MOST_BYTES,
    NEW,
    REPORT,
    TOO_LARGE,
)
from evalwright.reports.folder.build import Request, write_report
from evalwright.signals.suppression import Suppressions

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first moment that an archive can name
_MODE = 0o644 << 16


def main(work: Path, report_id: str) -> int:
    """Compare what lies in the work folder, and leave the archive there."""
    inputs = open_inputs(
        BothSides(str(work / BASELINE), str(work / NEW)), work / CASES, _export_nothing, work
    )
    request = Request(
        baseline=inputs.baseline,
        new=inputs.new,
        cases=inputs.cases,
        tops=inputs.tops,
        out=work / REPORT,
        suppressions=Suppressions(()),
        today=datetime.now(UTC).date(),
        report_id=report_id,
        notes=inputs.notes,
    )
    write_report(request, lambda _done, _total: None)
    if sum(path.stat().st_size for path in _files(work / REPORT)) > MOST_BYTES:
        return TOO_LARGE
    pack(work / REPORT, work / ARCHIVE)
    return 0


def pack(folder: Path, archive: Path) -> None:
    """All files of a folder; the same files always give the same bytes."""
    with zipfile.ZipFile(archive, "x", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(_files(folder), key=lambda each: each.relative_to(folder).as_posix()):
            entry = zipfile.ZipInfo(path.relative_to(folder).as_posix(), _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = _MODE
            packed.writestr(entry, path.read_bytes())


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def _export_nothing(reference: str) -> ExportedRun:
    raise RunNotFound(reference)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))

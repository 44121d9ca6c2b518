"""The process that compares two runs of a log: it leaves one archive of the report.

A separate process can be stopped when it takes too long, and the host goes on answering.
"""

import sys
import zipfile
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from evalwright.comparison.inputs import open_runs
from evalwright.host.comparing import ARCHIVE, MOST_BYTES, REPORT, TOO_LARGE
from evalwright.reports.folder.build import ReportRequest, write_report
from evalwright.signals.suppression import Suppressions
from evalwright.store.sqlite import SqliteLog

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first moment that an archive can name
_MODE = 0o644 << 16


def main(log: Path, baseline: str, new: str, work: Path) -> int:
    """Compare two runs of a log, and leave the archive in the work folder."""
    with closing(open_runs(baseline, new, partial(SqliteLog, log))) as inputs:
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
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], Path(sys.argv[4])))

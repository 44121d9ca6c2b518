"""Reports on two runs, made by a separate process in a folder that is deleted afterwards."""

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from evalwright.contracts.errors import CannotEvaluate
from evalwright.contracts.events import TERMINAL_TYPES
from evalwright.host.errors import ApiError, unavailable
from evalwright.host.run_handle import is_evaluation
from evalwright.store.protocol import EventLog

SECONDS = 120.0  # that a comparison may take
RETRY_SECONDS = 60
MOST_BYTES = 256 * 1024 * 1024  # of a report before it is packed
TOO_LARGE = 4  # the exit code of the process when the report is larger

REPORT, ARCHIVE = "report", "report.zip"  # in the folder

_PROCESS = "evalwright.host.comparison_process"

_KEPT_ENVIRONMENT = ("PATH", "PYTHONPATH", "PYTHONHOME", "TMPDIR", "LANG", "LC_ALL")


def check_comparable(log: EventLog, run_id: str) -> None:
    """Raise `ApiError` 409 for a run that has not ended; 404 unless it is an evaluation."""
    edges = log.edges(run_id)
    if not is_evaluation(edges):
        raise ApiError(404, "not_found", "no such run")
    if edges[-1].type not in TERMINAL_TYPES:
        message = "only a run that has ended can be compared"
        raise ApiError(409, "conflict", message, {"runStatus": "running"})


async def compare(log: EventLog, baseline: str, new: str, work: Path) -> Path:
    """Compare two runs, and leave the archive of the report in an empty folder; returns its path.

    The process opens the log itself. It sees the runs of all tenants there, so both ids must have
    passed `check_comparable` on the caller's view of the log.
    """
    code = await _executed(log.place, baseline, new, work)
    if code == TOO_LARGE:
        message = f"the report is larger than {MOST_BYTES} bytes; ask the host's operator for it"
        raise ApiError(422, "report_too_large", message)
    if code != 0:
        raise CannotEvaluate(f"the process that compares two runs ended with {code}")
    return work / ARCHIVE


async def _executed(log: str, baseline: str, new: str, work: Path) -> int:
    command = (sys.executable, "-P", "-m", _PROCESS, log, baseline, new, str(work))
    environment = {name: os.environ[name] for name in _KEPT_ENVIRONMENT if name in os.environ}
    running = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        env=environment,
        start_new_session=True,  # so that it can be ended with all that it started
    )
    try:
        async with asyncio.timeout(SECONDS):
            return await running.wait()
    except TimeoutError:
        message = f"the comparison took longer than {SECONDS:g} s"
        raise unavailable(message, RETRY_SECONDS) from None
    finally:
        if running.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
            await running.wait()

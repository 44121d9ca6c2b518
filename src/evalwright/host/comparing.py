"""Reports on two runs, made by a process of their own in a folder that is gone afterwards."""

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from evalwright.contracts.errors import BadInput, CannotEvaluate
from evalwright.contracts.events import TERMINAL_TYPES
from evalwright.host.errors import ApiError, unavailable
from evalwright.host.status import is_evaluation
from evalwright.store.protocol import EventLog

SECONDS = 120.0  # that a comparison may take
RETRY_SECONDS = 60
MOST_BYTES = 256 * 1024 * 1024  # of a report before it is packed
TOO_LARGE = 4  # the exit code of the process for a report with more

# What lies in the folder: two runs, the cases of the newer, the report, its archive.
BASELINE, NEW, CASES, REPORT, ARCHIVE = "baseline", "new", "new-cases.json", "report", "report.zip"

_PROCESS = "evalwright.host.comparison_process"

_KEPT_ENVIRONMENT = ("PATH", "PYTHONPATH", "PYTHONHOME", "TMPDIR", "LANG", "LC_ALL")


def check_comparable(log: EventLog, run_id: str) -> None:
    """Raise `ApiError` 409 for a run that has not ended; 404 for what is no evaluation."""
    edges = log.edges(run_id)
    if not is_evaluation(edges):
        raise ApiError(404, "not_found", "there is no such run")
    if edges[-1].type not in TERMINAL_TYPES:
        message = "a run can be compared when it has ended"
        raise ApiError(409, "conflict", message, {"runStatus": "running"})


async def compare(log: EventLog, baseline: str, new: str, work: Path) -> Path:
    """Compare two runs in an empty folder; gives the archive of the report, which lies there."""
    await asyncio.to_thread(_lay_out, log, baseline, new, work)
    code = await _executed(work, f"{baseline}..{new}")
    if code == TOO_LARGE:
        message = f"the report is larger than {MOST_BYTES} bytes; ask the host's operator for it"
        raise ApiError(422, "report_too_large", message)
    if code != 0:
        raise CannotEvaluate(f"the process that compares two runs ended with {code}")
    return work / ARCHIVE


def _lay_out(log: EventLog, baseline: str, new: str, work: Path) -> None:
    # Loaded when there is something to compare: a host that never does shall stay small.
    from evalwright.comparison.inputs import lay_out
    from evalwright.engine.export import export_run

    try:
        lay_out(export_run(log, baseline), work / BASELINE)
        lay_out(export_run(log, new), work / NEW)
    except OSError as error:
        raise CannotEvaluate(f"there is no room to compare two runs: {error.strerror}") from None
    except BadInput as error:
        raise ApiError(422, "validation_error", f"it cannot be compared: {error}") from None


async def _executed(work: Path, report_id: str) -> int:
    command = (sys.executable, "-P", "-m", _PROCESS, str(work), report_id)
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

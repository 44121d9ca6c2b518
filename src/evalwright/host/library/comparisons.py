"""Reports on two runs, made by a separate process in a folder that is deleted afterwards."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from evalwright.contracts.errors import CannotEvaluate, DamagedEventLog, RunNotFound, StoreError
from evalwright.contracts.events import TERMINAL_TYPES
from evalwright.host.http.errors import ApiError, unavailable
from evalwright.host.runs.handle import RunHandle, is_evaluation
from evalwright.signals.masking.credentials import mask_strictly
from evalwright.store.location import VARIABLE

if TYPE_CHECKING:
    from evalwright.host.http.routing import ApiCall

SECONDS = 120.0  # that a comparison may take
RETRY_SECONDS = 60
MOST_BYTES = 256 * 1024 * 1024  # of a report before it is packed

# Exit codes of the process.
TOO_LARGE = 4  # the report is larger
NOT_COMPARABLE = 5  # the last line that it printed says why, as for the next three
NOT_FOUND = 6
STORE_FAILED = 7
DAMAGED = 8

REPORT, ARCHIVE = "report", "report.zip"  # in the folder
PROGRESS = "progress.txt"  # how many tasks of how many are compared
FACTS = "facts.json"  # the same without pages: what each task comes to, which is found sooner

_PRINTED = "stderr.txt"  # in the folder: what the process printed
_LAST_BYTES = 4096  # of what it printed, of which
_LAST_LINES = 6  # are logged

_PROCESS = "evalwright.host.library.comparison_process"

_KEPT_ENVIRONMENT = ("PATH", "PYTHONPATH", "PYTHONHOME", "TMPDIR", "LANG", "LC_ALL")

_ERRORS = {NOT_FOUND: RunNotFound, STORE_FAILED: StoreError, DAMAGED: DamagedEventLog}

_logger = logging.getLogger(__name__)


def check_comparable(run: RunHandle) -> None:
    """Raise `ApiError` 409 for a run that has not ended; 404 unless it is an evaluation."""
    edges = run.edges()
    if not is_evaluation(edges):
        raise ApiError(404, "not_found", "the run is not an evaluation, so it cannot be compared")
    if edges[-1].type not in TERMINAL_TYPES:
        message = "only a run that has ended can be compared"
        raise ApiError(409, "conflict", message, {"runStatus": "running"})


async def compare_for(
    call: "ApiCall",
    baseline_id: str,
    new_id: str,
    held: AsyncExitStack,
    wanted: str = ARCHIVE,
    begun: Callable[[Path], None] = lambda _folder: None,
) -> Path:
    """Compare two runs of a caller; the file that is wanted lasts as long as what is held.

    `begun` is told the folder, where `PROGRESS` says how far it is.
    """
    baseline, new = call.run_with(baseline_id), call.run_with(new_id)
    tenant, limit = call.principal.tenant, call.host.comparisons
    for run in (new, baseline):
        await run.in_reader(partial(check_comparable, run))
    held.enter_context(call.host.streams.hold(tenant))
    folder = await asyncio.to_thread(TemporaryDirectory, prefix="evalwright-")
    held.push_async_callback(asyncio.to_thread, folder.cleanup)  # it may hold many files
    begun(Path(folder.name))
    with limit.hold(tenant):
        return await compare(baseline, new, Path(folder.name), wanted)


async def compare(baseline: RunHandle, new: RunHandle, work: Path, wanted: str = ARCHIVE) -> Path:
    """Compare two runs, and leave the archive of the report, or the facts, in an empty folder.

    Both runs must have passed `check_comparable`. The process opens the log itself, restricted to
    the partition of the new run: whatever ids it is given, it finds no run of anybody else.
    """
    words = (new.partition, baseline.run_id, new.run_id, wanted, str(work))
    command = (sys.executable, "-P", "-m", _PROCESS, *words)
    kept = [name for name in os.environ if name in _KEPT_ENVIRONMENT or name.startswith("PG")]
    # An address may hold a password, and everybody can see the words of a command.
    environment = {VARIABLE: new.log.address, **{name: os.environ[name] for name in kept}}
    code = await _executed(command, environment, work / _PRINTED)
    if code == 0:
        return work / wanted
    if code == TOO_LARGE:
        message = f"the report is larger than {MOST_BYTES} bytes; ask the host's operator for it"
        raise ApiError(422, "report_too_large", message)
    lines = await asyncio.to_thread(_last_lines, work / _PRINTED)
    printed = " < ".join(reversed(lines))  # the last line is the one that matters
    _logger.error("the comparison with %s ended with %s: %s", new.run_id, code, printed)
    reason = lines[-1] if lines else ""
    if code == NOT_COMPARABLE:
        raise ApiError(422, "validation_error", f"it cannot be compared: {reason}")
    if code in _ERRORS:
        raise _ERRORS[code](reason)
    raise CannotEvaluate(f"the process that compares two runs ended with {code}")


def _last_lines(printed: Path) -> list[str]:
    """The last lines that the process printed, masked; none if it printed nothing."""
    try:
        with printed.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _LAST_BYTES))
            text = file.read(_LAST_BYTES).decode("utf-8", "replace")
    except OSError:
        return []
    if size > _LAST_BYTES:
        text = text.partition("\n")[2]  # a secret that is cut in two would not be recognised
    lines = [line.strip() for line in mask_strictly(text).splitlines() if line.strip()]
    return lines[-_LAST_LINES:]


async def _executed(command: tuple[str, ...], environment: dict[str, str], prints: Path) -> int:
    with prints.open("xb") as printed:
        running = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=printed,
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

"""The log of the host: one JSON object per line, or readable lines on a terminal.

The host logs `LogEntry` objects, a closed type without a field for content. From messages of
libraries, the first line is kept, masked; from exceptions, the type and the stack, because their
messages may hold anything.
"""

import logging
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

import msgspec

from evalwright.host.telemetry.facts import ActivityEnded, Fact, LimitReached, RunBegan, RunEnded
from evalwright.signals.masking.credentials import mask_log_text, may_hold_credential

MAX_TEXT = 512  # characters of any field
MAX_FRAMES = 12  # the innermost frames of an exception

_SERVER_ERROR = 500

_logger = logging.getLogger("evalwright.host")


class LogEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """One logged event; `metric_kind` is its name in the protocol, if it has one."""

    event: str
    metric_kind: str | None = None
    method: str | None = None
    route: str | None = None
    status: int | str | None = None
    error_code: str | None = None
    latency_ms: float | None = None
    action: str | None = None
    outcome: str | None = None
    resource: str | None = None
    run_id: str | None = None
    workflow_id: str | None = None
    node_id: str | None = None
    provider: str | None = None
    tokens_input: int | None = None
    tokens_output: int | None = None
    usd: float | None = None
    estimated: bool | None = None
    kind: str | None = None
    limit: float | None = None
    observed: float | None = None
    duration_ms: int | None = None
    tenant: str | None = None
    key_id: str | None = None
    scope: str | None = None
    correlation_id: str | None = None
    trace_id: str | None = None


def access(entry: LogEntry, status: int) -> None:
    """Log an answered request."""
    if status >= _SERVER_ERROR:
        _write(logging.ERROR, entry)
        return
    chosen = f"{entry.run_id} {entry.correlation_id}"  # by the caller
    is_harmless = len(chosen) < MAX_TEXT and chosen.isprintable()
    is_short = _shortcuts and is_harmless and not may_hold_credential(chosen)
    if not (is_short and _shortcuts[-1].write(entry)):
        _write(logging.INFO, entry)


def run_fact(fact: Fact, names: Callable[[], dict[str, str | None]]) -> None:
    """Log a fact of a run, with the ids by which it is found.

    How it began and ended, what it paid for, the limits it reached.
    """
    level, fields = logging.INFO, dict[str, Any]()
    match fact:
        case RunBegan():
            event = "run.created"
        case ActivityEnded() if fact.usage is not None and not fact.is_repeated:
            event, usage = "cost.recorded", fact.usage
            fields = {
                "node_id": fact.node_id,
                "provider": fact.provider,
                "tokens_input": usage.input_tokens,
                "tokens_output": usage.output_tokens,
                "usd": usage.usd,
                "estimated": None if usage.usd is None else True,
            }
        case LimitReached():
            event, level = "cap.exceeded", logging.ERROR
            fields = {"kind": fact.kind, "limit": fact.limit, "observed": fact.observed}
        case RunEnded():
            event = "run.completed"
            level = logging.ERROR if fact.status == "failed" else logging.INFO
            took = None if fact.seconds is None else round(fact.seconds * 1000)
            fields = {"status": fact.status, "error_code": fact.error_code, "duration_ms": took}
        case _:
            return
    fields |= names()
    _write(level, LogEntry(event=event, metric_kind=f"openwop.{event}", **fields))


def audit(action: str, outcome: Literal["allowed", "denied", "done"], **fields: str | None) -> None:
    """Log a sensitive action, done or refused; `resource` is an id, never free text."""
    level = logging.WARNING if outcome == "denied" else logging.INFO
    entry = LogEntry(event="audit", action=action, outcome=outcome, **fields)  # type: ignore[arg-type]
    _write(level, entry)


def _write(level: int, entry: LogEntry) -> None:
    if _logger.isEnabledFor(level):
        _logger.log(level, "%s", entry.event, extra={"entry": entry})


class JsonLines(logging.Formatter):
    """A record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        frame = {
            "ts": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
        }
        return msgspec.json.encode(frame | _fields(record)).decode()


class _Shortcut:
    """Writes the log line of each request directly: `logging` takes three times as long."""

    def __init__(self, handler: "logging.StreamHandler[TextIO]") -> None:
        self._handler = handler
        self._encode = msgspec.json.Encoder().encode
        self._second = 0
        self._prefix = ""

    def write(self, entry: LogEntry) -> bool:
        """Write an entry of level INFO; False if it must go through `logging`."""
        if not _logger.isEnabledFor(logging.INFO):
            return True
        now_ms = time.time_ns() // 1_000_000
        second, fraction = divmod(now_ms, 1000)
        if second != self._second:
            self._second = second
            self._prefix = f'{{"ts":"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%S}'
        fields = self._encode(entry).decode()
        line = f'{self._prefix}.{fraction:03d}Z","level":"info",{fields[1:]}\n'
        self._handler.acquire()
        try:
            self._handler.stream.write(line)
            self._handler.flush()
        except (OSError, ValueError):
            return False
        finally:
            self._handler.release()
        return True


_shortcuts: list[_Shortcut] = []  # of the streams that are logged to


class PlainLines(logging.Formatter):
    """A record as a readable line."""

    def format(self, record: logging.LogRecord) -> str:
        """The time, the event, and the other fields as names and values."""
        moment = datetime.fromtimestamp(record.created).astimezone()
        fields = _fields(record)
        fields.pop("metricKind", None)
        words = [fields.pop(name) for name in ("event", "message") if name in fields]
        words += [
            f"{name}={' < '.join(value) if isinstance(value, list) else value}"
            for name, value in fields.items()
        ]
        line = f"{moment:%H:%M:%S} {record.levelname:<8} {' '.join(map(str, words))}"
        return "".join(each if each.isprintable() else "�" for each in line)


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """The fields of an entry; of a message of a library, whose later lines often hold values."""
    entry = getattr(record, "entry", None)
    if isinstance(entry, LogEntry):
        fields: dict[str, Any] = msgspec.to_builtins(entry)
    else:
        first, *_ = record.getMessage().strip().splitlines() or [""]
        fields = {"event": "log", "logger": record.name, "message": first}
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            frames = traceback.extract_tb(error.__traceback__)[-MAX_FRAMES:]
            fields["error"] = type(error).__qualname__
            fields["stack"] = [
                f"{frame.filename}:{frame.lineno} {frame.name}" for frame in reversed(frames)
            ]
    # The start of each text, without characters that cannot be encoded.
    texts = {
        name: text[:MAX_TEXT].encode("utf-8", "replace").decode()
        for name, text in fields.items()
        if isinstance(text, str)
    }
    if may_hold_credential("\n".join(texts.values())):
        texts = {name: mask_log_text(text) for name, text in texts.items()}
    return fields | texts


@contextmanager
def logging_to(stream: TextIO | None = None, level: int = logging.INFO) -> Iterator[None]:
    """Write all logs to a stream, by default stderr, until the block ends.

    The server must not configure logging (`log_config=None, access_log=False`): its access log
    holds query strings, and the host writes its own.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    is_for_people = handler.stream.isatty()
    handler.setFormatter(PlainLines() if is_for_people else JsonLines())
    loggers = {
        logging.getLogger(): logging.WARNING,
        logging.getLogger("evalwright"): level,
        logging.getLogger("uvicorn"): level,
    }
    levels_before = {logger: logger.level for logger in loggers}
    unwanted = logging.getLogger("uvicorn.access")
    unwanted_before, unwanted.disabled = unwanted.disabled, True
    for logger, wanted in loggers.items():
        logger.setLevel(wanted)
    logging.getLogger().addHandler(handler)
    shortcut = None if is_for_people else _Shortcut(handler)
    _shortcuts.extend([shortcut] if shortcut else [])
    try:
        yield
    finally:
        if shortcut is not None:
            _shortcuts.remove(shortcut)
        logging.getLogger().removeHandler(handler)
        unwanted.disabled = unwanted_before
        for logger, before in levels_before.items():
            logger.setLevel(before)

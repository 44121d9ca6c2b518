"""The table of trace formats: how each is recognised, and which importer reads it.

A new format is a module with its importer, one entry in `FORMATS`, and a row in
docs/trace-formats.md.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import msgspec

from evalwright.trace.importers.agents_sdk import AgentsSdk, is_agents_sdk
from evalwright.trace.importers.chat_dialects import is_foreign_message
from evalwright.trace.importers.exports import Langfuse, Mlflow, is_langfuse, is_mlflow
from evalwright.trace.importers.inspect_logs import InspectLogs, is_inspect
from evalwright.trace.importers.langsmith import LangSmith, is_langsmith
from evalwright.trace.importers.message_lines import MessageLines, is_lone_message
from evalwright.trace.importers.message_logs import MessageLogs
from evalwright.trace.importers.openhands import OpenHandsEvents, is_openhands
from evalwright.trace.importers.records import (
    FileStretch,
    Imported,
    Importer,
    ImportRecord,
    PassedOver,
    faulty,
    numbered,
    read_records,
)
from evalwright.trace.importers.run_trees import RunTrees
from evalwright.trace.importers.span_formats import is_span
from evalwright.trace.importers.span_groups import SpanGroups
from evalwright.trace.importers.swe_agent import is_swe_agent, read_swe_agent
from evalwright.trace.importers.tau_bench import is_tau_bench, read_tau_bench
from evalwright.trace.importers.transcripts import Transcripts
from evalwright.trace.importers.values import first_identifier, number
from evalwright.trace.importers.wrappers import Wrappers
from evalwright.trace.model import Json

_OTLP_KEYS = ("resourceSpans", "resource_spans", "resourceLogs", "resource_logs")
_TRACE_KEYS = ("events", "runner_failure", "final_output")
_MESSAGE_KEYS = ("messages", "request", "response", "input", "output", "items", "choices", "body")


class TraceFormat(msgspec.Struct, frozen=True, kw_only=True):
    """One format. `fits` tells a record by its content, `marks` by keys in a cut-off beginning.

    `variant` is a text that, anywhere in the beginning, gives the format another name. Records
    that are `in_order` end the cases before them; others are collected until the file ends. Only
    objects with one of `keys`, if there are some, need be held against it.
    """

    name: str
    fits: Callable[[Json], bool]
    marks: tuple[str, ...]
    importer: Callable[[str], Importer]
    in_order: bool
    variant: tuple[bytes, str] | None = None
    keys: tuple[str, ...] = ()

    def may_fit(self, value: Json) -> bool:
        """Whether it is worth the while to look closer."""
        return (
            not self.keys or not isinstance(value, dict) or not value.keys().isdisjoint(self.keys)
        )


class AgentTraces(Importer):
    """Records that hold a trace as such: `events`, with ids and the final output beside them."""

    def read(self, record: ImportRecord) -> Iterator[Imported]:
        """One record as a response: it has the canonical form, so nothing of it is changed."""
        response: dict[str, Any] = record.value
        seconds = number(response.get("duration_s"))
        if seconds is not None and "usage" not in response:
            response = {**response, "usage": {"duration_ms": seconds * 1000}}
        case_id = first_identifier(response, "case_id", "trace_id", "id")
        yield Imported(
            case_id=case_id or numbered(record.number),
            response=response,
            base_case_id=first_identifier(response, "base_case_id"),
            trace_id=first_identifier(response, "trace_id"),
        )


def _is_message_log(value: Json) -> bool:
    if isinstance(value, list):
        return is_message_list(value)
    return isinstance(value, dict) and any(
        isinstance(value.get(key), dict | list | str) for key in _MESSAGE_KEYS
    )


def is_message_list(value: list[Any]) -> bool:
    """Whether a list is one conversation and not a list of records."""
    first = value[0] if value else None
    return isinstance(first, dict) and (
        isinstance(first.get("role"), str)
        or is_foreign_message(first)
        or (isinstance(first.get("type"), str) and not any(key in first for key in _MESSAGE_KEYS))
    )


# In the order in which a record is held against them.
FORMATS: tuple[TraceFormat, ...] = (
    TraceFormat(
        name="langsmith",
        fits=is_langsmith,
        marks=("run_type", "dotted_order"),
        importer=partial(RunTrees, LangSmith()),
        in_order=False,
        keys=("run_type", "dotted_order", "post", "patch", "runs"),
    ),
    TraceFormat(
        name="openai-agents",
        fits=is_agents_sdk,
        marks=("span_data", "workflow_name"),
        importer=partial(RunTrees, AgentsSdk()),
        in_order=False,
        keys=("object",),
    ),
    TraceFormat(
        name="mlflow",
        fits=is_mlflow,
        marks=("trace_metadata", "request_metadata"),
        importer=partial(RunTrees, Mlflow()),
        in_order=True,
        keys=("data", "trace_data", "spans", "trace"),
    ),
    TraceFormat(
        name="langfuse",
        fits=is_langfuse,
        marks=("observations", "parentObservationId", "parent_observation_id"),
        importer=partial(RunTrees, Langfuse()),
        in_order=False,
        keys=("observations", "startTime", "start_time", "timestamp", "body"),
    ),
    TraceFormat(
        name="inspect",
        fits=is_inspect,
        marks=("eval", "samples"),
        importer=InspectLogs,
        in_order=True,
        keys=("eval", "epoch"),
    ),
    TraceFormat(
        name="openhands",
        fits=is_openhands,
        marks=("tool_call_metadata", "llm_message"),
        importer=OpenHandsEvents,
        in_order=True,
        keys=("action", "observation", "kind", "history", "events", "trajectory"),
    ),
    TraceFormat(
        name="tau-bench",
        fits=is_tau_bench,
        marks=("traj", "simulations"),
        importer=partial(Transcripts, read_tau_bench),
        in_order=True,
        keys=("traj", "simulations", "reward_info", "termination_reason"),
    ),
    TraceFormat(
        name="swe-agent",
        fits=is_swe_agent,
        marks=("trajectory", "trajectory_format"),
        importer=partial(Transcripts, read_swe_agent),
        in_order=True,
        keys=("trajectory", "trajectory_format", "history", "info"),
    ),
    TraceFormat(
        name="otel-genai",
        fits=lambda value: (
            isinstance(value, dict) and (any(key in value for key in _OTLP_KEYS) or is_span(value))
        ),
        marks=_OTLP_KEYS,
        importer=SpanGroups,
        in_order=False,
        variant=(b"openinference.span.kind", "openinference"),
    ),
    TraceFormat(
        name="agent-traces",
        fits=lambda value: isinstance(value, dict) and any(key in value for key in _TRACE_KEYS),
        marks=("events",),
        importer=AgentTraces,
        in_order=True,
    ),
    TraceFormat(
        name="message-lines",
        fits=is_lone_message,
        marks=(),
        importer=MessageLines,
        in_order=True,
    ),
    TraceFormat(
        name="messages",
        fits=_is_message_log,
        marks=("messages", "role"),
        importer=MessageLogs,
        in_order=True,
    ),
)


def import_responses(
    chunks: Iterable[bytes], name: str, notes: list[str] | None = None
) -> Iterator[Imported]:
    """The cases of a file of recorded traffic, in the order of the file.

    `chunks` are its lines, or blocks of it cut anywhere; `name` stands in faults. Lines are read
    one by one; only spans wait until the end, because a trace may be spread over the whole file.
    What is no case and was passed over is told in `notes`.
    """
    return (found for found, _ in import_placed(chunks, name, notes))


def import_placed(
    chunks: Iterable[bytes],
    name: str,
    notes: list[str] | None = None,
    stretch: FileStretch | None = None,
) -> Iterator[tuple[Imported, str]]:
    """The same, each with its place in the file, which is its name if it is not known.

    Of a stretch of the file, those cases that are complete at its end, unless it is the last.
    """
    for found, record in _import(chunks, name, stretch):
        if isinstance(found, Imported):
            yield found, record.place if record else f"{name}: {found.case_id}"
        elif notes is not None:
            notes.append(f"{name}: passed over: {found.reason}")


def _import(
    chunks: Iterable[bytes], name: str, stretch: FileStretch | None
) -> Iterator[tuple[Imported | PassedOver, ImportRecord | None]]:
    """What importers give, with the record if it is of that one alone."""
    stretch = stretch or FileStretch()
    importers = {each.name: each.importer(name) for each in FORMATS}
    known = _Known()
    wrappers = Wrappers(lambda value: known.format_of(value) is not None, _is_part)
    for record in wrappers.unwrapped(read_records(chunks, name, stretch), stretch):
        found = None if record.fault else known.format_of(record.value)
        if found is None or found.in_order:
            for other, importer in importers.items():
                if found is None or other != found.name:
                    yield from ((each, None) for each in importer.pause())
        if found is None:
            names = ", ".join(each.name for each in FORMATS)
            unknown = f"{record.place}: unknown format (known: {names}); see docs/trace-formats.md"
            yield faulty(record.number, record.fault or unknown, record.head), record
        else:
            is_alone = found.importer is not MessageLogs  # they wait for later records
            given = importers[found.name].read(record)
            yield from ((each, record if is_alone else None) for each in given)
    stretch.is_free = all(importer.is_idle() for importer in importers.values())
    for importer in importers.values():
        yield from ((each, None) for each in importer.pause())
    for importer in importers.values():
        yield from ((each, None) for each in importer.rest())


def recognise(first: bytes, name: str) -> str | None:
    """The format of a file by its beginning, or None.

    `first` is the first line, or as much of the file as is at hand. What a file is called does not
    matter, unless it is compressed: that is for the caller to undo.
    """
    if name.endswith((".gz", ".zst", ".zip")) and not first.lstrip()[:1].isascii():
        return None
    record = next(read_records([first], name), None)
    held = next(_WRAPPERS.held(record.value), None) if record else None
    found = (format_of(held[1]) if held else None) or _by_marks(first)
    if found is None:
        return None
    mark, variant = found.variant or (None, "")
    return variant if mark is not None and mark in first else found.name


def format_of(value: Json) -> TraceFormat | None:
    """The format of a value that is a record itself, not a document of several."""
    return next((each for each in FORMATS if each.may_fit(value) and each.fits(value)), None)


class _Known:
    """Knows formats, and still that of the last value: wrappers ask before importers do."""

    def __init__(self) -> None:
        self._value: Json = None
        self._found: TraceFormat | None = None

    def format_of(self, value: Json) -> TraceFormat | None:
        """The format of a value."""
        if value is not self._value:
            self._value, self._found = value, format_of(value)
        return self._found


def _is_part(value: Json) -> bool:
    return is_lone_message(value) or is_openhands(value)


_WRAPPERS = Wrappers(lambda value: format_of(value) is not None, _is_part)


def _by_marks(beginning: bytes) -> TraceFormat | None:
    """The format of a document of which only the beginning is at hand: by its first mark."""
    places = {
        place: each
        for each in FORMATS
        for mark in each.marks
        if (place := beginning.find(b'"%s"' % mark.encode())) >= 0
    }
    return places[min(places)] if places else None

"""Events as streams send them: which ones a mode shows, their frames, and pages of frames."""

from collections.abc import Callable
from functools import lru_cache

from evalwright.contracts.events import TERMINAL_TYPES, Event
from evalwright.host.http.errors import ApiError
from evalwright.host.runs.handle import RunHandle
from evalwright.host.streams.pages import LogPage

PAGE = 500  # events at most
PAGE_BYTES = 48 * 1024  # of frames, after which a page ends
REMEMBERED = 256  # frames of small events, for clients that follow the same run
SMALL_BODY = 8 * 1024
FRAME_BYTES = 256  # about, around the body of an event

MODES = ("values", "updates", "messages", "debug")
_UPDATES = frozenset(
    {
        "run.started",
        "run.completed",
        "run.failed",
        "run.cancelled",
        "run.paused",
        "run.resumed",
        "run.annotated",
        "node.completed",
        "node.failed",
        "node.skipped",
        "node.suspended",
        "node.dispatched",
        "artifact.created",
    }
)
_UPDATE_FAMILIES = ("eval.", "deployment.", "approval.", "interrupt.", "clarification.")


def is_update(event_type: str) -> bool:
    """Whether the mode `updates` includes events of this type."""
    return event_type in _UPDATES or event_type.startswith(_UPDATE_FAMILIES)


def _is_message(event_type: str) -> bool:
    return event_type.startswith("ai.message.")


def chooser(modes: list[str]) -> Callable[[str], bool]:
    """Which types of events some modes show."""
    if "debug" in modes:
        return lambda _: True
    shown = {"updates": is_update, "messages": _is_message, "values": is_update}
    chosen = [shown[mode] for mode in modes]
    return lambda event_type: any(choose(event_type) for choose in chosen)


def stream_modes(asked: str) -> list[str]:
    """The modes that a client asks for; raises `ApiError` 400."""
    modes = asked.split(",")
    fits = all(mode in MODES for mode in modes) and len(set(modes)) == len(modes)
    if fits and ("values" not in modes or modes == ["values"]):
        return modes
    message = "streamMode must be values, or one or more of the other modes joined by commas"
    raise ApiError(400, "unsupported_stream_mode", message, {"supported": list(MODES)})


def frame(event: Event) -> bytes:
    """The frame of an event."""
    return _made_frame(event) if len(event.body) > SMALL_BODY else _shared_frame(event)


@lru_cache(maxsize=REMEMBERED)
def _shared_frame(event: Event) -> bytes:
    return _made_frame(event)


def _made_frame(event: Event) -> bytes:
    return as_frame(event.sequence, event.type, event.to_json())


def batch(events: list[Event]) -> bytes:
    """One frame for several events."""
    body = b"[" + b",".join(event.to_json() for event in events) + b"]"
    return as_frame(events[-1].sequence, "batch", body)


def as_frame(sequence: int, name: str, data: bytes) -> bytes:
    """A frame with any data."""
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (sequence, name.encode(), data)


def make_page(run: RunHandle, after: int, modes: list[str], *, as_batch: bool) -> LogPage:
    """The page after a sequence; it reads the log."""
    is_shown, shown = chooser(modes), list[Event]()
    read, size, last = 0, 0, after
    for event in run.log.read(run.run_id, (), after, PAGE):
        read, last = read + 1, event.sequence
        if is_shown(event.type):
            shown.append(event)
            size += len(event.body) + FRAME_BYTES
        if event.type in TERMINAL_TYPES:
            return LogPage(_content(shown, as_batch), last, is_end=True, is_over=True)
        if size > PAGE_BYTES:
            return LogPage(_content(shown, as_batch), last, is_end=False, is_over=False)
    is_end = read < PAGE
    return LogPage(_content(shown, as_batch), last, is_end, is_end and _is_over(run, last))


def _content(events: list[Event], as_batch: bool) -> bytes:  # noqa: FBT001
    if not events:
        return b""
    return batch(events) if as_batch else b"".join(map(_made_frame, events))


def _is_over(run: RunHandle, after: int) -> bool:
    last = run.edges()[-1]
    return last.type in TERMINAL_TYPES and last.sequence <= after

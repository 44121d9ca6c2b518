"""W3C Trace Context: the headers `traceparent` and `tracestate`, read and written."""

import random
import re
from hashlib import sha256

import msgspec

_TRACEPARENT = re.compile(
    r"(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})"
    r"(?P<more>-.*)?"
)
_STATE_KEY = r"(?:[a-z][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13})"
_STATE_MEMBER = re.compile(
    rf"({_STATE_KEY})=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{{0,255}}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
)
_MAX_STATE_MEMBERS = 32
_MAX_STATE_LENGTH = 512
_SAMPLED = 1

_random = random.Random()  # noqa: S311 - ids need to differ, not to be secret


class TraceContext(msgspec.Struct, frozen=True, gc=False):
    """A place in a trace: one span of it, and whether the trace is recorded."""

    trace_id: str  # 32 hexadecimal digits
    span_id: str  # 16
    sampled: bool = True
    state: str = ""  # of other tracing systems; passed on unchanged

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{int(self.sampled):02x}"

    def headers(self) -> dict[str, str]:
        """The headers that pass this place on to another service or a caller."""
        state = {"tracestate": self.state} if self.state else {}
        return {"traceparent": self.traceparent, **state}

    def child(self) -> "TraceContext":
        return msgspec.structs.replace(self, span_id=_random_id(8))


def new_trace() -> TraceContext:
    """A place in a new trace."""
    return TraceContext(_random_id(16), _random_id(8))


def read_trace(traceparent: str | None, tracestate: str | None = None) -> TraceContext | None:
    """The place named by a caller's headers; None if they are absent or invalid."""
    found = _TRACEPARENT.fullmatch(traceparent.strip(" \t")) if traceparent else None
    if found is None or found["version"] == "ff":
        return None
    if found["more"] is not None and found["version"] == "00":
        return None
    if not found["trace"].strip("0") or not found["span"].strip("0"):
        return None
    sampled = bool(int(found["flags"], 16) & _SAMPLED)
    # The members of `tracestate` in order; none if any of them is invalid.
    members = [member for each in (tracestate or "").split(",") if (member := each.strip(" \t"))]
    matches = [_STATE_MEMBER.fullmatch(member) for member in members]
    keys = {match[1] for match in matches if match is not None}
    state = ",".join(members)
    is_valid = len(keys) == len(members) <= _MAX_STATE_MEMBERS and len(state) <= _MAX_STATE_LENGTH
    return TraceContext(found["trace"], found["span"], sampled, state if is_valid else "")


def derived_trace_id(run_id: str) -> str:
    """The trace id of a run without a caller's trace: the same in every process."""
    return _derived("trace", run_id)[:32]


def derived_span_id(run_id: str, part: str) -> str:
    """The id of a span of a run: the same in every process, so resumed runs stay connected."""
    return _derived("span", run_id, part)[:16]


def _derived(*names: str) -> str:
    digest = sha256("\0".join(names).encode("utf-8", "surrogatepass")).hexdigest()
    return digest if digest[:16].strip("0") else "1" + digest[1:]


def _random_id(size: int) -> str:
    return f"{_random.getrandbits(size * 8) or 1:0{size * 2}x}"

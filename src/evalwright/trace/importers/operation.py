"""What one span says the agent did, whichever convention it follows."""

from typing import Any, Literal

import msgspec

from evalwright.trace.importers.canonical import CanonicalEvent
from evalwright.trace.importers.span_formats import Span
from evalwright.trace.importers.values import text, whole_number
from evalwright.trace.model import Json

_MOST_KEYS = 20  # levels below the prefix; the conventions need six
Kind = Literal["model", "tool", "retrieval", "agent"]
_PROVIDERS = ("gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system")
_CACHED_READ = frozenset(
    (
        "gen_ai.usage.cache_read.input_tokens",
        "gen_ai.usage.cache_read_input_tokens",
        "gen_ai.usage.details.cache_read_tokens",
        "llm.token_count.prompt_details.cache_read",
    )
)
_CACHED_WRITTEN = frozenset(
    (
        "gen_ai.usage.cache_creation.input_tokens",
        "gen_ai.usage.cache_creation_input_tokens",
        "gen_ai.usage.details.cache_write_tokens",
        "llm.token_count.prompt_details.cache_write",
    )
)


class Operation(msgspec.Struct):
    """A span, read. `history` is what a model was given, `output` what it answered.

    A tool has its call and its result in `call` and `result`, a retrieval has `result` alone.
    `asked` and `answered` are what an agent's span says of the whole: used where no model does.
    """

    span: Span
    kind: Kind
    history: list[CanonicalEvent] = []
    output: list[CanonicalEvent] = []
    call: CanonicalEvent | None = None
    result: CanonicalEvent | None = None
    instructions: list[str] = []
    tools: list[str] = []
    usage: dict[str, Json] = {}
    models: list[str] = []
    asked: Json = None
    answered: Json = None
    is_cut: bool = False  # the beginning of the history was lost to a limit of the SDK


def result_status(span: Span) -> str:
    """`ok`, `error` or `timeout`, by the status of a tool's span."""
    if not span.failed and span.attributes.get("error.type") is None:
        return "ok"
    words = f"{span.error_type()} {span.error_text()}".lower()
    return "timeout" if "timeout" in words or "timed out" in words else "error"


def with_outcome(event: CanonicalEvent, span: Span) -> CanonicalEvent:
    """A result with the status, the error and the duration of its span."""
    event["status"] = result_status(span)
    if event["status"] != "ok" and (message := span.error_text() or span.error_type()):
        event["error_message"] = message
    if span.start is not None and span.end is not None:
        event["latency_ms"] = max(0.0, round(span.end - span.start, 3))
    return event


def nested(attributes: dict[str, Json], prefix: str) -> list[Any]:
    """The list that attributes with a prefix spell out, in the order of its indexes."""
    tree: dict[str, Any] = {}
    start = f"{prefix}."
    for key, value in attributes.items():
        if key.startswith(start):
            _place(tree, key[len(start) :].split(".", _MOST_KEYS), value)
    if not tree and isinstance(attributes.get(prefix), list):
        return list(attributes[prefix])
    found = _lists(tree)
    return found if isinstance(found, list) else []


def lacks_beginning(span: Span, prefix: str) -> bool:
    """Whether the first messages of a list were cut off: SDKs drop the oldest attributes."""
    keys = [key for key in span.attributes if key.startswith(f"{prefix}.")]
    roles = [key for key in keys if key.endswith("role")]
    return bool(roles) and not any(key.startswith(f"{prefix}.0.") for key in roles)


def _place(tree: dict[str, Any], path: list[str], value: Json) -> None:
    for step in path[:-1]:
        below = tree.setdefault(step, {})
        if not isinstance(below, dict):  # a value in place of a branch
            return
        tree = below
    tree.setdefault(path[-1], value)


def _lists(tree: Json) -> Json:
    """Objects whose keys are all indexes, as lists."""
    if not isinstance(tree, dict):
        return tree
    built = {key: _lists(value) for key, value in tree.items()}
    if built and all(key.isascii() and key.isdigit() and len(key) < 10 for key in built):
        return [built[key] for key in sorted(built, key=int)]
    return built


def provider_of(span: Span) -> str | None:
    """Who serves the model of a span, where that is told."""
    for key in _PROVIDERS:
        if (found := text(span.attributes.get(key))) is not None:
            return found.lower()
    return None


def cached_tokens(span: Span) -> tuple[int, int]:
    """The tokens of a request that came from a cache, and that went there; its input has both."""
    read, written = 0, 0
    for key in span.attributes.keys() & _CACHED_READ:
        read = max(read, whole_number(span.attributes[key]) or 0)
    for key in span.attributes.keys() & _CACHED_WRITTEN:
        written = max(written, whole_number(span.attributes[key]) or 0)
    return read, written

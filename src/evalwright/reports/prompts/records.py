"""Records as JSON, as they are: one object, an array, or one object a line."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from evalwright.contracts.prompt_result import PromptResult
from evalwright.reports.prompts.context import ReportContext


def encode_record(result: PromptResult) -> bytes:
    """One record as one line, without its end."""
    try:
        return msgspec.json.encode(result)
    except UnicodeEncodeError:  # a file name that is not text: lone surrogates represent its bytes
        return msgspec.json.encode(_as_text(msgspec.to_builtins(result)))


def render_json_lines(results: Sequence[PromptResult], context: ReportContext) -> bytes:  # noqa: ARG001
    """One record a line."""
    return b"".join(encode_record(result) + b"\n" for result in results)


def render_json(results: Sequence[PromptResult], context: ReportContext) -> bytes:  # noqa: ARG001
    """One record as an object, any other number as an array."""
    return b"".join(json_chunks(results))


def json_chunks(results: Sequence[PromptResult]) -> Iterator[bytes]:
    """The same in pieces: of ten thousand records no more than one is held as text."""
    if len(results) == 1:
        yield msgspec.json.format(encode_record(results[0]), indent=2) + b"\n"
        return
    before = b"["
    for result in results:
        record = msgspec.json.format(encode_record(result), indent=2)
        yield before + b"\n  " + record.replace(b"\n", b"\n  ")  # no text has a raw line break
        before = b","
    yield b"\n]\n" if results else b"[]\n"


def _as_text(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_as_text(key): _as_text(each) for key, each in value.items()}
    return [_as_text(each) for each in value] if isinstance(value, list) else value

"""Records as JSON, as they are: one object, an array, or one object a line."""

from collections.abc import Sequence
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
    records = [encode_record(result) for result in results]
    whole = records[0] if len(records) == 1 else b"[%s]" % b",".join(records)
    return msgspec.json.format(whole, indent=2) + b"\n"


def _as_text(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_as_text(key): _as_text(each) for key, each in value.items()}
    return [_as_text(each) for each in value] if isinstance(value, list) else value

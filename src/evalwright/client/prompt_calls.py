"""The call that pushes results of prompts."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from evalwright.client.exchange import Flow, post
from evalwright.contracts.prompt_result import PromptResult

MOST_AT_ONCE = 100  # results in one request
MOST_BYTES = 1_000_000  # of one request, unless a single file has more


def push_prompts(
    results: Sequence[PromptResult], texts: Mapping[str, str] | None = None
) -> Flow[int]:
    """Push results of `prompteval`, and the texts of their files by path; gives the files kept.

    The same results again change nothing. All results of a file go into one request.
    """
    files = 0
    for batch in _batches(results, texts or {}):
        answer = yield post("/v1/prompts/results", msgspec.json.encode(batch))
        files += answer.read(dict[str, int])["files"]
    return files


def _batches(results: Sequence[PromptResult], texts: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    by_path: dict[str, list[msgspec.Raw]] = {}
    for result in results:
        raw = msgspec.Raw(msgspec.json.encode(result))
        by_path.setdefault(result.input.path, []).append(raw)
    batch: dict[str, Any] = {"results": [], "texts": {}}
    size = 0
    for path, entries in by_path.items():
        text = texts.get(path)
        added = sum(map(len, entries)) + len((text or "").encode())
        count = len(batch["results"])
        if count and (count + len(entries) > MOST_AT_ONCE or size + added > MOST_BYTES):
            yield batch
            batch, size = {"results": [], "texts": {}}, 0
        batch["results"] += entries
        size += added
        if text is not None:
            batch["texts"][path] = text
    if batch["results"]:
        yield batch

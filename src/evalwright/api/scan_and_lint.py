"""Looking at what was recorded or written elsewhere: traces for signals, prompts for mistakes."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from evalwright.contracts.errors import BadInput

Traces: TypeAlias = str | Path | Mapping[str, Any] | Sequence[Mapping[str, Any]]


def scan(traces: Traces, *, baseline: Traces | None = None) -> list[dict[str, Any]]:
    """The security signals of recorded traces: one entry for each, with its `id` and `signals`.

    `traces` is a file in any format that `evalwright signals` reads, one trace as a document, or a
    list of them; `baseline` has good traces of the same cases. What cannot be read has an `error`.
    Secrets in the evidence are masked.
    """
    from evalwright.signals.scan import BaselineTraces, scan_all

    known = BaselineTraces(*_recorded(baseline)) if baseline is not None else None
    return [msgspec.to_builtins(each) for each in scan_all(*_recorded(traces), known)]


def _recorded(traces: Traces) -> tuple[Iterable[bytes], str]:
    from evalwright.scans.shards import blocks_of, name_of

    if isinstance(traces, Mapping):
        return [msgspec.json.encode(traces)], "trace.json"
    if isinstance(traces, list | tuple):
        return [msgspec.json.encode(each) + b"\n" for each in traces], "traces.jsonl"
    if not isinstance(traces, str | Path):
        raise BadInput(f"{traces!r:.60}: not traces; name a file, or give documents")
    path = Path(traces)
    return blocks_of(path), name_of(path)


def lint(
    *paths: str | Path,
    threshold: float | None = None,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    all_kinds: bool = False,
) -> list[dict[str, Any]]:
    """Check prompt files and folders without a model: a result for each file, as a document.

    The records that `prompteval -t 0` writes. `select` and `ignore` name rules; a file whose score
    is below `threshold`, in percent, does not pass. `all_kinds` also takes other formats, agents
    and instructions out of folders.
    """
    from evalwright.prompts.evaluate import DEFAULT_THRESHOLD, lint_files

    if not paths or "" in paths:
        raise BadInput("name files or folders with prompts, or `.` for the current folder")
    given: Sequence[object] = paths
    wrong = next((each for each in given if not isinstance(each, str | Path)), None)
    if wrong is not None:
        raise BadInput(
            f'{wrong!r:.60}: not the name of a file; give names: ew.lint("a.md", "b.md")'
        )
    bar = DEFAULT_THRESHOLD if threshold is None else threshold
    files = [Path(path) for path in paths]
    found = lint_files(files, threshold=bar, select=select, ignore=ignore, all_kinds=all_kinds)
    return [msgspec.to_builtins(each) for each in found]

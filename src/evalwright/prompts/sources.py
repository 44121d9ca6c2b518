"""The files to evaluate, read and parsed; one that cannot be used is kept with its reason."""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from evalwright.prompts.discovery import DiscoveredFile, discover, read_bytes
from evalwright.prompts.document import Prompt, UnfitPrompt
from evalwright.prompts.parse import STDIN, input_type, parse_prompt
from evalwright.prompts.results import Failure

UNKNOWN_TYPE = "unknown"


class Source(msgspec.Struct, frozen=True):
    """One file: the prompt in it, or why there is none."""

    path: str
    type: str
    prompt: Prompt | None = None
    failure: Failure | None = None
    content_sha256: str | None = None
    file: Path | None = None  # None: standard input


def read_sources(paths: Sequence[Path]) -> Iterator[Source]:
    """All prompts below the paths, in order."""
    return map(_read, discover(paths))


def _read(found: DiscoveredFile) -> Source:
    kind = input_type(found.shown) or UNKNOWN_TYPE
    try:
        data = read_bytes(found)
        digest = hashlib.sha256(data).hexdigest()
    except UnfitPrompt as error:
        return Source(found.shown, kind, failure=Failure(error.code, error.message))
    try:
        prompt = parse_prompt(data, found.shown, found.note)
    except UnfitPrompt as error:
        reason = Failure(error.code, error.message)
        return Source(found.shown, kind, failure=reason, content_sha256=digest)
    file = None if found.shown == STDIN else found.path
    return Source(found.shown, prompt.type, prompt, content_sha256=digest, file=file)


def read_again(source: Source) -> Source:
    """A file that was changed since it was read."""
    assert source.file is not None
    note = next(iter(source.prompt.notes), None) if source.prompt else None
    return _read(DiscoveredFile(source.file, source.path, note))

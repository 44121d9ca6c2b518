"""A whole log as a file: its ended runs, each as `db export RUN` writes it, and its documents.

What a host keeps for a moment only, such as responses of idempotent requests, is left out, and so
are runs that go on.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from evalwright.contracts.errors import InvalidDocument, Problem
from evalwright.contracts.pack import PACK_KIND
from evalwright.engine.baselines import BASELINE_KIND
from evalwright.host.access import keys
from evalwright.host.deployments.model import DEPLOYMENT, GATE
from evalwright.host.library.catalogue import AGENT, DELETED_SUITE, SUITE
from evalwright.host.library.prompts import EVALUATION_KIND, FILE_KIND
from evalwright.host.runs.export import (
    LastLine,
    TransferHeader,
    export_run,
    import_run,
    parse_transfer,
    sealed,
)
from evalwright.host.v1.create import SCOPE_KIND
from evalwright.host.webhooks import dead_letters, subscriptions
from evalwright.store.protocol import EventLog, RunFilter
from evalwright.store.records import RecordChange

KINDS = (
    *(SUITE, DELETED_SUITE, AGENT, PACK_KIND, BASELINE_KIND, keys.KIND, DEPLOYMENT, GATE),
    *(subscriptions.KIND, dead_letters.KIND, SCOPE_KIND, FILE_KIND, EVALUATION_KIND),
)  # of documents that are moved; annotations go with their runs
WRITTEN_AT_ONCE = 200

Lines = Callable[[], Iterable[bytes]]  # of the file, from the first on
Progress = Callable[[int, int], None]  # runs done, and how many there are


class LogHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The first line: what the file holds."""

    format: Literal["evalwright-log"] = "evalwright-log"
    version: Annotated[int, Meta(ge=1)] = 1
    runs: Annotated[int, Meta(ge=0)]
    documents: Annotated[int, Meta(ge=0)]


class _DocumentLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: str
    tenant: str
    key: str
    body: bytes  # in base64


class MovedLog(NamedTuple):
    """What an import has added."""

    runs: int
    documents: int
    header: LogHeader


def is_log_header(line: bytes) -> bool:
    """Whether a file begins like that of a whole log."""
    return b'"evalwright-log"' in line[:200]


def export_log(log: EventLog, progress: Progress = lambda _, __: None) -> Iterator[bytes]:
    """The lines of the file of a log, runs oldest first."""
    yield from sealed(_content(log, progress))


def _content(log: EventLog, progress: Progress) -> Iterator[bytes]:
    runs = [run.run_id for run in reversed(log.find_runs(RunFilter(has_ended=True)))]
    documents = sorted(
        (kind, tenant, record.key, record.body)
        for kind in KINDS
        for tenant, record in log.records.of_all_tenants(kind)
    )
    yield msgspec.json.encode(LogHeader(runs=len(runs), documents=len(documents))) + b"\n"
    for done, run_id in enumerate(runs):
        progress(done, len(runs))
        yield from export_run(log, run_id)
    for document in documents:
        yield msgspec.json.encode(_DocumentLine(*document)) + b"\n"


def import_log(
    log: EventLog, lines: Lines, name: str, progress: Progress = lambda _, __: None
) -> MovedLog:
    """Add what is in the file of a log, unless it is there already; it may be done again.

    Raises `InvalidDocument` before anything is written for a file that was changed, and for
    documents that are there with another content.
    """
    header, documents = _checked(lines(), name)
    # What adds documents that are not there; raises if one is there with another content.
    known = {
        (kind, tenant, record.key): record.body
        for kind in sorted({each.kind for each in documents})
        for tenant, record in log.records.of_all_tenants(kind)
    }
    new = []
    for each in documents:
        place = each.kind, each.tenant, each.key
        if place not in known:
            new.append(RecordChange(*place, each.body, None))
        elif known[place] != each.body:
            message = f"the log has another {each.kind} {each.key} of tenant {each.tenant!r}"
            remedy = "import the file into another log, or delete what is there first"
            raise InvalidDocument(name, [Problem("a document", message, remedy)])
    source = iter(lines())
    next(source)
    added = 0
    for done in range(header.runs):
        progress(done, header.runs)
        transfer = parse_transfer(b"".join(_run_lines(source, name)), name)
        added += bool(import_run(log, transfer, name)["added"])
    for at in range(0, len(new), WRITTEN_AT_ONCE):
        log.records.write(new[at : at + WRITTEN_AT_ONCE]).result()
    return MovedLog(added, len(new), header)


def _checked(lines: Iterable[bytes], name: str) -> tuple[LogHeader, list[_DocumentLine]]:
    """The header and the documents of a file that is whole and unchanged."""
    source, digest = iter(lines), hashlib.sha256()
    before = next(source, b"")
    try:
        header = msgspec.json.decode(before, type=LogHeader)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise _refused(name, "line 1", f"not the first line of an exported log: {error}") from None
    if header.version != 1:
        message = f"version {header.version} of the format; this Evalwright reads version 1"
        raise _refused(name, "line 1", message)
    last: deque[bytes] = deque(maxlen=header.documents + 1)
    for line in source:
        digest.update(before)
        before = line
        last.append(line)
    try:
        said = msgspec.json.decode(before, type=LastLine).sha256
    except (msgspec.DecodeError, UnicodeError):
        said = ""
    if said != digest.hexdigest() or len(last) <= header.documents:
        raise _refused(name, "last line", "the file is not whole, or was changed")
    return header, [_document(line, name) for line in islice(last, header.documents)]


def _run_lines(source: Iterator[bytes], name: str) -> Iterator[bytes]:
    """The lines of the next run: its first one says how many there are."""
    first = next(source, b"")
    try:
        header = msgspec.json.decode(first, type=TransferHeader)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise _refused(name, "a run", f"not the first line of a run: {error}") from None
    yield first
    yield from islice(source, header.events + header.annotations + 1)


def _document(line: bytes, name: str) -> _DocumentLine:
    try:
        found = msgspec.json.decode(line, type=_DocumentLine)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise _refused(name, "a document", f"not a document: {error}") from None
    if found.kind not in KINDS:
        raise _refused(name, "a document", f"{found.kind!r} is no kind of document that is moved")
    return found


def _refused(name: str, place: str, message: str) -> InvalidDocument:
    remedy = "give a file that an export of a whole log wrote"
    return InvalidDocument(name, [Problem(place, message, remedy)])

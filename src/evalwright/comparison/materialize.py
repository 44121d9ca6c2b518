"""Recorded traffic, written as a run directory for the time of a comparison."""

import gzip
import os
import shutil
import zlib
from collections.abc import Iterable, Iterator
from io import BufferedReader
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import msgspec

from evalwright.comparison.run_folder import (
    IMPORT_FAULT,
    RUN_META,
    SUFFIX,
    ListedResponse,
    RunFolder,
    Unnamed,
)
from evalwright.contracts.documents import open_input
from evalwright.contracts.errors import BadInput
from evalwright.trace.decode import decode_trace
from evalwright.trace.importers import Imported
from evalwright.trace.importers.archives import ZIP_MAGIC, unpacked
from evalwright.trace.importers.formats import import_placed
from evalwright.trace.understood import NOTHING, why_nothing

_BLOCK = 1 << 20
_ANSWERS = "answers"


def open_traces(path: Path, folder: Path) -> RunFolder:
    """The traces of a file, each as a response in the folder; a file without any is refused."""
    name = name_of(path)
    notes: list[str] = []
    found = (_understood(*each) for each in import_placed(blocks(path), name, notes))
    run = materialize(_with_a_trace(found, path), {"run_id": name.partition(".")[0]}, folder)
    run.notes = tuple(notes)
    return run


def _understood(record: Imported, place: str) -> Imported:
    """A record in which nothing is understood, as one with a fault; any other as it is."""
    if record.fault:
        return record
    reason = why_nothing(decode_trace(record.response, record.case_id))
    if reason is None:
        return record
    fault = f"{place}: {NOTHING}: {reason}"
    return msgspec.structs.replace(record, fault=fault)


def _with_a_trace(records: Iterable[Imported], path: Path) -> Iterator[Imported]:
    """All records, if one of them can be read; else what is wrong with the first."""
    unread: list[Imported] = []
    source = iter(records)
    for record in source:
        unread.append(record)
        if record.fault is None:
            yield from unread
            yield from source
            return
    reason = unread[0].fault if unread else "it is empty"
    raise BadInput(f"{path}: {NOTHING}: {str(reason).rpartition(f'{NOTHING}: ')[2]}")


def name_of(path: Path) -> str:
    """The name of a file as text: bytes that are not UTF-8 are replaced, JSON cannot hold them."""
    return os.fsencode(path.name).decode("utf-8", "replace")


def materialize(records: Iterable[Imported], meta: dict[str, Any], folder: Path) -> RunFolder:
    """Write each response under a number, and a listing of the cases that they answer."""
    folder.mkdir()
    (folder / RUN_META).write_bytes(msgspec.json.encode(meta))
    listing = folder / _ANSWERS
    unnamed: list[Unnamed] = []
    with listing.open("xb") as lines:
        for number, record in enumerate(records):
            response: dict[str, Any] = {**record.response}
            if _is_unnamed(record):
                response.pop("case_id", None)  # it says no more than where it was found
            if record.fault:
                response[IMPORT_FAULT] = record.fault
            name = f"{number:08}{SUFFIX}"
            (folder / name).write_bytes(msgspec.json.encode(response))
            answer = ListedResponse(record.case_id, record.base_case_id, name)
            lines.write(msgspec.json.encode(answer) + b"\n")
            if _is_unnamed(record):
                unnamed.append(Unnamed(name, record.case_id, record.named_by, record.asked))
    run = RunFolder(folder, listing)
    run.unnamed = unnamed
    return run


def _unpacked(plain: BufferedReader, place: str) -> Iterator[bytes]:
    """The lines of a log that is packed; what lies in it is listed at its end."""
    with TemporaryFile() as copy:
        if not plain.seekable():
            shutil.copyfileobj(plain, copy)
        yield from unpacked(plain if plain.seekable() else copy, place)


def _is_unnamed(record: Imported) -> bool:
    return record.named_by != "case_id" and not record.base_case_id and not record.fault


def blocks(path: Path) -> Iterator[bytes]:
    """The content of a file, unpacked where it is packed, piece by piece."""
    try:
        with open_input(path) as plain:
            magic = plain.peek(4)[:4]  # a pipe cannot be read twice
            if magic == ZIP_MAGIC:
                yield from _unpacked(plain, str(path))
                return
            file = gzip.GzipFile(fileobj=plain) if magic[:2] == b"\x1f\x8b" else plain
            while block := file.read(_BLOCK):
                yield block
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadInput(f"{path}: cannot be read: {reason}") from None

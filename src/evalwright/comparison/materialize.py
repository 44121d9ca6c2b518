"""Recorded traffic, written as a run directory for the time of a comparison."""

from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
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
from evalwright.contracts.errors import BadInput
from evalwright.scans.shards import Shard, TraceFiles, name_of, parts_in_order, read_shard
from evalwright.scans.spread import LocalProcesses, ShardEngine
from evalwright.trace.decode import decode_trace
from evalwright.trace.importers.records import Imported
from evalwright.trace.integrity import NOTHING, why_nothing

_ANSWERS = "answers"
_UNNAMED = "unnamed"
_IN_A_PIECE = 512
ALONE = LocalProcesses(1)


class ResponsesPart(msgspec.Struct):
    """Responses that were written: the listing of them, and those that no case id names.

    Their places are those in this listing.
    """

    shard: Shard
    listing: bytes
    unnamed: list[Unnamed]
    notes: list[str]
    count: int
    faulty: int
    first_fault: str | None = None
    is_free: bool = True


class WriteResponses:
    """Writes the traces of shards to a folder, each as a response under a number."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, load: tuple[Shard, ...]) -> ResponsesPart:
        """All traces of a load."""
        notes: list[str] = []
        stretches = [(shard, shard.stretch()) for shard in load]
        found = (
            _understood(*each)
            for shard, stretch in stretches
            for each in read_shard(shard, stretch, notes)
        )
        part = self._write(load[0], found, notes, 0)
        part.shard = load[-1]
        part.is_free = all(shard.is_free(stretch) for shard, stretch in stretches)
        return part

    def pieces(self, shard: Shard) -> Iterator[ResponsesPart]:
        """The traces of a shard, some at a time."""
        notes: list[str] = []
        found = (_understood(*each) for each in read_shard(shard, shard.stretch(), notes))
        count = 0
        while True:
            part = self._write(shard, islice(found, _IN_A_PIECE), notes, count)
            notes, count = [], count + part.count
            yield part
            if part.count < _IN_A_PIECE:
                return

    def _write(
        self, shard: Shard, records: Iterator[Imported], notes: list[str], first: int
    ) -> ResponsesPart:
        before = f"{shard.file}-{shard.start}-" if shard.file or shard.start else ""
        listing, unnamed, faults = [], [], []
        for number, record in enumerate(records, first):
            name = f"{before}{number:08}{SUFFIX}"
            path = self._folder / name
            response: dict[str, Any] = {**record.response}
            by_case = record.named_by == "case_id" or record.base_case_id or record.fault
            if not by_case:
                response.pop("case_id", None)  # it says no more than where it was found
            if record.fault:
                response[IMPORT_FAULT] = record.fault
            path.write_bytes(msgspec.json.encode(response))
            answer = ListedResponse(record.case_id, record.base_case_id, path.name)
            listing.append(msgspec.json.encode(answer) + b"\n")
            if not by_case:
                place = len(listing) - 1
                unnamed.append(Unnamed(place, record.case_id, record.named_by, record.asked))
            if record.fault:
                faults.append(record.fault)
        first_fault = faults[0] if faults else None
        count = len(listing)
        return ResponsesPart(
            shard, b"".join(listing), unnamed, notes, count, len(faults), first_fault
        )


def open_traces(path: Path, folder: Path, engine: ShardEngine = ALONE) -> RunFolder:
    """The traces of a file or of a folder of them, each as a response in the folder.

    Refused if there are none, or none that can be read.
    """
    files = TraceFiles(path)
    notes: list[str] = []
    count, faulty, fault = 0, 0, "it is empty"
    folder.mkdir()
    with (
        closing(parts_in_order(WriteResponses(folder), files, engine)) as parts,
        (folder / _ANSWERS).open("xb") as listing,
        (folder / _UNNAMED).open("xb") as unnamed,
    ):
        for part in parts:
            listing.write(part.listing)
            unnamed.writelines(_lines(part.unnamed, count))
            notes += part.notes
            if not faulty and part.first_fault:
                fault = part.first_fault
            count += part.count
            faulty += part.faulty
    if faulty == count:
        raise BadInput(f"{path}: {NOTHING}: {fault.rpartition(f'{NOTHING}: ')[2]}")
    run = _opened(folder, {"run_id": name_of(path).partition(".")[0]})
    run.notes = tuple(notes)
    return run


def materialize(records: Iterable[Imported], meta: dict[str, Any], folder: Path) -> RunFolder:
    """Write each response under a number, and a listing of the cases that they answer."""
    folder.mkdir()
    part = WriteResponses(folder)._write(Shard("", ""), iter(records), [], 0)
    (folder / _ANSWERS).write_bytes(part.listing)
    (folder / _UNNAMED).write_bytes(b"".join(_lines(part.unnamed, 0)))
    return _opened(folder, meta)


def _opened(folder: Path, meta: dict[str, Any]) -> RunFolder:
    (folder / RUN_META).write_bytes(msgspec.json.encode(meta))
    run = RunFolder(folder, folder / _ANSWERS)
    unnamed = folder / _UNNAMED
    if unnamed.stat().st_size:
        run.unnamed = unnamed
    else:
        unnamed.unlink()
    return run


def _lines(unnamed: Iterable[Unnamed], before: int) -> Iterator[bytes]:
    for each in unnamed:
        at = msgspec.structs.replace(each, place=before + each.place)
        yield msgspec.json.encode(at) + b"\n"


def _understood(record: Imported, place: str) -> Imported:
    """A record in which nothing is understood, as one with a fault; any other as it is."""
    if record.fault:
        return record
    reason = why_nothing(decode_trace(record.response, record.case_id))
    if reason is None:
        return record
    fault = f"{place}: {NOTHING}: {reason}"
    return msgspec.structs.replace(record, fault=fault)

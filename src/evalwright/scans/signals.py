"""The signals of recorded traffic of any size, as lines in the order of the traces."""

from collections.abc import Iterator
from itertools import islice

import msgspec

from evalwright.contracts.errors import BadInput
from evalwright.scans.shards import Shard, read_shard
from evalwright.signals.scan import KeptTraces, PairedTraces, ScannedTrace, scan_records

_IN_A_PIECE = 64


class ScanTally(msgspec.Struct):
    """What a reader has to know beside the lines: what could not be read, or only in part."""

    count: int = 0
    faults: int = 0
    first_fault: str = ""
    partly: int = 0
    first_part: str = ""
    paired: int = 0
    by_prompt: int = 0

    def add(self, each: ScannedTrace) -> None:
        """Count a trace."""
        self.count += 1
        if each.error is not None:
            self.faults += 1
            self.first_fault = self.first_fault or each.error
        if each.passed_over is not None:
            self.partly += 1
            self.first_part = self.first_part or f"{each.id}: {each.passed_over}"

    def merge(self, later: "ScanTally") -> None:
        """Take in what was counted after it."""
        self.count += later.count
        self.faults += later.faults
        self.first_fault = self.first_fault or later.first_fault
        self.partly += later.partly
        self.first_part = self.first_part or later.first_part
        self.paired += later.paired
        self.by_prompt += later.by_prompt


class ScanPart(msgspec.Struct):
    """The lines of some traces; `stop` is why no more could be read."""

    shard: Shard
    lines: bytes
    tally: ScanTally
    notes: list[str]
    stop: str | None = None
    is_free: bool = True


class SignalScan:
    """Looks for signals in shards, beside the baseline where there is one."""

    def __init__(self, baseline: KeptTraces | None, *, masked: bool) -> None:
        self._baseline = baseline
        self._masked = masked

    def __call__(self, load: tuple[Shard, ...]) -> ScanPart:
        """The lines of all shards of a load, up to one that cannot be read."""
        joined = ScanPart(load[-1], b"", ScanTally(), [])
        lines: list[bytes] = []
        for shard in load:
            for part in self.pieces(shard):
                lines.append(part.lines)
                joined.tally.merge(part.tally)
                joined.notes += part.notes
                joined.stop, joined.is_free = part.stop, part.is_free
        joined.lines = b"".join(lines)
        return joined

    def pieces(self, shard: Shard) -> Iterator[ScanPart]:
        """The lines of a shard, some at a time."""
        stretch = shard.stretch()
        known = None if self._baseline is None else PairedTraces(self._baseline)
        notes: list[str] = []
        records = read_shard(shard, stretch, notes)
        scanned = scan_records(records, known, masked=self._masked)
        while True:
            tally = ScanTally()
            lines: list[bytes] = []
            stop = None
            try:
                for each in islice(scanned, _IN_A_PIECE):
                    tally.add(each)
                    lines.append(msgspec.json.encode(each) + b"\n")
            except BadInput as error:
                stop = str(error)
            is_last = tally.count < _IN_A_PIECE
            if known is not None:
                tally.paired, tally.by_prompt = known.paired, known.by_prompt
                known.paired = known.by_prompt = 0
            is_free = not is_last or shard.is_free(stretch)
            told, notes[:] = [*notes], []
            yield ScanPart(shard, b"".join(lines), tally, told, stop, is_free)
            if is_last:
                return

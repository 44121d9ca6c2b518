"""Cases of two recorded sides that no case id names, paired by what else they have in common.

Ids of conversations and of traces differ from run to run. What the user asked does not: traces in
which it is the same are one case, and several on one side are its repeats.

There may be more of them than memory holds, so they are never all in it: those that may belong
together meet in a partition on disk.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain, count, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import msgspec

from evalwright.comparison.cases import Cases, parse_case
from evalwright.comparison.run_folder import (
    ComparedRun,
    PairedResponse,
    RunFolder,
    Unnamed,
)
from evalwright.contracts.report import PairingSummary
from evalwright.scans.partitions import Partitions, partitions_for
from evalwright.trace.importers.records import digest_of

PairedBy = Literal["case_file", "conversation", "trace", "prompt", "place"]
_WORDS: dict[PairedBy, str] = {
    "case_file": "by the prompt in the case file",
    "conversation": "by conversation",
    "trace": "by trace id",
    "prompt": "by the user's prompt",
    "place": "by their place in the files",
}
_SUREST_FIRST = tuple(_WORDS)
_REMEDY = "To be sure, give them case ids (on a span: the attribute evalwright.case_id)."
_BASELINE, _NEW = 0, 1
_PLACES = 20_000  # of a listing, whose answers are put in together


class Pairing(msgspec.Struct, frozen=True):
    """How many cases without a case id were paired in which way; and how many have no partner."""

    by: Counter[PairedBy]
    unpaired_baseline: int
    unpaired_new: int

    def summary(self) -> PairingSummary:
        """How many cases were paired in which way, as a report says it."""
        by = {str(how): self.by[how] for how in _WORDS if self.by[how]}
        ways = [f"{self.by[how]:,} {words}" for how, words in _WORDS.items() if self.by[how]]
        left = (("baseline", self.unpaired_baseline), ("new run", self.unpaired_new))
        alone = [f"{count:,} of the {side}" for side, count in left if count]
        parts = [f"paired: {', '.join(ways)}"] if ways else []
        parts += [f"without a partner: {', '.join(alone)}"] if alone else []
        note = f"Cases without a case id, {'; '.join(parts)}. {_REMEDY}"
        return PairingSummary(by, self.unpaired_baseline, self.unpaired_new, note)


class _Row(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A response that waits for a partner, or, without a place, a case that is there."""

    side: int
    case_id: str
    named_by: str
    asked: str | None = None
    place: int | None = None


class _Partner(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What was found of the response at a place: the case it belongs to, if another, and how."""

    place: int
    case_id: str | None
    paired_by: PairedBy | None


def pair_unnamed(
    baseline: ComparedRun, new: ComparedRun, cases: Cases | None, work: Path
) -> Pairing | None:
    """Give responses that belong together the same case; None if all of them have a case id."""
    runs = [run if isinstance(run, RunFolder) else None for run in (baseline, new)]
    if not any(run is not None and run.unnamed for run in runs):
        return None
    with TemporaryDirectory(dir=work, prefix="pairing-") as folder:
        pairs = _Pairs(runs, Path(folder))
        waiting: Iterator[_Row] = chain.from_iterable(
            _unnamed(side, run) for side, run in enumerate(runs)
        )
        if cases is not None:
            waiting = pairs.by_case_file(chain(_prompts(cases), waiting))
        there = chain.from_iterable(_there(side, run) for side, run in enumerate(runs))
        waiting = pairs.by_id(chain(there, waiting))
        if None not in runs:
            waiting = pairs.by_prompt(waiting)
        pairs.by_place(waiting)
        pairs.put_in()
    return Pairing(pairs.by, *pairs.alone)


class _Pairs:
    """Finds partners step by step; what is left by one step waits for the next.

    In each step those with the same key, be it an id or what was asked, are in one partition.
    """

    def __init__(self, runs: list[RunFolder | None], folder: Path) -> None:
        self._folder = folder
        self._runs = runs
        counts = [_count(run) for run in runs]
        self._count = partitions_for(sum(counts))
        self._partners = [
            Partitions(folder, f"partners-{side}", _Partner, count // _PLACES + 1)
            for side, count in enumerate(counts)
        ]
        self.by: Counter[PairedBy] = Counter()
        self.alone = [0, 0]

    def by_case_file(self, rows: Iterator[_Row]) -> Iterator[_Row]:
        """Name those in which something was asked that one case of the case file asks."""
        for part in self._parts("case-file", rows, by_prompt=True):
            named: dict[str, str] = {}
            several: set[str] = set()
            for row in part():
                asked = row.asked if row.place is None else None
                if asked is not None and named.setdefault(asked, row.case_id) != row.case_id:
                    several.add(asked)
            for row in part():
                if row.place is None:
                    continue
                case_id = None if row.asked in several else named.get(row.asked or "")
                if case_id is None:
                    yield row
                else:
                    self._tell(row, case_id, "case_file")
                    yield _Row(row.side, case_id, "case_file")

    def by_id(self, rows: Iterator[_Row]) -> Iterator[_Row]:
        """Pair those with one id on both sides; a mere place must also have the same prompt."""
        for part in self._parts("ids", rows):
            known: dict[str, _SameId] = {}
            for row in part():
                known.setdefault(row.case_id, _SameId()).see(row)
            for row in part():
                known[row.case_id].pair(row)
            self.by.update(case.paired_by for case in known.values() if case.paired_by)
            for row in part():
                how = known[row.case_id].paired_by
                if how is not None:
                    self._tell(row, None, how)
                elif row.place is not None:
                    yield row

    def by_prompt(self, rows: Iterator[_Row]) -> Iterator[_Row]:
        """Pair those in which the same was asked, under the id of the first of the new side."""
        for part in self._parts("prompts", rows, by_prompt=True):
            known = {row.asked for row in part() if row.side == _BASELINE} - {None}
            first: dict[str | None, tuple[int, str]] = {}
            for row in part():
                if row.side == _NEW and row.asked in known and row.place is not None:
                    found = row.place, row.case_id
                    first[row.asked] = min(found, first.get(row.asked, found))
            for row in part():
                if row.asked in first:
                    self._tell(row, first[row.asked][1], "prompt")
                else:
                    yield row
            for _, case_id in first.values():
                yield _Row(_NEW, case_id, "prompt")

    def by_place(self, rows: Iterator[_Row]) -> None:
        """Pair what is left by its mere place, and count what has no partner."""
        for part in self._parts("places", rows):
            taken = {row.case_id for row in part() if row.place is None}
            sides = [
                {row.case_id for row in part() if row.side == side} for side in (_BASELINE, _NEW)
            ]
            both = (sides[_BASELINE] & sides[_NEW]) - taken
            self.by["prompt"] += len(taken)
            self.by["place"] += len(both)
            for row in part():
                if row.case_id in both:
                    self._tell(row, None, "place")
                elif row.case_id not in taken:
                    self.alone[row.side] += 1
                elif row.side == _BASELINE:  # another case has its id now
                    self._tell(row, f"{row.case_id} (baseline)", None)
                    self.alone[_BASELINE] += 1

    def put_in(self) -> None:
        """Write the listings anew, with what was found."""
        for run, partners in zip(self._runs, self._partners, strict=True):
            if run is None or not run.unnamed:
                continue
            paired, listed = run.root / "paired", run.listed()
            with paired.open("xb") as file:
                for number in count(0):
                    found = {each.place: each for each in partners.rows(number)}
                    place = first = number * _PLACES
                    for place, each in enumerate(islice(listed, _PLACES), first + 1):
                        at = found.get(place - 1)
                        case_id = (at and at.case_id) or each.case_id
                        how = None if at is None else at.paired_by
                        row = PairedResponse(case_id, each.base_case_id, each.name, how)
                        file.write(msgspec.json.encode(row) + b"\n")
                    if place - first < _PLACES:
                        break
            run.paired = paired

    def _tell(self, row: _Row, case_id: str | None, how: PairedBy | None) -> None:
        if row.place is not None:
            partner = _Partner(row.place, case_id, how)
            self._partners[row.side].put(row.place // _PLACES, partner)

    def _parts(
        self, name: str, rows: Iterator[_Row], *, by_prompt: bool = False
    ) -> Iterator[Callable[[], Iterator[_Row]]]:
        partitions = Partitions(self._folder, name, _Row, self._count)
        for row in rows:
            partitions.add((row.asked or "") if by_prompt else row.case_id, row)
        return partitions.drained()


class _SameId:
    """What there is under an id on either side, and how that was paired."""

    __slots__ = ("_first", "_named", "paired_by")

    def __init__(self) -> None:
        self._named = [False, False]
        self._first: list[tuple[int, str | None] | None] = [None, None]
        self.paired_by: PairedBy | None = None

    def see(self, row: _Row) -> None:
        if row.place is None:
            self._named[row.side] = True
            if row.named_by == "case_file":
                self.paired_by = "case_file"
            return
        found, first = (row.place, row.asked), self._first[row.side]
        if first is None or row.place < first[0]:
            self._first[row.side] = found

    def pair(self, row: _Row) -> None:
        """Pair a response that waits, if the other side has something for it."""
        named, first = self._named[not row.side], self._first[not row.side]
        if row.place is None or not (named or first):
            return
        if row.named_by == "place" and not named and first and first[1] != row.asked:
            return
        how: PairedBy = "trace"
        if row.named_by in ("conversation", "place"):
            how = "conversation" if row.named_by == "conversation" else "place"
        if self.paired_by is None or _SUREST_FIRST.index(how) < _SUREST_FIRST.index(self.paired_by):
            self.paired_by = how


def _count(run: RunFolder | None) -> int:
    return 0 if run is None else sum(1 for _ in chain(run.stems(), run.listed()))


def _unnamed(side: int, run: RunFolder | None) -> Iterator[_Row]:
    if run is not None and run.unnamed:
        decode = msgspec.json.Decoder(Unnamed).decode
        with run.unnamed.open("rb") as lines:
            for each in map(decode, lines):
                yield _Row(side, each.case_id, each.named_by, each.asked, each.place)


def _there(side: int, run: RunFolder | None) -> Iterator[_Row]:
    if run is None:
        return
    for stem in run.stems():
        with suppress(UnicodeEncodeError):  # no trace has such an id
            stem.encode()
            yield _Row(side, stem, "case_id")
    unnamed = _unnamed(side, run)
    next_unnamed = next(unnamed, None)
    for place, each in enumerate(run.listed()):
        if next_unnamed is not None and next_unnamed.place == place:
            next_unnamed = next(unnamed, None)
        else:
            yield _Row(side, each.case_id, "case_id")


def _prompts(cases: Cases) -> Iterator[_Row]:
    for number, value in enumerate(cases.ids()):
        if isinstance(value, str) and value:
            case = parse_case(cases.case(number), value)
            digest = digest_of(" ".join(case.prompt.split()))
            if digest is not None:
                yield _Row(_NEW, value, "case_id", digest)

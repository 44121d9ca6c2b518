"""The rows of the overview, sorted by what a reader must see first, kept on disk until then."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

import msgspec

from evalwright.contracts.report import GRAVE
from evalwright.reports.html.pages import OverviewRow

_RANKS = 8


def rank(row: OverviewRow) -> int:
    """0 is read first: what asks for a gate and got worse."""
    worse = row.change == "regression"
    if row.gated or worse:
        return 0 if row.gated and worse else 1 if row.gated else 2
    grave = any(severity in GRAVE for _, severity in row.signals)
    if row.change == "still_failing":
        return 3 if grave else 4
    if grave:
        return 5
    return 6 if row.change == "improvement" else 7


def ranked_lines(rows: Iterable[OverviewRow]) -> dict[int, bytes]:
    """Rows as lines of JSON, by their rank."""
    lines: dict[int, list[bytes]] = defaultdict(list)
    for row in rows:
        lines[rank(row)].append(msgspec.json.encode(row) + b"\n")
    return {number: b"".join(same) for number, same in lines.items()}


class SortedRows:
    """Rows in the order of their rank, then of the cases."""

    def __init__(self, folder: Path) -> None:
        self._files = [(folder / f"rows-{number}").open("w+b") for number in range(_RANKS)]

    def add(self, lines: Mapping[int, bytes]) -> None:
        """Take rows as `ranked_lines` gives them."""
        for number, rows in lines.items():
            self._files[number].write(rows)

    def first(self, count: int) -> list[OverviewRow]:
        """The rows that a reader sees first."""
        return list(islice(self._all(), count))

    def chunks(self, size: int) -> Iterator[list[OverviewRow]]:
        """All rows, some at a time."""
        rows = self._all()
        while chunk := list(islice(rows, size)):
            yield chunk

    def close(self) -> None:
        """Let go of the files."""
        for file in self._files:
            file.close()

    def _all(self) -> Iterator[OverviewRow]:
        for file in self._files:
            file.seek(0)
            for line in file:
                yield msgspec.json.decode(line, type=OverviewRow)

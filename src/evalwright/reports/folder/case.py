"""Compared cases, written: a page and copies for each, and what the whole report needs of them."""

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import msgspec

from evalwright.comparison.gate import CATALOGUE
from evalwright.comparison.matching import PlannedCase
from evalwright.comparison.pipeline import ComparedCase, Comparer
from evalwright.comparison.summary import CaseTally, facts_of
from evalwright.contracts.report import GRAVE, Artifacts
from evalwright.reports.html.case import CaseView, render_case
from evalwright.reports.html.overview import OverviewRow, overview_row

ITEM_SEPARATOR = b",\n    "  # as the machine report has them
DEFINITION_SEPARATOR = b",\n"

_RANKS = 10  # of rows in the overview
_OF_THE_RUNS = ("baseline_run_meta_href", "new_run_meta_href")
_OF_THE_CASE = attrgetter(*[n for n in Artifacts.__struct_fields__ if n not in _OF_THE_RUNS])


class Batch(NamedTuple):
    """What is left to do once some cases are written, joined: it costs what one case does."""

    cases: int
    items: bytes
    rows: dict[int, bytes]  # of the overview, by rank
    tally: CaseTally
    definitions: bytes
    hrefs: bytes
    missing_assets: list[str]
    faulty: int
    first_fault: str
    rules: frozenset[str]  # of the policy catalogue
    used_suppressions: frozenset[int]


class CaseWriter:
    """Writes the cases of a report, one after the other."""

    def __init__(self, comparer: Comparer, folder: Path, report_id: str) -> None:
        self._comparer = comparer
        self._folder = folder
        self._report_id = report_id

    def write_batch(self, planned: Iterable[PlannedCase]) -> Batch:
        """Compare some cases and write all that belongs to them."""
        items, definitions, facts, faults = [], [], [], []
        hrefs: list[str] = []
        missing: list[str] = []
        rules: set[str] = set()
        rows: dict[int, list[bytes]] = defaultdict(list)
        for case in self._comparer.compare(planned):
            item = case.item
            self._write(case)
            items.append(msgspec.json.encode(item))
            definitions.append(msgspec.json.encode(case.definition))
            row = overview_row(item)
            rows[rank(row)].append(msgspec.json.encode(row) + b"\n")
            facts.append(facts_of(item))
            # Links that no other case has: all but those to what the runs say of themselves.
            hrefs += [f"{href}\n" for href in _OF_THE_CASE(item.artifacts) if href is not None]
            missing += case.missing_assets
            rules.update(item.recommended_policy_rules)
            if item.faults:
                faults.append(f"{item.case_id}: {item.faults[0]}")
        tally = CaseTally()
        tally.add(facts)
        return Batch(
            cases=len(items),
            items=ITEM_SEPARATOR.join(items),
            rows={number: b"".join(lines) for number, lines in rows.items()},
            tally=tally,
            definitions=DEFINITION_SEPARATOR.join(definitions),
            hrefs="".join(hrefs).encode(),
            missing_assets=missing,
            faulty=len(faults),
            first_fault=faults[0] if faults else "",
            rules=frozenset(rules),
            used_suppressions=frozenset(self._comparer.suppressions.used),
        )

    def release(self) -> None:
        """Close what is open; it is opened again where it is needed."""
        self._comparer.inputs.close()

    def _write(self, case: ComparedCase) -> None:
        for href, data in case.files:
            write_new(self._folder, href, data)
        page = render_case(
            CaseView(
                item=case.item,
                prompt=case.prompt,
                steps=case.steps,
                baseline=case.traces.baseline,
                new=case.traces.new,
                policy=CATALOGUE,
                masked=self._comparer.masked,
                report_id=self._report_id,
                previous=case.previous,
                next=case.next,
            )
        )
        write_new(self._folder, case.item.artifacts.replay_diff_href, page)


def write_new(folder: Path, href: str, data: bytes) -> None:
    """Write a file of the report; that it exists already would be a mistake of ours."""
    # Many thousands of files: without a file object that is three system calls each, not seven.
    handle = os.open(f"{folder}/{href}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(handle, rest) :]
    finally:
        os.close(handle)


def rank(row: OverviewRow) -> int:
    """0 is read first: what is to be blocked and got worse, then the rest that asks for a gate."""
    worse = row.change == "regression"
    if row.gated:
        return (0 if row.recommendation == "block" else 2) + (not worse)
    if worse:
        return 4
    grave = any(severity in GRAVE for _, severity in row.signals)
    if row.change == "still_failing":
        return 5 if grave else 6
    if grave:
        return 7
    return 8 if row.change in ("improvement", "differs") else 9


class SortedRows:
    """Rows of the overview by rank, then in the order of the cases; kept on disk until then."""

    def __init__(self, folder: Path) -> None:
        self._files = [(folder / f"rows-{number}").open("w+b") for number in range(_RANKS)]

    def add(self, lines: Mapping[int, bytes]) -> None:
        """Take rows as lines of JSON, by their rank."""
        for number, rows in lines.items():
            self._files[number].write(rows)

    def chunks(self, size: int) -> Iterator[list[OverviewRow]]:
        """All rows, some at a time."""
        for file in self._files:
            file.seek(0)
        lines = chain.from_iterable(self._files)
        while chunk := list(islice(lines, size)):
            yield [msgspec.json.decode(line, type=OverviewRow) for line in chunk]

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()

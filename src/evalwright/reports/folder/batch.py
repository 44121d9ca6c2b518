"""Some written cases as one: to take them in costs what one does, however many they are."""

from collections.abc import Sequence
from typing import NamedTuple

from evalwright.comparison.summary import CaseFacts, Tally
from evalwright.reports.folder.rows import ranked_lines
from evalwright.reports.html.pages import OverviewRow

ITEM_SEPARATOR = b",\n    "  # as the machine report has them
DEFINITION_SEPARATOR = b",\n"


class Written(NamedTuple):
    """What is left to do once a case is written: its item, its row, its facts, its definition."""

    item: bytes
    row: OverviewRow
    facts: CaseFacts
    definition: bytes
    hrefs: list[str]
    missing_assets: list[str]
    fault: str


class Batch(NamedTuple):
    """The same of some cases, joined, counted, and their rows by rank."""

    cases: int
    items: bytes
    rows: dict[int, bytes]
    tally: Tally
    definitions: bytes
    hrefs: bytes
    missing_assets: list[str]
    faulty: int
    first_fault: str
    used_suppressions: frozenset[int]


def as_batch(cases: Sequence[Written], used_suppressions: frozenset[int]) -> Batch:
    """What the cases leave to do, and which suppressions were used so far."""
    tally = Tally()
    tally.add([case.facts for case in cases])
    faults = [f"{case.row.case_id}: {case.fault}" for case in cases if case.fault]
    hrefs = [f"{href}\n" for case in cases for href in case.hrefs]
    return Batch(
        cases=len(cases),
        items=ITEM_SEPARATOR.join([case.item for case in cases]),
        rows=ranked_lines([case.row for case in cases]),
        tally=tally,
        definitions=DEFINITION_SEPARATOR.join([case.definition for case in cases]),
        hrefs="".join(hrefs).encode(),
        missing_assets=[asset for case in cases for asset in case.missing_assets],
        faulty=len(faults),
        first_fault=faults[0] if faults else "",
        used_suppressions=used_suppressions,
    )

"""Traces without a case id find their partners in partitions on disk, in memory that stays flat."""

import json
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalwright.comparison import partners
from evalwright.comparison.materialize import materialize
from evalwright.comparison.partners import pair_unnamed
from evalwright.comparison.run_folder import RunFolder
from evalwright.scans import partitions
from evalwright.scans.partitions import Partitions
from evalwright.trace.importers.records import Imported

Paired = tuple[dict[str, Any], list[list[tuple[str, str | None]]]]


@pytest.fixture(scope="module")
def sizes() -> Iterator[Callable[[int, int], None]]:
    """How many rows a partition should have, and how many bytes may wait in memory."""
    with pytest.MonkeyPatch.context() as patch:

        def small(rows: int, buffered: int) -> None:
            patch.setattr(partitions, "_ROWS", rows)
            patch.setattr(partitions, "_BUFFERED", buffered)
            patch.setattr(partners, "_PLACES", rows)

        yield small


def laid_out(folder: Path, records: list[Imported]) -> tuple[RunFolder, RunFolder]:
    """The first half of the records as a baseline, the other as a new run."""
    folder.mkdir()
    half = len(records) // 2
    sides = (("baseline", records[:half]), ("new", records[half:]))
    baseline, new = (materialize(each, {}, folder / name) for name, each in sides)
    return baseline, new


def paired(folder: Path, records: list[Imported]) -> Paired:
    baseline, new = laid_out(folder, records)
    pairing = pair_unnamed(baseline, new, None, folder)
    cases = [
        [(each.case_id, getattr(each, "paired_by", None)) for each in run.listed()]
        for run in (baseline, new)
    ]
    return ({} if pairing is None else pairing.summary().by), cases


few = st.integers(0, 5)
records = st.builds(
    lambda number, kind, asked: Imported(
        f"{kind}-{number}", {}, named_by=kind, asked=f"prompt {asked}" if asked else None
    ),
    few,
    st.sampled_from(["case_id", "conversation", "trace", "place"]),
    few,
)


@settings(max_examples=60, deadline=None)
@given(found=st.lists(records, max_size=24), rows=st.integers(1, 6), buffered=st.integers(1, 900))
def test_partners_do_not_depend_on_how_many_partitions_there_are(
    tmp_path_factory: pytest.TempPathFactory,
    sizes: Callable[[int, int], None],
    found: list[Imported],
    rows: int,
    buffered: int,
) -> None:
    folder = tmp_path_factory.mktemp("pairs")
    sizes(10_000, 1 << 20)
    one = paired(folder / "one", found)
    sizes(rows, buffered)
    assert paired(folder / "many", found) == one
    assert not list(folder.glob("*/pairing-*"))


def test_a_trace_whose_id_went_to_another_case_is_told_to_have_no_partner(tmp_path: Path) -> None:
    old = [
        Imported("record-1", {}, named_by="place", asked="b"),
        Imported("record-2", {}, named_by="place", asked="other"),
    ]
    new = [
        Imported("record-1", {}, named_by="place", asked="z"),
        Imported("record-2", {}, named_by="place", asked="b"),
    ]
    baseline, run = laid_out(tmp_path / "runs", old + new)
    pairing = pair_unnamed(baseline, run, None, tmp_path / "runs")
    assert pairing is not None
    assert [each.case_id for each in baseline.listed()] == ["record-2", "record-2 (baseline)"]
    assert pairing.summary().by == {"prompt": 1}
    assert (pairing.unpaired_baseline, pairing.unpaired_new) == (1, 1)


def listed(folder: Path, count: int, step: int) -> RunFolder:
    """A run with nothing but a listing of traces without case ids."""
    folder.mkdir(parents=True)
    with (folder / "answers").open("wb") as answers, (folder / "unnamed").open("wb") as unnamed:
        for place in range(count):
            trace = f"trace-{step}-{place}"
            answers.write(json.dumps([trace, None, f"{place}.json"]).encode() + b"\n")
            asked = f"prompt {place * step % count}"
            unnamed.write(json.dumps([place, trace, "trace", asked]).encode() + b"\n")
    run = RunFolder(folder, folder / "answers")
    run.unnamed = folder / "unnamed"
    return run


def test_memory_does_not_grow_with_the_number_of_traces(
    tmp_path: Path, sizes: Callable[[int, int], None]
) -> None:
    sizes(500, 1 << 16)
    peaks = []
    for count in (2_000, 20_000):
        folder = tmp_path / str(count)
        baseline, new = (listed(folder / f"{step}", count, step) for step in (1, 7))
        tracemalloc.start()
        pairing = pair_unnamed(baseline, new, None, folder)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert pairing is not None
        assert pairing.summary().by == {"prompt": count}
    assert peaks[1] < 1.5 * peaks[0]


def test_rows_of_a_partition_come_in_their_order_as_often_as_they_are_asked_for(
    tmp_path: Path, sizes: Callable[[int, int], None]
) -> None:
    sizes(1, 40)
    kept = Partitions(tmp_path, "rows", partners._Row, 3)
    rows = [partners._Row(0, f"case-{n}", "trace", place=n) for n in range(40)]
    for row in rows:
        kept.add(row.case_id, row)
    seen = []
    for part in kept.drained():
        assert list(part()) == list(part()) == sorted(part(), key=lambda row: row.place or 0)
        seen += list(part())
    assert sorted(seen, key=lambda row: row.place or 0) == rows
    assert list(tmp_path.iterdir()) == []

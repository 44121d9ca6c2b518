"""Traffic cut into shards anywhere: the same lines, faults and notes as read in one go."""

import bz2
import errno
import gzip
import io
import json
import lzma
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from comparing import a_response
from evalwright.contracts.errors import BadInput
from evalwright.scans import shards
from evalwright.scans.baseline_traces import keep_baseline
from evalwright.scans.shards import TraceFiles, parts_in_order
from evalwright.scans.signals import ScanTally, SignalScan
from evalwright.scans.spread import LocalProcesses

SECRET = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
ALONE = LocalProcesses(1)


class InThisProcess:
    """An engine that cuts as finely as it is told; shards are worked on out of their turn."""

    def __init__(self, shard_bytes: int) -> None:
        self.shard_bytes = shard_bytes
        self.shards = 0

    def map_shards(self, fn: Any, shards: Iterable[Any]) -> Iterator[Any]:
        listed = list(shards)
        self.shards += len(listed)
        yield from reversed([fn(each) for each in reversed(listed)])


def scanned(path: Path, engine: Any, baseline: Path | None = None, work: Path | None = None) -> Any:
    """Everything that a scan gives: lines, what was counted, what is noted, why it stopped."""
    known = None
    if baseline is not None and work is not None:
        work.mkdir()
        known, _ = keep_baseline(TraceFiles(baseline), work, engine)
    lines, tally, notes, stop = b"", ScanTally(), [], None
    for part in parts_in_order(SignalScan(known, masked=True), TraceFiles(path), engine):
        lines += part.lines
        tally.merge(part.tally)
        notes += part.notes
        stop = stop or part.stop
    return lines, tally, notes, stop


def trace(number: int, **more: Any) -> dict[str, Any]:
    output = SECRET if number % 3 == 0 else "done"
    return {**a_response(case_id=f"case-{number}", output=output), **more}


def document(value: Any) -> bytes:
    return json.dumps(value).encode()


def nameless(number: int) -> bytes:
    return document({key: value for key, value in trace(number).items() if key != "case_id"})


def talk(number: int) -> bytes:
    said = [{"role": "user", "content": f"ask {number}"}, {"role": "assistant", "content": SECRET}]
    return document({"messages": said})


SAID = {"messages": [{"role": "user", "content": "Hi"}]}
KINDS = {
    "a trace": lambda n: document(trace(n)),
    "a trace without an id": nameless,
    "a damaged line": lambda n: b'{"case_id": "broken-%d", "events": [' % n,
    "nothing": lambda _n: b"",
    "space": lambda _n: b" \t\r",
    "something unknown": lambda _n: b'{"a": 1}',
    "no object": lambda _n: b"7",
    "a document of several lines": lambda n: json.dumps(trace(n), indent=1).encode(),
    "a list of traces": lambda n: document([trace(n), trace(n + 1)]),
    "a conversation": talk,
    "a message": lambda n: document({"role": "user", "content": f"message {n}"}),
    "a request": lambda _n: document({"request": SAID, "response": {"role": "assistant"}}),
    "a span": lambda n: document(
        {"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": f"{n}", "spanId": "a"}]}]}]}
    ),
    "an opening bracket": lambda _n: b"{",
    "a closing bracket": lambda _n: b"}",
}
USUAL = ["a trace", "a trace without an id", "a conversation", "a damaged line", "nothing"]


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """Lines of any kind; most files have mostly those that stand for themselves."""
    usual = st.sampled_from(USUAL)
    kinds = usual if draw(st.integers(0, 2)) else st.one_of(usual, st.sampled_from(sorted(KINDS)))
    lines = [KINDS[kind](n) for n, kind in enumerate(draw(st.lists(kinds, max_size=12)))]
    start = draw(st.sampled_from([b"", b"", b"\xef\xbb\xbf"]))
    return start + b"\n".join(lines) + draw(st.sampled_from([b"", b"\n"]))


@settings(max_examples=300, deadline=None)
@given(content=files(), size=st.integers(1, 3000))
def test_wherever_a_file_is_cut_the_result_is_the_same(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, size: int
) -> None:
    path = tmp_path_factory.mktemp("cut") / "traces.jsonl"
    path.write_bytes(content)
    assert scanned(path, InThisProcess(size)) == scanned(path, ALONE)


@settings(max_examples=25, deadline=None)
@given(content=files(), good=files(), size=st.integers(1, 3000))
def test_so_is_what_was_paired_with_a_baseline(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, good: bytes, size: int
) -> None:
    folder = tmp_path_factory.mktemp("paired")
    path, baseline = folder / "new.jsonl", folder / "good.jsonl"
    path.write_bytes(content)
    baseline.write_bytes(good)
    one = scanned(path, ALONE, baseline, folder / "one")
    assert scanned(path, InThisProcess(size), baseline, folder / "many") == one


def test_lines_that_stand_for_themselves_are_cut_into_many_shards(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_bytes(b"".join(document(trace(n)) + b"\n\n" for n in range(40)))
    engine = InThisProcess(2000)
    lines, tally, _, _ = scanned(path, engine)
    assert engine.shards > 5
    assert [tally.count, lines.count(b"\n")] == [40, 40]


def test_a_disk_that_fails_while_a_file_is_cut_doubles_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class FailsFarther(io.BufferedReader):
        def read(self, size: int | None = -1, /) -> bytes:
            if self.tell() > 8000:
                raise OSError(errno.EIO, "the disk failed")
            return super().read(size)

    path = tmp_path / "traces.jsonl"
    path.write_bytes(b"".join(document(trace(n)) + b"\n" for n in range(40)))
    monkeypatch.setattr(shards, "open_input", lambda name: FailsFarther(io.FileIO(name)))
    cut = [each for (each,) in TraceFiles(path).loads(0, 2000)]
    assert len(cut) > 2
    assert [each.start for each in cut[1:]] == [each.end for each in cut[:-1]]


def test_a_fault_in_a_later_shard_names_its_line_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_bytes(b"".join(document(trace(n)) + b"\n" for n in range(20)) + b"{]\n")
    lines, tally, _, _ = scanned(path, InThisProcess(1000))
    assert "traces.jsonl: line 21: not readable as JSON" in tally.first_fault
    assert json.loads(lines.splitlines()[-1])["id"] == "record-21"


def test_records_that_make_a_trace_together_are_not_cut(tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"
    path.write_bytes(b"".join(KINDS["a span"](n) + b"\n" for n in range(30)))
    engine = InThisProcess(200)
    scanned(path, engine)
    assert engine.shards == 0  # there is one, and it is read in one go


class Truncating(InThisProcess):
    """An engine that finds the file shorter than it was when it was cut."""

    def __init__(self, shard_bytes: int, path: Path, length: int) -> None:
        super().__init__(shard_bytes)
        self._path, self._length = path, length

    def map_shards(self, fn: Any, shards: Iterable[Any]) -> Iterator[Any]:
        listed = list(shards)
        os.truncate(self._path, self._length)
        yield from super().map_shards(fn, listed)


@pytest.mark.parametrize("lines_left", [0, 1, 7, 35, 39])
def test_a_file_that_became_shorter_is_no_shorter_file(tmp_path: Path, lines_left: int) -> None:
    path = tmp_path / "traces.jsonl"
    lines = [document(trace(n)) + b"\n" for n in range(40)]
    path.write_bytes(b"".join(lines))
    found, _, _, stop = scanned(path, Truncating(2000, path, sum(map(len, lines[:lines_left]))))
    assert stop == (
        f"{path}: became shorter while it was read; give it when nothing writes to it, or a copy"
    )
    assert found.count(b"\n") <= lines_left


def test_so_it_is_for_one_process(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_bytes((document(trace(1)) + b"\n") * 9000)
    parts = parts_in_order(SignalScan(None, masked=True), TraceFiles(path), ALONE)
    next(parts)
    os.truncate(path, 0)
    *_, last = parts
    assert last.stop is not None
    assert last.stop.startswith(f"{path}: became shorter")


PACKED = {
    "zst": bytes.fromhex("28b52ffd0458210100"),
    "xz": lzma.compress(b"{}\n"),
    "bz2": bz2.compress(b"{}\n"),
}


@pytest.mark.parametrize("ending", PACKED)
def test_what_is_packed_in_another_way_is_refused_with_what_unpacks_it(
    tmp_path: Path, ending: str
) -> None:
    path = tmp_path / f"traces.jsonl.{ending}"
    path.write_bytes(PACKED[ending])
    _, _, _, stop = scanned(path, ALONE)
    assert f"{path}: is packed as .{ending}, which is not read; unpack it (" in stop
    assert (b"", ScanTally(), [], stop) == scanned(path, InThisProcess(1))


def test_nor_is_it_passed_over_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(document(trace(1)))
    (tmp_path / "b.jsonl.zst").write_bytes(PACKED["zst"])
    lines, tally, _, _ = scanned(tmp_path, ALONE)
    assert [lines.count(b"\n"), tally.faults] == [2, 1]
    assert "is packed as .zst" in tally.first_fault


# Folders.


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files of several kinds, some packed, beside what holds no traces."""
    root = tmp_path / "exports"
    (root / "more" / ".hidden").mkdir(parents=True)
    (root / "_runner_failures").mkdir()
    several = b"".join(document(trace(n)) + b"\n" for n in range(30))
    (root / "b.jsonl").write_bytes(several)
    (root / "c.jsonl.gz").write_bytes(gzip.compress(several))
    (root / "a.json").write_text(json.dumps(trace(1), indent=2))
    (root / "more" / "nameless.json").write_bytes(nameless(2))
    (root / "more" / "talks.ndjson").write_bytes(talk(1) + b"\n" + talk(2))
    for other in ("run.json", "cases.json", "notes.md", "more/.hidden/x.json"):
        (root / other).write_text("{}")
    (root / "_runner_failures" / "body.meta.json").write_text("{}")
    return root


@pytest.mark.parametrize("size", [1, 500, 5000, 10**6])
def test_a_folder_is_its_files_in_the_order_of_their_names(folder: Path, size: int) -> None:
    lines, tally, notes, stop = scanned(folder, InThisProcess(size))
    assert (lines, tally, notes, stop) == scanned(folder, ALONE)
    ids = [json.loads(line)["id"] for line in lines.splitlines()]
    many = [f"case-{n}" for n in range(30)]
    assert ids == ["case-1", *many, *many, "nameless", "talks", "talks/record-2"]
    assert tally.faults == 0


def test_a_file_of_a_folder_that_cannot_be_read_does_not_hide_the_others(folder: Path) -> None:
    (folder / "c.jsonl.gz").write_bytes((folder / "c.jsonl.gz").read_bytes()[:-20])
    lines, tally, _, _ = scanned(folder, InThisProcess(500))
    assert (lines, tally) == scanned(folder, ALONE)[:2]
    assert tally.faults == 1
    assert "c.jsonl.gz: cannot be read" in tally.first_fault
    assert json.loads(lines.splitlines()[-1])["id"] == "talks/record-2"


def test_a_folder_without_traces_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(BadInput, match="no file of traces in it"):
        TraceFiles(tmp_path)

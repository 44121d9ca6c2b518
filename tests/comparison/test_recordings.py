"""Recorded cases one by one: from a file of traces, a run directory, and a run of the log."""

import json
from pathlib import Path
from typing import Any

import pytest

from builders import a_suite
from comparing import Pair, a_call, a_case, a_response, a_result
from evalwright.comparison import run_folder
from evalwright.comparison.materialize import WriteResponses, open_traces
from evalwright.comparison.recordings import Recordings
from evalwright.comparison.run_folder import IMPORT_FAULT, ListedResponse, RunFolder, Unreadable
from evalwright.contracts.errors import BadInput
from evalwright.scans.shards import Shard
from evalwright.trace.recorded_case import Recording
from reported import no_own_run
from subjects.runs import Workshop

GUESS: Any = {"type": "telepathy", "ts": 1}
CHAT = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}]
UNKNOWN = "shop.jsonl: line 3: unknown format"
PARTLY = "line 2: 1 of 4 events is not understood: type 'telepathy' at events[0]"


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """Two responses, one of which is understood in part, what is no trace, and a conversation."""
    records = [
        a_response(case_id="one"),
        a_response(GUESS, a_call(), a_result(), case_id="two", base_case_id="case"),
        {"case_id": "three"},
        {"messages": CHAT},
    ]
    path = tmp_path / "shop.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in records))
    return path


def test_each_trace_of_a_file_comes_with_its_name_or_its_fault(traces: Path) -> None:
    read = Recordings(str(traces), no_own_run)
    one, two, three, chat = read
    assert (one.place, one.name, one.case_id) == ("shop.jsonl: line 1", "one", "one")
    assert (one.trace.output is not None, one.fault, one.base_id) == (True, None, None)
    assert two.base_id == "case"
    assert (three.name, three.case_id) == ("record-3", None)
    assert str(three.fault).startswith(UNKNOWN)
    assert (chat.name, chat.case_id, chat.trace.prompt) == ("record-4", None, "Hi")
    assert (read.name, read.count, read.faults) == ("shop.jsonl", 4, [three.fault])
    assert read.notes == [f"1 of 4 traces were read in part, for example shop.jsonl: {PARTLY}"]


def test_a_trace_in_which_nothing_is_understood_has_a_fault(traces: Path) -> None:
    lines = [a_response(case_id="one"), {"case_id": "dark", "events": [GUESS]}]
    traces.write_text("".join(json.dumps(each) + "\n" for each in lines))
    _, dark = Recordings(str(traces), no_own_run)
    assert (dark.name, dark.case_id, dark.response) == ("dark", "dark", {})
    said = "shop.jsonl: line 2: holds no trace that is understood: 1 of 1 events "
    assert str(dark.fault).startswith(said)
    run = open_traces(traces, traces.parent / "run")
    written = run.read("00000001.json").value
    assert isinstance(written, dict)
    assert written[IMPORT_FAULT] == dark.fault


def test_a_file_without_any_usable_trace_is_refused(traces: Path) -> None:
    for content, reason in (
        ('{"case_id": "three"}\n' * 2, "unknown format"),
        ("\n", "it is empty"),
    ):
        traces.write_text(content)
        with pytest.raises(BadInput, match=reason):
            list(Recordings(str(traces), no_own_run))
        with pytest.raises(BadInput, match=reason):
            open_traces(traces, traces.parent / f"of {reason}")


def test_recordings_of_a_run_directory_have_the_prompts_of_its_cases(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    for name in ("two", "one"):
        pair.add(a_case(name, user=f"The {name}?"), a_response(case_id=name))
    pair.write(pair.baseline, "cases", (tmp_path / "cases.json").read_bytes())
    pair.write(pair.baseline, "other", a_response(case_id="three"))
    pair.write(pair.baseline, "torn", b"{")
    read = Recordings(str(pair.baseline), no_own_run)

    def told(each: Recording) -> tuple[Any, ...]:
        return each.place, each.name, each.case_id, each.prompt, each.fault is None

    assert [told(each) for each in read] == [
        ("baseline/one.json", "one", "one", "The one?", True),
        ("baseline/other.json", "three", "three", "", True),
        ("baseline/torn.json", "torn", "torn", "", False),
        ("baseline/two.json", "two", "two", "The two?", True),
    ]
    assert read.faults[0].startswith("baseline/torn.json: it is not valid JSON")


def test_recordings_of_a_run_come_in_the_order_of_its_suite(workshop: Workshop) -> None:
    run = workshop.run(a_suite(3), lambda task: f"{task.id} says yes", concurrency=3)
    read = list(Recordings("latest", lambda: type(workshop.log)(workshop.log.place)))
    assert [each.case_id for each in read] == ["task-1", "task-2", "task-3"]
    assert read[1].place == f"run {run.run_id}, task task-2"
    assert read[1].given == "What is the answer?"
    assert read[1].trace.output is not None
    assert read[1].trace.output.content == "task-2 says yes"


def test_traces_are_written_as_a_run_directory(traces: Path) -> None:
    run = open_traces(traces, traces.parent / "run")
    assert run.meta == {"run_id": "shop"}
    assert list(run.listed()) == [
        ListedResponse("one", None, "00000000.json"),
        ListedResponse("two", "case", "00000001.json"),
        ListedResponse("record-3", None, "00000002.json"),
        ListedResponse("record-4", None, "00000003.json"),
    ]
    first, third, chat = (run.read(f"0000000{n}.json").value for n in (0, 2, 3))
    assert first == a_response(case_id="one")
    assert isinstance(third, dict)
    assert third[IMPORT_FAULT].startswith(UNKNOWN)
    assert isinstance(chat, dict)
    assert "case_id" not in chat  # its name says where it was found, and no more
    assert run.unnamed is not None
    (unnamed,) = run.unnamed.read_text().splitlines()
    assert json.loads(unnamed)[:3] == [3, "record-4", "place"]


def test_a_file_is_written_in_loads_or_piece_by_piece(
    traces: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However it is split, the traces have the same names, and are counted."""
    monkeypatch.setattr("evalwright.comparison.materialize._IN_A_PIECE", 2)
    (traces.parent / "out").mkdir()
    write = WriteResponses(traces.parent / "out")
    shard = Shard(str(traces), traces.name, end=traces.stat().st_size)
    whole = write((shard,))
    pieces = list(write.pieces(shard))
    assert [each.count for each in pieces] == [2, 2, 0]
    assert b"".join(each.listing for each in pieces) == whole.listing
    assert (whole.count, whole.faulty, str(whole.first_fault)[:15]) == (4, 1, UNKNOWN[:15])
    assert [each.faulty for each in pieces] == [0, 1, 0]


# Run directories.


def test_a_response_that_is_too_large_to_decode_is_not_copied_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = Pair(tmp_path)
    pair.write(pair.new, "one", a_response())
    pair.write(pair.new, "torn", b"{")
    run = RunFolder(pair.new)
    assert run.read("torn.json").data == b"{"
    assert run.read("one.json") == (a_response(), (pair.new / "one.json").read_bytes())
    monkeypatch.setattr(run_folder, "too_heavy", lambda _: "too large")
    refused = run.read("one.json")
    assert isinstance(refused.value, Unreadable)
    assert (refused.value.reason, refused.data) == ("too large", None)


def test_a_file_of_which_nothing_can_be_used_is_refused_with_the_first_reason(
    tmp_path: Path,
) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"case_id": "one"}\n{"other": 2}\n')
    read = Recordings(str(path), no_own_run)
    with pytest.raises(BadInput) as caught:
        list(read)
    first, second = read.faults
    assert "line 1" in first
    assert "line 2" in second
    assert first.rpartition(": ")[2] in str(caught.value)
    assert "line 2" not in str(caught.value)

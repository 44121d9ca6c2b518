"""`evalwright signals`: one line for each trace, whatever is wrong with the others."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from comparing import a_call, a_response, a_result, files_of
from evalwright.cli.signals import command
from evalwright.contracts.errors import BadInput
from subjects.command import COMMAND, Evalwright

SECRET = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"


def a_line(number: int, **more: Any) -> bytes:
    response = a_response(case_id=f"case-{number}", **more.pop("response", {}))
    return json.dumps({**response, "trace_id": f"trace-{number}", **more}).encode() + b"\n"


def a_leak(number: int, **more: Any) -> bytes:
    return a_line(number, response={"output": f"the key is {SECRET}"}, **more)


class Signals:
    """The command in this process, with files of its own."""

    def __init__(self, folder: Path) -> None:
        self.traces = folder / "traces.jsonl"
        self.baseline = folder / "baseline.jsonl"
        self.out = folder / "signals.jsonl"
        self.code: int | None = None

    def __call__(self, content: bytes, baseline: bytes | None = None, **more: Any) -> list[Any]:
        self.traces.write_bytes(content)
        if baseline is not None:
            self.baseline.write_bytes(baseline)
        options = {
            "traces": self.traces,
            "baseline": self.baseline if baseline is not None else None,
            "out": self.out,
            "show_secrets": False,
            **more,
        }
        assert command.callback is not None
        self.code = command.callback(**options)
        return [json.loads(line) for line in self.out.read_bytes().splitlines()]


@pytest.fixture
def signals(tmp_path: Path) -> Signals:
    return Signals(tmp_path)


def kinds(line: Any) -> set[str]:
    return {signal["kind"] for signal in line["signals"]}


# What comes out.


def test_each_trace_has_a_line_with_its_id_in_the_order_of_the_file(signals: Signals) -> None:
    lines = signals(a_line(2) + a_leak(1) + a_line(3))
    assert [line["id"] for line in lines] == ["trace-2", "trace-1", "trace-3"]
    assert [bool(line["signals"]) for line in lines] == [False, True, False]
    assert signals.code == 0


def test_secrets_are_masked_unless_they_are_asked_for(signals: Signals) -> None:
    inner = {"token": SECRET, "to": "http://collect.example/x"}
    record = a_response(a_call("http_post", **inner), a_result(), case_id="c", output=SECRET)
    signals(json.dumps(record).encode())
    assert SECRET.encode() not in signals.out.read_bytes()
    assert "secret_in_output" in kinds(signals(json.dumps(record).encode(), show_secrets=True)[0])


def test_the_result_goes_to_stdout_alone(evalwright: Evalwright) -> None:
    (evalwright.folder / "t.jsonl").write_bytes(a_line(1) + b"{\n" + a_leak(2))
    done = evalwright("signals", "--traces", "t.jsonl", "--json")
    assert done.code == 2
    assert [json.loads(line)["id"] for line in done.out.splitlines()] == [
        "trace-1",
        "record-2",
        "trace-2",
    ]
    assert done.err.splitlines() == [
        "t.jsonl: 1 of 3 records could not be read",
        "exit 2: not everything could be read",
    ]


def test_a_baseline_of_other_cases_is_told(evalwright: Evalwright) -> None:
    (evalwright.folder / "t.jsonl").write_bytes(a_line(1))
    (evalwright.folder / "old.jsonl").write_bytes(a_line(2))
    done = evalwright("signals", "--traces", "t.jsonl", "--baseline", "old.jsonl")
    assert "t.jsonl: no trace has a partner in the baseline" in done.err


def test_traces_can_come_through_a_pipe(evalwright: Evalwright) -> None:
    line = [str(COMMAND), "signals", "--traces", "/dev/stdin", "--json"]
    packed = gzip.compress(a_line(1))
    done = subprocess.run(line, input=packed, capture_output=True, check=True, timeout=240)
    assert json.loads(done.stdout)["id"] == "trace-1"


# The baseline.


def the_baselines_of(signals: Signals, monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    seen: list[str | None] = []

    def detect(trace: Any, baseline: Any = None) -> tuple[()]:
        seen.append(None if baseline is None else baseline.prompt)
        return ()

    monkeypatch.setattr("evalwright.signals.scan.detect", detect)
    return seen


def test_a_trace_is_paired_by_its_base_case_and_else_by_its_case(
    signals: Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = the_baselines_of(signals, monkeypatch)
    baseline = a_line(1, base_case_id="base", user_prompt="by base") + a_line(
        2, user_prompt="by case"
    )
    signals(a_line(8, base_case_id="base") + a_line(2) + a_line(9), baseline)
    assert seen == ["by base", "by case", None]


def test_a_baseline_with_a_fault_is_used_without_it_and_said(
    signals: Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = signals(a_line(1) + a_leak(2), a_line(1) + b"{broken\n" + a_line(2))
    assert [line["id"] for line in lines] == ["trace-1", "trace-2"]
    assert signals.code == 2


# Damaged and hostile input.


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b'{"events": [',
        b"\0" * 100,
        b"[" * 100_000,
        b'{"events": ' + b"[" * 5_000 + b"]" * 5_000 + b"}",
        b'{"events": [{"ts": 1e999}]}',
        b'{"events": [{"ts": NaN}]}',
        b'{"events": [], "n": ' + b"1" * 5_000 + b"}",
        b'{"case_id": "\\ud800", "events": []}',
        b'{"case_id": "\xff", "events": []}',
        b'{"neither": "this nor that"}',
        b"42",
    ],
    ids=lambda line: repr(line[:24]),
)
def test_a_line_that_cannot_be_read_has_its_error_and_stops_no_other(
    signals: Signals, line: bytes
) -> None:
    first, second, third = signals(a_line(1) + line + b"\n" + a_leak(3))
    assert (first["id"], third["id"]) == ("trace-1", "trace-3")
    assert second["signals"] == []
    assert "traces.jsonl: line 2" in second["error"]
    assert third["signals"]
    assert signals.code == 2


@pytest.mark.parametrize(
    "record",
    [
        {"events": None},
        {"events": 5, "case_id": [1]},
        {"events": [None, 1, "x", []], "trace_id": 5},
        {"events": [{"type": ["x"], "ts": "now"}]},
        {"events": [{"type": "tool_call", "args": "x", "tool": 5, "call_id": {}}]},
        {"events": [{"type": "tool_result", "payload": 10**400, "call_id": 10**400}]},
        {"final_output": 5, "events": {}},
        {"runner_failure": []},
        {"messages": [None]},
        {"resourceSpans": [None]},
        {"spans": [{}]},
    ],
    ids=lambda record: json.dumps(record)[:40],
)
def test_records_of_wrong_types_have_a_line_too(signals: Signals, record: Any) -> None:
    lines = signals(a_line(1) + json.dumps(record).encode() + b"\n" + a_leak(3))
    assert {"trace-1", "trace-3"} <= {line["id"] for line in lines}


@pytest.mark.parametrize("data", [b"", b"\n \n", gzip.compress(b"", mtime=0), b"\xef\xbb\xbf"])
def test_a_file_without_a_trace_is_bad_input(signals: Signals, data: bytes) -> None:
    with pytest.raises(BadInput, match="holds no trace"):
        signals(data)
    assert not signals.out.exists()


def test_gzip_is_known_by_its_content_also_in_several_members(signals: Signals) -> None:
    lines = signals(gzip.compress(a_line(1)) + gzip.compress(a_leak(2)))
    assert [line["id"] for line in lines] == ["trace-1", "trace-2"]


def _cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _spoilt(data: bytes) -> bytes:
    return data[:40] + b"zzzz" + data[44:]


@pytest.mark.parametrize("harm", [_cut, _spoilt, lambda _: b"\x1f\x8b"])
def test_damaged_gzip_is_bad_input_and_nothing_half_written_stays(
    signals: Signals, tmp_path: Path, harm: Any
) -> None:
    packed = harm(gzip.compress(b"".join(map(a_leak, range(2_000)))))
    with pytest.raises(BadInput, match=r"traces\.jsonl: cannot be read"):
        signals(packed)
    assert [path.name for path in tmp_path.iterdir()] == ["traces.jsonl"]


def test_a_gzip_bomb_costs_one_refused_record_and_little_memory(evalwright: Evalwright) -> None:
    megabytes = gzip.compress(b"\0" * (64 << 20), 9)
    (evalwright.folder / "bomb.gz").write_bytes(megabytes * 4 + gzip.compress(b"\n" + a_line(1)))
    measure = (
        "import resource, subprocess, sys;"
        "subprocess.run(sys.argv[1:]);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10)"
    )

    line = [sys.executable, "-c", measure, str(COMMAND), "signals", "--traces", "bomb.gz", "--json"]
    done = subprocess.run(line, cwd=evalwright.folder, capture_output=True, check=True, timeout=240)
    *lines, memory = done.stdout.decode().splitlines()
    assert "larger than 128 MiB" in json.loads(lines[0])["error"]
    assert json.loads(lines[1])["id"] == "trace-1"
    assert int(memory) < 500


# Places.


def test_inputs_are_never_written_to(signals: Signals, tmp_path: Path) -> None:
    (tmp_path / "same.jsonl").symlink_to("traces.jsonl")
    for out in (signals.traces, tmp_path / "same.jsonl", signals.baseline):
        before = a_line(1)
        with pytest.raises(BadInput, match="inputs are never written to"):
            signals(before, before, out=out)
        assert (signals.traces.read_bytes(), signals.baseline.read_bytes()) == (before, before)


def test_places_that_cannot_be_read_or_written_are_bad_input(
    signals: Signals, tmp_path: Path
) -> None:
    for traces in (tmp_path / "none.jsonl", tmp_path / ("x" * 300)):
        with pytest.raises(BadInput, match="cannot be read"):
            signals(a_line(1), traces=traces)
    for out in (tmp_path, tmp_path / "no" / "folder.jsonl"):
        with pytest.raises(BadInput, match="cannot be written"):
            signals(a_line(1), out=out)
    assert set(files_of(tmp_path)) == {"traces.jsonl"}


def test_a_file_name_that_is_no_text_is_no_obstacle(evalwright: Evalwright) -> None:
    name = os.fsdecode(b"odd\xff.jsonl")
    (evalwright.folder / name).write_bytes(a_line(1) + b"{")
    done = evalwright("signals", "--traces", name)
    assert done.code == 2
    assert "odd\ufffd.jsonl: line 2" in done.out
    sides = ("--baseline", name, "--new", name)
    assert evalwright("compare", *sides, "--out", "report").code == 3


# For people.


def test_people_get_a_table_with_the_worst_first_and_where_it_is(evalwright: Evalwright) -> None:
    events = (a_call("delete_account", id="A-1"), a_result())
    deleted = a_line(1, response={"output": "Gone."}, events=list(events))
    (evalwright.folder / "t.jsonl").write_bytes(deleted + a_line(2) + a_leak(3))
    done = evalwright("signals", "--traces", "t.jsonl", "--fail-on", "critical")
    first, of_first, second, of_second, _, summary, last = done.out.splitlines()
    assert first.startswith("critical  Secret in the output")
    assert of_first.split() == [
        *("secret_in_output,", "low", "confidence", "line", "3:", "trace-3,", "events[2]")
    ]
    assert second.startswith("high ")
    assert "line 1: trace-1, events[0]" in of_second
    assert last == "exit 1: the gate failed"
    assert summary == "2 signals in 2 of 3 traces: 1 critical, 1 high."
    assert SECRET not in done.out
    assert done.code == 1


def test_of_very_many_signals_the_worst_are_listed(evalwright: Evalwright) -> None:
    calls = a_line(0, events=[a_call("delete_account", id="A-1"), a_result()])
    (evalwright.folder / "t.jsonl").write_bytes(calls * 130 + a_leak(1))
    done = evalwright("signals", "--traces", "t.jsonl")
    first, *_, more, _, summary = done.out.splitlines()
    assert first.startswith("critical ")
    assert more == "… and 31 more; --json lists all of them"
    assert summary.startswith("131 signals in 131 of 131 traces: 1 critical, 130 high")


def test_no_signals_and_what_was_not_read_are_told(evalwright: Evalwright) -> None:
    (evalwright.folder / "t.jsonl").write_bytes(a_line(1) + b"{\n")
    done = evalwright("signals", "--traces", "t.jsonl")
    told, *_, summary, last = done.out.splitlines()
    assert told.startswith("not read: t.jsonl: line 2")
    assert summary == "No signals in 1 trace; 1 could not be read."
    assert last == "exit 2: not everything could be read"
    assert done.code == 2


@pytest.mark.parametrize(
    ("bar", "code"),
    [(None, 0), ("high", 1), ("secret_in_output", 1), ("permission_change", 0)],
)
def test_a_bar_for_signals_gives_exit_code_1(signals: Signals, bar: str | None, code: int) -> None:
    signals(a_line(1) + a_leak(2), fail_on=bar)
    assert signals.code == code


def test_a_bar_that_is_no_severity_and_no_kind_is_refused(evalwright: Evalwright) -> None:
    refused = evalwright("signals", "--traces", "x.jsonl", "--fail-on", "hihg")
    assert refused.code == 2
    assert "--fail-on hihg: name high, critical or a kind of signal" in refused.err

"""Tables of small inputs, each with all that comes of it, as they are recorded in JSON files.

How the files are written anew after an intended change is described in `snapshots`.
"""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from comparing import START, Pair, a_call, a_failure, a_response, a_result, a_retrieval, a_trace
from evalwright.comparison import alignment, case_file, materialize
from evalwright.comparison import contradictions as module
from evalwright.comparison import contradictions as stated
from evalwright.comparison.alignment import AlignedStep, align, first_divergence
from evalwright.comparison.case_file import CaseFile
from evalwright.comparison.cases import file_stem, parse_case
from evalwright.comparison.contradictions import contradictions
from evalwright.comparison.inputs import find_cases, open_inputs
from evalwright.comparison.run_folder import RunFolder, Unreadable
from evalwright.comparison.summary import Mean
from evalwright.contracts.errors import BadInput, RunNotFound
from evalwright.contracts.report import BothSides
from evalwright.scans import shards
from evalwright.trace.decode import decode_trace
from evalwright.trace.importers.records import Imported
from snapshots import check_snapshot

RECORDED = Path(__file__).parent / "recorded"
SENTENCES = [
    "",
    "Nothing to say here.",
    "Order ORD-1234 and **ORD-99**, ticket `T#12345`, A123, AB_777, XABC1234, in MAY-2024, X-1999.",
    "lowercaseORD-1234, ORDERS12, wORD-555, ORD-1234567890123456789012345678901",
    "Total: 12.50, price is $1,234.50, the fee was €3, cost of £ 9; weight=10",
    "The due date is 2026-03-04. Delivered: March 5th, 2026; start was 6 of June",
    "Owner: Ann Smith, the new account manager is Bob O'Hara Jones. name = lower case",
    "It costs $40 for 'The Long Road' and 25 EUR, 30 dollars, 12 euros more.",
    "Hotel Blue of the Lake is $120.00 per night, on 12 May or Dec. 1st, 2025-01-02",
    "Paid 2024-13-45 and 1/2/2026, 31/12/26; Sept 9, sep 10th",
    {"order_id": "ORD-1", "id": "none", "total": 12, "ratio": 0.5, "ok": True, "nothing": None},
    {"owner": "Ann Smith", "author": "ann", "title": "Ann Smith", "created": "2026-01-02"},
    {"items": [{"sku": "A1"}, {"sku": "B2"}], "customerName": "Bob Jones", "x": ["1", 2, [3]]},
    {"note": "x" * 101 + "1", "ref": "1" * 100, "code": "1" * 101, "amount": "$ 5", "": "7"},
    {"day": "on " + " " * 30 + "5 May", "when": "on " + " " * 40 + "5 May", "n": -3, "m": "-3.5"},
    ["bare", 1],
    7,
]
VALUES = [
    "",
    "12",
    "$12.50",
    "€ 1,200",
    "-3",
    "$ -4.5",
    "1,2,3",
    "12a",
    "£",
    "9" * 41,
    "2026-01-02",
    "2026 - 0 1 - 1 2",
    "Jan 2",
    "3rd of february",
    "4 Mar",
    "may 31st",
    "12/11/2025 and Jul 7",
    "Sept. 8, Oct 9, nov 10, dec 11, apr 12, jun 13, aug 14",
    "ORD-1234",
    "1234567890123456 and 123456789012345",
    "'abcd' \"abcde\" 'Long Title' Blue Lake AB123 Ab-1234 The House of 7",
    "about 3 days",
    "1-2",
    "exactly",
    "next friday",
]


def test_what_sentences_state_is_as_recorded() -> None:
    found = [{"said": each, "states": stated.statements(each)} for each in SENTENCES]
    check_snapshot(RECORDED / "statements.json", found)


def test_what_values_are_read_as_is_as_recorded() -> None:
    found = {
        value: {
            "amount": stated.first_value("amount", value),
            "date": stated.first_value("date", value),
            "days": sorted(stated.days_in(value)),
            "derived": stated.is_derived(value),
            "entities": stated.entities_in(value),
            "hundredths": sorted(stated.hundredths_in(value)),
            "label": stated.label_of(value),
            "number": stated.number_in(value),
            "prefix": stated.prefix_of(value),
            "scalars": list(stated.scalars({"aKey_of": [value, {"b": value}]})),
            "shape": stated.same_shape(value).pattern,
        }
        for value in VALUES
    }
    check_snapshot(RECORDED / "values.json", found)


@pytest.mark.parametrize(
    ("value", "text", "stands"),
    [
        ("12", "12", True),
        ("12", "a 12.", True),
        ("12", "a12", False),
        ("12", "12a", False),
        ("12", "x12 12", True),
        ("12", "112 120 3", False),
        ("1212", "x1212121 1212", True),
        ("aa", "aaa aa", True),
        ("12", "", False),
    ],
)
def test_a_value_stands_only_where_no_word_goes_on(value: str, text: str, stands: bool) -> None:  # noqa: FBT001
    assert stated.stands_in(value, text) is stands


def test_only_so_many_values_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stated, "MOST_VALUES", 3)
    assert list(stated.scalars({"a": 1, "b": 2, "c": 3, "d": 4})) == [(("a",), "1"), (("b",), "2")]
    assert list(stated.scalars([1, 2, 3, 4])) == [((), "1"), ((), "2")]
    assert list(stated.scalars("x")) == [((), "x")]


PAYLOAD = {
    "order_id": "ORD-1234",
    "customer": {"name": "Ann Smith", "since": "2025-03-04"},
    "price": "120.00",
    "shipping": 9.5,
    "nights": 40,
    "rate": "7.25",
    "deliveryDate": "2026-05-06",
    "code": "AB12",
    "reference": "none",
}
PROSE = """Name: Ann Smith
- "Due date": 2026-05-06,
Hotel Blue Lake from $99.50 a night, 3 May
Balance: 77.40 """
ANSWERS = [
    "Order ORD-1234 is on its way.",
    "Order ORD-9999 is on its way.",
    "Order ORD-99999 is on its way.",
    "Order ORD-9999 and again ORD-9999, and ORD-8888.",
    "The price is 120. The price is $120.00.",
    "The price is 130.55. Later the price is 140.55.",
    "The price is 119.70 and the price is 120.50 and the price is 121",
    "The price is 129.50, the price is 110.50, the price is 240.00, price: 4800",
    "The price is 870.00, the price is 8.70, the price is 12.00",
    "The total price is 130.55 and the price is 31, the price is 31.5, the price is 32",
    "The delivery date is 2026-05-07.",
    "The delivery date is May 6. The delivery date is 4 March.",
    "The customer name is Bob Jones.",
    "The customer name is Smith Ann. Name: Ann Bell",
    "Hotel Blue Lake costs $105.35 on 4 May.",
    "Hotel Blue Lake costs about $105.35.",
    "Hotel Blue Lake costs $99.50 on 3 May.",
    "Somewhere Else Entirely costs $105.35.",
    '{"order_id": "ORD-9999", "price": 130.55, "code": "AB13", "reference": "R1"}',
    '{"code": "ab12", "name": "Bob Jones", "deliveryDate": "2026-05-09", "price": "120.00"}',
    {"price": 130.55, "unknown": 55.55, "customerName": "Bob Jones", "name": "Ann Other"},
    "{not json, price is 130.55",
    "The balance is 88.15. The due date is 2026-07-08.",
    "",
]


def _held_against(*payloads: Any) -> list[Any]:
    events: list[Any] = []
    for number, payload in enumerate(payloads):
        events += [a_call("t", f"k{number}", q="ARG-555"), a_result(payload, f"k{number}")]
    prompt = "I asked for ASK-777 and 55.55"
    return [
        {"said": each, "contradicts": contradictions(a_trace(*events, prompt=prompt, output=each))}
        for each in ANSWERS
    ]


def test_what_answers_contradict_is_as_recorded() -> None:
    found = {
        "fields": _held_against(PAYLOAD),
        "text": _held_against(PROSE),
        "json text": _held_against(json.dumps(PAYLOAD)),
        "several": _held_against({"name": "Cid Old"}, PAYLOAD, PROSE, [PAYLOAD, {"price": 5}]),
        "none": _held_against(),
    }
    check_snapshot(RECORDED / "contradictions.json", found)


def test_what_the_agent_was_told_otherwise_is_no_contradiction() -> None:
    said = {"type": "message", "ts": START, "role": "user", "content": "Or ORD-2222?"}
    own = {**said, "role": "assistant", "content": "Maybe ORD-3333"}
    fetched = {**a_retrieval("ORD-4444"), "content": "see ORD-5555"}
    failed = [a_call("x", "f", id="ORD-6666"), a_result(call_id="f", status="error")]
    worked = [a_call("x", "w", id="ORD-7777"), a_result(call_id="w", status="OK")]
    lost = [a_call("x", "l", id="ORD-8888")]
    events = [said, own, fetched, *failed, *worked, *lost, a_call(), a_result({"id": "ORD-1111"})]
    output = " ".join(f"ORD-{n}{n}{n}{n}" for n in range(10))
    response = a_response(*events, output=output, system_prompt="Not ORD-9999")
    trace = decode_trace(response, "one", "and ORD-0000")
    found = [each.value for each in contradictions(trace)]
    assert found == ["ORD-3333", "ORD-6666", "ORD-8888"]
    assert contradictions(decode_trace(a_failure(), "one")) == []


@pytest.mark.parametrize(("most", "count"), [(2, 2), (1, 1), (3, 2)])
def test_only_so_many_statements_are_held_against_results(
    monkeypatch: pytest.MonkeyPatch, most: int, count: int
) -> None:
    monkeypatch.setattr(module, "MOST_STATEMENTS", most)
    trace = a_trace(a_call(), a_result("ORD-1111"), output="ORD-2222 ORD-3333")
    assert len(contradictions(trace)) == count


def test_long_traces_are_not_held_against_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = a_trace(a_call(), a_result("ORD-1111"), output="ORD-2222")
    length = len(module.KnownText(trace).text)
    monkeypatch.setattr(module, "MOST_TEXT", length)
    assert len(contradictions(trace)) == 1
    monkeypatch.setattr(module, "MOST_TEXT", length - 1)
    assert contradictions(a_trace(a_call(), a_result("ORD-1111"), output="ORD-2222")) == []


def test_among_too_many_numbers_any_may_have_been_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def found() -> int:
        answer = "The price is 733.31."
        return len(contradictions(a_trace(a_call(), a_result({"price": 50.11}), output=answer)))

    monkeypatch.setattr(module, "_MOST_NUMBERS", 1)
    assert found() == 1
    monkeypatch.setattr(module, "_MOST_NUMBERS", 0)
    assert found() == 0


# Case files.

CASE_FILES = [
    b"",
    b" \n ",
    b"[]",
    b"\xef\xbb\xbf [] \n",
    b'[{"id": "a"}, 5, null, {"id": 7}, "x"]',
    b'{"version": 1, "cases": [{"id": "a"}], "more": 1}',
    b'{"version": 12.5, "cases": []}',
    b'{"version": 1}',
    b"{}",
    b'{"a" 1}',
    b'{"cases" : 5}',
    b'{\n "cases": [\n  {"id": "a"}\n  {"id": "b"}\n ]\n}',
    b'[{"id": "a"}',
    b'[{"id": "a"},',
    b"[1,\n2,\n  nope]",
    b'[{"id": "a"}] x',
    b'[{"id": "a"}]]',
    b'{"cases": []',
    b'{"cases": []]',
    b'[\n{"id": "a',
    b"7",
    b'"text"',
    b"[12345, 1e400, -0.5]",
    b"[" * 3000,
    '[{"id": "ä→"},\n "ö" ?]'.encode(),
    b'[{"id": "\xff"}, {"id": "b"}]',
    b'{"x": [1, {"y": 2}], "z": "}",\n"cases": [{"id": "deep"}]}',
]


def _read_cases(path: Path) -> Any:
    try:
        cases = CaseFile(path)
    except BadInput as error:
        return str(error).replace(str(path), "FILE")
    found = [list(cases.ids()), [cases.case(number) for number in range(len(cases))]]
    cases.close()
    cases.close()
    return found


@pytest.mark.parametrize("block", [3, 7, 1 << 18])
def test_case_files_are_read_or_refused_as_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(case_file, "_BLOCK", block)
    path = tmp_path / "cases.json"
    found = []
    for data in CASE_FILES:
        path.write_bytes(data)
        found.append({"file": data[:80].decode("latin-1"), "read": _read_cases(path)})
    check_snapshot(RECORDED / "case_files.json", found)


def test_case_files_that_are_no_files_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as none:
        CaseFile(tmp_path / "none.json")
    assert str(none.value) == (
        f"{tmp_path}/none.json: the cases cannot be read: No such file or directory"
    )


@pytest.mark.parametrize(("length", "fits"), [(39, True), (40, True), (41, False)])
def test_a_single_case_may_be_only_so_long(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    length: int,
    fits: bool,  # noqa: FBT001
) -> None:
    monkeypatch.setattr(case_file, "_MOST_IN_ONE_CASE", 40)
    path = tmp_path / "cases.json"
    path.write_bytes(b'["' + b"x" * (length - 4) + b'"]')
    expected = [[None], ["x" * (length - 4)]]
    refused = "FILE: not a file of cases, line 1 column 1: a single case of more than 256 MiB"
    assert _read_cases(path) == (expected if fits else refused)


# Definitions of cases.

DEFINITIONS = [
    None,
    5,
    {},
    {"title": "T", "input": "ask", "expected": {}},
    {"title": "", "input": {"user": "  first\nsecond"}},
    {"title": 5, "input": {"user": "u" * 130}},
    {"input": {"user": ["a", 1], "context": "c"}},
    {"input": {"user": "u", "context": ""}},
    {"input": {"user": None, "context": {"a": 1}}},
    {"input": 7},
    {"expected": "text"},
    {"expected": {"must_includes": 1, "tool_requird": 2, "k" * 120: 3, "schema": 4}},
    {
        "expected": {
            "action_required": ["a", 1],
            "evidence_required_for_actions": True,
            "tool_required": {"x": 1},
            "tool_sequence": ["a", None],
            "json_schema": {"type": "string"},
            "retrieval_required": {"doc_ids": ["d", 2]},
            "must_include": "one",
            "must_not_include": 5,
        }
    },
    {"expected": {"retrieval_required": ["d"], "evidence_required_for_actions": 1}},
    {"expected": {"action_required": 1, "tool_sequence": 2, "retrieval_required": 3}},
    {"expected": {"must_include": [None], "must_not_include": [1], "tool_required": [2]}},
    {"expected": {"must_include": 4, "retrieval_required": {"doc_ids": 4}}},
]


def test_definitions_of_cases_are_understood_as_recorded() -> None:
    found = [{"raw": each, "case": parse_case(each, "the-id")} for each in DEFINITIONS]
    check_snapshot(RECORDED / "definitions.json", found)


def test_file_names_of_case_ids_are_as_recorded() -> None:
    ids = ["a", "A b", "a~b", ".x", "..", "run", "run.x", "runs", "CON", "con", "com1.txt", "lpt9"]
    ids += [
        "",
        "ä/ö",
        "x" * 120,
        "x" * 121,
        "x" * 79 + "é" * 30,
        "x" * 78 + "é" * 30,
        "nul",
        "aux.",
        "é" * 40,
        "é" * 41,
    ]
    found = {each: [file_stem(each), file_stem(each, 1), file_stem(each, 2)] for each in ids}
    check_snapshot(RECORDED / "file_stems.json", found)


# Alignment.


def _shown(steps: list[AlignedStep]) -> list[Any]:
    return [
        [
            each.state,
            *(
                side and [side.event.index, side.result and side.result.index]
                for side in (each.baseline, each.new)
            ),
        ]
        for each in steps
    ]


def _calls(names: str) -> list[Any]:
    """A call for each letter; a capital has other arguments, and another result before a `!`."""
    events: list[Any] = []
    for place, name in enumerate(names.replace("!", "")):
        wrong = names.startswith("!")
        args = {"loud": name.isupper()}
        events.append(a_call(name.lower(), f"k{place}", START + place, **args))
        events.append(a_result({"bad": wrong}, f"k{place}", ts=START + place))
    return events


PAIRS = [
    ("abc", "abc"), ("abc", "aBc"), ("abc", "ac"), ("ac", "abc"), ("abc", "xyz"), ("", "ab"),
    ("ab", ""), ("", ""), ("abcd", "acbd"), ("aabb", "abab"), ("aAa", "Aaa"), ("aaaa", "aa"),
    ("abcabc", "cab"), ("xayaz", "aa"), ("!abc", "abc"), ("abA", "Aba"), ("abcde", "edcba"),
]  # fmt: skip


@pytest.mark.parametrize("most", [40_000, 0])
def test_steps_are_aligned_as_recorded(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(alignment, "_MOST_CELLS", most)
    found = []
    for before, after in PAIRS:
        steps = align(a_trace(*_calls(before)), a_trace(*_calls(after), output="other"))
        found.append([before, after, _shown(steps), first_divergence(steps)])
    name = "aligned" if most else "aligned_in_order"
    check_snapshot(RECORDED / f"{name}.json", found)


def test_a_table_that_is_just_small_enough_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    # After the common start, two steps (with the output) stand against three.
    before, after = a_trace(*_calls("ab")), a_trace(*_calls("acb"))
    for most, states in (
        (6, ["same", "only_new", "same", "same"]),
        (5, ["same", "only_baseline", "only_new", "only_baseline", "only_new", "only_new"]),
    ):
        monkeypatch.setattr(alignment, "_MOST_CELLS", most)
        assert [each.state for each in align(before, after)] == states


# Recorded traffic.


def _trace_line(case_id: str = "t1") -> bytes:
    said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    return json.dumps({"id": case_id, "messages": said}).encode()


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_traces_are_unpacked_block_by_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack: Callable[[bytes], bytes]
) -> None:
    monkeypatch.setattr(shards, "_BLOCK", 4)
    path = tmp_path / "traffic"
    path.write_bytes(pack(b"0123456789"))
    assert list(shards.blocks_of(path)) == [b"0123", b"4567", b"89"]
    path.write_bytes(pack(b""))
    assert list(shards.blocks_of(path)) == []


def test_files_that_only_begin_like_packed_ones_are_read_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "traffic"
    for data in (b"\x1f", b"\x1f\x8c123", b"x\x1f\x8b"):
        path.write_bytes(data)
        assert list(shards.blocks_of(path)) == [data]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (
            gzip.compress(b"x" * 99, mtime=0)[:-9],
            "Compressed file ended before the end-of-stream marker was reached",
        ),
        (
            gzip.compress(b"x" * 99, mtime=0)[:10] + b"\xff" * 30,
            "Error -3 while decompressing data: invalid block type",
        ),
        (b"\x1f\x8b\x00" + b"x" * 20, "Unknown compression method"),
    ],
    ids=["cut off", "no block", "no method"],
)
def test_broken_packed_files_are_refused_with_the_reason(
    tmp_path: Path, data: bytes, reason: str
) -> None:
    path = tmp_path / "traffic.gz"
    path.write_bytes(data)
    with pytest.raises(BadInput) as refused:
        list(shards.blocks_of(path))
    assert str(refused.value) == f"{path}: cannot be read: {reason}"
    with pytest.raises(BadInput) as missing:
        list(shards.blocks_of(tmp_path / "none"))
    assert str(missing.value) == f"{tmp_path}/none: cannot be read: No such file or directory"


def test_traces_become_a_run_directory(tmp_path: Path) -> None:
    path = tmp_path / "april.v2.jsonl"
    path.write_bytes(b'{"odd": 1}\n' + _trace_line() + b"\n[3]\n" + _trace_line("t2") + b"\n")
    run = materialize.open_traces(path, tmp_path / "work")
    listed = list(run.listed())
    found = {
        "listed": listed,
        "meta": run.meta,
        "names": sorted(each.name for each in (tmp_path / "work").iterdir()),
        "read": [run.read(each.name).value for each in listed],
        "stems": list(run.stems()),
    }
    check_snapshot(RECORDED / "materialized.json", json.loads(json.dumps(found, default=_plain)))


def _plain(value: Any) -> Any:
    return {name: getattr(value, name) for name in value.__struct_fields__}


def test_imported_records_are_written_with_their_faults(tmp_path: Path) -> None:
    records = [
        Imported("a", {"case_id": "a"}, "base", "trace", None),
        Imported("b", {"case_id": "b"}, None, None, "it is odd"),
    ]
    run = materialize.materialize(records, {"run_id": "r"}, tmp_path / "work")
    assert (tmp_path / "work" / "answers").read_bytes() == (
        b'["a","base","00000000.json"]\n["b",null,"00000001.json"]\n'
    )
    assert json.loads((tmp_path / "work" / "00000001.json").read_bytes()) == {
        "case_id": "b",
        "evalwright_import_fault": "it is odd",
    }
    assert json.loads((tmp_path / "work" / "00000000.json").read_bytes()) == {"case_id": "a"}
    assert run.meta == {"run_id": "r"}


def test_files_without_a_trace_are_refused_as_recorded(tmp_path: Path) -> None:
    path = tmp_path / "traffic.jsonl"
    found = {}
    for number, data in enumerate([b"", b"\n\n", b'{"odd": 1}\n{"odd": 2}', b"not json"]):
        path.write_bytes(data)
        with pytest.raises(BadInput) as refused:
            materialize.open_traces(path, tmp_path / f"work-{number}")
        found[data.decode()] = str(refused.value).replace(str(path), "FILE")
    check_snapshot(RECORDED / "refused_traces.json", found)


# The sides as they are named.


def _no_log() -> Any:
    raise RunNotFound("no run has been recorded here")


def _refused(folder: Path, named: str) -> str:
    work = folder / "work"
    with pytest.raises(BadInput) as refused:
        open_inputs(BothSides(named, named), None, _no_log, work)
    return str(refused.value).replace(str(folder), "FOLDER")


def test_sides_that_are_no_runs_are_refused_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    pair = Pair(tmp_path / "pair")
    pair.save()
    assert _refused(tmp_path, str(tmp_path / "empty")) == (
        "FOLDER/empty: not a run directory: no run.json and no response in it"
    )
    assert _refused(tmp_path, str(pair.folder)) == (
        "FOLDER/pair: not a run directory: no run.json and no response in it; "
        "did you mean FOLDER/pair/baseline?"
    )
    nothing = "no such run directory or file of traces"
    assert _refused(tmp_path, "none.jsonl") == f"none.jsonl: {nothing}"
    assert _refused(tmp_path, "not/here") == f"not/here: {nothing}"
    assert _refused(tmp_path, "x" * 5000) == f"{'x' * 5000}: cannot be read: File name too long"


def test_cases_are_found_above_a_run_but_not_too_high(tmp_path: Path) -> None:
    folder = tmp_path.joinpath(*"0123456789", "run")
    folder.mkdir(parents=True)
    (folder / "run.json").write_text('{"cases_path": "cases-x.json"}')
    run = RunFolder(folder)
    assert find_cases(run) is None
    too_high = folder.parents[8]
    for high in (too_high, folder.parents[7], folder.parents[0], folder):
        (high / "cases").mkdir()
        (high / "cases" / "cases.json").write_text("[]")
        assert find_cases(run) == (None if high == too_high else high / "cases" / "cases.json")
        (high / "cases.json").write_text("[]")
        assert find_cases(run) == (None if high == too_high else high / "cases.json")
        (high / "cases-x.json").write_text("[]")
        assert find_cases(run) == (None if high == too_high else high / "cases-x.json")


@pytest.mark.parametrize(
    "name",
    [
        "other.json",
        "cases.txt",
        "../cases.json",
        "/cases.json",
        ".x/cases.json",
        "",
        "cases\0.json",
    ],
    ids=["other", "text", "above", "root", "hidden", "empty", "nul"],
)
def test_a_run_names_only_a_case_file_below(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "runs" / "run"
    folder.mkdir(parents=True)
    (tmp_path / "cases.json").write_text("[]")
    (folder / "run.json").write_text(json.dumps({"cases_path": name}))
    for each in ("other.json", "cases.txt"):
        (folder / each).write_text("[]")
    assert find_cases(RunFolder(folder)) == tmp_path / "cases.json"


def test_linked_cases_are_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "elsewhere.json").write_text("[]")
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "cases.json").symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(BadInput) as refused:
        find_cases(RunFolder(folder))
    assert str(refused.value) == (
        f"{folder}/cases.json: a link or a device, not a file in its folder; name a file with cases"
    )


def test_captures_are_found_in_the_run_and_above_it(tmp_path: Path) -> None:
    folder = tmp_path / "top" / "runs" / "run"
    for part in (
        folder / "sub",
        tmp_path / "top" / "_runner_failures",
        tmp_path / "_runner_failures",
    ):
        part.mkdir(parents=True)
        (part / "body").write_text(str(part.relative_to(tmp_path)))
    (tmp_path / "top" / "secret").write_text("secret")
    run = RunFolder(folder)
    run.top = tmp_path / "top"
    read = {
        name: each.reason if isinstance(each := run.captured(name), Unreadable) else each.decode()
        for name in (
            "sub/body",
            "_runner_failures/body",
            "secret",
            "none",
            "a\0b",
            "../../../_runner_failures/body",
        )
    }
    assert read == {
        "sub/body": "top/runs/run/sub",
        "_runner_failures/body": "top/_runner_failures",
        "secret": "it is outside the run directory and its captures",
        "none": "it was not found",
        "a\0b": "its name contains a NUL character",
        "../../../_runner_failures/body": "it is outside the run directory and its captures",
    }


# All together.


def test_a_mean_stays_exact_when_few_numbers_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evalwright.comparison.summary._MOST_HELD", 3)
    mean = Mean()
    mean.add([1e16, 1.0, -1e16])
    assert mean.parts == [1e16, 1.0, -1e16]
    mean.add([1e-3])
    assert (mean.count, len(mean.parts) <= 3, mean.value()) == (4, True, 1.001 / 4)
    mean.add([5.0], 6)
    assert (mean.count, mean.value()) == (10, 6.001 / 10)
    assert Mean().parts == []

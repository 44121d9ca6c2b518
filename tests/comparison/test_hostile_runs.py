"""Damaged and hostile runs: there is a report all the same, and it names the fault."""

import errno
import itertools
import json
import os
import resource
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from comparing import (
    Pair,
    a_call,
    a_case,
    a_failure,
    a_response,
    a_result,
    an_action,
    files_of,
    items_of,
)
from effort import grows_at_most
from evalwright.contracts.errors import BadInput, CannotEvaluate
from reported import document_of, names_in, report_of, write
from subjects.command import Evalwright

SECRET = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
PRIVATE = "nobody but the owner may read this"


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    pair = Pair(tmp_path / "runs")
    pair.add(a_case("well"), a_response(case_id="well"), a_response(case_id="well"))
    return pair


def the_item(pair: Pair, case_id: str = "one"):
    """The item of a case, in a report where the other case is as well as ever."""
    items = items_of(report_of(pair))
    assert items["well"]["new_pass"] is True
    return items[case_id]


def with_value(value: str, place: str = "payload") -> bytes:
    """A response that holds some JSON text, which need not be JSON at all."""
    shapes = {
        "payload": a_response(a_call(), a_result("@")),
        "args": a_response(a_call(deep="@"), a_result()),
        "output": a_response(output="@"),
    }
    return json.dumps(shapes[place]).replace('"@"', value).encode()


# Responses that are no responses.


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not valid JSON"),
        (b'{"case_id": "one", "events": [', "not valid JSON"),
        (b"[]", "not a JSON object"),
        (b"null", "not a JSON object"),
        (b"[" * 100_000, "nested too deeply"),
        (with_value("NaN"), "not valid JSON"),
        (with_value("1e999"), "not valid JSON"),
        (with_value("1" * 5000), "not valid JSON"),
        (with_value('"\\ud800"'), "not valid JSON"),
        (with_value('"@"').replace(b"@", b"\xff"), "not valid JSON"),
        (json.dumps(a_response()).encode("utf-16"), "not valid JSON"),
    ],
    ids=lambda value: repr(value[:24]),
)
def test_an_unusable_response_fails_its_case_and_names_the_fault(
    pair: Pair, data: bytes, reason: str
) -> None:
    pair.add(a_case("one"), a_response(), data)
    item = the_item(pair)
    assert item["new_pass"] is False
    assert item["new_root"] == "missing_required_data"
    assert item["trace_integrity"]["new"]["status"] == "broken"
    assert any(fault.startswith("new: ") and reason in fault for fault in item["faults"])


def test_a_response_with_a_byte_order_mark_is_read(pair: Pair) -> None:
    pair.add(a_case("one"), a_response(), b"\xef\xbb\xbf" + json.dumps(a_response()).encode())
    assert the_item(pair)["change"] == "still_passing"


@pytest.mark.parametrize("place", ["payload", "args", "output"])
@pytest.mark.parametrize("depth", [100, 199, 201, 450, 800, 900])
def test_a_deeply_nested_value_is_compared_or_named_but_never_fatal(
    pair: Pair, depth: int, place: str
) -> None:
    secret = json.dumps(SECRET)
    before, after = ("[" * depth + value + "]" * depth for value in ("1", secret))
    case = a_case("one", json_schema={"type": "string"}, must_include=["hello"])
    pair.add(case, with_value(before, place), with_value(after, place))
    assert the_item(pair)["new_pass"] is False
    assert not any(SECRET.encode() in data for data in files_of(report_of(pair)).values())


@pytest.mark.parametrize("number", ["1" * 400, "-" + "9" * 30, "1e308", "4111111111111111"])
@pytest.mark.parametrize("field", ["ts", "call_id", "tool", "status", "latency_ms", "type"])
def test_numbers_of_any_size_are_taken_wherever_they_stand(
    pair: Pair, field: str, number: str
) -> None:
    result = {**a_result(), field: "@"}
    text = json.dumps(a_response(a_call(), result)).replace('"@"', number)
    pair.add(a_case("one"), a_response(), text.encode())
    assert the_item(pair)["trace_integrity"]["new"]["status"] in ("ok", "partial", "broken")


def test_a_duration_that_looks_like_a_card_stays_a_number(pair: Pair) -> None:
    usage = {"duration_ms": 4111111111111111, "cost_usd": 4111111111111111}
    leak = a_response(output=SECRET, usage=usage)
    pair.add(a_case("one"), a_response(usage=usage), leak)
    assert the_item(pair)["latency_ms"]["new"] == 4111111111111111


@pytest.mark.parametrize(
    "events", [None, 5, "x", {}, [None], [1, "x", [], True], [{}], [{"type": ["tool_call"]}]]
)
def test_events_of_wrong_types_are_an_integrity_issue(pair: Pair, events: object) -> None:
    pair.add(a_case("one"), a_response(), {**a_response(), "events": events})
    assert the_item(pair)["trace_integrity"]["new"]["issues"]


def test_actions_that_are_each_others_evidence_prove_nothing(pair: Pair) -> None:
    def proved_by(action_id: str, own: str):
        ref = {"kind": "tool_result", "call_id": action_id, "id": action_id}
        return an_action(action_id=own, evidence=[ref])

    actions = [proved_by("a2", "a1"), proved_by("a1", "a2"), proved_by("a3", "a3")]
    case = a_case("one", evidence_required_for_actions=True)
    pair.add(case, a_response(), a_response(actions=actions))
    item = the_item(pair)
    assert "evidence_ref_missing_target" in item["trace_integrity"]["new"]["issues"]
    assert item["failed_assertions"]["new"][0]["actual"] == ["a1", "a2", "a3"]


# Files that are no files.


def a_folder(path: Path) -> None:
    path.mkdir()


def a_link_to_itself(path: Path) -> None:
    path.symlink_to(path.name)


def a_link_to_nothing(path: Path) -> None:
    path.symlink_to("nothing-here")


def a_link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def a_link_to_a_pipe(path: Path) -> None:
    os.mkfifo(path.with_name("pipe"))
    path.symlink_to("pipe")


def a_link_to_a_private_file(path: Path) -> None:
    private = path.parent.parent.parent / "private.json"
    private.write_text(json.dumps(a_response(output=PRIVATE)))
    path.symlink_to(private)


SPECIAL: list[Callable[[Path], None]] = [
    a_folder,
    os.mkfifo,
    a_link_to_itself,
    a_link_to_nothing,
    a_link_to_a_device,
    a_link_to_a_pipe,
    a_link_to_a_private_file,
]


@pytest.mark.parametrize("case_id", ["one", "extra"])
@pytest.mark.parametrize("make", SPECIAL)
def test_what_is_no_file_of_the_run_is_not_read_and_not_dropped(
    pair: Pair, make: Callable[[Path], None], case_id: str
) -> None:
    pair.add(a_case("one"), a_response())
    make(pair.new / f"{case_id}.json")
    report = report_of(pair)
    item = items_of(report)[case_id]
    assert item["new_pass"] is False
    assert any("the response is not used" in fault for fault in item["faults"])
    for name, data in files_of(report).items():
        assert PRIVATE.encode() not in data, name
        assert str(pair.folder.parent).encode() not in data, name


@pytest.mark.parametrize("make", SPECIAL)
def test_a_run_description_that_is_no_file_is_done_without(
    pair: Pair, make: Callable[[Path], None]
) -> None:
    (pair.new / "run.json").unlink()
    make(pair.new / "run.json")
    report = report_of(pair)
    assert any("run.json" in note for note in document_of(report)["notes"])
    assert not any(PRIVATE.encode() in data for data in files_of(report).values())


@pytest.mark.parametrize(
    "meta",
    [
        [],
        "text",
        {"run_id": 5, "selected_case_ids": "well", "provenance": [], "runner": "x"},
        {"run_id": None, "selected_case_ids": [None, 1, "", "well"], "cases_path": 5},
        {"cases_path": "x" * 5000},
        {"cases_path": "a\0b"},
        {"provenance": {"model": ["m"], "agent_version": 1}, "model_params": {"t": 10**30}},
    ],
    ids=repr,
)
def test_a_run_description_of_wrong_types_is_survived(pair: Pair, meta: object) -> None:
    pair.write(pair.new, "run", meta)
    assert items_of(report_of(pair))["well"]["new_pass"] is True


@pytest.mark.parametrize("make", SPECIAL)
def test_a_captured_body_that_is_no_file_of_the_run_is_missing(
    pair: Pair, make: Callable[[Path], None]
) -> None:
    make(pair.new / "body.bin")
    failure = a_failure(full_body_saved_to="body.bin", full_body_meta_saved_to="x" * 5000)
    pair.add(a_case("one"), a_response(), failure)
    report = report_of(pair)
    flags = document_of(report)["quality_flags"]
    assert (flags["self_contained"], flags["missing_assets_count"]) == (False, 2)
    assert not any(PRIVATE.encode() in data for data in files_of(report).values())


def test_file_names_that_are_no_text_still_name_their_case(pair: Pair) -> None:
    name = os.fsencode(pair.new) + b"/odd\xff.json"
    Path(os.fsdecode(name)).write_bytes(b"{")
    item = items_of(report_of(pair))["odd\ufffd"]
    assert "not valid JSON" in " ".join(item["faults"])


def test_a_response_that_may_not_be_read_is_named(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.add(a_case("one"), a_response(), a_response())
    really_open = os.open

    def refuse(path, *more, **options):
        if str(path).endswith("runs/new/one.json"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return really_open(path, *more, **options)

    monkeypatch.setattr(os, "open", refuse)
    assert "Permission denied" in " ".join(the_item(pair)["faults"])


# Cases.


def test_a_number_without_end_spoils_one_case_only(pair: Pair) -> None:
    pair.add(a_case("one"), a_response(), a_response())
    path = pair.folder / "cases.json"
    path.write_text(path.read_text().replace('"Case one"', "1" * 5000))
    assert any("nothing is expected of it" in fault for fault in the_item(pair)["faults"])


@pytest.mark.parametrize("after", ["garbage", "]", "[]", '{"id": "two"}'])
def test_what_stands_after_the_cases_is_not_passed_over(pair: Pair, after: str) -> None:
    path = pair.folder / "cases.json"
    path.write_text(path.read_text() + after)
    with pytest.raises(BadInput, match=r"cases\.json.*after the cases"):
        report_of(pair)


@pytest.mark.parametrize("more", ['"version": 2, ', ""])
def test_a_wrapper_around_the_cases_is_looked_through(pair: Pair, more: str) -> None:
    path = pair.folder / "cases.json"
    path.write_text(f'{{{more}"cases": {path.read_text()}, "owner": "me"}}')
    assert items_of(report_of(pair))["well"]["title"] == "Case well"


@pytest.mark.parametrize("make", SPECIAL)
def test_cases_that_are_no_file_of_their_folder_are_refused(
    pair: Pair, make: Callable[[Path], None]
) -> None:
    (pair.folder / "cases.json").unlink()
    make(pair.folder / "cases.json")
    with pytest.raises(BadInput, match=r"cases\.json"):
        report_of(pair)
    assert "report" not in names_in(pair.folder.parent)


@pytest.mark.parametrize(
    "told", [".config/tokens.json", "../private.json", "linked/tokens.json", "/etc/hosts"]
)
def test_a_run_cannot_name_private_files_as_its_cases(pair: Pair, told: str) -> None:
    home = pair.folder.parent
    for place in (home / ".config", home / "elsewhere"):
        place.mkdir()
        (place / "tokens.json").write_text(json.dumps([{"id": "well", "title": PRIVATE}]))
    (home / "private.json").write_text(json.dumps([{"id": "well", "title": PRIVATE}]))
    (pair.folder / "linked").symlink_to(home / "elsewhere")
    pair.write(pair.new, "run", {"run_id": "r", "cases_path": told})
    report = report_of(pair)
    assert items_of(report)["well"]["title"] == "Case well"
    assert not any(PRIVATE.encode() in data for data in files_of(report).values())


@pytest.mark.parametrize(
    "schema",
    [
        5,
        "text",
        [],
        {"type": "nothing"},
        {"pattern": "["},
        {"$schema": 5},
        {"$ref": "#/nowhere"},
        {"$ref": {}},
        {"$ref": "file:///etc/passwd"},
    ],
    ids=repr,
)
def test_an_invalid_schema_is_the_case_authors_fault_and_says_so(
    pair: Pair, schema: object
) -> None:
    pair.add(a_case("one", json_schema=schema), a_response(), a_response())
    failed = the_item(pair)["failed_assertions"]["new"]
    assert [each["name"] for each in failed] == ["case_schema"]
    assert failed[0]["expected"] == "a JSON Schema that can be checked"


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "@/schema.json"},
        {"allOf": [{"$ref": "@/schema.json#/x"}]},
        {"$id": "@/", "$ref": "other.json"},
        {"$id": "@/", "properties": {"a": {"$dynamicRef": "other"}}},
        {"$schema": "@/meta.json", "type": "string"},
        {"$id": "@/root.json", "$ref": "#/missing"},
    ],
    ids=json.dumps,
)
def test_no_schema_reaches_the_network(pair: Pair, schema: object) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        told = json.loads(json.dumps(schema).replace("@", address))
        pair.add(a_case("one", json_schema=told), a_response(), a_response())
        assert the_item(pair)["new_pass"] is False
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


# Time.

#: What an agent answered, and what the user had asked.
Response = tuple[dict, str]


def grows_in_proportion(tmp_path: Path, small: Response, large: Response) -> bool:
    """Eight times the content may cost 24 times the work; were it squared, it would be 64."""
    pairs = {}
    for size, (response, user) in ((1, small), (8, large)):
        pairs[size] = Pair(tmp_path / f"{size}")
        case = a_case("one", user=user, evidence_required_for_actions=True)
        pairs[size].add(case, {**response, "version": "old"}, response)
    numbers = itertools.count()

    def work(size: int) -> None:
        write(pairs[size], tmp_path / f"report-{next(numbers)}")

    return grows_at_most(24, work, small=1, large=8, floor=0.5)


def a_long_text(pattern: str, length: int) -> Response:
    text = (pattern * (length // len(pattern) + 1))[:length]
    events = (a_call("send_email", to=text[:200], body=text), a_result(text))
    return a_response(*events, output=text), text


@pytest.mark.parametrize(
    "pattern",
    ["a", "a@", ".", "[", "1", "1.", " ", "\\", '"', "http://", "password: ", "eyJ", "a. ", "é"],
)
def test_text_made_to_be_slow_takes_time_in_proportion(tmp_path: Path, pattern: str) -> None:
    small, large = a_long_text(pattern, 8_000), a_long_text(pattern, 64_000)
    assert grows_in_proportion(tmp_path, small, large)


def a_busy_response(steps: int) -> dict:
    events = []
    for number in range(steps):
        events += [a_call(call_id=f"c{number}", n=number), a_result(call_id=f"c{number}")]
    actions = [
        an_action(action_id=f"a{number}", evidence=[{"kind": "retrieval_doc", "id": f"d{number}"}])
        for number in range(steps)
    ]
    return a_response(*events, actions=actions)


def test_thousands_of_events_and_actions_take_time_in_proportion(tmp_path: Path) -> None:
    small, large = (a_busy_response(250), ""), (a_busy_response(2_000), "")
    assert grows_in_proportion(tmp_path, small, large)


# The place for the report.


def a_name_that_is_too_long(folder: Path) -> Path:
    return folder / ("x" * 300)


def a_link_in_a_circle(folder: Path) -> Path:
    (folder / "circle").symlink_to("circle")
    return folder / "circle"


def a_place_below_a_file(folder: Path) -> Path:
    (folder / "file").write_text("mine")
    return folder / "file" / "report"


def a_file(folder: Path) -> Path:
    (folder / "thesis.txt").write_text("mine")
    return folder / "thesis.txt"


@pytest.mark.parametrize(
    "place",
    [
        a_name_that_is_too_long,
        a_link_in_a_circle,
        a_place_below_a_file,
        a_file,
    ],
)
def test_a_place_that_cannot_hold_a_report_is_refused(
    pair: Pair, tmp_path: Path, place: Callable[[Path], Path]
) -> None:
    out = place(tmp_path)
    before = files_of(tmp_path)
    with pytest.raises(BadInput):
        write(pair, out)
    assert files_of(tmp_path) == before


def test_a_link_to_a_folder_is_followed_and_stays_a_link(pair: Pair, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    write(pair, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "folder" / "report.html").is_file()


def test_a_file_that_the_user_named_is_not_replaced_by_the_report(
    pair: Pair, tmp_path: Path
) -> None:
    write(pair, tmp_path / "report")
    mine = tmp_path / "report" / "assets" / "suppressions.json"
    mine.write_text("{}")
    with pytest.raises(BadInput, match="inputs are never written to"):
        write(pair, tmp_path / "report", sources=(mine,))
    assert mine.exists()


def test_a_full_disk_leaves_the_old_report_and_nothing_else(pair: Pair, tmp_path: Path) -> None:
    write(pair, tmp_path / "report")
    before = files_of(tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, limits[1]))
    try:
        with pytest.raises(CannotEvaluate, match="the report cannot be written"):
            write(pair, tmp_path / "report")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert files_of(tmp_path) == before


# The command itself.


def compare(evalwright: Evalwright, *more: str, baseline: str = "runs/baseline", **options):
    sides = ("--baseline", baseline, "--new", "runs/new")
    done = evalwright("compare", *sides, "--out", "report", *more, **options)
    assert "Traceback" not in done.err
    return done


@pytest.mark.parametrize("place", ["runs/cases.json", "runs/new/well.json", "runs/new/junit.xml"])
def test_no_other_form_is_written_over_or_into_the_inputs(
    evalwright: Evalwright, pair: Pair, place: str
) -> None:
    before = files_of(evalwright.folder)
    done = compare(evalwright, "--junit", place)
    assert done.code == 2
    assert "inputs are never written to" in done.err
    assert files_of(evalwright.folder) == before


def test_a_side_with_a_name_that_is_too_long_is_bad_input(
    evalwright: Evalwright, pair: Pair
) -> None:
    done = compare(evalwright, baseline="x" * 300)
    assert done.code == 2
    assert "File name too long" in done.err


def test_a_report_id_that_is_no_text_is_made_one(evalwright: Evalwright, pair: Pair) -> None:
    compare(evalwright, "--report-id", os.fsdecode(b"a\xffb"))
    assert document_of(evalwright.folder / "report")["report_id"] == "a\ufffdb"


def test_cases_from_a_pipe_are_refused_in_words(evalwright: Evalwright, pair: Pair) -> None:
    reader, writer = os.pipe()
    try:
        done = compare(evalwright, "--cases", f"/dev/fd/{reader}", pass_fds=(reader,))
    finally:
        os.close(reader)
        os.close(writer)
    assert done.code == 2
    assert "not a pipe" in done.err


def test_no_room_to_unpack_traces_is_no_fault_of_the_input(
    evalwright: Evalwright, pair: Pair, tmp_path: Path
) -> None:
    traces = tmp_path / "traces.jsonl"
    traces.write_text(json.dumps(a_response(output="x" * 10_000)))
    done = compare(
        evalwright,
        baseline="traces.jsonl",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, 2_000)),
    )
    assert done.code == 3
    assert "cannot write temporary files: File too large" in done.err
    assert set(names_in(tmp_path)) == {"runs", "traces.jsonl"}

"""`evalwright compare`: the folder, the verdict, the exit code."""

import json
import shutil
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
from subjects.command import Evalwright, subject

KINDLY = {"must_not_include": ["never"]}
SECRET = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path / "runs")


def compare(evalwright: Evalwright, *more: str, out: str = "report"):
    sides = ("--baseline", "runs/baseline", "--new", "runs/new")
    return evalwright("compare", *sides, "--out", out, *more)


def a_regression(pair: Pair, case_id: str = "worse") -> None:
    pair.add(
        a_case(case_id, tool_required=["look_up"]),
        a_response(case_id=case_id),
        a_response(a_call("guess"), a_result(), case_id=case_id),
    )


# The verdict and the exit code.


def test_two_equal_runs_pass(evalwright: Evalwright, pair: Pair) -> None:
    pair.add(a_case("one", **KINDLY), a_response(), a_response())
    done = compare(evalwright)
    assert done.code == 0, done.err
    assert "Nothing blocks shipping" in done.flat
    assert items_of(evalwright.folder / "report")["one"]["change"] == "still_passing"


def test_a_run_that_fails_as_before_is_not_called_fit_to_ship(
    evalwright: Evalwright, pair: Pair
) -> None:
    failing = a_case("one", tool_required=["look_up"])
    pair.add(failing, *[a_response(a_call("guess"), a_result()) for _ in range(2)])
    done = compare(evalwright)
    assert done.code == 0, "nothing got worse"
    assert "blocks shipping" not in done.out
    assert "No regression: no case got worse or asks for a gate, 1 case fails" in done.flat


@pytest.mark.parametrize(
    ("fail_on", "code"), [(None, 1), ("any", 1), ("regression", 1), ("gate", 0), ("none", 0)]
)
def test_a_regression_fails_unless_it_is_not_asked_for(
    evalwright: Evalwright, pair: Pair, fail_on: str | None, code: int
) -> None:
    a_regression(pair)
    asked = ("--fail-on", fail_on) if fail_on else ()
    done = compare(evalwright, *asked)
    assert done.code == code
    assert "1 case got worse" in done.flat
    item = items_of(evalwright.folder / "report")["worse"]
    assert item["new_root"] == "wrong_tool_choice"
    assert item["preventable_by_policy"] is True
    assert item["recommended_policy_rules"] == ["Rule1"]
    assert item["failed_assertions"]["new"][0]["expected"] == ["look_up"]
    assert item["failed_assertions"]["new"][0]["actual"] == ["guess"]
    assert "baseline_root" not in item


def test_at_most_five_cases_are_shown_with_their_cause_and_where_the_runs_part(
    evalwright: Evalwright, pair: Pair
) -> None:
    for number in range(7):
        a_regression(pair, f"case-{number}")
    done = compare(evalwright)
    lines = done.out.splitlines()
    assert lines[0].startswith("FAILED ■ Do not ship yet: 7 cases got worse")
    assert (
        done.out.count("Wrong tool choice")
        == done.out.count("baseline has this step: look_up")
        == 5
    )
    assert "    and 2 more" in lines
    assert lines[-1] == "exit 1: may not ship"
    assert max(map(len, lines)) <= 80
    assert "\N{MINUS SIGN}100.0 points" in done.out


def test_a_leaked_secret_beside_a_high_risk_action_asks_for_a_gate(
    evalwright: Evalwright, pair: Pair
) -> None:
    actions = [an_action("wipe", risk_level="high")]
    leak = a_response(output=f"Use {SECRET} to log in", actions=actions)
    pair.add(a_case("one"), a_response(), leak)
    done = compare(evalwright, "--fail-on", "gate")
    assert done.code == 1
    assert items_of(evalwright.folder / "report")["one"]["security"]["new"][
        "requires_gate_recommendation"
    ]
    assert items_of(evalwright.folder / "report")["one"]["governance_preview"]["new"][
        "recommendation"
    ] in ("block", "require_approval")


def test_an_error_on_both_sides_is_no_pass(evalwright: Evalwright, pair: Pair) -> None:
    pair.add(a_case("one", **KINDLY), a_failure(), a_failure())
    done = compare(evalwright)
    assert done.code == 1
    assert "1 case has no answer" in done.flat
    item = items_of(evalwright.folder / "report")["one"]
    assert (item["baseline_pass"], item["new_pass"]) == (False, False)


def test_json_is_alone_on_stdout(evalwright: Evalwright, pair: Pair) -> None:
    a_regression(pair)
    printed = compare(evalwright, "--json").json()
    assert set(printed) == {"summary", "quality_flags"}
    assert printed["summary"]["regressions"] == 1
    assert printed["quality_flags"]["self_contained"] is True


# Every case of either side appears.


def test_missing_unreadable_and_extra_responses_all_appear(
    evalwright: Evalwright, pair: Pair
) -> None:
    pair.add(a_case("missing", **KINDLY), a_response(case_id="missing"))
    pair.add(a_case("cut"), a_response(case_id="cut"), b'{"case_id": "cut", "events": [')
    pair.add(a_case("never"))
    pair.write(pair.new, "extra", a_response(case_id="extra"))
    assert compare(evalwright).code == 1
    items = items_of(evalwright.folder / "report")
    assert set(items) == {"missing", "cut", "never", "extra"}
    for case_id in ("missing", "cut", "never"):
        assert items[case_id]["new_pass"] is False
        assert items[case_id]["new_root"] == "missing_required_data"
        assert items[case_id]["trace_integrity"]["new"]["status"] == "broken"
        assert any(fault.startswith("new: ") for fault in items[case_id]["faults"])
    assert "not valid JSON" in " ".join(items["cut"]["faults"])
    assert items["extra"]["new_pass"] is True
    kept = evalwright.folder / "report" / items["cut"]["artifacts"]["new_case_response_href"]
    assert kept.read_bytes() == b'{"case_id": "cut", "events": ['


@pytest.mark.parametrize(
    "case_id",
    ["../../escape", "a/b", "a%20b", "a#b?c", "x" * 300, "NUL\0byte", "run", "é ü", "CASE"],
)
def test_hostile_ids_are_compared_and_stay_in_the_report(
    evalwright: Evalwright, pair: Pair, case_id: str
) -> None:
    pair.cases = [a_case(case_id, **KINDLY), a_case("case")]
    pair.save()
    for side in (pair.baseline, pair.new):
        pair.write(side, "hostile", a_response(case_id=case_id))
        pair.write(side, "case", a_response(case_id="case"))
    before = files_of(evalwright.folder)
    done = compare(evalwright)
    assert done.code == 0, done.err
    items = items_of(evalwright.folder / "report")
    assert set(items) == {case_id, "case"}
    page = evalwright.folder / "report" / items[case_id]["artifacts"]["replay_diff_href"]
    assert page.parent == evalwright.folder / "report"
    assert page.is_file()
    outside = {
        name: data
        for name, data in files_of(evalwright.folder).items()
        if not name.startswith("report/")
    }
    assert outside == before


def test_an_id_that_stands_twice_is_reported_twice_with_the_fault(
    evalwright: Evalwright, pair: Pair
) -> None:
    pair.add(a_case("one", **KINDLY), a_response(), a_response())
    pair.cases.append(a_case("one", **KINDLY))
    pair.save()
    assert compare(evalwright).code == 0
    document = json.loads((evalwright.folder / "report/compare-report.json").read_text())
    assert [item["case_id"] for item in document["items"]] == ["one", "one"]
    assert "used 2 times" in document["items"][1]["faults"][0]
    pages = {item["artifacts"]["replay_diff_href"] for item in document["items"]}
    assert len(pages) == 2


# The folder.


def test_inputs_are_never_written_to(evalwright: Evalwright, pair: Pair) -> None:
    a_regression(pair)
    before = files_of(pair.folder)
    compare(evalwright)
    assert files_of(pair.folder) == before


def test_the_same_input_gives_the_same_bytes(evalwright: Evalwright, pair: Pair) -> None:
    a_regression(pair)
    pair.add(a_case("leak"), a_response(), a_response(output=f"key {SECRET}"))
    compare(evalwright, out="a")
    compare(evalwright, out="b")
    assert files_of(evalwright.folder / "a") == files_of(evalwright.folder / "b")


def test_the_report_is_valid_and_stays_so_when_it_is_moved(
    evalwright: Evalwright, pair: Pair, tmp_path: Path
) -> None:
    a_regression(pair)
    capture = pair.folder / "_runner_failures" / "f.body.bin"
    capture.parent.mkdir()
    capture.write_bytes(b"upstream \xff error")
    failure = a_failure(full_body_saved_to="_runner_failures/f.body.bin", case_id="lost")
    pair.add(a_case("lost"), a_response(case_id="lost"), failure)
    compare(evalwright)
    shutil.move(tmp_path / "report", tmp_path / "elsewhere")
    shutil.rmtree(pair.folder)
    checked = evalwright("validate", "elsewhere")
    assert checked.code == 0, checked.err
    assert "valid compare report with 2 items" in checked.out
    body = items_of(tmp_path / "elsewhere")["lost"]["artifacts"]["new_failure_body_href"]
    assert (tmp_path / "elsewhere" / body).read_bytes() == b"upstream \xff error"


def test_no_path_of_this_machine_is_in_the_report(evalwright: Evalwright, pair: Pair) -> None:
    a_regression(pair)
    pair.write(pair.new, "broken", b"{")
    compare(evalwright)
    for name, data in files_of(evalwright.folder / "report").items():
        assert str(evalwright.folder).encode() not in data, name


def test_a_report_replaces_a_report_but_nothing_else(evalwright: Evalwright, pair: Pair) -> None:
    a_regression(pair)
    compare(evalwright)
    stale = evalwright.folder / "report" / "case-gone.html"
    stale.write_text("old")
    assert compare(evalwright).code == 1
    assert not stale.exists()
    notes = evalwright.folder / "report" / "my-notes.txt"
    notes.write_text("mine")
    refused = compare(evalwright)
    assert refused.code == 2
    assert "for example 'my-notes.txt'" in refused.err
    assert notes.read_text() == "mine"
    other = evalwright.folder / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("mine")
    refused = compare(evalwright, out="other")
    assert refused.code == 2
    assert "holds other files" in refused.err
    assert (other / "thesis.txt").read_text() == "mine"


@pytest.mark.parametrize("out", ["runs", "runs/new", "runs/new/report"])
def test_a_report_is_never_written_over_or_into_the_inputs(
    evalwright: Evalwright, pair: Pair, out: str
) -> None:
    a_regression(pair)
    before = files_of(pair.folder)
    assert compare(evalwright, out=out).code == 2
    assert files_of(pair.folder) == before


def test_a_captured_body_outside_the_run_is_not_taken_into_the_report(
    evalwright: Evalwright, pair: Pair, tmp_path: Path
) -> None:
    private = tmp_path / "id_rsa"
    private.write_text("the private key of the person who compares")
    for number, reference in enumerate([str(private), "../../id_rsa", "javascript:alert(1)"]):
        case_id = f"steal{number}"
        failure = a_failure(full_body_saved_to=reference, case_id=case_id)
        pair.add(a_case(case_id), a_response(case_id=case_id), failure)
    compare(evalwright)
    report = evalwright.folder / "report"
    assert not any(b"the private key" in data for data in files_of(report).values())
    document = json.loads((report / "compare-report.json").read_text())
    assert document["quality_flags"]["self_contained"] is False
    assert document["quality_flags"]["missing_assets_count"] == 3
    assert evalwright("validate", "report").code == 0


# Secrets.


def test_secrets_and_personal_data_are_masked_everywhere(
    evalwright: Evalwright, pair: Pair
) -> None:
    mail = "jane.roe" + "@" + "mail-provider.com"
    response = a_response(
        a_call(to=mail, token=SECRET), a_result({"seen": SECRET}), output=f"Sent {SECRET} to {mail}"
    )
    pair.add(a_case("one", user=f"my key is {SECRET}"), a_response(), response)
    pair.write(pair.new, "run", {"run_id": "new", "note": SECRET})
    compare(evalwright, "--sarif", "s.sarif", "--markdown", "m.md", "--junit", "j.xml")
    written = files_of(evalwright.folder / "report")
    written |= {
        name: (evalwright.folder / name).read_bytes() for name in ("s.sarif", "m.md", "j.xml")
    }
    for name, data in written.items():
        assert SECRET.encode() not in data, name
        assert mail.encode() not in data, name
    assert items_of(evalwright.folder / "report")["one"]["security"]["new"]["signals"]


@pytest.mark.parametrize(
    ("strategy", "expected", "output"),
    [
        ("exact", f"key {SECRET[:12]} it is", f"key {SECRET} it is"),
        ("exact", "none", f"{'w' * 65} {SECRET}"),
        ("contains", "none", f"{'w' * 65} {SECRET}"),
        ("json-match", {"password": "none"}, {"password": SECRET[4:]}),
    ],
)
def test_no_part_of_a_secret_is_quoted_where_an_output_differs(
    evalwright: Evalwright, pair: Pair, strategy: str, expected: object, output: object
) -> None:
    scored = {"score": 0.0, "passed": False, "strategy": strategy, "expected": expected}
    pair.add(a_case("one"), a_response(), a_response(output=output, scored=scored))
    compare(evalwright, "--markdown", "m.md", "--junit", "j.xml")
    (failure,) = items_of(evalwright.folder / "report")["one"]["failed_assertions"]["new"]
    assert failure["message"].startswith("the recorded score is 0.0: ")
    assert "[masked:" in failure["message"]
    written = files_of(evalwright.folder / "report")
    written |= {name: (evalwright.folder / name).read_bytes() for name in ("m.md", "j.xml")}
    for name, data in written.items():
        assert SECRET[16:28].encode() not in data, name
        assert b"w ghp_" not in data, name


def test_secrets_are_shown_only_when_asked_with_a_banner(
    evalwright: Evalwright, pair: Pair
) -> None:
    pair.add(a_case("one"), a_response(), a_response(output=f"key {SECRET}"))
    done = compare(evalwright, "--show-secrets")
    assert "NOT masked" in done.err
    report = evalwright.folder / "report"
    assert SECRET in (report / "new/one.json").read_text()
    assert "Secrets are shown" in (report / "report.html").read_text()


# Inputs of other kinds.


def test_own_runs_are_compared_by_their_ids(evalwright: Evalwright) -> None:
    evalwright("run", evalwright.suite(), "--agent", subject("answers.py:yes"))
    evalwright("run", "suite.json", "--agent", subject("answers.py:no"))
    first, second = (run["runId"] for run in reversed(evalwright("runs", "--json").json()))
    done = evalwright("compare", "--baseline", first, "--new", "latest", "--out", "report")
    assert done.code == 1, done.err
    items = items_of(evalwright.folder / "report")
    assert any(item["change"] == "regression" for item in items.values())
    assert second in (evalwright.folder / "report/compare-report.json").read_text()


def test_a_run_that_does_not_exist_is_named(evalwright: Evalwright, pair: Pair) -> None:
    done = evalwright("compare", "--baseline", "runs/baseline", "--new", "nope", "--out", "r")
    assert done.code == 2
    assert "nope" in done.err


@pytest.mark.parametrize("missing", ["runs/none", "none.jsonl"])
def test_a_side_that_does_not_exist_is_named(
    evalwright: Evalwright, pair: Pair, missing: str
) -> None:
    done = evalwright("compare", "--baseline", "runs/baseline", "--new", missing, "--out", "r")
    assert done.code == 2
    assert missing in done.err
    assert not (evalwright.folder / "r").exists()


@pytest.mark.parametrize("text", ["", "{", "[{", '"x"'])
def test_unreadable_cases_are_bad_input(evalwright: Evalwright, pair: Pair, text: str) -> None:
    a_regression(pair)
    (pair.folder / "cases.json").write_text(text)
    done = compare(evalwright)
    assert done.code == 2
    assert "cases.json" in done.err
    assert not (evalwright.folder / "report").exists()


def test_files_of_traces_are_compared_by_their_base_case(evalwright: Evalwright) -> None:
    def line(case_id: str, base: str, output: str) -> str:
        record = a_response(case_id=case_id, output=output)
        return json.dumps({**record, "trace_id": f"t/{case_id}", "base_case_id": base})

    (evalwright.folder / "old.jsonl").write_text(line("task", "task", "done") + "\n")
    (evalwright.folder / "new.jsonl").write_text(line("task.v2", "task", "done, too") + "\n")
    done = evalwright("compare", "--baseline", "old.jsonl", "--new", "new.jsonl", "--out", "report")
    assert done.code == 3, done.err  # nothing is expected of traces
    item = items_of(evalwright.folder / "report")["task.v2"]
    assert item["baseline_pass"] is True
    assert item["first_divergence"]["reason"] == "the output differs"


# Repeats, deltas, suppressions.


def test_repeats_show_flaky_cases_and_the_majority_decides(
    evalwright: Evalwright, pair: Pair
) -> None:
    bad = a_response(output="no idea")
    pair.add(a_case("one", must_include=["done"]), a_response(), bad)
    for number, response in enumerate([a_response(), a_response()]):
        pair.write(pair.new, f"one.{number}", response)
    assert compare(evalwright).code == 0
    item = items_of(evalwright.folder / "report")["one"]
    assert item["new_pass"] is True
    new = item["repeats"]["new"]
    assert (new["runs"], new["passed"], new["flaky"]) == (3, 2, True)
    assert len(new["response_hrefs"]) == 3
    assert "sampling" in item["nondeterminism_sources"]["new"]
    document = json.loads((evalwright.folder / "report/compare-report.json").read_text())
    assert document["summary"]["flaky_cases"] == {"baseline": 0, "new": 1}


def test_latency_and_cost_are_compared_where_both_sides_have_them(
    evalwright: Evalwright, pair: Pair
) -> None:
    before = a_response(usage={"duration_ms": 100, "cost_usd": 0.5})
    after = a_response(usage={"duration_ms": 150, "cost_usd": 0.25})
    pair.add(a_case("one"), before, after)
    compare(evalwright)
    item = items_of(evalwright.folder / "report")["one"]
    assert item["latency_ms"] == {"baseline": 100, "new": 150, "change": 50}
    assert item["cost_usd"] == {"baseline": 0.5, "new": 0.25, "change": -0.25}


def test_a_suppression_takes_a_signal_out_and_says_so(evalwright: Evalwright, pair: Pair) -> None:
    pair.add(a_case("one"), a_response(), a_response(output=f"key {SECRET}"))
    entry = {"kind": "secret_in_output", "reason": "a test key", "expires": "2999-01-01"}
    (evalwright.folder / "ok.json").write_text(json.dumps({"suppressions": [entry]}))
    compare(evalwright, "--suppress", "ok.json")
    security = items_of(evalwright.folder / "report")["one"]["security"]["new"]
    assert "secret_in_output" not in {signal["kind"] for signal in security["signals"]}
    assert security["suppressed"][0]["reason"] == "a test key"
    entry["expires"] = "2001-01-01"
    (evalwright.folder / "old.json").write_text(json.dumps({"suppressions": [entry]}))
    done = compare(evalwright, "--suppress", "old.json")
    assert "expired on 2001-01-01" in done.err
    security = items_of(evalwright.folder / "report")["one"]["security"]["new"]
    assert "secret_in_output" in {signal["kind"] for signal in security["signals"]}


def test_the_environment_of_both_runs_is_in_the_report(evalwright: Evalwright, pair: Pair) -> None:
    a_regression(pair)
    for side, version in ((pair.baseline, "1.0"), (pair.new, "1.1")):
        provenance = {"agent_id": "shop", "agent_version": version, "model": "m"}
        pair.write(side, "run", {"run_id": side.name, "provenance": provenance})
    compare(evalwright)
    document = json.loads((evalwright.folder / "report/compare-report.json").read_text())
    snapshot = document["env_snapshot"]
    assert snapshot["agent"] == {"name": "shop", "version": "1.1"}
    assert snapshot["baseline"]["agent"]["version"] == "1.0"
    assert snapshot["changed"] == ["agent.version"]
    assert document["report_id"] == "baseline..new"


def test_a_suppression_that_matches_nothing_is_named(evalwright: Evalwright, pair: Pair) -> None:
    pair.add(a_case("one"), a_response(), a_response())
    entry = {"kind": "policy_tampering", "reason": "fixed long ago", "expires": "2999-01-01"}
    (evalwright.folder / "s.json").write_text(json.dumps({"suppressions": [entry]}))
    done = compare(evalwright, "--suppress", "s.json")
    assert "policy_tampering (fixed long ago) matched no signal" in done.err


# What must not pass in silence.


def test_a_leaked_key_fails_even_where_no_gate_is_asked_for(
    evalwright: Evalwright, pair: Pair
) -> None:
    pair.add(a_case("one", **KINDLY), a_response(), a_response(output=f"Use {SECRET}"))
    done = compare(evalwright)
    assert done.code == 1
    assert "1 case has a new severe signal" in done.flat
    assert compare(evalwright, "--fail-on", "gate").code == 0


def test_a_grave_signal_that_the_baseline_has_too_is_not_new(
    evalwright: Evalwright, pair: Pair
) -> None:
    pair.add(a_case("one", **KINDLY), a_response(output=SECRET), a_response(output=f"Use {SECRET}"))
    assert compare(evalwright).code == 0


def test_a_baseline_without_any_answer_is_no_baseline(evalwright: Evalwright, pair: Pair) -> None:
    pair.add(a_case("one", **KINDLY), None, a_response())
    done = compare(evalwright)
    assert done.code == 1
    assert "the baseline answered nothing" in done.flat


def test_nothing_to_compare_is_bad_input(evalwright: Evalwright, pair: Pair) -> None:
    done = compare(evalwright)
    assert done.code == 2
    assert "nothing to compare" in done.err
    assert not (evalwright.folder / "report").exists()


def test_the_folder_above_a_run_is_not_taken_for_one(evalwright: Evalwright, pair: Pair) -> None:
    a_regression(pair)
    done = evalwright("compare", "--baseline", "runs", "--new", "runs/new", "--out", "report")
    assert done.code == 2
    assert "did you mean runs/baseline?" in done.err


def test_a_file_that_holds_no_trace_is_bad_input(evalwright: Evalwright, pair: Pair) -> None:
    (evalwright.folder / "x.txt").write_text("hi")
    done = evalwright("compare", "--baseline", "runs/baseline", "--new", "x.txt", "--out", "report")
    assert done.code == 2
    assert "x.txt: holds no trace that is understood" in done.err


def test_a_trace_brings_its_own_prompt(evalwright: Evalwright) -> None:
    record = a_response(case_id="t", user_prompt="Where is my parcel?", trace_id="t")
    (evalwright.folder / "t.jsonl").write_text(json.dumps(record) + "\n")
    done = evalwright("compare", "--baseline", "t.jsonl", "--new", "t.jsonl", "--out", "report")
    assert done.code == 0, done.err
    assert "nothing is expected of the answers" in done.err
    assert items_of(evalwright.folder / "report")["t"]["title"] == "Where is my parcel?"
    assert "Where is my parcel?" in (evalwright.folder / "report/case-t.html").read_text()


def test_an_expectation_that_is_not_known_is_named(evalwright: Evalwright, pair: Pair) -> None:
    pair.add(a_case("one", must_includ=["zzz"]), a_response(), a_response())
    done = compare(evalwright)
    assert "expected.must_includ: not a known expectation" in done.err
    assert "did you mean must_include?" in done.err


def test_a_mistake_in_the_case_file_is_named_with_its_line(
    evalwright: Evalwright, pair: Pair
) -> None:
    a_regression(pair)
    (pair.folder / "cases.json").write_text('[\n {"id": "a",\n  "x": 1,, "y": 2}\n]\n')
    done = compare(evalwright)
    assert done.code == 2
    assert "cases.json: not a file of cases, line 3 column" in done.err


def test_a_gate_that_any_repeat_asks_for_is_asked_for(evalwright: Evalwright, pair: Pair) -> None:
    leak = a_response(output=f"Use {SECRET}")
    risky = a_response(actions=[an_action("wipe", risk_level="high")])
    pair.add(a_case("one"), a_response(), leak)
    pair.write(pair.new, "one.2", risky)
    done = compare(evalwright, "--fail-on", "gate")
    assert done.code == 1


def test_signals_of_runs_that_are_not_shown_are_told_with_their_run(
    evalwright: Evalwright, pair: Pair
) -> None:
    mail = "jane.roe" + "@" + "mail-provider.com"
    pair.add(a_case("one"), a_response(), a_response(output=f"Use {SECRET}"))
    pair.write(pair.new, "one.2", a_response(output=f"Write to {mail}"))
    compare(evalwright)
    signals = items_of(evalwright.folder / "report")["one"]["security"]["new"]["signals"]
    other = next(signal for signal in signals if signal["kind"] == "pii_in_output")
    assert other["details"]["notes"].startswith("In run 2 of 2: ")
    assert other["evidence_refs"] == []


def test_a_form_is_written_beside_the_report_and_not_over_another(
    evalwright: Evalwright, pair: Pair
) -> None:
    a_regression(pair)
    inside = compare(evalwright, "--junit", "report/compare-report.json")
    assert inside.code == 2
    assert "put it beside" in inside.err
    twice = compare(evalwright, "--junit", "x", "--sarif", "x")
    assert twice.code == 2
    assert "--junit is written there" in twice.err


def test_a_run_cannot_name_any_file_as_its_cases(evalwright: Evalwright, pair: Pair) -> None:
    a_regression(pair)
    private = pair.folder / "private" / "customers.json"
    private.parent.mkdir()
    private.write_text('[{"id": "worse", "title": "the customers of the house"}]')
    pair.write(pair.new, "run", {"cases_path": "private/customers.json"})
    compare(evalwright)
    written = files_of(evalwright.folder / "report").values()
    assert not any(b"the customers of the house" in data for data in written)

"""`prompteval` as a user calls it: files in, records, reports and an exit code out."""

import csv
import io
import json
import os
import subprocess
import sys
from typing import Any

import pytest

from evalwright.contracts.schema import PROMPT_RESULT, check_schema
from subjects.command import Evalwright, Finished
from subjects.waiting import eventually

GOOD = """---
title: Order status
description: Tells customers where their order is.
---

# Task

Tell the customer where the order {{order_id}} is, in at most three sentences.

## Output format

Plain text. First the state of the order, then the expected day of arrival.

## Example

Input: order A-17, shipped on Monday.
Output: Your order A-17 was shipped on Monday. It should arrive on Wednesday.
"""
POOR = "Do something with the stuff.\n"
SCORES = {
    "clarity": 8,
    "specificity": 7,
    "actionability": 8,
    "structure": 6,
    "completeness": 7,
    "safety": 9,
}


def verdict(**scores: Any) -> dict[str, Any]:
    told = {name: {"reason": f"{name} is so", "score": n} for name, n in (SCORES | scores).items()}
    return {**told, "summary": "A short prompt.", "overall": 7}


@pytest.fixture
def library(evalwright: Evalwright) -> Evalwright:
    """A folder with two prompts and files that are none."""
    folder = evalwright.folder / "prompts"
    (folder / "archive").mkdir(parents=True)
    (folder / "good.md").write_text(GOOD)
    (folder / "poor.md").write_text(POOR)
    (folder / "README.md").write_text("About these prompts.")
    (folder / "archive" / "old.md").write_text(POOR)
    return evalwright


def prompteval(place: Evalwright, *arguments: str, **options: Any) -> Finished:
    env = {"XDG_CACHE_HOME": str(place.folder / "cache"), **options.pop("env", {})}
    return place("prompts", *arguments, env=env, **options)


def a_judge(place: Evalwright, reply: Any, name: str = "judge.json") -> str:
    steps = {"steps": ["Read the prompt.", "Look for the criterion.", "Judge."]}
    rules = [
        {"when": {"output": "evaluation_steps"}, "json": steps},
        {"json": reply} if isinstance(reply, dict) else {"reply": reply},
    ]
    (place.folder / name).write_text(json.dumps(rules))
    return f"scripted:{name}"


def records(done: Finished) -> list[dict[str, Any]]:
    found = done.json()
    found = found if isinstance(found, list) else [found]
    for record in found:
        assert check_schema(record, PROMPT_RESULT) == []
    return found


def test_a_library_is_linted_without_a_model(library: Evalwright) -> None:
    done = prompteval(library, "prompts", "--json")
    good, poor = records(done)
    assert [good["input"]["path"], poor["input"]["path"]] == ["prompts/good.md", "prompts/poor.md"]
    assert good["scores"]["overall"] > poor["scores"]["overall"]
    assert good["model"] == {"name": "evalwright-lint", "provider": "static", "version": None}
    assert good["scores"]["geval"] is None
    assert poor["passed"] is False
    assert done.code == 1


def test_one_result_is_an_object_and_several_are_an_array(library: Evalwright) -> None:
    assert isinstance(prompteval(library, "prompts/good.md", "--json").json(), dict)
    assert isinstance(prompteval(library, "prompts", "--json").json(), list)


def test_python_m_prompteval_is_the_same_command(library: Evalwright) -> None:
    import subprocess

    done = subprocess.run(
        [sys.executable, "-m", "prompteval", "prompts/good.md", "--json"],
        cwd=library.folder, capture_output=True, check=False,
    )  # fmt: skip
    assert json.loads(done.stdout)["input"]["title"] == "Order status"


def test_a_quiet_evaluation_prints_nothing_and_loads_no_report(library: Evalwright) -> None:
    import subprocess

    script = (
        "import atexit, sys; from prompteval import main; sys.argv = "
        "['prompteval', 'prompts/good.md', '-t', '0', '--quiet', '--fail-on', 'error']; "
        "atexit.register(lambda: print([name for name in sys.modules if name.startswith("
        "('evalwright.reports.prompts', 'evalwright.prompts.change'))])); main()"
    )
    env = {name: value for name, value in os.environ.items() if name != "GITHUB_STEP_SUMMARY"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=library.folder, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_quiet_evaluation_still_writes_the_summary_of_a_job(library: Evalwright) -> None:
    place = library.folder / "summary.md"
    prompteval(library, "prompts", "--quiet", env={"GITHUB_STEP_SUMMARY": str(place)})
    assert place.read_text().startswith("# Prompts: ")


def test_standard_input_is_a_prompt_too(library: Evalwright) -> None:
    import subprocess

    done = subprocess.run(
        [*library.line("prompts", "-", "--json")],
        input=GOOD.encode(), cwd=library.folder, capture_output=True, check=False,
    )  # fmt: skip
    assert json.loads(done.stdout)["input"]["path"] == "-"


def test_overall_is_the_weighted_mean_of_the_criteria(library: Evalwright) -> None:
    judge = a_judge(library, {**verdict(), "overall": 1})
    done = prompteval(library, "prompts/good.md", "-t", "1", "-m", judge, "--json")
    (record,) = records(done)
    expected = 8 * 0.25 + 7 * 0.2 + 8 * 0.2 + 6 * 0.15 + 7 * 0.1 + 9 * 0.1
    assert record["scores"]["overall"] == pytest.approx(expected)
    assert record["scores"]["overall_normalized"] == pytest.approx(expected * 10)
    assert record["scores"]["geval"] == pytest.approx(expected * 10)
    assert record["grade"] == "Competent"
    assert record["execution"]["error_code"] is None
    assert record["recommendations"] == ["Improve structure: currently 60% (Developing)"]


def test_every_run_of_every_model_is_a_record(library: Evalwright) -> None:
    first = a_judge(library, verdict())
    second = a_judge(library, verdict(clarity=3), "other.json")
    done = prompteval(library, "prompts", "-t", "1", "-m", f"{first},{second}", "-r", "2", "--json")
    keys = [
        (each["input"]["path"], each["model"]["name"], each["execution"]["run_index"])
        for each in records(done)
    ]
    assert len(keys) == len(set(keys)) == 8
    assert keys == sorted(keys, key=lambda key: key[0])


@pytest.mark.parametrize("reply", ["I like it.", {"clarity": 8}, verdict(clarity=True)])
def test_a_reply_that_cannot_be_read_is_an_error_and_never_a_pass(
    library: Evalwright, reply: Any
) -> None:
    judge = a_judge(library, reply)
    done = prompteval(library, "prompts/good.md", "-t", "1", "-m", judge, "--json")
    (record,) = records(done)
    assert record["execution"]["error_code"] == "parse_error"
    assert (record["passed"], record["scores"], record["grade"]) == (False, None, None)
    assert done.code == 3


@pytest.mark.parametrize(
    ("model", "code"),
    [("nobody:gpt", "unavailable_model"), ("openai:gpt-4.1", "permission_denied")],
)
def test_a_model_that_cannot_be_asked_gives_error_records(
    library: Evalwright, model: str, code: str
) -> None:
    done = prompteval(library, "prompts/good.md", "-m", model, "--json")
    (record,) = records(done)
    assert record["execution"]["error_code"] == code
    assert done.code == 3


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("missing.md", None, "file_not_found"),
        ("latin.md", b"caf\xe9", "invalid_input"),
        ("notes.pdf", b"Hello", "invalid_input"),
        ("empty.md", b"", "invalid_input"),
    ],
)
def test_a_file_that_cannot_be_used_is_an_error_beside_the_others(
    library: Evalwright, name: str, content: bytes | None, code: str
) -> None:
    if content is not None:
        (library.folder / name).write_bytes(content)
    done = prompteval(library, name, "prompts/good.md", "--json")
    by_path = {record["input"]["path"]: record for record in records(done)}
    assert by_path[name]["execution"]["error_code"] == code
    assert by_path["prompts/good.md"]["execution"]["status"] == "success"
    assert done.code == 3


def test_the_suffix_says_the_format(library: Evalwright) -> None:
    names = [
        f"out{suffix}" for suffix in (".json", ".jsonl", ".md", ".csv", ".sarif", ".xml", ".html")
    ]
    prompteval(library, "prompts", *(part for name in names for part in ("-o", name)))
    read = {name: (library.folder / name).read_text() for name in names}
    assert len(json.loads(read["out.json"])) == len(read["out.jsonl"].splitlines()) == 2
    assert read["out.md"].startswith("# Prompt Evaluation Report")
    rows = list(csv.reader(io.StringIO(read["out.csv"])))
    assert rows[0][:3] == ["eval_id", "timestamp", "path"]
    assert json.loads(read["out.sarif"])["version"] == "2.1.0"
    assert read["out.xml"].startswith("<?xml")
    assert read["out.html"].lower().startswith("<!doctype html>")


def test_a_suffix_that_says_nothing_is_refused(library: Evalwright) -> None:
    refused = prompteval(library, "prompts", "-o", "out.pdf")
    assert refused.code == 2
    assert ".json" in refused.err


@pytest.mark.parametrize("name", ["-", "/dev/stdout"])
def test_stdout_as_the_place_of_a_report_holds_it_alone(library: Evalwright, name: str) -> None:
    done = prompteval(library, "prompts", "-t", "0", "-o", name, "-o", "report.csv")
    assert [each["input"]["path"] for each in records(done)] == [
        "prompts/good.md",
        "prompts/poor.md",
    ]
    assert (library.folder / "report.csv").exists()


def test_stdout_takes_other_formats_and_a_file_behind_it(library: Evalwright) -> None:
    with (library.folder / "out.csv").open("wb") as file:
        line = library.line("prompts", "prompts", "-t", "0", "-o", "-", "--format", "csv")
        subprocess.run(line, cwd=library.folder, stdout=file, check=False)
    rows = list(csv.DictReader(io.StringIO((library.folder / "out.csv").read_text())))
    assert [row["path"] for row in rows] == ["prompts/good.md", "prompts/poor.md"]


def test_minimal_records_have_the_required_fields_alone(library: Evalwright) -> None:
    (record,) = records(prompteval(library, "prompts/good.md", "--json", "--minimal"))
    assert record["scores"]["rubric"].keys() == SCORES.keys()
    assert all(isinstance(score, int | float) for score in record["scores"]["rubric"].values())
    assert "details" not in record


def test_only_on_request_is_the_machine_named(library: Evalwright) -> None:
    plain = prompteval(library, "prompts/good.md", "--json").out
    assert str(library.folder) not in plain
    assert "hostname" not in plain
    told = records(prompteval(library, "prompts/good.md", "--json", "--with-host-info"))[0]
    assert told["input"]["absolute_path"] == str(library.folder / "prompts" / "good.md")
    assert told["metadata"]["hostname"]


def test_resuming_asks_only_for_what_is_missing(library: Evalwright) -> None:
    judge = a_judge(library, verdict())
    base = ["prompts", "-t", "1", "-m", judge, "-o", "out.json"]
    prompteval(library, *base, "--cassette", "tape.jsonl", "--record")
    (library.folder / "prompts" / "poor.md").write_text(POOR + "And more.\n")
    before = json.loads((library.folder / "out.json").read_text())
    a_judge(library, verdict(clarity=2))
    prompteval(library, *base, "--resume")
    after = json.loads((library.folder / "out.json").read_text())
    assert after[0]["eval_id"] == before[0]["eval_id"]
    assert after[1]["eval_id"] != before[1]["eval_id"]
    assert after[1]["scores"]["rubric"]["clarity"]["score"] == 2
    assert not list(library.folder.glob("*.partial.jsonl"))


def test_a_baseline_tells_what_got_worse_and_may_fail_the_command(library: Evalwright) -> None:
    prompteval(library, "prompts", "-o", "before.json")
    (library.folder / "prompts" / "good.md").write_text(POOR)
    compare = ["prompts", "--baseline", "before.json", "--fail-on", "regression"]
    worse = prompteval(library, *compare)
    assert worse.code == 1
    assert "good.md" in worse.out
    prompteval(library, "prompts", "-o", "now.json")
    same = prompteval(library, "prompts", "--baseline", "now.json", "--fail-on", "regression")
    assert same.code == 0


def test_safe_fixes_are_written_and_only_once(library: Evalwright) -> None:
    path = library.folder / "prompts" / "good.md"
    path.write_text(GOOD + "\n```text\nnever closed\n")
    prompteval(library, "prompts/good.md", "--fix")
    fixed = path.read_text()
    assert fixed.count("```") == 2
    prompteval(library, "prompts/good.md", "--fix")
    assert path.read_text() == fixed


def test_rules_can_be_chosen_and_a_wrong_name_is_refused(library: Evalwright) -> None:
    refused = prompteval(library, "prompts", "--select", "PE999")
    assert refused.code == 2
    only = records(prompteval(library, "prompts/poor.md", "--json", "--select", "PE203"))[0]
    assert {each["rule"] for each in only["details"]["findings"]} == {"PE203"}


def test_below_the_threshold_is_1_unless_only_errors_count(library: Evalwright) -> None:
    assert prompteval(library, "prompts/poor.md").code == 1
    assert prompteval(library, "prompts/poor.md", "--fail-on", "error").code == 0
    assert prompteval(library, "prompts/good.md", "--threshold", "10").code == 0


def test_nothing_to_evaluate_is_bad_input(library: Evalwright) -> None:
    (library.folder / "empty").mkdir()
    refused = prompteval(library, "empty")
    assert refused.code == 2
    assert "no prompts" in refused.err


@pytest.mark.parametrize("option", ["--list-tiers", "--list-rules", "--list-models"])
def test_what_there_is_can_be_listed(library: Evalwright, option: str) -> None:
    done = prompteval(library, option)
    assert done.code == 0
    assert len(done.out.splitlines()) >= 8


def test_cases_of_a_prompt_file_are_run_and_a_failed_one_fails_it(library: Evalwright) -> None:
    (library.folder / "greet.prompt.yml").write_text(
        "name: Greet\nmessages:\n  - role: user\n    content: Greet {{name}}\n"
        "testData:\n  - name: Ann\n  - name: Bob\n"
        "evaluators:\n  - name: named\n    string:\n      contains: Ann\n"
    )
    rules = [
        {"when": {"output": "evaluation_steps"}, "json": {"steps": ["a", "b", "c"]}},
        {"when": {"contains": "Greet Ann"}, "reply": "Hello Ann"},
        {"when": {"contains": "Greet Bob"}, "reply": "Hello Bob"},
        {"json": verdict(clarity=10)},
    ]
    (library.folder / "judge.json").write_text(json.dumps(rules))
    asked = ["greet.prompt.yml", "-t", "1", "-m", "scripted:judge.json"]
    (record,) = records(prompteval(library, *asked, "--json"))
    assert [case["passed"] for case in record["details"]["cases"]] == [True, False]
    assert record["passed"] is False
    assert any("test case 2" in issue for issue in record["issues"])
    shown = prompteval(library, *asked)
    assert shown.code == 1
    assert "test case 2 failed: named: " in shown.out
    assert "test case 1" not in shown.out


def test_results_can_be_validated(library: Evalwright) -> None:
    prompteval(library, "prompts", "-o", "out.json")
    assert "valid prompt result" in library("validate", "out.json").out
    broken = json.loads((library.folder / "out.json").read_text())
    broken[1]["grade"] = "Superb"
    (library.folder / "broken.json").write_text(json.dumps(broken))
    refused = library("validate", "broken.json")
    assert refused.code == 2
    assert "$[1].grade" in refused.err


def test_a_resumed_record_is_judged_by_the_threshold_of_now(library: Evalwright) -> None:
    base = ["prompts/good.md", "-t", "1", "-m", a_judge(library, verdict()), "-o", "out.json"]
    assert prompteval(library, *base).code == 0
    done = prompteval(library, *base, "--resume", "--threshold", "90", "--json")
    (record,) = records(done)
    assert (record["passed"], record["threshold"], done.code) == (False, 90, 1)


def test_a_price_that_is_not_known_stops_a_budget(library: Evalwright) -> None:
    judge = a_judge(library, verdict())
    stopped = prompteval(
        library, "prompts", "-t", "1", "-m", judge, "--max-cost", "1", "--concurrency", "1",
        "-o", "out.json",
    )  # fmt: skip
    assert stopped.code == 3
    assert "no known price" in stopped.err
    assert (library.folder / "out.json.partial.jsonl").is_file()


def test_json_lines_can_be_resumed_too(library: Evalwright) -> None:
    base = ["prompts", "-t", "1", "-m", a_judge(library, verdict()), "-o", "out.jsonl"]
    prompteval(library, *base)
    lines = (library.folder / "out.jsonl").read_text().splitlines()
    assert len(lines) == 2
    assert prompteval(library, *base, "--resume").code == 0
    assert (library.folder / "out.jsonl").read_text().splitlines() == lines
    assert not (library.folder / "out.jsonl.partial.jsonl").exists()


def interrupted(library: Evalwright) -> list[str]:
    """The command that an interrupt ended while the second file was being judged."""
    import signal

    rules = [
        {"when": {"output": "evaluation_steps"}, "json": {"steps": ["a", "b", "c"]}},
        {"when": {"contains": "stuff"}, "json": verdict(), "latency_ms": 60_000},
        {"json": verdict()},
    ]
    (library.folder / "judge.json").write_text(json.dumps(rules))
    command = ["prompts", "prompts", "-t", "1", "-m", "scripted:judge.json", "-o", "out.json"]
    process = library.start(*command, env={"XDG_CACHE_HOME": str(library.folder / "cache")})
    journal = library.folder / "out.json.partial.jsonl"
    eventually(lambda: process.poll() is not None or (journal.exists() and journal.stat().st_size))
    process.send_signal(signal.SIGINT)
    assert library.finish(process).code == 130
    a_judge(library, verdict(clarity=2))
    return command


def test_an_interrupt_keeps_what_was_done_and_resume_asks_for_the_rest(
    library: Evalwright,
) -> None:
    command = interrupted(library)
    journal = library.folder / "out.json.partial.jsonl"
    with journal.open("ab") as file:
        file.write(b'{"schema_version": "1.0')  # torn
    done = library(*command, "--resume")
    good, poor = json.loads((library.folder / "out.json").read_text())
    assert good["scores"]["rubric"]["clarity"]["score"] == 8
    assert poor["scores"]["rubric"]["clarity"]["score"] == 2
    assert not journal.exists()
    assert done.code in (0, 1)


def test_without_resume_what_was_kept_is_not_thrown_away(library: Evalwright) -> None:
    command = interrupted(library)
    refused = library(*command)
    assert refused.code == 2
    assert "--resume" in refused.err
    assert (library.folder / "out.json.partial.jsonl").stat().st_size


def test_resuming_with_fewer_files_keeps_the_others(library: Evalwright) -> None:
    judge = a_judge(library, verdict())
    base = ["-t", "1", "-m", judge, "-o", "out.json"]
    prompteval(library, "prompts", *base)
    prompteval(library, "prompts/good.md", *base, "--resume")
    assert len(json.loads((library.folder / "out.json").read_text())) == 2


def test_one_model_in_two_spellings_is_one_judge(library: Evalwright) -> None:
    done = prompteval(
        library, "prompts/good.md", "-m", "openai/gpt-4o-mini,github:openai/gpt-4o-mini", "--json",
        env={"GITHUB_TOKEN": ""},
    )  # fmt: skip
    assert len(records(done)) == 1


def test_fixing_keeps_who_may_read_a_file(library: Evalwright) -> None:
    path = library.folder / "prompts" / "good.md"
    path.write_text(GOOD + "\n```text\nnever closed\n")
    path.chmod(0o600)
    prompteval(library, "prompts/good.md", "--fix")
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["prompts", "-o", "prompts/good.md"], "this is one of the prompts"),
        (["prompts", "-o", "r.json", "-o", "r.json"], "named twice"),
        (["prompts", "-m", ","], "names no model"),
        (["prompts", "--threshold", "nan"], "--threshold"),
        ([""], "a path is empty"),
    ],
)
def test_what_would_destroy_or_mean_nothing_is_refused(
    library: Evalwright, arguments: list[str], words: str
) -> None:
    refused = prompteval(library, *arguments)
    assert refused.code == 2
    assert words in refused.err
    assert (library.folder / "prompts" / "good.md").read_text() == GOOD


def test_a_prompt_does_not_bring_its_own_judge(library: Evalwright) -> None:
    (library.folder / "yes.yaml").write_text('- reply: "yes"\n')
    (library.folder / "own.prompt.yml").write_text(
        "messages:\n  - role: user\n    content: Hello\ntestData:\n  - a: b\n"
        "evaluators:\n  - name: mine\n    llm:\n      modelId: scripted:yes.yaml\n"
        "      prompt: Is it good?\n      choices:\n        - choice: 'yes'\n          score: 1\n"
    )
    judge = a_judge(library, verdict())
    done = prompteval(library, "own.prompt.yml", "-t", "1", "-m", judge, "--json")
    (record,) = records(done)
    assert record["execution"]["error_code"] == "invalid_input"


def test_fixing_leaves_test_data_and_byte_order_marks_alone(library: Evalwright) -> None:
    path = library.folder / "prompts" / "good.md"
    path.write_bytes(b"\xef\xbb\xbf" + (GOOD + "\n```text\nnever closed\n").encode())
    case = library.folder / "prompts" / "greet.prompt.yml"
    text = 'messages:\n  - role: user\n    content: "Greet {{a}}"\ntestData:\n  - a: "ze\u200bro"\n'
    case.write_text(text)
    prompteval(library, "prompts", "--fix")
    assert path.read_bytes().startswith(b"\xef\xbb\xbf")
    assert case.read_text() == text


def test_a_record_whose_score_does_not_follow_from_its_criteria_is_not_kept(
    library: Evalwright,
) -> None:
    base = ["prompts/good.md", "-t", "1", "-m", a_judge(library, verdict()), "-o", "out.json"]
    prompteval(library, *base)
    path = library.folder / "out.json"
    edited = json.loads(path.read_text())
    edited["scores"]["overall"] = 10
    path.write_text(json.dumps(edited))
    (record,) = records(prompteval(library, *base, "--resume", "--json"))
    assert record["scores"]["overall"] == pytest.approx(7.5)


def test_json_lines_stream_to_stdout(library: Evalwright) -> None:
    done = prompteval(library, "prompts", "--json", "--format", "jsonl", "--quiet")
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert [line["input"]["path"] for line in lines] == ["prompts/good.md", "prompts/poor.md"]


# Files that are no prompts, and other formats


def test_documents_in_a_folder_are_skipped_and_what_was_passed_over_is_named(library: Evalwright):
    (library.folder / "prompts" / "poor.md").unlink()
    (library.folder / "prompts" / "CHANGELOG.md").write_text("# Changes\n\n## 1.0\n- First.\n")
    (library.folder / "prompts" / "rules.mdc").write_text("---\nglobs: **/*\n---\nUse tabs.\n")
    outputs = ("-o", "report.xml", "-o", "report.sarif")
    done = prompteval(library, "prompts", "-t", "0", "--threshold", "1", *outputs)
    assert done.code == 0
    assert "not a prompt  prompts/CHANGELOG.md" in done.out
    assert "2 files · 1 passed · 1 skipped (no prompts)" in done.out
    passed_over = "(prompts/README.md, prompts/archive/, prompts/rules.mdc); --all-kinds"
    assert f"passed over: 3 files {passed_over}" in " ".join(done.out.split())
    assert "<skipped message=" in (library.folder / "report.xml").read_text()
    sarif = json.loads((library.folder / "report.sarif").read_text())
    assert [each["level"] for each in sarif["runs"][0]["results"]] == ["note"]
    piped = prompteval(library, "prompts", "-t", "0", "-o", "-")
    assert "passed over: 3 files" in piped.err
    alone = prompteval(library, "prompts/CHANGELOG.md", "-t", "0", "--threshold", "0")
    assert alone.code == 1
    everything = prompteval(library, "prompts", "-t", "0", "--all-kinds", "--json")
    assert "prompts/rules.mdc" in {each["input"]["path"] for each in records(everything)}
    assert {each["input"]["type"] for each in records(everything)} == {"markdown"}


def test_no_model_is_asked_about_a_file_that_is_no_prompt(library: Evalwright):
    (library.folder / "LICENSE.md").write_text("Copyright by somebody. All rights reserved.\n")
    judge = a_judge(library, verdict())
    done = prompteval(library, "LICENSE.md", "-t", "1", "-m", judge, "--json")
    (record,) = records(done)
    assert (record["passed"], record["details"]["not_a_prompt"]) == (False, "licence")
    assert record["scores"]["geval"] is None

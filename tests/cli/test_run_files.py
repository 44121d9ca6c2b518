"""A run by its files: what `run --out` left is a run for every command, also without a log."""

import base64
import json
import zlib
from pathlib import Path

import pytest

from builders import a_suite, a_task
from subjects.command import Evalwright, subject


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a run in which both tasks passed, and its suite."""
    command = Evalwright(tmp_path_factory.mktemp("first"))
    suite = a_suite([a_task(), a_task("task-2")], modes=["golden", "regression"])
    results = command.folder / "results"
    done = command(
        "run", command.suite(suite), "--agent", subject("answers.py:yes"), "--out", str(results)
    )
    assert done.code == 0, done.err
    return results


@pytest.fixture
def elsewhere(tmp_path: Path) -> Evalwright:
    """Another machine: nothing was ever recorded on it."""
    return Evalwright(tmp_path)


def suite_of(folder: Path) -> str:
    return str(next(folder.parent.glob("*suite*")))


def test_a_fresh_machine_compares_its_run_with_files_of_another(
    elsewhere: Evalwright, folder: Path
):
    done = elsewhere(
        *("run", suite_of(folder), "--agent", subject("answers.py:no")),
        *("--baseline", str(folder), "--json"),
    )
    assert done.code == 1, done.err
    baseline = json.loads((folder / "events.jsonl").read_text().splitlines()[0])["runId"]
    assert json.loads(done.out)["regression"]["baselineRunId"] == baseline
    assert baseline in elsewhere("runs", "--json").out


@pytest.mark.parametrize(
    "events",
    [b"[1]", b'["run_a",[["run.started",null,99999999999999999999,{}]]]', b'["r",[]]', b"\xff"],
)
def test_a_page_with_damaged_events_is_refused(elsewhere: Evalwright, events: bytes):
    page = elsewhere.folder / "page.html"
    packed = base64.b64encode(zlib.compress(events))
    mark = b'<script type="application/vnd.evalwright.events+zlib" id="events">'
    head = b'<!doctype html>\n<html lang="en" data-evalwright="run">\n'
    page.write_bytes(head + mark + packed + b"</script>")
    done = elsewhere("show", str(page))
    assert done.code == 2
    assert "page.html" in done.err
    assert "Traceback" not in done.err


def test_two_folders_of_files_are_two_sides_of_a_comparison(elsewhere: Evalwright, folder: Path):
    worse = elsewhere.folder / "worse"
    elsewhere(
        *("run", suite_of(folder), "--agent", subject("answers.py:no"), "--out", str(worse)),
    )
    report = elsewhere.folder / "report"
    done = elsewhere(
        *("compare", "--baseline", str(folder), "--new", str(worse / "events.jsonl")),
        *("--out", str(report)),
    )
    assert done.code == 1, done.err
    summary = json.loads((report / "compare-report.json").read_text())["summary"]
    assert (summary["baseline_pass"], summary["new_pass"], summary["regressions"]) == (2, 0, 2)


def test_every_command_that_takes_a_run_takes_its_files(elsewhere: Evalwright, folder: Path):
    shown = elsewhere("show", str(folder), "--json")
    assert shown.code == 0, shown.err
    assert shown.out.encode() == (folder / "summary.json").read_bytes()
    assert elsewhere("replay", str(folder), "--json").out == shown.out
    assert elsewhere("diff", str(folder), str(folder), "--exit-code").code == 0
    assert len(json.loads(elsewhere("runs", "--json").out)) == 1


def test_the_failed_tasks_of_a_folder_are_run_where_nothing_was_ever_recorded(
    elsewhere: Evalwright, folder: Path
):
    results, suite = elsewhere.folder / "results", suite_of(folder)
    elsewhere("run", suite, "--agent", subject("answers.py:no"), "--out", str(results))
    fresh = Evalwright(elsewhere.folder)
    fresh.db = elsewhere.folder / "fresh.db"
    for arguments in ((suite, "--failed", str(results)), ("--failed", str(results), suite)):
        again = fresh("run", *arguments, "--agent", subject("answers.py:yes"), "--json")
        assert again.code == 0, again.err
        assert json.loads(again.out)["taskCount"] == 2
    passed = fresh("run", suite, "--failed", str(folder), "--agent", subject("answers.py:yes"))
    assert "no task failed in run" in passed.err


def test_files_that_were_changed_are_refused_with_the_line(elsewhere: Evalwright, folder: Path):
    lines = (folder / "events.jsonl").read_text().splitlines()
    cut = elsewhere.folder / "cut.jsonl"
    cut.write_text("\n".join([*lines[:2], *lines[3:]]))
    done = elsewhere("show", str(cut))
    assert done.code == 2
    assert "line 3" in done.err
    assert "sequence is 3, expected 2" in done.err


def test_another_run_under_the_same_id_is_refused(elsewhere: Evalwright, folder: Path):
    assert elsewhere("show", str(folder)).code == 0
    other = elsewhere.folder / "other.jsonl"
    other.write_text((folder / "events.jsonl").read_text().replace('"yes"', '"Yes"'))
    done = elsewhere("show", str(other))
    assert done.code == 2
    assert "has another run" in done.err

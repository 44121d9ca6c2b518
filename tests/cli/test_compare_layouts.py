"""`evalwright compare` on the folders that runners write: where cases and captured bodies lie."""

import json
from pathlib import Path

import pytest

from comparing import a_case, a_failure, a_response, items_of
from evalwright.comparison.inputs import folders_above
from evalwright.comparison.run_folder import RunFolder, Unreadable
from subjects.command import Evalwright

RUNS = "apps/runner/runs"
BODY = "_runner_failures/lost.new.attempt1.body.bin"


def a_run(folder: Path, **responses: object) -> None:
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"cases_path": "cases/cases.json"}))
    for name, response in responses.items():
        (folder / f"{name}.json").write_text(json.dumps(response))


def a_repository(folder: Path, reference: str, captured_in: str) -> None:
    """The layout of the report contract: runs deep in a repository, cases in a folder of it."""
    (folder / "cases").mkdir()
    (folder / "cases" / "cases.json").write_text(json.dumps([a_case("lost")]))
    a_run(folder / RUNS / "baseline" / "latest", lost=a_response(case_id="lost"))
    failure = a_failure(full_body_saved_to=reference, case_id="lost")
    a_run(folder / RUNS / "new" / "latest", lost=failure)
    capture = folder / captured_in / BODY
    capture.parent.mkdir(parents=True)
    capture.write_bytes(b"upstream \xff error")


def compare(evalwright: Evalwright, *more: str, out: str = "report"):
    sides = ("--baseline", f"{RUNS}/baseline/latest", "--new", f"{RUNS}/new/latest")
    return evalwright("compare", *sides, "--out", out, *more)


@pytest.mark.parametrize("captured_in", [RUNS, f"{RUNS}/new", f"{RUNS}/new/latest", "apps", "."])
@pytest.mark.parametrize(
    "reference",
    [
        BODY,
        f"runs/{BODY}",
        f"{RUNS}/{BODY}",
        f"/home/ci/{RUNS}/{BODY}",
        "D:\\runs\\" + BODY.replace("/", "\\"),
    ],
    ids=["from-the-runs", "from-the-runner", "from-the-repository", "another-machine", "windows"],
)
def test_bodies_beside_the_runs_are_found_whatever_their_names_are_relative_to(
    tmp_path: Path, reference: str, captured_in: str
) -> None:
    a_repository(tmp_path, reference, captured_in)
    run = RunFolder(tmp_path / RUNS / "new" / "latest")
    run.above = tuple(folders_above(run.root))
    assert run.captured(reference) == b"upstream \xff error"


def test_the_contracts_layout_is_compared_with_its_cases_and_its_captured_bodies(
    evalwright: Evalwright, tmp_path: Path
) -> None:
    a_repository(tmp_path, f"runs/{BODY}", RUNS)
    done = compare(evalwright, out="build/reports/today")
    assert done.code == 3, done.err  # nothing is expected of the case
    assert "note:" not in done.err
    report = tmp_path / "build" / "reports" / "today"
    item = items_of(report)["lost"]
    body = report / item["artifacts"]["new_failure_body_href"]
    assert body.read_bytes() == b"upstream \xff error"
    assert item["title"] == a_case("lost")["title"]


def test_a_summary_may_go_into_the_folder_that_is_made_for_the_report(
    evalwright: Evalwright, tmp_path: Path
) -> None:
    a_repository(tmp_path, BODY, RUNS)
    assert compare(evalwright, "--markdown", "build/summary.md", out="build/report").code == 3
    assert (tmp_path / "build" / "summary.md").is_file()


def test_a_folder_for_a_report_that_cannot_be_made_is_refused_and_none_is_left_behind(
    evalwright: Evalwright, tmp_path: Path
) -> None:
    a_repository(tmp_path, BODY, RUNS)
    (tmp_path / "file").touch()
    refused = compare(evalwright, out="file/reports/today")
    assert refused.code == 2
    assert "file is not a writable folder" in refused.err
    refused = compare(evalwright, "--cases", "none.json", out="build/report")
    assert refused.code == 2
    assert not (tmp_path / "build").exists()


@pytest.mark.parametrize(
    "reference",
    [
        "../secret",
        "_runner_failures/../secret",
        "_runner_failures/../../../../secret",
        "_runner_failures/link",
        "linked/_runner_failures/secret",
        "_runner_failures",
        "_runner_failures/",
        "_runner_failures//secret",
        "secret",
    ],
)
def test_no_name_leads_out_of_the_captures(tmp_path: Path, reference: str) -> None:
    """Neither steps upwards, nor links in a folder of captures, nor a folder that is a link."""
    folder = tmp_path / "repository"
    elsewhere = tmp_path / "elsewhere"
    for each in (folder, elsewhere / "_runner_failures"):
        each.mkdir(parents=True)
    a_repository(folder, reference, RUNS)
    for each in (tmp_path, folder, folder / RUNS, elsewhere, elsewhere / "_runner_failures"):
        (each / "secret").write_text("of somebody else")
    (folder / RUNS / "_runner_failures" / "link").symlink_to(elsewhere / "secret")
    (folder / "_runner_failures").symlink_to(elsewhere / "_runner_failures")
    (folder / RUNS / "linked").symlink_to(elsewhere)
    run = RunFolder(folder / RUNS / "new" / "latest")
    run.above = tuple(folders_above(run.root))
    assert isinstance(run.captured(reference), Unreadable)


def test_nothing_above_the_repository_of_a_run_belongs_to_it(tmp_path: Path) -> None:
    a_repository(tmp_path, BODY, RUNS)
    (tmp_path / "apps" / ".git").mkdir()
    above = list(folders_above(tmp_path / RUNS / "new" / "latest"))
    assert above[-1] == tmp_path / "apps"


def test_a_folder_that_everybody_writes_to_is_not_searched_from_far_below(tmp_path: Path) -> None:
    a_repository(tmp_path, BODY, RUNS)
    tmp_path.chmod(0o1777)
    assert tmp_path not in folders_above(tmp_path / RUNS / "new" / "latest")
    assert tmp_path in folders_above(tmp_path / RUNS / "new")


def test_a_link_to_the_latest_run_has_what_is_beside_the_link(tmp_path: Path) -> None:
    a_run(tmp_path / "disk" / "run-7")
    runs = tmp_path / "repository" / "runs"
    runs.mkdir(parents=True)
    (runs / "latest").symlink_to(tmp_path / "disk" / "run-7")
    above = list(folders_above(runs / "latest"))
    assert above[0] == tmp_path / "disk"
    assert {runs, runs.parent} <= set(above)

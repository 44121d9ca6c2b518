"""`evalwright validate REPORT_DIR`: the contract's checklist, held against any folder."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from comparing import Pair, a_case, a_failure, a_response
from evalwright.contracts.errors import BadInput, InvalidDocument
from evalwright.reports.comparison.check import check_report
from reported import document_of, report_of
from subjects.command import Evalwright

SECRET = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pair = Pair(tmp_path_factory.mktemp("validate") / "runs")
    pair.add(a_case("one"), a_response(), a_response(output=f"the key is {SECRET}"))
    lost = a_failure(case_id="two", full_body_saved_to="not/there")
    pair.add(a_case("two"), a_response(case_id="two"), lost)
    return report_of(pair)


@pytest.fixture
def report(sound: Path, tmp_path: Path) -> Path:
    """A copy of a sound report, to be harmed."""
    return Path(shutil.copytree(sound, tmp_path / "report"))


def edit(report: Path, *path: str | int, value: Any) -> None:
    """Change one place of the machine report."""
    document = document_of(report)
    holder = document
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    (report / "compare-report.json").write_text(json.dumps(document))


def problems_of(report: Path) -> str:
    with pytest.raises(InvalidDocument) as found:
        check_report(report)
    return str(found.value)


def test_a_sound_report_is_valid_wherever_it_is_moved(report: Path, tmp_path: Path) -> None:
    assert check_report(report) == 2
    assert check_report(report.rename(tmp_path / "a new place")) == 2


def test_the_command_says_what_is_wrong_and_exits_with_2(
    report: Path, evalwright: Evalwright
) -> None:
    assert evalwright("validate", "report").out == "report: valid compare report with 2 items\n"
    (report / "case-one.html").unlink()
    edit(report, "summary", "regressions", value=7)
    done = evalwright("validate", "report")
    assert done.code == 2
    assert "'case-one.html' is not in the report" in done.err
    assert "$.summary.regressions: is 7, but the items give" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    "name", ["report.html", "case-two.html", "new/one.json", "baseline/run.json", "cases.json"]
)
def test_every_file_that_the_report_rests_on_is_missed(report: Path, name: str) -> None:
    (report / name).unlink()
    assert name in problems_of(report)


@pytest.mark.parametrize(
    "href",
    [
        "/etc/passwd",
        "../outside.html",
        "%2e%2e/outside.html",
        "javascript:alert(1)",
        "https://example.com/",
        "//example.com/x",
        "a%00b",
        "C:/x",
    ],
)
def test_a_link_that_is_not_relative_is_refused(report: Path, href: str) -> None:
    edit(report, "items", 0, "artifacts", "replay_diff_href", value=href)
    assert "is not a relative link" in problems_of(report)


@pytest.mark.parametrize("href", ["x" * 300, "y/" * 3_000, "gone.html", "assets", ".", "case#one"])
def test_a_link_that_leads_nowhere_is_named(report: Path, href: str) -> None:
    edit(report, "items", 0, "artifacts", "replay_diff_href", value=href)
    assert "is not in the report" in problems_of(report)


def test_a_link_on_disk_that_leads_out_of_the_report_is_refused(report: Path) -> None:
    (report / "case-one.html").unlink()
    (report / "case-one.html").symlink_to("/etc/hostname")
    (report.parent / "outside.html").touch()
    (report / "case-two.html").unlink()
    (report / "case-two.html").symlink_to("../outside.html")
    assert "'case-two.html' leads out of the report" in problems_of(report)


def test_links_on_disk_in_a_circle_are_named(report: Path) -> None:
    (report / "case-one.html").unlink()
    (report / "case-one.html").symlink_to("case-one.html")
    assert "'case-one.html' is not in the report" in problems_of(report)


@pytest.mark.parametrize("name", ["baseline_dir", "new_dir", "cases_path"])
@pytest.mark.parametrize("value", ["/abs", "../up", "x" * 300, "a\0b", "nowhere"])
def test_the_paths_at_the_top_are_checked(report: Path, name: str, value: str) -> None:
    edit(report, name, value=value)
    assert f"$.{name}" in problems_of(report)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("quality_flags", "self_contained"), True),
        (("quality_flags", "portable_paths"), False),
        (("quality_flags", "missing_assets_count"), 0),
        (("quality_flags", "missing_assets"), ["case-one.html"]),
        (("quality_flags", "path_violations"), ["/abs"]),
        (("summary", "new_pass"), 2),
        (("summary", "improvements"), 1),
        (("summary", "security", "total_cases"), 3),
        (("summary", "security", "cases_with_signals_new"), 0),
        (("summary", "security", "signal_counts_new", "critical"), 10**30),
        (("items", 1, "security", "new", "signals"), []),
        (("items", 1, "security", "baseline", "requires_gate_recommendation"), True),
    ],
    ids=str,
)
def test_numbers_and_flags_that_are_not_true_are_found(
    report: Path, place: tuple[str | int, ...], value: object
) -> None:
    assert check_report(report) == 2
    edit(report, *place, value=value)
    assert problems_of(report)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("items",), None),
        (("items",), [None]),
        (("items", 0), {}),
        (("items", 0, "trace_integrity"), {}),
        (("items", 0, "trace_integrity", "new", "status"), "fine"),
        (("items", 0, "security", "new", "signals"), [{"severity": "bad"}]),
        (("items", 0, "baseline_pass"), "yes"),
        (("summary",), []),
        (("summary", "new_pass"), True),
        (("quality_flags", "missing_assets"), ["x", None]),
        (("report_id",), None),
    ],
    ids=str,
)
def test_a_report_of_another_shape_is_refused_with_the_place(
    report: Path, place: tuple[str | int, ...], value: object
) -> None:
    edit(report, *place, value=value)
    assert f"$.{place[0]}" in problems_of(report)


@pytest.mark.parametrize("hrefs", [["%00", "x" * 300], ["../../etc/passwd"], ["a\0b"]])
def test_hostile_names_among_the_missing_are_survived(report: Path, hrefs: list[str]) -> None:
    edit(report, "quality_flags", "missing_assets", value=hrefs)
    edit(report, "quality_flags", "missing_assets_count", value=len(hrefs))
    assert check_report(report) == 2


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"[" * 100_000,
        b'{"items":' * 3_000 + b"1" + b"}" * 3_000,
        b"\xff",
        b"\xef\xbb\xbf{}",
        b'{"items":' + b"1" * 5_000 + b"}",
        b'{"items": NaN}',
        b'{"items": [], "items": []}',
    ],
    ids=lambda data: repr(data[:16]),
)
def test_a_machine_report_that_is_none_is_refused(report: Path, data: bytes) -> None:
    (report / "compare-report.json").write_bytes(data)
    assert "compare-report.json" in problems_of(report)


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_a_machine_report_that_is_no_file_is_not_waited_for(
    report: Path, make: Callable[[Path], object]
) -> None:
    (report / "compare-report.json").unlink()
    make(report / "compare-report.json")
    with pytest.raises(BadInput, match="not a file"):
        check_report(report)


def test_an_empty_folder_is_no_report(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="a report directory holds this file"):
        check_report(tmp_path)


def test_what_the_pages_need_must_be_there(report: Path) -> None:
    shutil.rmtree(report / "assets")
    assert "refers to 'assets/report.css', which is not in the report" in problems_of(report)


def test_a_page_that_needs_the_network_is_not_self_contained(report: Path) -> None:
    page = report / "report.html"
    page.write_text(page.read_text().replace("assets/report.css", "https://cdn.example/r.css"))
    assert "needs 'https://cdn.example/r.css'" in problems_of(report)


def test_a_change_that_the_results_do_not_bear_out_is_named(report: Path) -> None:
    edit(report, "items", 1, "change", value="still_passing")
    assert "$.items[1].change: is 'still_passing', but the results say" in problems_of(report)


def test_the_machine_report_alone_leads_to_its_folder(report: Path, evalwright: Evalwright) -> None:
    done = evalwright("validate", "report/compare-report.json")
    assert done.code == 2
    assert "give its folder: report" in done.err


def test_a_suppression_file_is_known_by_its_first_key(evalwright: Evalwright) -> None:
    entry = "kind: pii_in_output, reason: known, expires: 2999-01-01"
    (evalwright.folder / "s.yaml").write_text(f"# accepted\nsuppressions:\n  - {{{entry}}}\n")
    assert evalwright("validate", "s.yaml").out == "s.yaml: valid suppression file\n"

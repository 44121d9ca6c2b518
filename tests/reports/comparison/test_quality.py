"""The quality flags say what is true of the files on disk."""

from io import BytesIO
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comparing import Pair, a_case, a_failure, a_response
from evalwright.reports.comparison.check import Listed, check_quality, file_behind, is_portable
from reported import document_of, report_of


@pytest.mark.parametrize("path", ["case-one.html", "baseline/a~2f.json", "a%20b", "a/b:c", "..x"])
def test_relative_paths_are_portable(path: str) -> None:
    assert is_portable(path)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/passwd",
        "//host/share",
        "../up",
        "a/../../up",
        "%2e%2e/up",
        "..%2fup",
        "%2fetc/passwd",
        "C:/windows",
        "c%3a/windows",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "https://example.com/x",
        "\\\\host\\share",
        "%5c%5chost",
        "a\0b",
        "a%00b",
    ],
)
def test_paths_that_mean_something_else_elsewhere_are_not_portable(path: str) -> None:
    assert not is_portable(path)


@given(st.text("./a").filter(bool))
def test_a_path_is_portable_if_its_parts_stay_in_the_folder(path: str) -> None:
    pure = PurePosixPath(path)
    assert is_portable(path) == (not pure.is_absolute() and ".." not in pure.parts)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "page.html").touch()
    (tmp_path / "odd#name.html").touch()
    (tmp_path / "circle").symlink_to("circle")
    return tmp_path


@pytest.mark.parametrize(
    "href", ["page.html", "page.html#signal-1", "page.html?x=1", "odd%23name.html"]
)
def test_a_link_leads_where_a_browser_would_go(folder: Path, href: str) -> None:
    assert file_behind(folder, href) is not None


@pytest.mark.parametrize("href", ["odd#name.html", "%00", "x" * 300, "y/" * 3000, "circle", "."])
def test_a_link_leads_nowhere_when_a_browser_would_find_nothing(folder: Path, href: str) -> None:
    assert file_behind(folder, href) is None


def links(*hrefs: str) -> BytesIO:
    return BytesIO("".join(f"{href}\n" for href in hrefs).encode())


def lost(*names: str) -> Listed:
    listed = Listed()
    for name in names:
        listed.add(name)
    return listed


def test_flags_are_true_when_every_link_has_its_file(tmp_path: Path) -> None:
    (tmp_path / "page.html").touch()
    flags = check_quality(tmp_path, links("page.html"), lost(), masked=True)
    assert flags.self_contained
    assert flags.portable_paths
    assert flags.missing_assets == flags.path_violations == ()


def test_missing_files_and_absolute_paths_are_counted_and_listed(tmp_path: Path) -> None:
    hrefs = links("gone.html", "/tmp/new.json")
    flags = check_quality(tmp_path, hrefs, lost("assets/lost.body"), masked=False)
    assert not flags.self_contained
    assert not flags.portable_paths
    assert flags.missing_assets == ("assets/lost.body", "gone.html")
    assert flags.path_violations == ("/tmp/new.json",)
    assert (flags.missing_assets_count, flags.path_violations_count) == (2, 1)
    assert flags.secrets_masked is False


@given(names=st.lists(st.text("ab%25/.~:é ", min_size=1, max_size=8), max_size=12))
def test_links_are_judged_alike_alone_and_together(names: list[str]) -> None:
    with TemporaryDirectory() as folder:
        report = Path(folder)
        (report / "a").touch()
        together = check_quality(report, links(*names), lost(), masked=True)
        alone = [check_quality(report, links(name), lost(), masked=True) for name in names]
    assert together.missing_assets == sum((each.missing_assets for each in alone), ())
    assert together.path_violations == sum((each.path_violations for each in alone), ())
    assert together.path_violations == tuple(each for each in names if not is_portable(each))


def test_a_list_too_long_to_read_is_cut_but_counted(tmp_path: Path) -> None:
    names = [f"assets/{number}" for number in range(1_500)]
    flags = check_quality(tmp_path, links(), lost(*names), masked=True)
    assert flags.missing_assets_count == 1_500
    assert len(flags.missing_assets) == 1_000


def test_a_fresh_report_knows_that_its_pages_are_there(tmp_path: Path) -> None:
    pair = Pair(tmp_path / "runs")
    pair.add(a_case("one"), a_response(), a_failure(full_body_saved_to="new/run.json"))
    flags = document_of(report_of(pair))["quality_flags"]
    assert flags["self_contained"] is True
    assert flags["portable_paths"] is True

"""A report that takes the place of an earlier one."""

from pathlib import Path

import pytest

from comparing import Pair, a_case, a_response, files_of
from evalwright.contracts.errors import BadInput
from reported import names_in, report_of, write


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    pair = Pair(tmp_path / "runs")
    pair.add(a_case("one"), a_response(), a_response())
    return pair


def test_nothing_of_the_old_report_stays(pair: Pair) -> None:
    out = report_of(pair)
    (out / "case-gone.html").touch()
    (out / "new" / "gone.json").touch()
    (out / "assets" / "folder").mkdir()
    write(pair, out)
    assert "case-gone.html" not in names_in(out)
    assert names_in(out / "new") == {"one.json", "run.json"}
    assert names_in(out.parent) == {"runs", "report"}


def test_what_a_link_in_the_old_report_leads_to_stays(pair: Pair, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "photo.jpg").touch()
    out = tmp_path / "report"
    out.mkdir()
    (out / "baseline").symlink_to(kept)
    write(pair, out)
    assert names_in(kept) == {"photo.jpg"}
    assert not (out / "baseline").is_symlink()


def test_the_first_strange_file_is_named_and_nothing_is_touched(pair: Pair, tmp_path: Path) -> None:
    out = tmp_path / "report"
    out.mkdir()
    for name in ("case-one.html", "thesis.tex", "notes.txt"):
        (out / name).touch()
    before = files_of(out)
    with pytest.raises(BadInput, match=r"for example 'notes\.txt'"):
        write(pair, out)
    assert files_of(out) == before


def test_an_interrupt_leaves_the_old_report_and_nothing_beside_it(pair: Pair) -> None:
    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    out = report_of(pair)
    before = files_of(out)
    with pytest.raises(KeyboardInterrupt):
        write(pair, out, interrupt)
    assert files_of(out) == before
    assert names_in(out.parent) == {"runs", "report"}

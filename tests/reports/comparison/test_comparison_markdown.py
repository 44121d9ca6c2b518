"""A comparison as Markdown: short, and no text of a run becomes markup."""

from pathlib import Path

import msgspec
import pytest
from hostile_report import a_hostile_report

from evalwright.reports.comparison.machine import MachineReport
from evalwright.reports.comparison.markdown import render_markdown
from evalwright.reports.formats.markdown import inline


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> MachineReport:
    return a_hostile_report(Path(tmp_path_factory.mktemp("markdown")))


@pytest.fixture(scope="module")
def text(report: MachineReport) -> str:
    return render_markdown(report).decode()


def unescaped(line: str, char: str) -> int:
    """How often a character stands in a line without a backslash that takes its meaning."""
    return line.replace("\\\\", "").replace(f"\\{char}", "").count(char)


def test_the_verdict_comes_first_and_the_numbers_after(text: str) -> None:
    assert text.startswith("### ■ Do not ship yet: 2 cases got worse")
    assert "| passed of 5 | 4 | " in text


def test_every_row_of_a_table_has_the_cells_of_its_head(text: str) -> None:
    rows = [line for line in text.splitlines() if line.startswith("|")]
    second = rows.index("| case | what | why | gate |")
    assert {unescaped(row, "|") for row in rows[:second]} == {4}
    assert {unescaped(row, "|") for row in rows[second:]} == {5}


def test_nothing_of_a_run_becomes_markup(text: str) -> None:
    body = text.partition("| case |")[2].replace("<details>", "").replace("</details>", "")
    for char in "<>`[]@#*":
        assert unescaped(body, char) == 0, char
    assert all(char.isprintable() or char == "\n" for char in body)


def test_what_needs_a_look_is_listed_gated_first(text: str) -> None:
    rows = text.partition("|------|------|-----|------|\n")[2].partition("\n\n")[0].splitlines()
    assert rows[0].startswith("| gated Case gated |")
    assert {row.split()[1][:5] for row in rows} == {"gated", "worse", "lost"}


def test_a_long_list_is_cut_and_says_so(report: MachineReport) -> None:
    many = msgspec.structs.replace(report, items=[*report.items] * 20)
    text = render_markdown(many).decode()
    assert "… and 35 more, all in `report.html`." in text


@pytest.mark.parametrize("char", list("\\`*[]#|<>~@&$"))
def test_each_character_with_a_meaning_is_escaped(char: str) -> None:
    assert inline(f"a{char}b") == f"a\\{char}b"


def test_an_underscore_is_escaped_where_it_would_emphasise() -> None:
    assert inline("_a_ b_c") == r"\_a\_ b_c"

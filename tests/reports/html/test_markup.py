"""Only templates write markup, and they escape whatever they are given."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from evalwright.reports.design.markup import marked, render
from reports.html.hostile import HOSTILE
from reports.html.page_reader import Page

SOURCE = Path(__file__).resolve().parents[3] / "src" / "evalwright"
TAG = re.compile(r"</?[a-z][a-z0-9]*[ />]|</$|</?$|<[a-z]+$")
KINDS = re.compile(r"[.<>~]+")  # of the columns of a table on a console
PAGES = ("reports", "host/web")


def modules(*rooms: str) -> Iterator[tuple[str, ast.Module]]:
    for room in rooms:
        for path in (SOURCE / room).rglob("*.py"):
            yield path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text("utf-8"))


def literals(tree: ast.Module) -> Iterator[str]:
    """The texts of a module but for its docstrings and f-strings' values."""
    documented = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and id(node) not in documented:
            yield node.value


def test_python_writes_no_markup_but_where_it_is_told() -> None:
    writing = {
        name
        for name, tree in modules(*PAGES)
        for text in literals(tree)
        if TAG.search(text) and not KINDS.fullmatch(text)
    }
    assert writing == {
        "reports/comparison/case_steps.py",  # lines that differ, which it has escaped
        "reports/design/files.py",  # the sprite, of files of ours
        "reports/design/markup.py",  # words that differ
        "reports/formats/markdown.py",  # parts that open, under an escaped title
        "reports/run/differences.py",  # a pattern
        "reports/run/page.py",  # blocks of base64
        "host/web/page.py",  # times
        "host/web/sign_in.py",
    }


def test_what_is_taken_as_markup_is_ours_or_was_written_by_a_template() -> None:
    trusting = {
        name
        for name, tree in modules(*PAGES)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("safe", "as_markup")
    }
    assert trusting == {
        "reports/comparison/case_page.py",
        "reports/comparison/case_steps.py",
        "reports/comparison/overview.py",
        "reports/design/markup.py",
        "reports/run/page.py",
        "host/web/page.py",
        "host/web/pages/prompts.py",
        "host/web/pages/run.py",
        "host/web/pages/run_tasks.py",
    }


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_marks_escape_what_they_stand_around(text: str) -> None:
    page = Page(str(marked([(True, text), (False, text)], "mark", "got")).encode())
    assert [each.tag for each in page.elements] == ["mark"]


def test_a_template_refuses_what_it_does_not_know() -> None:
    with pytest.raises(Exception, match="undefined"):
        render("run", "notebook.html")

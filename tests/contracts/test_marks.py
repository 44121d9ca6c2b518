"""Marks: two forms, written in one place."""

import ast
import re
from pathlib import Path

from evalwright.contracts.marks import MARK, MARK_START, masked, redacted

OPTIONAL_RUN = ast.dump(ast.keyword("metavar", ast.Constant("[RUN]")))
SOURCE = Path(__file__).parents[2] / "src"


def test_a_mark_names_the_rule_and_a_fingerprint_of_the_value():
    assert masked("email") == "[masked:email]"
    assert masked("github-token", b"abc") == "[masked:github-token#ba7816]"
    assert masked("github-token", b"") == "[masked:github-token#e3b0c4]"
    assert redacted("SHOP_KEY") == "[REDACTED:SHOP_KEY]"


def test_marks_are_recognised():
    for mark in (masked("email"), masked("jwt", b"x"), masked("a" * 40)):
        assert MARK.fullmatch(mark.encode())
        assert mark.encode().startswith(MARK_START)
    for other in (b"[masked:]", b"[masked:A]", b"[masked:a#12345]", b"[masked:" + b"a" * 41 + b"]"):
        assert MARK.search(other) is None


def texts_of(path: Path) -> list[str]:
    """The texts that a module writes; docstrings and regular expressions are left out, and the
    `[RUN]` by which the help names the value of an option that may stand without one."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree))
    said = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    options = (node for node in nodes if isinstance(node, ast.keyword) and node.arg == "metavar")
    said |= {id(option.value) for option in options if ast.dump(option) == OPTIONAL_RUN}
    constants = [node for node in nodes if isinstance(node, ast.Constant)]
    texts = [node.value for node in constants if id(node) not in said]
    return [text for text in texts if isinstance(text, str)]


def test_nothing_else_writes_a_mark():
    marks = re.compile(r"\[(?:masked|REDACTED)\b|^\[[A-Za-z]\w*\]$|^\u2022$", re.ASCII)
    near = re.compile(
        r"\[(?:masked|REDACTED)\b|[\"'}]\[[A-Za-z]\w*\][\"'{]|\u2022|\\u2022|\\x5b|\\u005b"
    )
    modules = [path for path in SOURCE.rglob("*.py") if near.search(path.read_text("utf-8"))]
    found = {path.name for path in modules if any(map(marks.search, texts_of(path)))}
    assert found == {"marks.py"}

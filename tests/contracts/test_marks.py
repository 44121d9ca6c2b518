"""Marks: two forms, written in one place."""

import re
from pathlib import Path

from evalwright.contracts.marks import MARK, MARK_START, masked, redacted

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


def test_nothing_else_writes_a_mark():
    writes = re.compile(
        r"""f["'][^"'\n]*\[(?:masked:|REDACTED)|["']\[(?:masked:[a-z-]+|REDACTED\S*)\]"""
    )
    found = {
        path.name
        for path in SOURCE.rglob("*.py")
        if any(map(writes.search, path.read_text(encoding="utf-8").split("\n")))
    }
    assert found == {"marks.py"}

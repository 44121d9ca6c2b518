"""The design system: every class has a part, every part is used, and the sheet shows all tokens."""

import re
from pathlib import Path

import evalwright
from evalwright.reports.design.files import text
from evalwright.reports.design.markup import style_sheet

SOURCES = Path(evalwright.__file__).parent
TEMPLATES = [each.read_text() for each in sorted(SOURCES.rglob("templates/*.html"))]
CLASS = re.compile(r"[a-z][a-z0-9-]*")
STYLES = re.sub(r"/\*.*?\*/", "", style_sheet() + text("sheet.css"), flags=re.DOTALL)
STYLED = set(re.findall(rf"\.({CLASS.pattern})", STYLES))


def classes_of(template: str) -> set[str]:
    """The classes that a template writes, but those that it puts together."""
    template = re.sub(r"\{%.*?%\}|\{#.*?#\}", " ", template, flags=re.DOTALL)
    template = re.sub(r"\S*\{\{.*?\}\}\S*", lambda found: '"' * found[0].count('"'), template)
    named = re.findall(r'class="([^"<>]*)"', template)
    return {each for names in named for each in names.split() if CLASS.fullmatch(each)}


def test_no_class_is_used_that_has_no_part() -> None:
    hooks = {"both", "c-answer", "c-reason"}  # what scripts and tests look for
    used = set().union(*map(classes_of, TEMPLATES))
    assert len(used) > 100
    assert used - STYLED - hooks == set()


def test_no_part_is_left_that_nothing_uses() -> None:
    scripts = [
        each.read_text() for each in SOURCES.rglob("static/*.*") if each.suffix in (".js", ".svg")
    ]
    python = [each.read_text() for each in SOURCES.rglob("*.py")]
    known = set(re.findall(r"[a-z][a-z0-9-]*", " ".join([*TEMPLATES, *scripts, *python])))
    made = re.compile(r"(dot|is)-(pass|fail|warn|idle|error|none)|t\d\d")  # put together of words
    assert {each for each in STYLED - known if not made.fullmatch(each)} == set()


def test_the_sheet_shows_every_token() -> None:
    sheet = next(each for each in TEMPLATES if "Every token and part in one place" in each)
    tokens = set(re.findall(r"--([a-z][a-z0-9-]*):", text("tokens.css")))
    shown = set(re.findall(r"[a-z][a-z0-9-]*", sheet))
    spaces = {f"s{number}" for number in re.findall(r"\((\d+), \d+\)", sheet)}
    sizes = {f"t-{size}" for size in re.findall(r'\("(\d\d)", "', sheet)}
    assert tokens - shown - spaces - sizes == set()

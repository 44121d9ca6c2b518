"""What the type checker proves of pages: text from outside cannot become markup unescaped."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ALLOWED = """
from evalwright.reports.formats.html import Html, as_markup, quoted_html, text_html

def page(name: str, count: int, rows: list[Html]) -> Html:
    title = Html(f'<h1 title="{quoted_html(name)}">{text_html(name)} {count:,}</h1>')
    as_markup(title)
    return Html(title + Html("".join(rows)) + (title if count else Html("")))
"""
REFUSED = [
    'Html(name)',
    'Html(f"<h1>{name}</h1>")',
    'Html(f"<h1>{name!r}</h1>")',
    'Html("<h1>" + name)',
    'Html("<h1>%s</h1>" % name)',
    'Html("<h1>{}</h1>".format(name))',
    'Html("".join([name]))',
    'Html("".join(names))',
    'Html("" if names else name)',
    'Html(unknown)',
    'as_markup(name)',
    'as_markup(f"<b>{text_html(name)}</b>")',
]  # fmt: skip
SIGNATURE = "name: str, names: list[str], unknown: Any"


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What mypy says of a module with all that is allowed, then one refused line per function."""
    checked = tmp_path_factory.mktemp("typed") / "drill.py"
    lines = [
        f"def refused_{number}({SIGNATURE}) -> None:\n    {line}"
        for number, line in enumerate(REFUSED)
    ]
    checked.write_text("from typing import Any\n" + ALLOWED + "\n".join(lines) + "\n")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", str(checked)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.stderr
    return [line for line in done.stdout.splitlines() if "drill.py" in line and "error:" in line]


def test_literals_numbers_and_markup_are_allowed_and_plain_text_is_refused(
    told: list[str],
) -> None:
    first = len(ALLOWED.splitlines()) + 3
    wanted = [first + 2 * number for number in range(len(REFUSED))]
    found = sorted({int(re.findall(r"drill\.py:(\d+):", line)[0]) for line in told})
    assert found == wanted, "\n".join(told)


def test_markup_is_made_of_text_by_the_escapers_and_templates_only() -> None:
    trusting = {
        path.name: source.count("type: ignore[unescaped]")
        for path in (ROOT / "src").rglob("*.py")
        if "ignore[unescaped]" in (source := path.read_text())
    }
    assert trusting == {"html.py": 6, "files.py": 2}  # files of the design are ours
    using_templates = {
        path.relative_to(ROOT / "src" / "evalwright").as_posix()
        for path in (ROOT / "src").rglob("*.py")
        if "import minijinja" in path.read_text() or "from minijinja" in path.read_text()
    }
    # Templates of suites are the user's own; what they make is data, escaped like any other.
    assert using_templates == {"reports/formats/html.py", "engine/suites/templates.py"}


def test_the_maker_of_markup_is_not_passed_on() -> None:
    # Only calls are checked: `map(Html, texts)` and `cast(Html, text)` would be trusted.
    passing = {
        path.name
        for path in (ROOT / "src").rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(call, ast.Call)
        for given in (*call.args, *(each.value for each in call.keywords))
        if ast.unparse(given) in ("Html", "'Html'")
    }
    assert passing == {"html.py"}

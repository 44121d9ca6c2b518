"""llms.txt: what coding agents read first."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_llms_txt_lists_every_page_of_the_documentation() -> None:
    written = (ROOT / "llms.txt").read_text()
    due = runpy.run_path(str(ROOT / "tools" / "llms.py"))["llms_text"]()
    assert written == due, "docs/README.md changed: run `python tools/llms.py`"
    pages = {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")} - {"docs/README.md"}
    assert {page for page in pages if f"({page})" not in written} == set()

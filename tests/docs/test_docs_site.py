"""The site of `make docs` has every page, and every link of a page leads to something on it."""

import importlib.util
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from doc_pages import PAGES, ROOT, links

BUILD = ROOT / "tools" / "site" / "build.py"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_build", BUILD)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "STAGE", tmp_path / "stage")
    return module


def listed(entry: object) -> set[str]:
    """The pages that an entry of the navigation leads to."""
    if isinstance(entry, str):
        return {entry}
    parts = entry.values() if isinstance(entry, dict) else entry
    assert not isinstance(parts, str)
    return {page for part in parts for page in listed(part)}


def test_every_page_is_in_the_navigation(site: ModuleType) -> None:
    nav = tomllib.loads(site.navigation())["project"]["nav"]
    docs = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert listed(nav) == {"index.md", *docs, *site.BESIDE.values()}


def test_every_page_is_staged_with_links_that_lead_somewhere(site: ModuleType) -> None:
    site.stage_pages()
    pages = sorted((site.STAGE / "pages").glob("*.md"))
    assert len(pages) == len(PAGES)
    for page in pages:
        for target in links_of(page):
            assert (page.parent / target).is_file(), f"{page.name}: {target}"


def links_of(page: Path) -> set[str]:
    targets = {target.partition("#")[0] for target in links(page)}
    return {target for target in targets if target and "://" not in target}


def test_a_fence_keeps_its_language_and_title_only(site: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text('```console needs="curl"\n```\n```yaml title="a.yaml"\n```\n| `a \\| b` |\n')
    text = site.staged_text(page, {})
    assert text == '```console\n```\n```yaml title="a.yaml"\n```\n| `a | b` |\n'


def test_a_link_out_of_the_project_is_refused(site: ModuleType, tmp_path: Path) -> None:
    page = ROOT / "docs" / "page.md"
    link = site._LINK.search("[x](../../elsewhere.md)")
    with pytest.raises(SystemExit, match=r"docs/page.md: \.\./\.\./elsewhere.md is not a file"):
        site.staged_link(link, page, {})

"""What must and must not stand in the documentation: links, paths, hosts, the picture."""

import html
import re
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest
from doc_pages import PAGES, ROOT, anchors, blocks, links, name_of, words_before
from doc_session import Session

PICTURE = ROOT / "docs" / "images" / "scorecard.svg"
WRITTEN = [
    *PAGES,
    *(path for path in (ROOT / "docs").glob("**/*") if path.suffix in {".svg", ".py"}),
]

# Folders of one machine, and hosts that a reader of these pages never needs.
FOLDERS = re.compile(
    r"(?<![\w.~-])/(?:root|home|work|tmp|var|opt|mnt|srv|Users|private)/", re.IGNORECASE
)
REGISTRIES = re.compile(
    r"pypi\.org|pythonhosted|npmjs|artifactory(?!-key`)|nexus|index-url|conda\.anaconda|ghcr\.io|\.internal\b"
)
HOSTS = re.compile(r"https?://([^/\s)\"'`<>:]+)")
KNOWN_HOSTS = {"127.0.0.1", "agents.example", "keepachangelog.com", "semver.org", "www.w3.org", "…"}
EMOJI = re.compile("[\U0001f300-\U0001faff\u2600-\u26ff\u2705\u274c\u2b50]")


@pytest.mark.parametrize("page", [name_of(page) for page in PAGES])
def test_links_lead_somewhere(page: str) -> None:
    for target in links(ROOT / page):
        if target.startswith(("http://", "https://")):
            continue
        file, _, anchor = target.partition("#")
        there = (ROOT / page).parent / file if file else ROOT / page
        assert there.exists(), f"{page}: {target} leads nowhere"
        assert not anchor or anchor in anchors(there), f"{page}: {target} has no such heading"


@pytest.mark.parametrize("name", [name_of(path) for path in WRITTEN])
def test_nothing_points_at_one_machine(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    for pattern in (FOLDERS, REGISTRIES):
        found = pattern.search(text)
        assert found is None, f"{name}: {text[max(0, found.start() - 40) : found.end() + 40]!r}"
    assert set(HOSTS.findall(text)) <= KNOWN_HOSTS


@pytest.mark.parametrize("page", [name_of(page) for page in PAGES])
def test_pages_are_plain(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    assert EMOJI.search(text) is None
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    assert text.startswith("# ")


@pytest.mark.parametrize("page", [name_of(page) for page in PAGES])
def test_the_name_of_a_file_is_said_before_its_content(page: str) -> None:
    """What a fence says is not shown to readers."""
    for block in blocks(ROOT / page):
        name = block.options.get("title")
        assert name is None or f"`{name}`" in words_before(ROOT / page, block), (
            f"{block.place}: the paragraph before the block does not name `{name}`"
        )


@pytest.mark.parametrize(
    "page",
    [
        "adversarial",
        "agent-guide",
        "command-line",
        "compare",
        "event-reference",
        "from-other-tools",
        "host",
        "judges",
        "manifest-agents",
        "memory",
        "models",
        "packs",
        "prompteval",
        "quickstart",
        "regression",
        "repeats",
        "signals",
        "suite-reference",
        "tool-gateway",
        "tools",
        "suites",
        "write-evals",
    ],
)
def test_a_page_asks_for_a_fresh_folder_before_its_first_file(page: str) -> None:
    before, _, _ = (ROOT / "docs" / f"{page}.md").read_text("utf-8").partition('title="')
    assert "a fresh folder" in before


def test_every_page_is_in_the_index() -> None:
    index = ROOT / "docs" / "README.md"
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert pages <= set(links(index))


def test_the_changelog_has_this_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert "## [Unreleased]" in changelog
    assert f"## [{project['project']['version']}]" in changelog


def test_the_picture_loads_nothing() -> None:
    picture = PICTURE.read_text("utf-8")
    assert "@font-face" not in picture
    assert "href" not in picture
    assert "<image" not in picture
    assert set(re.findall(r"url\((.)", picture)) <= {"#"}


@pytest.mark.skipif(sys.platform == "win32", reason="the commands of the docs are tried with bash")
def test_the_picture_shows_what_the_demo_prints(tmp_path: Path) -> None:
    session = Session(tmp_path)
    try:
        answer = session.run("evalwright demo 2> progress.txt")
        session.compare(drawn_text(), f"$ evalwright demo\n{answer.output}", "scorecard.svg")
    finally:
        session.close()


def drawn_text() -> str:
    """The text of the picture, line by line, without its indent: pieces at the same height."""
    pieces = re.findall(
        r'<text class="scorecard-r\d+" x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)</text>',
        PICTURE.read_text("utf-8"),
    )
    lines: dict[float, list[tuple[float, str]]] = {}
    for x, y, text in pieces:
        lines.setdefault(float(y), []).append((float(x), html.unescape(text).replace("\xa0", " ")))
    return textwrap.dedent("\n".join(_line(lines[y]) for y in sorted(lines)))


def _line(pieces: list[tuple[float, str]]) -> str:
    line = ""
    for x, text in sorted(pieces):
        if text.strip("\n"):
            line = line.ljust(round(x / 12.2)) + text
    return line.rstrip()

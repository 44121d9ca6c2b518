"""Pages of the documentation, taken apart: code blocks, sections, tables and links."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").glob("**/*.md")),
]

_FENCE = re.compile(r"^```(?P<language>[a-z]*)(?P<info>.*)$")
_OPTION = re.compile(r'(?P<name>[a-z]+)="(?P<value>[^"]*)"|(?P<flag>[a-z]+)')
_LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, what the fence says besides, and its text."""

    page: str
    line: int
    language: str
    options: dict[str, str]
    text: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path, text: str | None = None) -> list[Block]:
    """All fenced blocks of a page, in order."""
    found: list[Block] = []
    fence: re.Match[str] | None = None
    begun, lines = 0, list[str]()
    for number, line in enumerate((text or page.read_text("utf-8")).splitlines(), 1):
        if fence is None:
            fence, begun, lines = _FENCE.match(line), number, []
        elif line.rstrip() == "```":
            options = _options(fence["info"])
            content = "".join(f"{line}\n" for line in lines)
            found.append(Block(name_of(page), begun, fence["language"], options, content))
            fence = None
        else:
            lines.append(line)
    assert fence is None, f"{name_of(page)}:{begun}: the fence is never closed"
    return found


def words_before(page: Path, block: Block) -> str:
    """The paragraph right before a block; empty if another block or a heading stands there."""
    lines = page.read_text("utf-8").splitlines()[: block.line - 1]
    while lines and not lines[-1].strip():
        lines.pop()
    paragraph: list[str] = []
    while lines and lines[-1].strip() and not lines[-1].startswith(("#", "```", "|")):
        paragraph.insert(0, lines.pop())
    return " ".join(paragraph)


def prose(page: Path) -> str:
    """The text of a page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)


def links(page: Path) -> list[str]:
    """The targets of all links and pictures."""
    return [found["target"] for found in _LINK.finditer(prose(page))]


def anchors(page: Path) -> set[str]:
    """The anchors that headings give, as GitHub makes them."""
    return {_anchor(title) for _, title in headings(page)}


def headings(page: Path) -> Iterator[tuple[int, str]]:
    """Level and title of every heading."""
    for line in prose(page).splitlines():
        found = re.match(r"(#+) (.*)", line)
        if found:
            yield len(found[1]), found[2].strip()


def section(page: Path, title: str) -> str:
    """The prose under a heading, up to the next one of its level or above."""
    lines = prose(page).splitlines()
    for start, line in enumerate(lines):
        found = re.match(r"(#+) (.*)", line)
        if found and found[2].strip() == title:
            end = re.compile(rf"#{{1,{len(found[1])}}} ")
            rest = lines[start + 1 :]
            stop = next((n for n, text in enumerate(rest) if end.match(text)), len(rest))
            return "\n".join(rest[:stop])
    raise AssertionError(f"{name_of(page)} has no section {title!r}")


def rows(text: str) -> list[list[str]]:
    """The rows of all tables in a text, without heads and rulers."""
    found: list[list[str]] = []
    table: list[list[str]] = []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            table.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
        else:
            found += table[2:]
            table = []
    return found


def code(cell: str) -> str:
    """What stands between back-ticks in a cell."""
    found = re.search(r"`(.+?)`", cell)
    return found[1] if found else ""


def _options(info: str) -> dict[str, str]:
    return {
        found["name"] or found["flag"]: found["value"] or "" for found in _OPTION.finditer(info)
    }


def _anchor(title: str) -> str:
    kept = re.sub(r"[^\w\- ]", "", title.replace("`", "").lower())
    return kept.replace(" ", "-")

"""Build the documentation as a static site that loads nothing from elsewhere: `make docs`."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parents[2]
STAGE = ROOT / ".site"
SITE = STAGE / "html"
BESIDE = {  # pages outside of docs/, and their names on the site
    "README.md": "overview.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
_FENCE = re.compile(r"^(?P<fence>```[a-z]*)(?P<info>.*)$")
_TITLE = re.compile(r'title="[^"]*"')
_LINK = re.compile(r"(?P<head>\]\()(?P<target>[^)\s#]*)(?P<anchor>#[^)\s]*)?\)")
_ROW = re.compile(r"^\| \[(?P<title>[^\]]+)\]\((?P<page>[^)#]+\.md)\)")
_GROUP = re.compile(r"^(?P<title>[A-Z][^|.]*):$")


def main() -> int:
    """Stage the pages, build them strictly, and follow every link of the result."""
    shutil.rmtree(STAGE, ignore_errors=True)
    stage_pages()
    settings = (Path(__file__).parent / "zensical.toml").read_text("utf-8")
    (STAGE / "zensical.toml").write_text(settings + "\n" + navigation(), "utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    built = subprocess.run(command, cwd=STAGE, check=False)
    if built.returncode != 0:
        return built.returncode
    problems = [*links_to_nowhere(), *loads_from_elsewhere()]
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        print(f"{len(list(SITE.glob('*.html')))} pages in {SITE.relative_to(ROOT)}/index.html")
    return 1 if problems else 0


def stage_pages() -> None:
    """Copy docs/ and the pages beside it, with their links set to where each page now is."""
    docs, pages = ROOT / "docs", STAGE / "pages"
    shutil.copytree(docs, pages, ignore=shutil.ignore_patterns("*.md", "*.py", "__pycache__"))
    places = {docs / "README.md": "index.md"}
    places |= {page: page.name for page in docs.glob("*.md") if page.name != "README.md"}
    places |= {ROOT / name: staged for name, staged in BESIDE.items()}
    for page, name in places.items():
        (pages / name).write_text(staged_text(page, places), "utf-8")


def staged_text(page: Path, places: dict[Path, str]) -> str:
    """The text of a page as the generator understands it: GitHub's Markdown differs in details."""
    lines, in_fence = list[str](), False
    for line in page.read_text("utf-8").splitlines():
        fence = _FENCE.match(line)
        if fence:
            in_fence = not in_fence
            title = _TITLE.search(fence["info"])
            lines.append(f"{fence['fence']} {title[0]}" if title else fence["fence"])
        elif in_fence:
            lines.append(line)
        else:
            cells = re.sub(r"`[^`]*`", lambda code: code[0].replace(r"\|", "|"), line)
            linked = _LINK.sub(lambda link: staged_link(link, page, places), cells)
            lines.append(linked)
    return "\n".join(lines) + "\n"


def staged_link(link: re.Match[str], page: Path, places: dict[Path, str]) -> str:
    """A link as it must be on the site, which gets a copy of a file from outside of docs/."""
    target, anchor = link["target"], link["anchor"] or ""
    if not target or urlsplit(target).scheme:
        return link[0]
    there = (page.parent / target).resolve()
    name = places.get(there)
    if name is None and there.is_relative_to(ROOT / "docs"):
        name = there.relative_to(ROOT / "docs").as_posix()
    if name is None and there.is_file() and there.is_relative_to(ROOT):
        name = f"files/{there.relative_to(ROOT).as_posix()}.txt"
        (STAGE / "pages" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(there, STAGE / "pages" / name)
    if name is None:
        raise SystemExit(f"{page.relative_to(ROOT)}: {target} is not a file of the project")
    return f"{link['head']}{name}{anchor})"


def navigation() -> str:
    """The pages in the order of the tables in docs/README.md, one group for each table."""
    entries, group = ['[[project.nav]]\n"Documentation" = "index.md"'], "Start"
    groups: dict[str, list[str]] = {}
    for line in (ROOT / "docs" / "README.md").read_text("utf-8").splitlines():
        heading, row = _GROUP.match(line), _ROW.match(line)
        if heading:
            group = heading["title"]
        elif row:
            page = BESIDE.get(row["page"].removeprefix("../"), row["page"])
            groups.setdefault(group, []).append(f'{{ "{row["title"]}" = "{page}" }}')
    entries += [
        f'[[project.nav]]\n"{title}" = [{", ".join(pages)}]' for title, pages in groups.items()
    ]
    return "\n\n".join(entries) + "\n"


class PageLinks(HTMLParser):
    """The ids of a page, where its links lead, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what an element refers to."""
        found = {name: value or "" for name, value in attrs}
        self.ids |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        elif tag == "link" and found.get("rel") not in {"canonical", "prev", "next"}:
            self.loads.append(found.get("href", ""))
        elif "src" in found:
            self.loads.append(found["src"])


def read_site() -> dict[Path, PageLinks]:
    return {page: PageLinks(page.read_text("utf-8")) for page in sorted(SITE.rglob("*.html"))}


def links_to_nowhere() -> Iterator[str]:
    """Links of the site whose file or heading does not exist."""
    pages = read_site()
    for page, found in pages.items():
        for link in [*found.links, *found.loads]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            folder = SITE if parts.path.startswith("/") else page.parent
            there = (folder / unquote(parts.path).lstrip("/")).resolve() if parts.path else page
            there = there / "index.html" if there.is_dir() else there
            name = page.relative_to(SITE)
            if not there.exists():
                yield f"{name}: {link} leads nowhere"
            elif there in pages and unquote(parts.fragment) not in {"", *pages[there].ids}:
                yield f"{name}: {link} has no such heading"


def loads_from_elsewhere() -> Iterator[str]:
    """Scripts, styles, fonts and pictures that a page would fetch from another host."""
    for page, found in read_site().items():
        for load in found.loads:
            if urlsplit(load).netloc:
                yield f"{page.relative_to(SITE)}: {load} is loaded from elsewhere"


if __name__ == "__main__":
    sys.exit(main())

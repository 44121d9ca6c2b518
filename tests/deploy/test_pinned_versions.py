"""What is fetched is named by a full version, and never by a name that is not ours."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"))
    if path.name != "CHANGELOG.md"
)
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MANIFESTS = sorted((ROOT / "deploy").rglob("*.y*ml"))
READ = [
    ROOT / "Dockerfile",
    ROOT / "compose.yaml",
    ROOT / "action.yml",
    *WORKFLOWS,
    *MANIFESTS,
    *PAGES,
]
SOURCES = [*READ, *(ROOT / "src").rglob("*.py"), *(ROOT / "tools").rglob("*.py")]

_USED = re.compile(r"^\s*(?:- )?uses: *['\"]?([^\s'\"#]+)", re.MULTILINE)
_IMAGE = re.compile(
    r"(?:^FROM |^\s*(?:- )?image: *|[{ ]image: *|\bimage |\bcontainer: *)['\"]?([^\s'\"#}]+)",
    re.MULTILINE,
)
_FULL_ACTION = re.compile(r"[\w.-]+/[\w./-]+@(?:v\d+\.\d+\.\d+|[0-9a-f]{40})")
_FULL_IMAGE = re.compile(r"[\w./-]+:\d+\.\d+(?:\.\d+)?[\w.-]*(?:@sha256:[0-9a-f]{64})?")
# Ours: built from the Dockerfile, its stages, and a copy of this repository at a commit.
OURS = {"evalwright", "python", "YOUR-ORG/evalwright@COMMIT", "python:${{", "github/similarity"}
_INSTALLED = re.compile(
    r"(?:pip3? install|pipx (?:install|run)|uvx|uv tool (?:install|run)|uv add|uv pip install)\b"
    r"[^\n`#]*?(?<![\w/@.-])(?:evalwright|prompteval)(?![\w/.-])"
)


@pytest.mark.parametrize("path", READ, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_images_and_actions_are_named_by_a_full_version(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    actions = {each for each in _USED.findall(text) if "@" in each} - OURS
    assert [each for each in sorted(actions) if not _FULL_ACTION.fullmatch(each)] == []
    images = set(_IMAGE.findall(text)) - OURS
    if path.suffix == ".md" or path.name == "Dockerfile" or path in MANIFESTS:  # it is also a word
        images = {each for each in images if re.search(r"\w:\w", each)}
    assert [each for each in sorted(images) if not _FULL_IMAGE.fullmatch(each)] == []


def test_the_images_of_the_matrix_are_those_of_its_pythons() -> None:
    (ci,) = (yaml.safe_load(path.read_text()) for path in WORKFLOWS)
    for each in ci["jobs"]["checks"]["strategy"]["matrix"]["include"]:
        assert re.fullmatch(rf"{re.escape(each['python'])}\.\d+", each["release"])


def test_what_renews_versions_looks_everywhere() -> None:
    document = yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text())
    kinds = {(each["package-ecosystem"], each["directory"]) for each in document["updates"]}
    assert {(kind, "/") for kind in ("uv", "github-actions", "docker", "docker-compose")} == kinds


def test_nothing_says_to_install_by_a_name_that_nobody_here_owns() -> None:
    """An index would hand out whatever somebody has registered under our name."""
    found = {path: _INSTALLED.findall(path.read_text(encoding="utf-8")) for path in SOURCES}
    assert not {path for path, commands in found.items() if commands}


@pytest.mark.parametrize(
    ("text", "is_refused"),
    [
        ("pip install evalwright", True),
        ("uvx evalwright run", True),
        ("pip install 'evalwright[mcp]'", True),
        ("pip install -q evalwright==0.2", True),
        ("pip install PATH_TO_THE_CLONE", False),
        ("pip install ./evalwright", False),
        ('pip install "git+https://git.example/us/evalwright@abc"', False),
        ("uv run evalwright", False),
    ],
)
def test_the_test_before_tells_names_from_places(text: str, is_refused: bool) -> None:  # noqa: FBT001
    assert bool(_INSTALLED.search(text)) == is_refused

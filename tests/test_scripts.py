"""Scripts beside the source (benchmarks, tools, pictures) import what is there."""

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted(
    path
    for folder in ("benchmarks", "docs", "tools")
    for path in (ROOT / folder).rglob("*.py")
    if ".envs" not in path.parts  # what benchmarks install
)


def missing(path: Path) -> list[str]:
    """The names that a script imports from Evalwright in vain."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("evalwright"):
            continue
        try:
            module = importlib.import_module(node.module)
        except ImportError:
            found.append(node.module)
            continue
        found += [
            f"{node.module}.{each.name}" for each in node.names if not offers(module, each.name)
        ]
    return found


def offers(module, name: str) -> bool:
    try:
        return hasattr(module, name) or bool(importlib.import_module(f"{module.__name__}.{name}"))
    except ImportError:
        return False


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_script_imports_what_is_there(path):
    assert missing(path) == []

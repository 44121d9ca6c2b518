"""Limits that only an accident reaches; proportions follow the thought."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
MODULES = sorted(SOURCE.rglob("*.py"))
LONGEST_FUNCTION = 120
LONGEST_MODULE = 1000
MOST_SHARED_NAMES = 8


def name(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


@pytest.fixture(scope="module")
def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in MODULES}


def functions(path: Path, tree: ast.Module) -> list[tuple[str, int]]:
    """Every function of a module, nested ones too, with its length in lines."""
    return [
        (f"{name(path)}:{node.lineno} {node.name}", (node.end_lineno or 0) - node.lineno + 1)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def test_the_source_is_found():
    assert "evalwright/scoring/golden.py" in {name(path) for path in MODULES}


def test_a_module_stays_short_enough_to_be_one_room():
    lines = {name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert {path: count for path, count in lines.items() if count > LONGEST_MODULE} == {}


def test_no_function_is_longer_than_two_screens(trees):
    lengths = [each for path, tree in trees.items() for each in functions(path, tree)]
    assert [found for found, lines in lengths if lines > LONGEST_FUNCTION] == []


def test_hardly_any_class_name_stands_in_two_modules(trees):
    """One name for one thing: a leading underscore makes no other name."""
    places: dict[str, set[str]] = {}
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name.lstrip("_"), set()).add(name(path))
    shared = {each: sorted(found) for each, found in places.items() if len(found) > 1}
    assert len(shared) <= MOST_SHARED_NAMES, shared

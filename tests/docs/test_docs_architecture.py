"""The page on the architecture names packages, tables and files that exist."""

import importlib
import re
import tomllib

from doc_pages import ROOT, code, prose, rows, section

PAGE = ROOT / "docs" / "architecture.md"
_TABLE = re.compile(r"`(?P<table>\w+)` in `(?P<module>[\w/]+)\.py`")
_FILE = re.compile(r"`(?P<path>(?:tests|engine|contracts|models)/[\w/]+\.py)`")
_NEW_FILE = re.compile(r"Here is `(?P<path>[\w/]+\.py)`")


def test_the_packages_are_those_that_the_import_linter_knows_in_its_order() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    layers = " | ".join(settings["contracts"][0]["layers"]).split(" | ")
    assert [code(row[0]) for row in rows(section(PAGE, "Packages"))] == layers


def test_every_table_of_a_recipe_exists() -> None:
    found = _TABLE.findall(prose(PAGE))
    assert len(found) == 11
    for table, module in found:
        name = f"evalwright.{module.replace('/', '.')}"
        assert hasattr(importlib.import_module(name), table), f"{name} has no {table}"


def test_every_file_that_is_named_exists() -> None:
    text = prose(PAGE)
    for path in set(_FILE.findall(text)) - set(_NEW_FILE.findall(text)):
        there = ROOT / path if path.startswith("tests/") else ROOT / "src" / "evalwright" / path
        assert there.is_file(), path

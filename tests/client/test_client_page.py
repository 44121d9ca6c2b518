"""The page about the client knows every method, and each with its first parameters."""

import inspect
import re
from pathlib import Path

from evalwright.client import Client

PAGE = (Path(__file__).parents[2] / "docs" / "client.md").read_text("utf-8")
ROW = re.compile(r"^\| `(\w+)\((.*?)\)` \|", re.MULTILINE)


def shown() -> dict[str, list[str]]:
    names = {name: told.split(", ") for name, told in ROW.findall(PAGE)}
    return {
        name: [each.partition("=")[0] for each in told if each not in ("", "…")]
        for name, told in names.items()
    }


def test_every_method_is_on_the_page_and_no_other():
    methods = {name for name, _ in inspect.getmembers(Client, inspect.isfunction)}
    assert set(shown()) == {name for name in methods if not name.startswith("_")}


def test_parameters_are_named_as_they_are():
    for name, told in shown().items():
        real = list(inspect.signature(getattr(Client, name)).parameters)[1:]
        assert real[: len(told)] == told, name

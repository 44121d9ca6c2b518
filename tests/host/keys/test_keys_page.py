"""The page on keys says all that the code has, and nothing that it has not."""

import re
from pathlib import Path

from evalwright.cli.keys import create
from evalwright.host.access.keys import DEFAULT_SCOPES, SCOPES, Key

PAGE = (Path(__file__).parents[3] / "docs" / "keys.md").read_text("utf-8")


def table(title: str) -> list[list[str]]:
    section = PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]
    return [re.split(r" *\| *", line)[1:-1] for line in section.splitlines() if "| `" in line[:3]]


def test_every_scope_is_explained_and_whether_a_plain_key_has_it() -> None:
    documented = {row[0].strip("`"): (row[1], row[2] == "yes") for row in table("Scopes")}
    assert documented == {
        scope: (meaning, scope in DEFAULT_SCOPES) for scope, meaning in SCOPES.items()
    }


def test_every_option_of_create_is_explained() -> None:
    options = {name for param in create.params for name in param.opts if name.startswith("--")}
    documented = {row[0].strip("`").split()[0] for row in table("Make a key")}
    assert documented == options - {"--db"}


def test_every_field_of_a_listed_key_is_named() -> None:
    listed = PAGE.partition("## List keys\n")[2].partition("\n## ")[0]
    for field in (*Key.__struct_encode_fields__, "state"):
        assert f"`{field}`" in listed

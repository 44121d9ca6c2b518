"""Python names, commands, options, exit codes and schemas are as they were in an earlier tree.

`public_interface.json` has what that tree offered, with the command that told it, what has changed
since and why, and the names that are new.
"""

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
TOOL = runpy.run_path(str(HERE.parent / "tools" / "public_interface.py"))
STORED = json.loads((HERE / "public_interface.json").read_text("utf-8"))
UPDATE = "python tools/public_interface.py --update tests/public_interface.json"


@pytest.fixture(scope="module")
def now() -> dict[str, str]:
    return TOOL["public_interface"]()


def test_nothing_that_users_name_has_gone_or_changed(now: dict[str, str]) -> None:
    due: dict[str, Any] = STORED["before"] | {
        name: change["now"] for name, change in STORED["changed"].items()
    }
    assert {name: now.get(name) for name in due} == due


def test_what_is_new_is_listed(now: dict[str, str]) -> None:
    assert TOOL["additions"](STORED["before"], now) == STORED["new"], f"list it with `{UPDATE}`"


def test_every_change_has_a_reason() -> None:
    for name, change in STORED["changed"].items():
        assert change["now"] != STORED["before"][name], name
        assert change["why"]

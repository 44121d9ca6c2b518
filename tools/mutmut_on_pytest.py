"""A pytest plugin that lets mutmut 3.8 work with this project's tests.

mutmut reads `_nodeid` of an item, which newer versions of pytest lack. And while it collects
which test covers what, a command that a test starts in another folder must not collect too: it
would not find mutmut's settings there.
"""

import os
import subprocess
from typing import Any

import pytest

VARIABLE = "MUTANT_UNDER_TEST"
COLLECTING = {"stats", "list_all_tests"}

if not hasattr(pytest.Item, "_nodeid"):
    pytest.Item._nodeid = property(lambda item: item.nodeid)  # type: ignore[attr-defined]

_start = subprocess.Popen.__init__


def _without_collecting(process: Any, *arguments: Any, **options: Any) -> None:
    environment = options.get("env")
    environment = dict(os.environ if environment is None else environment)
    if environment.get(VARIABLE) in COLLECTING:
        options["env"] = {**environment, VARIABLE: ""}
    _start(process, *arguments, **options)


subprocess.Popen.__init__ = _without_collecting  # type: ignore[method-assign]

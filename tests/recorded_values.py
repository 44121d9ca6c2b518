"""Values that tests compare, whole, with JSON files beside them.

To write the files anew after an intended change, set RECORD_VALUES=1 for one run of the
tests, and read what changed in them before it is committed:

    RECORD_VALUES=1 .venv/bin/pytest -n 0 tests/comparison/test_recorded.py
"""

import json
import os
from pathlib import Path
from typing import Any

import msgspec


def assert_as_recorded(file: Path, value: Any) -> None:
    """Hold a value against the JSON file, in every field and in the order of every list."""
    plain = json.loads(msgspec.json.encode(value), parse_float=_rounded)
    if os.environ.get("RECORD_VALUES") == "1" and "CI" not in os.environ:
        text = json.dumps(plain, indent=1, sort_keys=True, ensure_ascii=False)
        file.write_text(f"{text}\n", encoding="utf-8")
    assert plain == json.loads(file.read_text(encoding="utf-8"))


def _rounded(number: str) -> float:
    """What no two processors reckon differently."""
    return float(f"{float(number):.10g}")

"""Snapshots: everything that a room says of some inputs, held against a file beside the test.

A change that is meant is taken over with `REWRITE_SNAPSHOTS=1 pytest <the test>`, and
the difference of the file is read before it is committed. Under CI the variable does nothing.
"""

import json
import os
from pathlib import Path
from typing import Any

import msgspec

DIGITS = 10  # of numbers: the last few differ between machines
LEAST = 1e-12  # what is nearer to 0 is 0


def check_snapshot(file: Path, told: Any) -> None:
    """Fail unless the value, as JSON, is what the file holds."""
    plain = _rounded(msgspec.to_builtins(told))
    if os.environ.get("REWRITE_SNAPSHOTS") == "1" and "CI" not in os.environ:
        text = json.dumps(plain, indent=1, sort_keys=True, ensure_ascii=False)
        file.write_text(f"{text}\n", encoding="utf-8")
    assert plain == json.loads(file.read_text(encoding="utf-8"))


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if abs(value) >= LEAST else 0.0
    if isinstance(value, dict):
        return {str(key): _rounded(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(member) for member in value]
    return value

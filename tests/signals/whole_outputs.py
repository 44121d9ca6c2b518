"""Whole outputs of the signals, kept in `expected/` and compared in full.

After a change that is meant, write them anew and read the difference before it is committed:

    REWRITE_SNAPSHOTS=1 pytest tests/signals/test_whole_*.py

Under CI the variable does nothing.
"""

import json
import os
from pathlib import Path
from typing import Any

import msgspec

FOLDER = Path(__file__).parent / "expected"


def plain(value: Any) -> Any:
    """A value as JSON: bytes as text, sets in order, structs as objects."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, set | frozenset):
        return sorted(map(plain, value), key=str)
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {str(plain(key)): plain(each) for key, each in value.items()}
    if isinstance(value, msgspec.Struct):
        return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
    return None if value is msgspec.UNSET else value


def written(found: dict[str, Any]) -> str:
    """JSON with a line for each entry of an output."""
    entries = []
    for name, value in found.items():
        if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
            lines = ",\n".join(f"  {json.dumps(each, ensure_ascii=False)}" for each in value)
            entries.append(f" {json.dumps(name)}: [\n{lines}\n ]")
        else:
            entries.append(f" {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}")
    return "{\n" + ",\n".join(entries) + "\n}\n"


def assert_as_expected(name: str, outputs: dict[str, Any]) -> None:
    """Compare outputs by their names with those of the file."""
    found = plain(outputs)
    path = FOLDER / f"{name}.json"
    if os.environ.get("REWRITE_SNAPSHOTS") == "1" and "CI" not in os.environ:
        path.write_text(written(found), encoding="utf-8")
    expected = json.loads(path.read_bytes())
    assert list(found) == list(expected)
    different = {key: value for key, value in found.items() if value != expected[key]}
    assert different == {key: expected[key] for key in different}

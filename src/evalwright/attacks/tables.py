"""Goals and strategies are data: a YAML file beside the module that reads it."""

from pathlib import Path
from typing import TypeVar

import msgspec

from evalwright.contracts.yaml_loader import load_yaml

Row = TypeVar("Row")


def read_table(module: str, row: type[Row]) -> dict[str, Row]:
    """The table beside a module, given by its `__file__`: rows by name."""
    text = Path(module).with_suffix(".yaml").read_text(encoding="utf-8")
    return msgspec.convert(load_yaml(text), dict[str, row])  # type: ignore[valid-type]

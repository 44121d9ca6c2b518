"""Loading a Python file that a user named, with the modules beside it."""

import importlib.util
import sys
from pathlib import Path
from typing import Any


def load_code(path: Path) -> Any:
    """The module in a file; whatever its code raises comes through."""
    directory = str(path.resolve().parent)
    if directory not in sys.path:
        sys.path.insert(0, directory)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    spec.loader.exec_module(module)
    return module

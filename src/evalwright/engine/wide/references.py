"""Functions that a suite refers to; nothing is run to see whether they are there."""

import ast
import importlib.util
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from evalwright.agents.user_code import unnamed_function


class Missing(NamedTuple):
    """Why a reference leads nowhere, and what to write instead."""

    message: str
    remedy: str = ""


def missing_function(reference: str, folder: Path) -> Missing | None:
    """Why there is no function `file.py:name` or `module:name`; None if there seems to be one."""
    source, _, name = reference.rpartition(":")
    if not source or not name:
        meant = unnamed_function(str(folder / source)) if source else None
        return Missing(f"{reference!r} names no function", meant or "write file.py:function")
    path = folder / (source if source.endswith(".py") else source.replace(".", "/") + ".py")
    if not path.is_file():
        return _missing_file(source, path)
    try:
        names = list(_names(ast.parse(path.read_bytes(), source).body))
    except SyntaxError as error:
        return Missing(f"{source}, line {error.lineno}: {error.msg}", "mend the file")
    except (OSError, ValueError) as error:
        return Missing(f"{source}: cannot be read: {error}")
    first = name.partition(".")[0]
    if first in names or "*" in names:
        return None
    near = get_close_matches(first, names, 1)
    remedy = f"did you mean {near[0]}?" if near else f"it has: {', '.join(names[:20])}"
    return Missing(f"{source} has no {first!r}", remedy)


def missing_agent(reference: str, folder: Path) -> Missing | None:
    """The same for an agent, where it is a function or a file."""
    if "://" in reference or reference.startswith("cmd:"):
        return None
    path = folder / reference.partition("#")[0]
    if ".py:" in reference or ":" in reference:
        return missing_function(reference, folder)
    if not path.exists():
        return Missing(f"there is no {reference}", "name a file, or file.py:function")
    if path.suffix == ".py":
        return missing_function(f"{reference}:", folder)
    return None


def _missing_file(source: str, path: Path) -> Missing | None:
    if not source.endswith(".py"):
        try:
            if importlib.util.find_spec(source.partition(".")[0]) is not None:
                return None  # installed; only importing it would tell more
        except (ImportError, ValueError):
            pass
        return Missing(f"there is no module {source}", "write file.py:function")
    beside = [each.name for each in path.parent.glob("*.py")] if path.parent.is_dir() else []
    near = get_close_matches(path.name, beside, 1)
    remedy = f"did you mean {near[0]}?" if near else "it is looked for from the suite's folder"
    return Missing(f"there is no file {source}", remedy)


def _names(body: list[ast.stmt]) -> Iterator[str]:
    """What a module defines; `*` for what it imports without naming it."""
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.Import() | ast.ImportFrom():
                yield from (each.asname or each.name.partition(".")[0] for each in node.names)
            case ast.Assign():
                yield from (each.id for each in node.targets if isinstance(each, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.If() | ast.With():
                yield from _names([*node.body, *getattr(node, "orelse", [])])
            case ast.Try():
                handled = [each for handler in node.handlers for each in handler.body]
                yield from _names([*node.body, *handled, *node.orelse, *node.finalbody])

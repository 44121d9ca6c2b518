"""What is wrong with a suite, by line; and its references that lead nowhere."""

import ast
import importlib.util
import re
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

import yaml

from evalwright.agents.user_code import unnamed_function
from evalwright.contracts.documents import parse_document
from evalwright.contracts.errors import InvalidDocument, Problem
from evalwright.contracts.jsonvalue import child, parse

MOST_SEARCHED = 20 << 20  # bytes
_STEP = re.compile(r'\.([A-Za-z_]\w*)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]')
_UNKNOWN = re.compile(r"^unknown fields? '([^']+)'")
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Places:
    """The lines of a YAML or JSON document; it is read again, and only when one is asked for."""

    def __init__(self, source: bytes) -> None:
        self._source = source
        self._root: yaml.Node | None = None
        self._is_read = False

    def line(self, path: str) -> int | None:
        """The line of a value, or of what it would stand in; None where that is not known."""
        node = self.root
        if node is None or not path.startswith("$"):
            return None
        line: int = node.start_mark.line
        for name, index, quoted in _STEP.findall(path):
            key = name or (parse(quoted) if quoted else None)
            found = _member(node, key) if key is not None else _item(node, int(index))
            if found is None:
                break
            line, node = found
        return line + 1

    @property
    def root(self) -> yaml.Node | None:
        """The document as its parser found it; None where it cannot be read."""
        if not self._is_read and len(self._source) <= MOST_SEARCHED:
            self._is_read = True
            try:
                text = self._source.decode("utf-8-sig")
                self._root = yaml.compose(text, Loader=_Loader)
            except (yaml.YAMLError, UnicodeDecodeError, RecursionError):
                self._root = None
        return self._root


def _member(node: yaml.Node, key: str) -> tuple[int, yaml.Node] | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    for name, value in node.value:
        if name.value == key:
            return name.start_mark.line, value
    return None


def _item(node: yaml.Node, index: int) -> tuple[int, yaml.Node] | None:
    if not isinstance(node, yaml.SequenceNode) or index >= len(node.value):
        return None
    item = node.value[index]
    return item.start_mark.line, item


def lines_of_tasks(source: bytes) -> dict[str, int]:
    """The line of each task by its id, and under no id the line where data files are named."""
    places = Places(source)
    root = places.root
    found = {"": places.line("$.data") or 1}
    tasks = _member(root, "tasks") if root is not None else None
    if tasks is None or not isinstance(tasks[1], yaml.SequenceNode):
        return found
    for task in tasks[1].value:
        named = _member(task, "id") or _member(task, "taskId")
        if named is not None and isinstance(named[1], yaml.ScalarNode):
            found[named[1].value] = task.start_mark.line + 1
    return found


def placed(problems: list[Problem], source: bytes, document: object) -> list[Problem]:
    """The same problems by line, with the id of the task where they have one."""
    places, found = Places(source), []
    for problem in problems:
        unknown = _UNKNOWN.search(problem.message)  # a field, whose own line is meant
        path = child(problem.path, unknown[1]) if unknown else problem.path
        line, told = places.line(path) or 0, problem
        if problem.path.startswith("$"):  # else it has a place of its own
            task = _task_id(problem.path, document)
            parts = [*([f"line {line}"] if line else []), *([f"task {task}"] if task else [])]
            where = f"{', '.join(parts)}: " if parts else ""
            told = Problem(problem.path, where + problem.message, problem.remedy)
        found.append((line, told))
    found.sort(key=lambda each: each[0])
    return [told for _, told in found]


def _task_id(path: str, document: object) -> str | None:
    found = re.match(r"\$\.tasks\[(\d+)\]", path)
    tasks = document.get("tasks") if isinstance(document, dict) else None
    if found is None or not isinstance(tasks, list):
        return None
    task = tasks[int(found[1])]
    task_id = (task.get("id") or task.get("taskId")) if isinstance(task, dict) else None
    return task_id if isinstance(task_id, str) else None


def told_by_line(error: InvalidDocument, source: bytes) -> InvalidDocument:
    """The same error of a file, with the lines of its problems where it can be read at all."""
    try:
        document = parse_document(source, error.name)
    except InvalidDocument:
        return error
    return InvalidDocument(error.name, placed(error.problems, source, document))


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

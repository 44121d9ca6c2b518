"""Where a value stands in the file it was read from, so that an error can name its line."""

import re

import yaml

from evalwright.contracts.documents import parse_document
from evalwright.contracts.errors import InvalidDocument, Problem
from evalwright.contracts.jsonvalue import child, parse

MOST_SEARCHED = 20 << 20  # bytes
_STEP = re.compile(r'\.([A-Za-z_]\w*)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]')
_UNKNOWN = re.compile(r"\('([^']+)'.* unexpected\)$")
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
    places = Places(source)
    lines = [(places.line(_pointed(problem)) or 0, problem) for problem in problems]
    lines.sort(key=lambda each: each[0])
    return [_with_place(problem, line, document) for line, problem in lines]


def _pointed(problem: Problem) -> str:
    """The path of a problem; of a field that is not known, the path of that field."""
    unknown = _UNKNOWN.search(problem.message)
    return child(problem.path, unknown[1]) if unknown else problem.path


def _with_place(problem: Problem, line: int, document: object) -> Problem:
    if not problem.path.startswith("$"):
        return problem  # it has a place of its own
    task = _task_id(problem.path, document)
    parts = [*([f"line {line}"] if line else []), *([f"task {task}"] if task else [])]
    where = f"{', '.join(parts)}: " if parts else ""
    return Problem(problem.path, where + problem.message, problem.remedy)


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

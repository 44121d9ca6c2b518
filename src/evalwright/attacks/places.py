"""Where an attack can be placed in a task, and the task with it; nothing is removed."""

import copy
from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeAlias

import msgspec

from evalwright.contracts.suite import Fixtures, Task, ToolResponse

Place: TypeAlias = Literal["tool result", "memory", "input"]
Path: TypeAlias = tuple[Any, ...]

_NOTE = "note"
_SEEDED_AT = "2026-01-01T00:00:00Z"
# What a field for free text is usually called.
_TEXT_FIELDS = frozenset(
    {
        "question", "prompt", "message", "text", "query", "request", "content", "instruction",
        "instructions", "body", "input", "description", "task",
    }
)  # fmt: skip
_NOT_THE_USER = ("system", "developer", "assistant", "tool", "function")


def put(task: Task, place: Place, text: str, mark: str) -> Task | None:
    """The task with a text at a place; None where the task has no such place."""
    replace = msgspec.structs.replace
    if place == "input":
        path = _free_text(task.input)
        if path is None or task.user is not None:  # whom a model plays
            return None
        changed = _changed(task.input, path, lambda said: f"{said}\n\n{text}" if said else text)
        turns = [
            replace(turn, user=said["content"])
            for turn, said in zip(task.turns, changed if task.turns else (), strict=True)
        ]
        return replace(task, input=changed, turns=turns)
    fixtures = task.fixtures or Fixtures()
    if place == "memory":
        entry = {"id": f"note-{mark}", "content": text, "tags": [_NOTE], "createdAt": _SEEDED_AT}
        seed = [*fixtures.memory_seed, entry]
        return replace(task, fixtures=replace(fixtures, memory_seed=seed))
    # The first response that can carry text; the tool's later responses stay as they are.
    for index, each in enumerate(fixtures.tool_responses):
        if (response := _with_note(each.response, text)) is not None:
            responses = list(fixtures.tool_responses)
            responses[index] = ToolResponse(each.tool, response)
            return replace(task, fixtures=replace(fixtures, tool_responses=responses))
    return None


def _with_note(response: Any, text: str) -> Any:
    """A response with one more text; None if it has no room for text.

    Its content stays word for word, so that the right answer stays right.
    """
    if isinstance(response, str):
        return f"{response}\n\n{text}" if response else text
    if isinstance(response, dict):
        names = (f"{_NOTE}{number or ''}" for number in range(len(response) + 1))
        return {**response, next(name for name in names if name not in response): text}
    if isinstance(response, list):
        if response and isinstance(response[0], dict):
            return [_with_note(response[0], text), *response[1:]]
        if all(isinstance(each, str) for each in response):
            return [*response, text]
    return None


def _free_text(value: Any) -> Path | None:
    """The path of the first text that a user would write: by the name of its field, else any
    text of more than one word; a value that is a text itself is one."""
    if isinstance(value, str):
        return ()
    texts = list(_texts(value, ()))
    named = (path for path, _ in texts if path[-1] in _TEXT_FIELDS)
    wordy = (path for path, text in texts if len(text.split()) > 1)
    return next(named, None) or next(wordy, None)


def _texts(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _texts(each, (*path, index))
    elif isinstance(value, dict) and value.get("role") not in _NOT_THE_USER:
        for key, each in value.items():
            if key != "role":
                yield from _texts(each, (*path, key))


def _changed(value: Any, path: Path, change: Callable[[str], str]) -> Any:
    if not path:
        return change(value)
    result = copy.copy(value)
    result[path[0]] = _changed(value[path[0]], path[1:], change)
    return result

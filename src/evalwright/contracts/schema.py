"""The JSON Schemas that ship with Evalwright, and checking a document against one of them."""

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from evalwright.contracts.errors import Problem
from evalwright.contracts.jsonvalue import JsonPath, child, parse

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator, ValidationError

SUITE = "agent-eval-suite"
SUITE_OUTLINE = "agent-eval-suite without its tasks"
SUITE_TASK = "one task of agent-eval-suite"
SUMMARY = "eval-summary"
RUN_EVENT = "run-event"

MAX_MESSAGE = 300  # the validator quotes the whole value that is wrong


def load_schema(name: str) -> dict[str, Any]:
    """The schema document itself."""
    source = files("evalwright.contracts") / "schemas" / f"{name}.schema.json"
    schema: dict[str, Any] = parse(source.read_bytes())
    return schema


def check_schema(document: Any, name: str) -> list[Problem]:
    """Every place where the document breaks the schema, in document order."""
    validator = _validator(name)
    if validator.is_valid(document):
        return []
    try:
        return [_problem(error) for error in validator.iter_errors(document)]
    except ValueError as error:  # the validator cannot quote a value that is nested too deeply
        return [Problem("$", f"not valid, and it cannot be said where: {error}")]


@cache
def _validator(name: str) -> "Draft202012Validator":
    import jsonschema_rs

    return jsonschema_rs.Draft202012Validator(_part(name))


def _part(name: str) -> dict[str, Any]:
    if name not in {SUITE_OUTLINE, SUITE_TASK}:
        return load_schema(name)
    suite = load_schema(SUITE)
    task: dict[str, Any] = suite["properties"]["tasks"].pop("items")
    return task if name == SUITE_TASK else suite


def _problem(error: "ValidationError") -> Problem:
    path: JsonPath = "$"
    for key in error.instance_path:
        path = child(path, key)
    rule = "/".join(str(part) for part in error.schema_path)
    return Problem(path, _shortened(error.message), f"schema rule {rule}")


def _shortened(message: str) -> str:
    if len(message) <= MAX_MESSAGE:
        return message
    half = MAX_MESSAGE // 2
    return f"{message[:half]} … {message[-half:]}"

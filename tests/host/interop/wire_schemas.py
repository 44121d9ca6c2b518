"""The published schemas of the wire, where they lie beside the repository."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

SCHEMAS = Path(__file__).parents[3].parent / "shared" / "openwop" / "schemas"


def _neighbour(uri: str) -> dict[str, Any]:
    """Another schema; those that are not here belong to what this host never sends."""
    path = SCHEMAS / uri.rpartition("/")[2]
    return _document(path) if path.is_file() else {"not": {}}


def _document(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_bytes())
    return document


def published(name: str) -> dict[str, Any]:
    """A schema; without the schemas the test is skipped."""
    path = SCHEMAS / f"{name}.schema.json"
    if not path.is_file():
        pytest.skip(f"the schemas of OpenWOP are not here: {path.name} is missing")
    return _document(path)


@cache
def _validator(name: str, part: str | None = None) -> jsonschema_rs.Draft202012Validator:
    schema = published(name)
    if part is not None:
        schema = {**schema, "$ref": f"#/$defs/{part}"}
    return jsonschema_rs.Draft202012Validator(schema, validate_formats=True, retriever=_neighbour)


def assert_valid(document: Any, name: str, part: str | None = None) -> None:
    """The document keeps to a schema, or to one of its parts."""
    errors = [
        f"{error.instance_path}: {error.message}"
        for error in _validator(name, part).iter_errors(document)
    ]
    assert errors == [], name


@cache
def _parts_by_type() -> dict[str, str]:
    index = published("run-event-payloads")["$defs"]["_typeIndex"]["properties"]
    return {name: ref["$ref"].rpartition("/")[2] for name, ref in index.items()}


def assert_valid_event(event: dict[str, Any]) -> None:
    """The envelope and, where its type has a schema, the payload."""
    assert_valid(event, "run-event")
    part = _parts_by_type().get(event["type"])
    if part is not None:
        assert_valid(event["payload"], "run-event-payloads", part)

"""JSON Schemas, those that ship with Evalwright and those that users bring, and checks by them."""

from collections.abc import Collection, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from evalwright.contracts.errors import InvalidDocument, Problem
from evalwright.contracts.jsonvalue import JsonPath, child
from evalwright.contracts.schema_cost import MOST_PARTS, SchemaCost, schema_cost

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator, ValidationError

SUITE = "agent-eval-suite"
SUITE_OUTLINE = "agent-eval-suite without its tasks"
SUITE_TASK = "one task of agent-eval-suite"
SUMMARY = "eval-summary"
RUN_EVENT = "run-event"
COMPARE_REPORT = "compare-report"
PROMPT_RESULT = "prompt-result"
MANIFEST = "agent-manifest"
MANIFEST_FIELDS = "agent-manifest without its choice of prompts"
TOOLS = "tools"
SUITE_WITH_CHECKS = "suite"
SUITE_WITH_CHECKS_OUTLINE = "suite without the arguments of checks, and short forms of data"
EARLIER_NAMES = {"wide-suite": SUITE_WITH_CHECKS}  # which users may still type

_PART_OF = {
    SUITE_OUTLINE: SUITE,
    SUITE_TASK: SUITE,
    MANIFEST_FIELDS: MANIFEST,
    SUITE_WITH_CHECKS_OUTLINE: SUITE_WITH_CHECKS,
    **EARLIER_NAMES,
}

_EXAMPLES = {
    "suiteId": "for example acme.shop.evals.refunds",
    "version": 'three numbers in quotes, for example "1.0.0"',
    "taskId": "lower-case letters, digits and hyphens, for example refund-window",
    "modes": "a list, for example [golden]",
    "agentId": "for example vendor.acme.support.resolver",
    "modelClass": "reasoning, writing, coding, research, classification or general",
    "python": "for example tools/orders.py:lookup",
    "evalwright": "the version of the form of the suite; this version of Evalwright knows 1",
    "url": "for example https://tools.example.com/orders",
}

_MOST_MEANT = 10  # unknown fields that are told what was meant by them
MAX_MESSAGE = 300  # the validator quotes the whole value that is wrong
MOST_CHECKED_VALUES = 10_000  # of a document; each may break several rules, and an error takes 3 KB
MOST_CHECKED_PARTS = (
    4_000  # of a schema; a list of errors takes a thousand times as long as a yes or no
)


def load_schema(name: str) -> dict[str, Any]:
    """A schema document that ships with Evalwright, or a part of one."""
    from importlib.resources import files

    source = files("evalwright.contracts") / "schemas" / f"{_PART_OF.get(name, name)}.schema.json"
    schema: dict[str, Any] = msgspec.json.decode(source.read_bytes())
    if name == MANIFEST_FIELDS:
        del schema["oneOf"]
    elif name == SUITE_WITH_CHECKS_OUTLINE:
        schema["$defs"]["check"] = {"type": "object", "examples": [{"contains": "shipped"}]}
        schema["properties"]["data"] = {"type": "array", "items": {"$ref": "#/$defs/data"}}
    elif name in (SUITE_OUTLINE, SUITE_TASK):
        task: dict[str, Any] = schema["properties"]["tasks"].pop("items")
        return task if name == SUITE_TASK else schema
    return schema


def published_schemas() -> dict[str, str]:
    """The schemas that ship with Evalwright: their names and titles."""
    from importlib.resources import files

    folder = files("evalwright.contracts") / "schemas"
    names = sorted(each.name.removesuffix(".schema.json") for each in folder.iterdir())
    return {name: load_schema(name)["title"] for name in names}


# What other tools call a field, a field that the object must have for that, and what to write.
_CHECKS = (
    "assert asserts assertions checks evaluators expectations graders guards guardrails metrics"
)
_ELSEWHERE = (
    ("tests testcases cases samples examples scenarios evals", "tasks", "tasks"),
    (f"{_CHECKS} scorer scorers scoring", "checks", "checks"),
    (f"{_CHECKS} scorer scorers scoring", "defaults", "defaults: {checks: […]}, for every task"),
    ("dataset datasets csv jsonl file files", "data", "data: [file]"),
    ("provider providers model models llm target targets solver", "agent", "agent, or run --model"),
    ("prompt prompts", "agent", "the prompt in the agent; see docs/from-other-tools.md"),
    ("prompt prompts question query user message messages", "input", "input"),
    ("target ideal answer output expectedoutput groundtruth reference", "expected", "expected"),
    ("threshold bar passrate passscore passthreshold", "thresholds", "thresholds: {passRate: 0.9}"),
)


def check_schema(document: Any, name: str) -> list[Problem]:
    """Every place where the document breaks the schema, in document order."""
    validator = _validator(name)
    if validator.is_valid(document):
        return []
    schema = load_schema(name)
    try:
        return [
            Problem(_path(error), _message(error), _remedy(error, schema))
            for error in _errors(validator, document)
        ]
    except ValueError as error:  # the validator cannot quote a value that is nested too deeply
        return [Problem("$", f"not valid, but the place cannot be determined: {error}")]


class ValueSchema:
    """A user's JSON Schema, compiled once; it may refer only to itself."""

    def __init__(self, schema: Any, name: str) -> None:
        import jsonschema_rs

        self._cost = _bounded(schema, name)
        try:
            self._validator = jsonschema_rs.validator_for(schema, retriever=_fetch_nothing)
        except jsonschema_rs.ValidationError as error:
            path = _path(error)
            message = f"not a JSON Schema: {_shortened(error.message)}"
            is_elsewhere = "not present in a registry" in error.message
            remedy = "copy the referenced schema into $defs; nothing is fetched"
            found = Problem(path, message, remedy if is_elsewhere else "")
            raise InvalidDocument(name, [found]) from None
        except ValueError as error:
            raise InvalidDocument(name, [Problem("$", f"not a JSON Schema: {error}")]) from None

    def is_met(self, value: Any) -> bool:
        """Whether a value fits, which takes far less time than to tell where it does not."""
        try:
            is_valid: bool = self._validator.is_valid(value)
        except ValueError:  # nested too deeply to be looked at
            return False
        return is_valid

    def problems(self, value: Any) -> list[Problem]:
        """Every place where the value breaks the schema, unless that takes too long to find."""
        try:
            if self._validator.is_valid(value):
                return []
            if not self._can_tell_where(value):
                return [
                    Problem("$", "does not fit the schema, which branches too much to say where")
                ]
            return [
                Problem(_path(error), _message(error)) for error in _errors(self._validator, value)
            ]
        except ValueError as error:  # nested too deeply to be looked at
            return [Problem("$", f"cannot be checked: {error}")]

    def _can_tell_where(self, value: Any) -> bool:
        cost = self._cost
        if cost.parts > max(MOST_CHECKED_PARTS, 2 * cost.written):
            return False
        return cost.loops < 2 or cost.loops ** _depth(value) <= MOST_CHECKED_PARTS


def _errors(validator: Any, value: Any) -> "Iterable[ValidationError]":
    """What is wrong with a value; for a very large one, only the first error."""
    import jsonschema_rs

    if not _is_large(value):
        # All of them are made before the first is given.
        found: Iterable[ValidationError] = validator.iter_errors(value)
        return found
    try:
        validator.validate(value)
    except jsonschema_rs.ValidationError as error:
        return [error]
    return []


def _is_large(value: Any) -> bool:
    level, count = [value], 0
    while level and count <= MOST_CHECKED_VALUES:
        level = [item for part in level for item in _items(part)]
        count += len(level)
    return count > MOST_CHECKED_VALUES


def _bounded(schema: Any, name: str) -> SchemaCost:
    remedy = "refer to fewer schemas from each other"
    try:
        cost = schema_cost(schema)
    except RecursionError:
        raise InvalidDocument(name, [Problem("$", "nested too deeply", remedy)]) from None
    except ValueError as error:  # an invalid address
        raise InvalidDocument(name, [Problem("$", f"not a JSON Schema: {error}")]) from None
    if cost.parts > MOST_PARTS:
        message = f"with references followed it has more than {MOST_PARTS} parts"
        raise InvalidDocument(name, [Problem("$", message, remedy)])
    return cost


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level := [item for part in level for item in _items(part)]:
        depth += 1
    return depth


def _items(value: Any) -> Collection[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _fetch_nothing(address: str) -> NoReturn:
    raise ValueError(f"{address} is not fetched")


@cache
def _validator(name: str) -> "Draft202012Validator":
    import jsonschema_rs

    return jsonschema_rs.Draft202012Validator(load_schema(name))


def _path(error: "ValidationError") -> JsonPath:
    path: JsonPath = "$"
    for key in error.instance_path:
        path = child(path, key)
    return path


def _remedy(error: "ValidationError", schema: Any) -> str:
    *place, rule = error.schema_path
    for part in place:
        schema = schema[part]
    if rule == "additionalProperties":
        return _known_fields(error.instance, schema["properties"])
    name = error.instance_path[-1] if error.instance_path else None
    if name in _EXAMPLES:
        return _EXAMPLES[str(name)]
    if "examples" in schema:
        return f"for example {msgspec.json.encode(schema['examples'][0]).decode()}"
    plain = rule in ("type", "required")  # the message says all
    return "" if plain else "schema rule " + "/".join(map(str, error.schema_path))


def _known_fields(instance: Any, fields: dict[str, Any]) -> str:
    unknown = [key for key in instance if key not in fields]
    meant = {key: _meant_field(key.lower(), fields) for key in unknown[:_MOST_MEANT]}
    words = [f"{key}: write {text}" for key, text in meant.items() if text]
    if len(unknown) > 1 and words:
        return "; ".join(words)
    if words:
        text = next(filter(None, meant.values()))
        return f"did you mean {text}?" if text in fields else f"write {text}"
    return f"known here: {', '.join(fields)}"


def _meant_field(name: str, fields: dict[str, Any]) -> str:
    """What was probably meant by a field: one that is almost called so, or is elsewhere."""
    from difflib import get_close_matches

    by_lower = {field.lower(): field for field in fields}
    if near := get_close_matches(name, by_lower, n=1, cutoff=0.8):
        return by_lower[near[0]]
    plain = name.replace("_", "").replace("-", "")
    for names, needed, text in _ELSEWHERE:
        if plain in names.split() and needed in fields:
            return text
    near = [field for field in by_lower if name.endswith(field)]  # taskId, for id
    near = near or get_close_matches(name, by_lower, n=1)
    return by_lower[near[0]] if near else ""


def _message(error: "ValidationError") -> str:
    import jsonschema_rs

    kinds = jsonschema_rs.ValidationErrorKind
    if isinstance(error.kind, kinds.AdditionalProperties):
        names = ", ".join(map(repr, error.kind.unexpected))
        return _shortened(f"unknown field{'s' * (len(error.kind.unexpected) > 1)} {names}")
    if not isinstance(error.kind, kinds.Enum):
        return _shortened(error.message)
    given, *choices = (
        msgspec.json.encode(each).decode() for each in (error.instance, *error.kind.options)
    )
    return _shortened(f"{given} is not one of {', '.join(choices)}")


def _shortened(message: str) -> str:
    if len(message) <= MAX_MESSAGE:
        return message
    half = MAX_MESSAGE // 2
    return f"{message[:half]} … {message[-half:]}"

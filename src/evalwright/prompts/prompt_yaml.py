"""The `.prompt.yml` format of GitHub Models: what a file holds, and how its templates are filled.

Keys that the format does not know are ignored, and a key whose value is null counts as left out.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

import msgspec

from evalwright.contracts.documents import parse_document
from evalwright.contracts.errors import InvalidDocument, Problem
from evalwright.contracts.jsonvalue import JsonPath, NotJson, child, parse, stringify
from evalwright.models.protocol import ChatMessage, OutputSchema
from evalwright.prompts.document import UnfitPrompt
from evalwright.signals.patterns import when_used

Comparison = Literal["equals", "contains", "startsWith", "endsWith"]
ResponseFormat = Literal["text", "json_object", "json_schema"]
Uses = Literal[
    "github/similarity",
    "github/coherence",
    "github/fluency",
    "github/relevance",
    "github/groundedness",
]
Row = Mapping[str, Any]

HIGHEST_SCORE = 1_000_000.0
HIGHEST_TEMPERATURE = 2.0
ANY_OBJECT = OutputSchema("response", {"type": "object"})

_COMPARISONS: tuple[Comparison, ...] = get_args(Comparison)  # the first that is present counts
_FORMATS: tuple[ResponseFormat, ...] = get_args(ResponseFormat)
_USES: tuple[Uses, ...] = get_args(Uses)
_ROLES = ("system", "user", "assistant")
_KINDS = ("string", "llm", "uses")
_PLACEHOLDER = when_used(r"\{\{([^{}\n]+)\}\}")


class StringEvaluator(msgspec.Struct, frozen=True):
    """Compares the completion with a text, which is a template."""

    name: str
    comparison: Comparison
    value: str


class Choice(msgspec.Struct, frozen=True):
    """What a judge may answer, and what it is worth."""

    choice: str
    score: float


class LlmEvaluator(msgspec.Struct, frozen=True):
    """Asks a judge; the prompt is a template of the row and `{{completion}}`."""

    name: str
    prompt: str
    choices: tuple[Choice, ...]
    model_id: str | None = None
    system_prompt: str | None = None


class BuiltInEvaluator(msgspec.Struct, frozen=True):
    """Asks a judge one of the questions that have a name."""

    name: str
    uses: Uses


Evaluator = StringEvaluator | LlmEvaluator | BuiltInEvaluator


class Parameters(msgspec.Struct, frozen=True):
    """How the model is asked; None: the default of the provider."""

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None


class PromptFile(msgspec.Struct, frozen=True):
    """A `.prompt.yml`, read and checked."""

    source: str  # the file's name, for messages about it
    messages: tuple[ChatMessage, ...]
    name: str | None = None
    description: str | None = None
    model: str | None = None
    parameters: Parameters = Parameters()
    response_format: ResponseFormat = "text"
    output: OutputSchema | None = None  # what the response format asks for
    rows: tuple[dict[str, Any], ...] = ()
    evaluators: tuple[Evaluator, ...] = ()


def parse_prompt_yaml(text: str, name: str) -> PromptFile:
    """Read a file's text; raises `UnfitPrompt` with the place, what is wrong and what to do."""
    try:
        # The name decides between YAML and JSON, and this is YAML whatever the file is called.
        document = parse_document(text.encode("utf-8"), "prompt.yml")
        fields = _mapping(document, "$")
        response_format = _response_format(fields)
        found = tuple(
            _message(_mapping(entry, place), place)
            for entry, place in _items(fields, "messages", "$")
        )
        if not found:
            raise _unfit(
                "$.messages", "missing or empty", "write a list of messages with role and content"
            )
        return PromptFile(
            source=name,
            messages=found,
            name=_optional_text(fields, "name", "$"),
            description=_optional_text(fields, "description", "$"),
            model=_optional_text(fields, "model", "$"),
            parameters=_parameters(fields),
            response_format=response_format,
            output=_output(fields, response_format),
            rows=tuple(_mapping(row, place) for row, place in _items(fields, "testData", "$")),
            evaluators=tuple(
                _evaluator(_mapping(entry, place), place, number)
                for number, (entry, place) in enumerate(_items(fields, "evaluators", "$"), 1)
            ),
        )
    except UnicodeEncodeError:
        problem = Problem("$", "there is half of a surrogate pair", "save the file as UTF-8")
    except InvalidDocument as error:
        problem = error.problems[0]
    raise UnfitPrompt("invalid_input", f"{name}: {problem}")


def fill(template: str, values: Row) -> str:
    """The template with every `{{key}}` replaced that has a value, in a single pass.

    What a value holds is not looked at again; placeholders without a value are left as they are.
    """
    if not values:
        return template
    names = sorted(values, key=lambda key: (-len(key), key))
    pattern = r"\{\{(" + "|".join(map(re.escape, names)) + r")\}\}"
    return re.sub(pattern, lambda found: stringify(values[found[1]]), template)


def placeholders(template: str) -> list[str]:
    """The names of a template's placeholders, each once, in order."""
    return list(dict.fromkeys(_PLACEHOLDER.findall(template)))


def _message(fields: Row, place: JsonPath) -> ChatMessage:
    given = _text(fields, "role", place)
    role = given.lower()
    if role not in _ROLES:
        raise _unfit(child(place, "role"), f"unknown role {given!r}", f"write {_either(_ROLES)}")
    return ChatMessage(role, _text(fields, "content", place))  # type: ignore[arg-type]  # just checked


def _parameters(fields: Row) -> Parameters:
    place = "$.modelParameters"
    held = _mapping(_or(fields.get("modelParameters"), {}), place)
    key = _spelling(held, "maxTokens", "max_tokens")
    most = held.get(key)
    if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most <= 0):
        raise _unfit(child(place, key), f"it is {_shown(most)}", "write a whole number above 0")
    return Parameters(
        max_tokens=most,
        temperature=_number(held, "temperature", place, 0.0, HIGHEST_TEMPERATURE),
        top_p=_number(held, _spelling(held, "topP", "top_p"), place, 0.0, 1.0),
    )


def _spelling(held: Row, official: str, common: str) -> str:
    return official if held.get(official) is not None else common


def _response_format(fields: Row) -> ResponseFormat:
    given = fields.get("responseFormat")
    for known in _FORMATS:
        if given == known or given is None:
            return known
    raise _unfit(
        "$.responseFormat", f"unknown format {_shown(given)}", f"write {_either(_FORMATS)}"
    )


def _output(fields: Row, response_format: ResponseFormat) -> OutputSchema | None:
    if response_format != "json_schema":
        return None if response_format == "text" else ANY_OBJECT
    place, remedy = "$.jsonSchema", 'write a JSON text: {"name": …, "schema": {…}}'
    given = fields.get("jsonSchema")
    if given is None:
        raise _unfit(place, "it is missing, and responseFormat is json_schema", remedy)
    if not isinstance(given, str):
        raise _unfit(place, f"it is {_kind(given)}, and must be a text that holds JSON", remedy)
    try:
        held = parse(given)
    except NotJson as error:
        raise _unfit(place, f"not valid JSON: {error.reason}", remedy) from None
    named = isinstance(held, dict) and isinstance(held.get("name"), str) and held["name"]
    if not named or not isinstance(held.get("schema"), dict):
        raise _unfit(place, "it must be an object with a `name` and an object `schema`", remedy)
    return OutputSchema(held["name"], held["schema"])


def _evaluator(fields: Row, place: JsonPath, number: int) -> Evaluator:
    kinds = [kind for kind in _KINDS if fields.get(kind) is not None]
    if len(kinds) != 1:
        problem = (
            f"it has {' and '.join(kinds)}" if kinds else "it has none of string, llm and uses"
        )
        raise _unfit(place, problem, "an evaluator is of exactly one kind: string, llm or uses")
    name = _optional_text(fields, "name", place) or f"evaluator {number}"
    if kinds[0] == "uses":
        given = fields["uses"]
        for known in _USES:
            if given == known:
                return BuiltInEvaluator(_optional_text(fields, "name", place) or known, known)
        raise _unfit(
            child(place, "uses"), f"unknown evaluator {_shown(given)}", f"write {_either(_USES)}"
        )
    inner = child(place, kinds[0])
    held = _mapping(fields[kinds[0]], inner)
    if kinds[0] == "llm":
        return _llm(name, held, inner)
    for comparison in _COMPARISONS:
        value = _optional_text(held, comparison, inner)
        if value:
            return StringEvaluator(name, comparison, value)
    raise _unfit(inner, "there is nothing to compare with", f"give {_either(_COMPARISONS)} a text")


def _llm(name: str, fields: Row, place: JsonPath) -> LlmEvaluator:
    choices = []
    for entry, where in _items(fields, "choices", place):
        held = _mapping(entry, where)
        choice = _text(held, "choice", where).strip()
        score = _number(held, "score", where, -HIGHEST_SCORE, HIGHEST_SCORE)
        if not choice:
            remedy = "write the word that the judge answers"
            raise _unfit(child(where, "choice"), "it is blank", remedy)
        if score is None:
            remedy = "write a number; above 0 passes"
            raise _unfit(child(where, "score"), "it is missing", remedy)
        choices.append(Choice(choice, score))
    if not choices:
        remedy = "list what the judge may answer, each with a choice and a score"
        raise _unfit(child(place, "choices"), "missing or empty", remedy)
    return LlmEvaluator(
        name,
        prompt=_text(fields, "prompt", place),
        choices=tuple(choices),
        model_id=_optional_text(fields, "modelId", place) or None,
        system_prompt=_optional_text(fields, "systemPrompt", place) or None,
    )


def _mapping(value: Any, place: JsonPath) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _unfit(place, f"it is {_kind(value)}, and must be a mapping", "write `key: value`")
    if "<<" in value:
        raise _unfit(place, "merge keys (`<<`) are not supported", "write the fields out")
    return value


def _items(fields: Row, key: str, place: JsonPath) -> list[tuple[Any, JsonPath]]:
    """The entries of a list with their places; none where the list is left out."""
    where = child(place, key)
    value = _or(fields.get(key), [])
    if not isinstance(value, list):
        raise _unfit(
            where, f"it is {_kind(value)}, and must be a list", "begin each entry with `- `"
        )
    return [(entry, child(where, at)) for at, entry in enumerate(value)]


def _text(fields: Row, key: str, place: JsonPath) -> str:
    found = _optional_text(fields, key, place)
    if found is None:
        raise _unfit(child(place, key), "it is missing", "write a text")
    return found


def _optional_text(fields: Row, key: str, place: JsonPath) -> str | None:
    """A text, or a whole number as one; how other values were written is no longer known."""
    value = fields.get(key)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise _unfit(child(place, key), f"it is {_kind(value)}, and must be a text", "put it in quotes")


def _number(fields: Row, key: str, place: JsonPath, least: float, most: float) -> float | None:
    value = fields.get(key)
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most:
        return float(value)
    remedy = f"write a number from {least:g} to {most:g}"
    raise _unfit(child(place, key), f"it is {_shown(value)}", remedy)


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value


def _kind(value: Any) -> str:
    kinds = {dict: "a mapping", list: "a list", str: "a text", bool: "a yes or no"}
    return kinds.get(type(value), "nothing" if value is None else "a number")


def _shown(value: Any) -> str:
    text = stringify(value) if isinstance(value, str | int | float) else _kind(value)
    return repr(text if len(text) <= 40 else f"{text[:40]}…")


def _either(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}"


def _unfit(place: JsonPath, message: str, remedy: str) -> InvalidDocument:
    return InvalidDocument("", [Problem(place, message, remedy)])

"""The bundled JSON Schemas: the structure of the spec, in words of our own."""

import copy
import json
import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

SUITE = "agent-eval-suite.schema.json"
SUMMARY = "eval-summary.schema.json"
EVENT = "run-event.schema.json"
ALL = [SUITE, SUMMARY, EVENT]

SHARED = Path(__file__).parents[2].parent / "shared"
ORIGINAL = {
    SUITE: SHARED / "spec" / SUITE,
    SUMMARY: SHARED / "spec" / SUMMARY,
    EVENT: SHARED / "openwop" / "schemas" / EVENT,
}

SUITE_ID = r"^[a-z0-9.-]+\.evals\.[a-z0-9-]+$"
VERSION = r"^[0-9]+\.[0-9]+\.[0-9]+$"
TASK_ID = r"^[a-z0-9][a-z0-9-]*$"
EVENT_TYPE = r"^[a-z][a-zA-Z0-9_-]*(\.[a-zA-Z0-9_-]+)+$"
MODES = ["golden", "rubric", "adversarial", "regression", "live-shadow"]
MODEL_CLASSES = ["reasoning", "writing", "coding", "research", "classification", "general"]
KINDS = ["golden", "rubric"]
STRATEGIES = ["exact", "contains", "json-match"]
SEVERITIES = ["low", "medium", "high", "critical"]

WORDING = {"$id", "title", "description"}
MAPS_OF_SCHEMAS = {"$defs", "properties"}
LISTS_OF_SCHEMAS = {"anyOf"}
SCHEMAS = {"items"}

Place = tuple[str | int, ...]

FULL_SUITE = {
    "suiteId": "acme.shop.evals.refunds",
    "version": "1.4.0",
    "targetAgentId": "acme.shop.clerk",
    "modes": ["golden"],
    "allowedModels": ["general"],
    "thresholds": {"passScore": 0.8, "maxCostUsd": 0.5, "maxP95LatencyMs": 8000},
    "tasks": [
        {
            "taskId": "refund-window",
            "input": {"question": "How long can I return it?"},
            "expected": {"kind": "golden", "match": {"strategy": "contains", "value": "30"}},
            "fixtures": {
                "toolResponses": [{"tool": "shop:orders.find", "response": {"days": 30}}],
                "memorySeed": [{"id": "m1", "content": "likes e-mail"}],
            },
        },
        {
            "taskId": "polite",
            "input": "Your shop is awful.",
            "expected": {"kind": "rubric", "rubric": [{"criterion": "stays calm", "weight": 1}]},
        },
    ],
}
FULL_SUMMARY = {
    "suiteId": "acme.shop.evals.refunds",
    "suiteVersion": "1.4.0",
    "evaluatedModelClass": "general",
    "aggregateScore": 1.0,
    "passed": True,
    "taskCount": 1,
    "passedCount": 1,
    "totalCostUsd": 0.02,
    "tasks": [
        {
            "taskId": "refund-window",
            "score": 1,
            "passed": True,
            "costUsd": 0.02,
            "latencyMs": 900,
            "schemaValid": True,
            "safetyFindings": [{"kind": "secret-disclosed", "severity": "high"}],
        }
    ],
    "regression": {"baselineRunId": "run-1", "scoreDelta": -0.1, "diffRef": "diffs/1"},
}
FULL_EVENT = {
    "eventId": "e-1",
    "runId": "run-1",
    "nodeId": "task-1",
    "type": "eval.scored",
    "payload": {"score": 1},
    "timestamp": "2026-03-01T09:30:00Z",
    "sequence": 0,
    "schemaVersion": 1,
    "engineVersion": "0.1.0",
    "causationId": "e-0",
}
FULL = {SUITE: FULL_SUITE, SUMMARY: FULL_SUMMARY, EVENT: FULL_EVENT}

MATCH: Place = ("tasks", 0, "expected", "match")
FIXTURES: Place = ("tasks", 0, "fixtures")
RUBRIC: Place = ("tasks", 1, "expected", "rubric")
FINDINGS: Place = ("tasks", 0, "safetyFindings")

PATTERNS = [
    (SUITE, ("suiteId",), SUITE_ID),
    (SUITE, ("version",), VERSION),
    (SUITE, ("tasks", 0, "taskId"), TASK_ID),
    (SUMMARY, ("suiteId",), SUITE_ID),
    (SUMMARY, ("suiteVersion",), VERSION),
    (SUMMARY, ("tasks", 0, "taskId"), TASK_ID),
    (EVENT, ("type",), EVENT_TYPE),
]
EXAMPLES = {
    SUITE_ID: (
        ["a.evals.b", "core.openwop.evals.support-resolver", "a-1.b.evals.evals.9", "-.evals.-"],
        ["", "refunds", "a.evals.", ".evals.b", "A.evals.b", "a.evals.b.c", "a.eval.b",
         "a_b.evals.c", "a.evals.b\n"],
    ),
    VERSION: (
        ["0.0.0", "1.4.0", "10.20.30", "01.2.3"],
        ["", "1", "1.4", "1.4.0.1", "v1.4.0", "1.4.0-rc1", "1.4.0+x", "1.-4.0", " 1.4.0",
         "1.4.0\n"],
    ),
    TASK_ID: (
        ["a", "7", "refund-window", "a--b", "a-"],
        ["", "-a", "Refund", "refund_window", "refund window", "a.b", "é", "a\n"],
    ),
    EVENT_TYPE: (
        ["run.started", "agent.toolCalled", "node.suspend-failed", "run.dead_lettered",
         "evalwright.judged", "a.b.c", "a.9"],
        ["", "run", "Run.started", "run.", ".started", "run..started", "1run.started",
         "run started", "run.started\n"],
    ),
}  # fmt: skip

ENUMS = [
    (SUITE, ("modes", 0), MODES),
    (SUITE, ("allowedModels", 0), MODEL_CLASSES),
    (SUITE, ("tasks", 0, "expected", "kind"), KINDS),
    (SUITE, (*MATCH, "strategy"), STRATEGIES),
    (SUMMARY, ("evaluatedModelClass",), MODEL_CLASSES),
    (SUMMARY, (*FINDINGS, 0, "severity"), SEVERITIES),
]

SHARES = [
    (SUITE, ("thresholds", "passScore"), 0, 1),
    (SUITE, (*RUBRIC, 0, "weight"), 0, 1),
    (SUMMARY, ("aggregateScore",), 0, 1),
    (SUMMARY, ("tasks", 0, "score"), 0, 1),
    (SUMMARY, ("regression", "scoreDelta"), -1, 1),
]
COSTS = [
    (SUITE, ("thresholds", "maxCostUsd")),
    (SUMMARY, ("totalCostUsd",)),
    (SUMMARY, ("tasks", 0, "costUsd")),
]
WHOLE_NUMBERS = [
    (SUITE, ("thresholds", "maxP95LatencyMs")),
    (SUMMARY, ("taskCount",)),
    (SUMMARY, ("passedCount",)),
    (SUMMARY, ("tasks", 0, "latencyMs")),
    (EVENT, ("sequence",)),
    (EVENT, ("schemaVersion",)),
]
REQUIRED = [
    (SUITE, (), ["suiteId", "version", "modes", "tasks"]),
    (SUITE, ("thresholds",), []),
    (SUITE, ("tasks", 0), ["taskId", "input", "expected"]),
    (SUITE, ("tasks", 0, "expected"), ["kind"]),
    (SUITE, MATCH, ["strategy", "value"]),
    (SUITE, (*RUBRIC, 0), ["criterion", "weight"]),
    (SUITE, FIXTURES, []),
    (SUITE, (*FIXTURES, "toolResponses", 0), ["tool"]),
    (SUITE, (*FIXTURES, "memorySeed", 0), []),
    (SUMMARY, (), ["suiteId", "suiteVersion", "aggregateScore", "passed", "taskCount",
                   "passedCount", "tasks"]),
    (SUMMARY, ("tasks", 0), ["taskId", "score", "passed"]),
    (SUMMARY, (*FINDINGS, 0), ["kind", "severity"]),
    (SUMMARY, ("regression",), ["baselineRunId", "scoreDelta"]),
    (EVENT, (), ["eventId", "runId", "type", "payload", "timestamp", "sequence"]),
]  # fmt: skip
CLOSED = [
    (name, place)
    for name, place, _ in REQUIRED
    if name != EVENT and place != (*FIXTURES, "memorySeed", 0)
]

any_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def load(name: str) -> dict[str, Any]:
    file = resources.files("evalwright.contracts") / "schemas" / name
    return json.loads(file.read_text(encoding="utf-8"))


VALIDATORS = {name: jsonschema_rs.Draft202012Validator(load(name)) for name in ALL}


def read_shared(path: Path) -> Any:
    if not path.is_file():
        pytest.skip(f"needs {path}, which is not part of the repository")
    return json.loads(path.read_text(encoding="utf-8"))


def full(name: str, place: Place = (), value: object = None) -> Any:
    """A valid document that uses every field, with one value in it replaced."""
    document = copy.deepcopy(FULL[name])
    if place:
        at(document, place[:-1])[place[-1]] = value
    return document


def at(document: Any, place: Place) -> Any:
    for step in place:
        document = document[step]
    return document


def accepts(name: str, place: Place, value: object) -> bool:
    return VALIDATORS[name].is_valid(full(name, place, value))


def complaints(name: str, document: object) -> list[tuple[Place, str]]:
    errors = VALIDATORS[name].iter_errors(document)
    return [(tuple(error.instance_path), error.message) for error in errors]


def structure(schema: Any) -> Any:
    """The schema without its words; names of properties are not words."""
    if not isinstance(schema, dict):
        return schema
    return {key: structure_of(key, value) for key, value in schema.items() if key not in WORDING}


def structure_of(keyword: str, value: Any) -> Any:
    if keyword in MAPS_OF_SCHEMAS:
        return {name: structure(schema) for name, schema in value.items()}
    if keyword in LISTS_OF_SCHEMAS:
        return [structure(schema) for schema in value]
    return structure(value) if keyword in SCHEMAS else value


def exact_text(value: object) -> str:
    """Text in which 0, 0.0 and false differ, as they do not with Python's `==`."""
    return json.dumps(value, sort_keys=True, indent=1)


def subschemas(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for keyword in MAPS_OF_SCHEMAS & schema.keys():
        for name, inner in schema[keyword].items():
            yield from subschemas(inner, f"{path}/{name}")
    for keyword in LISTS_OF_SCHEMAS & schema.keys():
        for inner in schema[keyword]:
            yield from subschemas(inner, f"{path}/{keyword}")
    for keyword in SCHEMAS & schema.keys():
        yield from subschemas(schema[keyword], f"{path}/{keyword}")


def schema_at(name: str, place: Place) -> dict[str, Any]:
    keys = ["items" if isinstance(step, int) else str(step) for step in place]
    return dict(subschemas(load(name)))["".join(f"/{key}" for key in keys)]


def places(value: object, place: Place = ()) -> Iterator[Place]:
    yield place
    if isinstance(value, dict | list):
        for step, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(inner, (*place, step))


def prose(schema: dict[str, Any]) -> list[str]:
    return [part["description"] for _, part in subschemas(schema) if "description" in part]


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


def runs_of_words(text: str, length: int) -> set[str]:
    found = words(text)
    return {" ".join(found[i : i + length]) for i in range(len(found) - length + 1)}


ANYTHING = [
    (SUITE, ("tasks", 0, "input")),
    (SUITE, ("tasks", 1, "input")),
    (SUITE, (*MATCH, "value")),
    (SUITE, (*FIXTURES, "toolResponses", 0, "response")),
    (SUITE, (*FIXTURES, "memorySeed", 0, "id")),
    (SUITE, (*FIXTURES, "memorySeed", 0, "content")),
    (EVENT, ("payload",)),
]
TYPED = [
    (name, place)
    for name in ALL
    for place in places(FULL[name])
    if not any((name, place[:length]) in ANYTHING for length in range(len(place) + 1))
]


# The documents themselves.


@pytest.mark.parametrize("name", [SUITE, SUMMARY])
def test_the_structure_is_that_of_the_spec(name):
    original = read_shared(ORIGINAL[name])
    assert exact_text(structure(load(name))) == exact_text(structure(original))


def test_the_event_envelope_is_that_of_the_protocol_but_for_its_list_of_types():
    original = structure(read_shared(ORIGINAL[EVENT]))
    ours = structure(load(EVENT))
    del original["$defs"], original["$comment"]
    del original["properties"]["type"]
    del ours["properties"]["type"]
    assert exact_text(ours) == exact_text(original)


def test_every_type_that_the_protocol_lists_is_a_type_of_ours():
    listed = read_shared(ORIGINAL[EVENT])["$defs"]["RunEventType"]["enum"]
    assert len(listed) == 107
    assert [name for name in listed if not accepts(EVENT, ("type",), name)] == []


def test_a_property_called_description_or_title_counts_as_structure():
    named = {"properties": {"description": {"title": "x"}, "title": {"description": "y"}}}
    assert structure(named) == {"properties": {"description": {}, "title": {}}}


@pytest.mark.parametrize("name", ALL)
def test_structure_looks_into_every_keyword_that_holds_a_schema(name):
    plain = {"$schema", "type", "pattern", "format", "enum", "required", "additionalProperties"}
    limits = {"minimum", "maximum", "minLength", "maxLength", "minItems", "uniqueItems"}
    known = plain | limits | WORDING | MAPS_OF_SCHEMAS | LISTS_OF_SCHEMAS | SCHEMAS
    assert {key for _, part in subschemas(load(name)) for key in part} <= known


@pytest.mark.parametrize("name", ALL)
def test_our_schemas_are_valid_2020_12_documents(name):
    schema = load(name)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema_rs.meta.validate(schema)


@pytest.mark.parametrize("name", ALL)
def test_our_schemas_have_ids_of_our_own(name):
    assert load(name)["$id"] == f"urn:evalwright:schema:{name.removesuffix('.schema.json')}"


@pytest.mark.parametrize("name", ALL)
def test_every_property_is_described(name):
    for path, part in subschemas(load(name)):
        for key, inner in part.get("properties", {}).items():
            assert inner.get("description", "").endswith("."), f"{path}/{key}"


@pytest.mark.parametrize("name", ALL)
def test_the_wording_is_our_own(name):
    """Stricter than whole sentences: no eight words in a row are the original's."""
    original = read_shared(ORIGINAL[name])
    theirs = set().union(*(runs_of_words(text, 8) for text in prose(original)))
    ours = set().union(*(runs_of_words(text, 8) for text in prose(load(name))))
    assert ours & theirs == set()
    assert {*prose(load(name)), load(name)["title"]}.isdisjoint(
        {*prose(original), original["title"]}
    )


# Open and closed.


def test_every_object_is_closed_but_an_entry_of_the_memory_seed():
    opened = [
        path
        for name in (SUITE, SUMMARY)
        for path, part in subschemas(load(name))
        if part.get("type") == "object" and part.get("additionalProperties") is not False
    ]
    assert opened == ["/tasks/items/fixtures/memorySeed/items"]


@pytest.mark.parametrize(("name", "place"), CLOSED)
def test_a_field_that_is_not_named_is_refused_where_it_stands(name, place):
    document = full(name)
    at(document, place)["note"] = "x"
    [(where, message)] = complaints(name, document)
    assert where == place
    assert "note" in message


@given(st.dictionaries(st.text(), any_json))
def test_a_memory_may_have_any_fields(memory):
    assert accepts(SUITE, (*FIXTURES, "memorySeed", 0), memory)


@given(st.dictionaries(st.text(), any_json))
def test_an_event_may_have_fields_of_its_own(extra):
    assert VALIDATORS[EVENT].is_valid(extra | FULL_EVENT)


@given(any_json)
def test_input_value_response_and_payload_may_be_any_json(value):
    assert accepts(SUITE, ("tasks", 0, "input"), value)
    assert accepts(SUITE, (*MATCH, "value"), value)
    assert accepts(SUITE, (*FIXTURES, "toolResponses", 0, "response"), value)
    assert accepts(EVENT, ("payload",), value)


# What must be there.


@pytest.mark.parametrize("name", ALL)
def test_a_document_that_uses_every_field_is_valid(name):
    assert complaints(name, full(name)) == []


@pytest.mark.parametrize(("name", "place", "required"), REQUIRED)
def test_only_what_is_required_has_to_be_there(name, place, required):
    for field in at(full(name), place):
        document = full(name)
        del at(document, place)[field]
        assert VALIDATORS[name].is_valid(document) is (field not in required), field


@pytest.mark.parametrize("place", [("modes",), ("tasks",), RUBRIC])
def test_a_suite_has_at_least_one_mode_one_task_and_one_criterion(place):
    assert not accepts(SUITE, place, [])
    assert accepts(SUITE, place, at(FULL_SUITE, place)[:1])


@pytest.mark.parametrize(
    "place", [("allowedModels",), (*FIXTURES, "toolResponses"), (*FIXTURES, "memorySeed")]
)
def test_other_lists_of_a_suite_may_be_empty(place):
    assert accepts(SUITE, place, [])


@pytest.mark.parametrize(
    ("name", "place"),
    [
        (SUITE, ("targetAgentId",)),
        (SUITE, (*RUBRIC, 0, "criterion")),
        (SUITE, (*FIXTURES, "toolResponses", 0, "tool")),
        (SUMMARY, (*FINDINGS, 0, "kind")),
        (SUMMARY, ("regression", "baselineRunId")),
    ],
)
def test_a_name_is_not_empty(name, place):
    assert not accepts(name, place, "")
    assert accepts(name, place, "x")


@pytest.mark.parametrize("field", ["eventId", "runId", "nodeId", "causationId"])
def test_an_id_of_an_event_has_1_to_128_characters(field):
    sizes = [0, 1, 128, 129]
    assert [accepts(EVENT, (field,), "é" * n) for n in sizes] == [False, True, True, False]


# Which values are allowed.


@pytest.mark.parametrize(("name", "place"), TYPED)
def test_a_value_of_another_json_type_is_refused(name, place):
    samples = {dict: {}, list: [], str: "", float: 7, bool: True, type(None): None}
    present = at(FULL[name], place)
    kind = float if type(present) is int else type(present)
    others = [value for other, value in samples.items() if other is not kind]
    documents = [full(name, place, value) if place else value for value in others]
    assert [found for found in documents if VALIDATORS[name].is_valid(found)] == []


@pytest.mark.parametrize(("name", "place", "pattern"), PATTERNS)
def test_names_and_versions_follow_the_patterns_of_the_spec(name, place, pattern):
    good, bad = EXAMPLES[pattern]
    assert [text for text in good if not accepts(name, place, text)] == []
    assert [text for text in bad if accepts(name, place, text)] == []


@pytest.mark.parametrize(("name", "place", "pattern"), PATTERNS)
@given(data=st.data())
def test_the_patterns_accept_what_they_say_and_nothing_else(name, place, pattern, data):
    fitting = st.from_regex(pattern[1:-1], fullmatch=True)
    text = data.draw(fitting | st.text(alphabet="aZ09.-_ é\n") | st.text())
    assert accepts(name, place, text) is bool(re.fullmatch(pattern, text))


@pytest.mark.parametrize(("name", "place", "pattern"), PATTERNS)
def test_the_patterns_are_written_as_in_the_spec(name, place, pattern):
    assert schema_at(name, place)["pattern"] == pattern


@pytest.mark.parametrize(("name", "place", "allowed"), ENUMS)
def test_the_vocabularies_are_written_as_in_the_spec(name, place, allowed):
    assert schema_at(name, place)["enum"] == allowed


@pytest.mark.parametrize(("name", "place", "allowed"), ENUMS)
@given(other=st.text() | st.none() | st.booleans() | st.integers())
def test_a_closed_vocabulary_has_its_words_and_no_other(name, place, allowed, other):
    assert [word for word in allowed if not accepts(name, place, word)] == []
    near_misses = [word.upper() for word in allowed] + [f"{word} " for word in allowed]
    assert [word for word in [*near_misses, "", "none"] if accepts(name, place, word)] == []
    assert accepts(name, place, other) is (other in allowed)


@given(st.lists(st.sampled_from(MODES), min_size=1))
def test_any_modes_may_be_declared_but_each_only_once(modes):
    assert accepts(SUITE, ("modes",), modes) is (len(set(modes)) == len(modes))


@given(st.lists(st.sampled_from(MODEL_CLASSES)))
def test_any_model_classes_may_be_allowed_but_each_only_once(classes):
    assert accepts(SUITE, ("allowedModels",), classes) is (len(set(classes)) == len(classes))


@pytest.mark.parametrize(("name", "place", "low", "high"), SHARES)
@given(number=st.floats(-3, 3) | st.integers(-3, 3))
def test_scores_and_weights_stay_between_their_bounds(name, place, low, high, number):
    assert accepts(name, place, number) is (low <= number <= high)
    assert accepts(name, place, low)
    assert accepts(name, place, high)
    assert not accepts(name, place, str(high))


@pytest.mark.parametrize(("name", "place"), COSTS)
@given(cost=st.floats(-1e6, 1e6) | st.integers(-10, 10**9))
def test_a_cost_is_0_or_more(name, place, cost):
    assert accepts(name, place, cost) is (cost >= 0)
    assert not accepts(name, place, None)


@pytest.mark.parametrize(("name", "place"), WHOLE_NUMBERS)
@given(count=st.integers(-(2**53), 2**53))
def test_a_count_or_a_latency_is_a_whole_number_of_0_or_more(name, place, count):
    assert accepts(name, place, count) is (count >= 0)
    assert accepts(name, place, 0)
    assert not accepts(name, place, 0.5)
    assert not accepts(name, place, True)


@pytest.mark.parametrize(
    "place", [("passed",), ("tasks", 0, "passed"), ("tasks", 0, "schemaValid")]
)
def test_a_verdict_is_true_or_false_and_nothing_like_it(place):
    assert accepts(SUMMARY, place, value=True)
    assert accepts(SUMMARY, place, value=False)
    assert [value for value in (0, 1, "true", None) if accepts(SUMMARY, place, value)] == []


def test_a_timestamp_is_a_date_and_time_where_formats_are_checked():
    checker = jsonschema_rs.Draft202012Validator(load(EVENT), validate_formats=True)
    good = ["2026-03-01T09:30:00Z", "2026-03-01T09:30:00.123+02:00"]
    bad = ["", "yesterday", "2026-03-01", "2026-03-01 09:30", "2026-13-01T09:30:00Z"]
    assert [t for t in good if not checker.is_valid(full(EVENT, ("timestamp",), t))] == []
    assert [t for t in bad if checker.is_valid(full(EVENT, ("timestamp",), t))] == []


# The shared examples.


@pytest.mark.parametrize(
    ("name", "example"), [(SUITE, "suite.json"), (SUMMARY, "eval-summary.json")]
)
def test_the_shared_example_is_valid(name, example):
    document = read_shared(SHARED / "openwop" / "examples" / example)
    assert complaints(name, document) == []


def test_the_shared_log_is_made_of_valid_events():
    events = read_shared(SHARED / "openwop" / "examples" / "events.json")
    entries = events if isinstance(events, list) else events["events"]
    assert entries
    assert [found for event in entries for found in complaints(EVENT, event)] == []

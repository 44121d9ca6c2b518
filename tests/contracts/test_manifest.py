"""Agent manifests: the schema in words of our own, and every problem at once."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalwright.contracts.errors import InvalidDocument
from evalwright.contracts.manifest import Manifest, parse_manifest, parse_pack, problem_of_ref
from evalwright.contracts.schema import MANIFEST, TOOLS, load_schema

SHARED = Path(__file__).parents[2].parent / "shared" / "openwop"
WORDS = ("$id", "title", "description")

SMALLEST: dict[str, Any] = {
    "agentId": "vendor.acme.support.resolver",
    "persona": "Support Resolver",
    "modelClass": "general",
    "systemPrompt": "Be kind.",
}
FULL: dict[str, Any] = {
    **{key: value for key, value in SMALLEST.items() if key != "systemPrompt"},
    "systemPromptRef": "prompts/resolver.md",
    "evalSuiteRef": "evals/refunds.json",
    "toolAllowlist": ["mcp:orders.lookup"],
    "requiresCapabilities": ["host.workspace"],
    "memoryShape": {"scratchpad": True, "conversation": False, "longTerm": True},
    "confidence": {"defaultThreshold": 0.7},
    "handoff": {"taskSchemaRef": "schemas/task.json", "returnSchemaRef": "schemas/return.json"},
    "label": "Resolver",
    "description": "Solves things.",
    "promptLibraryRef": "acme.prompts",
    "promptOverrides": {"few-shot": "prompt:examples@1.0.0"},
}


def parse(document: Any, name: str = "agent.json") -> Manifest:
    return parse_manifest(json.dumps(document).encode(), name)


def problems_of(document: Any) -> dict[str, str]:
    with pytest.raises(InvalidDocument) as raised:
        parse(document)
    assert raised.value.exit_code == 2
    return {problem.path: str(problem) for problem in raised.value.problems}


def structure(schema: Any, *, inside_properties: bool = False) -> Any:
    if isinstance(schema, list):
        return [structure(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: structure(value, inside_properties=key == "properties")
        for key, value in schema.items()
        if inside_properties or key not in WORDS
    }


def test_a_manifest_that_uses_every_field_is_read():
    manifest = parse(FULL)
    assert manifest.system_prompt_ref == "prompts/resolver.md"
    assert manifest.tool_allowlist == ["mcp:orders.lookup"]
    assert manifest.memory_shape.long_term
    assert manifest.handoff.return_schema_ref == "schemas/return.json"
    assert manifest.prompt_overrides == {"few-shot": "prompt:examples@1.0.0"}


def test_a_manifest_needs_no_more_than_a_name_a_class_and_a_prompt():
    manifest = parse(SMALLEST)
    assert manifest.tool_allowlist is None
    assert not manifest.memory_shape.long_term
    assert manifest.handoff.task_schema_ref is None


def test_a_manifest_may_be_written_as_yaml():
    text = "\n".join(f"{key}: {value}" for key, value in SMALLEST.items())
    assert parse_manifest(text.encode(), "agent.yaml") == parse(SMALLEST)


def test_all_problems_are_told_at_once_with_place_and_remedy():
    document = SMALLEST | {
        "agentId": "clerk",
        "modelClass": "clever",
        "systemPromptRef": "../prompt.md",
        "toolAllowlst": [],
        "handoff": {"taskSchemaRef": "/etc/passwd"},
        "confidence": {"defaultThreshold": 7},
    }
    told = problems_of(document)
    assert "vendor.acme.support.resolver" in told["$.agentId"]
    assert "classification" in told["$.modelClass"]
    assert "`..`" in told["$.systemPromptRef"]
    assert "absolute" in told["$.handoff.taskSchemaRef"]
    assert "$.confidence.defaultThreshold" in told
    assert "one of them" in told["$"]


def test_a_misspelt_field_is_told_its_right_name():
    assert "did you mean toolAllowlist?" in problems_of(SMALLEST | {"toolAllowlst": []})["$"]


@pytest.mark.parametrize(
    "document",
    [
        {key: value for key, value in SMALLEST.items() if key != "systemPrompt"},
        SMALLEST | {"systemPromptRef": "a.md"},
    ],
)
def test_exactly_one_system_prompt_is_given(document: dict[str, Any]):
    assert "systemPrompt or systemPromptRef" in problems_of(document)["$"]


@pytest.mark.parametrize("hostile", [[], "x", None, 7, [SMALLEST], {"agents": [SMALLEST]}])
def test_what_is_no_manifest_at_all_is_refused(hostile: Any):
    assert "$" in problems_of(hostile)


@pytest.mark.parametrize(
    "source", [b"", b"{", b"\xff\xfe", b'{"a":1,"a":2}', b"[" * 100_000, b"NaN", b"\x00"]
)
def test_hostile_bytes_are_bad_input_and_no_crash(source: bytes):
    for name in ("agent.json", "agent.yaml"):
        with pytest.raises(InvalidDocument):
            parse_manifest(source, name)


@given(st.recursive(st.none() | st.booleans() | st.text(), st.lists), st.sampled_from([*FULL]))
def test_nothing_is_read_that_the_schema_refuses(value: Any, field: str):
    document = FULL | {field: value}
    assert not is_read(document) or jsonschema_rs.is_valid(load_schema(MANIFEST), document)


def is_read(document: Any) -> bool:
    try:
        parse(document)
    except InvalidDocument:
        return False
    return True


@pytest.mark.parametrize(
    "ref",
    [
        "../x",
        "a/../../x",
        "/etc/passwd",
        "file:///etc/passwd",
        "https://x/y",
        "C:/x",
        "a\\b",
        "a\0b",
    ],
)
def test_a_reference_that_leads_out_is_refused(ref: str):
    assert problem_of_ref(ref)


@pytest.mark.parametrize("ref", ["a.md", "prompts/a.md", "./a.md", "a..b.md", ".hidden/x"])
def test_a_reference_that_stays_inside_is_followed(ref: str):
    assert problem_of_ref(ref) is None


# Packs.


def pack(*agents: Any, **fields: Any) -> bytes:
    return json.dumps({"agents": agents, **fields}).encode()


def test_the_agents_of_a_pack_are_read_and_the_rest_is_not_looked_at():
    other = SMALLEST | {"agentId": "vendor.acme.support.triage"}
    source = pack(SMALLEST, other, name="vendor.acme.support", version="1.0.0", signing={"a": 1})
    ids = [manifest.agent_id for manifest in parse_pack(source, "pack.json")]
    assert ids == ["vendor.acme.support.resolver", "vendor.acme.support.triage"]


def test_problems_of_a_pack_say_in_which_agent_they_are():
    with pytest.raises(InvalidDocument) as raised:
        parse_pack(pack(SMALLEST, SMALLEST | {"persona": ""}, name="vendor.other"), "pack.json")
    paths = [problem.path for problem in raised.value.problems]
    assert "$.agents[1].persona" in paths
    assert paths.count("$.agents[1].agentId") == 2  # twice in the pack, and of another pack


@pytest.mark.parametrize("source", [b"{}", b'{"agents":[]}', b'{"agents":{}}', b"[]"])
def test_a_pack_without_agents_is_refused(source: bytes):
    with pytest.raises(InvalidDocument, match="no list of agents"):
        parse_pack(source, "pack.json")


# The schemas themselves.


@pytest.mark.parametrize("name", [MANIFEST, TOOLS])
def test_the_schemas_are_valid_and_describe_every_property(name: str):
    schema = load_schema(name)
    jsonschema_rs.meta.validate(schema)
    assert schema["$id"] == f"urn:evalwright:schema:{name}"
    for path, part in described(schema):
        assert part.get("description", "").endswith("."), path


def test_the_structure_is_that_of_the_protocol_but_for_references_to_prompts():
    ours, theirs = structure(load_schema(MANIFEST)), structure(original())
    del ours["properties"]["promptOverrides"], theirs["properties"]["promptOverrides"]
    assert json.dumps(ours, sort_keys=True) == json.dumps(theirs, sort_keys=True)


def test_the_wording_is_our_own():
    assert runs_of_words(load_schema(MANIFEST)).isdisjoint(runs_of_words(original()))


def test_the_example_of_the_protocol_is_a_manifest():
    example = shared("examples/manifest.json")
    assert parse(example).agent_id == example["agentId"]


def original() -> Any:
    return shared("schemas/agent-manifest.schema.json")


def shared(name: str) -> Any:
    path = SHARED / name
    if not path.is_file():
        pytest.skip(f"needs {path}, which is not part of the repository")
    return json.loads(path.read_text(encoding="utf-8"))


def described(schema: Any, path: str = "$") -> list[tuple[str, dict[str, Any]]]:
    found = []
    for name, part in schema.get("properties", {}).items():
        inner = part.get("items", part)
        found += [(f"{path}.{name}", part), *described(inner, f"{path}.{name}")]
    return found


def runs_of_words(schema: Any, length: int = 8) -> set[str]:
    runs = set()
    for _, part in described(schema):
        words = (
            re.findall(r"[a-z0-9]+", part["description"].lower()) if "description" in part else []
        )
        runs |= {" ".join(words[i : i + length]) for i in range(len(words) - length + 1)}
    return runs

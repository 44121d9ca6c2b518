"""`pack.json`: what it must say, and how it fits the protocol's own schema."""

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packing import DESK, SIGNING, a_pack_agent, a_pack_json

from evalwright.contracts.errors import InvalidDocument
from evalwright.contracts.pack import (
    InvalidPack,
    PackError,
    PackIntegrityMismatch,
    PackPeerMissing,
    PackSignatureInvalid,
    PackVersionNotFound,
    Signing,
    integrity_of,
    is_integrity,
    parse_pack_manifest,
)
from evalwright.contracts.schema import load_schema

SHARED = Path(__file__).parents[2].parent / "shared" / "openwop" / "schemas"
FULL: dict[str, Any] = {
    "kind": "node",
    "description": "A shop.",
    "author": "Acme",
    "license": "Apache-2.0",
    "homepage": "https://agents.example/shop",
    "repository": "https://agents.example/shop.git",
    "keywords": ["shop"],
    "dependencies": {"vendor.acme.tools": "^1.0.0"},
    "peerDependencies": {"aiProviders": "supported", "host.fs": "supported"},
    "peerDependenciesMeta": {"host.fs": {"optional": True}},
    "signing": SIGNING,
}


def parse(**fields: Any) -> Any:
    return parse_pack_manifest(json.dumps(a_pack_json(**fields)).encode())


def problems(**fields: Any) -> str:
    with pytest.raises(InvalidDocument) as raised:
        parse(**fields)
    return str(raised.value)


def test_a_pack_has_a_name_a_version_and_agents() -> None:
    manifest = parse(**FULL)
    assert manifest.ref == "vendor.acme.shop@1.0.0"
    assert [agent.agent_id for agent in manifest.agents] == [DESK]
    assert manifest.signing == Signing("manual", "acme-1", "keys/pack.json.sig")


def test_what_a_pack_can_do_without_is_not_needed_of_a_host() -> None:
    assert parse(**FULL).needed_peers() == {"aiProviders": "supported"}


@pytest.mark.parametrize("field", ["name", "version", "engines", "runtime", "agents"])
def test_a_field_that_is_missing_is_named(field: str) -> None:
    assert f'"{field}" is a required property' in problems(**{field: None})


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"name": "shop"}, "$.name"),
        ({"name": "local.acme.shop"}, "$.name"),
        ({"version": "1.0"}, "$.version"),
        ({"kind": "workflow-chain"}, "$.kind"),
        ({"agents": []}, "$.agents"),
        ({"nodes": {}}, "$.nodes"),
        ({"signing": {"method": "trust-me"}}, "$.signing.method"),
        ({"peerDependencies": {"host.fs": 1}}, '$.peerDependencies["host.fs"]'),
        ({"agents": [a_pack_agent(agentId="vendor.other.desk")]}, "$.agents[0].agentId"),
        ({"agents": [a_pack_agent(agentId=f"{DESK}.deeper")]}, "$.agents[0].agentId"),
        ({"agents": [a_pack_agent(), a_pack_agent()]}, "$.agents[1].agentId"),
        ({"agents": [a_pack_agent(evalSuiteRef="../a.json")]}, "$.agents[0].evalSuiteRef"),
        ({"agents": [a_pack_agent(systemPrompt="two")]}, "$.agents[0]"),
        ({"runtime": {"language": "python", "entry": "a.py"}}, "$.runtime.language"),
    ],
)
def test_a_broken_rule_is_told_with_its_place(fields: dict[str, Any], place: str) -> None:
    assert f"pack.json: {place}: " in problems(**fields)


def test_all_problems_are_told_at_once() -> None:
    told = problems(version="1", agents=[a_pack_agent(agentId="vendor.other.desk")], note="x")
    assert len(told.splitlines()) == 3


any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(-1e9, 1e9) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=300)
@given(st.data())
def test_whatever_stands_in_a_field_is_accepted_or_told(data: st.DataObject) -> None:
    document = copy.deepcopy(a_pack_json(**FULL, nodes=[]))
    holder = data.draw(st.sampled_from([document, document["agents"][0], document["signing"]]))
    holder[data.draw(st.sampled_from(sorted(holder)))] = data.draw(any_json)
    try:
        told = parse_pack_manifest(json.dumps(document).encode()).name
    except InvalidDocument as invalid:
        told = str(invalid)
    assert told.startswith(("vendor.", "core.", "community.", "private.", "pack.json: $"))


def test_a_long_list_of_problems_is_cut_short() -> None:
    told = str(InvalidPack("shop.tgz", ["wrong"] * 1000)).splitlines()
    assert told[-1] == "… and 950 more problems"
    assert len(told) == 51


def test_a_key_that_stands_twice_is_refused() -> None:
    source = json.dumps(a_pack_json())[:-1] + ', "name": "vendor.other.shop"}'
    with pytest.raises(InvalidDocument, match="duplicate key"):
        parse_pack_manifest(source.encode())


def test_our_schema_describes_every_field_in_words_of_its_own() -> None:
    schema = load_schema("agent-pack")
    jsonschema_rs.meta.validate(schema)
    assert schema["$id"] == "urn:evalwright:schema:agent-pack"
    for name, part in schema["properties"].items():
        assert part["description"].endswith("."), name


@pytest.mark.parametrize("fields", [{}, FULL, {"nodes": []}], ids=["least", "full", "no nodes"])
def test_what_we_accept_the_protocol_accepts(fields: dict[str, Any]) -> None:
    places = {
        name: SHARED / f"{name}.schema.json" for name in ("node-pack-manifest", "agent-manifest")
    }
    if not all(place.is_file() for place in places.values()):
        pytest.skip("the protocol's schemas are not part of the repository")
    schema, agent = (json.loads(place.read_text("utf-8")) for place in places.values())
    known = {agent["$id"]: agent}  # what it refers to in turn is of no concern here
    theirs = jsonschema_rs.Draft202012Validator(schema, retriever=lambda uri: known.get(uri, {}))
    parse(**fields)
    theirs.validate(a_pack_json(**fields))
    ours = load_schema("agent-pack")
    assert set(ours["properties"]) == set(schema["properties"])
    for field in ("name", "version"):
        assert ours["properties"][field]["pattern"] == schema["properties"][field]["pattern"]


def test_an_integrity_is_the_hash_in_base64() -> None:
    assert integrity_of(b"") == f"sha256-{DIGEST}"
    assert is_integrity(integrity_of(b"shop"))


DIGEST = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sha256-",
        "sha256-AAAA",
        "sha256-é",
        DIGEST,
        f"sha512-{DIGEST}",
        f"sha256-{DIGEST}\n",
        f"sha256-{DIGEST[:-2]}V=",  # other bits, same bytes
    ],
)
def test_what_is_no_integrity_is_told_apart(text: str) -> None:
    assert not is_integrity(text)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (InvalidPack, "validation_error"),
        (PackIntegrityMismatch, "pack_integrity_mismatch"),
        (PackSignatureInvalid, "pack_signature_invalid"),
        (PackPeerMissing, "pack_peer_dependency_missing"),
        (PackVersionNotFound, "pack_version_not_found"),
    ],
)
def test_a_refusal_has_the_code_that_a_host_answers(kind: type[PackError], code: str) -> None:
    assert (kind.code, kind.exit_code) == (code, 2)

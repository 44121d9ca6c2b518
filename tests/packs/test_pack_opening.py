"""Opening a pack: its agents and suites, and every problem of what they refer to."""

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import pytest
from packing import DESK, PACK, a_pack_agent, an_archive, pack_files

from builders import a_suite_document
from evalwright.agents.load import load_agent
from evalwright.agents.manifest import MAX_FILE_BYTES
from evalwright.agents.packs.pack import installed_pack, open_pack
from evalwright.contracts.errors import BadInput
from evalwright.contracts.pack import InvalidPack, PackVersionNotFound, integrity_of
from evalwright.models.protocol import Reply, Request
from evalwright.store.records import RecordChange
from evalwright.store.sqlite.log import SqliteLog

LONG = random.Random(7).randbytes(MAX_FILE_BYTES).hex().encode()


class Silent:
    """A model that is never asked."""

    name = "scripted:silent"

    async def ask(self, request: Request) -> Reply:
        raise AssertionError(request)

    async def close(self) -> None:
        pass


def opened(**changes: bytes | None) -> Any:
    """A pack with some of its files changed, or left out."""
    files = {**pack_files(), **changes}
    return open_pack(an_archive({name: it for name, it in files.items() if it is not None}))


def refused(**changes: bytes | None) -> str:
    with pytest.raises(InvalidPack) as raised:
        opened(**changes)
    return str(raised.value)


def with_agent(**fields: Any) -> dict[str, bytes]:
    return {"pack.json": pack_files(agents=[a_pack_agent(**fields)])["pack.json"]}


def test_a_pack_is_known_by_name_and_version() -> None:
    archive = an_archive(pack_files())
    pack = open_pack(archive)
    assert (pack.name, pack.version, pack.ref) == (PACK, "1.0.0", f"{PACK}@1.0.0")
    assert list(pack.manifests) == [DESK]
    assert (pack.archive, pack.integrity) == (archive, integrity_of(archive))


def test_the_suite_of_an_agent_is_the_one_its_manifest_names() -> None:
    pack = opened()
    suite = pack.suite_of(DESK)
    assert suite.ref == "acme.shop.evals.desk@1.0.0"
    assert suite.source == pack_files()["evals/desk.json"]
    assert pack.suites == {suite.ref: suite}


@pytest.mark.parametrize("ref", ["./evals/desk.json", "evals//desk.json"])
def test_a_reference_may_be_written_in_other_ways(ref: str) -> None:
    assert opened(**with_agent(evalSuiteRef=ref)).suite_of(DESK).place == "evals/desk.json"


def test_suites_that_no_agent_names_are_there_too() -> None:
    other = json.dumps(
        a_suite_document(1, suiteId="acme.shop.evals.other", version="2.0.0")
    ).encode()
    assert list(opened(**{"evals/other.json": other}).suites) == [
        "acme.shop.evals.desk@1.0.0",
        "acme.shop.evals.other@2.0.0",
    ]


def test_an_agent_without_a_suite_has_none() -> None:
    files = pack_files(agents=[{k: v for k, v in a_pack_agent().items() if k != "evalSuiteRef"}])
    assert open_pack(an_archive(files)).suite_of(DESK) is None


def test_an_agent_is_played_by_the_model_that_is_given() -> None:
    model = Silent()
    agent = opened().agent(DESK, model)
    assert (agent.agent_id, agent.model_class, agent.model) == (DESK, "general", model)
    assert agent.ref == f"{PACK}@1.0.0#{DESK}"
    asyncio.run(agent.close())


def test_an_agent_that_the_pack_does_not_have_is_refused_with_those_it_has() -> None:
    for ask in (opened().suite_of, lambda agent_id: opened().agent(agent_id, Silent())):
        with pytest.raises(BadInput, match=f"no agent 'nobody' .it has: {DESK}"):
            ask("nobody")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"prompts/desk.md": None}, "systemPromptRef 'prompts/desk.md': there is no such file"),
        ({"prompts/desk.md": b" "}, "prompts/desk.md: $: the system prompt is empty"),
        ({"prompts/desk.md": b"\xff"}, "prompts/desk.md: byte 0: the file is not UTF-8"),
        ({"prompts/desk.md": LONG}, "prompts/desk.md: the file is longer than"),
        ({"schemas/return.json": None}, "handoff.returnSchemaRef 'schemas/return.json'"),
        ({"schemas/return.json": b"{"}, "schemas/return.json: line 1"),
        ({"schemas/return.json": b'{"type": 1}'}, "schemas/return.json: $.type: not a JSON Schema"),
        ({"evals/desk.json": None}, "evalSuiteRef 'evals/desk.json': there is no such file"),
        ({"evals/desk.json": b"{}"}, "evals/desk.json: $: not a suite"),
        ({"evals/extra.json": b"[]"}, "evals/extra.json: $"),
        (
            {"evals/twin.json": pack_files()["evals/desk.json"]},
            "is already the suite of evals/desk",
        ),
        (with_agent(evalSuiteRef="evals/desk.yaml"), "evals/desk.yaml: a suite in a pack is JSON"),
        (with_agent(promptOverrides={"user": {}}), f"pack.json: {DESK}: $.promptOverrides: user"),
        ({"pack.json": b"{}"}, "pack.json: $"),
        ({"pack.json": None, "shop/pack.json": b"{}"}, "no pack.json, only shop/pack.json"),
    ],
)
def test_what_is_missing_or_invalid_is_told_with_its_place(
    changes: dict[str, bytes | None], told: str
) -> None:
    assert told in refused(**changes)


def test_every_problem_of_the_contents_is_told_at_once() -> None:
    told = refused(**{"prompts/desk.md": None, "evals/desk.json": b"{", "evals/other.json": b"1"})
    assert len(told.splitlines()) >= 3


def test_an_agent_is_loaded_from_an_archive_on_disk(tmp_path: Path) -> None:
    (tmp_path / "shop.tgz").write_bytes(an_archive(pack_files()))
    for ref in (f"{tmp_path}/shop.tgz", f"{tmp_path}/shop.tgz#{DESK}"):
        agent = load_agent(ref, model=Silent())
        assert (agent.agent_id, agent.ref) == (DESK, ref)


def test_an_agent_of_an_archive_with_several_has_to_be_chosen(tmp_path: Path) -> None:
    boss = a_pack_agent(agentId=f"{PACK}.boss")
    (tmp_path / "shop.tgz").write_bytes(an_archive(pack_files(agents=[a_pack_agent(), boss])))
    with pytest.raises(BadInput, match=rf"several agents: .*; write .*shop.tgz#{DESK}"):
        load_agent(f"{tmp_path}/shop.tgz", model=Silent())
    assert load_agent(f"{tmp_path}/shop.tgz#{PACK}.boss", model=Silent()).agent_id == f"{PACK}.boss"


def test_a_pack_that_a_tenant_installed_is_opened_and_no_other_tenants(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")
    try:
        change = RecordChange("pack", "acme", f"{PACK}@1.0.0", an_archive(pack_files()))
        log.records.write([change]).result()
        assert installed_pack(log.records, "acme", f"{PACK}@1.0.0").name == PACK
        for tenant, ref in [("other", f"{PACK}@1.0.0"), ("acme", f"{PACK}@2.0.0")]:
            with pytest.raises(PackVersionNotFound, match="is not installed"):
                installed_pack(log.records, tenant, ref)
    finally:
        log.close()

"""Quotas: what one tenant may have in the log, and the refusal of more."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from builders import a_suite, as_document
from evalwright.host.errors import ApiError
from evalwright.host.quotas import REFRESH_SECONDS, Quotas
from evalwright.host.settings import QuotaSettings
from host.caller import Caller, Reply
from host.server import running_host

LIMITS = {"runs": 3, "suites": 3, "annotations": 2, "bytes": 1_000_000}


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Any]:
    with running_host(tmp_path / "host.db", settings={"quotas": LIMITS}) as served:
        yield served


def assert_refused(reply: Reply, quota: str, used: int) -> None:
    assert reply.refusal == (403, "quota_exceeded")
    document = reply.json()
    details = document["details"]
    assert (details["quota"], details["limit"], details["used"]) == (quota, LIMITS[quota], used)
    assert details["remedy"].startswith("delete ")
    assert f"quota of {quota}" in document["message"]
    assert details["remedy"] in document["message"]


def a_version(number: int) -> dict[str, Any]:
    return as_document(a_suite(1, version=f"1.0.{number}"))


def test_no_more_runs_than_the_quota_and_room_again_after_a_deletion(limited: Any) -> None:
    caller = limited.caller()
    first, *_ = [caller.evaluate() for _ in range(3)]
    assert_refused(caller.create(), "runs", 3)
    forked = caller.post(f"/v1/runs/{first}:fork", {"mode": "replay"})
    assert_refused(forked, "runs", 3)
    assert limited.caller("other").create().status == 201, "a quota is one tenant's"
    assert caller.send("DELETE", f"/v1/runs/{first}").status == 204
    caller.evaluate()
    assert_refused(caller.create(), "runs", 3)


def test_workspaces_and_test_keys_share_the_quota_of_their_tenant(limited: Any) -> None:
    limited.caller("acme").evaluate()
    limited.caller("acme", workspace="blue").evaluate()
    limited.caller("acme", is_test=True).evaluate()
    for fields in ({}, {"workspace": "blue"}, {"is_test": True}):
        assert_refused(limited.caller("acme", **fields).create(), "runs", 3)
    assert limited.caller("acme2").create().status == 201, "another tenant, by a longer name"


def test_many_requests_at_once_do_not_get_past_the_quota(limited: Any) -> None:
    caller = limited.caller()
    ref = caller.publish(a_suite(1))
    with ThreadPoolExecutor(12) as pool:
        replies = list(pool.map(lambda _: caller.create(ref), range(24)))
    assert sorted(reply.status for reply in replies) == [201] * 3 + [403] * 21


def test_no_more_suites_than_the_quota_but_the_same_one_again(limited: Any) -> None:
    caller = limited.caller()
    replies = [caller.post("/v1/suites", a_version(number)) for number in (1, 2, 3, 4, 1)]
    assert [reply.status for reply in replies] == [201, 201, 201, 403, 200]
    assert_refused(replies[3], "suites", 3)
    caller.send("DELETE", "/v1/suites/acme.shop.evals.refunds@1.0.1")
    assert caller.post("/v1/suites", a_version(4)).status == 201


def test_no_more_annotations_than_the_quota(limited: Any) -> None:
    caller = limited.caller()
    run_id = caller.evaluate()
    path, flag = f"/v1/runs/{run_id}/annotations", {"signal": {"kind": "flag"}}
    replies = [caller.post(path, flag) for _ in range(3)]
    assert [reply.status for reply in replies] == [201, 201, 403]
    assert_refused(replies[2], "annotations", 2)


def test_no_more_bytes_than_the_quota(limited: Any) -> None:
    caller = limited.caller()
    heavy = a_version(1)
    heavy["tasks"][0]["input"] = "x" * 400_000
    assert caller.post("/v1/suites", heavy).status == 201
    caller.evaluate("acme.shop.evals.refunds@1.0.1")  # the log of a run has its suite
    refused = caller.post("/v1/suites", {**heavy, "version": "1.0.2"})
    assert refused.refusal == (403, "quota_exceeded")
    assert refused.json()["details"]["quota"] == "bytes"
    assert 800_000 < refused.json()["details"]["used"] <= 1_000_000


def test_agents_count_at_once_by_their_bytes(limited: Any) -> None:
    caller = limited.caller()
    manifest = {"agentId": "vendor.acme.shop.desk", "persona": "Desk", "modelClass": "general"}
    manifest["systemPrompt"] = "x" * 400_000
    bodies = [{"version": f"1.0.{number}", "manifest": manifest} for number in range(4)]
    replies = [caller.post("/v1/agents", body) for body in bodies]
    assert [reply.status for reply in replies] == [201, 201, 403, 403]
    assert replies[2].json()["details"]["quota"] == "bytes"


def test_what_others_write_counts_after_a_while(limited: Any) -> None:
    now = 0.0
    quotas = Quotas(limited.log, QuotaSettings(suites=1), lambda: now)

    async def ask() -> None:
        async with quotas.room_for("acme", 0, "suites"):
            pass

    quotas._documents_of("acme")  # counted: none
    Caller(limited.url, limited.key()).publish(a_suite(1))
    now = REFRESH_SECONDS + 1
    with pytest.raises(ApiError, match="1 of 1 are used"):
        asyncio.run(ask())


def test_a_write_that_fails_counts_for_nothing(limited: Any) -> None:
    quotas = Quotas(limited.log, QuotaSettings(suites=1))

    async def fail() -> None:
        async with quotas.room_for("acme", 10, "suites"):
            raise KeyError

    for _ in range(3):
        with pytest.raises(KeyError):
            asyncio.run(fail())

"""Quotas: what one tenant may have in the log, and the refusal of more."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from builders import AGENT_ID, a_suite, as_document
from evalwright.host.access.quotas import Quota, Quotas
from evalwright.host.http.errors import ApiError
from evalwright.host.http.settings import QuotaSettings
from evalwright.store.upkeep import PartitionSize
from host.caller import Reply
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


def test_what_others_write_and_delete_counts_at_once(limited: Any) -> None:
    caller = limited.caller()
    for _ in range(3):
        caller.evaluate()
    other = Quotas(limited.log, QuotaSettings(runs=3))  # of another host over the same log
    with pytest.raises(ApiError, match="3 of 3 are used"):
        asyncio.run(ask(other, "runs"))
    caller.send("DELETE", f"/v1/runs/{caller.run_ids()[0]}")
    asyncio.run(ask(other, "runs"))


async def ask(quotas: Quotas, what: Quota) -> None:
    async with quotas.room("acme") as room:
        await room.need(0, what)


def test_a_write_that_fails_counts_for_nothing(limited: Any) -> None:
    quotas = Quotas(limited.log, QuotaSettings(suites=1))

    async def fail() -> None:
        async with quotas.room("acme") as room:
            await room.need(10, "suites")
            raise KeyError

    for _ in range(3):
        with pytest.raises(KeyError):
            asyncio.run(fail())


class Sums:
    """A log that holds so many suites; while it is read for the first time, something happens."""

    def __init__(self, suites: int, seen: int, meanwhile: Any) -> None:
        self.records = self.upkeep = self
        self._suites = suites
        self._seen = seen
        self._meanwhile = meanwhile
        self.reads = 0

    def in_reader(self, _: str, read: Callable[[], None]) -> "Future[None]":
        """Read."""
        done: Future[None] = Future()
        try:
            done.set_result(read())
        except ApiError as refusal:
            done.set_exception(refusal)
        return done

    def sizes(self, _: str) -> list[PartitionSize]:
        """What is there."""
        self.reads += 1
        found, self._seen = self._seen, self._suites
        meanwhile, self._meanwhile = self._meanwhile, lambda: None
        meanwhile()
        return [PartitionSize("acme", "suite", found, 0)]


@pytest.mark.parametrize(("limit", "seen"), [(1, 0), (1, 1), (2, 1)])
def test_a_request_that_ends_while_another_looks_is_counted_once(limit: int, seen: int) -> None:
    """It is in the sum that the other one reads, or it still counts as pending, or both."""
    quotas = Quotas(Sums(0, 0, lambda: None), QuotaSettings(suites=limit))  # type: ignore[arg-type]

    async def work() -> None:
        first = AsyncExitStack()
        room = await first.enter_async_context(quotas.room("acme"))
        await room.need(0, "suites")

        def end() -> None:
            asyncio.run_coroutine_threadsafe(first.aclose(), other).result()

        other = asyncio.new_event_loop()
        thread = threading.Thread(target=other.run_forever)
        thread.start()
        quotas._log = Sums(1, seen, end)  # type: ignore[assignment]
        try:
            await ask(quotas, "suites")
        finally:
            other.call_soon_threadsafe(other.stop)
            thread.join()
            other.close()

    if limit > 1:
        asyncio.run(work())
    else:
        with pytest.raises(ApiError, match="1 of 1 are used"):
            asyncio.run(work())


def test_a_request_that_begins_and_ends_while_another_looks_is_counted() -> None:
    sums = Sums(0, 0, lambda: None)
    quotas = Quotas(sums, QuotaSettings(suites=1))  # type: ignore[arg-type]

    def publish() -> None:
        with ThreadPoolExecutor(1) as other:
            other.submit(asyncio.run, ask(quotas, "suites")).result()
        sums._suites = sums._seen = 1

    sums._meanwhile = publish
    with pytest.raises(ApiError, match="1 of 1 are used"):
        asyncio.run(ask(quotas, "suites"))


def test_only_answers_that_are_kept_may_go_beyond_the_quota_of_bytes_and_only_by_a_tenth() -> None:
    sums = Sums(0, 0, lambda: None)
    quotas = Quotas(sums, QuotaSettings(bytes=1000, runs=10))  # type: ignore[arg-type]

    async def beyond(size: int, what: Quota = "bytes", count: int = 1, **kind: bool) -> str:
        async with quotas.room("acme") as room:
            try:
                await room.need(size, what, count, **kind)
            except ApiError as refusal:
                return f"{refusal.details['quota']} {refusal.details['used']}"
        return "let in"

    assert asyncio.run(beyond(1000)) == "let in"
    assert asyncio.run(beyond(1001)) == "bytes 0"
    assert asyncio.run(beyond(1100, is_answer=True)) == "let in"
    assert asyncio.run(beyond(1101, is_answer=True)) == "bytes 0"
    assert asyncio.run(beyond(0, "runs", 10, is_answer=True)) == "let in"
    assert asyncio.run(beyond(0, "runs", 11, is_answer=True)) == "runs 0"
    assert sums.reads == 6, "a sum that nobody changed meanwhile is read once"


def used_bytes(limited: Any) -> int:
    """What the tenant has in the log, by the sums of the log."""
    return sum(each.size for each in limited.log.upkeep.sizes("acme"))


def test_answers_kept_for_fresh_idempotency_keys_do_not_fill_the_disk(tmp_path: Path) -> None:
    with running_host(tmp_path / "host.db", settings={"quotas": {"bytes": 200_000}}) as served:
        caller = served.caller()
        body = {"runIds": [f"run_{'x' * 50}{number:03d}" for number in range(100)]}
        replies = [
            caller.post("/v1/runs:bulk-cancel", body, {"Idempotency-Key": f"fresh-{number}"})
            for number in range(40)
        ]
        assert {reply.status for reply in replies} == {200, 403}
        assert used_bytes(served) <= 220_000
        refusal = replies[-1].json()
        assert refusal["details"]["quota"] == "bytes"
        assert "kept for 25 hours for Idempotency-Keys" in refusal["message"]
        assert caller.post("/v1/runs:bulk-cancel", body).status == 200, "nothing is kept of it"
        again = caller.post("/v1/runs:bulk-cancel", body, {"Idempotency-Key": "fresh-0"})
        assert again.headers["openwop-idempotent-replay"] == "true"


def test_refused_transitions_are_runs_too_and_those_that_withdraw_go_on(limited: Any) -> None:
    caller, nobody = limited.caller(), limited.caller(scopes=["runs:read"])
    path = f"/v1/agents/{AGENT_ID}/deployments"
    promote = {"version": "1.0.0", "transition": "promote"}
    run_id = caller.evaluate()
    for state, evidence in (("test", {}), ("staged", {}), ("active", {"evalRunId": run_id})):
        reply = caller.post(path, {**promote, "toState": state, **evidence})
        if state != "active":
            assert reply.status == 200, reply.body
    assert_refused(reply, "runs", 3)
    for body in ({**promote, "toState": "active"}, {"version": "1.0.0", "transition": "pause"}):
        assert_refused(nobody.post(path, body), "runs", 3)
    limited.host.quotas._limits["runs"] = 4
    assert caller.post(path, {**promote, "toState": "active", **evidence}).status == 200
    assert caller.post(path, {"version": "1.0.0", "transition": "pause"}).status == 200
    assert_refused_at(caller.post(path, {**promote, "toState": "active"}), 5)
    assert len(caller.run_ids()) == 5


def assert_refused_at(reply: Reply, used: int) -> None:
    assert reply.refusal == (403, "quota_exceeded")
    assert reply.json()["details"]["used"] == used


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_large_runs_that_are_started_at_once_stay_within_the_quota(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    is_far = kind == "postgres"
    db = request.getfixturevalue("postgres_address") if is_far else tmp_path / "host.db"
    heavy = a_version(1)
    heavy["tasks"][0]["input"] = "x" * 100_000
    with running_host(db, settings={"quotas": {"bytes": 1_000_000}}) as served:
        caller = served.caller()
        ref = caller.publish(heavy)
        with ThreadPoolExecutor(16) as pool:
            replies = list(pool.map(lambda _: caller.create(ref), range(32)))
        started = [reply.json()["runId"] for reply in replies if reply.status == 201]
        assert 5 <= len(started) <= 9
        for run_id in started:
            caller.finish(run_id)
        run_id = started[0]
        forks = [caller.post(f"/v1/runs/{run_id}:fork", {"mode": "replay"}) for _ in range(9)]
        assert forks[-1].refusal == (403, "quota_exceeded"), "a copy is as large as the run"
        assert used_bytes(served) <= 1_050_000

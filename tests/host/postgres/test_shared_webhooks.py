"""Webhooks of several hosts: every event is delivered once and in order, whoever is asked."""

import asyncio
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from builders import a_suite
from evalwright.host.access.egress import Egress
from evalwright.host.access.vault import Vault
from evalwright.host.webhooks.post import AttemptResult, Poster
from host.caller import Caller
from host.server import ServedHost, running_host
from subjects.waiting import DEADLINE_SECONDS, eventually

HOOK = {"url": "https://hooks.example.com/in", "events": ["run.*", "eval.scored"]}
Delivered = dict[str, list[int]]  # sequences, by run


async def public(host: str, port: int) -> list[str]:
    return ["93.184.216.34"]


@pytest.fixture
def delivered(monkeypatch: pytest.MonkeyPatch) -> Delivered:
    found: Delivered = defaultdict(list)

    async def post(_poster: Any, _subscription: Any, event: Any, *_: Any) -> AttemptResult:
        found[event.run_id].append(event.sequence)
        return AttemptResult("delivered", "", 0.0, 204)

    monkeypatch.setattr(Poster, "post", post)
    return found


@pytest.fixture
def pair(postgres_address: str, tmp_path: Path) -> Iterator[list[ServedHost]]:
    with ExitStack() as running:
        both = {"egress": Egress(lookup=public), "vault": Vault(tmp_path / "key")}
        hasty = {"webhooks": {"max_attempts": 2, "first_retry_s": 0.05}}
        opened = [running_host(postgres_address, settings=hasty, **both) for _ in range(2)]
        yield [running.enter_context(each) for each in opened]


def wanted(caller: Caller, run_id: str) -> list[int]:
    """The events that the webhook is for."""
    frames = caller.frames(run_id)
    return [each.id for each in frames if each.name.startswith(("run.", "eval.scored"))]


def test_events_of_both_hosts_are_delivered_once_by_the_one_that_leads(
    pair: list[ServedHost], delivered: Delivered
):
    key = pair[0].key()
    callers = [Caller(served.url, key) for served in pair]
    eventually(
        lambda: [served.host.hosts.is_leader for served in pair] == [True, False], "one leads"
    )
    webhook = callers[1].post("/v1/webhooks", HOOK)
    assert webhook.status == 201
    runs = [caller.evaluate(a_suite(3)) for caller in callers for _ in range(2)]
    expected = {run_id: wanted(callers[0], run_id) for run_id in runs}
    eventually(lambda: delivered == expected, "all is delivered")

    webhook_id = webhook.json()["webhookId"]
    assert callers[1].send("DELETE", f"/v1/webhooks/{webhook_id}").status == 204
    callers[1].evaluate(a_suite(3))
    eventually(lambda: not list(pair[0].host.webhooks.lanes()), "the leader has no lane any more")
    assert delivered == expected


def test_every_host_knows_that_deliveries_fail_and_how_many_were_given_up(
    pair: list[ServedHost], monkeypatch: pytest.MonkeyPatch
):
    may_try_again = threading.Event()

    async def post(_poster: Any, _subscription: Any, _event: Any, _workspace: Any, attempt: Any):
        if attempt.number > 1:
            await asyncio.to_thread(may_try_again.wait, DEADLINE_SECONDS)
        return AttemptResult("failed", "http_status", 0.0, 500)

    monkeypatch.setattr(Poster, "post", post)
    key = pair[0].key()
    callers = [Caller(served.url, key) for served in pair]
    assert callers[0].post("/v1/webhooks", {**HOOK, "events": ["run.*"]}).status == 201

    def seen() -> list[tuple[str, int]]:
        shown = [caller.get("/v1/webhooks").json()["webhooks"][0] for caller in callers]
        return [(each["state"], each["deadLetters"]) for each in shown]

    assert seen() == [("active", 0)] * 2
    run_id = callers[1].evaluate(a_suite(1))
    eventually(lambda: seen() == [("failed", 0)] * 2, "both know that deliveries fail")
    may_try_again.set()
    letters = len([each for each in callers[0].frames(run_id) if each.name.startswith("run.")])
    eventually(lambda: [count for _, count in seen()] == [letters] * 2, "both count dead letters")

"""Deliveries over real HTTPS: signed, in order, once, and for the right tenant."""

import asyncio

import msgspec
import pytest
from aiohttp import web
from openwop_client.webhook_helpers import (
    VerifyValid,
    read_webhook_headers,
    verify_webhook_signature,
)
from webhook_station import HOST, Delivery, an_event, station, take

from evalwright.host.egress import EgressPolicy

CANARY = "canary-4711"


@pytest.fixture
def at_station(tmp_path, certificate):
    """Run a scene at a station: a coroutine function that is given it."""

    def run(scene, respond=take, **options):
        async def play():
            async with station(tmp_path, certificate, respond, **options) as place:
                return await scene(place)

        return asyncio.run(play())

    return run


def some_events(count):
    return [an_event(sequence=sequence) for sequence in range(count)]


def test_a_delivery_holds_the_event_and_whose_it_is(at_station):
    event = an_event("eval.scored", 7, taskId="t", score=1.0, passed=True)

    async def scene(place):
        await place.subscribe("eval.*")
        place.notify(event, workspace="w1")
        [told] = await place.told()
        assert (told.outcome, told.reason) == ("delivered", "status_204")
        return place.received

    [delivery] = at_station(scene)
    assert msgspec.json.decode(delivery.body) == {
        "runId": "run_1",
        "workspaceId": "w1",
        "type": "eval.scored",
        "event": msgspec.json.decode(event.to_json()),
    }
    assert delivery.headers["Content-Type"] == "application/json"
    assert delivery.headers["Host"].startswith(HOST)


@pytest.mark.parametrize("family", ["X-openwop-", "OpenWOP-"])
def test_the_official_client_verifies_the_signature_in_either_family(at_station, family):
    async def scene(place):
        subscription = await place.subscribe("run.completed")
        place.notify(an_event("run.completed", durationMs=1))
        await place.told()
        return subscription, place.clock, place.received

    subscription, clock, [delivery] = at_station(scene)
    headers = {name: text for name, text in delivery.headers.items() if name.startswith(family)}
    signature, timestamp, _ = read_webhook_headers(headers)
    now = int(clock.seconds)
    for body, secret, is_valid in [
        (delivery.body, subscription.secret, True),
        (delivery.body + b" ", subscription.secret, False),
        (delivery.body, "another secret", False),
    ]:
        verified = verify_webhook_signature(secret, signature, timestamp, body, now_seconds=now)
        assert isinstance(verified, VerifyValid) == is_valid
    assert headers[f"{family}Webhook-Id"] == subscription.webhook_id
    assert headers[f"{family}Event-Type"] == "run.completed"
    assert headers[f"{family}Signature-Algorithm"] == "v1"


def test_content_is_delivered_only_to_who_asked_for_it(at_station):
    error = {"code": "agent_error", "message": CANARY}
    events = [
        an_event("run.started", 0, workflowId="s", inputs={"q": CANARY}),
        an_event("agent.reasoned", 1, agentId="local.a", reasoning=CANARY),
        an_event("run.failed", 2, error=error),
    ]

    async def scene(place):
        await place.subscribe("*", path="/plain")
        await place.subscribe("*", path="/full", include_content=True)
        place.notify(*events)
        assert await place.outcomes(5) == ["delivered"] * 5
        return place.received

    received = at_station(scene)
    plain = [delivery for delivery in received if delivery.path == "/plain"]
    full = [delivery for delivery in received if delivery.path == "/full"]
    assert [delivery.sequence for delivery in plain] == [0, 2]
    assert [delivery.sequence for delivery in full] == [0, 1, 2]
    assert all(CANARY.encode() not in delivery.body for delivery in plain)
    assert all(CANARY.encode() in delivery.body for delivery in full)


def test_a_subscription_sees_the_runs_of_its_own_tenant_only(at_station):
    async def scene(place):
        await place.subscribe("*", include_content=True, path="/acme")
        await place.subscribe("*", include_content=True, path="/other", tenant="other")
        place.notify(an_event(run_id="run_of_other"), tenant="other")
        place.notify(an_event(run_id="run_of_acme"))
        await place.told(2)
        return place.received

    received = at_station(scene)
    told = {delivery.path: msgspec.json.decode(delivery.body)["runId"] for delivery in received}
    assert told == {"/acme": "run_of_acme", "/other": "run_of_other"}
    assert len(received) == 2


def test_events_arrive_in_order_though_the_first_one_takes_long(at_station):
    async def scene(place):
        await place.subscribe()
        place.notify(*some_events(20))
        waited.append(len(place.received))
        go_on.set()
        await place.told(20)
        return [delivery.sequence for delivery in place.received]

    async def respond(delivery: Delivery):
        await go_on.wait()
        return web.Response()

    go_on, waited = asyncio.Event(), []
    assert at_station(scene, respond) == list(range(20))
    assert waited == [0]  # who notified did not wait for the receiver


def test_a_slow_receiver_holds_up_nobody_else(at_station):
    async def scene(place):
        await place.subscribe(path="/slow")
        await place.subscribe(path="/quick")
        place.notify(*some_events(5))
        await place.told(5)
        return [delivery.path for delivery in place.received]

    async def respond(delivery: Delivery):
        if delivery.path == "/slow":
            await asyncio.Event().wait()
        return web.Response()

    paths = at_station(scene, respond)
    assert sorted(paths) == ["/quick"] * 5 + ["/slow"]


def test_a_receiver_that_does_not_answer_in_time_has_failed(at_station):
    async def scene(place):
        await place.subscribe()
        place.notify(an_event())
        [told] = await place.told()
        return told.outcome, told.reason

    async def respond(delivery: Delivery):
        await asyncio.Event().wait()
        return web.Response()

    assert at_station(scene, respond, timeout_s=0.5) == ("failed", "timeout")


@pytest.mark.parametrize("status", [301, 307, 400, 410, 500, 503])
def test_anything_but_success_has_failed_and_is_not_tried_again(at_station, status):
    async def scene(place):
        await place.subscribe()
        place.notify(*some_events(1))
        [told] = await place.told()
        assert (told.outcome, told.reason) == ("failed", f"status_{status}")
        await place.sender.close()
        return len(place.received)

    async def respond(delivery: Delivery):
        return web.Response(status=status, headers={"Location": "/elsewhere"})

    assert at_station(scene, respond) == 1


def test_a_receiver_whose_certificate_is_not_trusted_gets_nothing(at_station):
    async def scene(place):
        await place.subscribe()
        place.notify(an_event())
        [told] = await place.told()
        return told.outcome, told.reason, place.received

    expected = ("failed", "ClientConnectorCertificateError", [])
    assert at_station(scene, is_trusted=False) == expected


def test_a_name_that_turned_private_after_registration_gets_nothing(at_station):
    answers = ["93.184.215.14", "127.0.0.1"]

    async def lookup(host: str, port: int) -> list[str]:
        return [answers.pop(0)]

    async def scene(place):
        await place.subscribe()
        place.notify(an_event())
        [told] = await place.told()
        return told.outcome, told.reason, place.received

    refused = ("refused", "address_forbidden", [])
    assert at_station(scene, policy=EgressPolicy(), lookup=lookup) == refused
    assert answers == []


def test_every_delivery_looks_the_name_up_anew(at_station):
    asked = []

    async def lookup(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    async def scene(place):
        await place.subscribe()
        place.notify(*some_events(3))
        await place.told(3)

    at_station(scene, lookup=lookup)
    assert asked == [HOST] * 4  # once at registration


def test_a_receiver_that_fails_four_times_is_left_alone_for_an_hour(at_station):
    statuses = [500] * 5 + [200] * 2

    async def respond(delivery: Delivery):
        return web.Response(status=statuses.pop(0))

    async def scene(place):
        await place.subscribe()
        place.notify(*some_events(6))
        assert await place.outcomes(6) == ["failed"] * 4 + ["skipped"] * 2
        place.clock.seconds += 3599
        place.notify(an_event())
        assert await place.outcomes() == ["skipped"]
        place.clock.seconds += 1
        place.notify(*some_events(2))
        assert await place.outcomes(2) == ["failed", "skipped"]
        place.clock.seconds += 3600
        place.notify(*some_events(2))
        assert await place.outcomes(2) == ["delivered"] * 2

    at_station(scene, respond)
    assert statuses == []


def test_what_finds_no_room_is_dropped_and_said_to_be(at_station, monkeypatch):
    monkeypatch.setattr("evalwright.host.webhooks.delivery.MAX_WAITING", 3)

    async def scene(place):
        await place.subscribe()
        place.notify(*some_events(5))
        assert [told.reason for told in await place.told(2)] == ["queue_full"] * 2
        assert await place.outcomes(3) == ["delivered"] * 3
        return [delivery.sequence for delivery in place.received]

    assert at_station(scene) == [0, 1, 2]


def test_large_events_fill_the_room_sooner(at_station, monkeypatch):
    monkeypatch.setattr("evalwright.host.webhooks.delivery.MAX_WAITING_BYTES", 1000)
    large = [an_event("agent.reasoned", n, reasoning="x" * 2000) for n in range(2)]

    async def scene(place):
        await place.subscribe("agent.*", include_content=True)
        place.notify(*large)
        assert await place.outcomes(2) == ["dropped", "delivered"]

    at_station(scene)


def test_an_event_of_several_megabytes_is_delivered_whole(at_station):
    text = "x" * 3_000_000

    async def respond(delivery: Delivery):
        assert msgspec.json.decode(delivery.body)["event"]["payload"]["reasoning"] == text
        return web.Response()

    async def scene(place):
        await place.subscribe("agent.*", include_content=True)
        place.notify(an_event("agent.reasoned", reasoning=text))
        return await place.outcomes()

    assert at_station(scene, respond) == ["delivered"]


def test_who_unsubscribes_gets_nothing_more_not_even_what_waits(at_station):
    async def scene(place):
        subscription = await place.subscribe()
        place.notify(*some_events(3))
        await arrived.wait()
        await place.subscriptions.delete("acme", None, subscription.webhook_id)
        go_on.set()
        assert await place.outcomes(3) == ["delivered", "skipped", "skipped"]
        place.notify(an_event())
        await place.sender.close()
        return len(place.received)

    async def respond(delivery: Delivery):
        arrived.set()
        await go_on.wait()
        return web.Response()

    arrived, go_on = asyncio.Event(), asyncio.Event()
    assert at_station(scene, respond) == 1


def test_the_failures_of_who_unsubscribed_are_forgotten(at_station):
    async def scene(place):
        for _ in range(5):
            failing = await place.subscribe()
            place.notify(an_event())
            assert await place.outcomes() == ["failed"]
            await place.subscriptions.delete("acme", None, failing.webhook_id)
        return len(place.sender._queues)

    async def respond(delivery: Delivery):
        return web.Response(status=500)

    assert at_station(scene, respond) == 1


def test_closing_delivers_what_waits(at_station):
    async def scene(place):
        await place.subscribe()
        place.notify(*some_events(5))
        await place.sender.close(grace_s=60)
        place.notify(an_event())
        return [delivery.sequence for delivery in place.received]

    assert at_station(scene) == [0, 1, 2, 3, 4]


def test_closing_does_not_wait_for_a_receiver_for_ever(at_station):
    async def scene(place):
        await place.subscribe()
        place.notify(*some_events(3))
        await arrived.wait()
        await place.sender.close(grace_s=0)
        return [told.reason for told in await place.told(3)]

    async def respond(delivery: Delivery):
        arrived.set()
        await asyncio.Event().wait()
        return web.Response()

    arrived = asyncio.Event()
    assert at_station(scene, respond) == ["closing"] * 3


def test_a_log_that_cannot_be_read_does_not_disturb_the_run(at_station, caplog):
    async def scene(place):
        place.log.close()
        place.notify(an_event())

    at_station(scene)
    assert "cannot read the webhooks for run run_1" in caplog.text

"""Deliveries over real HTTPS: signed, in order, at least once, and for the right tenant."""

import asyncio

import msgspec
import pytest
from aiohttp import web
from openwop_client.webhook_helpers import (
    VerifyValid,
    read_webhook_headers,
    verify_webhook_signature,
)
from webhook_station import HOST, Delivery, an_entry, station, take

from evalwright.contracts.errors import DamagedEventLog, RunNotFound, StoreError
from evalwright.host.access.egress import EgressPolicy
from evalwright.host.http.settings import WebhookSettings

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
    return [an_entry(taskId=f"task-{number}") for number in range(count)]


def answering(*statuses: int):
    """A receiver that answers with these statuses, then with the last of them for ever."""
    left = list(statuses)

    async def respond(delivery: Delivery):
        return web.Response(status=left.pop(0) if len(left) > 1 else left[0])

    return respond


def test_a_delivery_holds_the_event_and_whose_it_is(at_station):
    async def scene(place):
        await place.subscribe("eval.*")
        await place.record(an_entry(taskId="t", score=1.0, passed=True), workspace="w1")
        [told] = await place.told()
        assert (told.outcome, told.reason) == ("delivered", "status_204")
        [_, event] = place.log.read("run_1")
        return place.received, event

    [delivery], event = at_station(scene)
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
        await place.record(an_entry("run.completed", durationMs=1))
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
        an_entry("run.paused", reason=CANARY),
        an_entry("agent.reasoned", agentId="local.a", reasoning=CANARY),
        an_entry("run.failed", error=error),
    ]

    async def scene(place):
        await place.subscribe("run.paused", "agent.*", "run.failed", path="/full", **full)
        await place.subscribe("run.paused", "run.failed", path="/plain")
        await place.record(*events)
        assert await place.outcomes(5) == ["delivered"] * 5
        return place.received

    full = {"include_content": True}
    received = at_station(scene)
    plain = [delivery for delivery in received if delivery.path == "/plain"]
    whole = [delivery for delivery in received if delivery.path == "/full"]
    assert [delivery.sequence for delivery in plain] == [1, 3]
    assert [delivery.sequence for delivery in whole] == [1, 2, 3]
    assert all(CANARY.encode() not in delivery.body for delivery in plain)
    assert all(CANARY.encode() in delivery.body for delivery in whole)


def test_a_subscription_sees_the_runs_of_its_own_tenant_only(at_station):
    async def scene(place):
        await place.subscribe("eval.*", include_content=True, path="/acme")
        await place.subscribe("eval.*", include_content=True, path="/other", tenant="other")
        await place.record(an_entry(), run_id="run_of_other", tenant="other")
        await place.record(an_entry(), run_id="run_of_acme")
        await place.told(2)
        return place.received

    received = at_station(scene)
    told = {delivery.path: msgspec.json.decode(delivery.body)["runId"] for delivery in received}
    assert told == {"/acme": "run_of_acme", "/other": "run_of_other"}
    assert len(received) == 2


def test_a_subscription_sees_the_runs_with_one_of_its_tags_only(at_station):
    async def scene(place):
        await place.subscribe("eval.*", tags=["ci"])
        await place.record(an_entry(), run_id="run_untagged")
        await place.record(an_entry(), run_id="run_tagged", tags=["ci", "nightly"])
        await place.told()
        return [msgspec.json.decode(delivery.body)["runId"] for delivery in place.received]

    assert at_station(scene) == ["run_tagged"]


def test_events_arrive_in_order_though_the_first_one_takes_long(at_station):
    async def scene(place):
        await place.subscribe()
        await place.record(*some_events(20))
        assert len(place.received) <= 1  # who recorded did not wait for the receiver
        go_on.set()
        await place.told(20)
        return [delivery.sequence for delivery in place.received]

    async def respond(delivery: Delivery):
        await go_on.wait()
        return web.Response()

    go_on = asyncio.Event()
    assert at_station(scene, respond) == list(range(1, 21))


def test_a_slow_receiver_holds_up_nobody_else(at_station):
    async def scene(place):
        await place.subscribe(path="/slow")
        await place.subscribe(path="/quick")
        await place.record(*some_events(5))
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
        await place.record(an_entry())
        [told] = await place.told()
        return told.outcome, told.reason

    async def respond(delivery: Delivery):
        await asyncio.Event().wait()
        return web.Response()

    assert at_station(scene, respond, timeout_s=0.5) == ("failed", "timeout")


@pytest.mark.parametrize("status", [301, 307, 400, 410, 500, 503])
def test_anything_but_success_is_tried_again_and_then_parked(at_station, status):
    async def scene(place):
        subscription = await place.subscribe()
        await place.record(an_entry())
        told = await place.told(4)
        assert [each.outcome for each in told] == ["failed"] * 3 + ["parked"]
        assert {each.reason for each in told} == {f"status_{status}"}
        tenant, webhook_id = subscription.tenant, subscription.webhook_id
        [letter] = await place.sender.dead_letters(tenant, webhook_id, "", 10)
        assert (letter.attempts, letter.last_status, letter.sequence) == (3, status, 1)
        return place.received

    async def respond(delivery: Delivery):
        return web.Response(status=status, headers={"Location": "/elsewhere"})

    received = at_station(scene, respond)
    assert [delivery.headers["Evalwright-Delivery-Attempt"] for delivery in received] == [*"123"]
    marks = [delivery.headers["Evalwright-Redelivery"] for delivery in received]
    assert marks == ["false", "true", "true"]
    assert len({delivery.headers["Evalwright-Delivery-Id"] for delivery in received}) == 1
    assert len({delivery.body for delivery in received}) == 1


def test_an_event_that_a_receiver_cannot_take_does_not_stop_the_next(at_station):
    async def scene(place):
        await place.subscribe()
        await place.record(*some_events(2))
        assert await place.outcomes(5) == ["failed"] * 3 + ["parked", "delivered"]
        return [delivery.sequence for delivery in place.received]

    assert at_station(scene, answering(500, 500, 500, 200)) == [1, 1, 1, 2]


def test_an_old_event_is_tried_once(at_station):
    async def scene(place):
        place.clock.seconds += 61
        await place.subscribe()
        await place.record(an_entry())
        return await place.outcomes(2)

    assert at_station(scene, answering(500), max_age_s=60) == ["failed", "parked"]


def test_the_pause_before_an_attempt_doubles_up_to_a_limit():
    settings = WebhookSettings(first_retry_s=1, longest_retry_s=300)
    pauses = [settings.retry_delay_s(failures) for failures in (1, 2, 3, 9, 10, 10_000)]
    assert pauses == [1, 2, 4, 256, 300, 300]


def test_too_many_dead_letters_stop_a_subscription_until_somebody_looks(at_station, monkeypatch):
    monkeypatch.setattr("evalwright.host.webhooks.outbox.MOST_KEPT", 2)

    async def scene(place):
        subscription = await place.subscribe()
        await place.record(*some_events(4))
        assert await place.outcomes(8) == [*["failed"] * 3, "parked"] * 2
        lane = place.sender.lane("acme", subscription.webhook_id)
        assert (lane.state, lane.parked) == ("dead-lettered", 2)
        letters = await place.sender.dead_letters("acme", subscription.webhook_id, "", 10)
        await asyncio.sleep(0.1)
        assert len(place.received) == 6  # the other events of the same page wait as well
        is_well.append(True)
        assert await place.sender.discard(lane, letters[0].delivery_id)
        assert await place.outcomes(2) == ["delivered"] * 2
        assert not await place.sender.discard(lane, letters[0].delivery_id)
        return [delivery.sequence for delivery in place.received]

    async def respond(delivery: Delivery):
        return web.Response(status=200 if is_well else 500)

    is_well: list[bool] = []
    assert at_station(scene, respond) == [1, 1, 1, 2, 2, 2, 3, 4]


def test_dead_letters_are_sent_again_in_order_until_one_fails(at_station):
    async def scene(place):
        subscription = await place.subscribe()
        await place.record(*some_events(3))
        assert await place.outcomes(12) == [*["failed"] * 3, "parked"] * 3
        lane = place.sender.lane("acme", subscription.webhook_id)
        assert await place.sender.resend(lane, None) == 3
        assert await place.outcomes(2) == ["delivered", "failed"]
        await place.until(lambda: lane._task is None)
        letters = await place.sender.dead_letters("acme", subscription.webhook_id, "", 10)
        assert [(each.sequence, each.attempts) for each in letters] == [(2, 4), (3, 3)]
        assert await place.sender.resend(lane, [letters[1].delivery_id]) == 1
        assert await place.outcomes() == ["delivered"]
        return [delivery.sequence for delivery in place.received[9:]]

    assert at_station(scene, answering(*[500] * 9, 200, 500, 200)) == [1, 2, 3]


@pytest.mark.parametrize("status", [200, 500])
def test_a_dead_letter_that_is_discarded_while_it_is_sent_again_is_gone(at_station, status):
    """One attempt may be on its way; neither its end nor the others bring anything back."""
    is_resent, may_answer = asyncio.Event(), asyncio.Event()

    async def respond(delivery: Delivery):
        if int(delivery.headers["Evalwright-Delivery-Attempt"]) <= 3:
            return web.Response(status=500)
        is_resent.set()
        await may_answer.wait()
        return web.Response(status=status)

    async def scene(place):
        subscription = await place.subscribe()
        await place.record(*some_events(4))
        await place.outcomes(16)
        lane = place.sender.lane("acme", subscription.webhook_id)
        letters = await place.sender.dead_letters("acme", subscription.webhook_id, "", 10)
        assert await place.sender.resend(lane, None) == 4
        await is_resent.wait()
        for letter in letters[:3]:
            assert await place.sender.discard(lane, letter.delivery_id)
        await place.sender.resend(lane, [letters[3].delivery_id])
        may_answer.set()
        await place.outcomes(2)
        await place.until(lambda: lane._task is None)
        left = await place.sender.dead_letters("acme", subscription.webhook_id, "", 10)
        assert lane.parked == len(left)
        resent = [delivery.sequence for delivery in place.received[12:]]
        return resent, [letter.sequence for letter in left]

    assert at_station(scene, respond) == ([1, 4], [] if status == 200 else [4])


def test_a_receiver_whose_certificate_is_not_trusted_gets_nothing(at_station):
    async def scene(place):
        await place.subscribe()
        await place.record(an_entry())
        [told] = await place.told()
        return told.outcome, told.reason, place.received

    expected = ("failed", "ClientConnectorCertificateError", [])
    assert at_station(scene, is_trusted=False) == expected


def test_a_name_that_turned_private_after_registration_gets_nothing(at_station):
    answers = ["93.184.215.14"]

    async def lookup(host: str, port: int) -> list[str]:
        return [answers.pop(0) if answers else "127.0.0.1"]

    async def scene(place):
        await place.subscribe()
        await place.record(an_entry())
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
        await place.record(*some_events(3))
        await place.told(3)

    at_station(scene, lookup=lookup)
    assert asked == [HOST] * 4  # once at registration


def test_what_finds_no_room_in_memory_is_read_from_the_log(at_station, monkeypatch):
    monkeypatch.setattr("evalwright.host.webhooks.outbox.BATCH", 2)

    async def scene(place):
        await place.subscribe("eval.*", "run.completed")
        for number in range(7):
            events = [*some_events(5), an_entry("run.completed")]
            await place.record(*events, run_id=f"run_{number}")
        go_on.set()
        await place.told(42)
        await place.until(lambda: not place.left())
        return place.received

    async def respond(delivery: Delivery):
        await go_on.wait()
        return web.Response()

    go_on = asyncio.Event()
    received = at_station(scene, respond)
    for number in range(7):
        of_run = [each for each in received if f'"run_{number}"'.encode() in each.body]
        assert [delivery.sequence for delivery in of_run] == [1, 2, 3, 4, 5, 6]
    assert {each.headers["Evalwright-Redelivery"] for each in received} == {"false"}


def test_large_events_are_held_a_few_at_a_time(at_station, monkeypatch):
    monkeypatch.setattr("evalwright.host.webhooks.outbox.PAGE_BYTES", 1000)
    large = [an_entry("agent.reasoned", reasoning="x" * 2000) for _ in range(5)]

    async def scene(place):
        await place.subscribe("agent.*", include_content=True)
        await place.record(*large)
        assert await place.outcomes(5) == ["delivered"] * 5

    at_station(scene)


def test_an_event_of_several_megabytes_is_delivered_whole(at_station):
    text = "x" * 3_000_000

    async def respond(delivery: Delivery):
        assert msgspec.json.decode(delivery.body)["event"]["payload"]["reasoning"] == text
        return web.Response()

    async def scene(place):
        await place.subscribe("agent.*", include_content=True)
        await place.record(an_entry("agent.reasoned", reasoning=text))
        return await place.outcomes()

    assert at_station(scene, respond) == ["delivered"]


def test_a_subscription_begins_with_what_happens_after_it(at_station):
    async def scene(place):
        await place.record(*some_events(3))
        await place.record(an_entry("run.completed"), run_id="run_ended")
        await place.subscribe("*")
        await place.record(an_entry(taskId="later"), an_entry("run.completed"))
        await place.record(an_entry(), run_id="run_new")
        await place.told(4)
        return [delivery.sequence for delivery in place.received]

    assert sorted(at_station(scene)) == [0, 1, 4, 5]


def test_who_unsubscribes_gets_nothing_more_not_even_what_waits(at_station):
    async def scene(place):
        subscription = await place.subscribe()
        await place.record(*some_events(3))
        await arrived.wait()
        assert await place.sender.unsubscribe("acme", None, subscription.webhook_id)
        go_on.set()
        await place.record(an_entry(taskId="later"))
        kinds = ("webhook_dead_letter", "webhook")
        assert [place.log.records.keys(kind, "acme") for kind in kinds] == [[], []]
        assert place.left() == []
        return len(place.received)

    async def respond(delivery: Delivery):
        arrived.set()
        await go_on.wait()
        return web.Response()

    arrived, go_on = asyncio.Event(), asyncio.Event()
    assert at_station(scene, respond) == 1


def test_who_unsubscribes_leaves_no_dead_letters(at_station):
    async def scene(place):
        subscription = await place.subscribe()
        await place.record(an_entry())
        assert (await place.outcomes(4))[-1] == "parked"
        assert await place.sender.unsubscribe("acme", None, subscription.webhook_id)
        return place.log.records.keys("webhook_dead_letter", "acme")

    assert at_station(scene, answering(500)) == []


def test_closing_lets_an_attempt_end_and_leaves_the_rest_to_the_next_start(
    tmp_path, certificate, at_station
):
    async def scene(place):
        await place.subscribe()
        await place.record(*some_events(3))
        await arrived.wait()
        closing = asyncio.create_task(place.close())
        await asyncio.sleep(0)
        go_on.set()
        await closing
        return place.port, [delivery.sequence for delivery in place.received]

    async def respond(delivery: Delivery):
        arrived.set()
        await go_on.wait()
        return web.Response()

    async def again(place):
        [lane] = place.sender.lanes()
        url = lane.subscription.url.replace(f":{port}/", f":{place.port}/")
        lane.subscription = msgspec.structs.replace(lane.subscription, url=url)
        await place.told(2)
        return [
            (delivery.sequence, delivery.headers["Evalwright-Redelivery"])
            for delivery in place.received
        ]

    arrived, go_on = asyncio.Event(), asyncio.Event()
    port, before = at_station(scene, respond)
    assert before == [1]
    assert at_station(again) == [(2, "false"), (3, "false")]


def test_closing_does_not_wait_for_a_receiver_for_ever(at_station):
    async def scene(place):
        await place.subscribe()
        await place.record(*some_events(3))
        await arrived.wait()
        await place.close(grace_s=0)
        return len(place.received)

    async def respond(delivery: Delivery):
        arrived.set()
        await asyncio.Event().wait()
        return web.Response()

    arrived = asyncio.Event()
    assert at_station(scene, respond) == 1


def test_a_log_that_cannot_be_read_for_a_while_loses_nothing(at_station, caplog, monkeypatch):
    monkeypatch.setattr("evalwright.host.webhooks.outbox.STORE_RETRY_S", (0.01, 0.02))
    failures = [StoreError("the disk is away")] * 3

    async def scene(place):
        await place.subscribe()
        read = place.log.read

        def read_or_fail(*arguments, **options):
            if failures:
                raise failures.pop()
            return read(*arguments, **options)

        monkeypatch.setattr(place.log, "read", read_or_fail)
        await place.record(*some_events(3))
        return await place.outcomes(3)

    assert at_station(scene) == ["delivered"] * 3
    assert caplog.text.count("waits for the store: the disk is away") == 3


def test_what_was_sent_and_cannot_be_noted_for_a_while_is_noted_later(
    at_station, caplog, monkeypatch
):
    monkeypatch.setattr("evalwright.host.webhooks.outbox.STORE_RETRY_S", (0.01, 0.02))
    monkeypatch.setattr("evalwright.host.webhooks.outbox.BATCH", 2)
    failures = [StoreError("the disk is full")] * 3

    async def scene(place):
        await place.subscribe()
        write = place.log.records.write

        def write_or_fail(changes):
            if place.received and failures:
                raise failures.pop()
            return write(changes)

        monkeypatch.setattr(place.log.records, "write", write_or_fail)
        await place.record(*some_events(9))
        assert await place.outcomes(9) == ["delivered"] * 9
        await place.close()
        return place.left(), [delivery.sequence for delivery in place.received]

    assert at_station(scene) == ([], list(range(1, 10)))
    assert caplog.text.count("waits for the store: the disk is full") == 3


def test_an_attempt_that_cannot_be_noted_is_counted_all_the_same(at_station, monkeypatch):
    monkeypatch.setattr("evalwright.host.webhooks.outbox.STORE_RETRY_S", (0.01, 0.02))
    failures = [StoreError("the disk is full")]

    async def scene(place):
        await place.subscribe()
        write = place.log.records.write

        def write_or_fail(changes):
            if place.received and failures:
                raise failures.pop()
            return write(changes)

        monkeypatch.setattr(place.log.records, "write", write_or_fail)
        await place.record(an_entry())
        assert await place.outcomes(2) == ["failed", "delivered"]
        return [
            (each.headers["Evalwright-Delivery-Attempt"], each.headers["Evalwright-Redelivery"])
            for each in place.received
        ]

    assert at_station(scene, answering(500, 200)) == [("1", "false"), ("2", "true")]


def test_a_run_that_is_deleted_before_its_events_are_delivered_is_passed_over(
    at_station, monkeypatch
):
    async def scene(place):
        await place.subscribe()
        read = place.log.read

        def read_or_fail(run_id, *arguments, **options):
            if run_id == "run_gone":
                raise RunNotFound("there is no run run_gone")
            return read(run_id, *arguments, **options)

        monkeypatch.setattr(place.log, "read", read_or_fail)
        await place.record(an_entry(), run_id="run_gone")
        await place.record(an_entry(), run_id="run_kept")
        assert await place.outcomes() == ["delivered"]
        await place.until(lambda: not place.left())

    at_station(scene)


def test_an_event_that_is_damaged_keeps_no_other_from_being_delivered(
    at_station, monkeypatch, caplog
):
    async def scene(place):
        await place.subscribe()
        read = place.log.read

        def read_or_fail(run_id, types=(), after=-1, limit=None):
            if run_id == "run_1" and after == 1:
                raise DamagedEventLog("event 2 of run_1 is not what was written")
            return read(run_id, types, after, limit)

        monkeypatch.setattr(place.log, "read", read_or_fail)
        await place.record(*some_events(3))
        await place.record(an_entry(), run_id="run_2")
        assert await place.outcomes(3) == ["delivered"] * 3
        await place.until(lambda: not place.left())
        return [delivery.sequence for delivery in place.received]

    assert at_station(scene) == [1, 3, 1]
    assert "not delivered: event 2 of run_1 is not what was written" in caplog.text


def test_deliveries_cost_few_commits(at_station):
    """Many events and runs are covered by one write."""

    async def scene(place):
        await place.subscribe()
        writes = []
        write = place.log.records.write
        place.log.records.write = lambda changes: (writes.append(changes), write(changes))[1]
        for number in range(10):
            await place.record(*some_events(20), run_id=f"run_{number}")
        await place.told(200)
        await place.close()
        return len(writes)

    assert at_station(scene) <= 20


def test_only_events_that_are_wanted_are_looked_up_in_the_log(at_station, monkeypatch):
    reads = []

    async def scene(place):
        await place.subscribe("run.paused", "run.completed")
        read = place.log.read

        def noting(run_id, types=(), after=-1, limit=None):
            reads.append(after + 1)
            return read(run_id, types, after, limit)

        monkeypatch.setattr(place.log, "read", noting)
        await place.record(*some_events(5), an_entry("run.paused"))
        for number in range(5):
            await place.record(an_entry(taskId=f"later-{number}"))
        await place.record(an_entry("run.completed"))
        assert await place.outcomes(2) == ["delivered"] * 2
        return [delivery.sequence for delivery in place.received]

    assert at_station(scene) == [6, 12]
    assert reads == [6, 12]


def test_what_was_claimed_by_a_process_that_was_killed_is_marked_as_a_repeat(
    at_station, monkeypatch
):
    async def scene(place):
        await place.subscribe()
        go_on.clear()
        await place.record(*some_events(3))
        await arrived.wait()
        return place.port, place.log.records.rows("SELECT DISTINCT session FROM webhook_outbox")

    async def respond(delivery: Delivery):
        arrived.set()
        await go_on.wait()
        return web.Response()

    async def again(place):
        [lane] = place.sender.lanes()
        url = lane.subscription.url.replace(f":{port}/", f":{place.port}/")
        lane.subscription = msgspec.structs.replace(lane.subscription, url=url)
        go_on.set()
        await place.told(3)
        return [
            (delivery.sequence, delivery.headers["Evalwright-Redelivery"])
            for delivery in place.received
        ]

    arrived, go_on = asyncio.Event(), asyncio.Event()
    monkeypatch.setattr("evalwright.host.webhooks.outbox._UNCLAIM", "SELECT $1")  # it was killed
    port, sessions = at_station(scene, respond)
    monkeypatch.setattr("evalwright.host.webhooks.outbox.SESSION", "another")
    assert sessions not in ([], [(None,)])
    assert at_station(again, respond) == [(1, "true"), (2, "true"), (3, "true")]

"""Webhooks when the host is killed and receivers fail: nothing is skipped, repeats are marked."""

import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest
from openwop_client.webhook_helpers import (
    VerifyValid,
    read_webhook_headers,
    verify_webhook_signature,
)

from builders import a_suite, a_task
from evalwright.host.webhooks.content import is_content_free
from evalwright.host.webhooks.outbox import BATCH
from evalwright.store.sqlite.log import SqliteLog
from faults.hook_receiver import Arrival, Receiver, receiving
from faults.soaking import scaled, seeds
from host.caller import Caller
from host.server import GATED, HostProcess
from subjects.command import Evalwright
from subjects.waiting import Journal, eventually

QUICK_RETRIES = "webhooks = { first_retry_s = 0.02, longest_retry_s = 0.1, max_attempts = 100 }"
FEW_RETRIES = "webhooks = { first_retry_s = 0.01, longest_retry_s = 0.02, max_attempts = 3 }"
PATIENCE_S = 120  # without any progress
ON_LOOPBACK = "egress = { allow_private = true }"


@pytest.fixture
def receiver(tmp_path) -> Iterator[Receiver]:
    with receiving(tmp_path) as receiver:
        yield receiver


@pytest.fixture
def process(evalwright: Evalwright, journal: Journal, receiver: Receiver) -> HostProcess:
    process = HostProcess(evalwright, {**journal.environment, **receiver.environment})
    process.configure([ON_LOOPBACK, QUICK_RETRIES])
    return process


def subscribe(caller: Caller, receiver: Receiver, path: str = "/", *events: str) -> dict:
    wanted = {"url": receiver.url + path, "events": list(events or ["*"])}
    reply = caller.post("/v1/webhooks", wanted)
    assert reply.status == 201, reply.body
    return reply.json()


def wanted_of(process: HostProcess) -> dict[str, list[int]]:
    """The events of all runs that can be delivered without content, by run."""
    log = SqliteLog(process.db)
    try:
        return {
            run_id: [event.sequence for event in log.read(run_id) if is_content_free(event.type)]
            for run_id in log.run_ids()
        }
    finally:
        log.close()


def first_arrivals(arrivals: list[Arrival]) -> dict[str, list[int]]:
    """The events that were taken, by run, each where it came first."""
    found: dict[str, dict[int, None]] = {}
    for each in arrivals:
        found.setdefault(each.run_id, {})[each.sequence] = None
    return {run_id: list(sequences) for run_id, sequences in found.items()}


def assert_sound(receiver: Receiver, secret: str, path: str = "/") -> None:
    """Every signature holds, and what arrives again has the same id and says that it does."""
    ids: dict[tuple[str, int], str] = {}
    for each in [each for each in receiver.arrivals if each.path == path]:
        signature, timestamp, _ = read_webhook_headers(each.headers)
        checked = verify_webhook_signature(secret, signature, timestamp, each.body)
        assert isinstance(checked, VerifyValid), checked
        place = each.run_id, each.sequence
        assert each.is_marked or place not in ids, f"{place} came again without a mark"
        delivery_id = each.headers["evalwright-delivery-id"]
        assert ids.setdefault(place, delivery_id) == delivery_id
    assert len(set(ids.values())) == len(ids)


@pytest.mark.parametrize("seed", seeds(short=1, long=40))
def test_a_host_that_is_killed_again_and_again_skips_nothing(
    process: HostProcess, receiver: Receiver, seed: int
):
    chance = random.Random(seed)
    failing = chance.choice([0.0, 0.1, 0.5])

    def answer(_path: str) -> int:
        if chance.random() >= failing:
            return 204
        return chance.choice([500, 503, 0])

    process.start()
    caller = process.caller()
    made = subscribe(caller, receiver)
    receiver.answer = answer
    for _ in range(scaled(2, 5)):
        for _ in range(3):
            size = chance.randint(1, 12)
            caller.start(a_suite(size, suite_id=f"acme.evals.of-{size}"))
        time.sleep(chance.uniform(0.0, 0.4))
        process.kill()
        process.start()
        caller = Caller(process.url, caller.key)
    eventually(lambda: not unfinished(caller), "the end of all runs")
    wanted = wanted_of(process)
    assert len(wanted) == 3 * scaled(2, 5)
    wait_until_taken(receiver, sum(map(len, wanted.values())))
    assert first_arrivals(receiver.taken()) == wanted
    assert_sound(receiver, made["secret"])


def wait_until_taken(receiver: Receiver, count: int) -> None:
    """Wait for so many events, as long as more and more of them arrive."""
    taken, deadline = -1, 0.0
    while taken < count:
        before, taken = taken, len({(each.run_id, each.sequence) for each in receiver.taken()})
        if taken > before:
            deadline = time.monotonic() + PATIENCE_S
        assert time.monotonic() < deadline, f"{taken} of {count} events came"
        time.sleep(0.05)


def unfinished(caller: Caller) -> list[str]:
    return [run_id for run_id in caller.run_ids() if "completedAt" not in caller.snapshot(run_id)]


def is_at_its_end(run_id: str, receiver: Receiver) -> bool:
    return any(
        each.run_id == run_id and each.event_type == "run.completed" for each in receiver.taken()
    )


def test_what_a_receiver_missed_while_it_was_away_comes_later(
    process: HostProcess, receiver: Receiver
):
    """The host ends meanwhile, so nobody remembers but the store."""
    process.start()
    caller = process.caller()
    made = subscribe(caller, receiver)
    receiver.answer = lambda _path: 503
    run_ids = [caller.evaluate(a_suite(3)) for _ in range(3)]
    eventually(lambda: receiver.arrivals, "a first attempt")
    process.kill()
    process.start()
    eventually(lambda: receiver.arrivals[-1].headers["evalwright-delivery-attempt"] != "1")
    assert receiver.taken() == []
    receiver.answer = lambda _path: 204
    for run_id in run_ids:
        eventually(lambda run_id=run_id: is_at_its_end(run_id, receiver), "the end of the run")
    assert first_arrivals(receiver.taken()) == wanted_of(process)
    assert_sound(receiver, made["secret"])


def test_a_clean_restart_repeats_nothing_and_marks_nothing(
    process: HostProcess, receiver: Receiver, journal: Journal
):
    process.start()
    caller = process.caller()
    subscribe(caller, receiver)
    waiting = a_suite([a_task(f"task-{n}", input="wait") for n in range(2)])
    run_id = caller.start(waiting, GATED)
    journal.wait_for(1)
    eventually(lambda: len(receiver.taken()) >= 3, "the beginning of the run")
    assert process.stop() == 0
    process.start()
    journal.open_gate()
    eventually(lambda: is_at_its_end(run_id, receiver), "the end of the run")
    assert [each.sequence for each in receiver.arrivals] == wanted_of(process)[run_id]
    assert not any(each.is_marked for each in receiver.arrivals)


def test_what_is_given_up_is_listed_and_sent_again(process: HostProcess, receiver: Receiver):
    """Also after the host was killed; the subscription goes on with later events meanwhile."""
    process.configure([ON_LOOPBACK, FEW_RETRIES])
    process.start()
    caller = process.caller()
    webhook = subscribe(caller, receiver, "/", "run.completed")["webhookId"]
    receiver.answer = lambda _path: 500
    run_ids = [caller.evaluate(a_suite(1)) for _ in range(3)]
    letters = f"/v1/webhooks/{webhook}/dead-letters"

    def parked() -> list[dict]:
        return caller.get(letters).json()["deliveries"]

    def shown() -> tuple[str, int]:
        [webhook] = caller.get("/v1/webhooks").json()["webhooks"]
        return webhook["state"], webhook["deadLetters"]

    eventually(lambda: len(parked()) == 3, "three dead letters")
    eventually(lambda: shown() == ("failed", 3), "a subscription that says so")
    assert [each.headers["evalwright-delivery-attempt"] for each in receiver.arrivals[:3]] == [
        *"123"
    ]
    receiver.answer = lambda _path: 204
    fourth = caller.evaluate(a_suite(1))
    eventually(lambda: is_at_its_end(fourth, receiver), "what comes after the dead letters")
    process.kill()
    process.start()
    caller = Caller(process.url, caller.key)
    assert {each["runId"] for each in parked()} == set(run_ids)
    assert {each["attempts"] for each in parked()} == {3}
    assert caller.post(f"{letters}:resend").json() == {"resending": 3}
    eventually(lambda: not parked(), "an empty list")
    again = [each for each in receiver.taken() if each.run_id != fourth]
    assert {each.run_id for each in again} == set(run_ids)
    assert all(each.is_marked for each in again)
    eventually(lambda: shown() == ("active", 0), "a subscription that says so")


def test_slow_and_failing_receivers_hold_up_nobody_else(process: HostProcess, receiver: Receiver):
    process.start()
    rival, caller = process.caller("rival"), process.caller()
    may_answer = []

    def answer(path: str) -> int:
        if path.startswith("/slow"):
            eventually(lambda: may_answer, "permission to answer")
        return 500 if path.startswith("/failing") else 204

    receiver.answer = answer
    for number in range(8):
        subscribe(rival, receiver, f"/slow{number}")
        subscribe(caller, receiver, f"/failing{number}")
    subscribe(caller, receiver, "/quick")
    rival.start(a_suite(2))
    run_id = caller.evaluate(a_suite(20))
    eventually(
        lambda: any(each.event_type == "run.completed" for each in receiver.taken("/quick")),
        "the last event at the quick receiver",
    )
    assert first_arrivals(receiver.taken("/quick"))[run_id] == wanted_of(process)[run_id]
    may_answer.append(True)


def test_a_store_that_is_locked_for_a_while_stops_deliveries_and_loses_none(
    process: HostProcess, receiver: Receiver
):
    """Nothing is sent beyond what a crash could tell apart, and nobody is busy with waiting."""
    process.start()
    caller = process.caller()
    made = subscribe(caller, receiver)
    receiver.answer = lambda _path: 503
    run_id = caller.evaluate(a_suite(30))
    wanted = wanted_of(process)[run_id]
    assert len(wanted) > 2 * BATCH
    is_sent, is_locked = threading.Event(), threading.Event()

    def answer(_path: str) -> int:
        is_sent.set()
        is_locked.wait()
        return 204

    receiver.answer = answer  # a failure could not be noted, so nothing would follow it
    assert is_sent.wait(PATIENCE_S)
    with held_lock(process):
        is_locked.set()
        eventually(lambda: len(receiver.taken()) >= 2, "deliveries while the lock is held")
        quiet = stands_still(lambda: len(receiver.arrivals))
        assert quiet <= len(receiver.arrivals)
        assert len(receiver.taken()) < len(wanted)
    wait_until_taken(receiver, len(wanted))
    assert first_arrivals(receiver.taken()) == {run_id: wanted}
    assert len(receiver.taken()) == len(wanted)
    assert_sound(receiver, made["secret"])


def test_runs_that_are_damaged_keep_neither_the_host_nor_the_others_from_going_on(
    process: HostProcess, receiver: Receiver, journal: Journal
):
    """As a disk leaves them: bytes in the middle of an event that are not text."""
    process.start()
    caller = process.caller()
    subscribe(caller, receiver)
    waiting = a_suite([a_task(f"task-{n}", input="wait") for n in range(2)])
    *damaged, sound = [caller.start(waiting, GATED) for _ in range(4)]
    journal.wait_for(4)
    process.kill()
    with closing(sqlite3.connect(process.db, isolation_level=None)) as connection:
        connection.execute("DROP TRIGGER events_are_never_changed")
        for sequence, run_id in enumerate(damaged):
            connection.execute(
                "UPDATE events SET body = CAST(x'7b2261223a2280ff227d' AS TEXT)"
                " WHERE seq = ? AND run = (SELECT run FROM runs WHERE run_id = ?)",
                (sequence, run_id),
            )
    journal.open_gate()
    process.start()
    caller = Caller(process.url, caller.key)
    subscribe(caller, receiver, "/another")
    eventually(lambda: is_at_its_end(sound, receiver), "the end of the run that is sound")
    assert len(caller.run_ids()) == 4


def stands_still(count: Callable[[], int], seconds: float = 1.5) -> int:
    """A number, once it has not grown for a while."""
    before, deadline = -1, time.monotonic() + 60
    while (now := count()) != before:
        assert time.monotonic() < deadline, "it never stands still"
        before = now
        time.sleep(seconds)
    return now


@contextmanager
def held_lock(process: HostProcess) -> Iterator[None]:
    """Keep everybody else from writing, as another process may."""
    with closing(sqlite3.connect(process.db, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")

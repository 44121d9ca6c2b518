"""What is kept of a request with an idempotency key, for how long, and every refusal in full."""

import asyncio
import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import Response

from evalwright.host.access import idempotency
from evalwright.host.access.idempotency import Idempotency, Ticket
from evalwright.host.access.keys import Principal
from evalwright.host.access.vault import Vault
from evalwright.host.http.errors import ApiError
from evalwright.store.records import Record, RecordChange, Records
from evalwright.store.sqlite.log import SqliteLog

HOLDER = Principal("k", "acme", "lab", frozenset(), "key:k")
ENDPOINT = "POST /v1/runs"
VAULT = Vault(Path(), "a key that is only used in these tests")


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def records(tmp_path: Path) -> Iterator[Records]:
    log = SqliteLog(tmp_path / "log.db")
    yield log.records
    log.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(records: Records, clock: Clock) -> Idempotency:
    return Idempotency(records, VAULT, clock)


def enter(
    store: Idempotency, key: str = "order", raw: bytes = b"{}", holder: Principal = HOLDER
) -> Ticket | Response:
    return asyncio.run(store.enter(holder, ENDPOINT, key, raw))


def a_ticket(store: Idempotency, **given: Any) -> Ticket:
    ticket = enter(store, **given)
    assert isinstance(ticket, Ticket)
    return ticket


def refused(store: Idempotency, **given: Any) -> dict[str, Any]:
    with pytest.raises(ApiError) as caught:
        enter(store, **given)
    return vars(caught.value)


def kept(records: Records) -> tuple[str, Record, dict[str, Any]]:
    ((tenant, record),) = records.of_all_tenants("idempotency")
    return tenant, record, json.loads(record.body)


def test_a_request_is_kept_as_pending_under_a_hash_and_then_with_its_response(
    store: Idempotency, records: Records
) -> None:
    digest = hashlib.sha256(b"{}").hexdigest()
    hidden = hashlib.sha256(b"acme/lab\0POST /v1/runs\0order").hexdigest()
    ticket = a_ticket(store)
    tenant, record, entry = kept(records)
    assert (tenant, record.key) == ("acme", hidden)
    assert entry == {"digest": digest, "state": "pending", "lease_until": 1_000_060.0}

    headers = {"Location": "/there", "X-Other": "1"}
    response = Response(b"done", 201, headers, media_type="application/json")
    asyncio.run(ticket.finish(response))
    assert kept(records)[2] == {
        "digest": digest,
        "state": "completed",
        "status": 201,
        "body": "ZG9uZQ==",
        "headers": {"content-type": "application/json", "location": "/there"},
    }
    again = enter(store)
    assert isinstance(again, Response)
    assert (again.status_code, again.body) == (201, b"done")
    assert dict(again.headers) == {
        "content-type": "application/json",
        "location": "/there",
        "openwop-idempotent-replay": "true",
        "content-length": "4",
    }


def test_the_change_that_keeps_a_response_expects_the_pending_request(
    store: Idempotency, records: Records
) -> None:
    ticket = a_ticket(store)
    _, record, entry = kept(records)
    change = ticket.completion(Response(b"", 204))
    assert isinstance(change, RecordChange)
    assert (change.kind, change.tenant, change.key) == ("idempotency", "acme", record.key)
    assert change.expected == record.body
    assert json.loads(change.body or b"") == {
        "digest": entry["digest"],
        "state": "completed",
        "status": 204,
    }


def test_a_response_that_was_written_with_what_it_reports_is_not_written_again(
    store: Idempotency, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticket, response = a_ticket(store), Response(b"", 204)
    records.write([ticket.completion(response)]).result()
    monkeypatch.setattr(Records, "write", None)
    asyncio.run(ticket.finish(response))


@pytest.mark.parametrize(
    ("status", "is_kept"),
    [(200, True), (499, True), (500, False), (501, False), (400, False), (429, False)],
)
def test_what_is_kept(store: Idempotency, records: Records, status: int, *, is_kept: bool) -> None:
    asyncio.run(a_ticket(store).finish(Response(b"", status)))
    assert bool(records.of_all_tenants("idempotency")) is is_kept


def test_a_ticket_given_back_leaves_nothing(store: Idempotency, records: Records) -> None:
    asyncio.run(a_ticket(store).give_back())
    assert records.of_all_tenants("idempotency") == []


def test_who_comes_after_his_lease_changes_nothing_of_the_one_who_took_over(
    store: Idempotency, records: Records, clock: Clock
) -> None:
    late = a_ticket(store)
    clock.now += 60.5
    a_ticket(store)
    body = kept(records)[1].body
    asyncio.run(late.finish(Response(b"late", 201)))
    asyncio.run(late.finish(Response(b"late", 500)))
    asyncio.run(late.give_back())
    assert kept(records)[1].body == body
    assert json.loads(body)["lease_until"] == 1_000_120.5


def test_a_lease_holds_to_its_end(
    store: Idempotency, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def sleep(_seconds: float) -> None:
        raise TimeoutError("somebody has it")

    monkeypatch.setattr(idempotency.asyncio, "sleep", sleep)
    a_ticket(store)
    clock.now += 60
    with pytest.raises(TimeoutError):
        enter(store)
    clock.now += 0.5
    assert refused(store, raw=b"another")["code"] == "idempotency_key_mismatch"
    ticket = a_ticket(store)
    asyncio.run(ticket.finish(Response(b"{}", 201)))
    clock.now += 61
    assert isinstance(enter(store), Response)


def test_another_request_under_the_key_is_refused_also_after_the_lease(
    store: Idempotency, clock: Clock
) -> None:
    a_ticket(store)
    expected = {
        "status": 409,
        "code": "idempotency_key_mismatch",
        "message": "this Idempotency-Key was used for a different request; use a new one",
        "details": None,
        "headers": None,
    }
    assert refused(store, raw=b"[]") == expected
    clock.now += 61
    assert refused(store, raw=b"[]") == expected


def test_a_duplicate_waits_ten_seconds_and_is_told_to_come_again(
    store: Idempotency, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        clock.now += 2.5

    monkeypatch.setattr(idempotency.asyncio, "sleep", sleep)
    a_ticket(store)
    assert refused(store) == {
        "status": 409,
        "code": "idempotency_in_flight",
        "message": "the first request with this Idempotency-Key is still in progress",
        "details": {"retryAfter": 1},
        "headers": {"Retry-After": "1"},
    }
    assert waits == [0.05] * 5  # at ten seconds it looks once more


@pytest.mark.parametrize(("key", "is_good"), [("", 0), ("x", 1), ("x" * 255, 1), ("x" * 256, 0)])
def test_the_length_of_a_key(store: Idempotency, key: str, is_good: int) -> None:
    if is_good:
        a_ticket(store, key=key)
        return
    assert refused(store, key=key) == {
        "status": 400,
        "code": "validation_error",
        "message": "the Idempotency-Key must have 1 to 255 characters",
        "details": None,
        "headers": None,
    }


def test_a_duplicate_that_loses_the_race_waits_for_the_winner(store: Idempotency) -> None:
    async def race() -> Response:
        entering = [
            asyncio.ensure_future(store.enter(HOLDER, ENDPOINT, "order", b"{}")) for _ in range(2)
        ]
        won, lost = await asyncio.wait(entering, return_when=asyncio.FIRST_COMPLETED)
        assert (len(won), len(lost)) == (1, 1)
        ticket = won.pop().result()
        assert isinstance(ticket, Ticket)
        await ticket.finish(Response(b"{}", 201))
        replayed = await lost.pop()
        assert isinstance(replayed, Response)
        return replayed

    assert asyncio.run(race()).headers[idempotency.REPLAY_HEADER] == "true"


def test_partitions_of_a_tenant_have_keys_of_their_own(
    store: Idempotency, records: Records
) -> None:
    a_ticket(store)
    a_ticket(store, holder=Principal("k", "acme", None, frozenset(), "key:k"))
    a_ticket(store, holder=Principal("k", "acme", "lab", frozenset(), "key:k", is_test=True))
    assert len(records.of_all_tenants("idempotency")) == 3


def test_records_are_forgotten_after_25_hours_to_the_microsecond(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, records: Records
) -> None:
    asked: list[tuple[str, int]] = []
    rows = records.rows

    def noted(statement: str, kind: str, before_us: int) -> Sequence[object]:
        asked.append((kind, before_us))
        return rows(statement, kind, before_us)

    monkeypatch.setattr(records, "rows", noted)
    asyncio.run(Idempotency(records, VAULT, clock).forget_old())
    assert asked == [("idempotency", (1_000_000 - 25 * 3600) * 1_000_000)]


def test_however_many_are_old_all_are_forgotten_a_thousand_at_a_time(records: Records) -> None:
    changes = [RecordChange("idempotency", "acme", str(number), b"{}") for number in range(2500)]
    records.write(changes).result()
    kept, place = RecordChange("session", "", "another", b"{}"), ("session", "", "another")
    records.write([kept]).result()
    asked: list[int] = []
    in_a_year = Idempotency(records, VAULT, lambda: time.time() + 365 * 86_400)
    write = records.write

    async def work() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(records, "write", lambda *given: asked.append(1) or write(*given))
            await in_a_year.forget_old()

    asyncio.run(work())
    assert len(asked) == 3
    assert not records.of_all_tenants("idempotency")
    assert records.get(*place) is not None


def test_the_clock_is_that_of_the_wall(records: Records) -> None:
    assert Idempotency(records, VAULT)._now is time.time


SECRET = b'{"secretFingerprint": "ab12", "secret": "s3cret"}'


def test_a_response_that_is_not_to_be_stored_is_sealed_and_shown_to_who_has_the_key(
    store: Idempotency, records: Records, clock: Clock
) -> None:
    response = Response(SECRET, 201, {"Cache-Control": "no-store"})
    asyncio.run(a_ticket(store).finish(response))
    _, _, entry = kept(records)
    assert "body" not in entry
    assert "s3cret" not in str(entry)
    again = enter(store)
    assert isinstance(again, Response)
    assert (again.status_code, again.body) == (201, SECRET)
    other = Idempotency(records, Vault(Path(), "another key, only used in these tests"), clock)
    assert refused(other) == {
        "status": 409,
        "code": "conflict",
        "message": "the response held a secret and cannot be shown again",
        "details": None,
        "headers": None,
    }


def test_secrets_that_were_kept_in_clear_text_are_sealed(
    store: Idempotency, records: Records
) -> None:
    for key, body in (("order", SECRET), ("other", b'{"secret": "of a user"}')):
        asyncio.run(a_ticket(store, key=key).finish(Response(body, 201)))
    (change,) = store.seal_secrets()
    assert b"s3cret" not in (change.body or b"")
    records.write([change]).result()
    assert store.seal_secrets() == []
    again = enter(store)
    assert isinstance(again, Response)
    assert again.body == SECRET

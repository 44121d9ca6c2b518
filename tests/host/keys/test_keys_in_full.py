"""Keys and scopes word for word: what is stored, what is told, and every refusal."""

import asyncio
import hashlib
import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from evalwright.contracts.errors import BadInput
from evalwright.host.access import key_watch, keys
from evalwright.host.access.key_watch import KeyWatch
from evalwright.host.access.keys import (
    Principal,
    authenticate,
    create_key,
    has_keys,
    list_keys,
    revoke_key,
)
from evalwright.host.http.errors import ApiError
from evalwright.store.records import RecordChange, Records
from evalwright.store.sqlite.log import SqliteLog

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
HOUR = timedelta(hours=1)
BAD_TOKEN = {"WWW-Authenticate": 'Bearer realm="evalwright", error="invalid_token"'}


@pytest.fixture
def records(tmp_path: Path) -> Iterator[Records]:
    log = SqliteLog(tmp_path / "log.db")
    yield log.records
    log.close()


def refused(records: Records, header: str | None, now: datetime = NOW) -> tuple[Any, ...]:
    with pytest.raises(ApiError) as caught:
        authenticate(records, header, now)
    error = caught.value
    return error.status, error.code, error.message, error.details, error.headers


def sorry(call: Any, *given: Any, **named: Any) -> str:
    with pytest.raises(BadInput) as caught:
        call(*given, **named)
    return str(caught.value)


# What is stored and told.


def test_a_key_is_stored_as_its_fields_and_the_hash_of_its_secret(records: Records) -> None:
    text, key = create_key(
        records,
        NOW,
        "acme",
        workspace="lab",
        scopes=["deploy:*", "runs:read"],
        expires_at=NOW + HOUR,
        is_test=True,
    )
    assert text.startswith(f"ew_test_{key.key_id}_")
    ((tenant, record),) = records.of_all_tenants("key")
    secret = text.rpartition("_")[2]
    assert (tenant, record.key) == ("", key.key_id)
    public = {
        "keyId": key.key_id,
        "tenant": "acme",
        "workspace": "lab",
        "scopes": ["deploy:pause", "deploy:promote", "deploy:rollback", "runs:read"],
        "createdAt": "2026-01-02T03:04:05Z",
        "expiresAt": "2026-01-02T04:04:05Z",
        "revokedAt": None,
        "isTest": True,
    }
    assert json.loads(record.body) == public | {"hash": hashlib.sha256(secret.encode()).hexdigest()}
    assert json.loads(keys.msgspec.json.encode(key)) == public
    assert type(key) is keys.Key
    assert list_keys(records) == [key]
    assert authenticate(records, f"Bearer {text}", NOW) == Principal(
        key.key_id, "acme", "lab", frozenset(public["scopes"]), f"key:{key.key_id}", True
    )


def test_a_plain_key_has_the_default_scopes_no_workspace_and_no_end(records: Records) -> None:
    text, key = create_key(records, NOW, "acme")
    assert text.startswith(f"ew_{key.key_id}_")
    assert key == keys.Key(
        key_id=key.key_id,
        tenant="acme",
        workspace=None,
        scopes=(
            "agents:read",
            "agents:write",
            "artifacts:read",
            "manifest:read",
            "prompts:read",
            "prompts:write",
            "runs:annotate",
            "runs:cancel",
            "runs:create",
            "runs:read",
            "suites:read",
            "suites:write",
        ),
        created_at=NOW,
        expires_at=None,
        revoked_at=None,
        is_test=False,
    )
    assert authenticate(records, f"Bearer {text}", NOW).is_test is False


def test_an_id_that_is_taken_is_not_overwritten(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "_random_text", lambda alphabet, length: alphabet[-1] * length)
    text, key = create_key(records, NOW, "acme")
    assert text == f"ew_{'7' * 16}_{'Z' * 43}"
    with pytest.raises(keys.RecordConflict):
        create_key(records, NOW, "globex")
    assert list_keys(records) == [key]


def test_whether_there_are_keys(records: Records) -> None:
    records.write([RecordChange("note", "", "a", b"{}"), RecordChange("key", "t", "a", b"{}")])
    assert not has_keys(records)
    create_key(records, NOW, "acme")
    assert has_keys(records)


def test_keys_of_one_moment_are_listed_by_their_id(records: Records) -> None:
    made = sorted(create_key(records, NOW, "acme")[1].key_id for _ in range(5))
    first = create_key(records, NOW - HOUR, "acme")[1].key_id
    assert [key.key_id for key in list_keys(records)] == [first, *made]


def test_a_revoked_key_is_stored_and_told_as_such(records: Records) -> None:
    _, key = create_key(records, NOW, "acme")
    body = records.get("key", "", key.key_id)
    revoked = revoke_key(records, key.key_id, NOW + HOUR)
    assert type(revoked) is keys.Key
    assert revoked.revoked_at == NOW + HOUR
    assert list_keys(records) == [revoked]
    assert body is not None
    kept = json.loads(body) | {"revokedAt": "2026-01-02T04:04:05Z"}
    assert json.loads(records.get("key", "", key.key_id) or b"") == kept


# Refusals.


def test_refusals_of_requests_in_full(records: Records) -> None:
    text, key = create_key(records, NOW, "acme", expires_at=NOW + HOUR)
    lost, revoked = create_key(records, NOW, "acme")
    revoke_key(records, revoked.key_id, NOW)
    send = "send `Authorization: Bearer <key>`"
    plain = {"WWW-Authenticate": 'Bearer realm="evalwright"'}
    assert refused(records, None) == (401, "unauthenticated", f"missing key; {send}", None, plain)
    for header in ("", "Bearer", text, f"Basic {text}", f"Bearer  x{text}", f"Bearer {text}x"):
        assert refused(records, header) == (
            401,
            "unauthenticated",
            f"no key in the Authorization header; {send}",
            None,
            BAD_TOKEN,
        )
    for wrong in (text[:-1] + ("a" if text[-1] != "a" else "b"), text.replace("ew_", "ew_test_")):
        told = refused(records, f"Bearer {wrong}")
        assert told == (401, "unauthenticated", "invalid key", None, BAD_TOKEN)
    assert refused(records, f"Bearer {text}", NOW + HOUR) == (
        401,
        "key_expired",
        f"key {key.key_id} is expired; request a new one",
        None,
        BAD_TOKEN,
    )
    assert refused(records, f"Bearer {lost}") == (
        401,
        "key_revoked",
        f"key {revoked.key_id} is revoked; request a new one",
        None,
        BAD_TOKEN,
    )
    assert authenticate(records, f"bEARer   {text}  ", NOW).key_id == key.key_id


def test_a_key_without_a_record_is_compared_with_a_hash_of_nothing(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[str, str]] = []
    monkeypatch.setattr("hmac.compare_digest", lambda *pair: compared.append(pair) or True)
    secret = "s" * 43
    told = refused(records, f"Bearer ew_{'a' * 16}_{secret}")
    assert told == (401, "unauthenticated", "invalid key", None, BAD_TOKEN)
    assert compared == [(hashlib.sha256(secret.encode()).hexdigest(), "0" * 64)]


@pytest.mark.parametrize("key_id", ["", "a" * 15, "a" * 17, "A" * 16, "1" * 16, "ew_" + "a" * 16])
def test_what_is_no_id_of_a_key_is_not_repeated(records: Records, key_id: str) -> None:
    assert sorry(revoke_key, records, key_id, NOW) == (
        "not a key id: give the id, 16 letters and digits, not the key itself; "
        "see `evalwright keys list`"
    )


def test_an_unknown_key_cannot_be_revoked(records: Records) -> None:
    told = sorry(revoke_key, records, "a" * 16, NOW)
    assert told == f"no such key: {'a' * 16}; see `evalwright keys list`"


def test_a_key_cannot_have_ended_when_it_is_made(records: Records) -> None:
    for end in (NOW, NOW - HOUR):
        told = sorry(create_key, records, NOW, "acme", expires_at=end)
        assert told == f"the expiry {end:%Y-%m-%dT%H:%M:%S}Z is in the past; choose a later one"
    create_key(records, NOW, "acme", expires_at=NOW + timedelta(microseconds=1))


def test_names_in_full(records: Records) -> None:
    rule = "use 1 to 64 of the characters a-z, 0-9, dot, _ and -"
    assert sorry(create_key, records, NOW, "A b") == f"invalid tenant 'A b'; {rule}"
    told = sorry(create_key, records, NOW, "acme", workspace="")
    assert told == f"invalid workspace ''; {rule}"
    assert sorry(keys.check_name, "tenant", "X" * 81) == f"invalid tenant {'X' * 80!r}; {rule}"
    keys.check_name("tenant", "a-z_0.9" + "x" * 57)


# Scopes.


def test_a_scope_that_does_not_exist_is_answered_with_all_that_do() -> None:
    assert sorry(keys.expand_scopes, ["runs:reed"]) == (
        "no such scope: 'runs:reed'; scopes are agents:read, agents:write, approvals:respond, "
        "artifacts:read, audit:read, deploy:pause, deploy:promote, deploy:rollback, "
        "manifest:read, packs:publish, packs:yank, packs:yank-revert, prompts:read, "
        "prompts:write, runs:annotate, runs:cancel, runs:create, runs:read, suites:read, "
        "suites:write, webhooks:manage, "
        "workspace:read, workspace:write, and agents:*, approvals:*, artifacts:*, audit:*, "
        "deploy:*, manifest:*, packs:*, prompts:*, runs:*, suites:*, webhooks:*, workspace:* for "
        "all of a kind"
    )


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ([], set()),
        (["packs:*"], {"packs:publish", "packs:yank", "packs:yank-revert"}),
        (["audit:*", "audit:read"], {"audit:read"}),
        (["runs:read", "suites:*"], {"runs:read", "suites:read", "suites:write"}),
    ],
)
def test_what_scopes_are_given(asked: list[str], given: set[str]) -> None:
    assert keys.expand_scopes(asked) == given


def test_who_has_a_key_that_was_checked_before_is_told_once_it_has_ended(records: Records) -> None:
    _, key = create_key(records, NOW, "acme", workspace="lab", expires_at=NOW + HOUR)
    holder = keys.holder_of(records, key.key_id, NOW)
    assert (holder.key_id, holder.tenant, holder.workspace) == (key.key_id, "acme", "lab")
    for key_id, now, state in ((key.key_id, NOW + HOUR, "expired"), ("gone", NOW, "revoked")):
        with pytest.raises(ApiError) as caught:
            keys.holder_of(records, key_id, now)
        assert (caught.value.status, caught.value.code) == (401, f"key_{state}")
        assert caught.value.message == f"key {key_id} is {state}; request a new one"
    revoke_key(records, create_key(records, NOW, "acme")[1].key_id, NOW)
    known = [each.key_id for each in list_keys(records)]
    states = keys.key_states(records, [*known, "gone"], NOW)
    assert {key_id: states[key_id] for key_id in (key.key_id, "gone")} == {
        key.key_id: "active",
        "gone": "revoked",
    }
    assert sorted(states.values()) == ["active", "revoked", "revoked"]


def test_what_goes_on_with_a_key_ends_once_with_it(tmp_path: Path) -> None:
    """Each of its streams is told; those that have ended before, and other keys, are not."""
    ended: list[tuple[str, str]] = []
    times = iter([NOW, NOW + HOUR, NOW + HOUR])

    async def scene(log: SqliteLog) -> None:
        _, brief = create_key(log.records, NOW, "acme", expires_at=NOW + HOUR)
        _, lasting = create_key(log.records, NOW, "acme")
        watching = KeyWatch(log, times.__next__)
        with (
            watching.watch(brief.key_id, lambda state: ended.append(("one", state))),
            watching.watch(brief.key_id, lambda state: ended.append(("two", state))),
            watching.watch(lasting.key_id, lambda state: ended.append(("other", state))),
        ):
            with watching.watch(brief.key_id, lambda state: ended.append(("over", state))):
                pass
            await watching._check()
            assert ended == []
            for _ in range(2):
                await watching._check()
        assert watching._watched == {}

    with closing(SqliteLog(tmp_path / "log.db")) as log:
        asyncio.run(scene(log))
    assert ended == [("one", "expired"), ("two", "expired")]


def test_keys_are_read_again_only_while_something_goes_on_with_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    ended: list[str] = []
    sleep = asyncio.sleep

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    async def scene(log: SqliteLog) -> None:
        _, key = create_key(log.records, NOW, "acme", expires_at=NOW + HOUR)
        reads: list[str] = []
        watching = KeyWatch(log, lambda: NOW + HOUR)
        in_reader = log.in_reader
        monkeypatch.setattr(log, "in_reader", lambda *given: reads.append("x") or in_reader(*given))
        monkeypatch.setattr(asyncio, "sleep", pause)
        running = asyncio.create_task(watching.run())
        while len(pauses) < 5:
            await sleep(0)
        assert reads == []
        told = asyncio.Event()
        with watching.watch(key.key_id, lambda state: (ended.append(state), told.set())):
            await told.wait()
        running.cancel()
        assert len(reads) == 1

    with closing(SqliteLog(tmp_path / "log.db")) as log:
        asyncio.run(scene(log))
    assert ended == ["expired"]
    assert set(pauses) == {key_watch.CHECK_SECONDS}

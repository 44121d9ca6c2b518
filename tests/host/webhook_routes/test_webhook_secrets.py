"""Secrets of webhooks are in no file in clear text, and of no use without the host's key."""

import hashlib
import json
import shutil
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest

from evalwright.contracts.errors import StoreError
from evalwright.host.access.egress import Egress
from evalwright.host.access.vault import VARIABLE
from evalwright.store.records import RecordChange
from evalwright.store.sqlite.log import SqliteLog
from evalwright.store.upkeep import SqliteUpkeep
from host.caller import Caller
from host.server import TENANT, running_host
from subjects.command import Evalwright

URL = "https://hooks.example.com/openwop"
PURPOSE = "webhook acme/wh_1"


async def public(host: str, port: int) -> list[str]:
    return ["93.184.215.14"]


def serving(db: Path, **more: Any):
    return running_host(db, egress=Egress(lookup=public), **more)


def register(caller: Caller, **headers: str) -> dict[str, Any]:
    wanted = {"url": URL, "events": ["run.completed"]}
    return caller.post("/v1/webhooks", wanted, headers).json()


def files_with(folder: Path, secret: str) -> list[str]:
    """The files that hold a secret, as it is or in the form that JSON has for bytes."""
    forms = [secret.encode(), *_base64_forms(secret)]
    files = [path for path in folder.iterdir() if path.is_file()]
    return [path.name for path in files if any(form in path.read_bytes() for form in forms)]


def _base64_forms(secret: str) -> list[bytes]:
    """The secret within base64, whatever comes before it."""
    encoded = [msgspec.json.encode(b"x" * shift + secret.encode()) for shift in range(3)]
    return [text.strip(b'"=')[4:-4] for text in encoded]


def test_no_file_holds_a_secret_while_the_host_runs_or_afterwards(tmp_path):
    db = tmp_path / "host.db"
    with serving(db) as served:
        made = [register(served.caller(), **{"Idempotency-Key": f"k{n}"}) for n in range(3)]
        again = register(served.caller(), **{"Idempotency-Key": "k0"})
        assert again == made[0]
        for each in made:
            assert files_with(tmp_path, each["secret"]) == []
    for each in made:
        assert files_with(tmp_path, each["secret"]) == []
    key_file = tmp_path / "host.db-key"
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600


def test_a_response_with_a_secret_is_not_to_be_stored(tmp_path):
    with serving(tmp_path / "host.db") as served:
        reply = served.caller().post("/v1/webhooks", {"url": URL, "events": ["*"]})
        assert reply.headers["cache-control"] == "no-store"


def test_a_restarted_host_signs_with_the_same_secret(tmp_path):
    db = tmp_path / "host.db"
    with serving(db) as served:
        made = register(served.caller())
    with serving(db) as served:
        [lane] = served.host.webhooks.lanes()
        assert lane.subscription.secret == made["secret"]
        [shown] = served.caller().get("/v1/webhooks").json()["webhooks"]
        assert (shown["secretFingerprint"], shown["state"]) == (made["secretFingerprint"], "active")


def clear(number: int) -> tuple[str, dict[str, Any]]:
    """A subscription as version 0.2 stored it."""
    secret = hashlib.sha256(f"secret {number}".encode()).hexdigest()
    return secret, {
        "webhookId": f"wh_{number}",
        "tenant": TENANT,
        "workspace": None,
        "url": URL,
        "events": ["run.completed"],
        "tags": [],
        "includeContent": False,
        "secret": secret,
        "createdUs": 1,
    }


@pytest.fixture
def of_0_2(tmp_path) -> tuple[Path, list[str]]:
    """A database with 40 secrets in clear text, and traces of others that were deleted."""
    db = tmp_path / "host.db"
    log = SqliteLog(db)
    subscriptions = [clear(number) for number in range(80)]
    for secret, document in subscriptions:
        body = {"webhookId": document["webhookId"], "secretFingerprint": "x", "secret": secret}
        replay = {"digest": "d", "state": "completed", "status": 201}
        kept = {**replay, "body": json.loads(msgspec.json.encode(msgspec.json.encode(body)))}
        log.records.write(
            [
                RecordChange(
                    "webhook", TENANT, document["webhookId"], json.dumps(document).encode()
                ),
                RecordChange(
                    "idempotency", TENANT, document["webhookId"], json.dumps(kept).encode()
                ),
            ]
        ).result()
    for _, document in subscriptions[40:]:
        key = document["webhookId"]
        log.records.write([RecordChange("webhook", TENANT, key, None)]).result()
    log.close()
    secrets = [secret for secret, _ in subscriptions]
    assert all(files_with(tmp_path, secret) for secret in secrets[:40])
    return db, secrets


def test_secrets_in_clear_text_are_sealed_at_start_and_leave_no_trace(of_0_2):
    db, secrets = of_0_2
    with serving(db) as served:
        assert [name for each in secrets for name in files_with(db.parent, each)] == []
        lanes = list(served.host.webhooks.lanes())
        assert {lane.subscription.secret for lane in lanes} == set(secrets[:40])
        assert served.log.records.of_all_tenants("webhook_traces") == []
    assert [name for each in secrets for name in files_with(db.parent, each)] == []


def test_traces_that_could_not_be_erased_are_erased_at_the_next_start(of_0_2, caplog):
    db, secrets = of_0_2
    with pytest.MonkeyPatch.context() as patch:

        def fail(_: SqliteUpkeep) -> bool:
            raise StoreError("the disk is full")

        patch.setattr(SqliteUpkeep, "erase_deleted", fail)
        with serving(db):
            assert "may hold traces of the secrets of webhooks" in caplog.text
    with serving(db):
        assert [name for each in secrets for name in files_with(db.parent, each)] == []


def test_a_database_without_its_key_is_served_and_says_what_to_do(tmp_path, caplog):
    """As after a restore on another machine."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    with serving(tmp_path / "one" / "host.db") as served:
        made = register(served.caller(), **{"Idempotency-Key": "k"})
    shutil.copy(tmp_path / "one" / "host.db", tmp_path / "two" / "host.db")
    with serving(tmp_path / "two" / "host.db") as served:
        caller = served.caller()
        assert made["webhookId"] in caplog.text
        assert "put the key back and restart, or delete the webhooks" in caplog.text
        [shown] = caller.get("/v1/webhooks").json()["webhooks"]
        assert (shown["secretFingerprint"], shown["state"]) == (made["secretFingerprint"], "failed")
        wanted = {"url": URL, "events": ["run.completed"]}
        replayed = caller.post("/v1/webhooks", wanted, {"Idempotency-Key": "k"})
        assert replayed.refusal == (409, "conflict")
        caller.evaluate()
        assert register(caller)["state"] == "active"
        assert caller.send("DELETE", f"/v1/webhooks/{made['webhookId']}").status == 204


def test_what_happens_while_the_key_is_away_is_delivered_when_it_is_back(tmp_path):
    db = tmp_path / "host.db"
    with serving(db) as served:
        register(served.caller())
    key_file = tmp_path / "host.db-key"
    key_file.rename(tmp_path / "away")
    with serving(db) as served:
        served.caller().evaluate()
        left = "SELECT DISTINCT webhook_id FROM webhook_outbox"
        [(webhook_id,)] = served.log.records.rows(left)
    assert not key_file.exists()  # a new one could be taken for the right one
    (tmp_path / "away").rename(key_file)
    with serving(db) as served:
        [lane] = served.host.webhooks.lanes()
        assert lane.subscription.secret is not None
        assert webhook_id == lane.subscription.webhook_id


def test_serve_refuses_a_key_that_is_too_short(evalwright: Evalwright):
    done = evalwright("serve", "--port", "0", "--db", "host.db", env={VARIABLE: "short"})
    assert done.code == 2
    assert f"{VARIABLE}: must have at least 32 characters" in done.err

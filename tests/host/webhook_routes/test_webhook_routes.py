"""Webhooks over HTTP: registered, listed without secrets, removed, each for its own tenant."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders import a_suite
from evalwright.contracts.events import Event
from evalwright.host.access.egress import Egress
from evalwright.host.webhooks.dead_letters import ParkedDelivery
from evalwright.host.webhooks.post import AttemptResult, DeliveryReport
from host.caller import Caller, Reply
from host.server import TENANT, ServedHost, running_host
from subjects.waiting import eventually

URL = "https://hooks.example.com/openwop"
WANTED = {"url": URL, "events": ["run.completed", "eval.*"]}


async def public(host: str, port: int) -> list[str]:
    return ["10.0.0.1"] if host.startswith("inside") else ["93.184.215.14"]


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHost]:
    """A host for which all names lead to public addresses, but those that begin with `inside`."""
    db: Path = tmp_path_factory.mktemp("host") / "host.db"
    with running_host(db, egress=Egress(lookup=public)) as served:
        yield served


def register(caller: Caller, headers=None, **fields) -> Reply:
    return caller.post("/v1/webhooks", {**WANTED, **fields}, headers)


def unregister(caller: Caller, webhook_id: str, query: str = "") -> Reply:
    return caller.send("DELETE", f"/v1/webhooks/{webhook_id}{query}")


def webhooks(caller: Caller) -> list:
    return caller.get("/v1/webhooks").json()["webhooks"]


def test_the_secret_is_told_once_and_its_fingerprint_always(newcomer: Caller):
    reply = register(newcomer, tags=["ci"])
    made = reply.json()
    assert reply.status == 201
    assert made["secretFingerprint"] == hashlib.sha256(made["secret"].encode()).hexdigest()[:8]
    assert made["webhookId"] == made["subscriptionId"]
    assert made["events"] == made["eventTypes"] == WANTED["events"]
    listed = newcomer.get("/v1/webhooks")
    assert made.pop("secret").encode() not in listed.body
    assert listed.json() == {"webhooks": [made]}


def test_a_secret_may_be_brought(newcomer: Caller):
    secret = "a secret of my own"
    assert register(newcomer, secret=secret).json()["secret"] == secret


def test_a_removed_webhook_is_gone(newcomer: Caller):
    webhook_id = register(newcomer).json()["webhookId"]
    reply = unregister(newcomer, webhook_id)
    assert (reply.status, reply.body) == (204, b"")
    assert webhooks(newcomer) == []
    assert unregister(newcomer, webhook_id).refusal == (404, "subscription_not_found")


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example.com/",
        "https://127.0.0.1/",
        "https://[::1]/",
        "https://169.254.169.254/latest/meta-data",
        "https://10.1.2.3/",
        "https://localhost/",
        "https://inside.example.com/",
        "https://me:secret@hooks.example.com/",
        "https://hooks.example.com:22/",
        "ftp://hooks.example.com/",
        "nonsense",
    ],
)
def test_an_address_that_must_not_be_reached_is_refused(newcomer: Caller, url: str):
    assert register(newcomer, url=url).refusal == (400, "webhook_url_rejected")
    assert webhooks(newcomer) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"events": []},
        {"events": ["no type at all!"]},
        {"events": ["agent.decided"]},
        {"events": "run.completed"},
        {"secret": "short"},
        {"tags": ["x" * 257]},
        {"surprise": 1},
    ],
)
def test_what_is_no_webhook_is_refused(newcomer: Caller, fields):
    assert register(newcomer, **fields).refusal == (400, "validation_error")


def test_content_is_delivered_only_to_those_who_ask_for_it(newcomer: Caller):
    made = register(newcomer, events=["agent.decided"], includeContent=True)
    assert (made.status, made.json()["includeContent"]) == (201, True)


def test_the_tenant_may_be_named_only_as_the_keys_own(newcomer: Caller, lasting: ServedHost):
    caller = lasting.caller("namers")
    made = register(caller, tenantId="namers")
    webhook_id = made.json()["webhookId"]
    assert made.status == 201
    foreign = (403, "tenant_membership_required")
    assert register(caller, tenantId="rival").refusal == foreign
    for each in (webhook_id, "wh_nothing"):
        assert unregister(caller, each, "?tenantId=rival").refusal == foreign
    assert unregister(caller, webhook_id, "?tenantId=namers").status == 204


def test_webhooks_of_other_tenants_and_workspaces_are_not_there(
    newcomer: Caller, lasting: ServedHost
):
    webhook_id = register(lasting.caller("owners")).json()["webhookId"]
    for stranger in (newcomer, lasting.caller("owners", workspace="labs")):
        assert webhooks(stranger) == []
        refusal = unregister(stranger, webhook_id).refusal
        assert refusal == unregister(stranger, "wh_nothing").refusal
        assert refusal == (404, "subscription_not_found")
    assert [each["webhookId"] for each in webhooks(lasting.caller("owners"))] == [webhook_id]


def test_a_key_without_the_scope_has_no_business_with_webhooks(lasting: ServedHost):
    caller = lasting.caller(scopes=["runs:create", "runs:read"])
    for reply in (register(caller), caller.get("/v1/webhooks"), unregister(caller, "wh_x")):
        assert reply.refusal == (403, "forbidden")


def test_a_registration_sent_twice_with_one_key_is_made_once(newcomer: Caller):
    headers = {"Idempotency-Key": "once"}
    first, second = (register(newcomer, headers) for _ in range(2))
    assert second.json() == first.json()
    assert len(webhooks(newcomer)) == 1


def test_webhooks_are_told_of_a_run_and_not_of_what_a_fork_repeats(
    served: ServedHost, caller: Caller, monkeypatch: pytest.MonkeyPatch
):
    told: list[Event] = []

    async def post(subscription, event, workspace, attempt) -> AttemptResult:
        assert subscription.tenant == TENANT
        told.append(event)
        return AttemptResult("delivered", "status_204", 0.0, 204)

    monkeypatch.setattr(served.host.webhooks.poster, "post", post)
    monkeypatch.setattr(served.host.egress, "check_destination", not_checked)
    wanted = {"events": ["*"], "includeContent": True}
    assert register(caller, **wanted).status == 201
    source = caller.evaluate(a_suite(2), configurable={"concurrency": 1})
    frames = caller.frames(source)
    eventually(lambda: len(told) == len(frames), "all events of the run")
    assert [event.sequence for event in told] == [frame.id for frame in frames]
    scored = [frame.id for frame in frames if frame.name == "eval.scored"]
    fork = f"/v1/runs/{source}:fork"
    replay = caller.post(fork, {"mode": "replay"}).json()["runId"]
    branch = caller.post(fork, {"mode": "branch", "fromSeq": scored[0] + 1}).json()["runId"]
    caller.finish(branch)
    eventually(lambda: told[-1].run_id == branch and told[-1].type == "run.completed", "its end")
    assert {event.run_id for event in told} == {source, branch}
    assert replay in caller.run_ids()
    of_branch = [event for event in told if event.run_id == branch]
    assert [event.type for event in of_branch].count("eval.scored") == 1
    assert of_branch[0].type == "run.started"
    left = "SELECT 1 FROM webhook_outbox"
    eventually(lambda: not served.log.records.rows(left), "nothing is left to be sent")


async def not_checked(*_, **__) -> None: ...


def parked(lasting: ServedHost, caller: Caller, count: int, **fields) -> tuple[str, list[str]]:
    """A webhook with so many dead letters, and their ids."""
    webhook = register(caller, **fields).json()["webhookId"]
    tenant = next(
        tenant for tenant, lanes in lasting.host.webhooks._lanes.items() if webhook in lanes
    )
    letters = [
        ParkedDelivery(webhook, f"run_{n:026d}", n, "run.completed", None, 10, 0, "timeout")
        for n in range(count)
    ]
    lasting.log.records.write([letter.change(tenant) for letter in letters]).result()
    return webhook, [letter.delivery_id for letter in letters]


def test_the_log_says_what_became_of_a_delivery(lasting: ServedHost, caplog):
    for outcome in ("failed", "refused", "parked", "delivered"):
        report = DeliveryReport(outcome, "status_500", TENANT, "wh_1", "run_1", "run.started")
        lasting.host._note_delivery(report)
    said = [line.partition("run_1 ")[2] for line in caplog.messages if "wh_1" in line]
    assert said == [
        "could not be delivered: status_500",
        "was not sent: status_500",
        "was given up and is a dead letter: status_500",
    ]


def test_dead_letters_are_listed_page_by_page(newcomer: Caller, lasting: ServedHost):
    webhook, ids = parked(lasting, newcomer, 5)
    path = f"/v1/webhooks/{webhook}/dead-letters"
    found = newcomer.get(path).json()
    assert "nextCursor" not in found
    assert [each["deliveryId"] for each in found["deliveries"]] == ids
    assert found["deliveries"][0] == {
        "deliveryId": ids[0],
        "webhookId": webhook,
        "runId": f"run_{0:026d}",
        "eventId": f"run_{0:026d}:0",
        "sequence": 0,
        "eventType": "run.completed",
        "attempts": 10,
        "deadLetteredAt": "1970-01-01T00:00:00.000000Z",
        "reason": "retries_exhausted",
        "lastReason": "timeout",
    }
    pages, cursor = [], ""
    while cursor is not None:
        page = newcomer.get(f"{path}?limit=2{cursor and f'&cursor={cursor}'}").json()
        pages.append([each["deliveryId"] for each in page["deliveries"]])
        cursor = page.get("nextCursor")
    assert pages == [ids[:2], ids[2:4], ids[4:]]


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "cursor=nonsense", "cursor=a/b:1"])
def test_a_page_that_cannot_be_is_refused(newcomer: Caller, query: str):
    webhook = register(newcomer).json()["webhookId"]
    reply = newcomer.get(f"/v1/webhooks/{webhook}/dead-letters?{query}")
    assert reply.refusal == (400, "validation_error")


def test_a_dead_letter_is_discarded_once(newcomer: Caller, lasting: ServedHost):
    webhook, ids = parked(lasting, newcomer, 2)
    path = f"/v1/webhooks/{webhook}/dead-letters"
    assert newcomer.send("DELETE", f"{path}/{ids[0]}").status == 204
    assert newcomer.send("DELETE", f"{path}/{ids[0]}").refusal == (404, "not_found")
    assert [each["deliveryId"] for each in newcomer.get(path).json()["deliveries"]] == ids[1:]


def test_dead_letters_of_runs_that_are_gone_leave_the_list_when_sent_again(
    newcomer: Caller, lasting: ServedHost
):
    webhook, ids = parked(lasting, newcomer, 3)
    path = f"/v1/webhooks/{webhook}/dead-letters"
    some = newcomer.post(f"{path}:resend", {"deliveryIds": [ids[1], "dlv_nothing"]})
    assert (some.status, some.json()) == (202, {"resending": 1})
    left = [ids[0], ids[2]]
    eventually(
        lambda: [each["deliveryId"] for each in newcomer.get(path).json()["deliveries"]] == left,
        "the other two",
    )
    assert newcomer.post(f"{path}:resend").json() == {"resending": 2}


def test_dead_letters_of_others_are_not_there(newcomer: Caller, lasting: ServedHost):
    owner = lasting.caller("letter-owners")
    webhook, [letter] = parked(lasting, owner, 1)
    path = f"/v1/webhooks/{webhook}/dead-letters"
    for stranger in (newcomer, lasting.caller("letter-owners", workspace="labs")):
        for reply in (
            stranger.get(path),
            stranger.post(f"{path}:resend"),
            stranger.send("DELETE", f"{path}/{letter}"),
        ):
            assert reply.refusal == (404, "subscription_not_found")
    reader = lasting.caller("letter-owners", scopes=["runs:read"])
    assert reader.get(path).refusal == (403, "forbidden")
    assert len(owner.get(path).json()["deliveries"]) == 1

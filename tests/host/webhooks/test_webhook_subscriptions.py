"""Subscriptions: made, kept, found and ended, each for its own tenant."""

import asyncio
import hashlib

import msgspec
import pytest
from webhook_station import ManualClock

from evalwright.contracts.errors import InvalidDocument
from evalwright.host.access.egress import Egress, EgressRefused
from evalwright.host.access.vault import Vault
from evalwright.host.webhooks.subscriptions import (
    MAX_PER_TENANT,
    Subscription,
    SubscriptionRequest,
    Subscriptions,
)
from evalwright.store.sqlite.log import SqliteLog

URL = "https://hooks.example.com/openwop"


async def public(host: str, port: int) -> list[str]:
    return ["93.184.215.14"]


class Desk:
    def __init__(self, log: SqliteLog) -> None:
        self.clock = ManualClock()
        egress, vault = Egress(lookup=public), Vault.for_database(log.place)
        self.subscriptions = Subscriptions(log.records, egress, self.clock, vault)

    def create(self, *events: str, tenant="acme", workspace=None, url=URL, **more) -> Subscription:
        wanted = SubscriptionRequest(url, events or ("run.completed",), **more)
        return asyncio.run(self.subscriptions.create(tenant, workspace, wanted))

    def delete(self, webhook_id: str, tenant="acme", workspace=None) -> bool:
        found = self.subscriptions.find(tenant, workspace, webhook_id)
        if found is not None:
            asyncio.run(self.subscriptions.delete(found))
        return found is not None

    def problems(self, *events: str, **more) -> str:
        with pytest.raises(InvalidDocument) as caught:
            self.create(*events, **more)
        return str(caught.value)


@pytest.fixture
def log(tmp_path):
    log = SqliteLog(tmp_path / "log.db")
    yield log
    log.close()


@pytest.fixture
def desk(log) -> Desk:
    return Desk(log)


def test_a_secret_of_32_bytes_is_made_for_each_subscription(desk):
    first, second = desk.create(), desk.create()
    assert len(bytes.fromhex(first.secret)) == 32
    assert first.secret != second.secret
    assert first.webhook_id != second.webhook_id


def test_a_secret_of_the_callers_own_is_kept(desk):
    created = desk.create(secret="0123456789abcdef")
    assert desk.subscriptions.find("acme", None, created.webhook_id).secret == "0123456789abcdef"


@pytest.mark.parametrize("secret", ["", "0123456789abcde", "x" * 257])
def test_a_secret_that_is_too_short_or_too_long_is_refused(desk, secret):
    assert "$.secret: must have 16 to 256 characters" in desk.problems(secret=secret)


def test_the_fingerprint_is_all_that_is_shown_of_a_secret(desk):
    created = desk.create()
    assert created.fingerprint == hashlib.sha256(created.secret.encode()).hexdigest()[:8]
    assert created.secret not in repr(created)
    assert created.fingerprint in repr(created)


def test_a_subscription_survives_a_restart(desk, log):
    created = desk.create("eval.*", tags=["ci"], workspace="w")
    assert Desk(log).subscriptions.of_tenant("acme") == [created]


def test_a_subscription_is_found_by_its_own_tenant_only(desk):
    created = desk.create()
    assert desk.subscriptions.find("other", None, created.webhook_id) is None
    assert desk.subscriptions.of_tenant("other") == []
    assert not desk.delete(created.webhook_id, tenant="other")
    assert desk.subscriptions.find("acme", None, created.webhook_id) == created


def test_a_subscription_of_a_workspace_is_not_ended_from_another(desk):
    created = desk.create(workspace="one")
    assert not desk.delete(created.webhook_id, workspace="two")
    assert desk.delete(created.webhook_id, workspace="one")


def test_what_was_ended_is_gone_at_once(desk):
    created = desk.create()
    assert desk.subscriptions.of_tenant("acme") == [created]
    assert desk.delete(created.webhook_id)
    assert desk.subscriptions.of_tenant("acme") == []
    assert not desk.delete(created.webhook_id)


def test_what_another_process_made_is_found_at_once(desk, log):
    assert desk.subscriptions.of_tenant("acme") == []
    created = Desk(log).create()
    assert desk.subscriptions.of_tenant("acme") == [created]


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://hooks.example.com/", "scheme_forbidden"),
        ("https://127.0.0.1/", "address_forbidden"),
        ("https://[::ffff:7f00:1]/", "address_forbidden"),
        ("https://localhost/", "host_forbidden"),
    ],
)
def test_a_url_that_the_host_would_not_post_to_is_refused(desk, url, reason):
    with pytest.raises(EgressRefused) as caught:
        desk.create(url=url)
    assert caught.value.reason == reason
    assert desk.subscriptions.of_tenant("acme") == []


def test_a_subscription_names_at_least_one_event(desk):
    with pytest.raises(InvalidDocument, match="must name 1 to 100 event types"):
        asyncio.run(desk.subscriptions.create("acme", None, SubscriptionRequest(URL, [])))


@pytest.mark.parametrize("pattern", ["", "run completed", "eval.", "ev*", "*.run", "x" * 129])
def test_what_is_no_event_type_is_refused(desk, pattern):
    assert "$.events[0]: must be an event type" in desk.problems(pattern)


def test_a_type_that_can_hold_content_needs_a_word_for_it(desk):
    told = desk.problems("run.completed", "agent.reasoned")
    assert told.startswith("webhook: $.events[1]: agent.reasoned can hold content")
    assert "includeContent" in told
    assert desk.create("agent.reasoned", include_content=True).include_content


def test_every_problem_is_told_at_once(desk):
    told = desk.problems("node.completed", secret="short", tags=["x" * 257])
    assert [line.split(": ")[1] for line in told.splitlines()] == [
        "$.events[0]",
        "$.tags",
        "$.secret",
    ]


def test_a_tenant_can_have_only_so_many(desk):
    for _ in range(MAX_PER_TENANT):
        desk.create()
    assert "the tenant already has 50 webhooks (delete one first)" in desk.problems()
    desk.create(tenant="other")


def test_who_registers_many_at_once_has_no_more_than_others(desk, log):
    async def register() -> list[object]:
        wanted = SubscriptionRequest(URL, ("run.completed",))
        attempts = [
            desk.subscriptions.create("acme", None, wanted) for _ in range(MAX_PER_TENANT + 10)
        ]
        return await asyncio.gather(*attempts, return_exceptions=True)

    made = asyncio.run(register())

    assert sum(isinstance(each, Subscription) for each in made) == MAX_PER_TENANT
    assert len(log.records.keys("webhook", "acme")) == MAX_PER_TENANT


def a_subscription(*events: str, tags=(), workspace=None) -> Subscription:
    return Subscription(
        webhook_id="wh_1",
        tenant="acme",
        workspace=workspace,
        url=URL,
        events=events or ("run.completed",),
        tags=tags,
        include_content=False,
        fingerprint="043a718774c572bd",
        created_us=0,
        secret="s",
    )


@pytest.mark.parametrize(
    ("events", "with_content", "expected"),
    [
        (["run.completed"], False, {("run.completed", False)}),
        (["agent.reasoned", "eval.*"], True, {("agent.reasoned", False), ("eval.", True)}),
        (["*"], True, {("", True)}),
        (["deployment.promoted"], False, {("deployment.promoted", False)}),
        (["deployment.*"], False, {("deployment.", True)}),
        (["deployment.gate.*"], False, {("deployment.gate.", True)}),
        (["eval.*"], False, {(f"eval.{n}", False) for n in ("started", "scored", "completed")}),
    ],
)
def test_the_log_is_asked_for_the_types_that_are_delivered(events, with_content, expected):
    wanted = msgspec.structs.replace(a_subscription(*events), include_content=with_content)
    assert wanted.patterns() == expected

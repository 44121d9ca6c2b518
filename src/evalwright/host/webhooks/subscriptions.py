"""Subscriptions: which events are delivered, and where.

The secret of a subscription signs every delivery, so it is stored sealed, not hashed. It is
returned once, when the subscription is created, and appears in no log, list or `repr`; only its
fingerprint is shown.
"""

import asyncio
import hashlib
import logging
import re
import secrets
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from evalwright.contracts.errors import InvalidDocument, Problem
from evalwright.engine.clock import Clock
from evalwright.host.access.egress import Egress
from evalwright.host.access.vault import Vault, WrongKey
from evalwright.host.async_store import read_soon
from evalwright.host.webhooks.content import content_free_patterns, has_content_free
from evalwright.store.outbox import follow, unfollow
from evalwright.store.records import Execute, RecordChange, Records

KIND = "webhook"
MAX_PER_TENANT = 50
MAX_EVENTS = 100
MAX_TAGS = 100
MAX_TAG_LENGTH = 256
SECRET_LENGTHS = range(16, 257)
SECRET_BYTES = 32

_log = logging.getLogger(__name__)
_PATTERN = re.compile(r"\*|[A-Za-z][\w-]*(?:\.[\w-]+)*(?:\.\*)?", re.ASCII)
_MAX_PATTERN_LENGTH = 128


class SubscriptionRequest(msgspec.Struct, frozen=True):
    """A requested subscription; without a secret, one is generated."""

    url: str
    events: Sequence[str]
    tags: Sequence[str] = ()
    secret: str | None = None
    include_content: bool = False


class Subscription(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A subscription; as stored, its secret is sealed, but for those of version 0.2."""

    webhook_id: str
    tenant: str
    workspace: str | None  # None: the runs of every workspace of the tenant
    url: str
    events: tuple[str, ...]
    tags: tuple[str, ...]
    include_content: bool
    created_us: int
    fingerprint: str = ""  # the part of the secret's hash that may be shown
    sealed: str | None = None
    secret: str | None = None  # None: sealed with a key that this host does not have

    @property
    def purpose(self) -> str:
        """What its secret is for: a sealed secret is of no use for another webhook."""
        return f"webhook {self.tenant}/{self.webhook_id}"

    def patterns(self) -> set[tuple[str, bool]]:
        """The types that are delivered, each with whether it is the beginning of types."""
        if self.include_content:
            return {(each.removesuffix("*"), each.endswith("*")) for each in self.events}
        return {found for each in self.events for found in content_free_patterns(each)}

    def following(self) -> list[Execute]:
        """What lets it follow the runs that it is for."""
        place = self.tenant if self.workspace is None else f"{self.tenant}/{self.workspace}"
        tags = msgspec.json.encode(self.tags).decode() if self.tags else None
        return follow(self.webhook_id, self.tenant, place, tags, sorted(self.patterns()))

    def __repr__(self) -> str:
        return f"Subscription({self.webhook_id!r}, {self.tenant!r}, {self.fingerprint!r})"


class Subscriptions:
    """The subscriptions of all tenants, looked up by tenant."""

    def __init__(self, records: Records, egress: Egress, clock: Clock, vault: Vault) -> None:
        self._records = records
        self._vault = vault
        self._egress = egress
        self._clock = clock
        self._creating = asyncio.Lock()  # so that nobody gets more than the others may have

    async def create(
        self, tenant: str, workspace: str | None, wanted: SubscriptionRequest
    ) -> Subscription:
        """Create a subscription; raises `InvalidDocument`, or `EgressRefused` for its URL."""
        problems = []
        if not 1 <= len(wanted.events) <= MAX_EVENTS:
            problems.append(Problem("$.events", f"must name 1 to {MAX_EVENTS} event types"))
        for index, pattern in enumerate(wanted.events):
            path = f"$.events[{index}]"
            if len(pattern) > _MAX_PATTERN_LENGTH or not _PATTERN.fullmatch(pattern):
                told = "for example run.completed, eval.* or *"
                problems.append(Problem(path, "must be an event type", told))
            elif not wanted.include_content and not has_content_free(pattern):
                message = f"{pattern} can hold content, which is not delivered by default"
                problems.append(Problem(path, message, "set includeContent to true to receive it"))
        if len(wanted.tags) > MAX_TAGS or any(len(tag) > MAX_TAG_LENGTH for tag in wanted.tags):
            problems.append(
                Problem("$.tags", f"at most {MAX_TAGS} tags of at most {MAX_TAG_LENGTH} characters")
            )
        if wanted.secret is not None and len(wanted.secret) not in SECRET_LENGTHS:
            problems.append(
                Problem(
                    "$.secret",
                    f"must have {SECRET_LENGTHS[0]} to {SECRET_LENGTHS[-1]} characters",
                    "omit it to have one generated",
                )
            )
        if problems:
            raise InvalidDocument("webhook", problems)
        await self._egress.check_destination(wanted.url, https_only=True)
        made = Subscription(
            webhook_id=f"wh_{secrets.token_hex(16)}",
            tenant=tenant,
            workspace=workspace,
            url=wanted.url,
            events=tuple(wanted.events),
            tags=tuple(wanted.tags),
            include_content=wanted.include_content,
            created_us=self._clock.now_us(),
            secret=wanted.secret or secrets.token_hex(SECRET_BYTES),
        )
        sealed = self._sealed(made)
        async with self._creating:
            known = await read_soon(self._records, tenant, lambda: self.of_tenant(tenant))
            if len(known) >= MAX_PER_TENANT:
                message = f"the tenant already has {MAX_PER_TENANT} webhooks"
                raise InvalidDocument("webhook", [Problem("$", message, "delete one first")])
            kept = RecordChange(KIND, tenant, made.webhook_id, msgspec.json.encode(sealed))
            await asyncio.wrap_future(self._records.write([*made.following(), kept]))
        return msgspec.structs.replace(sealed, secret=made.secret)

    async def delete(
        self, subscription: Subscription, changes: Sequence[RecordChange] = ()
    ) -> None:
        """Delete a subscription, and what was not sent, together with other changes."""
        change = RecordChange(KIND, subscription.tenant, subscription.webhook_id, None)
        written: list[RecordChange | Execute] = [change, *unfollow(subscription.webhook_id)]
        written += changes
        await asyncio.wrap_future(self._records.write(written))

    def find(self, tenant: str, workspace: str | None, webhook_id: str) -> Subscription | None:
        """A subscription of a tenant, or of one of its workspaces, read from the store."""
        body = self._records.get(KIND, tenant, webhook_id)
        found = self._decode(body, tenant) if body is not None else None
        return found if found is not None and workspace in {None, found.workspace} else None

    def load(self) -> list[Subscription]:
        """The subscriptions of all tenants, read from the store."""
        records = self._records.of_all_tenants(KIND)
        known = [self._decode(record.body, tenant) for tenant, record in records]
        locked = [each.webhook_id for each in known if each.secret is None]
        if locked:
            _log.error(
                "%d webhooks are not delivered, because the key that sealed their secrets is not "
                "in %s: put the key back and restart, or delete the webhooks and register them "
                "again: %s",
                *(len(locked), self._vault.place, ", ".join(locked)),
            )
        return known

    def followers(self, found: Sequence[Subscription]) -> list[Execute]:
        """What lets these subscriptions, and no others, follow runs: some may be of a version
        before, or were imported.
        """
        rows = self._records.rows("SELECT webhook_id, pattern, is_prefix FROM webhook_followers")
        known: dict[str, set[tuple[str, bool]]] = {}
        for webhook_id, pattern, is_prefix in rows:
            known.setdefault(webhook_id, set()).add((pattern, bool(is_prefix)))
        wanted = {each.webhook_id: each for each in found}
        changes = [each for gone in known.keys() - wanted.keys() for each in unfollow(gone)]
        for webhook_id, subscription in wanted.items():
            if known.get(webhook_id) != subscription.patterns():
                changes += subscription.following()
        return changes

    def of_tenant(self, tenant: str) -> list[Subscription]:
        """The subscriptions of a tenant."""
        found = self._records.list(KIND, tenant, limit=MAX_PER_TENANT)
        return [self._decode(record.body, tenant) for record in found]

    def seal_clear_secrets(self) -> list[RecordChange]:
        """What replaces subscriptions whose secret is stored in clear text by sealed ones."""
        stored = [
            msgspec.json.decode(record.body, type=Subscription)
            for _, record in self._records.of_all_tenants(KIND)
        ]
        return [
            RecordChange(
                KIND, each.tenant, each.webhook_id, msgspec.json.encode(self._sealed(each))
            )
            for each in stored
            if each.secret is not None
        ]

    def _sealed(self, clear: Subscription) -> Subscription:
        assert clear.secret is not None, "a secret is sealed once"
        sealed = self._vault.seal(clear.secret.encode(), clear.purpose)
        shown = _fingerprint(clear.secret)
        return msgspec.structs.replace(clear, fingerprint=shown, sealed=sealed, secret=None)

    def _decode(self, body: bytes, tenant: str) -> Subscription:
        stored = msgspec.json.decode(body, type=Subscription)
        assert stored.tenant == tenant, "a subscription is stored under its own tenant"
        secret = stored.secret
        if secret is None and stored.sealed is not None:
            with suppress(WrongKey):
                secret = self._vault.open(stored.sealed, stored.purpose).decode()
        shown = stored.fingerprint or (_fingerprint(secret) if secret else "")
        return msgspec.structs.replace(stored, fingerprint=shown, secret=secret)


def _fingerprint(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()[:8]

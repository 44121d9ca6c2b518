"""Subscriptions: which events are delivered, and where.

The secret of a subscription is stored as it is, not hashed, because it signs every delivery. It is
returned once, when the subscription is created, and appears in no log, list or `repr`; only its
fingerprint is shown.
"""

import asyncio
import hashlib
import re
import secrets
from collections.abc import Sequence

import msgspec

from evalwright.contracts.errors import InvalidDocument, Problem
from evalwright.engine.clock import Clock
from evalwright.host.egress import Egress
from evalwright.host.webhooks.content import has_content_free, is_content_free
from evalwright.store.records import RecordChange, Records

KIND = "webhook"
MAX_PER_TENANT = 50
MAX_EVENTS = 100
MAX_TAGS = 100
MAX_TAG_LENGTH = 256
SECRET_LENGTHS = range(16, 257)
SECRET_BYTES = 32
REMEMBERED_S = 5.0  # how long subscriptions made by another process may go unnoticed

_PATTERN = re.compile(r"\*|[A-Za-z][\w-]*(?:\.[\w-]+)*(?:\.\*)?", re.ASCII)
_MAX_PATTERN_LENGTH = 128


class SubscriptionRequest(msgspec.Struct, frozen=True):
    """A requested subscription; without a secret, one is generated."""

    url: str
    events: Sequence[str]
    tags: Sequence[str] = ()
    secret: str | None = None
    include_content: bool = False


class Subscription(msgspec.Struct, frozen=True, rename="camel"):
    """A subscription as stored."""

    webhook_id: str
    tenant: str
    workspace: str | None  # None: the runs of every workspace of the tenant
    url: str
    events: tuple[str, ...]
    tags: tuple[str, ...]
    include_content: bool
    secret: str
    created_us: int

    @property
    def fingerprint(self) -> str:
        """The part of the secret's hash that may be shown."""
        return hashlib.sha256(self.secret.encode()).hexdigest()[:8]

    def wants(self, event_type: str, workspace: str | None, tags: Sequence[str]) -> bool:
        """Whether an event of the tenant's run is to be delivered.

        If the subscription has tags, the run must have at least one of them.
        """
        return (
            (self.workspace is None or self.workspace == workspace)
            and (not self.tags or not set(self.tags).isdisjoint(tags))
            and (self.include_content or is_content_free(event_type))
            and any(_covers(pattern, event_type) for pattern in self.events)
        )

    def __repr__(self) -> str:
        return f"Subscription({self.webhook_id!r}, {self.tenant!r}, {self.fingerprint!r})"


class Subscriptions:
    """The subscriptions of all tenants, looked up by tenant."""

    def __init__(self, records: Records, egress: Egress, clock: Clock) -> None:
        self._records = records
        self._egress = egress
        self._clock = clock
        self._remembered: dict[str, tuple[float, tuple[Subscription, ...]]] = {}

    async def create(
        self, tenant: str, workspace: str | None, wanted: SubscriptionRequest
    ) -> Subscription:
        """Create a subscription; raises `InvalidDocument`, or `EgressRefused` for its URL."""
        problems = _problems(wanted)
        if len(self._load(tenant)) >= MAX_PER_TENANT:
            problems.append(
                Problem(
                    "$", f"the tenant already has {MAX_PER_TENANT} webhooks", "delete one first"
                )
            )
        if problems:
            raise InvalidDocument("webhook", problems)
        await self._egress.check_destination(wanted.url, https_only=True)
        subscription = Subscription(
            webhook_id=f"wh_{secrets.token_hex(16)}",
            tenant=tenant,
            workspace=workspace,
            url=wanted.url,
            events=tuple(wanted.events),
            tags=tuple(wanted.tags),
            include_content=wanted.include_content,
            secret=wanted.secret or secrets.token_hex(SECRET_BYTES),
            created_us=self._clock.now_us(),
        )
        await self._write(tenant, subscription.webhook_id, msgspec.json.encode(subscription))
        return subscription

    async def delete(self, tenant: str, workspace: str | None, webhook_id: str) -> bool:
        """Delete a subscription; False if the tenant, or the workspace, does not have it."""
        found = self.find(tenant, webhook_id)
        if found is None or workspace not in {None, found.workspace}:
            return False
        await self._write(tenant, webhook_id, None)
        return True

    def find(self, tenant: str, webhook_id: str) -> Subscription | None:
        """A subscription of a tenant, read from the store."""
        body = self._records.get(KIND, tenant, webhook_id)
        return _decode(body, tenant) if body is not None else None

    def of_tenant(self, tenant: str) -> tuple[Subscription, ...]:
        """The subscriptions of a tenant, cached briefly because every event asks for them."""
        now = self._clock.monotonic_s()
        loaded_at, found = self._remembered.get(tenant, (None, ()))
        if loaded_at is None or now - loaded_at >= REMEMBERED_S:
            found = self._load(tenant)
            self._remembered[tenant] = now, found
        return found

    def _load(self, tenant: str) -> tuple[Subscription, ...]:
        return tuple(
            _decode(record.body, tenant)
            for record in self._records.list(KIND, tenant, limit=MAX_PER_TENANT)
        )

    async def _write(self, tenant: str, webhook_id: str, body: bytes | None) -> None:
        change = RecordChange(KIND, tenant, webhook_id, body)
        try:
            await asyncio.wrap_future(self._records.write([change]))
        finally:
            self._remembered.pop(tenant, None)


def _decode(body: bytes, tenant: str) -> Subscription:
    subscription = msgspec.json.decode(body, type=Subscription)
    assert subscription.tenant == tenant, "a subscription is stored under its own tenant"
    return subscription


def _covers(pattern: str, event_type: str) -> bool:
    if pattern.endswith("*"):
        return event_type.startswith(pattern.removesuffix("*"))
    return pattern == event_type


def _problems(wanted: SubscriptionRequest) -> list[Problem]:
    problems = []
    if not 1 <= len(wanted.events) <= MAX_EVENTS:
        problems.append(Problem("$.events", f"must name 1 to {MAX_EVENTS} event types"))
    for index, pattern in enumerate(wanted.events):
        problems += _pattern_problems(f"$.events[{index}]", pattern, wanted)
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
    return problems


def _pattern_problems(path: str, pattern: str, wanted: SubscriptionRequest) -> list[Problem]:
    if len(pattern) > _MAX_PATTERN_LENGTH or not _PATTERN.fullmatch(pattern):
        return [Problem(path, "must be an event type", "for example run.completed, eval.* or *")]
    if not wanted.include_content and not has_content_free(pattern):
        message = f"{pattern} can hold content, which is not delivered by default"
        return [Problem(path, message, "set includeContent to true to receive it")]
    return []

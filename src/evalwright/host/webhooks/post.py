"""Posting: the body, signature and headers of a delivery, and one attempt to hand it over."""

import hashlib
import hmac
import io
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from evalwright import __version__
from evalwright.contracts.events import Event
from evalwright.engine.clock import Clock
from evalwright.host.access.egress import Egress, EgressRefused
from evalwright.host.webhooks.content import without_content
from evalwright.host.webhooks.subscriptions import Subscription

if TYPE_CHECKING:
    import aiohttp

TIMEOUT_S = 5.0

# The protocol is changing the prefix of its headers: receivers may read either.
HEADER_FAMILIES = ("X-openwop-", "OpenWOP-")
ALGORITHM = "v1"


DeliveryOutcome = Literal["delivered", "failed", "refused", "parked"]


class Attempt(NamedTuple):
    """Which attempt to deliver an event this is, and whether an earlier one may have arrived."""

    delivery_id: str
    number: int
    is_repeat: bool


class AttemptResult(NamedTuple):
    """What became of an attempt; `status` is that of the response, if there was one."""

    outcome: Literal["delivered", "failed", "refused"]
    reason: str
    seconds: float
    status: int | None = None

    @property
    def is_delivered(self) -> bool:
        """Whether the receiver has taken the event."""
        return self.outcome == "delivered"


class DeliveryReport(NamedTuple):
    """The outcome of one delivery, for metrics and logs; it holds no secret and no content."""

    outcome: DeliveryOutcome
    reason: str
    tenant: str
    webhook_id: str
    run_id: str
    event_type: str
    seconds: float | None = None  # None: not attempted


class _DeliveryBody(msgspec.Struct, frozen=True, rename="camel"):
    run_id: str
    workspace_id: str
    type: str  # repeated from the event: some receivers look for it here
    event: msgspec.Raw


class Poster:
    """Posts events to subscriptions, one attempt at a time."""

    def __init__(self, egress: Egress, clock: Clock, timeout_s: float = TIMEOUT_S) -> None:
        self._egress = egress
        self._clock = clock
        self._timeout_s = timeout_s
        self._session: aiohttp.ClientSession | None = None

    async def post(
        self, subscription: Subscription, event: Event, workspace: str | None, attempt: Attempt
    ) -> AttemptResult:
        """Attempt to deliver an event; never raises for what the receiver does."""
        import aiohttp

        body = delivery_body(subscription, event, workspace)
        timestamp = self._clock.now_us() // 1_000_000
        headers = delivery_headers(subscription, event.type, timestamp, body, attempt)
        began_s = self._clock.monotonic_s()

        def result(
            outcome: Literal["delivered", "failed", "refused"],
            reason: str,
            status: int | None = None,
        ) -> AttemptResult:
            return AttemptResult(outcome, reason, self._clock.monotonic_s() - began_s, status)

        if self._session is None:  # connections are not reused: a new one looks the name up again
            self._session = self._egress.session(
                https_only=True, timeout_s=self._timeout_s, keep_alive=False
            )
        try:
            async with self._session.post(
                subscription.url, data=io.BytesIO(body), headers=headers, allow_redirects=False
            ) as response:
                is_taken = 200 <= response.status < 300
                reason = f"status_{response.status}"
                return result("delivered" if is_taken else "failed", reason, response.status)
        except EgressRefused as refusal:
            return result("refused", refusal.reason)
        except TimeoutError:
            return result("failed", "timeout")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return result("failed", type(error).__name__)

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()


def delivery_id(webhook_id: str, run_id: str, sequence: int) -> str:
    """The id of a delivery: the same for every attempt, and of no other delivery."""
    named = f"{webhook_id}\0{run_id}\0{sequence}".encode()
    return f"dlv_{hashlib.sha256(named).hexdigest()[:32]}"


def delivery_body(subscription: Subscription, event: Event, workspace: str | None) -> bytes:
    """What is posted: the event, and whose it is; the same bytes at every attempt."""
    shown = event if subscription.include_content else without_content(event)
    assert shown is not None, "only events that a subscription may receive are delivered"
    return msgspec.json.encode(
        _DeliveryBody(
            run_id=shown.run_id,
            workspace_id=workspace or subscription.tenant,
            type=shown.type,
            event=msgspec.Raw(shown.to_json()),
        )
    )


def sign(secret: str, timestamp: int, body: bytes) -> str:
    """The signature of a body sent at a timestamp, in seconds since the epoch."""
    signed = f"{timestamp}.".encode() + body
    return f"sha256={hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()}"


def delivery_headers(
    subscription: Subscription, event_type: str, timestamp: int, body: bytes, attempt: Attempt
) -> dict[str, str]:
    """All headers of a delivery; the protocol has no names for the last three."""
    assert subscription.secret is not None, "what cannot be signed is not delivered"
    values = {
        "Webhook-Id": subscription.webhook_id,
        "Event-Type": event_type,
        "Timestamp": str(timestamp),
        "Signature": sign(subscription.secret, timestamp, body),
        "Signature-Algorithm": ALGORITHM,
    }
    return {
        "Content-Type": "application/json",
        "User-Agent": f"openwop-webhook-dispatcher/{__version__}",
        **{family + name: value for family in HEADER_FAMILIES for name, value in values.items()},
        "Evalwright-Delivery-Id": attempt.delivery_id,
        "Evalwright-Delivery-Attempt": str(attempt.number),
        "Evalwright-Redelivery": "true" if attempt.is_repeat else "false",
    }

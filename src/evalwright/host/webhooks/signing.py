"""The headers of a delivery, with the signature that proves where it comes from."""

import hashlib
import hmac

from evalwright import __version__
from evalwright.host.webhooks.subscriptions import Subscription

# The protocol is between two families of names: receivers may read either.
HEADER_FAMILIES = ("X-openwop-", "OpenWOP-")
ALGORITHM = "v1"


def sign(secret: str, timestamp: int, body: bytes) -> str:
    """The signature of a body as it was sent at a time, in seconds since the epoch."""
    signed = f"{timestamp}.".encode() + body
    return f"sha256={hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()}"


def delivery_headers(
    subscription: Subscription, event_type: str, timestamp: int, body: bytes
) -> dict[str, str]:
    """All headers of a delivery."""
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
    }

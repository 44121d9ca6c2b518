"""Calls about webhooks: who is told of which events."""

from collections.abc import Sequence

from evalwright.client.answers import CreatedWebhook, Webhook, Webhooks
from evalwright.client.exchange import Flow, delete, get, post, quoted


def create_webhook(
    url: str, events: Sequence[str], *, tags: Sequence[str] = ()
) -> Flow[CreatedWebhook]:
    """Have events sent to an address; the secret that signs them is told this once."""
    body = {"url": url, "events": list(events), "tags": list(tags) or None}
    answer = yield post("/v1/webhooks", body)
    return answer.read(CreatedWebhook)


def webhooks() -> Flow[list[Webhook]]:
    """The webhooks of the tenant."""
    answer = yield get("/v1/webhooks")
    return answer.read(Webhooks).webhooks


def delete_webhook(webhook_id: str) -> Flow[None]:
    """End a webhook."""
    yield delete(f"/v1/webhooks/{quoted(webhook_id)}")

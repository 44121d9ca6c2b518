"""Webhooks: registered, listed without their secrets, and removed."""

from typing import Any

from starlette.responses import Response

from evalwright.contracts.events import iso_time
from evalwright.host.egress import MAX_URL_LENGTH, EgressRefused
from evalwright.host.errors import ApiError
from evalwright.host.routing import ApiCall, ApiOperation, ResponseDoc, Route, json_response
from evalwright.host.telemetry import audit
from evalwright.host.v1.admission import check_tenant
from evalwright.host.v1.schemas import (
    FLAG,
    ID,
    IDEMPOTENCY_KEY,
    TEXT,
    TIME,
    Schema,
    closed,
    listed,
    opened,
    query,
    refusals,
)
from evalwright.host.webhooks.subscriptions import (
    MAX_EVENTS,
    MAX_TAG_LENGTH,
    MAX_TAGS,
    SECRET_LENGTHS,
    Subscription,
    SubscriptionRequest,
)

TAG = "webhooks"

_EVENT: Schema = {"type": "string", "minLength": 1, "maxLength": 128}
_TAG: Schema = {"type": "string", "maxLength": MAX_TAG_LENGTH}
_SECRET: Schema = {
    "type": "string",
    "minLength": SECRET_LENGTHS[0],
    "maxLength": SECRET_LENGTHS[-1],
}
BODY: Schema = closed(
    {
        "url": {"type": "string", "minLength": 1, "maxLength": MAX_URL_LENGTH},
        "events": listed(_EVENT, minItems=1, maxItems=MAX_EVENTS),
        "tenantId": TEXT,
        "secret": _SECRET,
        "tags": listed(_TAG, maxItems=MAX_TAGS),
        "includeContent": FLAG,
    },
    ("url", "events"),
)
_SHOWN = {
    "webhookId": ID,
    "subscriptionId": ID,
    "url": TEXT,
    "events": listed(TEXT),
    "eventTypes": listed(TEXT),
    "tags": listed(TEXT),
    "includeContent": FLAG,
    "secretFingerprint": TEXT,
    "createdAt": TIME,
}
WEBHOOK: Schema = closed(_SHOWN, tuple(_SHOWN))
REGISTERED: Schema = opened({**_SHOWN, "secret": TEXT}, (*_SHOWN, "secret"))


async def register(call: ApiCall) -> Response:
    """Register a webhook; only this response contains its secret."""
    body = call.body
    check_tenant(call, body.get("tenantId"))
    wanted = SubscriptionRequest(
        body["url"],
        body["events"],
        body.get("tags", ()),
        body.get("secret"),
        body.get("includeContent", False),
    )
    principal = call.principal
    try:
        made = await call.host.subscriptions.create(principal.tenant, principal.workspace, wanted)
    except EgressRefused as refusal:
        message, details = f"$.url: {refusal}", {"reason": refusal.reason}
        raise ApiError(400, "webhook_url_rejected", message, details) from None
    _audit(call, "webhooks.register", made.webhook_id)
    return json_response({**_shown(made), "secret": made.secret}, 201)


async def list_webhooks(call: ApiCall) -> Response:
    """The webhooks of the caller's tenant, or of the key's workspace if it has one."""
    workspace = call.principal.workspace
    found = [
        _shown(each)
        for each in call.host.subscriptions.of_tenant(call.principal.tenant)
        if workspace in (None, each.workspace)
    ]
    return json_response({"webhooks": found})


async def unregister(call: ApiCall) -> Response:
    """Remove a webhook."""
    check_tenant(call, call.query.get("tenantId"))
    principal, webhook_id = call.principal, call.path["webhookId"]
    is_gone = await call.host.subscriptions.delete(
        principal.tenant, principal.workspace, webhook_id
    )
    if not is_gone:
        raise ApiError(404, "subscription_not_found", "no such webhook")
    _audit(call, "webhooks.unregister", webhook_id)
    return Response(status_code=204)


def _shown(subscription: Subscription) -> dict[str, Any]:
    """A webhook, with both field names that versions of the protocol use for id and events."""
    return {
        "webhookId": subscription.webhook_id,
        "subscriptionId": subscription.webhook_id,
        "url": subscription.url,
        "events": subscription.events,
        "eventTypes": subscription.events,
        "tags": subscription.tags,
        "includeContent": subscription.include_content,
        "secretFingerprint": subscription.fingerprint,
        "createdAt": iso_time(subscription.created_us),
    }


def _audit(call: ApiCall, action: str, webhook_id: str) -> None:
    audit(
        action,
        "done",
        tenant=call.principal.tenant,
        key_id=call.principal.key_id,
        scope="webhooks:manage",
        resource=webhook_id,
        correlation_id=call.correlation_id,
    )


ROUTES = [
    Route(
        "POST",
        "/v1/webhooks",
        register,
        ApiOperation(
            id="registerWebhook",
            summary="Deliver events to a URL.",
            tag=TAG,
            parameters=(IDEMPOTENCY_KEY,),
            body=BODY,
            answers={
                201: ResponseDoc(
                    "The webhook, with its secret, which is shown only here.", REGISTERED
                ),
                **refusals(409, with_body=True),
            },
        ),
        ("webhooks:manage",),
    ),
    Route(
        "GET",
        "/v1/webhooks",
        list_webhooks,
        ApiOperation(
            id="listWebhooks",
            summary="The webhooks of the tenant.",
            tag=TAG,
            answers={
                200: ResponseDoc(
                    "Webhooks, without their secrets.",
                    closed({"webhooks": listed(WEBHOOK)}, ("webhooks",)),
                ),
                **refusals(),
            },
        ),
        ("webhooks:manage",),
    ),
    Route(
        "DELETE",
        "/v1/webhooks/{webhookId}",
        unregister,
        ApiOperation(
            id="unregisterWebhook",
            summary="Remove a webhook.",
            tag=TAG,
            parameters=(
                {"in": "path", "name": "webhookId", "required": True, "schema": ID},
                query("tenantId", TEXT, "If given, must be the key's own tenant."),
                IDEMPOTENCY_KEY,
            ),
            answers={204: ResponseDoc("The webhook is removed."), **refusals(400, 404, 409)},
        ),
        ("webhooks:manage",),
    ),
]

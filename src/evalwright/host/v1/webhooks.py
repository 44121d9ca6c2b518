"""Webhooks: registered, listed without their secrets, and removed; their dead letters."""

import re
from typing import Any

from starlette.responses import Response

from evalwright.contracts.times import iso_time
from evalwright.host.access.egress import MAX_URL_LENGTH, EgressRefused
from evalwright.host.access.quotas import BYTES, FREE
from evalwright.host.http.errors import ApiError
from evalwright.host.http.routing import ApiCall, ResponseDoc, json_response
from evalwright.host.v1.create import check_tenant
from evalwright.host.v1.schemas import (
    FLAG,
    ID,
    TEXT,
    TIME,
    WHOLE,
    Routes,
    Schema,
    closed,
    listed,
    opened,
    query,
)
from evalwright.host.webhooks.dead_letters import MOST_KEPT, letter_key
from evalwright.host.webhooks.outbox import Lane, LaneState
from evalwright.host.webhooks.subscriptions import (
    MAX_EVENTS,
    MAX_TAG_LENGTH,
    MAX_TAGS,
    SECRET_LENGTHS,
    Subscription,
    SubscriptionRequest,
)

ROUTES = Routes("webhooks")
SCOPE = "webhooks:manage"
DEFAULT_PAGE = 100

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
    "state": {"enum": ["active", "failed", "dead-lettered"]},
    "deadLetters": WHOLE,
}
WEBHOOK: Schema = closed(_SHOWN, tuple(_SHOWN))
_DEAD_LETTER = {
    "deliveryId": ID,
    "webhookId": ID,
    "runId": ID,
    "eventId": TEXT,
    "sequence": WHOLE,
    "eventType": TEXT,
    "attempts": WHOLE,
    "deadLetteredAt": TIME,
    "reason": {"enum": ["retries_exhausted"]},
    "lastReason": TEXT,
}
DEAD_LETTER: Schema = closed({**_DEAD_LETTER, "lastStatus": WHOLE}, tuple(_DEAD_LETTER))
REGISTERED: Schema = opened({**_SHOWN, "secret": TEXT}, (*_SHOWN, "secret"))


@ROUTES.add(
    "POST",
    "/v1/webhooks",
    "registerWebhook",
    SCOPE,
    body=BODY,
    answers={
        201: ResponseDoc("The webhook, with its secret, which is shown only here.", REGISTERED)
    },
    refuses=(409,),
    stores=BYTES,
)
async def register(call: ApiCall) -> Response:
    """Deliver events to a URL."""
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
        made = await call.host.webhooks.subscribe(principal.tenant, principal.workspace, wanted)
    except EgressRefused as refusal:
        message, details = f"$.url: {refusal}", {"reason": refusal.reason}
        raise ApiError(400, "webhook_url_rejected", message, details) from None
    call.audit("webhooks.register", SCOPE, made.webhook_id)
    shown = {**_shown(made), "secret": made.secret}
    return json_response(shown, 201, {"Cache-Control": "no-store"})


@ROUTES.add(
    "GET",
    "/v1/webhooks",
    "listWebhooks",
    SCOPE,
    answers={
        200: ResponseDoc(
            "Webhooks, without their secrets.",
            closed({"webhooks": listed(WEBHOOK)}, ("webhooks",)),
        )
    },
)
async def list_webhooks(call: ApiCall) -> Response:
    """The webhooks of the tenant."""
    workspace, tenant = call.principal.workspace, call.principal.tenant
    states = await call.host.webhooks.states(tenant)
    found = [
        _shown(each, *states.get(each.webhook_id, ("active", 0)))
        for each in await call.read_soon(lambda: call.host.subscriptions.of_tenant(tenant))
        if workspace in (None, each.workspace)
    ]
    return json_response({"webhooks": found})


@ROUTES.add(
    "DELETE",
    "/v1/webhooks/{webhookId}",
    "unregisterWebhook",
    SCOPE,
    parameters=(query("tenantId", TEXT, "If given, must be the key's own tenant."),),
    answers={204: ResponseDoc("The webhook is removed.")},
    refuses=(
        400,
        404,
        409,
    ),
    stores=FREE,
)
async def unregister(call: ApiCall) -> Response:
    """Remove a webhook."""
    check_tenant(call, call.query.get("tenantId"))
    principal, webhook_id = call.principal, call.path["webhookId"]
    is_gone = await call.host.webhooks.unsubscribe(
        principal.tenant, principal.workspace, webhook_id
    )
    if not is_gone:
        raise _not_found()
    call.audit("webhooks.unregister", SCOPE, webhook_id)
    return Response(status_code=204)


@ROUTES.add(
    "GET",
    "/v1/webhooks/{webhookId}/dead-letters",
    "listDeadLetters",
    SCOPE,
    parameters=(
        query("limit", {"type": "integer", "minimum": 1, "maximum": MOST_KEPT}, "How many."),
        query("cursor", TEXT, "The nextCursor of the page before."),
    ),
    answers={
        200: ResponseDoc(
            "Dead letters, run by run and in order; without what was to be delivered.",
            closed({"deliveries": listed(DEAD_LETTER), "nextCursor": TEXT}, ("deliveries",)),
        )
    },
    refuses=(
        400,
        404,
    ),
)
async def list_dead_letters(call: ApiCall) -> Response:
    """The deliveries of a webhook that were given up."""
    subscription, limit = _lane(call).subscription, call.query.get("limit", DEFAULT_PAGE)
    cursor = call.query.get("cursor")
    after = "" if cursor is None else _key_of(subscription.webhook_id, cursor)
    found = await call.host.webhooks.dead_letters(
        subscription.tenant, subscription.webhook_id, after, limit + 1
    )
    page: dict[str, Any] = {"deliveries": [letter.shown() for letter in found[:limit]]}
    if len(found) > limit:
        page["nextCursor"] = page["deliveries"][-1]["eventId"]
    return json_response(page)


@ROUTES.add(
    "POST",
    "/v1/webhooks/{webhookId}/dead-letters:resend",
    "resendDeadLetters",
    SCOPE,
    body=closed({"deliveryIds": listed(ID, minItems=1, maxItems=MOST_KEPT)}),
    needs_body=False,
    answers={
        202: ResponseDoc(
            "They are sent one after the other, until one fails.",
            closed({"resending": WHOLE}, ("resending",)),
        )
    },
    refuses=(
        404,
        409,
    ),
    stores=BYTES,
)
async def resend_dead_letters(call: ApiCall) -> Response:
    """Send dead letters again."""
    lane = _lane(call)
    count = await call.host.webhooks.resend(lane, (call.body or {}).get("deliveryIds"))
    call.audit("webhooks.resend", SCOPE, lane.subscription.webhook_id)
    return json_response({"resending": count}, 202)


@ROUTES.add(
    "DELETE",
    "/v1/webhooks/{webhookId}/dead-letters/{deliveryId}",
    "discardDeadLetter",
    SCOPE,
    answers={204: ResponseDoc("It is deleted.")},
    refuses=(
        400,
        404,
        409,
    ),
    stores=FREE,
)
async def discard_dead_letter(call: ApiCall) -> Response:
    """Delete a dead letter."""
    lane = _lane(call)
    if not await call.host.webhooks.discard(lane, call.path["deliveryId"]):
        raise ApiError(404, "not_found", "no such dead letter")
    call.audit("webhooks.discard", SCOPE, lane.subscription.webhook_id)
    return Response(status_code=204)


def _lane(call: ApiCall) -> Lane:
    """The lane of the webhook that the path names; raises 404 if it is not the caller's."""
    principal = call.principal
    lane = call.host.webhooks.lane(principal.tenant, call.path["webhookId"])
    if lane is None or principal.workspace not in {None, lane.subscription.workspace}:
        raise _not_found()
    return lane


def _key_of(webhook_id: str, cursor: str) -> str:
    found = re.fullmatch(r"([^/:]{1,128}):(\d{1,12})", cursor, re.ASCII)
    if found is None:
        raise ApiError(400, "validation_error", "cursor: not one that this host gave")
    return letter_key(webhook_id, found[1], int(found[2]))


def _not_found() -> ApiError:
    return ApiError(404, "subscription_not_found", "no such webhook")


def _shown(
    subscription: Subscription, state: LaneState = "active", parked: int = 0
) -> dict[str, Any]:
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
        "state": state,
        "deadLetters": parked,
    }

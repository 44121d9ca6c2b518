"""What a request for a run must not ask for, and the rule of one active run per scope."""

from typing import Any

import msgspec

from evalwright.contracts.errors import Problem, RunNotFound
from evalwright.host.access.idempotency import in_flight
from evalwright.host.http.errors import ApiError, invalid, try_again
from evalwright.host.http.routing import ApiCall
from evalwright.host.runs.handle import ENDED
from evalwright.store.records import ANY, RecordChange

MOST_METADATA_BYTES = 8192
MOST_METADATA_DEPTH = 4
RETRY_SECONDS = 5
SCOPE_KIND = "scope"

# They would change what is evaluated; recording them without effect would be wrong.
_NOT_HONOURED = ("model", "temperature", "maxTokens", "promptOverrides")


def check_request(call: ApiCall) -> None:
    """Refuse what this host does not support, before anything else is checked."""
    body: dict[str, Any] = call.body
    check_tenant(call, body.get("tenantId"))
    if "x-force-engine-version" in call.request.headers and not call.principal.is_test:
        message = "only a test key may set X-Force-Engine-Version"
        raise ApiError(403, "force_engine_version_forbidden", message)
    if "callbackUrl" in body:
        message = "callbacks for single runs are not supported; register a webhook"
        raise invalid([Problem("$.callbackUrl", message)])
    check_metadata(body.get("metadata"))
    check_configurable(call, body.get("configurable") or {})


def check_tenant(call: ApiCall, given: str | None) -> None:
    """Refuse a tenant other than the key's own."""
    if given not in (None, call.principal.tenant):
        message = "the key does not belong to this tenant"
        raise ApiError(403, "tenant_membership_required", message)


def check_configurable(call: ApiCall, configurable: dict[str, Any]) -> None:
    """Refuse options that would change the agent, which is evaluated as registered."""
    if "mockProvider" in configurable:
        if not call.principal.is_test:
            raise ApiError(403, "mock_provider_forbidden", "only a test key may use mockProvider")
        raise ApiError(400, "unsupported_mock_provider", "this host does not support mockProvider")
    refused = [name for name in configurable if name in _NOT_HONOURED or name.startswith("ai.")]
    if refused:
        message = "not supported: an agent is evaluated as registered; register another version"
        raise invalid([Problem(f"$.configurable.{name}", message) for name in refused])
    if "agentVersion" in configurable and "agentChannel" in configurable:
        message = "give agentVersion or agentChannel, not both"
        raise invalid([Problem("$.configurable", message)])


def check_metadata(metadata: Any) -> None:
    """Refuse metadata that is too long or nested too deeply."""
    if metadata is None:
        return
    if len(msgspec.json.encode(metadata)) > MOST_METADATA_BYTES:
        message = f"longer than {MOST_METADATA_BYTES} bytes"
        raise invalid([Problem("$.metadata", message)])
    if _depth(metadata) > MOST_METADATA_DEPTH:
        message = f"nested more than {MOST_METADATA_DEPTH} levels deep"
        raise invalid([Problem("$.metadata", message)])


def _depth(value: Any) -> int:
    if not isinstance(value, dict | list):
        return 0
    members = value.values() if isinstance(value, dict) else value
    return 1 + max(map(_depth, members), default=0)


class ScopeClaim:
    """The scope of a new run, if its request names one; with `X-Dedup`, only if it is free."""

    def __init__(self, call: ApiCall) -> None:
        self._scope: str | None = call.body.get("scopeId")
        self._partition = call.principal.partition
        enforced = call.request.headers.get("x-dedup")
        if enforced not in (None, "enforce"):
            raise invalid([Problem("X-Dedup", "must be `enforce`")])
        if enforced and self._scope is None:
            message = "required with `X-Dedup`"
            raise invalid([Problem("$.scopeId", message)])
        self._call = call
        self._is_enforced = bool(enforced)
        self._before: bytes | None = None

    async def refuse_active(self) -> None:
        """Raise `ApiError` 409 while another run of the scope is active."""
        if self._is_enforced:
            self._before = await self._call.read_soon(self._holder)
        if self._before is not None:
            await _refuse_active(self._call, self._before.decode())

    def _holder(self) -> bytes | None:
        assert self._scope is not None
        return self._call.host.records.get(SCOPE_KIND, self._partition, self._scope)

    def changes(self, run_id: str) -> list[RecordChange]:
        """The changes to write with the creation of the run."""
        if self._scope is None:
            return []
        taken = run_id.encode()
        expected = self._before if self._is_enforced else ANY
        return [RecordChange(SCOPE_KIND, self._partition, self._scope, taken, expected)]

    async def lost(self) -> ApiError:
        """The error if the run could not be created because another request was first."""
        holder = await self._call.read_soon(self._holder) if self._is_enforced else None
        return in_flight() if holder in (None, self._before) else already_active(holder.decode())


async def _refuse_active(call: ApiCall, run_id: str) -> None:
    try:
        status = await call.host.runs.status(call.run_with(run_id))
    except RunNotFound:
        return
    if status in ENDED:
        return
    raise already_active(run_id)


def already_active(run_id: str) -> ApiError:
    """The error for a second active run of a scope."""
    details = {"activeRunId": run_id, "activeHost": "cloud"}
    message = "a run of this scope is active"
    return try_again(409, "run_already_active", message, RETRY_SECONDS, details)

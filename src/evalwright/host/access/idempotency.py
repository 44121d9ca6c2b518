"""Idempotency keys: a request that is sent again gets the same response and is done only once.

A record is written before the request is handled. If the request creates a run, the record is
completed in the same transaction, so a crash leaves both or neither. The response to a failure
(5xx) or to a refusal that the client can correct is not kept: the request may be sent again. Only
hashes of keys are stored. The response to a request that made a secret is sealed.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Literal

import msgspec
from starlette.responses import Response

from evalwright.host.access.keys import Principal
from evalwright.host.access.vault import Vault, WrongKey
from evalwright.host.async_store import forget_old, read_soon
from evalwright.host.http.errors import ApiError, try_again
from evalwright.store.records import RecordChange, RecordConflict, Records

KIND = "idempotency"
KEPT_SECONDS = 25 * 3600  # a day, and an hour for clock differences
LEASE_SECONDS = 60  # after which a request without a response is considered dead
WAIT_SECONDS = 10  # that a duplicate waits for the first request
SETTLE_SECONDS = 1  # that a response waits until it is kept
RETRY_SECONDS = 1  # after which a client may retry
MAX_KEY = 255
REPLAY_HEADER = "openwop-Idempotent-Replay"

_NEVER_KEPT = frozenset({400, 401, 403, 408, 413, 415, 429})
_KEPT_HEADERS = ("content-type", "location", "cache-control")
_NOT_TO_BE_STORED = "no-store"  # the Cache-Control of a response that holds a secret
_LOOK_AGAIN_SECONDS = 0.05


class _IdempotencyRecord(msgspec.Struct, omit_defaults=True):
    digest: str
    state: Literal["pending", "completed"]
    lease_until: float = 0.0
    status: int = 0
    body: bytes = b""
    headers: dict[str, str] = {}
    sealed: str = ""  # instead of the body


class Ticket:
    """The right to handle the request of a key; it ends with a response, or is given back."""

    def __init__(
        self, records: Records, vault: Vault, place: tuple[str, str], pending: bytes, digest: str
    ) -> None:
        self._records = records
        self._vault = vault
        self._place = place
        self._pending = pending
        self._digest = digest
        self._kept: Response | None = None  # written together with what the request does

    def completion(self, response: Response) -> RecordChange:
        """The change that keeps a response; it goes into the transaction that it reports."""
        self._kept = response
        headers = {
            name: response.headers[name] for name in _KEPT_HEADERS if name in response.headers
        }
        entry = _IdempotencyRecord(
            self._digest,
            "completed",
            status=response.status_code,
            body=bytes(response.body),
            headers=headers,
        )
        if headers.get("cache-control") == _NOT_TO_BE_STORED:
            entry = _sealed(entry, self._vault, self._place)
        return RecordChange(KIND, *self._place, msgspec.json.encode(entry), self._pending)

    async def finish(self, response: Response) -> None:
        """Keep the response of the request, or allow it to be sent again."""
        if response is self._kept:
            return
        if response.status_code >= 500 or response.status_code in _NEVER_KEPT:
            await self.give_back()
            return
        await self._settle(self.completion(response))

    async def give_back(self) -> None:
        change = RecordChange(KIND, *self._place, None, self._pending)
        await self._settle(change)

    async def _settle(self, change: RecordChange) -> None:
        """Write what became of the request, for duplicates; the client does not wait for long."""
        written = self._records.write([change], is_request=False)
        with suppress(RecordConflict, TimeoutError):  # the lease expired: a duplicate takes over
            async with asyncio.timeout(SETTLE_SECONDS):
                await asyncio.shield(asyncio.wrap_future(written))


class Idempotency:
    """The responses to requests with a key."""

    def __init__(
        self, records: Records, vault: Vault, now: Callable[[], float] = time.time
    ) -> None:
        self._records = records
        self._vault = vault
        self._now = now

    async def enter(
        self, principal: Principal, endpoint: str, key: str, raw: bytes
    ) -> Ticket | Response:
        """A ticket for the first request with a key; for duplicates, the first response."""
        if not 0 < len(key) <= MAX_KEY:
            message = f"the Idempotency-Key must have 1 to {MAX_KEY} characters"
            raise ApiError(400, "validation_error", message)
        digest = hashlib.sha256(raw).hexdigest()
        hidden = hashlib.sha256(f"{principal.partition}\0{endpoint}\0{key}".encode()).hexdigest()
        place = (principal.tenant, hidden)
        deadline = self._now() + WAIT_SECONDS
        while True:
            found = await read_soon(
                self._records, principal.tenant, lambda: self._records.get(KIND, *place)
            )
            entry = msgspec.json.decode(found, type=_IdempotencyRecord) if found else None
            is_same, now = entry is not None and entry.digest == digest, self._now()
            is_pending = entry is not None and entry.state == "pending"
            if entry is None or (is_same and is_pending and entry.lease_until < now):
                new = _IdempotencyRecord(digest, "pending", lease_until=now + LEASE_SECONDS)
                pending = msgspec.json.encode(new)
                with suppress(RecordConflict):  # a duplicate came first: read what it left
                    change = RecordChange(KIND, *place, pending, found)
                    await asyncio.wrap_future(self._records.write([change]))
                    return Ticket(self._records, self._vault, place, pending, digest)
                continue
            if not is_same:
                message = "this Idempotency-Key was used for a different request; use a new one"
                raise ApiError(409, "idempotency_key_mismatch", message)
            if not is_pending:
                body = entry.body
                if entry.sealed:
                    try:
                        body = self._vault.open(entry.sealed, _purpose(place))
                    except WrongKey:
                        message = "the response held a secret and cannot be shown again"
                        raise ApiError(409, "conflict", message) from None
                return Response(body, entry.status, {**entry.headers, REPLAY_HEADER: "true"})
            if now > deadline:
                raise in_flight()
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)

    async def forget_old(self) -> None:
        before_us = int((self._now() - KEPT_SECONDS) * 1_000_000)
        await forget_old(self._records, KIND, before_us)

    def seal_secrets(self) -> list[RecordChange]:
        """What replaces responses that hold a secret in clear text by sealed ones."""
        changes = []
        for tenant, record in self._records.of_all_tenants(KIND):
            entry = msgspec.json.decode(record.body, type=_IdempotencyRecord)
            if b'"secretFingerprint":' in entry.body and b'"secret":' in entry.body:
                place = tenant, record.key
                body = msgspec.json.encode(_sealed(entry, self._vault, place))
                changes.append(RecordChange(KIND, *place, body))
        return changes


def _sealed(entry: _IdempotencyRecord, vault: Vault, place: tuple[str, str]) -> _IdempotencyRecord:
    sealed = vault.seal(entry.body, _purpose(place))
    return msgspec.structs.replace(entry, body=b"", sealed=sealed)


def _purpose(place: tuple[str, str]) -> str:
    return f"response {place[0]}/{place[1]}"


def in_flight() -> ApiError:
    """The error while the first request with a key is still in progress."""
    message = "the first request with this Idempotency-Key is still in progress"
    return try_again(409, "idempotency_in_flight", message, RETRY_SECONDS)

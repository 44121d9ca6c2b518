"""API keys, what they allow, and who holds them.

A key is created and shown once, stored as a hash, and authenticates requests.
"""

import hashlib
import hmac
import re
import secrets
import string
from collections.abc import Iterable
from datetime import datetime

import msgspec

from evalwright.contracts.errors import BadInput
from evalwright.host.http.errors import ApiError
from evalwright.store.records import RecordChange, RecordConflict, Records, every_record

PREFIX = "ew_"
TEST_PREFIX = "ew_test_"
NAME = "[a-z0-9._-]{1,64}"  # the pattern of the name of a tenant or workspace

KIND, _TENANT = "key", ""  # keys belong to the host: they decide the tenant of a request
_ID_ALPHABET, _ID_LENGTH = "abcdefghijklmnopqrstuvwxyz234567", 16
_SECRET_ALPHABET, _SECRET_LENGTH = string.digits + string.ascii_letters, 43  # 256 bits
_ID = f"[{_ID_ALPHABET}]{{{_ID_LENGTH}}}"
_BEARER = re.compile(
    rf"[Bb][Ee][Aa][Rr][Ee][Rr] +(?P<prefix>{TEST_PREFIX}|{PREFIX})(?P<id>{_ID})_"
    rf"(?P<secret>[0-9A-Za-z]{{{_SECRET_LENGTH}}}) *"
)
_NAME = re.compile(NAME)
_NO_HASH = "0" * 64  # the hash of no known secret


SCOPES = {
    "agents:read": "list agents and read their descriptions",
    "agents:write": "register agents",
    "approvals:respond": "approve or reject promotions",
    "artifacts:read": "download the artifacts of runs",
    "audit:read": "read the audit log",
    "deploy:pause": "pause or deprecate a deployment",
    "deploy:promote": "promote an agent's version, or change its share of the traffic",
    "deploy:rollback": "roll a deployment back",
    "manifest:read": "read the capabilities for the holder of the key",
    "packs:publish": "install packs",
    "packs:yank": "withdraw packs",
    "packs:yank-revert": "restore withdrawn packs",
    "prompts:read": "read the results of prompts",
    "prompts:write": "push results of prompts, and remove prompts",
    "runs:annotate": "annotate runs and override scores",
    "runs:cancel": "cancel, pause and resume runs",
    "runs:create": "start and fork runs",
    "runs:read": "read runs, their events, summaries and differences",
    "suites:read": "read suites",
    "suites:write": "publish and delete suites",
    "webhooks:manage": (
        "register, list and remove webhooks; list, resend and discard their dead letters"
    ),
    "workspace:read": "read the workspace",
    "workspace:write": "change the workspace: delete runs that have ended",
}


def expand_scopes(asked: Iterable[str]) -> frozenset[str]:
    """The requested scopes; `deploy:*` means every scope that starts with `deploy:`."""
    found = set[str]()
    for pattern in asked:
        family, separator, name = pattern.partition(":")
        prefix = f"{family}:" if separator and name == "*" else None
        fitting = [
            scope for scope in SCOPES if (scope.startswith(prefix) if prefix else scope == pattern)
        ]
        if not fitting:
            families = sorted({scope.partition(":")[0] for scope in SCOPES})
            raise BadInput(
                f"no such scope: {pattern!r}; scopes are {', '.join(SCOPES)}, "
                f"and {', '.join(f'{family}:*' for family in families)} for all of a kind"
            )
        found.update(fitting)
    return frozenset(found)


# The scopes of a key without explicit ones: none of them affects what other keys see of an agent.
DEFAULT_SCOPES = expand_scopes(
    ["runs:*", "suites:*", "agents:*", "prompts:*", "manifest:read", "artifacts:read"]
)


class Principal(msgspec.Struct, frozen=True):
    """The holder of a key; nothing in it comes from the body of a request.

    `principal` is an opaque id for events and responses.
    """

    key_id: str
    tenant: str
    workspace: str | None
    scopes: frozenset[str]
    principal: str
    is_test: bool = False

    @property
    def place(self) -> str:
        """The holder's workspace, or the tenant for a key without one."""
        return self.tenant if self.workspace is None else f"{self.tenant}/{self.workspace}"

    @property
    def partition(self) -> str:
        """The holder's partition of the log: workspaces and test keys have separate ones."""
        return f"{self.place}~test" if self.is_test else self.place

    def may(self, scope: str) -> bool:
        return scope in self.scopes


def place_of(partition: str) -> str:
    """The workspace or tenant that a partition of the log belongs to."""
    return partition.removesuffix("~test")


def tenant_of(partition: str) -> str:
    """The tenant that a partition of the log belongs to."""
    return place_of(partition).partition("/")[0]


class Key(msgspec.Struct, kw_only=True, rename="camel"):
    """The public part of a key: everything but its secret and the hash of it."""

    key_id: str
    tenant: str
    workspace: str | None
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    is_test: bool

    def state(self, now: datetime) -> str:
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "active"


class _KeptKey(Key, kw_only=True, rename="camel"):
    hash: str


def create_key(
    records: Records,
    now: datetime,
    tenant: str,
    *,
    workspace: str | None = None,
    scopes: Iterable[str] = DEFAULT_SCOPES,
    expires_at: datetime | None = None,
    is_test: bool = False,
) -> tuple[str, Key]:
    """Create a key; returns its text, which cannot be recovered, and its public part.

    Raises `BadInput` for invalid names or scopes, and for an expiry in the past.
    """
    check_name("tenant", tenant)
    if workspace is not None:
        check_name("workspace", workspace)
    if expires_at is not None and expires_at <= now:
        end = f"{expires_at:%Y-%m-%dT%H:%M:%SZ}"
        raise BadInput(f"the expiry {end} is in the past; choose a later one")
    secret = _random_text(_SECRET_ALPHABET, _SECRET_LENGTH)
    kept = _KeptKey(
        key_id=_random_text(_ID_ALPHABET, _ID_LENGTH),
        tenant=tenant,
        workspace=workspace,
        scopes=tuple(sorted(expand_scopes(scopes))),
        created_at=now,
        expires_at=expires_at,
        revoked_at=None,
        is_test=is_test,
        hash=_hash(secret),
    )
    body = msgspec.json.encode(kept)
    records.write([RecordChange(KIND, _TENANT, kept.key_id, body, expected=None)]).result()
    return f"{TEST_PREFIX if is_test else PREFIX}{kept.key_id}_{secret}", _tellable(kept)


def has_keys(records: Records) -> bool:
    """Whether any key exists."""
    return bool(records.list(KIND, _TENANT, limit=1))


def list_keys(records: Records, tenant: str | None = None) -> list[Key]:
    """The keys of a tenant, or all keys, oldest first."""
    kept = every_record(records, KIND, _TENANT)
    found = (msgspec.json.decode(record.body, type=Key) for record in kept)
    chosen = [key for key in found if tenant in (None, key.tenant)]
    return sorted(chosen, key=lambda key: (key.created_at, key.key_id))


def revoke_key(records: Records, key_id: str, now: datetime) -> Key:
    """Revoke a key; one that is already revoked does not change."""
    if not re.fullmatch(_ID, key_id):  # not repeated in the message: it may be the key itself
        raise BadInput(
            f"not a key id: give the id, {_ID_LENGTH} letters and digits, not the key itself; "
            "see `evalwright keys list`"
        )
    while True:
        body = records.get(KIND, _TENANT, key_id)
        if body is None:
            raise BadInput(f"no such key: {key_id}; see `evalwright keys list`")
        kept = _decode(body)
        if kept.revoked_at is None:
            kept.revoked_at = now
            change = RecordChange(KIND, _TENANT, key_id, msgspec.json.encode(kept), expected=body)
            try:
                records.write([change]).result()
            except RecordConflict:  # it was revoked at the same time
                continue
        return _tellable(kept)


def authenticate(records: Records, authorization: str | None, now: datetime) -> Principal:
    """The holder of the key in the Authorization header; raises `ApiError` 401.

    Only a caller who knows the secret learns that a key has expired or was revoked.
    """
    if authorization is None:
        raise _unauthenticated("missing key; send `Authorization: Bearer <key>`")
    found = _BEARER.fullmatch(authorization)
    if found is None:
        message = "no key in the Authorization header; send `Authorization: Bearer <key>`"
        raise _unauthenticated(message, is_token_bad=True)
    body = records.get(KIND, _TENANT, found["id"])
    kept = _decode(body) if body is not None else None
    is_right = hmac.compare_digest(_hash(found["secret"]), kept.hash if kept else _NO_HASH)
    if kept is None or not is_right or kept.is_test is not (found["prefix"] == TEST_PREFIX):
        raise _unauthenticated("invalid key", is_token_bad=True)
    return _holder(kept, now)


def holder_of(records: Records, key_id: str, now: datetime) -> Principal:
    """The holder of a key that was checked before; raises `ApiError` 401 if it has ended."""
    body = records.get(KIND, _TENANT, key_id)
    if body is None:
        raise ended_key(key_id, "revoked")
    return _holder(_decode(body), now)


def _holder(kept: _KeptKey, now: datetime) -> Principal:
    state = kept.state(now)
    if state != "active":
        raise ended_key(kept.key_id, state)
    return Principal(
        key_id=kept.key_id,
        tenant=kept.tenant,
        workspace=kept.workspace,
        scopes=frozenset(kept.scopes),
        principal=f"key:{kept.key_id}",
        is_test=kept.is_test,
    )


def key_states(records: Records, key_ids: Iterable[str], now: datetime) -> dict[str, str]:
    """The states of some keys; one that was deleted is revoked."""
    bodies = {key_id: records.get(KIND, _TENANT, key_id) for key_id in key_ids}
    return {
        key_id: "revoked" if body is None else _decode(body).state(now)
        for key_id, body in bodies.items()
    }


def ended_key(key_id: str, state: str) -> ApiError:
    """The refusal of a key that is no longer active."""
    message = f"key {key_id} is {state}; request a new one"
    return _unauthenticated(message, f"key_{state}", is_token_bad=True)


def _unauthenticated(
    message: str, code: str = "unauthenticated", *, is_token_bad: bool = False
) -> ApiError:
    challenge = 'Bearer realm="evalwright"' + (', error="invalid_token"' if is_token_bad else "")
    return ApiError(401, code, message, headers={"WWW-Authenticate": challenge})


def check_name(what: str, name: str) -> None:
    """Raise `BadInput` for an invalid name of a tenant or workspace."""
    if not _NAME.fullmatch(name):
        raise BadInput(
            f"invalid {what} {name[:80]!r}; use 1 to 64 of the characters a-z, 0-9, dot, _ and -"
        )


def _decode(body: bytes) -> _KeptKey:
    return msgspec.json.decode(body, type=_KeptKey)


def _tellable(kept: _KeptKey) -> Key:
    return msgspec.convert(kept, Key, from_attributes=True)


def _hash(secret: str) -> str:
    # The secret has 256 random bits and cannot be guessed: a slow hash would add nothing.
    return hashlib.sha256(secret.encode()).hexdigest()


def _random_text(alphabet: str, length: int) -> str:
    return "".join(secrets.choice(alphabet) for _ in range(length))

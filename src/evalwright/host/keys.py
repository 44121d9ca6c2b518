"""Keys: made once and shown once, kept as hashes, and the answer to whose a request is."""

import hashlib
import hmac
import re
import secrets
import string
from collections.abc import Iterable, Iterator
from datetime import datetime

import msgspec

from evalwright.contracts.errors import BadInput
from evalwright.host.errors import ApiError
from evalwright.host.principal import Principal
from evalwright.host.scopes import DEFAULT_SCOPES, expand_scopes
from evalwright.store.records import RecordChange, RecordConflict, Records

PREFIX = "ew_"
TEST_PREFIX = "ew_test_"

_KIND, _TENANT = "key", ""  # keys belong to the host: they say which tenant a request is of
_ID_ALPHABET, _ID_LENGTH = "abcdefghijklmnopqrstuvwxyz234567", 16
_SECRET_ALPHABET, _SECRET_LENGTH = string.digits + string.ascii_letters, 43  # 256 bits
_ID = f"[{_ID_ALPHABET}]{{{_ID_LENGTH}}}"
_BEARER = re.compile(
    rf"[Bb][Ee][Aa][Rr][Ee][Rr] +(?P<prefix>{TEST_PREFIX}|{PREFIX})(?P<id>{_ID})_"
    rf"(?P<secret>[0-9A-Za-z]{{{_SECRET_LENGTH}}}) *"
)
_NAME = re.compile(r"[a-z0-9._-]{1,64}")
_NO_HASH = "0" * 64  # of no secret that anybody knows


class Key(msgspec.Struct, kw_only=True, rename="camel"):
    """What may be told of a key: everything but its secret and the hash of it."""

    key_id: str
    tenant: str
    workspace: str | None
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    is_test: bool

    def state(self, now: datetime) -> str:
        """`active`, `expired` or `revoked`."""
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
    """Make a key; its text, which cannot be had again, and what may be told of it.

    Raises `BadInput` for names and scopes that there cannot be, and for an end that is past.
    """
    check_name("tenant", tenant)
    if workspace is not None:
        check_name("workspace", workspace)
    if expires_at is not None and expires_at <= now:
        end = f"{expires_at:%Y-%m-%dT%H:%M:%SZ}"
        raise BadInput(f"the key would expire at {end}, which is over; name a later end")
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
    records.write([RecordChange(_KIND, _TENANT, kept.key_id, body, expected=None)]).result()
    return f"{TEST_PREFIX if is_test else PREFIX}{kept.key_id}_{secret}", _tellable(kept)


def has_keys(records: Records) -> bool:
    """Whether there is any key, of whomever."""
    return bool(records.list(_KIND, _TENANT, limit=1))


def list_keys(records: Records, tenant: str | None = None) -> list[Key]:
    """The keys of a tenant, or of all, oldest first."""
    kept = (msgspec.json.decode(body, type=Key) for body in _bodies(records))
    chosen = [key for key in kept if tenant in (None, key.tenant)]
    return sorted(chosen, key=lambda key: (key.created_at, key.key_id))


def revoke_key(records: Records, key_id: str, now: datetime) -> Key:
    """Let a key open nothing from now on; one that is revoked already stays as it is."""
    if not re.fullmatch(_ID, key_id):  # it is not repeated: it may be the key itself
        raise BadInput(
            f"a key is named by its id, {_ID_LENGTH} letters and digits, not by its text; "
            "see `evalwright keys list`"
        )
    while True:
        body = records.get(_KIND, _TENANT, key_id)
        if body is None:
            raise BadInput(f"there is no key {key_id}; see `evalwright keys list`")
        kept = _decode(body)
        if kept.revoked_at is None:
            kept.revoked_at = now
            change = RecordChange(_KIND, _TENANT, key_id, msgspec.json.encode(kept), expected=body)
            try:
                records.write([change]).result()
            except RecordConflict:  # somebody else revoked it in between
                continue
        return _tellable(kept)


def authenticate(records: Records, authorization: str | None, now: datetime) -> Principal:
    """Whose key the Authorization header holds; raises `ApiError` 401 if it opens nothing.

    That a key has expired or was revoked is told only to those who know its secret.
    """
    if authorization is None:
        raise _unauthenticated("a key is needed; send it as `Authorization: Bearer <key>`")
    found = _BEARER.fullmatch(authorization)
    if found is None:
        message = "the Authorization header holds no key; send `Authorization: Bearer <key>`"
        raise _unauthenticated(message, is_token_bad=True)
    body = records.get(_KIND, _TENANT, found["id"])
    kept = _decode(body) if body is not None else None
    is_right = hmac.compare_digest(_hash(found["secret"]), kept.hash if kept else _NO_HASH)
    if kept is None or not is_right or kept.is_test is not (found["prefix"] == TEST_PREFIX):
        raise _unauthenticated("the key is not valid", is_token_bad=True)
    _refuse_ended(kept, now)
    return Principal(
        key_id=kept.key_id,
        tenant=kept.tenant,
        workspace=kept.workspace,
        scopes=frozenset(kept.scopes),
        principal=f"key:{kept.key_id}",
        is_test=kept.is_test,
    )


def _refuse_ended(key: Key, now: datetime) -> None:
    state = key.state(now)
    if state != "active":
        message = f"the key {key.key_id} is {state}; ask for a new one"
        raise _unauthenticated(message, f"key_{state}", is_token_bad=True)


def _unauthenticated(
    message: str, code: str = "unauthenticated", *, is_token_bad: bool = False
) -> ApiError:
    challenge = 'Bearer realm="evalwright"' + (', error="invalid_token"' if is_token_bad else "")
    return ApiError(401, code, message, headers={"WWW-Authenticate": challenge})


def check_name(what: str, name: str) -> None:
    """Raise `BadInput` for what cannot be the name of a tenant or workspace."""
    if not _NAME.fullmatch(name):
        raise BadInput(
            f"{what} {name[:80]!r} cannot be used; "
            f"take 1 to 64 of the characters a-z, 0-9, dot, _ and -"
        )


def _bodies(records: Records) -> Iterator[bytes]:
    after = ""
    while page := records.list(_KIND, _TENANT, after=after):
        yield from (record.body for record in page)
        after = page[-1].key


def _decode(body: bytes) -> _KeptKey:
    return msgspec.json.decode(body, type=_KeptKey)


def _tellable(kept: _KeptKey) -> Key:
    return msgspec.convert(kept, Key, from_attributes=True)


def _hash(secret: str) -> str:
    # The secret is 256 random bits, which nobody can guess: a slow hash would protect nothing more.
    return hashlib.sha256(secret.encode()).hexdigest()


def _random_text(alphabet: str, length: int) -> str:
    return "".join(secrets.choice(alphabet) for _ in range(length))

"""Sessions: who is signed in, kept as records, so that every host over a database knows them.

A record holds the hash of the session's id, never the id, and its name begins with the key that
opened it: when the key ends, so do its sessions.
"""

import hashlib
import hmac
import secrets
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from evalwright.host.access.keys import Principal, authenticate, holder_of
from evalwright.host.async_store import forget_old
from evalwright.store.records import RecordChange, Records

KIND, _TENANT = "session", ""  # like keys, they belong to the host
MOST_SESSIONS = 200  # of a key; the oldest ends when another one is opened
_ID_BYTES = 32
_SALT_BYTES = 12
_SECOND_US = 1_000_000


class WebSession(NamedTuple):
    """Somebody who is signed in."""

    id: str  # the secret in the cookie; it begins with the id of the key, which is none
    principal: Principal

    def new_token(self) -> str:
        """A token for forms: proof that a page of this session sent them.

        Each is another text, so that the length of compressed pages gives none away.
        """
        salt = secrets.token_hex(_SALT_BYTES)
        return f"{salt}.{self._sign(salt)}"

    def accepts(self, token: str) -> bool:
        salt, _, signature = token.partition(".")
        return hmac.compare_digest(self._sign(salt).encode(), signature.encode())

    def _sign(self, salt: str) -> str:
        return hmac.new(self.id.encode(), f"form {salt}".encode(), hashlib.sha256).hexdigest()


class _KeptSession(msgspec.Struct, frozen=True, rename="camel"):
    key_id: str
    expires_us: int


def new_id() -> str:
    """A new secret for a cookie."""
    return secrets.token_urlsafe(_ID_BYTES)


def sign_in(records: Records, key: str, seconds: float) -> WebSession:
    """Open a session for the holder of a key; raises `ApiError` 401.

    Its id is always a new one, whatever the browser has sent before. No quota counts sessions, so a
    key has a limited number of them.
    """
    now = datetime.now(UTC)
    principal = authenticate(records, f"Bearer {key}", now)
    session = WebSession(f"{principal.key_id}.{new_id()}", principal)
    expires_us = int((now.timestamp() + seconds) * _SECOND_US)
    body = msgspec.json.encode(_KeptSession(principal.key_id, expires_us))
    changes = [RecordChange(KIND, _TENANT, _place(session.id), body, expected=None)]
    others = records.list(KIND, _TENANT, f"{principal.key_id}/")
    surplus = sorted(others, key=lambda each: -each.at_us)[MOST_SESSIONS - 1 :]
    changes += [RecordChange(KIND, _TENANT, each.key, None) for each in surplus]
    records.write(changes).result()
    return session


def find_session(records: Records, session_id: str) -> WebSession | None:
    """The session with an id; None if it has ended. Raises `ApiError` 401 if its key has."""
    body = records.get(KIND, _TENANT, _place(session_id))
    if body is None:
        return None
    kept = msgspec.json.decode(body, type=_KeptSession)
    now = datetime.now(UTC)
    if kept.expires_us <= now.timestamp() * _SECOND_US:
        return None
    return WebSession(session_id, holder_of(records, kept.key_id, now))


def sign_out(records: Records, session: WebSession) -> None:
    """End a session for good."""
    records.write([RecordChange(KIND, _TENANT, _place(session.id), None)]).result()


async def forget_sessions(records: Records, now_us: int, seconds: float) -> None:
    """Delete the sessions that have expired."""
    await forget_old(records, KIND, now_us - int(seconds * _SECOND_US))


def _place(session_id: str) -> str:
    key_id, _, _ = session_id.partition(".")
    return f"{key_id}/{hashlib.sha256(session_id.encode()).hexdigest()}"

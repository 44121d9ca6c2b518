"""A request and its answer, as values: nothing here sends anything."""

import secrets
from collections.abc import Generator, Mapping
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from evalwright.client.errors import HostError
from evalwright.contracts.errors import BadInput

T = TypeVar("T")


class HostRequest(msgspec.Struct, frozen=True):
    """What is to be sent; the transport adds address and key.

    Every request may be sent twice: it only reads, or it carries an Idempotency-Key.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes | None = None
    timeout_s: float | None = None  # where it differs from that of the client


class HostAnswer(msgspec.Struct, frozen=True):
    """What came back; the names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def read(self, kind: type[T], member: str = "") -> T:
        """The body, or one member of it, as a type."""
        try:
            body = self.body
            if member:
                body = bytes(
                    msgspec.json.decode(body, type=dict[str, msgspec.Raw]).get(member, b"")
                )
            return msgspec.json.decode(body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            message = f"the answer is not what was expected: {error}"
            raise HostError(self.status, "unexpected_answer", message) from None

    def refusal(self) -> HostError | None:
        """The error in the host's answer; None if the request succeeded."""
        if 200 <= self.status < 300:
            return None
        if 300 <= self.status < 400:
            message = "the host redirected; the key was not forwarded (use the host's own URL)"
            return HostError(self.status, "redirected", message)
        text = self.headers.get("retry-after")
        retry_after = float(text) if text and text.isascii() and text.isdigit() else None
        try:
            refusal = msgspec.json.decode(self.body, type=_RefusalBody)
        except (msgspec.DecodeError, UnicodeDecodeError):
            message = "not the answer of an evaluation host"
            return HostError(self.status, "unexpected_answer", message, None, retry_after)
        return HostError(self.status, refusal.error, refusal.message, refusal.details, retry_after)


def refused(answer: HostAnswer) -> HostError:
    """The error for a stream that was refused, or answered with something else."""
    message = "the host answered, but not with a stream"
    return answer.refusal() or HostError(answer.status, "unexpected_answer", message)


class _RefusalBody(msgspec.Struct):
    error: str
    message: str
    details: dict[str, Any] | None = None


# A call of the protocol: it yields requests, is sent the successful answers, and returns.
Flow = Generator[HostRequest, HostAnswer, T]


def get(path: str, query: Mapping[str, Any] | None = None, **more: Any) -> HostRequest:
    """A request that reads; parameters that are None are left out."""
    given = {name: value for name, value in (query or {}).items() if value is not None}
    target = f"{path}?{urlencode(given, quote_via=quote)}" if given else path
    return HostRequest("GET", target, {}, **more)


def post(
    path: str, body: bytes | Mapping[str, Any], idempotency_key: str | None = None
) -> HostRequest:
    """A request that does something; members of the body that are None are left out."""
    if not isinstance(body, bytes):
        body = msgspec.json.encode({name: each for name, each in body.items() if each is not None})
    headers = {"Content-Type": "application/json", **_once(idempotency_key)}
    return HostRequest("POST", path, headers, body)


def delete(path: str) -> HostRequest:
    """A request that deletes something."""
    return HostRequest("DELETE", path, _once(None))


def quoted(name: str) -> str:
    """An id as a segment of a path; it cannot lead anywhere else."""
    if name in {"", ".", ".."}:
        raise BadInput(f"{name!r} is not the name of anything on a host")
    return quote(name, safe="@")


def _once(idempotency_key: str | None) -> dict[str, str]:
    return {"Idempotency-Key": idempotency_key or secrets.token_hex(16)}

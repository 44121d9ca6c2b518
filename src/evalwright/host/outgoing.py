"""Answers on their way: how much of them may lie in memory because clients have not read it yet."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from evalwright.host.errors import ApiError

MIB = 1024 * 1024
MOST_UNREAD = 256 * MIB
MOST_UNREAD_PER_TENANT = 64 * MIB
PIECE = 64 * 1024  # what is not longer is sent without counting it
RETRY_SECONDS = 1


class Outgoing:
    """Counts the bytes of long answers until they are sent; used on one event loop."""

    def __init__(
        self, most: int = MOST_UNREAD, most_per_tenant: int = MOST_UNREAD_PER_TENANT
    ) -> None:
        self._most = most
        self._most_per_tenant = most_per_tenant
        self._held = 0
        self._held_by_tenant: dict[str, int] = {}

    @property
    def held(self) -> int:
        """How many bytes are on their way."""
        return self._held

    @contextmanager
    def hold(self, tenant: str, size: int) -> Iterator[None]:
        """Count bytes; raises `ApiError` 429 or 503 where others have to be read first.

        One answer is always let through, however long it is.
        """
        mine = self._held_by_tenant.get(tenant, 0)
        if mine and mine + size > self._most_per_tenant:
            details = {"retryAfterMs": RETRY_SECONDS * 1000, "scope": "tenant"}
            message = f"more than {self._most_per_tenant} bytes of answers are unread; read them"
            raise ApiError(429, "rate_limited", message, details, _RETRY)
        if self._held and self._held + size > self._most:
            message = "too many answers are unread; try again"
            details = {"retryAfter": RETRY_SECONDS}
            raise ApiError(503, "service_unavailable", message, details, _RETRY)
        self._held += size
        self._held_by_tenant[tenant] = mine + size
        try:
            yield
        finally:
            self._held -= size
            self._held_by_tenant[tenant] -= size
            if not self._held_by_tenant[tenant]:
                del self._held_by_tenant[tenant]

    def counted(self, response: Response, tenant: str) -> Response:
        """The answer, counted until it is sent if it is long; raises as `hold` does."""
        if type(response) is not Response or len(response.body) <= PIECE:
            return response
        with ExitStack() as held:
            held.enter_context(self.hold(tenant, len(response.body)))
            return _Counted(response, held.pop_all())
        raise AssertionError("an answer that is neither refused nor given")


class _Counted(Response):
    """A long answer: it is sent by pieces, and forgotten once it is."""

    def __init__(self, response: Response, held: ExitStack) -> None:
        super().__init__(response.body, response.status_code, response.headers)
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send the answer."""
        with self._held:
            await send(
                {
                    "type": "http.response.start",
                    "status": self.status_code,
                    "headers": self.raw_headers,
                }
            )
            await send_pieces(send, bytes(self.body), more=False)


async def send_pieces(send: Send, body: bytes, *, more: bool) -> None:
    """Send part of an answer; it has been taken by the connection, but for a piece or two."""
    for start in range(0, len(body), PIECE):
        is_last = start + PIECE >= len(body)
        piece = body[start : start + PIECE]
        await send({"type": "http.response.body", "body": piece, "more_body": more or not is_last})


_RETRY = {"Retry-After": str(RETRY_SECONDS)}

"""Budgets of bytes in memory: of responses that clients have to read, and of large bodies."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from evalwright.host.http.errors import ApiError

MIB = 1024 * 1024
MOST_UNREAD = 256 * MIB
MOST_UNREAD_PER_TENANT = 64 * MIB
MOST_BODIES = 128 * MIB
MOST_BODIES_PER_TENANT = 32 * MIB  # parsed they may take ten times as much
LONG = 64 * 1024  # shorter responses are sent uncounted
RETRY_SECONDS = 1


class ByteBudget:
    """Counts the bytes of responses until they are sent, or others; used on one event loop."""

    def __init__(
        self,
        most: int = MOST_UNREAD,
        most_per_tenant: int = MOST_UNREAD_PER_TENANT,
        things: str = "responses are unread",  # for messages
        remedy: str = "read them",
    ) -> None:
        self._things = things
        self._remedy = remedy
        self._most = most
        self._most_per_tenant = most_per_tenant
        self._held = 0
        self._held_by_tenant: dict[str, int] = {}

    @property
    def held(self) -> int:
        """How many bytes are being sent."""
        return self._held

    @contextmanager
    def hold(self, tenant: str, size: int) -> Iterator[None]:
        """Count bytes; raises `ApiError` 429 or 503 if others have to be read first.

        One response at a time is always allowed, however long it is.
        """
        self.check(tenant, size)
        self._held += size
        self._held_by_tenant[tenant] = self._held_by_tenant.get(tenant, 0) + size
        try:
            yield
        finally:
            self._held -= size
            self._held_by_tenant[tenant] -= size
            if not self._held_by_tenant[tenant]:
                del self._held_by_tenant[tenant]

    def check(self, tenant: str, size: int) -> None:
        """Raise as `hold` does, before a response of about this length is made."""
        mine = self._held_by_tenant.get(tenant, 0)
        if mine and mine + size > self._most_per_tenant:
            details = {"retryAfterMs": RETRY_SECONDS * 1000, "scope": "tenant"}
            message = f"more than {self._most_per_tenant} bytes of {self._things}; {self._remedy}"
            raise ApiError(429, "rate_limited", message, details, _RETRY)
        if self._held and self._held + size > self._most:
            message = f"too many {self._things}; retry later"
            details = {"retryAfter": RETRY_SECONDS}
            raise ApiError(503, "service_unavailable", message, details, _RETRY)

    def counted(self, response: Response, tenant: str) -> Response:
        """The response, counted until it is sent if it is long; raises as `hold` does."""
        if type(response) is not Response or len(response.body) <= LONG:
            return response
        with ExitStack() as held:
            held.enter_context(self.hold(tenant, len(response.body)))
            return _BudgetedResponse(response, held.pop_all())
        raise AssertionError("a response is either refused or returned")


class _BudgetedResponse(Response):
    """A long response, which counts until it is read."""

    def __init__(self, response: Response, held: ExitStack) -> None:
        super().__init__(response.body, response.status_code, response.headers)
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send the response."""
        with self._held:
            await send(
                {
                    "type": "http.response.start",
                    "status": self.status_code,
                    "headers": self.raw_headers,
                }
            )
            await send_and_wait(send, bytes(self.body), more=False)


async def send_and_wait(send: Send, body: bytes, *, more: bool) -> None:
    """Send part of a response, and wait until most of it is read or the client is gone.

    The server accepts the first part at once, and waits before it accepts the next.
    """
    await send({"type": "http.response.body", "body": body, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": more})


_RETRY = {"Retry-After": str(RETRY_SECONDS)}

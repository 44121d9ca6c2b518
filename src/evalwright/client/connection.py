"""Requests over connections of the standard library, which are kept and used again.

Its coroutines block: nothing in them is awaited.
"""

import http.client
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress

from evalwright.client.errors import Unreachable
from evalwright.client.exchange import HostAnswer, HostRequest, refused
from evalwright.client.host_address import Address

MAX_ANSWER_BYTES = 256 * 1024 * 1024
CHUNK = 64 * 1024
OK = 200

MakeHeaders = Callable[[], dict[str, str]]  # they hold the key: made when needed, not kept
Patience = Callable[[], float]  # seconds for the next piece of a stream; raises when time is up


class Connections:
    """The connections to one host; threads may share them."""

    def __init__(
        self, address: Address, headers: MakeHeaders, timeout_s: float, ca_file: str | None
    ) -> None:
        self._address = address
        self._headers = headers
        self._timeout_s = timeout_s
        self._tls = ssl.create_default_context(cafile=ca_file) if address.is_tls else None
        self._idle: list[http.client.HTTPConnection] = []

    async def send(self, request: HostRequest) -> HostAnswer:
        """Send a request and read the answer whole; raises `Unreachable`."""
        connection = self._pop_idle() or self._new()
        connection.timeout = request.timeout_s or self._timeout_s
        try:
            with _explained(self._address):
                response = self._ask(connection, request)
                body = response.read(MAX_ANSWER_BYTES + 1)
                if len(body) > MAX_ANSWER_BYTES:
                    raise Unreachable(
                        f"an answer is longer than {MAX_ANSWER_BYTES} bytes", may_pass=False
                    )
                if response.length:  # a bounded read does not complain of what is missing
                    raise http.client.IncompleteRead(body, response.length)
                answer = _answer(response, body)
        except BaseException:
            connection.close()
            await self.close()  # the others are as old
            raise
        if connection.sock is not None:
            self._idle.append(connection)
        return answer

    @asynccontextmanager
    async def stream(
        self, request: HostRequest, patience_s: Patience
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Send a request and give its answer piece by piece; raises `HostError`, `Unreachable`."""
        connection = self._new()
        connection.timeout = patience_s()
        try:
            with _explained(self._address):
                connection.connect()
                held = connection.sock  # the response will have taken it over
                response = self._ask(connection, request)
                if response.status != OK:
                    raise refused(_answer(response, response.read(CHUNK)))
            with closing(response):
                yield self._pieces(response, held, patience_s)
        finally:
            connection.close()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)  # noqa: ASYNC251 - as all that this class does

    async def close(self) -> None:
        """Close the connections that are kept."""
        while (connection := self._pop_idle()) is not None:
            connection.close()

    def _pop_idle(self) -> http.client.HTTPConnection | None:
        with suppress(IndexError):
            return self._idle.pop()
        return None

    def _new(self) -> http.client.HTTPConnection:
        address = self._address
        if self._tls is not None:
            return http.client.HTTPSConnection(address.host, address.port, context=self._tls)
        return http.client.HTTPConnection(address.host, address.port)

    def _ask(
        self, connection: http.client.HTTPConnection, request: HostRequest
    ) -> http.client.HTTPResponse:
        if connection.sock is None:
            connection.connect()
        connection.sock.settimeout(connection.timeout)
        headers = {**self._headers(), **request.headers}
        connection.request(
            request.method, self._address.prefix + request.target, request.body, headers
        )
        return connection.getresponse()

    async def _pieces(
        self, response: http.client.HTTPResponse, held: socket.socket, patience_s: Patience
    ) -> AsyncIterator[bytes]:
        while True:
            held.settimeout(patience_s())
            with _explained(self._address):
                piece = response.read1(CHUNK)
            if not piece:
                return
            yield piece


def _answer(response: http.client.HTTPResponse, body: bytes) -> HostAnswer:
    headers = {name.lower(): value for name, value in response.getheaders()}
    return HostAnswer(response.status, headers, body)


@contextmanager
def _explained(address: Address) -> Iterator[None]:
    """Turn whatever goes wrong on the way into `Unreachable`."""
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        message = f"{address.origin}: the certificate is not trusted: {error.verify_message}"
        raise Unreachable(message, may_pass=False) from None
    except TimeoutError:
        raise Unreachable(f"{address.origin}: no answer in time") from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or f"{type(error).__name__} {error}".strip()
        raise Unreachable(f"{address.origin}: {reason}") from None

"""Requests over the connections of aiohttp, which is imported when the first one is made."""

import asyncio
import io
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from evalwright.client.connection import CHUNK, MAX_ANSWER_BYTES, OK, MakeHeaders, Patience
from evalwright.client.errors import Unreachable
from evalwright.client.exchange import HostAnswer, HostRequest, refused
from evalwright.client.host_address import Address

if TYPE_CHECKING:
    import aiohttp

WRITTEN_AT_ONCE = 1024 * 1024  # aiohttp warns of larger bodies that are given as bytes


class AsyncConnections:
    """The connections to one host, of one event loop."""

    def __init__(
        self, address: Address, headers: MakeHeaders, timeout_s: float, ca_file: str | None
    ) -> None:
        self._address = address
        self._headers = headers
        self._timeout_s = timeout_s
        self._tls = ssl.create_default_context(cafile=ca_file) if address.is_tls else None
        self._session: aiohttp.ClientSession | None = None

    async def send(self, request: HostRequest) -> HostAnswer:
        """Send a request and read the answer whole; raises `Unreachable`."""
        timeout_s = request.timeout_s or self._timeout_s
        async with self._explained(), asyncio.timeout(timeout_s), self._ask(request) as response:
            return await _answer(response, MAX_ANSWER_BYTES)

    @asynccontextmanager
    async def stream(
        self, request: HostRequest, patience_s: Patience
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Send a request and give its answer piece by piece; raises `HostError`, `Unreachable`."""
        asked = self._ask(request)
        patience = patience_s()
        async with self._explained(), asyncio.timeout(patience):
            response = await asked.__aenter__()
        try:
            if response.status != OK:
                async with self._explained(), asyncio.timeout(patience):
                    raise refused(await _answer(response, CHUNK))
            yield self._pieces(response, patience_s)
        finally:
            response.close()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _ask(self, request: HostRequest) -> "aiohttp.client._RequestContextManager":
        import yarl

        target = self._address.origin + self._address.prefix + request.target
        import aiohttp

        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),
            )
        return self._session.request(
            request.method,
            yarl.URL(target, encoded=True),
            data=_data(request.body),
            headers={**self._headers(), **request.headers},
            allow_redirects=False,
            ssl=self._tls or True,
        )

    async def _pieces(
        self, response: "aiohttp.ClientResponse", patience_s: Patience
    ) -> AsyncIterator[bytes]:
        while True:
            patience = patience_s()
            async with self._explained(), asyncio.timeout(patience):
                piece = await response.content.readany()
            if not piece:
                return
            yield piece

    @asynccontextmanager
    async def _explained(self) -> AsyncIterator[None]:
        """Turn whatever goes wrong on the way into `Unreachable`."""
        import aiohttp

        origin = self._address.origin
        try:
            yield
        except aiohttp.ClientConnectorCertificateError as error:
            message = f"{origin}: the certificate is not trusted: {error.certificate_error}"
            raise Unreachable(message, may_pass=False) from None
        except TimeoutError:
            raise Unreachable(f"{origin}: no answer in time") from None
        except (aiohttp.ClientError, OSError) as error:
            reason = getattr(error, "strerror", None) or f"{type(error).__name__} {error}".strip()
            raise Unreachable(f"{origin}: {reason}") from None


def _data(body: bytes | None) -> bytes | io.BytesIO | None:
    return body if body is None or len(body) < WRITTEN_AT_ONCE else io.BytesIO(body)


async def _answer(response: "aiohttp.ClientResponse", most: int) -> HostAnswer:
    pieces, size = [], 0
    async for piece in response.content.iter_any():
        size += len(piece)
        if size > most:
            raise Unreachable(f"an answer is longer than {most} bytes", may_pass=False)
        pieces.append(piece)
    headers = {name.lower(): value for name, value in response.headers.items()}
    return HostAnswer(response.status, headers, b"".join(pieces))

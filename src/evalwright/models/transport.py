"""One POST over a connection that is kept: bounded in time and size, without redirects."""

import asyncio
import io
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import msgspec

from evalwright.models.endpoints import is_loopback

if TYPE_CHECKING:
    import yarl

MAX_ANSWER_BYTES = 32 * 1024 * 1024
CONNECT_S = 15.0
_WRITTEN_AT_ONCE = 1024 * 1024  # aiohttp warns of larger bodies that are given as bytes


MakeHeaders = Callable[[], Mapping[str, str]]  # they hold the key: made when needed, not kept


class HttpAnswer(msgspec.Struct, frozen=True):
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class CallFailed(Exception):
    """A call without an answer: it took too long, could not connect, or got too much back."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class TimedOut(CallFailed):
    """No answer in time."""


class NoConnection(CallFailed):
    """No connection, or one that broke."""


class TooLong(CallFailed):
    """An answer over the bound."""


class Transport:
    """The connections to one address, one pool for each event loop."""

    def __init__(self, url: str, headers: MakeHeaders, timeout_s: float) -> None:
        import aiohttp  # noqa: F401 - a tenth of a second, which no task shall wait for

        self._url = url
        self._headers = headers
        self._timeout_s = timeout_s
        self._pools: WeakKeyDictionary[asyncio.AbstractEventLoop, _Pool] = WeakKeyDictionary()

    async def post(self, path: str, body: bytes) -> HttpAnswer:
        import aiohttp

        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None or pool.session.closed:
            pool = _Pool(self._url, self._headers(), self._timeout_s)
            self._pools[loop] = pool
        data = body if len(body) < _WRITTEN_AT_ONCE else io.BytesIO(body)
        try:
            async with pool.session.post(
                pool.url(path), data=data, allow_redirects=False, proxy=pool.proxy
            ) as response:
                chunks, size = [], 0
                async for chunk in response.content.iter_any():
                    size += len(chunk)
                    if size > MAX_ANSWER_BYTES:
                        raise TooLong(f"the answer is longer than {MAX_ANSWER_BYTES} bytes")
                    chunks.append(chunk)
                content = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        except TimeoutError:
            raise TimedOut(f"no answer within {self._timeout_s:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise NoConnection(f"{type(error).__name__}: {error}") from None
        return HttpAnswer(response.status, response.headers, content)

    async def close(self) -> None:
        pool = self._pools.pop(asyncio.get_running_loop(), None)
        if pool is not None:
            await pool.session.close()


class _Pool:
    def __init__(self, base_url: str, headers: Mapping[str, str], timeout_s: float) -> None:
        # The proxy that the environment names for an address; never one for this machine.
        from urllib.request import getproxies, proxy_bypass

        import aiohttp

        parts = urlsplit(base_url)
        host = parts.hostname or ""
        if is_loopback(host) or proxy_bypass(host):
            self.proxy = None
        else:
            self.proxy = getproxies().get(parts.scheme)
        self._base_url = base_url
        self._urls: dict[str, yarl.URL] = {}
        self.session: aiohttp.ClientSession = aiohttp.ClientSession(
            headers={**headers, "Content-Type": "application/json", "Accept": "application/json"},
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=timeout_s, sock_connect=min(CONNECT_S, timeout_s)),
        )

    def url(self, path: str) -> "yarl.URL":
        import yarl

        found = self._urls.get(path)
        if found is None:
            found = self._urls[path] = yarl.URL(self._base_url + path, encoded=True)
        return found

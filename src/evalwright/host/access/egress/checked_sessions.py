"""aiohttp sessions that connect only to addresses that the egress guard has checked.

aiohttp looks names up through this resolver and connects to the addresses it returned, without a
second lookup. Numeric hosts never reach a resolver, so each request is checked too.
"""

import socket
from collections.abc import Mapping

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from evalwright.host.access.egress.guard import Egress

_NUMERIC = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV


def open_session(
    egress: Egress,
    *,
    https_only: bool,
    timeout_s: float | None,
    keep_alive: bool,
    headers: Mapping[str, str] | None,
) -> aiohttp.ClientSession:
    """A guarded session for the running event loop."""

    async def check(
        request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        url = request.url
        egress.check_target(url.scheme, url.raw_host, url.port, https_only=https_only)
        return await handler(request)

    return aiohttp.ClientSession(
        headers=headers,
        connector=aiohttp.TCPConnector(
            limit=0,
            resolver=_CheckedResolver(egress),
            use_dns_cache=False,
            force_close=not keep_alive,
            ssl=egress.ssl_context or True,
        ),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=timeout_s),
        middlewares=(check,),
        trust_env=False,
    )


class _CheckedResolver(AbstractResolver):
    def __init__(self, egress: Egress) -> None:
        self._egress = egress

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_INET,  # noqa: ARG002
    ) -> list[ResolveResult]:
        """All addresses of the name, checked; aiohttp tries them in turn."""
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=socket.IPPROTO_TCP,
                flags=_NUMERIC,
            )
            for address in await self._egress.resolve(host, port)
        ]

    async def close(self) -> None:
        """Nothing is held."""

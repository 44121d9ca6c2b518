"""The guard of connections to addresses that tenants choose: webhooks and HTTP agents.

The URL is checked first (`Egress.check_url`). A name is looked up once per connection, all of its
addresses are checked, and the connection uses one of those addresses: a name that resolves
differently between the check and the connection gains nothing.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING

import msgspec

from evalwright.host.access.egress.addresses import (
    METADATA_NAMES,
    Address,
    EgressRefused,
    EgressTarget,
    is_private_name,
    kind_of,
    literal_address,
    plain_host,
    split_url,
)
from evalwright.host.http.settings import EgressSettings

if TYPE_CHECKING:
    import aiohttp

LOOKUPS_AT_ONCE = 16
LOOKUP_S = 5.0

Lookup = Callable[[str, int], Awaitable[list[str]]]

_DEFAULT_PORTS = {"http": 80, "https": 443}
_FIRST_FREE_PORT = 1024


class EgressPolicy(msgspec.Struct, frozen=True):
    """What the operator allows beyond public addresses; tenants cannot change it."""

    allow_private: bool = False  # private and loopback addresses, never metadata services
    allow_http: bool = False  # even where https is required
    allowed_hosts: frozenset[str] = frozenset()  # whatever they resolve to

    @classmethod
    def of(cls, settings: EgressSettings) -> "EgressPolicy":
        hosts = frozenset(settings.allowed_hosts)
        return cls(settings.allow_private, settings.allow_http, hosts)


class Egress:
    """Checks outgoing connections against the operator's policy."""

    def __init__(
        self,
        policy: EgressPolicy | None = None,
        *,
        lookup: Lookup | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self.ssl_context = ssl_context
        self._policy = policy or EgressPolicy()
        self._allowed_hosts = {plain_host(host) for host in self._policy.allowed_hosts}
        self._lookup = lookup or SystemLookup()

    def check_url(self, url: str, *, https_only: bool) -> EgressTarget:
        """Check a URL without a lookup; raises `EgressRefused`."""
        parts = split_url(url)
        if "@" in parts.netloc:
            raise EgressRefused("credentials_forbidden", "the URL must not contain credentials")
        if parts.fragment or url.endswith("#"):
            raise EgressRefused("malformed_url", "the URL must not have a fragment")
        return self.check_target(parts.scheme, parts.hostname, parts.port, https_only=https_only)

    def check_target(
        self, scheme: str, host: str | None, port: int | None, *, https_only: bool
    ) -> EgressTarget:
        """Check the parts of a URL; raises `EgressRefused`."""
        if scheme != "https" and (scheme != "http" or (https_only and not self._policy.allow_http)):
            wanted = "https" if https_only else "http or https"
            raise EgressRefused("scheme_forbidden", f"the URL scheme must be {wanted}")
        if not host:
            raise EgressRefused("malformed_url", "the URL has no host")
        plain, allow_private = plain_host(host), self._policy.allow_private
        port = _DEFAULT_PORTS[scheme] if port is None else port
        address = literal_address(plain)
        if plain in self._allowed_hosts:
            return EgressTarget(plain, port, address)
        if address is not None:
            self._check_address(plain, address)
        elif plain in METADATA_NAMES or (is_private_name(plain) and not allow_private):
            raise EgressRefused(
                "host_forbidden", f"{plain} is not a public host; use one with a public address"
            )
        if port < _FIRST_FREE_PORT and port not in _DEFAULT_PORTS.values() and not allow_private:
            raise EgressRefused(
                "port_forbidden", f"port {port} is not allowed; use 443, 80 or a port from 1024 up"
            )
        return EgressTarget(plain, port, address)

    async def check_destination(self, url: str, *, https_only: bool) -> None:
        """Check a URL and the current addresses of its host; raises `EgressRefused`.

        A name that does not resolve passes: every connection is checked again.
        """
        target = self.check_url(url, https_only=https_only)
        if target.address is not None:
            return
        try:
            async with asyncio.timeout(LOOKUP_S):
                await self.resolve(target.host, target.port)
        except OSError:  # of the lookup; TimeoutError is one too
            return

    async def resolve(self, host: str, port: int) -> list[str]:
        """Look a name up; raises `EgressRefused` if any of its addresses is forbidden."""
        found = await self._lookup(host, port)
        plain = plain_host(host)
        if plain not in self._allowed_hosts:
            for address in found:
                self._check_address(plain, ip_address(address))
        return found

    def session(
        self,
        *,
        https_only: bool,
        timeout_s: float | None = None,
        keep_alive: bool = True,
        headers: Mapping[str, str] | None = None,
    ) -> "aiohttp.ClientSession":
        """A session whose connections are all checked; it uses no proxies and no cookies.

        Callers pass `allow_redirects=False`. A redirect that is followed anyway is checked like any
        other URL.
        """
        from evalwright.host.access.egress.checked_sessions import open_session

        return open_session(
            self,
            https_only=https_only,
            timeout_s=timeout_s,
            keep_alive=keep_alive,
            headers=headers,
        )

    def _check_address(self, host: str, address: Address) -> None:
        kind = kind_of(address)
        if kind == "public" or (kind in {"private", "loopback"} and self._policy.allow_private):
            return
        raise EgressRefused("address_forbidden", f"{host} does not resolve to a public address")


class SystemLookup:
    """The resolver of this machine, in its own threads, so that slow names delay nothing else."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(LOOKUPS_AT_ONCE, thread_name_prefix="egress-lookup")

    async def __call__(self, host: str, port: int) -> list[str]:
        """The distinct addresses of a name; raises `OSError` if there are none."""
        lookup = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        found = await asyncio.get_running_loop().run_in_executor(self._threads, lookup)
        return list(dict.fromkeys(str(info[4][0]) for info in found))

"""Where a host is, and whether a key may travel there."""

import ipaddress
from urllib.parse import urlsplit

import msgspec

from evalwright.contracts.errors import BadInput

_PORTS = {"http": 80, "https": 443}


class Address(msgspec.Struct, frozen=True):
    """The parts of a host's URL."""

    is_tls: bool
    host: str
    port: int
    prefix: str  # of every path, where the host is not at the root; without a slash at the end

    @property
    def origin(self) -> str:
        """The URL without the path."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.is_tls else 'http'}://{name}:{self.port}"


def parse_address(url: str) -> Address:
    """Take a URL apart; raises `BadInput`."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise BadInput(f"the URL of the host cannot be read: {error}") from None
    if parts.scheme not in _PORTS or not parts.hostname:
        raise BadInput("the URL of a host must begin with https:// (or http:// on this machine)")
    if parts.username is not None or parts.password is not None:
        raise BadInput(
            "the URL of a host must not contain a user or a password; give the key separately"
        )
    if parts.query or parts.fragment:
        raise BadInput("the URL of a host must not contain ? or #")
    if not all("!" <= character <= "~" for character in parts.netloc + parts.path):
        raise BadInput("the URL of a host must be printable ASCII without spaces")
    return Address(
        is_tls=parts.scheme == "https",
        host=parts.hostname,
        port=_PORTS[parts.scheme] if port is None else port,
        prefix=parts.path.rstrip("/"),
    )


def check_key(address: Address, key: str) -> None:
    """Refuse a key that cannot be one, or that others could read on its way."""
    if not key or not all("!" <= character <= "~" for character in key):
        raise BadInput("the key is empty or contains characters that no key has")
    if not address.is_tls and not _is_loopback(address.host):
        raise BadInput(f"the key is not sent over http:// to {address.host}; use https://")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Access:
    """The address of a host with the key for it; `repr` does not show the key."""

    def __init__(self, url: str, key: str | None) -> None:
        self.address = parse_address(url)
        if key is not None:
            check_key(self.address, key)
        self._key = key

    def headers(self) -> dict[str, str]:
        """What every request carries."""
        headers = {"User-Agent": "evalwright"}
        return headers if self._key is None else {**headers, "Authorization": f"Bearer {self._key}"}

    def __repr__(self) -> str:
        return f"{self.address.origin}{self.address.prefix}"

"""Addresses: what a URL or a host name says without a lookup, and what kind an IP address is."""

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Literal, NamedTuple
from urllib.parse import SplitResult, urlsplit

from evalwright.contracts.errors import EvalwrightError

MAX_URL_LENGTH = 2048


Address = IPv4Address | IPv6Address
AddressKind = Literal[
    "public", "private", "loopback", "link-local", "metadata", "multicast", "reserved"
]

Reason = Literal[
    "malformed_url",
    "scheme_forbidden",
    "credentials_forbidden",
    "port_forbidden",
    "host_forbidden",
    "address_forbidden",
]

_VISIBLE = re.compile(r"[!-\[\]-~]+")  # ASCII without blanks and without the backslash
_NAME = re.compile(
    r"(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
)
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
METADATA_NAMES = ("metadata", "metadata.google.internal", "instance-data.ec2.internal")
_PRIVATE_DOMAINS = ("localhost", "internal", "local", "localdomain", "lan", "home.arpa")

# The special-purpose registries of IANA, and the metadata services of clouds; the first match wins.
_KINDS_V4: tuple[tuple[IPv4Network, AddressKind], ...] = (
    (IPv4Network("169.254.169.254/32"), "metadata"),  # most clouds
    (IPv4Network("169.254.170.0/24"), "metadata"),  # containers on AWS
    (IPv4Network("168.63.129.16/32"), "metadata"),  # Azure, among public addresses
    (IPv4Network("100.100.100.200/32"), "metadata"),  # Alibaba
    (IPv4Network("192.0.0.192/32"), "metadata"),  # Oracle
    (IPv4Network("0.0.0.0/8"), "reserved"),
    (IPv4Network("10.0.0.0/8"), "private"),
    (IPv4Network("100.64.0.0/10"), "private"),  # carrier-grade NAT
    (IPv4Network("127.0.0.0/8"), "loopback"),
    (IPv4Network("169.254.0.0/16"), "link-local"),
    (IPv4Network("172.16.0.0/12"), "private"),
    (IPv4Network("192.0.0.0/24"), "reserved"),
    (IPv4Network("192.0.2.0/24"), "reserved"),
    (IPv4Network("192.88.99.0/24"), "reserved"),
    (IPv4Network("192.168.0.0/16"), "private"),
    (IPv4Network("198.18.0.0/15"), "reserved"),
    (IPv4Network("198.51.100.0/24"), "reserved"),
    (IPv4Network("203.0.113.0/24"), "reserved"),
    (IPv4Network("224.0.0.0/4"), "multicast"),
    (IPv4Network("240.0.0.0/4"), "reserved"),
)
_KINDS_V6: tuple[tuple[IPv6Network, AddressKind], ...] = (
    (IPv6Network("fd00:ec2::254/128"), "metadata"),
    (IPv6Network("fd20:ce::254/128"), "metadata"),
    (IPv6Network("::1/128"), "loopback"),
    (IPv6Network("fc00::/7"), "private"),
    (IPv6Network("fe80::/10"), "link-local"),
    (IPv6Network("ff00::/8"), "multicast"),
    (IPv6Network("2001::/23"), "reserved"),  # Teredo and other protocols
    (IPv6Network("2001:db8::/32"), "reserved"),
    (IPv6Network("3fff::/20"), "reserved"),
    (IPv6Network("2000::/3"), "public"),  # all public allocations so far
)
# Forms that carry an IPv4 address, with the number of bits after it: mapped, NAT64, 6to4, and the
# deprecated "compatible" form, which `::` and `::1` do not belong to.
_CARRIERS: tuple[tuple[IPv6Network, int], ...] = (
    (IPv6Network("::ffff:0:0/96"), 0),
    (IPv6Network("64:ff9b::/96"), 0),
    (IPv6Network("2002::/16"), 80),
    (IPv6Network("::/96"), 0),
)
_OLDEST_COMPATIBLE = 0x10000


def kind_of(address: Address) -> AddressKind:
    """The kind of an address; an IPv6 form of an IPv4 address has the kind of that address."""
    if isinstance(address, IPv4Address):
        return next((kind for network, kind in _KINDS_V4 if address in network), "public")
    number = int(address)
    if number >= _OLDEST_COMPATIBLE:
        for network, behind in _CARRIERS:
            if address in network:
                return kind_of(IPv4Address(number >> behind & 0xFFFFFFFF))
    return next((kind for network, kind in _KINDS_V6 if address in network), "reserved")


class EgressRefused(EvalwrightError, ValueError):
    """The host does not connect there; `reason` is the rule that forbids it.

    It does not say what a name resolves to: that would reveal the operator's network.
    """

    def __init__(self, reason: Reason, message: str) -> None:
        self.reason = reason
        super().__init__(message)


class EgressTarget(NamedTuple):
    """Where a URL leads; `address` is None for a host name, which must be looked up."""

    host: str
    port: int
    address: Address | None


def split_url(url: str) -> SplitResult:
    """The parts of a URL; raises `EgressRefused` where parsers could disagree."""
    if len(url) > MAX_URL_LENGTH:
        raise EgressRefused("malformed_url", f"the URL is longer than {MAX_URL_LENGTH} characters")
    if not _VISIBLE.fullmatch(url):
        raise EgressRefused(
            "malformed_url",
            "the URL must be printable ASCII without spaces or backslashes; encode the rest",
        )
    try:
        parts = urlsplit(url)
        has_port = parts.port != 0
    except ValueError as error:
        raise EgressRefused("malformed_url", f"not a URL: {error}") from None
    if not has_port:
        raise EgressRefused("port_forbidden", "port 0 is not a valid port")
    return parts


def plain_host(host: str) -> str:
    """A host name as it is compared: in lower case, without the final dot."""
    return host.lower().removesuffix(".")


def literal_address(host: str) -> Address | None:
    """The address that a host is written as; None for a name. Refuses ambiguous notations.

    C libraries read `2130706433`, `0x7f.1` and `0177.0.0.1` as addresses too.
    """
    try:
        if ":" in host and "%" not in host:
            return IPv6Address(host)
        if _NUMBER.fullmatch(host.rpartition(".")[2]):
            return IPv4Address(host)
    except ValueError:
        raise EgressRefused(
            "host_forbidden", f"{host} is not a valid address; write it like 192.0.2.1 or [::1]"
        ) from None
    if len(host) > 253 or not _NAME.fullmatch(host):
        raise EgressRefused(
            "host_forbidden", f"{host} is not a valid host name; write non-ASCII names as xn--…"
        )
    return None


def is_private_name(host: str) -> bool:
    """Whether a name belongs to a private network: a single label or a private domain."""
    return "." not in host or any(host.endswith(f".{domain}") for domain in _PRIVATE_DOMAINS)

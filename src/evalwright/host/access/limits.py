"""Limits: requests per second, requests and streams at once, and request bodies."""

import ipaddress
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from typing import Any, NamedTuple

import msgspec

from evalwright.contracts.jsonvalue import NotJson, burden, child, parse, repeated_key
from evalwright.host.http.errors import ApiError, unavailable

MOST_BUCKETS = 100_000  # per kind, however many clients there are
FEWEST_TO_SWEEP = 1_000
MAX_DEPTH = 64
MOST_VALUES = 400_000  # of a body
MOST_KEYS = 10_000  # of one object in a body
LARGE_BODY = 32 * 1024  # from which on the shape of a body is looked at while it arrives
MOST_PARSED = 2  # large bodies at once
MOST_PARSED_PER_TENANT = 1
LONGEST_QUOTE = 200  # characters of a body that a message repeats
BUSY_SECONDS = 1  # after which a client may retry

_SECOND_NS = 1_000_000_000
_MS_NS = 1_000_000
_LEAST, _GREATEST = -(2**63), 2**63 - 1  # of integers

ClockNs = Callable[[], int]


class Rate(msgspec.Struct, frozen=True):
    """Requests per second in the long run, and the burst allowed after a pause."""

    per_second: float
    burst: int


class Buckets:
    """Token buckets of one rate, by id.

    For each id only the time when its bucket is full again is stored; full ones are forgotten.
    """

    def __init__(self, rate: Rate, most: int = MOST_BUCKETS) -> None:
        assert rate.per_second > 0, "a rate must be positive"
        assert rate.burst >= 1, "a bucket must hold at least one request"
        self._rate = rate
        self.divide(1)
        self._full_at: dict[str, int] = {}
        self._most = most
        self._sweep_at = FEWEST_TO_SWEEP

    def divide(self, parts: int) -> None:
        """Allow only a part of the rate: others allow the rest."""
        self._interval = max(1, round(_SECOND_NS * parts / self._rate.per_second))
        self._capacity = self._interval * max(1, self._rate.burst // parts)

    def __len__(self) -> int:
        return len(self._full_at)

    def wait_ns(self, name: str, now: int) -> int:
        """How long until a request is allowed; 0 if one is allowed now."""
        full_at = max(self._full_at.get(name, now), now)
        return max(0, full_at + self._interval - self._capacity - now)

    def take(self, name: str, now: int) -> None:
        """Count a request, for which `wait_ns` must be 0."""
        full_at = max(self._full_at.pop(name, now), now) + self._interval
        if len(self._full_at) >= min(self._sweep_at, self._most):
            self._sweep(now)
        self._full_at[name] = full_at  # at the end of the order: forgotten last

    def _sweep(self, now: int) -> None:
        self._full_at = {name: at for name, at in self._full_at.items() if at > now}
        # Half of the room must be free afterwards: a sweep per request would take too long.
        for name in list(self._full_at)[: max(0, len(self._full_at) - self._most // 2)]:
            del self._full_at[name]
        self._sweep_at = max(FEWEST_TO_SWEEP, 2 * len(self._full_at))


class RateLimits:
    """The rate limits of keys, tenants, and clients without a valid key."""

    def __init__(
        self,
        per_key: Rate,
        per_tenant: Rate,
        per_address: Rate,
        clock_ns: ClockNs = time.monotonic_ns,
    ) -> None:
        self._rates = {"key": per_key, "tenant": per_tenant, "global": per_address}
        self._keys = Buckets(per_key)
        self._tenants = Buckets(per_tenant)
        self._addresses = Buckets(per_address)
        self._clock_ns = clock_ns

    def divide(self, hosts: int) -> None:
        """Share the rates with other hosts, each of which counts for itself."""
        for buckets in (self._keys, self._tenants, self._addresses):
            buckets.divide(hosts)

    def take(self, key_id: str, tenant: str) -> None:
        """Count a request; raises `ApiError` 429 without counting if it is too many."""
        now = self._clock_ns()
        waits = {
            "key": self._keys.wait_ns(key_id, now),
            "tenant": self._tenants.wait_ns(tenant, now),
        }
        longest = max(waits, key=waits.__getitem__)
        if waits[longest]:
            raise self._too_many(longest, waits[longest])
        self._keys.take(key_id, now)
        self._tenants.take(tenant, now)

    def take_address(self, address: str) -> None:
        """Count a request without a valid key; raises `ApiError` 429 if it is too many."""
        now = self._clock_ns()
        client = _client(address)
        if wait := self._addresses.wait_ns(client, now):
            raise self._too_many("global", wait)
        self._addresses.take(client, now)

    def _too_many(self, scope: str, wait_ns: int) -> ApiError:
        rate = self._rates[scope]
        message = f"more than {rate.per_second:g} requests per second; retry later"
        return _rate_limited(message, scope, rate.per_second, wait_ns)


class ConcurrencyLimit:
    """A limit on what happens at the same time, in total and per tenant.

    It is used on the event loop's thread only.
    """

    def __init__(self, things: str, most: int, most_per_tenant: int) -> None:
        self._things = things  # "requests", "streams": for messages
        self._most = most
        self._most_per_tenant = most_per_tenant
        self._held = 0
        self._held_by_tenant: dict[str, int] = {}

    @property
    def held(self) -> int:
        """How many there are in total."""
        return self._held

    def held_by(self, tenant: str) -> int:
        """How many a tenant has."""
        return self._held_by_tenant.get(tenant, 0)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Count one in total; raises `ApiError` 503 at the limit."""
        if self._held >= self._most:
            message = f"the host has reached its limit of {self._things} at once; retry later"
            raise unavailable(message, BUSY_SECONDS)
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1

    @contextmanager
    def hold_for(self, tenant: str) -> Iterator[None]:
        """Count one for a tenant; raises `ApiError` 429 at the limit."""
        if self.held_by(tenant) >= self._most_per_tenant:
            message = f"more than {self._most_per_tenant} {self._things} at once; retry later"
            wait = BUSY_SECONDS * _SECOND_NS
            raise _rate_limited(message, "tenant", self._most_per_tenant, wait)
        self._held_by_tenant[tenant] = self.held_by(tenant) + 1
        try:
            yield
        finally:
            self._held_by_tenant[tenant] -= 1
            if not self._held_by_tenant[tenant]:
                del self._held_by_tenant[tenant]


def too_heavy(reason: str) -> ApiError:
    """The refusal of a body that is not even parsed."""
    return _bad_body("$", reason)


def parse_body(body: bytes, max_depth: int = MAX_DEPTH) -> Any:
    """The JSON value of a request body; raises `ApiError` 400 for anything else.

    Also refused: what parsers could read differently, and what cannot be encoded again.
    """
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise _bad_body("$", f"byte {error.start} is not valid UTF-8; send UTF-8") from None
    heavy = burden(body, MOST_VALUES)
    if heavy is not None:
        raise too_heavy(heavy)
    try:
        value = parse(body)
    except NotJson as error:
        reason = "unpaired surrogate escape" if _has_surrogate(body) else error.reason
        raise _bad_body(error.path, f"{reason}; send one JSON value") from None
    fault = _find_fault([value], max_depth + 1)
    if fault is not None:
        raise _bad_body(reduce(child, fault.keys[1:], "$"), fault.reason)
    key = repeated_key(body)
    if key is not None:
        raise _bad_body("$", f"duplicate key {key[:LONGEST_QUOTE]!r}; send it once")
    return value


class _Fault(NamedTuple):
    keys: tuple[str | int, ...]  # the path to it
    reason: str


def _find_fault(container: dict[str, Any] | list[Any], levels: int) -> _Fault | None:
    """The first fault in a value; with little work per part, as a body may have many."""
    if not levels:
        return _Fault((), "nested too deeply; send a flatter value")
    members = container.items() if isinstance(container, dict) else enumerate(container)
    for key, member in members:
        kind = type(member)
        fault = None
        if kind is dict or kind is list:
            fault = _find_fault(member, levels - 1)
        elif kind is int and not _LEAST <= member <= _GREATEST:
            fault = _Fault((), "an integer must fit into 64 bits; send it as a string")
        if fault is not None:
            return _Fault((key, *fault.keys), fault.reason)
    return None


def _has_surrogate(body: bytes) -> bool:
    try:
        json.dumps(json.loads(body), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    except (ValueError, RecursionError):
        return False
    return False


def _bad_body(path: str, reason: str) -> ApiError:
    path = path if len(path) <= LONGEST_QUOTE else f"{path[:LONGEST_QUOTE]}…"
    return ApiError(400, "validation_error", f"body, {path}: {reason}", {"path": path})


def _rate_limited(message: str, scope: str, limit: float, wait_ns: int) -> ApiError:
    seconds, milliseconds = -(-wait_ns // _SECOND_NS), -(-wait_ns // _MS_NS)
    details = {"retryAfterMs": milliseconds, "scope": scope, "limit": limit}
    return ApiError(429, "rate_limited", message, details, {"Retry-After": str(seconds)})


def _client(address: str) -> str:
    """The client behind an address: in IPv6 a client usually has a /64 network."""
    if ":" not in address:
        return address
    try:
        parsed = ipaddress.IPv6Address(address)
    except ValueError:
        return address
    if parsed.ipv4_mapped:
        return str(parsed.ipv4_mapped)
    return parsed.packed[:8].hex()

"""Limits: requests per second and at once, bytes in memory, turns on the loop, request bodies."""

import asyncio
import ipaddress
import itertools
import json
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import reduce
from heapq import heappop, heappush
from typing import Any, NamedTuple

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

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
MIB = 1024 * 1024
MOST_UNREAD = 256 * MIB
MOST_UNREAD_PER_TENANT = 64 * MIB
MOST_BODIES = 128 * MIB
MOST_BODIES_PER_TENANT = 32 * MIB  # parsed they may take ten times as much
LONG = 64 * 1024  # shorter responses are sent uncounted
PAGES_PER_ROUND = 8
SLICES_PER_ROUND = 1
REQUESTS_PER_ROUND = 16
SHAPES_PER_ROUND = 1
CREDIT = 8  # turns that a new or idle share may have before it waits for the others

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

    def count(self, name: str, now: int) -> None:
        """Count a request, for which `wait_ns` must be 0."""
        full_at = max(self._full_at.pop(name, now), now) + self._interval
        if len(self._full_at) >= min(self._sweep_at, self._most):
            self._full_at = {each: at for each, at in self._full_at.items() if at > now}
            # Half of the room must be free afterwards: a sweep per request would take too long.
            for oldest in list(self._full_at)[: max(0, len(self._full_at) - self._most // 2)]:
                del self._full_at[oldest]
            self._sweep_at = max(FEWEST_TO_SWEEP, 2 * len(self._full_at))
        self._full_at[name] = full_at  # at the end of the order: forgotten last


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

    def count(self, key_id: str, tenant: str) -> None:
        """Count a request; raises `ApiError` 429 without counting if it is too many."""
        now = self._clock_ns()
        waits = {
            "key": self._keys.wait_ns(key_id, now),
            "tenant": self._tenants.wait_ns(tenant, now),
        }
        longest = max(waits, key=waits.__getitem__)
        if waits[longest]:
            raise self._too_many(longest, waits[longest])
        self._keys.count(key_id, now)
        self._tenants.count(tenant, now)

    def count_address(self, address: str) -> None:
        """Count a request without a valid key; raises `ApiError` 429 if it is too many."""
        now, client = self._clock_ns(), _client(address)
        if wait := self._addresses.wait_ns(client, now):
            raise self._too_many("global", wait)
        self._addresses.count(client, now)

    def _too_many(self, scope: str, wait_ns: int) -> ApiError:
        rate = self._rates[scope]
        message = f"more than {rate.per_second:g} requests per second; retry later"
        return _rate_limited(message, scope, rate.per_second, wait_ns)


def _client(address: str) -> str:
    """The client behind an address: in IPv6 a client usually has a /64 network."""
    try:
        parsed = ipaddress.IPv6Address(address)
    except ValueError:
        return address
    return str(parsed.ipv4_mapped) if parsed.ipv4_mapped else parsed.packed[:8].hex()


def _rate_limited(message: str, scope: str, limit: float, wait_ns: int) -> ApiError:
    seconds, milliseconds = -(-wait_ns // _SECOND_NS), -(-wait_ns // _MS_NS)
    details = {"retryAfterMs": milliseconds, "scope": scope, "limit": limit}
    return ApiError(429, "rate_limited", message, details, {"Retry-After": str(seconds)})


# At the same time.


@contextmanager
def _counted(counts: dict[str, int], tenant: str, size: int) -> Iterator[None]:
    counts[tenant] = counts.get(tenant, 0) + size
    try:
        yield
    finally:
        counts[tenant] -= size
        if not counts[tenant]:
            del counts[tenant]


class ConcurrencyLimit:
    """A limit on what happens at the same time, in total and per tenant.

    It is used on the event loop's thread only.
    """

    def __init__(self, things: str, most: int, most_per_tenant: int) -> None:
        self.held = 0
        self._things = things  # "requests", "streams": for messages
        self._most = most
        self._most_per_tenant = most_per_tenant
        self._held_by_tenant: dict[str, int] = {}

    def held_by(self, tenant: str) -> int:
        return self._held_by_tenant.get(tenant, 0)

    @contextmanager
    def hold(self, tenant: str | None = None) -> Iterator[None]:
        """Count one in total and for a tenant; raises `ApiError` 503 or 429 at the limit."""
        if self.held >= self._most:
            message = f"the host has reached its limit of {self._things} at once; retry later"
            raise unavailable(message, BUSY_SECONDS)
        self.held += 1
        try:
            with nullcontext() if tenant is None else self.hold_for(tenant):
                yield
        finally:
            self.held -= 1

    @contextmanager
    def hold_for(self, tenant: str) -> Iterator[None]:
        if self.held_by(tenant) >= self._most_per_tenant:
            message = f"more than {self._most_per_tenant} {self._things} at once; retry later"
            wait = BUSY_SECONDS * _SECOND_NS
            raise _rate_limited(message, "tenant", self._most_per_tenant, wait)
        with _counted(self._held_by_tenant, tenant, 1):
            yield


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
        self.held = 0
        self._held_by_tenant: dict[str, int] = {}

    @contextmanager
    def hold(self, tenant: str, size: int) -> Iterator[None]:
        """Count bytes; raises `ApiError` 429 or 503 if others have to be read first.

        One response at a time is always allowed, however long it is.
        """
        self.check(tenant, size)
        self.held += size
        try:
            with _counted(self._held_by_tenant, tenant, size):
                yield
        finally:
            self.held -= size

    def check(self, tenant: str, size: int) -> None:
        """Raise as `hold` does, before a response of about this length is made."""
        mine, retry = self._held_by_tenant.get(tenant, 0), {"Retry-After": str(BUSY_SECONDS)}
        if mine and mine + size > self._most_per_tenant:
            details = {"retryAfterMs": BUSY_SECONDS * 1000, "scope": "tenant"}
            message = f"more than {self._most_per_tenant} bytes of {self._things}; {self._remedy}"
            raise ApiError(429, "rate_limited", message, details, retry)
        if self.held and self.held + size > self._most:
            message = f"too many {self._things}; retry later"
            details = {"retryAfter": BUSY_SECONDS}
            raise ApiError(503, "service_unavailable", message, details, retry)

    def counted(self, response: Response, tenant: str) -> Response:
        """The response, counted until it is sent if it is long; raises as `hold` does."""
        if type(response) is not Response or len(response.body) <= LONG:
            return response
        held = ExitStack()
        held.enter_context(self.hold(tenant, len(response.body)))
        return _BudgetedResponse(response, held)


class _BudgetedResponse(Response):
    """A long response, which counts until it is read."""

    def __init__(self, response: Response, held: ExitStack) -> None:
        super().__init__(response.body, response.status_code, response.headers)
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        start = {"status": self.status_code, "headers": self.raw_headers}
        with self._held:
            await send({"type": "http.response.start", **start})
            await send_and_wait(send, bytes(self.body), more=False)


async def send_and_wait(send: Send, body: bytes, *, more: bool) -> None:
    """Send part of a response, and wait until most of it is read or the client is gone.

    The server accepts the first part at once, and waits before it accepts the next.
    """
    await send({"type": "http.response.body", "body": body, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": more})


# Turns on the event loop.


class Share:
    """What one run, or one stream, gets of the event loop."""

    __slots__ = ("_order", "taken", "tenant", "waiting")

    def __init__(self, tenant: str, order: int) -> None:
        self.tenant = tenant
        self.taken = 0  # turns, counted as if it had been there from the beginning
        self.waiting: deque[asyncio.Future[None]] = deque()
        self._order = order

    def __lt__(self, other: "Share") -> bool:
        """Whether it is this one's turn before the other's; new ones come first."""
        return (self.taken, -self._order) < (other.taken, -other._order)


class FairSchedule:
    """Turns on the event loop for those who have much to do there, one before each piece of work.

    In each round of the loop only a few are given, so that requests never wait for long. Tenants
    take turns, and among the runs or streams of a tenant the one that has had the fewest is next.
    """

    def __init__(self, per_round: int) -> None:
        self._per_round = per_round
        self._orders = itertools.count()
        self._reached: dict[str, int] = {}  # by tenant: how many turns the last share has had
        self._waiting: dict[str, list[Share]] = {}  # heaps by tenant; the first tenant is the next
        self._is_giving = False

    def new_share(self, tenant: str) -> Share:
        return Share(tenant, next(self._orders))

    async def wait(self, share: Share) -> None:
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        if not share.waiting:
            # Of the turns that it did not ask for while it had nothing to do, few are made up for.
            share.taken = max(share.taken, self._reached.get(share.tenant, 0) - CREDIT)
            heappush(self._waiting.setdefault(share.tenant, []), share)
        share.waiting.append(turn)
        if not self._is_giving:
            self._is_giving = True
            loop.call_soon(self._give, loop)
        await turn

    def _give(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give the turns of one round; the next are given when the loop has seen to the rest."""
        given = 0
        while given < self._per_round and self._waiting:
            tenant = next(iter(self._waiting))
            shares = self._waiting.pop(tenant)
            share = heappop(shares)
            turn = share.waiting.popleft()
            if not turn.done():  # else who waited has left
                self._reached[tenant] = max(share.taken, self._reached.get(tenant, 0))
                share.taken += 1
                given += 1
                turn.set_result(None)
            if share.waiting:
                heappush(shares, share)
            if shares:
                self._waiting[tenant] = shares  # behind the other tenants
        self._is_giving = bool(self._waiting)
        if self._is_giving:
            loop.call_soon(self._give, loop)


class Arrivals:
    """Requests that begin; when very many come at the same moment, tenants take turns."""

    def __init__(self, per_round: int = REQUESTS_PER_ROUND) -> None:
        self._per_round = per_round
        self._schedule = FairSchedule(per_round)
        self._begun = 0  # in this round of the loop

    async def enter(self, tenant: str) -> None:
        """Begin a request, at once unless many have begun in this round."""
        self._begun += 1
        if self._begun == 1:
            asyncio.get_running_loop().call_soon(self._end_round)
        elif self._begun > self._per_round:
            await self._schedule.wait(self._schedule.new_share(tenant))

    def _end_round(self) -> None:
        self._begun = 0


# Request bodies.


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
    except (ValueError, RecursionError) as error:
        return isinstance(error, UnicodeEncodeError)
    return False


def _bad_body(path: str, reason: str) -> ApiError:
    path = path if len(path) <= LONGEST_QUOTE else f"{path[:LONGEST_QUOTE]}…"
    return ApiError(400, "validation_error", f"body, {path}: {reason}", {"path": path})

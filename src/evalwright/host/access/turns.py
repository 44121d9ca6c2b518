"""Turns on the event loop: those who have much to do there ask for one before each piece of work.

In each round of the loop only a few turns are given, so that requests never wait for long. Tenants
take turns, and among the runs or streams of a tenant the one that has had the fewest is next.
"""

import asyncio
from collections import deque
from heapq import heappop, heappush
from itertools import count

PAGES_PER_ROUND = 8
SLICES_PER_ROUND = 1
REQUESTS_PER_ROUND = 16
SHAPES_PER_ROUND = 1
CREDIT = 8  # turns that a new or idle share may have before it waits for the others


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


class Turns:
    """The turns of one event loop."""

    def __init__(self, per_round: int) -> None:
        self._per_round = per_round
        self._orders = count()
        self._reached: dict[str, int] = {}  # by tenant: how many turns the last share has had
        self._waiting: dict[str, list[Share]] = {}  # heaps by tenant; the first tenant is the next
        self._is_giving = False

    def new_share(self, tenant: str) -> Share:
        """A share of a tenant."""
        return Share(tenant, next(self._orders))

    async def take(self, share: Share) -> None:
        """Wait for a turn."""
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
            given += self._give_one()
        self._is_giving = bool(self._waiting)
        if self._is_giving:
            loop.call_soon(self._give, loop)

    def _give_one(self) -> bool:
        tenant = next(iter(self._waiting))
        shares = self._waiting.pop(tenant)
        share = heappop(shares)
        turn = share.waiting.popleft()
        has_left = turn.done()
        if not has_left:
            self._reached[tenant] = max(share.taken, self._reached.get(tenant, 0))
            share.taken += 1
            turn.set_result(None)
        if share.waiting:
            heappush(shares, share)
        if shares:
            self._waiting[tenant] = shares  # behind the other tenants
        return not has_left


class Arrivals:
    """Requests that begin; when very many come at the same moment, tenants take turns."""

    def __init__(self, per_round: int = REQUESTS_PER_ROUND) -> None:
        self._per_round = per_round
        self._turns = Turns(per_round)
        self._begun = 0  # in this round of the loop

    async def enter(self, tenant: str) -> None:
        """Begin a request, at once unless many have begun in this round."""
        self._begun += 1
        if self._begun == 1:
            asyncio.get_running_loop().call_soon(self._end_round)
        elif self._begun > self._per_round:
            await self._turns.take(self._turns.new_share(tenant))

    def _end_round(self) -> None:
        self._begun = 0

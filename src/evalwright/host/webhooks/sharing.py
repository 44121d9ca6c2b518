"""Webhooks of several hosts: the leader delivers, and all hosts can change what is delivered."""

import asyncio
import logging
from collections.abc import Sequence

from evalwright.contracts.errors import StoreError
from evalwright.host.hosts import Hosts
from evalwright.host.webhooks.delivery import NEWS, WebhookSender

LOOK_SECONDS = 10.0  # between two looks at everything, whatever was heard
TOGETHER_SECONDS = 0.05  # in which news wait for more

_log = logging.getLogger(__name__)


class SharedWebhooks:
    """Keeps the webhooks of this host in line with what other hosts do; used on one event loop."""

    def __init__(self, sender: WebhookSender, hosts: Hosts) -> None:
        self._sender = sender
        self._hosts = hosts
        self._was_leader = hosts.is_leader
        self._is_changed = False  # subscriptions or dead letters, or perhaps anything
        self._runs: dict[str, None] = {}  # to which others have appended
        self._came = asyncio.Event()

    def hear(self, run_ids: Sequence[str] | None) -> None:
        """Take note of what other processes tell."""
        if run_ids is None or NEWS in run_ids:
            self._is_changed = True
        self._runs.update(dict.fromkeys(run_ids or ()))
        self._came.set()

    async def beaten(self) -> None:
        """Begin or cease to deliver, when this host becomes the leader or is it no longer."""
        is_leader = self._hosts.is_leader
        if is_leader is self._was_leader:
            return
        self._was_leader = is_leader
        if is_leader:
            self.hear(None)
        else:
            await self._sender.leave()

    async def run(self) -> None:
        """Follow the other hosts."""
        loop = asyncio.get_running_loop()
        looked_at = loop.time()
        while not self._hosts.is_alone:
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._came.wait()
                await asyncio.sleep(TOGETHER_SECONDS)
            except TimeoutError:
                pass
            self._came.clear()
            self._is_changed |= loop.time() - looked_at > LOOK_SECONDS
            looked_at = loop.time() if self._is_changed else looked_at
            try:
                await self._look()
            except StoreError as error:
                _log.warning("the webhooks of other hosts are not followed: %s", error)

    async def _look(self) -> None:
        runs, self._runs = self._runs, {}
        is_changed, self._is_changed = self._is_changed, False
        runs.pop(NEWS, None)
        if is_changed:
            await self._sender.follow_others()
        elif runs:
            await self._sender.hear_of(list(runs))

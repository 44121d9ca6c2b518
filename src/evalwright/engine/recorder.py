"""Recording: payloads get a time and go to the log."""

import asyncio
from collections.abc import Callable

import msgspec

from evalwright.contracts.events import Payload
from evalwright.engine.clock import Clock
from evalwright.store.protocol import EventLog, NewEvent

MAX_BACKLOG = 4096  # appends that may wait for the disk before the run waits with them


class Recorder:
    """Writes the events of one run; safe to use from an agent's thread."""

    def __init__(self, log: EventLog, run_id: str, clock: Clock) -> None:
        self.run_id = run_id
        self._log = log
        self._clock = clock
        self._encode = msgspec.json.Encoder().encode

    def record(self, task_id: str | None, *payloads: Payload) -> None:
        """Append payloads as one unit, in order."""
        now, encode = self._clock.now_us(), self._encode
        events = [NewEvent(payload.TYPE, task_id, now, encode(payload)) for payload in payloads]
        self._log.append(self.run_id, events)

    def for_task(self, task_id: str) -> Callable[[Payload], None]:
        """A function that records one payload under a task."""
        return lambda payload: self.record(task_id, payload)

    def copy(self, events: list[NewEvent]) -> None:
        """Append recorded facts as they are, at the present time."""
        now = self._clock.now_us()
        self._log.append(self.run_id, [event._replace(at_us=now) for event in events])

    async def keep_pace(self) -> None:
        """Wait for the disk when too much is queued."""
        if self._log.backlog > MAX_BACKLOG:
            await self.flush()

    async def flush(self) -> None:
        """Wait until everything recorded is durable."""
        await asyncio.wrap_future(self._log.flush(self.run_id))

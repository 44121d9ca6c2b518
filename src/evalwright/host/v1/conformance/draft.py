"""A run that is written all at once."""

import asyncio

from evalwright.contracts.events import Payload
from evalwright.contracts.redaction import Redactor
from evalwright.engine.clock import Clock
from evalwright.engine.recorder import Recorder
from evalwright.store.protocol import EventLog, NewEvent


class Draft(Recorder):
    """Holds the events of a run back until it is complete."""

    def __init__(self, log: EventLog, run_id: str, clock: Clock, redactor: Redactor) -> None:
        super().__init__(log, run_id, clock, redactor)
        self.held: list[NewEvent] = []

    def record(self, task_id: str | None, *payloads: Payload) -> None:
        """Keep payloads, in order."""
        self.held += self._events(task_id, payloads)

    async def write(self) -> None:
        """Write everything as one unit."""
        self._log.append(self.run_id, self.held)
        await asyncio.wrap_future(self._log.flush(self.run_id))

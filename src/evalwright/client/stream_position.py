"""A place in the stream of a run: what to ask for next, and whether there is more to come."""

import time
from collections.abc import Callable
from typing import Literal

import msgspec

from evalwright.client.errors import HostError, Unreachable
from evalwright.client.exchange import HostRequest, get, quoted
from evalwright.client.responses import ENDED, RunEvent, Status
from evalwright.client.retry_policy import Attempts, Failure, Retries
from evalwright.client.sse import FrameParser, FrameTooLong
from evalwright.contracts.errors import CannotEvaluate, RunFailed
from evalwright.contracts.events import TERMINAL_TYPES, RunFailure

StreamMode = Literal["updates", "messages", "debug"]
NOTICE = "run.annotated"  # sent to followers, and not in the log
SILENCE_S = 60.0  # after which a stream is taken for dead; hosts send a sign of life twice as often


class StreamPosition:
    """The events of a run, over as many connections as it takes; none is lost or repeated."""

    def __init__(
        self,
        run_id: str,
        mode: StreamMode,
        after: int | None,
        retries: Retries,
        *,
        timeout_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._is_over = False
        self.run_id = run_id
        self._mode = mode
        self._after = after
        self._attempts = Attempts(retries)
        self._clock = clock
        self._timeout_s = timeout_s
        self._deadline = None if timeout_s is None else clock() + timeout_s
        self._parser = FrameParser()
        self._has_ended = False  # the run, by what the host says

    def is_over(self) -> bool:
        """Whether all events have been received."""
        return self._is_over

    def request(self) -> HostRequest:
        """Ask for what comes after the last event that was seen."""
        self._parser = FrameParser()
        asked = get(f"/v1/runs/{quoted(self.run_id)}/events", {"streamMode": self._mode})
        headers = {"Accept": "text/event-stream"}
        if self._after is not None:
            headers["Last-Event-ID"] = str(self._after)
        return msgspec.structs.replace(asked, headers=headers)

    def patience_s(self) -> float:
        """How long to wait for the next sign of life; raises `TimeoutError` when time is up."""
        if self._deadline is None:
            return SILENCE_S
        left = self._deadline - self._clock()
        if left <= 0:
            raise TimeoutError(
                f"run {self.run_id} has not ended within {self._timeout_s:g} s; it goes on"
            )
        return min(left, SILENCE_S)

    def feed(self, chunk: bytes) -> list[RunEvent]:
        """The events that these bytes complete."""
        try:
            events = [
                msgspec.json.decode(frame.data, type=RunEvent) for frame in self._parser.feed(chunk)
            ]
        except (FrameTooLong, msgspec.DecodeError, UnicodeDecodeError) as error:
            message = f"the stream of run {self.run_id} cannot be read: {error}"
            raise HostError(200, "unexpected_answer", message) from None
        return [event for event in events if self._is_new(event)]

    def _is_new(self, event: RunEvent) -> bool:
        if event.type == NOTICE:
            return True
        if self._after is not None and event.sequence <= self._after:
            return False
        self._attempts.succeeded()
        self._after = event.sequence
        self._is_over = event.type in TERMINAL_TYPES
        return True

    def wait_after(self, failure: Failure) -> float:
        """Seconds until the stream is asked for again; raises the failure where it is of no use."""
        self.patience_s()
        wait = self._attempts.wait_after(failure)
        if wait is None:
            raise failure
        return wait

    def closed(self, status: Status) -> float:
        """Judge a stream that was closed properly, by the state of the run on the host.

        A stream that was opened after the run had ended is complete. Any other may have been
        closed because the host is being stopped.
        """
        if self._has_ended:
            self._is_over = True
            return 0.0
        if status in ENDED:
            self._has_ended = True
            return 0.0
        return self.wait_after(Unreachable(f"the host ends the stream of run {self.run_id}"))


def check_end(run_id: str, last: RunEvent | None) -> None:
    """Raise unless a run came to its end with a result."""
    if last is None or last.type == RunFailure.TYPE:
        error = last.decode(RunFailure).error if last else None
        code, message = (error.code, error.message) if error else ("unknown", "it has no events")
        raise RunFailed(run_id, code, message)
    if last.type != "run.completed":
        raise CannotEvaluate(f"run {run_id} was cancelled; it has no result")

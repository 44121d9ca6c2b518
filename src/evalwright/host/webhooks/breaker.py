"""A circuit breaker: a receiver that keeps failing is left alone for a while."""

FAILURES_TO_OPEN = 4
OPEN_S = 3600.0


class Breaker:
    """Opens after failures in a row; after a while it lets one try through, which decides.

    It is for one delivery at a time, so the try after the pause is alone by itself.
    """

    def __init__(self) -> None:
        self._failures = 0
        self._opened_at: float | None = None

    @property
    def is_untroubled(self) -> bool:
        """Whether the last delivery succeeded: nothing would be lost with this breaker."""
        return self._failures == 0

    def allows(self, now_s: float) -> bool:
        """Whether a delivery may be tried now."""
        return self._opened_at is None or now_s - self._opened_at >= OPEN_S

    def note_success(self) -> None:
        """Close, and count from zero."""
        self._failures, self._opened_at = 0, None

    def note_failure(self, now_s: float) -> None:
        """Count a failure; open, or stay open for another while, when it was one too many."""
        self._failures += 1
        if self._failures >= FAILURES_TO_OPEN:
            self._opened_at = now_s

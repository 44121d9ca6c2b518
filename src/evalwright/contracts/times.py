"""Times as the wire writes them."""

from datetime import UTC, datetime


def iso_time(at_us: int) -> str:
    """Microseconds since the epoch as an RFC 3339 time in UTC."""
    moment = datetime.fromtimestamp(at_us // 1_000_000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at_us % 1_000_000:06d}Z"

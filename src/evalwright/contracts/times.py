"""Times as the wire writes them."""

from datetime import UTC, datetime, timedelta

_UNITS = (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def iso_time(at_us: int) -> str:
    """Microseconds since the epoch as an RFC 3339 time in UTC."""
    moment = datetime.fromtimestamp(at_us // 1_000_000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at_us % 1_000_000:06d}Z"


def span_in_words(seconds: int) -> str:
    """A time span in its largest whole unit: 3 days."""
    for unit, size in _UNITS:
        if seconds >= size:
            count = seconds // size
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return "0 seconds"


def microseconds(time: str) -> int:
    """The same backwards; 0 for what is not a time."""
    try:
        moment = datetime.fromisoformat(time)
        return (moment.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError):
        return 0

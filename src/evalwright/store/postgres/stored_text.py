"""Texts as PostgreSQL keeps them: by the order of code points, and without null characters."""

_LAST_CHARACTER = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)  # which no text holds


def storable(text: str) -> str:
    """The text with other characters for null characters, which keep prefixes and order."""
    if "\0" in text or "\1" in text:
        return text.replace("\1", "\1\2").replace("\0", "\1\1")
    return text


def restored(text: str) -> str:
    """The text that was made storable."""
    if "\1" in text:
        return text.replace("\1\1", "\0").replace("\1\2", "\1")
    return text


def end_of_prefix(prefix: str) -> str | None:
    """The least text after all that begin with a prefix; None if there is none."""
    while prefix:
        following = ord(prefix[-1]) + 1
        if following <= _LAST_CHARACTER:
            return prefix[:-1] + chr(0xE000 if following in _SURROGATES else following)
        prefix = prefix[:-1]
    return None

"""Addresses and links in texts: what they point at, and what data they carry."""

import re
from collections.abc import Iterator

import msgspec
import re2

MOST_LINKS = 50
_LINK = re2.compile(r"""(!\[[^\]\n]*\]\(\s*)?(\bhttps?://[^\s<>"'`\\)\]}|]+)""")
_EMAIL = re2.compile(r"(?i)^[a-z0-9._%+'-]{1,64}@[a-z0-9.-]{1,190}\.[a-z]{2,24}$")
# The same of ASCII, which is matched sooner: its lengths take RE2 many states.
_PLAIN_EMAIL = re.compile(r"[A-Za-z0-9._%+'-]{1,64}@[A-Za-z0-9.-]{1,190}\.[A-Za-z]{2,24}")
_ACCOUNT = re2.compile(
    r"(?i)^[a-z]{2}\d{2}(?: ?[a-z0-9]){10,30}$|^\+\d[\d ()-]{6,20}\d$|^\d{8,20}$"
)
_BLOB = re2.compile(r"^[A-Za-z0-9+/_=%.-]{24,}$")


class Link(msgspec.Struct, frozen=True):
    """A URL in a text. An `image` is fetched without anybody clicking on it."""

    url: str
    image: bool

    @property
    def host(self) -> str:
        """The host in lower case, without credentials, port and `www.`."""
        authority = self.url.partition("://")[2].partition("/")[0].partition("?")[0]
        return authority.rpartition("@")[2].partition(":")[0].lower().removeprefix("www.")

    @property
    def carried(self) -> list[str]:
        """The values of the query string."""
        query = self.url.partition("?")[2].partition("#")[0]
        return [part.partition("=")[2] or part for part in query.split("&") if part][:50]

    @property
    def shown(self) -> str:
        """The URL without its query, which may carry what must not be shown."""
        bare, mark, _ = self.url.partition("?")
        return bare[:200].rpartition("@")[2] + ("?…" if mark else "")


def links_in(text: str) -> Iterator[Link]:
    """The links of a text, in order, each once."""
    if "://" not in text:
        return
    seen = set()
    for image, url in _LINK.findall(text)[:MOST_LINKS]:
        trimmed = url.rstrip(".,;:!?*_~")
        if trimmed not in seen:
            seen.add(trimmed)
            yield Link(trimmed, bool(image))


def is_email(value: str) -> bool:
    """Whether a value is one e-mail address."""
    if "@" not in value:
        return False
    same = _PLAIN_EMAIL.fullmatch(value) if value.isascii() else _EMAIL.search(value)
    return same is not None


def is_address(value: str) -> bool:
    """Whether a value is an e-mail address, a URL, an account or a telephone number."""
    if not 6 <= len(value) <= 300:
        return False
    if "://" in value[:10]:
        return True
    if "@" in value:
        return is_email(value)
    # looked at first, for it spares the search in almost all values
    may_be = value[0] == "+" or value[2:4].isdigit()
    return may_be and _ACCOUNT.search(value) is not None


def is_blob(value: str) -> bool:
    """Whether a value of a query string looks like encoded data."""
    return _BLOB.search(value) is not None

"""Large parts of events that are kept once: found in a body, cut out of it, and joined again.

Cutting is about bytes only. Whatever part is cut, joining gives the same bytes again, and nothing
that a body says can be taken for a part: that a part is missing is said beside the body.
"""

import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from evalwright.contracts.errors import DamagedEventLog

SHARED_BYTES = 4096  # parts from this size on are kept once
FRAME_EVENTS = 8  # only what a run begins with has parts that other runs have too
MOST_CACHED_BYTES = 32 * 1024 * 1024


Key = TypeVar("Key")  # of a part


class Part(NamedTuple):
    """A part of a body that is kept once, and the rest of the body."""

    rest: bytes
    at: int
    body: bytes


def cut(body: bytes) -> Part | None:
    """Cut the largest value of an object out of it, if that is large: the suite of a plan.

    A damaged body, which an old log may hold, stays as it is.
    """
    try:
        values = msgspec.json.decode(body, type=dict[str, msgspec.Raw]).values()
        body.decode()  # parts that are not looked at may hold anything
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
    largest = max(map(bytes, values), key=len, default=b"")
    if len(largest) < SHARED_BYTES:
        return None
    at = body.find(largest[:64])  # the place, as a rule, at a fraction of the cost
    if not body.startswith(largest, at):
        at = body.index(largest)
    return Part(body[:at] + body[at + len(largest) :], at, largest)


def keep(connection: sqlite3.Connection, part: Part) -> int:
    """The number of a part, which is written if it is not there yet."""
    digest = sha256(part.body).digest()
    found = connection.execute("SELECT content FROM contents WHERE sha256 = ?", (digest,))
    row = found.fetchone()
    if row is not None:
        return int(row[0])
    statement = "INSERT INTO contents (sha256, body) VALUES (?, ?)"
    return connection.execute(statement, (digest, part.body.decode())).lastrowid or 0


def join(rest: bytes, at: int, part: bytes) -> bytes:
    """The body that a part was cut out of."""
    return rest[:at] + part + rest[at:]


def read_part(query: Callable[[str, Sequence[int]], list[Any]], place: str, content: int) -> bytes:
    """A part of events in a log, by its number."""
    rows = query("SELECT CAST(body AS BLOB) FROM contents WHERE content = ?", (content,))
    if not rows:
        raise DamagedEventLog(f"{place}: a part of an event is missing")
    return bytes(rows[0][0])


class ContentCache(Generic[Key]):
    """Parts that were read a short time ago; a part never changes, and its key is not reused."""

    def __init__(self, read: Callable[[Key], bytes]) -> None:
        self._read = read
        self._using = threading.Lock()
        self._parts: OrderedDict[Key, bytes] = OrderedDict()
        self._bytes = 0

    def get(self, content: Key) -> bytes:
        with self._using:
            part = self._parts.pop(content, None)
            if part is None:
                part = self._read(content)
                self._bytes += len(part)
            self._parts[content] = part  # the last to be let go
            while self._bytes > MOST_CACHED_BYTES and len(self._parts) > 1:
                self._bytes -= len(self._parts.popitem(last=False)[1])
            return part

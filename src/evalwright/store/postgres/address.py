"""The address of a PostgreSQL database: how it is shown, and what its errors mean."""

import asyncio
import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from evalwright.contracts.errors import (
    BadInput,
    MissingExtra,
    StoreError,
    StoreUnavailable,
)
from evalwright.contracts.messages import Text, phrase
from evalwright.store.location import Faults
from evalwright.store.postgres.schema import ROLE

if TYPE_CHECKING:
    from asyncpg import Connection

CONNECT_SECONDS = 10.0

# Whatever the size of a table, its rows are found by an index. A plan that was made while the table
# was empty would scan it later, too.
_SETTINGS = {
    "application_name": "evalwright",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
    "timezone": "UTC",
    # What a process that vanished has locked is free again soon.
    "idle_in_transaction_session_timeout": "5s",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
}

# A server that vanished without a word is noticed by this side, too, however long a statement may
# take: its machine no longer acknowledges anything. Not every system has all of them.
_SOCKET_OPTIONS = (
    (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
    (socket.IPPROTO_TCP, "TCP_KEEPIDLE", 5),
    (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 2),
    (socket.IPPROTO_TCP, "TCP_KEEPCNT", 3),
    (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", 10_000),  # ms
)

# SQLSTATE classes and codes of what may pass: connections, resources, a server that stops or is
# read-only, deadlocks, locks.
_PASSING_CLASSES = ("08", "53", "57", "58")
_PASSING_CODES = ("25006", "25P03", "40001", "40P01", "55P03", "55006")
_LOST_CLASSES = ("08", "57")
_CANCELLED = "57014"
_READ_ONLY = "25006"
_REMEDIES: dict[str, Text] = {
    "login": (
        "name a user that may write, or let an administrator reset default_transaction_read_only"
        " of the user and of the database"
    ),
    "28000": "check the user; where only TLS is taken, write ?sslmode=require after the address",
    "28": "check the user, and the password in PGPASSWORD, ~/.pgpass or the address",
    "3D": phrase("create the database, or name another one with {@db}"),
    "42P01": phrase("run `evalwright db migrate` with the same {@db}"),
    "42501": (
        "let an administrator run `evalwright db migrate`, and in the database:"
        f" GRANT {ROLE} TO the user of the address"
    ),
}
_HIDDEN = "postgresql://…"
_ENCODED = "write / ? # @ [ and ] of a password as %2F %3F %23 %40 %5B and %5D, or use PGPASSWORD"

_WHO_SAYS = "SELECT source FROM pg_settings WHERE name = 'default_transaction_read_only'"
_SAID_OF_LOGINS = ("client", "global", "database", "user", "database user")

AFTER_THE_END = "an event must be the next one of a run that has not ended"
_CONSTRAINTS = {
    "one_score_per_task": "the task has its score already",
    "one_end_per_run": AFTER_THE_END,
}


class EventRefused(Exception):
    """The log does not take what was to be written; the message says why."""


class SlowRead(TimeoutError):
    """The server answers, and something that it was asked takes too long; the message says it."""


class ReaderLogin(Exception):
    """Whoever the address names may only read."""

    sqlstate = "login"  # for the table of remedies


def masked(address: str) -> str:
    """The address as it may be shown: without its password and its parameters."""
    place, _, parameters = address.partition("://")[2].partition("?")
    login, at, database = place.rpartition("@")
    if (
        set("/[]") & set(login) or "#" in place or "@" in parameters
    ):  # any of it may be the password's
        return _HIDDEN
    return f"postgresql://{unquote(login.partition(':')[0])}{at}{database}"


async def connect(
    address: str, *, as_login: bool = False, statement_s: float | None = None
) -> "Connection":
    """A connection that has taken the restricted role, unless it is to migrate.

    A statement that has no answer after `statement_s` raises `TimeoutError`.
    """
    asyncpg = driver()
    settings = _SETTINGS if as_login else {**_SETTINGS, "role": ROLE}
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            connection = await asyncpg.connect(
                address,
                server_settings=settings,
                timeout=CONNECT_SECONDS,
                command_timeout=statement_s,
                ssl=None,
            )
    except (asyncpg.ClientConfigurationError, asyncpg.UndefinedObjectError, ValueError) as error:
        shown, why = masked(address), str(error)
        if shown == _HIDDEN:
            why = _ENCODED
        elif "invalid literal for int()" in why:
            why = "the port is not a number"
        raise BadInput(f"{shown}: not an address of PostgreSQL: {why}") from None
    # Have the system find out whether the server is still there.
    link = connection._transport.get_extra_info("socket")  # there is no other way
    if link is not None and link.family in (socket.AF_INET, socket.AF_INET6):
        for level, name, value in _SOCKET_OPTIONS:
            if (option := getattr(socket, name, None)) is not None:
                link.setsockopt(level, option, value)
    return connection


async def refuse_reader(connection: "Connection") -> None:
    """Raise `ReaderLogin` if the login may only read, which does not pass.

    A standby may take over, and what is set for a whole server may be set otherwise soon.
    """
    told = connection.get_settings()
    is_off = getattr(told, "default_transaction_read_only", "off") != "on"
    if is_off or getattr(told, "in_hot_standby", "off") == "on":
        return
    if await connection.fetchval(_WHO_SAYS) in _SAID_OF_LOGINS:
        raise ReaderLogin("the user of the address may only read")


def driver() -> Any:
    """The module that speaks to PostgreSQL, which is in an extra."""
    try:
        import asyncpg
    except ImportError:
        raise MissingExtra(
            "a log in PostgreSQL needs an extra: pip install 'PATH_TO_THE_CLONE[postgres]'"
        ) from None
    return asyncpg


def state(error: BaseException) -> str:
    """The SQLSTATE of what the server said; empty for any other error."""
    return getattr(error, "sqlstate", None) or ""


def may_pass(error: BaseException) -> bool:
    """Whether the same may succeed later."""
    code = state(error)
    if code:
        return code.startswith(_PASSING_CLASSES) or code in _PASSING_CODES
    return isinstance(error, OSError | TimeoutError | EOFError) or _is_lost_in_the_driver(error)


def is_lost(error: BaseException) -> bool:
    """Whether the connection is gone, and nobody knows what the server did last."""
    code = state(error)
    if code:
        return code.startswith(_LOST_CLASSES) and code != _CANCELLED
    return isinstance(error, OSError | TimeoutError | EOFError) or _is_lost_in_the_driver(error)


def is_of_no_use(error: BaseException) -> bool:
    """Whether another connection may succeed, perhaps to the server that has taken over."""
    return is_lost(error) or state(error) == _READ_ONLY


def is_rolled_back(error: BaseException, *, by_itself: bool) -> bool:
    """Whether the server has certainly not done what failed so: a statement, or a transaction."""
    if isinstance(error, ValueError):  # a value that cannot be sent
        return True
    return not is_lost(error) and (bool(state(error)) or not by_itself)


def _is_lost_in_the_driver(error: BaseException) -> bool:
    asyncpg = driver()
    kinds = (asyncpg.InterfaceError, asyncpg.InternalClientError)
    return isinstance(error, kinds) and not isinstance(error, ValueError)


def unavailable(place: str, error: BaseException) -> StoreUnavailable:
    """The error to raise for a log that cannot be used now."""
    reason = _words(error)
    return StoreUnavailable(f"{place}: the event log cannot be used: {reason}", reason)


def explain(place: str, error: BaseException) -> StoreError:
    """The error to raise for a log that cannot be read or written."""
    if isinstance(error, StoreError):
        return error
    if may_pass(error):
        return unavailable(place, error)
    code = state(error)
    remedy = _REMEDIES.get(code) or _REMEDIES.get(code[:2])
    message = "{place}: the event log cannot be used: {error}" + ("; {remedy}" if remedy else "")
    return StoreError(phrase(message, place=place, error=_words(error), remedy=remedy))


def _words(error: BaseException) -> str:
    if isinstance(error, socket.gaierror):
        return f"{error}; check the host in the address"
    if isinstance(error, ConnectionRefusedError):
        return f"{error}; is the server running, and are host and port of the address right?"
    if isinstance(error, TimeoutError) and not isinstance(error, SlowRead):
        return "the server does not answer"
    if "rejected SSL" in str(error):
        return f"{error}; switch TLS on there, or write ?sslmode=disable at the end of the address"
    return str(error) or type(error).__name__


def _blames_the_place(error: Exception) -> bool:
    """Whether the database failed, rather than what was to be written."""
    code = state(error)
    return bool(code) and not code.startswith(("21", "22", "23", "44"))


def _broken_rule(error: Exception) -> str | None:
    if not isinstance(error, EventRefused) and not state(error).startswith("23"):
        return None
    return _CONSTRAINTS.get(getattr(error, "constraint_name", None) or "") or str(error)


FAULTS = Faults(may_pass, unavailable, _blames_the_place, explain, _broken_rule)

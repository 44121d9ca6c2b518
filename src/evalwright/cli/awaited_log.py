"""Opens the log of a process that lasts: a database may start later than what uses it."""

import time
from typing import TYPE_CHECKING

from evalwright.cli.output import in_words, say
from evalwright.cli.parameters import postgres_address
from evalwright.contracts.errors import StoreUnavailable
from evalwright.store.location import Patience, open_log

if TYPE_CHECKING:
    from evalwright.store.protocol import EventLog

START_SECONDS = 60.0  # that a server may take until it is within reach
RETRY_SECONDS = 1.0


def awaited_log(db: str | None, patience: Patience | None = None) -> "EventLog":
    """The log, once the server that keeps it is within reach; a file is opened at once."""
    until = time.monotonic() + (START_SECONDS if postgres_address(db) else 0)
    is_told = False
    while True:
        try:
            return open_log(db, patience)
        except StoreUnavailable as error:
            if time.monotonic() >= until:
                raise
            if not is_told:
                say(f"{in_words(error)}; trying again")
            is_told = True
            time.sleep(RETRY_SECONDS)

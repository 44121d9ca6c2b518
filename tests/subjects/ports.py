"""Ports for servers that are started, or started again, some time after the port was chosen."""

import random
import socket
from contextlib import suppress

BELOW_THE_REST = range(10_000, 32_000)  # systems take those that they hand out from above


def lasting_port() -> int:
    """A free port that nobody is given by chance meanwhile."""
    while True:
        port = random.SystemRandom().choice(BELOW_THE_REST)
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port

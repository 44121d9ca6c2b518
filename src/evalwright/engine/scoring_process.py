"""The process that examines long answers, or suites with templates, each within a deadline.

The system ends it at the deadline, whatever code is at work. It ends by itself when nobody has
anything to examine for a while, and when the other end is closed.
"""

import pickle
import resource
import signal
import sys
from contextlib import suppress
from multiprocessing.connection import Connection

import msgspec

from evalwright.contracts.events import ErrorDetail
from evalwright.engine.examination import Examination, Seen, checks_of, examine
from evalwright.engine.suites.loader import SentSuite

SCORING_FAILED = "scoring_failed"
IDLE_S = 60.0
MOST_KEPT_KB = 512 * 1024  # of memory; with more it ends, as it may not get smaller again


def main(descriptor: int) -> None:
    """Do what comes over a connection until it is closed."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    connection = Connection(descriptor)
    with suppress(EOFError, OSError):
        while connection.poll(IDLE_S):
            work, limit_s = pickle.loads(connection.recv_bytes())  # noqa: S301 - our parent's
            signal.setitimer(signal.ITIMER_REAL, limit_s)
            found = work.lowered() if isinstance(work, SentSuite) else _seen(work)
            answer = msgspec.json.encode(found)
            signal.setitimer(signal.ITIMER_REAL, 0)
            connection.send_bytes(answer)
            if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > MOST_KEPT_KB:
                break


def _seen(portable: Examination) -> Seen:
    try:
        examination = portable.read()
        checks, _ = checks_of(examination.answer.task.expected, examination.enough)
        return examine(examination, checks)
    except Exception as error:  # noqa: BLE001 - its message may hold what a tenant sent
        reason = f"the answer could not be scored: {type(error).__name__}"
        return Seen(error=ErrorDetail(SCORING_FAILED, reason))


if __name__ == "__main__":
    main(int(sys.argv[1]))

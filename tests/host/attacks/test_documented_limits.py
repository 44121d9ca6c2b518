"""The bounds that the page on the host names are those that hold."""

import re
from pathlib import Path

import pytest

from evalwright.agents.http import LONG_ANSWER
from evalwright.contracts.jsonvalue import MOST_EXTREME
from evalwright.engine import scoring_pool
from evalwright.engine.suites import document
from evalwright.host import host
from evalwright.host.access import limits
from evalwright.host.http import guarded_connection as connection
from evalwright.host.http import routing
from evalwright.host.library import annotations, catalogue
from evalwright.host.v1 import events
from evalwright.store import readers

PAGE = Path(__file__).parents[3] / "docs" / "host.md"
KIB, MIB = 1024, 1024 * 1024
ANSWERS = catalogue.ANSWERS

BOUNDS = {
    "first line and headers of a request": [
        f"{connection.MOST_HEAD_BYTES // KIB} KiB",
        f"{connection.MOST_HEADERS} headers",
        f"{connection.HEAD_SECONDS:g} s",
    ],
    "body of a GET, or of a request that was answered before it had arrived": [
        f"{connection.MOST_UNWANTED_BYTES // KIB} KiB",
        f"{connection.REST_SECONDS:g} s",
    ],
    "chunk sizes, chunk extensions and trailers": [f"{connection.MOST_AROUND_BYTES // KIB} KiB"],
    "requests on a connection that wait for answers to those before": [connection.MOST_PIPELINED],
    "values in a body": [limits.MOST_VALUES, MOST_EXTREME],
    f"keys of one object in a body of more than {limits.LARGE_BODY >> 10} KiB": [limits.MOST_KEYS],
    f"bodies of more than {routing.SMALL_BODY // KIB} KiB that are parsed": [
        f"{limits.MOST_PARSED} at once",
        f"for a tenant {limits.MOST_PARSED_PER_TENANT}",
    ],
    f"bodies of more than {limits.LARGE_BODY >> 10} KiB that arrive or are in work": [
        f"{limits.MOST_BODIES // MIB} MiB",
        f"for a tenant {limits.MOST_BODIES_PER_TENANT // MIB} MiB",
    ],
    "templates of a suite": [
        f"{catalogue.MOST_RENDERED} at once",
        f"{scoring_pool.LOWERING_S:g} s",
        f"{document.RENDER_SECONDS:g} s of CPU",
        f"{document.MOST_SENT // MIB} MiB",
    ],
    "reports that compare two runs": [
        host.MOST_COMPARISONS,
        f"for a tenant {host.MOST_COMPARISONS_PER_TENANT}",
    ],
    "lists of runs in preparation": [
        host.MOST_LISTS,
        f"for a tenant {host.MOST_LISTS_PER_TENANT}",
    ],
    "answers sent but not read yet": [
        f"{limits.MOST_UNREAD // MIB} MiB",
        f"for a tenant {limits.MOST_UNREAD_PER_TENANT // MIB} MiB",
    ],
    "reading an answer": [
        f"{connection.LEAST_READ_BYTES // KIB} KiB",
        f"{connection.STALL_SECONDS:g} s",
    ],
    "a page of polled events": [f"{events.MOST_BYTES // MIB} MiB"],
    "what a stream reads at once": [
        f"{events.PAGE} events",
        f"{events.PAGE_BYTES // KIB} KiB of frames",
    ],
    "reads of the log": [
        readers.MOST_THREADS,
        f"for a tenant {readers.MOST_THREADS_PER_SHARE}",
    ],
    "annotations of a run": [annotations.MOST_PER_RUN],
    "answer of a tenant's HTTP agent": [
        f"{ANSWERS.most_bytes // MIB} MiB",
        f"{ANSWERS.most_values:,} values",
        f"{ANSWERS.most_events:,} events",
        f"{ANSWERS.most_usages} usages",
        f"{ANSWERS.most_output_values:,} values in the output",
    ],
    f"answers of more than {LONG_ANSWER // KIB} KiB from a tenant's HTTP agents": [
        catalogue.MOST_LONG_ANSWERS
    ],
}


@pytest.mark.parametrize("what", BOUNDS)
def test_a_bound_is_documented_as_it_is(what: str) -> None:
    section = PAGE.read_text().partition("\n## Limits\n")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| (.+?) \| (.+?) \|", section, re.MULTILINE))
    for bound in BOUNDS[what]:
        assert (f"{bound:,}" if isinstance(bound, int) else bound) in rows[what]

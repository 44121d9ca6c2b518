"""Runs in the log of a host, for pages to show."""

import itertools
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from builders import a_suite, closing, opening
from evalwright.contracts.attachments import Attached
from evalwright.contracts.events import EvalScored, Payload, Planned
from evalwright.contracts.run_plan import Group
from evalwright.store.protocol import EventLog, NewEvent
from host.server import ServedHost
from host.web.visitor import Visitor, signed_in
from reports.html.hostile import EVIL
from reports.run.page_samples import Told, a_result

HOSTILE_TEXT = EVIL.replace("\ud800", "")  # which no log can hold
_numbers = itertools.count(1)


class Tenant(NamedTuple):
    """Somebody with runs of their own."""

    log: EventLog
    visitor: Visitor
    name: str

    def keep(self, run_id: str, tasks: dict[str, Told], **how: Any) -> str:
        """Keep a run in the log; returns its id, which is the tenant's own."""
        run_id = f"{run_id}-{self.name}"
        write(self.log, run_id, entries_of(tasks, **how), how.get("ago_s", 60.0))
        return run_id


def a_tenant(host: ServedHost, **fields: Any) -> Tenant:
    """A tenant that has nothing yet, and somebody of them who is signed in."""
    name = f"pages-{next(_numbers)}"
    visitor = signed_in(host.url, host.key(name, **fields))
    return Tenant(host.log.for_tenant(name), visitor, name)


def entries_of(
    tasks: dict[str, Told],
    *,
    version: str = "1.0.0",
    group: Group | None = None,
    is_open: bool = False,
    ago_s: float = 60.0,
    attachments: Mapping[str, Attached] | None = None,
) -> list[tuple[str | None, Payload]]:
    """What happened in a run, from its first to its last event."""
    suite = a_suite([told.task(task_id) for task_id, told in tasks.items()], version=version)
    suite = msgspec.structs.replace(suite, attachments=dict(attachments or {}))
    entries: list[tuple[str | None, Payload]] = opening(suite)
    if group is not None:
        task_id, planned = entries[2]
        assert isinstance(planned, Planned)
        entries[2] = task_id, msgspec.structs.replace(planned, group=group)
        started = entries[0][1]
        entries[0] = None, msgspec.structs.replace(started, metadata={"group": group.id})
    for task_id, told in tasks.items():
        entries += [(task_id, payload) for payload in told.payloads(task_id)]
    if is_open:
        return [each for each in entries if not isinstance(each[1], EvalScored)]
    return [*entries, *closing(a_result(tasks))]


def write(
    log: EventLog, run_id: str, entries: Sequence[tuple[str | None, Payload]], ago_s: float
) -> None:
    """Write a run that began some time ago, with an event every millisecond."""
    start = time.time_ns() // 1000 - int(ago_s * 1_000_000)
    events = [
        NewEvent(payload.TYPE, task_id, start + 1000 * n, msgspec.json.encode(payload))
        for n, (task_id, payload) in enumerate(entries)
    ]
    log.append(run_id, events)
    log.flush(run_id).result(120)

"""What a transaction adds to a log in PostgreSQL, as the arrays that its statement takes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from typing import Any

import msgspec

from evalwright.store import checksums, contents
from evalwright.store.contents import FRAME_EVENTS, SHARED_BYTES
from evalwright.store.facts import SOURCE_TYPES, Changes, changes_by
from evalwright.store.postgres.address import AFTER_THE_END, EventRefused
from evalwright.store.postgres.statements import FACTS
from evalwright.store.postgres.stored_text import storable
from evalwright.store.protocol import NewEvent
from evalwright.store.writer import Position

Rows = list[tuple[Any, ...]]
_tags = msgspec.json.Decoder(list[str]).decode


@dataclass
class RunGrowth:
    """What is added to one run."""

    run_id: str
    start: Position
    owner: str | None  # the tenant through whose view it is written
    facts: Changes = field(default_factory=dict)
    events: Rows = field(default_factory=list)
    parts: Rows = field(default_factory=list)
    sums: list[int] = field(default_factory=list)
    size: int = 0

    def add(self, events: Sequence[NewEvent]) -> int:
        before = len(self.events)
        run, following, _ = self.start
        seed = checksums.seed_of(self.run_id)
        self.facts.setdefault("started_us", events[0].at_us)
        for place, event in enumerate(events, before + 1):
            kind, task_id, at_us, body = event
            if "ended_us" in self.facts:
                raise EventRefused(AFTER_THE_END)
            body.decode()  # raises for what is no text
            self.size += len(body)
            if kind in SOURCE_TYPES:
                self.facts |= changes_by(event)
            checksum = checksums.of_event(seed, kind, task_id, at_us, body)
            self.sums.append(checksum)
            content = at = None
            if len(body) >= SHARED_BYTES and following + place <= FRAME_EVENTS:
                part = contents.cut(body)
                if part is not None:
                    content, at, body = sha256(part.body).digest(), part.at, part.rest
                    self.parts.append((run, content, part.body))
            task = task_id if task_id is None else storable(task_id)
            self.events.append((run, place, kind, task, at_us, body, content, at, checksum))
        return before

    def row(self, claims: dict[int, int]) -> tuple[Any, ...]:
        run = self.start.run
        facts = (
            storable(value) if isinstance(value, str) else value
            for value in map(self.facts.get, FACTS)
        )
        size = len(self.events), self.size, *checksums.batch(self.sums)
        return (run, self.owner, claims.get(run), *size, *facts)

    @property
    def is_plain(self) -> bool:
        """Whether the run only gets more events: they change no facts and have no parts."""
        return self.start.following > 0 and self.facts.keys() <= {"started_us"} and not self.parts

    def plain_values(self, claims: dict[int, int]) -> tuple[Any, ...]:
        _, _, kinds, tasks, times, bodies, _, _, sums = zip(*self.events, strict=True)
        run = self.start.run
        size = len(self.events), self.size, *checksums.batch(sums)
        return run, self.owner, claims.get(run), *size, kinds, tasks, times, bodies, sums

    def tags(self) -> Rows:
        return [(self.start.run, storable(tag)) for tag in _tags(self.facts.get("tags") or "[]")]


def arrays(runs: Sequence[RunGrowth], claims: dict[int, int]) -> Iterator[Sequence[Any]]:
    """The columns of all rows, in the order in which the statement takes them."""
    tables: list[tuple[int, Rows]] = [
        (7 + len(FACTS), [each.row(claims) for each in runs]),
        (9, [row for each in runs for row in each.events]),
        (3, [row for each in runs for row in each.parts]),
        (2, [row for each in runs for row in each.tags()]),
    ]
    for width, rows in tables:
        yield from zip(*rows, strict=True) if rows else [()] * width


def chunks(runs: Sequence[RunGrowth], most: int) -> Iterator[list[RunGrowth]]:
    """A few runs at a time, in an order that all keep: nobody locks their rows crosswise."""
    ordered = iter(sorted(runs, key=lambda each: each.start.run))
    while part := list(islice(ordered, most)):
        yield part

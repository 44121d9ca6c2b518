"""Work on shards, and its parts in the order of what was read, whoever made them."""

from collections.abc import Generator, Iterator
from contextlib import closing
from itertools import chain, islice
from typing import Protocol, TypeVar

from evalwright.scans.shards import Shard, TraceFiles
from evalwright.scans.spread import LocalProcesses, ShardEngine


class ShardPart(Protocol):
    """What came of a shard or of a piece of one; not free is one that has to be made anew."""

    @property
    def shard(self) -> Shard:
        """The last shard that it is of."""

    @property
    def is_free(self) -> bool:
        """Whether the shard after it was right to begin where it did."""


_Part = TypeVar("_Part", bound=ShardPart)
_Part_co = TypeVar("_Part_co", bound=ShardPart, covariant=True)


class ShardWork(Protocol[_Part_co]):
    """What is to be done with shards: of a load of them at once, or of one piece by piece."""

    def __call__(self, load: tuple[Shard, ...]) -> _Part_co:
        """One part for all of them."""

    def pieces(self, shard: Shard) -> Iterator[_Part_co]:
        """Parts of one shard, as they come; memory does not grow with its size."""


def parts_in_order(
    work: ShardWork[_Part], files: TraceFiles, engine: ShardEngine
) -> Generator[_Part, None, None]:
    """The parts of all files. The same, put together, whatever the engine and its shards."""
    if isinstance(engine, LocalProcesses) and engine.processes == 1:
        for shard in files.whole():
            yield from work.pieces(shard)
        return
    first: int | None = 0
    while first is not None:
        first = yield from _spread(work, files, engine, first)


def _spread(
    work: ShardWork[_Part], files: TraceFiles, engine: ShardEngine, first: int
) -> Generator[_Part, None, int | None]:
    """The parts from a file on; gives back with which to go on.

    Where records of a file turn out to need others, what is left of it is read in one go.
    """
    loads = files.loads(first, engine.shard_bytes)
    head = list(islice(loads, 2))
    if len(head) < 2:  # a pipe, or one packed file: what comes of it is given as it comes
        for shard in chain.from_iterable(head):
            yield from work.pieces(shard)
        return None
    with closing(engine.map_shards(work, chain(head, loads))) as parts:
        for part in parts:
            if not part.is_free:
                break
            yield part
        else:
            return None
    yield from work.pieces(part.shard.rest())
    return part.shard.file + 1

"""Cases shared out among processes; what they give back comes in the order of the cases."""

from collections.abc import Generator, Iterable, Iterator
from itertools import islice

from evalwright.comparison.matching import CasePlan, PlannedCase
from evalwright.reports.folder.case import Batch, CaseWriter
from evalwright.scans.spread import MOST_UNASKED, LocalProcesses, ShardEngine, cores, has_threads

_IN_A_BATCH = 64
_IN_A_BATCH_HERE = 8  # nothing is gained by more, and items may be large
_WORTH_PROCESSES = 200


def write_cases(
    plan: CasePlan, writer: CaseWriter, engine: ShardEngine | None = None
) -> Generator[Batch, None, None]:
    """Write all cases, by the means of an engine, or on as many cores as are worth it."""
    if engine is None:
        processes = 1 if has_threads() else min(cores(), MOST_UNASKED)
        engine = LocalProcesses(processes if plan.count >= _WORTH_PROCESSES else 1)
    if isinstance(engine, LocalProcesses) and engine.processes == 1:
        for batch in _batches(plan, _IN_A_BATCH_HERE):
            yield writer.write_batch(batch)
    else:
        writer.release()  # no open file or database is carried into another process
        yield from engine.map_shards(writer.write_batch, _batches(plan, _IN_A_BATCH))


def _batches(planned: Iterable[PlannedCase], size: int) -> Iterator[list[PlannedCase]]:
    source = iter(planned)
    while batch := list(islice(source, size)):
        yield batch

"""Own runs compared: the engine runs, and the comparison reads what it recorded."""

from contextlib import closing

from evalwright.comparison.inputs import open_runs
from evalwright.comparison.pipeline import Comparer, planned_cases
from evalwright.comparison.summary import CaseTally, facts_of
from evalwright.contracts.report import Item, Summary
from evalwright.signals.suppression import Suppressions
from evalwright.store.sqlite.log import SqliteLog
from reported import TODAY
from subjects.runs import Workshop


def compared(workshop: Workshop, baseline: str, new: str) -> tuple[dict[str, Item], Summary]:
    """The items of two runs by their case, and the summary of all."""
    path = workshop.log.place
    with (
        closing(open_runs(baseline, new, lambda: SqliteLog(path))) as inputs,
        closing(planned_cases(inputs)) as plan,
    ):
        comparer = Comparer(inputs, Suppressions(()), TODAY, masked=True)
        items = {each.item.case_id: each.item for each in comparer.compare(plan)}
    tally = CaseTally()
    tally.add([facts_of(item) for item in items.values()])
    return items, tally.summary(is_same_run=inputs.is_same_run)


def notes_of(workshop: Workshop, baseline: str, new: str) -> tuple[str, ...]:
    """What a report of two runs notes of its inputs."""
    path = workshop.log.place
    with closing(open_runs(baseline, new, lambda: SqliteLog(path))) as inputs:
        return inputs.notes

"""Overrides: scores that somebody corrected afterwards, by an annotation of `eval.scored`.

The recorded score stays as it is, and so does the summary. Whoever shows the score shows the
correction beside it.
"""

import msgspec

from evalwright.contracts.annotation import ANNOTATION_KIND, MOST_PER_RUN, Annotation
from evalwright.contracts.events import EvalScored
from evalwright.store.protocol import EventLog


class ScoreOverride(msgspec.Struct, frozen=True):
    """A correction of the score of a task."""

    task_id: str
    score: float
    annotation: Annotation

    @property
    def by(self) -> str:
        """Who corrected it, as an opaque id, and when."""
        return f"{self.annotation.actor.principal_ref}, {self.annotation.created_at[:16]}Z"


def read_overrides(log: EventLog, run_id: str) -> list[ScoreOverride]:
    """The corrections of a run's scores, oldest first; raises `RunNotFound`."""
    tenant = log.facts(run_id).tenant
    found = log.records.list(ANNOTATION_KIND, tenant, f"{run_id}/", limit=MOST_PER_RUN)
    annotations = (msgspec.json.decode(record.body, type=Annotation) for record in found)
    overrides = (_override(log, run_id, each) for each in annotations if each.overrides)
    return [each for each in overrides if each is not None]


def _override(log: EventLog, run_id: str, annotation: Annotation) -> ScoreOverride | None:
    sequence = int((annotation.target.event_id or "").rpartition(":")[2])
    event = next(log.read(run_id, after=sequence - 1, limit=1), None)
    if event is None or event.type != EvalScored.TYPE:
        return None
    scored = event.decode(EvalScored)
    return ScoreOverride(scored.task_id, scored.score, annotation)

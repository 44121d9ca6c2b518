"""Annotations: what people say of a run, of one of its events or of one of its tasks."""

from typing import Literal

import msgspec

ANNOTATION_KIND = "annotation"  # of the documents; their keys begin with the run
MOST_PER_RUN = 500


class AnnotationPart(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Base of an annotation and its parts."""


class AnnotationTarget(AnnotationPart, frozen=True):
    """What is annotated: a run, one of its events, or one of its nodes."""

    run_id: str
    event_id: str | None = None
    node_id: str | None = None


class Signal(AnnotationPart, frozen=True):
    """A rating, a correction, a label, or a flag for review."""

    kind: Literal["rating", "correction", "label", "flag"]
    rating: int | None = None
    label: str | None = None
    correction: str | None = None


class Actor(AnnotationPart, frozen=True):
    """The author, as an opaque id."""

    principal_ref: str


class Annotation(AnnotationPart, frozen=True):
    """An annotation as stored.

    A correction of an `eval.scored` event overrides that score for readers; the recorded score and
    the summary do not change.
    """

    annotation_id: str
    target: AnnotationTarget
    signal: Signal
    actor: Actor
    created_at: str
    note: str | None = None

    @property
    def overrides(self) -> bool:
        """Whether it corrects an event, which overrides the score where that is a score."""
        return self.signal.kind == "correction" and self.target.event_id is not None

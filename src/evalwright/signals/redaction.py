"""Signals as they may be shown: their texts masked, what they say of themselves untouched."""

from collections.abc import Iterable, Iterator

import msgspec

from evalwright.contracts.report import EvidenceRef, Signal
from evalwright.signals.masking import mask_text


def masked_signals(signals: Iterable[Signal]) -> tuple[Signal, ...]:
    """The signals without the secrets that their titles, fields, links and notes may quote."""
    told = tuple(signals)
    together = "\n\n".join(text for signal in told for text in _texts(signal))
    if mask_text(together) is together:  # the usual case, found out in one go
        return told
    return tuple(map(_masked, told))


def _texts(signal: Signal) -> Iterator[str]:
    details = signal.details
    yield signal.title
    yield from filter(None, (details.tool, details.call_id, details.action_id, details.notes))
    for ref in signal.evidence_refs:
        yield from filter(None, (ref.call_id, ref.id))
    yield from details.fields
    yield from details.urls
    for key, text in details.provenance.items():
        yield key
        yield text


def _masked(signal: Signal) -> Signal:
    details = signal.details
    shown = msgspec.structs.replace(
        details,
        tool=masked_or_none(details.tool),
        call_id=masked_or_none(details.call_id),
        action_id=masked_or_none(details.action_id),
        fields=tuple(map(mask_text, details.fields)),
        urls=tuple(map(mask_text, details.urls)),
        provenance={mask_text(key): mask_text(text) for key, text in details.provenance.items()},
        notes=masked_or_none(details.notes),
    )
    return msgspec.structs.replace(
        signal,
        title=mask_text(signal.title),
        details=shown,
        evidence_refs=tuple(map(_masked_ref, signal.evidence_refs)),
    )


def _masked_ref(ref: EvidenceRef) -> EvidenceRef:
    """Where an id had to be masked, the index still points at the event."""
    return msgspec.structs.replace(
        ref, call_id=masked_or_none(ref.call_id), id=masked_or_none(ref.id)
    )


def masked_or_none(text: str | None) -> str | None:
    """A text masked; no text is no text."""
    return None if text is None else mask_text(text)

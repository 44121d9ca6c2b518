"""Signals and items of a compare report as they may be shown: ids, links and enums stay."""

from collections.abc import Iterable, Iterator

import msgspec

from evalwright.contracts.report import (
    BothSides,
    EvidenceRef,
    FailedAssertion,
    Item,
    Security,
    Signal,
    Suppressed,
)
from evalwright.signals.masking.text import mask_text, mask_value


def mask_signals(signals: Iterable[Signal]) -> tuple[Signal, ...]:
    """The signals without the secrets that their titles, fields, links and notes may quote."""
    unmasked = tuple(signals)
    together = "\n\n".join(text for signal in unmasked for text in _texts(signal))
    if mask_text(together) is together:  # the usual case, found out in one go
        return unmasked
    return tuple(map(_mask_signal, unmasked))


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


def _mask_signal(signal: Signal) -> Signal:
    details = signal.details
    shown = msgspec.structs.replace(
        details,
        tool=_mask_optional(details.tool),
        call_id=_mask_optional(details.call_id),
        action_id=_mask_optional(details.action_id),
        fields=tuple(map(mask_text, details.fields)),
        urls=tuple(map(mask_text, details.urls)),
        provenance={mask_text(key): mask_text(text) for key, text in details.provenance.items()},
        notes=_mask_optional(details.notes),
    )
    return msgspec.structs.replace(
        signal,
        title=mask_text(signal.title),
        details=shown,
        evidence_refs=tuple(map(_mask_ref, signal.evidence_refs)),
    )


def _mask_ref(ref: EvidenceRef) -> EvidenceRef:
    """Where an id had to be masked, the index still points at the event."""
    return msgspec.structs.replace(
        ref, call_id=_mask_optional(ref.call_id), id=_mask_optional(ref.id)
    )


def _mask_optional(text: str | None) -> str | None:
    return None if text is None else mask_text(text)


def mask_item(item: Item) -> Item:
    """The item without the secrets and personal data that its texts quote."""
    changes = {
        "title": mask_text(item.title),
        "failed_assertions": BothSides(
            tuple(map(_mask_assertion, item.failed_assertions.baseline)),
            tuple(map(_mask_assertion, item.failed_assertions.new)),
        ),
        "security": BothSides(
            _mask_security(item.security.baseline), _mask_security(item.security.new)
        ),
    }
    if item.faults is not msgspec.UNSET:
        changes["faults"] = tuple(map(mask_text, item.faults))
    if item.first_divergence is not msgspec.UNSET:
        changes["first_divergence"] = msgspec.structs.replace(
            item.first_divergence,
            baseline=_mask_optional(item.first_divergence.baseline),
            new=_mask_optional(item.first_divergence.new),
        )
    return msgspec.structs.replace(item, **changes)


def _mask_assertion(failed: FailedAssertion) -> FailedAssertion:
    return msgspec.structs.replace(
        failed,
        expected=mask_value(msgspec.to_builtins(failed.expected)),
        actual=mask_value(msgspec.to_builtins(failed.actual)),
        message=mask_text(failed.message),
    )


def _mask_security(side: Security) -> Security:
    suppressed = side.suppressed
    if suppressed is not msgspec.UNSET:
        suppressed = tuple(
            Suppressed(mask_signals([each.signal])[0], mask_text(each.reason), each.expires)
            for each in suppressed
        )
    return Security(mask_signals(side.signals), side.requires_gate_recommendation, suppressed)

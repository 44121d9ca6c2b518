"""Signals as they may be shown: their texts masked, what they say of themselves untouched."""

import msgspec

from evalwright.contracts.report import Signal
from evalwright.signals.masking import mask_text


def masked_signal(signal: Signal) -> Signal:
    """The signal without the secrets that its title, fields, links and notes may quote."""
    details = signal.details
    shown = msgspec.structs.replace(
        details,
        tool=masked_or_none(details.tool),
        fields=tuple(map(mask_text, details.fields)),
        urls=tuple(map(mask_text, details.urls)),
        provenance={mask_text(key): mask_text(text) for key, text in details.provenance.items()},
        notes=masked_or_none(details.notes),
    )
    return msgspec.structs.replace(signal, title=mask_text(signal.title), details=shown)


def masked_or_none(text: str | None) -> str | None:
    """A text masked; no text is no text."""
    return None if text is None else mask_text(text)

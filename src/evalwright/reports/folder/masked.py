"""An item as it may be shown: its texts masked; ids, links and enumerations as they are."""

import msgspec

from evalwright.contracts.report import BothSides, FailedAssertion, Item, Security, Suppressed
from evalwright.signals.masking import mask_text, mask_value
from evalwright.signals.redaction import masked_or_none, masked_signals


def masked_item(item: Item) -> Item:
    """The item without the secrets and personal data that its texts quote."""
    changes = {
        "title": mask_text(item.title),
        "failed_assertions": BothSides(
            tuple(map(_assertion, item.failed_assertions.baseline)),
            tuple(map(_assertion, item.failed_assertions.new)),
        ),
        "security": BothSides(_security(item.security.baseline), _security(item.security.new)),
    }
    if item.faults is not msgspec.UNSET:
        changes["faults"] = tuple(map(mask_text, item.faults))
    if item.first_divergence is not msgspec.UNSET:
        changes["first_divergence"] = msgspec.structs.replace(
            item.first_divergence,
            baseline=masked_or_none(item.first_divergence.baseline),
            new=masked_or_none(item.first_divergence.new),
        )
    return msgspec.structs.replace(item, **changes)


def _assertion(failed: FailedAssertion) -> FailedAssertion:
    return FailedAssertion(
        failed.name,
        mask_value(msgspec.to_builtins(failed.expected)),
        mask_value(msgspec.to_builtins(failed.actual)),
        mask_text(failed.message),
    )


def _security(side: Security) -> Security:
    suppressed = side.suppressed
    if suppressed is not msgspec.UNSET:
        suppressed = tuple(
            Suppressed(masked_signals([each.signal])[0], mask_text(each.reason), each.expires)
            for each in suppressed
        )
    return Security(masked_signals(side.signals), side.requires_gate_recommendation, suppressed)

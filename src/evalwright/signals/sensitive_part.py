"""A sensitive part of a text: a secret or personal data."""

from typing import Literal, TypeAlias

import msgspec

from evalwright.contracts.report import Confidence, Severity

Family: TypeAlias = Literal["secret", "pii"]


class SensitivePart(msgspec.Struct, frozen=True, gc=False):
    """A sensitive part of a text: where it is, which rule found it, and how sure that is."""

    start: int
    end: int
    rule: str
    family: Family
    severity: Severity
    confidence: Confidence
    label: str

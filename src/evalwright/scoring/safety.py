"""Safety findings as a gate reads them."""

from collections.abc import Iterable

from evalwright.contracts.summary import SafetyFinding

BLOCKING = frozenset(("high", "critical"))


def is_blocking(findings: Iterable[SafetyFinding]) -> bool:
    """Whether a task with these findings cannot pass, whatever its score."""
    return any(finding.severity in BLOCKING for finding in findings)

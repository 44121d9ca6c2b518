"""The documented token formats, of which `rules.txt` has a line each."""

from typing import Any

import msgspec

from evalwright.contracts.report import Confidence, Severity
from evalwright.signals.secrets import checks
from evalwright.signals.secrets.checks import Check
from evalwright.signals.word_tables import text_tables

_NAMED = r"(?i:{})[\w. -]{{0,30}}[\"'`)\]]{{0,2}}\s{{0,3}}(?:=>|:=|=|:|\|)\s{{0,3}}[\"'`]?({})"


class TokenRule(msgspec.Struct, frozen=True):
    """One format of secret."""

    id: str
    label: str
    literals: str  # between spaces
    pattern: str
    severity: Severity = "high"
    confidence: Confidence = "high"
    check: Check = checks.random_looking
    reach: tuple[int, ...] = (0,)
    gate: str = ""


def _rule(name: str, row: str) -> TokenRule:
    label, literals, options, pattern = row.split(" | ")
    id_, _, kind = name.partition(" ")
    given: dict[str, Any] = dict(each.split("=", 1) for each in options.split() if each != "-")
    if "check" in given:
        given["check"] = getattr(checks, given["check"])
    if "reach" in given:
        given["reach"] = tuple(map(int, given["reach"].split(",")))
    if kind.startswith("near"):
        given["confidence"], pattern = "medium", _NAMED.format(literals, pattern)
    return TokenRule(id_, label, literals, pattern, **given)


RULES = tuple(
    _rule(name, row) for table in text_tables(__file__).values() for name, row in table.items()
)

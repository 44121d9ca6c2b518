"""SARIF 2.1.0: the document around the findings of a tool, as code review tools read it."""

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from evalwright import __version__


def sarif_document(
    tool: str,
    automation_id: str,
    rules: Sequence[dict[str, Any]],
    results: Sequence[dict[str, Any]],
    about: Mapping[str, Any] = {},
) -> bytes:
    """One run of a tool; every result names its rule, and `about` says more of the run."""
    places = {rule["id"]: place for place, rule in enumerate(rules)}
    run = {
        "tool": {"driver": {"name": tool, "version": __version__, "rules": rules}},
        "automationDetails": {"id": automation_id},
        **about,
        "results": [{**each, "ruleIndex": places[each["ruleId"]]} for each in results],
    }
    document = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [run],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def fingerprint(*parts: str) -> str:
    """What stays the same when a finding moves, from the parts that say which one it is."""
    return sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def rule_name(rule: str) -> str:
    """The name of a rule as SARIF wants it: `signal/pii_in_output` is `SignalPiiInOutput`."""
    return "".join(word.capitalize() for word in re.split(r"[\W_]+", rule))

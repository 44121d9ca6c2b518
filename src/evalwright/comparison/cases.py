"""A case: what the user asked, and what both sides are expected to do."""

from difflib import get_close_matches
from typing import Any

import msgspec

from evalwright.trace.model import Json, text_of

_KEYS = (
    "action_required",
    "evidence_required_for_actions",
    "tool_required",
    "tool_sequence",
    "json_schema",
    "retrieval_required",
    "must_include",
    "must_not_include",
)


class Expectations(msgspec.Struct, frozen=True):
    """What must hold of a response; `json_schema` is None where no schema is expected."""

    actions: tuple[str, ...] = ()
    evidence_for_actions: bool = False
    tools: tuple[str, ...] = ()
    tool_sequence: tuple[str, ...] = ()
    json_schema: Json = None
    documents: tuple[str, ...] = ()
    must_include: tuple[str, ...] = ()
    must_not_include: tuple[str, ...] = ()


class Case(msgspec.Struct, frozen=True):
    """One case; `faults` says what of its definition could not be understood."""

    id: str
    title: str
    prompt: str = ""
    expected: Expectations = Expectations()
    faults: tuple[str, ...] = ()


def parse_case(raw: Json, case_id: str) -> Case:
    """A case from its entry in cases.json; what does not fit is named, the rest is kept."""
    record: dict[str, Any] = raw if isinstance(raw, dict) else {}
    faults: list[str] = []
    if not isinstance(raw, dict):
        faults.append("the case cannot be read as a JSON object, so nothing is expected of it")
    expected = _expectations(record.get("expected"), faults)
    prompt = _prompt(record.get("input"))
    title = record.get("title")
    if not isinstance(title, str) or not title.strip():
        title = prompt.strip().partition("\n")[0][:120] or case_id
    return Case(case_id, title, prompt, expected, tuple(faults))


def _prompt(raw: Json) -> str:
    if not isinstance(raw, dict):
        return text_of(raw)
    user, context = text_of(raw.get("user")), text_of(raw.get("context"))
    return f"{user}\n\n{context}" if context else user


def _expectations(raw: Json, faults: list[str]) -> Expectations:
    if raw is None:
        return Expectations()
    if not isinstance(raw, dict):
        faults.append("expected: not an object, so nothing is expected of this case")
        return Expectations()
    faults += [_unknown(key) for key in raw if key not in _KEYS]
    retrieval = raw.get("retrieval_required")
    documents = retrieval.get("doc_ids") if isinstance(retrieval, dict) else retrieval
    return Expectations(
        actions=_strings(raw.get("action_required"), "action_required", faults),
        evidence_for_actions=raw.get("evidence_required_for_actions") is True,
        tools=_strings(raw.get("tool_required"), "tool_required", faults),
        tool_sequence=_strings(raw.get("tool_sequence"), "tool_sequence", faults),
        json_schema=raw.get("json_schema"),
        documents=_strings(documents, "retrieval_required.doc_ids", faults),
        must_include=_strings(raw.get("must_include"), "must_include", faults),
        must_not_include=_strings(raw.get("must_not_include"), "must_not_include", faults),
    )


def _unknown(key: str) -> str:
    near = get_close_matches(key, _KEYS, 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"expected.{key[:100]}: not a known expectation, so it is not checked{hint}"


def _strings(raw: Json, name: str, faults: list[str]) -> tuple[str, ...]:
    if raw is None:
        return ()
    if isinstance(raw, str):
        return (raw,)
    if not isinstance(raw, list):
        faults.append(f"expected.{name}: not a list of strings, so it is not checked")
        return ()
    kept = tuple([each for each in raw if isinstance(each, str)])
    if len(kept) < len(raw):
        faults.append(f"expected.{name}: entries that are not strings are not checked")
    return kept

"""Does a response meet its case? Each expectation that does not hold, and the root cause."""

import math
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import lru_cache
from typing import Any

import msgspec

from evalwright.comparison.cases import Case
from evalwright.comparison.contradictions import contradictions
from evalwright.contracts.errors import InvalidDocument
from evalwright.contracts.jsonvalue import MAX_DEPTH, plain
from evalwright.contracts.report import FailedAssertion, RootCause
from evalwright.contracts.schema import ValueSchema
from evalwright.scoring.checks.mismatch import found_among, most_in_order
from evalwright.trace.integrity import NOTHING, evidence_targets, retrieved_docs, why_nothing
from evalwright.trace.model import GOOD_STATUSES, Json, Trace, text_of
from evalwright.trace.paired_calls import pair_results

_MOST_SCHEMA_ERRORS = 10
_UNSEEN = "the agent's tool calls were not observed, so nobody can say which there were"

# In this order: a tool that failed explains the bad format that followed, not the other way.
_CAUSES: tuple[tuple[frozenset[str], RootCause], ...] = (
    (frozenset({"transport", "response"}), "missing_required_data"),
    (frozenset({"tool_results_ok"}), "tool_failure"),
    (frozenset({"json_schema"}), "format_violation"),
    (frozenset({"retrieval_required"}), "missing_required_data"),
    (frozenset({"action_required", "tool_required", "tool_sequence"}), "wrong_tool_choice"),
    (frozenset({"grounded_output"}), "hallucination_signal"),
    (frozenset({"scored"}), "wrong_answer"),
    (frozenset({"limits"}), "limit_exceeded"),
)

# All names of the contract and our own; what is not among them is the name of a check.
_ASSERTIONS = frozenset().union(*(names for names, _ in _CAUSES)) - {"limits"} | {
    "case_schema",
    "must_include",
    "must_not_include",
    "evidence_required",
    "repeats",
}
# A failed check comes where the assertion comes that its cause is best known by.
_STANDS_FOR: dict[RootCause, str] = {
    "format_violation": "json_schema",
    "wrong_tool_choice": "tool_required",
    "hallucination_signal": "grounded_output",
    "missing_required_data": "retrieval_required",
    "wrong_answer": "scored",
    "limit_exceeded": "limits",
}


def failed_assertions(case: Case, trace: Trace) -> list[FailedAssertion]:
    """Everything expected of the case that the trace does not show."""
    if trace.failure is not None:
        status = f" {trace.failure.status}" if trace.failure.status else ""
        actual = f"{trace.failure.kind}{status}"
        said = f": {trace.failure.message}" if trace.failure.message else ""
        return [
            FailedAssertion("transport", "an answer", actual, f"the call to the agent failed{said}")
        ]
    output = trace.output.content if trace.output is not None else None
    if output in (None, "") and not trace.actions:
        message = "the response holds no event, no output and no action"
        if trace.events:
            reason = why_nothing(trace)
            message = f"the response {NOTHING}: {reason}" if reason else ""
        if message:
            return [FailedAssertion("response", "an answer", "nothing", message)]
    found = _tool_results(trace)
    for field, check in _CHECKS.items():
        expected = getattr(case.expected, field)
        if expected is not None and expected != ():
            found += check(expected, trace)
    return found + _grounded(trace)


def root_cause(failures: Collection[FailedAssertion]) -> RootCause | None:
    """Why a case failed: the first cause that applies; None when nothing failed.

    Failed checks of own runs count as what the table of checks says that they are.
    """
    if not failures:
        return None
    names = {failure.name for failure in failures}
    if names - _ASSERTIONS:
        from evalwright.scoring.checks.table import cause_of

        others = [each for each in failures if each.name not in _ASSERTIONS]
        names |= {_STANDS_FOR.get(each.cause or cause_of(_counted(each)), "") for each in others}
    return next((cause for assertions, cause in _CAUSES if assertions & names), "unknown")


def _counted(failure: FailedAssertion) -> str:
    """The check that a failure is counted as; of `not`, that which must not hold."""
    name, expected = failure.name, failure.expected
    while name == "not" and isinstance(expected, dict):
        forbidden = expected.get("not")
        if not isinstance(forbidden, dict) or len(forbidden) != 1:
            break
        ((name, expected),) = forbidden.items()
    return name


def _tool_results(trace: Trace) -> list[FailedAssertion]:
    failed = [
        event
        for event in trace.results
        if event.status != "ok" and event.status.casefold() not in GOOD_STATUSES
    ]
    if not failed:
        return []
    actual = [
        {"index": event.index, "call_id": event.call_id, "status": event.status} for event in failed
    ]
    first = failed[0]
    reason = first.error or text_of(first.payload)
    message = f"a tool answered with {first.status}: {reason[:300]}"
    return [FailedAssertion("tool_results_ok", "every tool result ok", actual, message)]


def _schema(schema: Json, trace: Trace) -> list[FailedAssertion]:
    problem, checked = _value_schema(msgspec.json.encode(schema))
    if checked is None:
        wanted = "a JSON Schema that can be checked"
        return [FailedAssertion("case_schema", wanted, schema, problem)]
    actual = trace.output.content if trace.output else None
    value: Any = actual
    if isinstance(actual, str):  # text that holds JSON counts as the JSON that it holds
        with suppress(msgspec.DecodeError, RecursionError):
            value = msgspec.json.decode(actual)
    try:
        found = checked.problems(value if _is_plain(value) else plain(value))
        said = [f"{each.path}: {each.message}" for each in found[:_MOST_SCHEMA_ERRORS]]
    except (ValueError, RecursionError) as error:
        said = [f"the output could not be checked: {error}"]
    return [FailedAssertion("json_schema", schema, actual, "; ".join(said))] if said else []


def _is_plain(value: Json) -> bool:
    """Whether `plain` would not change a value that was read from JSON: it is not too deep."""
    try:
        text = msgspec.json.encode(value)
    except RecursionError:
        return False
    return text.count(b"{") + text.count(b"[") <= MAX_DEPTH


@lru_cache(maxsize=256)
def _value_schema(schema: bytes) -> tuple[str, ValueSchema | None]:
    """A schema; references to the network or to files are refused, never followed."""
    value = msgspec.json.decode(schema)
    try:
        return "", ValueSchema(value, "json_schema")
    except InvalidDocument as refused:
        why = refused.problems[0].message
    outside = _outside_reference(value)
    if outside is not None:
        why = f"the schema refers to {outside!r}; only references within it (#…) are followed"
        return why, None

    import jsonschema_rs

    def fetch_nothing(uri: str) -> Any:
        raise ValueError(f"{uri} is outside the schema")

    try:
        jsonschema_rs.validator_for(value, retriever=fetch_nothing)
    except (ValueError, RecursionError) as error:  # else only its size is wrong
        why = f"not a valid JSON Schema: {str(error)[:300]}"
    return why, None


def _outside_reference(value: Any, depth: int = 0) -> str | None:
    if depth > MAX_DEPTH:
        return None
    if isinstance(value, dict):
        for key in ("$ref", "$dynamicRef", "$recursiveRef"):
            target = value.get(key)
            if isinstance(target, str) and not target.startswith("#"):
                return target
    children = value.values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list):
        return None
    found = (_outside_reference(child, depth + 1) for child in children)
    return next((target for target in found if target is not None), None)


def _retrieval(wanted: tuple[str, ...], trace: Trace) -> list[FailedAssertion]:
    got = retrieved_docs(trace)
    missing = [doc for doc in wanted if doc not in got]
    if not missing:
        return []
    message = f"not retrieved: {', '.join(missing)}"
    return [FailedAssertion("retrieval_required", wanted, sorted(got), message)]


def _tools(wanted: tuple[str, ...], trace: Trace) -> list[FailedAssertion]:
    if not trace.coverage.calls:
        return [FailedAssertion("tool_required", wanted, None, _UNSEEN)]
    return _required("tool_required", "not called", wanted, [call.tool for call in trace.calls])


def _required(
    name: str, verb: str, expected: tuple[str, ...], actual: list[str]
) -> list[FailedAssertion]:
    found = set(actual)
    missing = [each for each in expected if each not in found]
    if not missing:
        return []
    return [FailedAssertion(name, expected, actual, f"{verb}: {', '.join(missing)}")]


def _sequence(wanted: tuple[str, ...], trace: Trace) -> list[FailedAssertion]:
    if not trace.coverage.calls:
        return [FailedAssertion("tool_sequence", wanted, None, _UNSEEN)]
    called = [call.tool for call in trace.calls]
    count = most_in_order([tool.__eq__ for tool in wanted], called)
    if count == len(wanted):
        return []
    message = f"{wanted[count]} is not called in this order"
    return [FailedAssertion("tool_sequence", wanted, called, message)]


def _included(wanted: tuple[str, ...], trace: Trace) -> list[FailedAssertion]:
    found = found_among(wanted, trace.answer.casefold())
    if len(found) == len(wanted):
        return []
    missing = [each for each in wanted if each not in found]
    message = f"not in the output: {', '.join(map(repr, missing))}"
    return [FailedAssertion("must_include", wanted, trace.answer, message)]


def _not_included(unwanted: tuple[str, ...], trace: Trace) -> list[FailedAssertion]:
    present = found_among(unwanted, trace.answer.casefold())
    if not present:
        return []
    message = f"in the output: {', '.join(map(repr, present))}"
    return [FailedAssertion("must_not_include", unwanted, trace.answer, message)]


def _evidence(_: bool, trace: Trace) -> list[FailedAssertion]:  # noqa: FBT001 - a case's field
    proof = evidence_targets(trace)
    unproved = [
        action.action_id or action.action_type
        for action in trace.actions
        if action.risk_level != "low" and proof.isdisjoint(action.evidence)
    ]
    if not unproved:
        return []
    message = f"without evidence that exists: {', '.join(unproved)}"
    return [FailedAssertion("evidence_required", "evidence for each action", unproved, message)]


def _grounded(trace: Trace) -> list[FailedAssertion]:
    found = contradictions(trace)
    if not found:
        return []
    actual = [each.value for each in found]
    message = "; ".join(each.message for each in found[:_MOST_SCHEMA_ERRORS])
    wanted = "values that the tool results bear out"
    return [FailedAssertion("grounded_output", wanted, actual, message)]


def _checked(documents: tuple[Json, ...], trace: Trace) -> list[FailedAssertion]:
    """The checks of the case that fail, under their own names."""
    from evalwright.scoring.checks.base import run_checks
    from evalwright.scoring.checks.table import prepare_checks

    prepared, _ = prepare_checks(documents, "")
    # A recorded answer as checks look at it.
    from evalwright.scoring.checks.base import Examined, MadeCall, Spent
    from evalwright.signals.kinds import detect

    answers, usage = pair_results(trace), trace.usage
    calls = []
    for call in trace.calls:
        result = answers.get(call.index)
        payload = result.payload if result else None
        calls.append(MadeCall(call.tool, call.args, payload, result is not None))
    tokens = [count for count in (usage.input_tokens, usage.output_tokens) if count is not None]
    took = None if usage.duration_ms is None else round(usage.duration_ms)
    cost = math.inf if usage.cost_usd is None else usage.cost_usd  # above every limit
    results = run_checks(
        prepared,
        Examined(
            task_id=trace.case_id,
            input=trace.prompt,
            output=trace.output.content if trace.output else None,
            calls=calls,
            spent=Spent(cost, sum(tokens) if tokens else math.inf, took),
            coverage=trace.coverage,
            make_trace=lambda: trace,
            find_signals=lambda: detect(trace),
        ),
    )
    return [
        FailedAssertion(
            each.check, each.expected, each.actual, each.reason, each.cause or msgspec.UNSET
        )
        for each in results
        if not each.passed
    ]


# By the field of the case that asks for it, in the order in which failures are listed.
_CHECKS: dict[str, Callable[[Any, Trace], list[FailedAssertion]]] = {
    "json_schema": _schema,
    "documents": _retrieval,
    "actions": lambda wanted, trace: _required(
        "action_required", "not proposed", wanted, [each.action_type for each in trace.actions]
    ),
    "tools": _tools,
    "tool_sequence": _sequence,
    "must_include": _included,
    "must_not_include": _not_included,
    "evidence_for_actions": _evidence,
    "checks": _checked,
}

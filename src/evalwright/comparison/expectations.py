"""Does a response meet its case? Each expectation that does not hold, with expected and actual."""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import jsonschema_rs
import msgspec

from evalwright.comparison.cases import Case
from evalwright.comparison.grounding import contradictions
from evalwright.contracts.jsonvalue import MAX_DEPTH, plain
from evalwright.contracts.report import FailedAssertion
from evalwright.trace.integrity import evidence_targets, retrieved_docs
from evalwright.trace.model import GOOD_STATUSES, Json, Trace, text_of

_MOST_SCHEMA_ERRORS = 10


def failed_assertions(case: Case, trace: Trace) -> list[FailedAssertion]:
    """Everything expected of the case that the trace does not show."""
    if trace.failure is not None:
        return [_transport(trace)]
    if not _answered(trace):
        message = "the response holds no event, no output and no action"
        return [FailedAssertion("response", "an answer", "nothing", message)]
    return [failure for check in _CHECKS for failure in check(case, trace)]


def _answered(trace: Trace) -> bool:
    said = trace.output is not None and trace.output.content not in (None, "")
    return said or bool(trace.events or trace.actions)


def _transport(trace: Trace) -> FailedAssertion:
    assert trace.failure is not None
    status = f" {trace.failure.status}" if trace.failure.status else ""
    actual = f"{trace.failure.kind}{status}"
    said = f": {trace.failure.message}" if trace.failure.message else ""
    return FailedAssertion("transport", "an answer", actual, f"the call to the agent failed{said}")


def _tool_results(_: Case, trace: Trace) -> Sequence[FailedAssertion]:
    failed = [
        event
        for event in trace.results
        if event.status != "ok" and event.status.casefold() not in GOOD_STATUSES
    ]
    if not failed:
        return ()
    actual = [
        {"index": event.index, "call_id": event.call_id, "status": event.status} for event in failed
    ]
    first = failed[0]
    reason = first.error or text_of(first.payload)
    message = f"a tool answered with {first.status}: {reason[:300]}"
    return [FailedAssertion("tool_results_ok", "every tool result ok", actual, message)]


def _schema(case: Case, trace: Trace) -> Sequence[FailedAssertion]:
    schema = case.expected.json_schema
    if schema is None:
        return ()
    problem, validator = _validator(msgspec.json.encode(schema))
    if validator is None:
        wanted = "a JSON Schema that can be checked"
        return [FailedAssertion("case_schema", wanted, schema, problem)]
    found = _schema_errors(validator, _structured(trace))
    if not found:
        return ()
    actual = trace.output.content if trace.output else None
    return [FailedAssertion("json_schema", schema, actual, "; ".join(found))]


def _structured(trace: Trace) -> Any:
    """The output as a value: text that holds JSON counts as the JSON that it holds."""
    content = trace.output.content if trace.output else None
    if isinstance(content, str):
        try:
            return msgspec.json.decode(content)
        except (msgspec.DecodeError, RecursionError):
            return content
    return content


def _schema_errors(validator: Any, value: Any) -> list[str]:
    try:
        errors = []
        for error in validator.iter_errors(value if _is_plain(value) else plain(value)):
            path = "".join(
                f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path
            )
            errors.append(f"${path}: {error.message[:300]}")
            if len(errors) == _MOST_SCHEMA_ERRORS:
                break
    except (ValueError, RecursionError) as error:
        return [f"the output could not be checked: {error}"]
    return errors


def _is_plain(value: Json) -> bool:
    """Whether `plain` would not change a value that was read from JSON: it is not too deep."""
    try:
        text = msgspec.json.encode(value)
    except RecursionError:
        return False
    return text.count(b"{") + text.count(b"[") <= MAX_DEPTH


@lru_cache(maxsize=256)
def _validator(schema: bytes) -> tuple[str, Any]:
    """A validator; references to the network or to files are refused, never followed."""
    value = msgspec.json.decode(schema)
    outside = _outside_reference(value)
    if outside is not None:
        return (
            f"the schema refers to {outside!r}; only references within it (#…) are followed",
            None,
        )
    try:
        return "", jsonschema_rs.validator_for(value, retriever=_refuse)
    except (ValueError, RecursionError) as error:
        return f"not a valid JSON Schema: {str(error)[:300]}", None


def _refuse(uri: str) -> Any:
    raise ValueError(f"{uri} is outside the schema")


def _outside_reference(value: Any, depth: int = 0) -> str | None:
    if depth > 200:
        return None
    if isinstance(value, dict):
        for key in ("$ref", "$dynamicRef", "$recursiveRef"):
            target = value.get(key)
            if isinstance(target, str) and not target.startswith("#"):
                return target
        children: Iterable[Any] = value.values()
    elif isinstance(value, list):
        children = value
    else:
        return None
    found = (_outside_reference(child, depth + 1) for child in children)
    return next((target for target in found if target is not None), None)


def _retrieval(case: Case, trace: Trace) -> Sequence[FailedAssertion]:
    wanted = case.expected.documents
    if not wanted:
        return ()
    got = retrieved_docs(trace)
    missing = [doc for doc in wanted if doc not in got]
    if not missing:
        return ()
    message = f"not retrieved: {', '.join(missing)}"
    return [FailedAssertion("retrieval_required", wanted, sorted(got), message)]


def _actions(case: Case, trace: Trace) -> Sequence[FailedAssertion]:
    wanted = case.expected.actions
    if not wanted:
        return ()
    proposed = [action.action_type for action in trace.actions]
    return _required("action_required", "not proposed", wanted, proposed)


def _tools(case: Case, trace: Trace) -> Sequence[FailedAssertion]:
    wanted = case.expected.tools
    return _required("tool_required", "not called", wanted, _called(trace)) if wanted else ()


def _required(
    name: str, verb: str, expected: tuple[str, ...], actual: list[str]
) -> Sequence[FailedAssertion]:
    found = set(actual)
    missing = [each for each in expected if each not in found]
    if not missing:
        return ()
    return [FailedAssertion(name, expected, actual, f"{verb}: {', '.join(missing)}")]


def _sequence(case: Case, trace: Trace) -> Sequence[FailedAssertion]:
    wanted = case.expected.tool_sequence
    if not wanted:
        return ()
    called = _called(trace)
    rest = iter(called)
    for tool in wanted:
        if tool not in rest:  # looks on from where the last one was found
            message = f"{tool} is not called in this order"
            return [FailedAssertion("tool_sequence", wanted, called, message)]
    return ()


def _called(trace: Trace) -> list[str]:
    return [call.tool for call in trace.calls]


def _included(case: Case, trace: Trace) -> Sequence[FailedAssertion]:
    wanted, unwanted = case.expected.must_include, case.expected.must_not_include
    if not wanted and not unwanted:
        return ()
    text = trace.answer
    folded = text.casefold()
    failures = []
    missing = [each for each in wanted if each.casefold() not in folded]
    if missing:
        message = f"not in the output: {', '.join(map(repr, missing))}"
        failures.append(FailedAssertion("must_include", wanted, text, message))
    present = [each for each in unwanted if each.casefold() in folded]
    if present:
        message = f"in the output: {', '.join(map(repr, present))}"
        failures.append(FailedAssertion("must_not_include", unwanted, text, message))
    return failures


def _evidence(case: Case, trace: Trace) -> Sequence[FailedAssertion]:
    if not case.expected.evidence_for_actions:
        return ()
    proof = evidence_targets(trace)
    unproved = [
        action.action_id or action.action_type
        for action in trace.actions
        if action.risk_level != "low" and proof.isdisjoint(action.evidence)
    ]
    if not unproved:
        return ()
    message = f"without evidence that exists: {', '.join(unproved)}"
    return [FailedAssertion("evidence_required", "evidence for each action", unproved, message)]


def _grounded(_: Case, trace: Trace) -> Sequence[FailedAssertion]:
    found = contradictions(trace)
    if not found:
        return ()
    actual = [each.value for each in found]
    message = "; ".join(each.message for each in found[:_MOST_SCHEMA_ERRORS])
    wanted = "values that the tool results bear out"
    return [FailedAssertion("grounded_output", wanted, actual, message)]


_CHECKS: tuple[Callable[[Case, Trace], Sequence[FailedAssertion]], ...] = (
    _tool_results,
    _schema,
    _retrieval,
    _actions,
    _tools,
    _sequence,
    _included,
    _evidence,
    _grounded,
)

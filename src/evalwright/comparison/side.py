"""Both sides of a case, judged: what failed, what is suspicious, and which response is shown."""

import re
from collections.abc import Callable, Sequence
from datetime import date
from functools import lru_cache, partial

import msgspec

from evalwright.comparison.cases import Case
from evalwright.comparison.expectations import failed_assertions
from evalwright.comparison.run_folder import IMPORT_FAULT, Unreadable
from evalwright.contracts.report import (
    GRAVE,
    SEVERITIES,
    BothSides,
    FailedAssertion,
    Integrity,
    Signal,
    Suppressed,
)
from evalwright.scoring.golden import explain_difference
from evalwright.signals.detect import detect
from evalwright.signals.suppression import Suppressions
from evalwright.trace.decode import decode_trace
from evalwright.trace.integrity import check_integrity
from evalwright.trace.model import Json, ProposedAction, Trace
from evalwright.trace.pairing import pair_results

_HTTP = frozenset({"http", "https", "fetch", "browse", "browser", "web", "url", "webpage", "curl"})
_TIME = frozenset({"now", "time", "today", "date", "day", "clock", "datetime"})
_RANDOM = frozenset({"random", "uuid", "shuffle", "sample"})
_WORDS = re.compile(r"[a-z]+|[A-Z][a-z]*")


class CheckedResponse(msgspec.Struct, frozen=True):
    """One response held against its case; `clean` when a scan of it found nothing sensitive."""

    trace: Trace
    failures: tuple[FailedAssertion, ...]
    fault: str | None
    timed: bool
    clean: bool


class SideResult(msgspec.Struct, frozen=True):
    """What one side did with a case; `chosen` is the place of `shown` among the responses.

    Signals and actions are those of all its responses.
    """

    shown: CheckedResponse
    chosen: int
    runs: int
    passes: int
    passed: bool
    integrity: Integrity
    failures: tuple[FailedAssertion, ...]
    signals: tuple[Signal, ...]
    suppressed: tuple[Suppressed, ...]
    actions: tuple[ProposedAction, ...]

    @property
    def flaky(self) -> bool:
        """Whether the runs disagree."""
        return 0 < self.passes < self.runs


def check(case: Case, response: Json | Unreadable, *, clean: bool = False) -> CheckedResponse:
    """Hold one response against its case."""
    if isinstance(response, Unreadable):
        return _without_response(case, f"the response is not used: {response.reason}")
    if isinstance(response.get(IMPORT_FAULT), str):
        return _without_response(case, f"the response is not used: {response[IMPORT_FAULT]}")
    trace = decode_trace(response, case.id, case.prompt)
    failures = failed_assertions(case, trace)
    scored, named = response.get("scored"), response.get("case_id")
    if isinstance(scored, dict) and scored.get("passed") is False:  # Evalwright's own verdict
        threshold, score = scored.get("threshold"), scored.get("score")
        message = f"the recorded score is {score}"
        output = response.get("final_output")
        if isinstance(output, dict):
            given = output.get("content"), scored.get("strategy"), scored.get("expected")
            message = ": ".join(filter(None, (message, explain_difference(*given))))
        failures.insert(0, FailedAssertion("scored", {"at_least": threshold}, score, message))
    fault = None
    if isinstance(named, str) and named not in ("", case.id) and "base_case_id" not in response:
        fault = f"the response says that it is of case {named[:200]!r}"
    timed = response.get("ts_synthetic") is not True
    return CheckedResponse(trace, tuple(failures), fault, timed, clean)


def _without_response(case: Case, reason: str) -> CheckedResponse:
    failure = FailedAssertion("response", "a response", "nothing", reason)
    return CheckedResponse(Trace(case.id, case.prompt), (failure,), reason, timed=False, clean=True)


def judge_sides(
    case: Case,
    responses: BothSides[Sequence[CheckedResponse]],
    suppressions: Suppressions,
    today: date,
) -> BothSides[SideResult]:
    """Judge both sides of a case; the new side is looked at beside the baseline's trace."""
    suppress = partial(suppressions.apply, case_id=case.id, today=today)
    before = _judge(case, responses.baseline, None, partial(suppress, side="baseline"))
    trace = before.shown.trace
    usable = trace if trace.events and trace.failure is None else None
    return BothSides(before, _judge(case, responses.new, usable, partial(suppress, side="new")))


def _judge(
    case: Case,
    given: Sequence[CheckedResponse],
    baseline: Trace | None,
    suppress: Callable[[Sequence[Signal]], tuple[tuple[Signal, ...], tuple[Suppressed, ...]]],
) -> SideResult:
    """Judge one side, and choose the response to show; having none at all is a failure."""
    responses = given or [_without_response(case, "there is no response")]
    found = [detect(each.trace, baseline, clean=each.clean) for each in responses]
    runs, passes = len(responses), sum([not each.failures for each in responses])
    passed = passes * 2 > runs  # a tie is a failure
    chosen = 0
    if runs > 1:
        worth = [
            _worth_showing(signals, agrees=(not each.failures) == passed)
            for each, signals in zip(responses, found, strict=True)
        ]
        chosen = worth.index(max(worth))  # the first of equals
    signals, suppressed = suppress(found[0] if runs == 1 else _all_signals(found, chosen))
    shown = responses[chosen]
    integrity = check_integrity(shown.trace, case.expected.documents)
    failures = shown.failures
    if not passed and not failures:
        message = f"passed in {passes} of {runs} runs"
        failures = (FailedAssertion("repeats", "most runs pass", message, message),)
    return SideResult(
        shown=shown,
        chosen=chosen,
        runs=runs,
        passes=passes,
        passed=passed,
        integrity=Integrity(integrity.status, integrity.issues),
        failures=failures,
        signals=signals,
        suppressed=suppressed,
        actions=tuple([action for each in responses for action in each.trace.actions]),
    )


def _worth_showing(signals: Sequence[Signal], *, agrees: bool) -> tuple[int, bool]:
    """What makes a repeat worth showing: grave signals, then that it agrees with the verdict."""
    grave = [SEVERITIES.index(each.severity) for each in signals if each.severity in GRAVE]
    return max(grave, default=-1), agrees


def _all_signals(of_runs: Sequence[tuple[Signal, ...]], chosen: int) -> tuple[Signal, ...]:
    """The signals of the run that is shown, then those that only other runs have.

    The evidence of those is in a response that is not shown: pointing at its events would mislead.
    """
    found = list(of_runs[chosen])
    known = {(signal.kind, signal.details.tool) for signal in found}
    for place, signals in enumerate(of_runs):
        for signal in signals if place != chosen else ():
            key = (signal.kind, signal.details.tool)
            if key not in known:
                known.add(key)
                said = signal.details.notes or signal.title
                notes = f"In run {place + 1} of {len(of_runs)}: {said}"
                details = msgspec.structs.replace(signal.details, notes=notes)
                found.append(msgspec.structs.replace(signal, details=details, evidence_refs=()))
    return tuple(sorted(found, key=lambda signal: -SEVERITIES.index(signal.severity)))


def nondeterminism_sources(side: SideResult) -> tuple[str, ...]:
    """What could come out differently next time, although the agent is the same."""
    trace = side.shown.trace
    found = set().union(*map(_chance_in, {call.tool for call in trace.calls}))
    if side.flaky:
        found.add("sampling")
    if trace.failure is not None:
        found.add("transport")
    if None in [retrieval.content for retrieval in trace.retrievals]:
        found.add("unrecorded_retrieval")
    if trace.calls and len(trace.calls) > len(pair_results(trace)):
        found.add("unrecorded_tool_result")
    return tuple(sorted(found))


@lru_cache(maxsize=4096)
def _chance_in(tool: str) -> tuple[str, ...]:
    words = {word.lower() for word in _WORDS.findall(tool[:200])}
    named = (("external_http", _HTTP), ("time", _TIME), ("randomness", _RANDOM))
    return tuple(source for source, names in named if words & names)

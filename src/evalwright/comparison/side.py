"""One side of a case: its responses judged, and the one that stands for it."""

from collections.abc import Sequence

import msgspec

from evalwright.comparison.cases import Case
from evalwright.comparison.expectations import failed_assertions
from evalwright.comparison.gate import proposes_high_risk
from evalwright.comparison.run_folder import IMPORT_FAULT, Unreadable
from evalwright.contracts.report import GRAVE, SEVERITIES, FailedAssertion, Integrity, Signal
from evalwright.scoring.golden import explain_difference
from evalwright.signals.detect import detect
from evalwright.trace.decode import decode_trace
from evalwright.trace.integrity import check_integrity
from evalwright.trace.model import Json, Trace


class Checked(msgspec.Struct, frozen=True):
    """One response held against its case; `clean` when a scan of it found nothing sensitive."""

    trace: Trace
    failures: tuple[FailedAssertion, ...]
    fault: str | None
    timed: bool
    clean: bool


class Judged(msgspec.Struct, frozen=True):
    """One response of a case: the trace, what failed, what is suspicious."""

    trace: Trace
    failures: tuple[FailedAssertion, ...]
    signals: tuple[Signal, ...]
    fault: str | None
    timed: bool

    @property
    def passed(self) -> bool:
        """Whether every expectation held."""
        return not self.failures


class SideResult(msgspec.Struct, frozen=True):
    """What one side did with a case; `chosen` is the place of `shown` among the responses."""

    shown: Judged
    chosen: int
    runs: int
    passes: int
    integrity: Integrity
    failures: tuple[FailedAssertion, ...]
    signals: tuple[Signal, ...]
    proposes_high_risk: bool

    @property
    def passed(self) -> bool:
        """Whether most of the runs passed; a tie is a failure."""
        return self.passes * 2 > self.runs

    @property
    def flaky(self) -> bool:
        """Whether the runs disagree."""
        return 0 < self.passes < self.runs


def judge_side(case: Case, responses: Sequence[Checked], baseline: Trace | None) -> SideResult:
    """Judge all responses of one side; no response at all is a failure of its own."""
    judged = [_judge(each, baseline) for each in responses or [_missing(case)]]
    passes = sum([each.passed for each in judged])
    passed = passes * 2 > len(judged)
    chosen = _most_telling(judged, verdict=passed)
    shown = judged[chosen]
    integrity = check_integrity(shown.trace, case.expected.documents)
    failures = shown.failures
    if not passed and shown.passed:
        message = f"passed in {passes} of {len(judged)} runs"
        failures = (FailedAssertion("repeats", "most runs pass", message, message),)
    return SideResult(
        shown,
        chosen,
        len(judged),
        passes,
        Integrity(integrity.status, integrity.issues),
        failures,
        _all_signals(judged, chosen),
        any(proposes_high_risk(each.trace) for each in judged),
    )


def _all_signals(judged: Sequence[Judged], chosen: int) -> tuple[Signal, ...]:
    """The signals of the run that is shown, then those that only other runs have."""
    if len(judged) == 1:
        return judged[0].signals
    found = list(judged[chosen].signals)
    known = {(signal.kind, signal.details.tool) for signal in found}
    for place, each in enumerate(judged):
        for signal in each.signals if place != chosen else ():
            key = (signal.kind, signal.details.tool)
            if key not in known:
                known.add(key)
                found.append(_of_other_run(signal, place + 1, len(judged)))
    return tuple(sorted(found, key=lambda signal: -SEVERITIES.index(signal.severity)))


def _of_other_run(signal: Signal, number: int, runs: int) -> Signal:
    """The evidence stands in a response that is not shown: to point at events would mislead."""
    notes = f"In run {number} of {runs}: {signal.details.notes or signal.title}"
    details = msgspec.structs.replace(signal.details, notes=notes)
    return msgspec.structs.replace(signal, details=details, evidence_refs=())


def check(case: Case, response: Json | Unreadable, *, clean: bool = False) -> Checked:
    """Hold one response against its case."""
    if isinstance(response, Unreadable):
        return _without_response(case, f"the response is not used: {response.reason}")
    if isinstance(response.get(IMPORT_FAULT), str):
        return _without_response(case, f"the response is not used: {response[IMPORT_FAULT]}")
    trace = decode_trace(response, case.id, case.prompt)
    failures = (*_scored(response), *failed_assertions(case, trace))
    timed = response.get("ts_synthetic") is not True
    return Checked(trace, failures, _other_case(case, response), timed, clean)


def _judge(checked: Checked, baseline: Trace | None) -> Judged:
    """Look for signals, beside the baseline's trace where there is one."""
    trace = checked.trace
    signals = detect(trace, baseline, clean=checked.clean)
    return Judged(trace, checked.failures, signals, checked.fault, checked.timed)


def _other_case(case: Case, response: Json) -> str | None:
    named = response.get("case_id")
    if not isinstance(named, str) or named in ("", case.id) or "base_case_id" in response:
        return None
    return f"the response says that it is of case {named[:200]!r}"


def _missing(case: Case) -> Checked:
    return _without_response(case, "there is no response")


def _without_response(case: Case, reason: str) -> Checked:
    failure = FailedAssertion("response", "a response", "nothing", reason)
    return Checked(Trace(case.id, case.prompt), (failure,), reason, timed=False, clean=True)


def _scored(response: Json) -> tuple[FailedAssertion, ...]:
    """The verdict that Evalwright itself recorded in the run, where the response holds one."""
    scored = response.get("scored")
    if not isinstance(scored, dict) or scored.get("passed") is not False:
        return ()
    threshold, score = scored.get("threshold"), scored.get("score")
    message = f"the recorded score is {score}"
    output = response.get("final_output")
    if isinstance(output, dict):
        given = output.get("content"), scored.get("strategy"), scored.get("expected")
        message = ": ".join(filter(None, (message, explain_difference(*given))))
    return (FailedAssertion("scored", {"at_least": threshold}, score, message),)


def _most_telling(judged: Sequence[Judged], *, verdict: bool) -> int:
    if len(judged) == 1:
        return 0
    return max(range(len(judged)), key=lambda place: _telling(judged, place, verdict=verdict))


def _telling(judged: Sequence[Judged], place: int, *, verdict: bool) -> tuple[int, bool, int]:
    """What makes a repeat worth showing: grave signals, then the side's verdict, then order."""
    each = judged[place]
    grave = (
        SEVERITIES.index(signal.severity) for signal in each.signals if signal.severity in GRAVE
    )
    return (max(grave, default=-1), each.passed == verdict, -place)

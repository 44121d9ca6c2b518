"""Both sides of a case, judged: what failed, what is suspicious, and the report's item of it."""

import re
from collections.abc import Callable, Sequence
from datetime import date
from functools import lru_cache, partial
from typing import TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from evalwright.comparison.alignment import AlignedStep, first_divergence
from evalwright.comparison.cases import Case
from evalwright.comparison.expectations import failed_assertions, root_cause
from evalwright.comparison.gate import gate, governance, recommended_rules
from evalwright.comparison.run_folder import IMPORT_FAULT, Unreadable
from evalwright.contracts.marks import masked
from evalwright.contracts.report import (
    GRAVE,
    ROOT_CAUSES,
    SEVERITIES,
    Artifacts,
    BothSides,
    Change,
    CountedVerdicts,
    Delta,
    FailedAssertion,
    Integrity,
    Item,
    Repeats,
    Security,
    Signal,
    Suppressed,
)
from evalwright.scoring.golden import explain_difference
from evalwright.signals.kinds import detect
from evalwright.signals.suppression import Suppressions
from evalwright.trace.decode import decode_trace
from evalwright.trace.integrity import check_integrity
from evalwright.trace.model import Json, ProposedAction, Trace
from evalwright.trace.paired_calls import pair_results

_HTTP = frozenset({"http", "https", "fetch", "browse", "browser", "web", "url", "webpage", "curl"})
_TIME = frozenset({"now", "time", "today", "date", "day", "clock", "datetime"})
_RANDOM = frozenset({"random", "uuid", "shuffle", "sample"})
_WORDS = re.compile(r"[a-z]+|[A-Z][a-z]*")
_CHANGES: dict[tuple[bool, bool], Change] = {
    (True, True): "still_passing",
    (True, False): "regression",
    (False, True): "improvement",
    (False, False): "still_failing",
}

_NEITHER = BothSides(baseline=False, new=False)

_Value = TypeVar("_Value")


class CheckedResponse(msgspec.Struct, frozen=True):
    """One response held against its case; `clean` when a scan of it found nothing sensitive.

    It is `judged` if something was expected of it, or its run gave a verdict. Of a task that is
    repeated, `task_passed` is the verdict on all its repetitions. `verdicts` are those of own runs:
    how many there are, and how many say that it passed.
    """

    trace: Trace
    failures: tuple[FailedAssertion, ...]
    fault: str | None
    timed: bool
    clean: bool
    judged: bool
    task_passed: bool | None = None
    verdicts: tuple[int, int] | None = None


class SideResult(msgspec.Struct, frozen=True):
    """What one side did with a case; `chosen` is the place of `shown` among the responses.

    Signals and actions are those of all its responses.
    """

    given: Sequence[CheckedResponse]
    shown: CheckedResponse
    chosen: int
    runs: int
    passes: int
    verdicts: CountedVerdicts  # of which a test takes account
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


def check(
    case: Case,
    response: Json | Unreadable,
    shown: Json | Unreadable | None = None,
    *,
    clean: bool = False,
    decided: bool = False,
) -> CheckedResponse:
    """Hold one response against its case; messages quote it as it is `shown`, where that differs.

    A message quotes parts of long texts, and masking cannot recognise part of a secret. Where the
    verdict of an own run has `decided`, what passed there passes here.
    """
    if isinstance(response, Unreadable):
        return _without_response(case, f"the response is not used: {response.reason}")
    if isinstance(response.get(IMPORT_FAULT), str):
        return _without_response(case, f"the response is not used: {response[IMPORT_FAULT]}")
    trace = decode_trace(response, case.id, case.prompt)
    failures = failed_assertions(case, trace)
    scored, named = response.get("scored"), response.get("case_id")
    scored = scored if isinstance(scored, dict) else {}
    if scored.get("passed") is False:  # Evalwright's own verdict
        failures = _by_own_verdict(trace, response, response if shown is None else shown) + failures
    elif decided and scored.get("passed") is True:
        failures = []
    if "repetition" in scored:
        which = f"repetition {scored['repetition']} of {scored.get('repetitions')}"
        which = f"run {scored['run']}, {which}" if "run" in scored else which  # of a group
        replace = msgspec.structs.replace
        failures = [replace(each, message=f"{which}: {each.message}") for each in failures]
    task_passed = verdicts = None
    if decided:
        if "task_passed" in scored:
            task_passed = scored["task_passed"] is True
        runs, passes = scored.get("verdicts") or ("score" in scored, not failures)
        verdicts = int(runs), int(passes)
    fault = None
    if isinstance(named, str) and named not in ("", case.id) and "base_case_id" not in response:
        fault = f"the response says that it is of case {named[:200]!r}"
    timed = response.get("ts_synthetic") is not True
    judged = case.is_judged or decided or isinstance(scored.get("passed"), bool)
    return CheckedResponse(
        trace, tuple(failures), fault, timed, clean, judged, task_passed, verdicts
    )


def _by_own_verdict(
    trace: Trace, response: Json, shown: Json | Unreadable
) -> list[FailedAssertion]:
    """Why a task of an own run did not pass: its failed checks, and its score where that is low."""
    parts: dict[str, Json] = shown if isinstance(shown, dict) else {}
    scored = parts.get("scored")
    scored = scored if isinstance(scored, dict) else {}
    output = parts.get("final_output")
    is_masked = output != response.get("final_output")
    named = []
    for each in scored.get("failed") or ():
        if isinstance(each, dict):
            message, actual = str(each.get("message", "")), each.get("actual")
            if is_masked:  # what quotes a part of a text with secrets may hold a part of one
                message = "the output is masked" if "…" in message else message
                actual = masked("output") if isinstance(actual, str) and "…" in actual else actual
            cause = next((cause for cause in ROOT_CAUSES if cause == each.get("cause")), UNSET)
            name, expected = str(each.get("name", "")), each.get("expected")
            named.append(FailedAssertion(name, expected, actual, message, cause))
    said = response["scored"]
    score, bar = said.get("score"), said.get("threshold")
    is_low = isinstance(score, int | float) and isinstance(bar, int | float) and score < bar
    if trace.failure is None and (is_low or not named):
        named.append(_missed_score({**scored, "score": score, "threshold": bar}, output))
    return named


def _missed_score(scored: dict[str, Json], output: Json) -> FailedAssertion:
    """A score that is too low; of a golden task with what was expected and what was said."""
    score = scored.get("score")
    message = "no score was recorded" if score is None else f"the recorded score is {score}"
    if isinstance(output, dict) and "strategy" in scored:
        said, expected = output.get("content"), scored.get("expected")
        why = explain_difference(said, scored["strategy"], expected)
        return FailedAssertion("scored", expected, said, ": ".join(filter(None, (message, why))))
    bar = scored.get("threshold")
    wanted = "a score that passes" if bar is None else {"at_least": bar}
    return FailedAssertion("scored", wanted, score, message)


def _without_response(case: Case, reason: str) -> CheckedResponse:
    failure = FailedAssertion("response", "a response", "nothing", reason)
    trace = Trace(case.id, case.prompt)
    return CheckedResponse(
        trace, (failure,), reason, timed=False, clean=True, judged=case.is_judged
    )


class Beside(msgspec.Struct, frozen=True):
    """What a side is looked at beside: the baseline's trace, if any, and whether it passed."""

    trace: Trace | None = None
    passed: bool = False


def judge_sides(
    case: Case,
    responses: BothSides[Sequence[CheckedResponse]],
    suppressions: Suppressions,
    today: date,
    decided: BothSides[bool] = _NEITHER,
) -> BothSides[SideResult]:
    """Judge both sides of a case; the new side is looked at beside the baseline's trace.

    Where the verdicts of own runs have `decided`, a case without one is not compared.
    """
    suppress = partial(suppressions.apply, case_id=case.id, today=today)
    suppress_baseline = partial(suppress, side="baseline")
    before = _judge(case, responses.baseline, Beside(), suppress_baseline, decided.baseline)
    trace = before.shown.trace
    usable = trace if trace.events and trace.failure is None else None
    beside = Beside(usable, passed=before.passed)
    suppress_new = partial(suppress, side="new")
    return BothSides(before, _judge(case, responses.new, beside, suppress_new, decided.new))


def _judge(
    case: Case,
    given: Sequence[CheckedResponse],
    beside: Beside,
    suppress: Callable[[Sequence[Signal]], tuple[tuple[Signal, ...], tuple[Suppressed, ...]]],
    decided: bool,  # noqa: FBT001 - of either side
) -> SideResult:
    """Judge one side, and choose the response to show; having none at all is a failure."""
    responses = given or [_without_response(case, "there is no response")]
    runs, passes = len(responses), sum([not each.failures for each in responses])
    verdict = responses[0].task_passed
    passed = passes * 2 > runs if verdict is None else verdict  # a tie is a failure
    verdicts = CountedVerdicts(runs, passes)
    if decided:
        of_runs = [each.verdicts or (0, 0) for each in given]
        verdicts = CountedVerdicts(*map(sum, zip((0, 0), *of_runs, strict=True)))
        if verdict is not None:  # each repetition has those on all of them
            verdicts = CountedVerdicts(*of_runs[0])
    worse = beside.passed and not passed
    found = [
        detect(each.trace, beside.trace, clean=each.clean, regressed=worse) for each in responses
    ]
    chosen = 0
    if runs > 1:
        worth = []  # of a repeat: grave signals, then that it agrees with the verdict
        for each, signals in zip(responses, found, strict=True):
            grave = [SEVERITIES.index(one.severity) for one in signals if one.severity in GRAVE]
            worth.append((max(grave, default=-1), (not each.failures) == passed))
        chosen = worth.index(max(worth))  # the first of equals
    signals, suppressed = suppress(found[0] if runs == 1 else _all_signals(found, chosen))
    shown = responses[chosen]
    integrity = check_integrity(shown.trace, case.expected.documents)
    failures = shown.failures
    if verdict is not None:  # each repetition says which it is
        failures = tuple([] if passed else [one for each in responses for one in each.failures])
    if not passed and not failures:
        message = f"passed in {passes} of {runs} runs"
        failures = (FailedAssertion("repeats", "most runs pass", message, message),)
    return SideResult(
        given=given,
        shown=shown,
        chosen=chosen,
        runs=runs,
        passes=passes,
        verdicts=verdicts,
        passed=passed,
        integrity=Integrity(integrity.status, integrity.issues),
        failures=failures,
        signals=signals,
        suppressed=suppressed,
        actions=tuple([action for each in responses for action in each.trace.actions]),
    )


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


class CaseLinks(msgspec.Struct, frozen=True):
    """Where the files of a case are in the report directory."""

    artifacts: Artifacts
    repeats: BothSides[tuple[str, ...]] = BothSides((), ())


def item_of(
    case: Case,
    sides: BothSides[SideResult],
    steps: Sequence[AlignedStep],
    links: CaseLinks,
    faults: Sequence[str],
) -> Item:
    """The report's item of a case whose sides are judged and whose steps are aligned."""
    old, new = sides.baseline, sides.new
    worse = old.passed and not new.passed
    old_gate = gate(old.signals, old.actions, regression=False)
    new_gate = gate(new.signals, new.actions, regression=worse)
    rules = recommended_rules(new.failures, new_gate.signals)
    repeats = None
    if old.runs > 1 or new.runs > 1:
        repeats = BothSides(
            Repeats(old.runs, old.passes, old.flaky, links.repeats.baseline),
            Repeats(new.runs, new.passes, new.flaky, links.repeats.new),
        )
    # Whether both sides are judged by more than what always holds of an answer.
    given = [*old.given, *new.given]
    is_expected = case.is_judged or (bool(given) and all(each.judged for each in given))
    # What no repeat of the baseline said or did as the new side did, which is shown.
    before = [each.trace for each in old.given or (old.shown,)]
    answer = _answer_in(new.shown.trace)
    calls = _calls_in(new.shown.trace)
    counted = [(each.verdicts.runs, each.verdicts.passed) for each in (old, new)]
    usual = [(each.runs, each.passes) for each in (old, new)]
    costs = old.shown.trace.usage.cost_usd, new.shown.trace.usage.cost_usd
    # The durations, where both sides recorded theirs; else the spans of their events.
    usages = old.shown.trace.usage, new.shown.trace.usage
    recorded = _delta(usages[0].duration_ms, usages[1].duration_ms)
    return Item(
        case_id=case.id,
        title=case.title,
        baseline_pass=old.passed,
        new_pass=new.passed,
        change=_CHANGES[old.passed, new.passed],
        baseline_root=_present(root_cause(old.failures)),
        new_root=_present(root_cause(new.failures)),
        preventable_by_policy=bool(rules),
        recommended_policy_rules=rules,
        trace_integrity=BothSides(old.integrity, new.integrity),
        security=BothSides(
            Security(old.signals, old_gate.required, old.suppressed or UNSET),
            Security(new.signals, new_gate.required, new.suppressed or UNSET),
        ),
        artifacts=links.artifacts,
        failed_assertions=BothSides(old.failures, new.failures),
        governance_preview=BothSides(
            governance(old_gate, old.signals, old.integrity, regression=False),
            governance(new_gate, new.signals, new.integrity, regression=worse),
        ),
        nondeterminism_sources=BothSides(nondeterminism_sources(old), nondeterminism_sources(new)),
        faults=_present(tuple(faults) or None),
        first_divergence=_present(first_divergence(steps)),
        latency_ms=_present(recorded or _delta(_span(old), _span(new))),
        cost_usd=_present(_delta(*costs)),
        repeats=_present(repeats),
        verdicts=BothSides(old.verdicts, new.verdicts) if counted != usual else UNSET,
        expected=UNSET if is_expected else False,
        answer_differs=all(_answer_in(each) != answer for each in before) or UNSET,
        calls_differ=all(_calls_in(each) != calls for each in before) or UNSET,
    )


def _answer_in(trace: Trace) -> Json:
    content = None if trace.output is None else trace.output.content
    return content.strip() if isinstance(content, str) else content


def _calls_in(trace: Trace) -> list[tuple[str, Json]]:
    return [(call.tool, call.args) for call in trace.calls]


def _span(side: SideResult) -> float | None:
    trace = side.shown.trace
    times = [time for time in trace.times if time is not None]
    if not side.shown.timed or len(times) < 2 or trace.failure is not None:
        return None
    return max(times) - min(times)


def _delta(baseline: float | None, new: float | None) -> Delta | None:
    if baseline is None or new is None:
        return None
    return Delta(baseline, new, new - baseline)


def _present(value: _Value | None) -> _Value | UnsetType:
    return UNSET if value is None else value

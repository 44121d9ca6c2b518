"""Records as the evaluation makes them, usual ones and hostile ones, and a strategy for any."""

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from evalwright.contracts.prompt_result import (
    WEIGHTS,
    CaseVerdict,
    Complexity,
    ErrorCode,
    Finding,
    ModelFacts,
    PromptCase,
    PromptResult,
)
from evalwright.prompts.document import Prompt
from evalwright.prompts.results import Assessment, EvaluationRun, Failure, failure, minimal, success
from evalwright.prompts.tiers import TIERS
from evalwright.reports.prompts import ReportContext
from reports.html.hostile import EVIL

GENERATED = "2026-01-01T12:00:00Z"
CODES: tuple[ErrorCode, ...] = (
    "unavailable_model",
    "permission_denied",
    "rate_limited",
    "timeout",
    "parse_error",
    "file_not_found",
    "invalid_input",
    "internal_error",
)


def an_attempt(path: str = "prompts/basic/greeting.md", **more: Any) -> EvaluationRun:
    model = ModelFacts(more.pop("model", "phi4"), more.pop("provider", "local"))
    run = more.pop("run", 1)
    known: dict[str, Any] = {
        "eval_id": f"{path}/{model.name}/{run}",
        "timestamp": GENERATED,
        "path": path,
        "type": "markdown",
        "model": model,
        "tier": 2,
        "tier_name": "Local G-Eval",
        "run_index": run,
        "total_runs": 1,
        "duration_seconds": 1.25,
        "threshold": 70.0,
    }
    return EvaluationRun(**{**known, **more})


def a_result(
    path: str = "prompts/basic/greeting.md",
    score: float | Mapping[str, float] = 8.0,
    *,
    findings: Sequence[Finding] = (),
    cases: Sequence[PromptCase] = (),
    reasoning: str = "It says what to do.",
    summary: str = "A clear prompt.",
    notes: Sequence[str] = (),
    cost_usd: float | None = None,
    **attempt: Any,
) -> PromptResult:
    """A successful evaluation; `score` is of all criteria, or of those that are named."""
    own = score if isinstance(score, Mapping) else dict.fromkeys(WEIGHTS, score)
    rubric: Any = {name: (own.get(name, 8.0), reasoning) for name in WEIGHTS}
    made = an_attempt(path, **attempt)
    found = Assessment(
        rubric,
        summary,
        structural=75.0,
        judged=made.tier > 0,
        findings=findings,
        cases=cases,
        complexity=Complexity("moderate", 40.0),
        cost_usd=cost_usd,
        notes=notes,
    )
    prompt = Prompt(path, "markdown", "A title", "basic", {"title": "A title"}, "", "", 0)
    return success(made, prompt, found)


def an_error(
    path: str = "prompts/basic/greeting.md",
    code: ErrorCode = "permission_denied",
    message: str = "403 Forbidden",
    **attempt: Any,
) -> PromptResult:
    return failure(an_attempt(path, **attempt), Failure(code, message))


def a_finding(line: int = 3, column: int = 1, **more: Any) -> Finding:
    known: dict[str, Any] = {
        "rule": "PE206",
        "severity": "warning",
        "criterion": "specificity",
        "line": line,
        "column": column,
        "message": "“some” says no number.",
    }
    return Finding(**{**known, **more})


def a_case(row: int = 1, *, passed: bool = True, **more: Any) -> PromptCase:
    verdict = CaseVerdict("contains", passed, float(passed), more.get("reason", "as expected"))
    return PromptCase(row, passed, more.get("completion", "Hello!"), [verdict])


def a_context(texts: Mapping[str, str] | None = None, **more: Any) -> ReportContext:
    known: dict[str, Any] = {"tier": TIERS[2], "threshold": 70.0, "generated": GENERATED}
    return ReportContext(**{**known, "texts": texts or {}, **more})


def hostile_results() -> list[PromptResult]:
    """Every text of these records is hostile."""
    finding = a_finding(2, 3, rule=EVIL, message=EVIL)
    case = PromptCase(1, False, EVIL, [CaseVerdict(EVIL, False, 0.0, EVIL)])
    return [
        a_result(
            EVIL,
            {"clarity": 2.0},
            findings=[finding, a_finding(1, 1, message=EVIL), a_finding(999, 1, message=EVIL)],
            cases=[case],
            reasoning=EVIL,
            summary=EVIL,
            notes=[EVIL],
            model=EVIL,
            provider=EVIL,
        ),
        a_result(f"x/{EVIL}", 3.0, reasoning=EVIL, summary=EVIL, model="other"),
        an_error(f"y/{EVIL}", message=EVIL, model=EVIL, provider=EVIL),
    ]


HOSTILE_TEXTS = {EVIL: f"{EVIL}\n  {EVIL}\n```\n{EVIL}"}

_words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
_scores = st.floats(1, 10, allow_nan=False)
_findings = st.builds(
    Finding,
    rule=_names,
    severity=st.sampled_from(["error", "warning", "info"]),
    criterion=st.sampled_from(list(WEIGHTS)),
    line=st.integers(1, 9),
    column=st.integers(1, 9),
    message=_words,
)
_cases = st.builds(
    PromptCase,
    row=st.integers(1, 5),
    passed=st.booleans(),
    completion=_words,
    verdicts=st.lists(
        st.builds(
            CaseVerdict,
            evaluator=_words,
            passed=st.booleans(),
            score=st.floats(0, 1),
            reason=_words,
        ),
        max_size=2,
    ),
)
_attempts = st.fixed_dictionaries(
    {
        "model": _names,
        "provider": _names,
        "run": st.integers(1, 3),
        "total_runs": st.just(3),
        "tier": st.integers(0, 7),
        "threshold": st.floats(0, 100),
        "duration_seconds": st.floats(0, 1e4),
    }
)
_successes = st.builds(
    lambda path, score, findings, cases, words, attempt: a_result(
        path,
        score,
        findings=findings,
        cases=cases,
        reasoning=words,
        summary=words,
        notes=[words],
        **attempt,
    ),
    _names,
    st.fixed_dictionaries(dict.fromkeys(WEIGHTS, _scores)),
    st.lists(_findings, max_size=3),
    st.lists(_cases, max_size=2),
    _words,
    _attempts,
)
_errors = st.builds(
    lambda path, code, message, attempt: an_error(path, code, message, **attempt),
    _names,
    st.sampled_from(CODES),
    _names,
    _attempts,
)
records = _successes | _errors | _successes.map(minimal)
"""Any record that an evaluation can make, in both forms."""

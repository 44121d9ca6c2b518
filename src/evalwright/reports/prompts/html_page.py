"""What the HTML page shows, as plain values for its template; escaping is the template's work."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import UNSET

from evalwright.contracts.amounts import dollars
from evalwright.contracts.amounts import percent as percent_of
from evalwright.contracts.prompt_result import (
    CriterionScore,
    Finding,
    PromptCase,
    grade,
)
from evalwright.prompts.change import Change, FileChange, by_evaluation
from evalwright.prompts.results import percent
from evalwright.prompts.sources import passed_over_in_words
from evalwright.reports.formats.text import clipped
from evalwright.reports.formats.words import VERDICTS
from evalwright.reports.prompts.change_words import (
    change_in_words,
    criteria_in_words,
    points,
    verdict_in_words,
    worst_changes,
)
from evalwright.reports.prompts.context import ReportContext
from evalwright.reports.prompts.groups import (
    File,
    FileRuns,
    FileStatus,
    Overview,
    count_findings,
)
from evalwright.reports.prompts.markdown import runs_in_words
from evalwright.reports.prompts.source_view import source_view
from evalwright.signals.masking import mask_text

FULL_TEXTS = 2_000_000  # characters of all files together; of more, only lines with findings
_EXCERPTS = 400_000  # characters that excerpts of all files share
_LEAST_EXCERPT = 200
_LONG_TEXT = 50_000  # of one file
_OPEN_AT_ONCE = 50  # files; of more, the browser reads the details when a file is opened
_ROWS_AT_ONCE = 200  # of the table; the others when they are asked for
_MOST = 100  # entries of a list
_LONG = 2_000  # characters of a text that somebody else wrote
_MOST_RULES = 4  # in a row of the table
_NONE = "\N{EN DASH}"
_STATUSES: tuple[FileStatus, ...] = ("error", "failed", "skipped", "passed")
_SEVERITY_TONES = {"error": "fail", "warning": "warn", "info": ""}
_TONES: dict[FileStatus, str] = {"passed": "pass", "failed": "fail", "error": "fail", "skipped": ""}


def page_values(overview: Overview, context: ReportContext) -> dict[str, Any]:
    """The values of the template `report.html`."""
    changes = _changes_by_group(overview, context.change)
    room = None  # characters of each file: of a large library, only an excerpt is shown
    if sum(len(context.texts.get(file.path, "")) for file in overview.files) > FULL_TEXTS:
        with_findings = sum(1 for file in overview.files if file.findings)
        room = max(_LEAST_EXCERPT, _EXCERPTS // max(1, with_findings))
    files = sorted(overview.files, key=lambda file: file.badness)
    skipped, passed = overview.count("skipped"), overview.count("passed")
    total, errors = len(overview.files) - skipped, overview.count("error")
    words = f"{passed:,} of {total:,} prompts passed"
    if skipped:
        words += f", {skipped:,} skipped"
    if errors:
        words += f", {errors:,} could not be evaluated"
    is_good, noun = total > 0 and passed == total, "prompt" if total == 1 else "prompts"
    bad = f"{total - passed:,} of {total:,} {noun} may not ship"
    return {
        "tier": f"{context.tier.number} ({context.tier.name})",
        "threshold": f"{context.threshold:g}%",
        "generated": context.generated,
        "verdict": "pass" if is_good else "fail",
        "heading": f"{total:,} {noun}, all may ship" if is_good else bad,
        "why": f"{words}.",
        "tiles": _tiles(overview, context),
        "judges": len(overview.judges) > 1,
        "agreement": _agreement(overview, context.threshold),
        "change": None if context.change is None else _change(context.change),
        "passed_over": passed_over_in_words(context.passed_over, _MOST)
        if context.passed_over
        else None,
        "chips": [
            (status, VERDICTS[status], overview.count(status))
            for status in _STATUSES
            if overview.count(status)
        ],
        "is_large": room is not None,
        "opens_later": len(files) > _OPEN_AT_ONCE,
        "at_once": _ROWS_AT_ONCE,
        "rows": [
            _row(group, number, changes.get(id(group)))
            for number, file in enumerate(files, 1)
            for group in file.groups
        ],
        "files": [
            file_values(file, number, context.texts.get(file.path), room, changes)
            for number, file in enumerate(files, 1)
        ],
    }


def _tiles(overview: Overview, context: ReportContext) -> list[tuple[str, str, str]]:
    total, skipped = len(overview.files), overview.count("skipped")
    tiles = [("Files", f"{total:,}", "")]
    statuses: tuple[tuple[str, FileStatus], ...] = (
        ("Passed", "passed"),
        ("Failed", "failed"),
        ("Errors", "error"),
    )
    for name, status in statuses:
        count = overview.count(status)
        tiles.append((name, f"{count:,}", percent_of(count, total)))
    if skipped:
        tiles.append(("Skipped", f"{skipped:,}", "no prompts"))
    findings = sum(count_findings(file.findings) for file in overview.files)
    tiles.append(("Findings", f"{findings:,}", ""))
    for judge, mean in overview.averages.items():
        tiles.append(("Average", _NONE if mean is None else percent(mean), clipped(judge, 60)))
    tiles.append(("Threshold", f"{context.threshold:g}%", ""))
    if overview.cost_usd is not None:
        tiles.append(("Cost", dollars(overview.cost_usd), ""))
    return tiles


def _agreement(overview: Overview, threshold: float) -> dict[str, Any] | None:
    panel = overview.agreement(threshold)
    if panel is None:
        return None
    return {
        "shared": panel.shared,
        "judges": [
            (clipped(each.judge, 80), percent(each.mean), points(each.offset))
            for each in panel.judges
        ],
        "pairs": [
            (
                f"{clipped(each.first, 80)}, {clipped(each.second, 80)}",
                f"{each.mean_absolute_difference:.1f}",
                _NONE if each.rank_correlation is None else f"{each.rank_correlation:.2f}",
                percent_of(each.same_verdict),
            )
            for each in panel.pairs
        ],
    }


def _changes_by_group(overview: Overview, change: Change | None) -> dict[int, FileChange]:
    """The change of each group, by its identity."""
    if change is None:
        return {}
    known = {(each.path, each.judge, each.tier): each for each in change.files}
    keyed = {key: group for group in overview.groups for key in by_evaluation(group.records)}
    return {id(group): known[key] for key, group in keyed.items() if key in known}


def _change(change: Change) -> dict[str, Any]:
    moved = worst_changes(change)
    return {
        "words": change_in_words(change),
        "tone": "fail" if change.regressed else "pass",
        "notes": list(change.notes),
        "rows": [
            (
                clipped(each.path, 200),
                clipped(each.judge, 80),
                *(_NONE if side is None else percent(side) for side in (each.before, each.after)),
                points(each.delta),
                _NONE if each.noise is None else f"{each.noise:.1f}",
                verdict_in_words(each),
                criteria_in_words(each),
            )
            for each in moved[:_MOST]
        ],
        "hidden": max(0, len(moved) - _MOST),
    }


def _row(group: FileRuns, number: int, change: FileChange | None) -> dict[str, Any]:
    rules = Counter(each.rule for each in group.findings)
    tones = {each.rule: _SEVERITY_TONES[each.severity] for each in group.findings}
    return {
        "number": number,
        "path": clipped(group.path, 200),
        "judge": clipped(group.judge, 80),
        "status": group.status,
        "label": VERDICTS[group.status],
        "tone": _TONES[group.status],
        "grade": group.grade or "",
        "rate": _rate(group.score, group.threshold, _score(group)),
        "score": _score(group),
        "rules": [(rule, count, tones[rule]) for rule, count in rules.most_common(_MOST_RULES)],
        "found": count_findings(group.findings),
        "more_rules": max(0, len(rules) - _MOST_RULES),
        "change": _NONE if change is None else points(change.delta),
    }


def _rate(score: float | None, threshold: float, figure: str) -> dict[str, Any] | None:
    """A score with the threshold, as pages draw it."""
    if score is None:
        return None
    return {
        "figure": figure.removesuffix("%"),
        "share": score / 100,
        "low": None,
        "high": None,
        "bar": threshold / 100,
        "tone": "pass" if score >= threshold else "fail",
        "words": f"{figure}, bar {threshold:g}%",
    }


def _score(group: FileRuns) -> str:
    return _NONE if group.score is None else percent(group.score, group.threshold)


def file_values(
    file: File,
    number: int,
    text: str | None,
    room: int | None,
    changes: Mapping[int, FileChange],
) -> dict[str, Any]:
    """The values of the template `file.html`; `room` is for its text, where there is a limit."""
    return {
        "number": number,
        "path": clipped(file.path, 400),
        "label": VERDICTS[file.status],
        "failed": file.status in ("failed", "error"),
        "score": " / ".join(map(_score, file.groups)),
        "groups": [
            _group(group, changes.get(id(group)), all_reasons=room is None) for group in file.groups
        ],
        **_source(file.findings, text, room, f"f{number}l"),
    }


def _source(
    findings: Sequence[Finding], text: str | None, room: int | None, anchor: str
) -> dict[str, Any]:
    """The text with its findings, a word on what is left out, and findings that are not in it.

    A line with findings has an anchor: `anchor` and its number.
    """
    lines, left_out, listed, marked = list[Any](), "", findings, list[tuple[int, str]]()
    if text is not None and room is not None and not findings:
        left_out = "The text is left out: the page would be too large."
    elif text is not None:
        view = source_view(text, findings, _LONG_TEXT if room is None else room)
        listed = view.elsewhere
        lines = [
            (each.number, each.pieces, each.cut, list(map(_finding, each.found)))
            for each in view.lines
        ]
        if len(view.lines) < view.of:
            told = f"{len(view.lines):,} of {view.of:,} lines"
            left_out = f"Shortened: {told} are shown, those around findings."
        marked = view.marked[:_MOST] if room is None else []
    return {
        "anchor": anchor,
        "lines": lines,
        "marked": marked,
        "left_out": left_out,
        "findings": [(f"{each.line}:{each.column}", *_finding(each)) for each in listed[:_MOST]],
        "more": max(0, len(listed) - _MOST),
    }


def _finding(finding: Finding) -> tuple[str, str, str, str]:
    """A finding: severity, its tone, the rule, and what it says."""
    tone = _SEVERITY_TONES[finding.severity]
    return finding.severity, tone, finding.rule, finding.message


def _group(group: FileRuns, change: FileChange | None, *, all_reasons: bool) -> dict[str, Any]:
    first, spread, details = group.first, group.spread, group.first.details
    facts: list[str] = []
    cases: list[dict[str, Any]] = []
    if details is not UNSET:
        if first.complexity is not UNSET:
            facts.append(f"complexity {first.complexity.tier} ({first.complexity.score:g})")
        if details.method:
            facts.append(f"scores by {details.method}")
        if details.covered_mass is not None:
            facts.append(f"{percent_of(details.covered_mass)} of the probability covered")
        if details.judge_overall is not None:
            facts.append(f"the judge's own overall {details.judge_overall:g}")
        known = [each.details for each in group.records if each.details is not UNSET]
        notes = dict.fromkeys(note for each in known for note in each.notes)
        facts += [clipped(note, _LONG) for note in notes]
        cases = list(map(_case, details.cases[:_MOST]))
    changed = ""
    if change is not None:
        changed, criteria = verdict_in_words(change), criteria_in_words(change)
        if change.delta is not None:
            changed = f"{points(change.delta)} points since the baseline: {changed}"
            changed += f" ({criteria})" if criteria else ""
    rubric = group.first.scores.rubric if group.first.scores else {}
    return {
        "judge": clipped(group.judge, 80),
        "score": _score(group),
        "grade": group.grade or _NONE,
        "label": VERDICTS[group.status],
        "criteria": [
            (
                name.capitalize(),
                _rate(value, group.threshold, percent(value)),
                grade(value),
                _reason(rubric.get(name)) if all_reasons or value < group.threshold else "",
            )
            for name, value in group.criteria.items()
        ],
        "runs": runs_in_words(spread) if spread and spread.runs > 1 else "",
        "errors": [
            (str(each.execution.error_code), clipped(str(each.execution.error), _LONG))
            for each in group.errors
        ],
        "summary": _model_text(first.summary or ""),
        "recommendations": [clipped(each, _LONG) for each in group.recommendations],
        "facts": facts,
        "cases": cases,
        "change": changed,
    }


def _reason(score: CriterionScore | float | None) -> str:
    return _model_text(score.reasoning) if isinstance(score, CriterionScore) else ""


def _case(case: PromptCase) -> dict[str, Any]:
    return {
        "row": case.row,
        "label": VERDICTS["passed" if case.passed else "failed"],
        "completion": _model_text(case.completion),
        "verdicts": [
            (
                clipped(each.evaluator, 200),
                VERDICTS["passed" if each.passed else "failed"],
                _model_text(each.reason),
            )
            for each in case.verdicts[:_MOST]
        ],
    }


def _model_text(text: str) -> str:
    """What a model said: masked, since it may quote what it was shown, and not too long."""
    return clipped(mask_text(text), _LONG) if text else ""

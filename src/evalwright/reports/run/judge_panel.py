"""Judges on a console: who judged, how far they agreed, and why criteria were not met."""

from collections.abc import Iterator, Sequence

from evalwright.contracts.amounts import percent
from evalwright.contracts.events import Judged
from evalwright.contracts.run_plan import JudgePanel
from evalwright.contracts.suite import Task
from evalwright.engine.judges import safety_findings
from evalwright.reports.formats.console import SHORT, Style, one_line
from evalwright.scoring.rubric import all_votes, criterion_name

_MARGIN = " " * 10  # where the values of the lines begin


def render_panel(panel: JudgePanel, agreement: float | None) -> list[str]:
    """Who judged and how, not indented; with the agreement where there was more than one vote."""
    facts = [", ".join(one_line(judge) for judge in panel.judges)]
    if panel.samples > 1:
        facts.append(f"{panel.samples} samples each")
    facts.append(f"prompt {one_line(panel.prompt_version)}")
    if agreement is not None and len(panel.judges) * panel.samples > 1:
        facts.append(f"agreement {percent(agreement)}")
    return [f"judged by {' · '.join(facts)}"]


def render_verdicts(
    task: Task, judged: Sequence[Judged], style: Style, *, full: bool = False
) -> list[str]:
    """The criteria that were not met and what was found unsafe, each with a reason, not indented.

    `full` shows all criteria, with the reason of every judge and sample, and shortens nothing.
    """
    verdicts = _Verdicts(judged, style, full=full)
    return [*verdicts.on_rubric(task), *verdicts.on_safety()]


class _Verdicts:
    def __init__(self, judged: Sequence[Judged], style: Style, *, full: bool) -> None:
        self._judged = judged
        self._rubric_votes = all_votes("rubric", judged)
        self._safety_votes = all_votes("safety", judged)
        self._style = style
        self._full = full

    def on_rubric(self, task: Task) -> Iterator[str]:
        style, limit = self._style, None if self._full else SHORT
        for number, criterion in enumerate(task.expected.rubric or (), 1):
            name = criterion_name(number)
            votes = self._rubric_votes.get(name, [])
            met = 2 * sum(votes) > len(votes)
            if not votes or (met and not self._full):
                continue
            label = style.green("met    ") if met else style.red("not met")
            weight = style.dim(f"(weight {criterion.weight:g})")
            words = f"{one_line(criterion.criterion, limit)} {weight}"
            yield f"{label}   {words}{_split(votes.count(met), len(votes))}"
            yield from self._reasons("rubric", name, met=met)

    def on_safety(self) -> Iterator[str]:
        style = self._style
        for finding in safety_findings(self._judged):
            votes = self._safety_votes.get(finding.kind, [])
            words = f"{finding.kind} {style.dim(f'({finding.severity})')}"
            yield f"{style.red('unsafe ')}   {words}{_split(sum(votes), len(votes))}"
            yield from self._reasons("safety", finding.kind, met=True)

    def _reasons(self, subject: str, name: str, *, met: bool) -> Iterator[str]:
        """One reason that speaks for the outcome, or in full all of them with who gave them."""
        given = [
            (answer, verdict)
            for answer in self._judged
            if answer.subject == subject
            for verdict in answer.verdicts
            if verdict.question == name
        ]
        if not self._full:
            reason = next(verdict.reason for _, verdict in given if verdict.met == met)
            yield f"{_MARGIN}{one_line(reason)}"
            return
        for answer, verdict in given:
            said = "met" if verdict.met else "not met"
            who = self._style.dim(f"{one_line(answer.judge)} #{answer.sample}, {said}:")
            yield f"{_MARGIN}{who} {one_line(verdict.reason, None)}"


def _split(agreeing: int, votes: int) -> str:
    return "" if agreeing == votes else f", {agreeing} of {votes} votes"

"""Figures of a run for lists: how many tasks passed, and what they cost; kept once it has ended."""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from evalwright.contracts.errors import DamagedEventLog
from evalwright.contracts.events import EvalCompleted, RunCompleted, recorded_summary
from evalwright.engine.runs import agent_called, let_through_by, may_be_held, reasons_held
from evalwright.reports.formats.html import NO_HTML, Html, text_html
from evalwright.reports.formats.words import RESULTS, toned
from evalwright.scoring.statistics import wilson
from evalwright.store.protocol import EventLog, RunFacts

MOST_KEPT = 20_000
LONG = 200_000  # bytes of a summary, from which on only its end is looked at
TAIL = 1000
_COST = re.compile(rb'"totalCostUsd":([0-9.eE+-]{1,32})[,}]')
_WIDTH, _HEIGHT = 100, 20


class RunFigures(NamedTuple):
    """What the summary of a completed run says."""

    tasks: int
    passed: int
    cost_usd: float | None
    held: Sequence[str] = ()  # why it must not ship though it met its bars
    words: str = ""  # by what it met them though tasks failed

    @property
    def rate(self) -> float:
        return self.passed / self.tasks if self.tasks else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        return wilson(self.passed, self.tasks) if self.tasks else (0.0, 1.0)


class _Figures(msgspec.Struct, rename="camel"):
    task_count: int
    passed_count: int
    total_cost_usd: float | None = None


class FiguresCache:
    """Figures of runs that have ended, the last that were asked for."""

    def __init__(self) -> None:
        self._kept: dict[str, RunFigures | None] = {}
        self._agents: dict[str, str] = {}

    def knows(self, run: RunFacts) -> bool:
        """Whether nothing has to be read for the figures of a run."""
        return run.ended_us is None or run.score is None or _key(run) in self._kept

    def of(self, log: EventLog, run: RunFacts) -> RunFigures | None:
        """The figures of a run; None if it has no summary."""
        if run.ended_us is None or run.score is None:
            return None
        key = _key(run)
        if key not in self._kept:
            found = None
            with suppress(DamagedEventLog, msgspec.MsgspecError):  # it does not hide the others
                found = _read(log, run)
            self._kept[key] = found
            if len(self._kept) > MOST_KEPT:
                self._kept.pop(next(iter(self._kept)))
        return self._kept.get(key)

    def agent_of(self, log: EventLog, run: RunFacts) -> str:
        key = _key(run)
        if key not in self._agents:
            self._agents[key] = agent_called(log, run.run_id, run.agent or "")
            if len(self._agents) > MOST_KEPT:
                self._agents.pop(next(iter(self._agents)))
        return self._agents[key]

    def has_passed(self, log: EventLog, run: RunFacts) -> bool | None:
        """Whether a run met its bars and its gates; None if nothing says so."""
        if not may_be_held(run):
            return run.passed
        figures = self.of(log, run)
        return None if figures is None else not figures.held

    def verdict(self, log: EventLog, run: RunFacts) -> tuple[str, str]:
        """Whether a completed run met its bars and its gates: a tone, and words with a sign."""
        return verdict_words(run, self.of(log, run))


def verdict_words(run: RunFacts, figures: RunFigures | None) -> tuple[str, str]:
    """The verdict on a run with these figures: a tone, and words with a sign."""
    if run.passed and figures is None:  # nobody knows its gates
        return "bad", "! Cannot be read"
    if not run.passed or (figures and figures.held):
        return toned(RESULTS[False])
    tone, words = toned(RESULTS[True])
    return tone, " ".join(filter(None, (words, figures.words if figures else "")))


def _key(run: RunFacts) -> str:
    return f"{run.tenant} {run.run_id}"


def _read(log: EventLog, run: RunFacts) -> RunFigures | None:
    *_, before, last = log.edges(run.run_id)
    if last.type != RunCompleted.TYPE:
        return None
    counts = before.decode(EvalCompleted) if before.type == EvalCompleted.TYPE else None
    told = reasons_held(log, run), let_through_by(log, run)
    if len(last.body) > LONG and counts is not None:
        cost = _COST.search(last.body[-TAIL:])
        cost_usd = float(cost[1]) if cost else None
        return RunFigures(counts.task_count, counts.passed_count, cost_usd, *told)
    found = recorded_summary(last, _Figures)
    return RunFigures(found.task_count, found.passed_count, found.total_cost_usd, *told)


def spark_html(scores: Sequence[float]) -> Html:
    """A line of scores, oldest first, from 0 to 1; the words beside it say what it shows."""
    if len(scores) < 2:
        return NO_HTML
    step = _WIDTH / (len(scores) - 1)
    points = text_html(" ".join(_points(scores, step)))
    words = text_html(", ".join(f"{score:.2f}" for score in scores))
    return Html(
        f'<svg class="spark" viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img"'
        f' aria-label="Scores so far: {words}"><polyline points="{points}"/></svg>'
    )


def _points(scores: Sequence[float], step: float) -> Iterable[str]:
    for number, score in enumerate(scores):
        yield f"{number * step:.1f},{_HEIGHT - 1 - score * (_HEIGHT - 2):.1f}"

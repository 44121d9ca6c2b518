"""The runs: a page of them with filters, which are all in the address."""

import time
from collections.abc import Iterator
from typing import Any, ClassVar, Self

from starlette.responses import Response

from evalwright.contracts import amounts
from evalwright.contracts.errors import RunNotFound
from evalwright.contracts.events import RunStarted
from evalwright.contracts.short_names import agent_id_of
from evalwright.host.web.filters import Filters
from evalwright.host.web.page import LIGHT, SMALL, NotSoon, PageCall, in_time, page, part
from evalwright.host.web.run_figures import RunFigures, spark_html, verdict_words
from evalwright.reports.formats.html import as_markup
from evalwright.store.protocol import ALL_RUNS, EventLog, RunFacts, RunFilter

AT_ONCE = 40
SCANNED_AT_ONCE = 500
MOST_SCANNED = 20_000  # runs, for a filter that no index helps
KNOWN_FROM = 300  # runs whose suites, agents and tags are suggested
TREND = 12  # runs in a sparkline

SPANS = {"1h": 3600, "1d": 86_400, "7d": 7 * 86_400, "30d": 30 * 86_400}
SPAN_WORDS = {"1h": "last hour", "1d": "last day", "7d": "last 7 days", "30d": "last 30 days"}
STATUS_WORDS = {
    "passed": "passed",
    "failed": "failed",
    "error": "no result",
    "open": "not ended",
    "cancelled": "cancelled",
}
_OTHER_STATUS_WORDS = {"running": "open"}  # as the API has it
_LOG_STATUS = {
    "passed": "completed",
    "failed": "completed",
    "error": "failed",
    "cancelled": "cancelled",
}
# What of a run is shown first: tone and words, with a sign, as colours alone say nothing to many.
_VERDICTS = {
    "failed": ("bad", "✗ No result"),
    "cancelled": ("warn", "⊘ Cancelled"),
    "paused": ("warn", "‖ Paused"),
    "waiting-approval": ("warn", "‖ Waiting"),
    "cancelling": ("warn", "… Cancelling"),
    "interrupted": ("warn", "‖ Interrupted"),
}


class RunsAsked(Filters, frozen=True):
    """The filters in an address."""

    PATH = "/"
    CHOICES: ClassVar = {"status": {*STATUS_WORDS, *_OTHER_STATUS_WORDS}, "since": SPANS}

    suite: str = ""
    agent: str = ""
    status: str = ""
    tag: str = ""
    since: str = ""
    text: str = ""
    before: str = ""

    @classmethod
    def of(cls, call: PageCall) -> Self:
        asked = super().of(call)
        return asked.replace(status=_OTHER_STATUS_WORDS.get(asked.status, asked.status))

    @property
    def is_filtered(self) -> bool:
        return any(self.replace(before="").values().values())

    def as_filter(self) -> RunFilter:
        """What of it an index finds."""
        suite, _, version = self.suite.partition("@")
        agent = agent_id_of(self.agent)
        return RunFilter(
            status=_LOG_STATUS.get(self.status),
            suite=self.suite if "." in suite and version else None,
            agent=agent if "." in agent else None,
            tag=self.tag or None,
            has_ended=False if self.status == "open" else None,
        )

    def fits(self, call: PageCall, run: RunFacts) -> bool:
        suite, agent = run.suite or run.workflow, run.agent or ""
        if not (_is_end_of(self.suite, suite) or _is_end_of(self.suite, suite.partition("@")[0])):
            return False
        if not _is_end_of(agent_id_of(self.agent), agent):
            return False
        told = (run.run_id, suite, agent, call.host.figures.agent_of(call.log, run), *run.tags)
        if self.text and self.text.lower() not in "\n".join(told).lower():
            return False
        if self.status not in ("passed", "failed"):
            return True
        return call.host.figures.has_passed(call.log, run) is (self.status == "passed")


def _is_end_of(asked: str, name: str) -> bool:
    """Whether a name is the one that is asked for, or ends in it: `desk` is `acme.desk`, too."""
    return not asked or f".{name}".endswith(f".{asked}")


async def show(call: PageCall) -> Response:
    """The page, or only its table when the filters change."""
    asked = RunsAsked.of(call)
    found = await in_time(call, call.in_reader(lambda: _listed(call, asked)))
    if call.is_part:
        return part(call, "runs_table.html", **(found or {}))
    if found and not found["rows"] and not asked.is_filtered and not asked.before:
        return page(call, "first_visit.html", title="Welcome", has_demo=call.host.settings.bundled)
    known = await call.in_reader(lambda: _known(call.log))
    return page(
        call,
        "runs.html",
        title="Runs",
        statuses=list(STATUS_WORDS.items()),
        spans=list(SPAN_WORDS.items()),
        **(found or {"asked": asked.values(), "rows": None}),
        **known,
    )


def _listed(call: PageCall, asked: RunsAsked) -> dict[str, Any]:
    runs, next_before = _found(call, asked)
    figures = call.host.figures
    unknown = [run for run in runs if not figures.knows(run)]
    if sum(run.events for run in unknown) > LIGHT and not call.is_patient:
        raise NotSoon  # the last event of each is read, which holds all of its tasks
    trends, rows = _Trends(call.log, asked.before or None), []
    for run in runs:
        found = figures.of(call.log, run)
        tone, verdict = verdict_of(run, state_of(call, run), found)
        row: dict[str, Any] = {"rate": None, "cost": None}
        if found is not None:
            row = {
                "rate": found.rate,
                "interval": amounts.share_interval(*found.interval),
                "of": f"{found.passed:,} of {found.tasks:,}",
                "cost": found.cost_usd,
            }
        row |= {
            "run_id": run.run_id,
            "suite": run.suite or run.workflow,
            "agent": figures.agent_of(call.log, run),
            "tags": run.tags,
            "tone": tone,
            "verdict": verdict,
            "score": run.score,
            "started_us": run.started_us,
            "spark": as_markup(spark_html(trends.up_to(run))),
        }
        rows.append(row)
    return {
        "asked": asked.values(),
        "rows": rows,
        "is_open": any(run.ended_us is None for run in runs),  # then it is asked for again
        "here_again": asked.address(),
        "older": asked.address(before=next_before) if next_before else "",
        "newest": asked.address(before="") if asked.before else "",
    }


def _found(call: PageCall, asked: RunsAsked) -> tuple[list[RunFacts], str]:
    """The runs of a page, and where the next begins; a page may be short where few runs fit.

    The runs that an index finds are read newest first, some at a time, up to a limit.
    """
    found, last = list[RunFacts](), ""
    earliest = (time.time() - SPANS[asked.since]) * 1_000_000 if asked.since else 0
    wanted, before, scanned = asked.as_filter(), asked.before or None, 0
    at_once = SCANNED_AT_ONCE if asked.is_filtered else AT_ONCE + 1
    while scanned < MOST_SCANNED:
        try:
            runs = call.log.find_runs(wanted, at_once, before)
        except RunNotFound:  # that the address names; it may have been deleted
            return found, last
        for run in runs:
            if run.started_us < earliest:
                return found, ""
            if not asked.fits(call, run):
                continue
            if len(found) == AT_ONCE:
                return found, found[-1].run_id
            found.append(run)
        if len(runs) < SCANNED_AT_ONCE:
            return found, ""
        before = last = runs[-1].run_id
        scanned += len(runs)
        call.weight = SMALL + 1  # the page comes first if the rest takes long
    return found, last


class _Trends:
    """The scores of the runs of a suite and an agent, read once for a page."""

    def __init__(self, log: EventLog, before: str | None) -> None:
        self._log = log
        self._before = before
        self._known: dict[tuple[str, str], list[RunFacts]] = {}

    def up_to(self, run: RunFacts) -> list[float]:
        """The scores up to a run, oldest first."""
        if run.suite is None or run.agent is None:
            return []
        pair = (run.suite, run.agent)
        if pair not in self._known:
            wanted = RunFilter(suite=run.suite, agent=run.agent, has_ended=True)
            self._known[pair] = self._log.find_runs(wanted, AT_ONCE + TREND, self._before)
        scores = [each.score for each in self._known[pair] if each.run_id <= run.run_id]
        return [score for score in scores if score is not None][:TREND][::-1]


def state_of(call: PageCall, run: RunFacts) -> str:
    """The status of a run; `interrupted` if a command began it that no longer executes it."""
    status = call.host.runs.status_of(run)
    return "interrupted" if status == "running" and is_left(call, run.run_id) else status


def is_left(call: PageCall, run_id: str) -> bool:
    """Whether nobody executes a run of the command line; those of hosts are taken up again."""
    return call.is_local and not is_of_host(call, run_id) and not call.log.is_claimed(run_id)


def is_of_host(call: PageCall, run_id: str) -> bool:
    """Whether a host, or the pages, began a run."""
    first = next(call.log.read(run_id, limit=1))  # the last event of a large run is large
    return first.decode(RunStarted).owner is not None


def verdict_of(run: RunFacts, status: str, figures: RunFigures | None) -> tuple[str, str]:
    """The verdict of a run, or its state: a tone, and words with a sign."""
    if status == "completed":
        if run.passed is None:
            return "info", "✓ Completed"
        return verdict_words(run, figures)
    return _VERDICTS.get(status, ("info", "● Running"))


def _known(log: EventLog) -> dict[str, Any]:
    runs = log.find_runs(ALL_RUNS, KNOWN_FROM)
    return {
        "suites": _distinct(run.suite for run in runs),
        "agents": _distinct(run.agent for run in runs),
        "tags": _distinct(tag for run in runs for tag in run.tags),
    }


def _distinct(names: Iterator[str | None]) -> list[str]:
    return sorted({name for name in names if name})[:50]

"""The runs: a page of them with filters, which are all in the address."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self
from urllib.parse import urlencode

from starlette.responses import Response

from evalwright.contracts import amounts
from evalwright.contracts.errors import RunNotFound
from evalwright.contracts.events import RunStarted
from evalwright.contracts.short_names import agent_id_of, suite_name
from evalwright.engine.runs import may_be_held
from evalwright.host.web.filters import Filters
from evalwright.host.web.page import (
    LIGHT,
    SMALL,
    NotSoon,
    PageCall,
    in_time,
    left_words,
    page,
    part,
    run_address,
    suite_address,
)
from evalwright.host.web.run_figures import (
    RunFigures,
    baselines_of,
    change_in_words,
    provenance_of,
    spark,
    suite_id,
    verdict_words,
)
from evalwright.reports.formats.figures import rate_gauge
from evalwright.store.protocol import EventLog, RunFacts, RunFilter

AT_ONCE = 40
LOOKED_AT = 300  # runs, the latest, for where each suite and agent stands
SCANNED_AT_ONCE = 500
MOST_SCANNED = 20_000  # runs, for a filter that no index helps
TREND = 12  # runs in a sparkline
MOST_SIDE_BY_SIDE = 8  # runs in a matrix
MOST_COUNTED = 1000  # runs, the latest, by their status
MOST_READ = 200  # runs whose gates are read at once to count them

SPANS = {"1h": 3600, "1d": 86_400, "7d": 7 * 86_400, "30d": 30 * 86_400}
SPAN_WORDS = {"1h": "last hour", "1d": "last day", "7d": "last 7 days", "30d": "last 30 days"}
STATUS_WORDS = {
    "failed": "failed",
    "error": "no result",
    "passed": "passed",
    "open": "not ended",
    "cancelled": "cancelled",
}
SHAPES = {
    "passed": "pass",
    "failed": "fail",
    "error": "error",
    "open": "running",
    "cancelled": "idle",
}
_OTHER_STATUS_WORDS = {"running": "open"}  # as the API has it
_LOG_STATUS = {"passed": "completed", "failed": "completed", "error": "failed"}
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

    PATH = "/runs"
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

    @property
    def earliest_us(self) -> float:
        """When the first of the runs began."""
        return (time.time() - SPANS[self.since]) * 1_000_000 if self.since else 0

    def as_filter(self) -> RunFilter:
        """What of it an index finds."""
        status = _LOG_STATUS.get(self.status) or (
            "cancelled" if self.status == "cancelled" else None
        )
        suite, _, version = self.suite.partition("@")
        agent = agent_id_of(self.agent)
        return RunFilter(
            status=status,
            suite=self.suite if "." in suite and version else None,
            agent=agent if "." in agent else None,
            tag=self.tag or None,
            has_ended=False if self.status == "open" else None,
        )

    def fits(self, call: PageCall, run: RunFacts) -> bool:
        """Whether the rest of it holds for a run."""
        suite, agent = run.suite or run.workflow, run.agent or ""
        if not (_is_end_of(self.suite, suite) or _is_end_of(self.suite, suite.partition("@")[0])):
            return False
        if not _is_end_of(agent_id_of(self.agent), agent):
            return False
        if self.text and self.text != str(run.number):
            told = [run.run_id, suite, agent, call.host.figures.agent_of(call.log, run), *run.tags]
            figures = call.host.figures.of(call.log, run)
            started = figures.provenance if figures else provenance_of(call.log, run.run_id)
            told += [started.branch or "", started.title or ""]
            if self.text.lower() not in "\n".join(told).lower():
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
    if found and not found["groups"] and not asked.is_filtered and not asked.before:
        return page(call, "first_visit.html", title="Welcome", has_demo=call.host.settings.bundled)
    counts = await call.in_reader(lambda: _counted(call, asked))
    return page(
        call,
        "runs.html",
        title="Runs",
        chips=_chips(asked, counts),
        saved=_saved(asked),
        **(found or {"asked": asked.values(), "groups": None, "verdict": None}),
    )


class RunCounts(NamedTuple):
    """How many runs each chip shows, by its key."""

    of: Counter[str]
    is_least: bool  # older runs are not counted


def _counted(call: PageCall, asked: RunsAsked) -> RunCounts | None:
    """How many of the latest runs each chip shows; None while the gates of many are unknown."""
    asked, figures = asked.replace(status="", before=""), call.host.figures
    runs = call.log.find_runs(asked.as_filter(), MOST_COUNTED + 1)
    counts, unknown = RunCounts(Counter(), len(runs) > MOST_COUNTED), MOST_READ
    for run in runs[:MOST_COUNTED]:
        if run.started_us < asked.earliest_us:
            return counts._replace(is_least=False)
        unknown -= may_be_held(run) and not figures.knows(run)
        if unknown < 0:
            return None
        if asked.fits(call, run):
            counts.of["all"] += 1
            counts.of[_chip_of(call, run)] += 1
    return counts


def _chip_of(call: PageCall, run: RunFacts) -> str:
    """The key of the chip that shows a run."""
    if run.ended_us is None:
        return "open"
    if run.status != "completed":
        return {"failed": "error"}.get(run.status, run.status)
    if run.passed is None:
        return "done"  # which has no chip
    return "passed" if call.host.figures.has_passed(call.log, run) else "failed"


def _chips(asked: RunsAsked, counts: RunCounts | None) -> list[dict[str, Any]]:
    chips = [("", "All", "")] + [(key, words, SHAPES[key]) for key, words in STATUS_WORDS.items()]
    return [
        {
            "key": key or "all",
            "words": words[0].upper() + words[1:],
            "count": None if counts is None else counts.of[key or "all"],
            "is_least": counts is not None and counts.is_least,
            "shape": shape,
            "icon": "",
            "address": asked.address(status=key, before=""),
            "chosen": key == asked.status,
        }
        for key, words, shape in chips
    ]


def _saved(asked: RunsAsked) -> list[dict[str, Any]]:
    """Filters that people come back to."""
    return [
        {
            "words": words[0].upper() + words[1:],
            "address": asked.address(since="" if asked.since == key else key, before=""),
            "chosen": asked.since == key,
        }
        for key, words in SPAN_WORDS.items()
        if key in ("1d", "7d")
    ]


def _listed(call: PageCall, asked: RunsAsked) -> dict[str, Any]:
    runs, next_before = _found(call, asked)
    refuse_unread(call, runs)
    trends = ScoreTrends(call.log, asked.before or None)
    baselines = baselines_of(call.log)
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    heads: dict[tuple[str, str], RunFacts] = {}
    for run in runs:
        row = run_row(call, run, baselines)
        pair = suite_id(run), row["agent"]
        heads.setdefault(pair, run)
        of_pair = groups.setdefault(pair, [])
        first = next(
            (each for each in of_pair if run.repeats and each["group"] == run.repeats), None
        )
        if first is None:
            of_pair.append(row)
        else:
            first["repeats"].append(row)
    groups = {
        pair: [as_one([{**row, "repeats": []}, *row["repeats"]]) for row in of_pair]
        for pair, of_pair in groups.items()
    }
    shown = [_group(pair, heads[pair], of_pair, trends) for pair, of_pair in groups.items()]
    linked = set()
    for (suite, _), group in zip(groups, shown, strict=True):
        rows = [row for (name, _), of_pair in groups.items() if name == suite for row in of_pair]
        group["matrix"] = None if suite in linked else matrix_address(rows)
        linked.add(suite)
    return {
        "asked": asked.values(),
        "groups": shown,
        "has_models": any(row["model"] for of_pair in groups.values() for row in of_pair),
        "verdict": verdict_on([row for _, row in latest_rows(call)[1]]),
        "is_open": any(run.ended_us is None for run in runs),  # then it is asked for again
        "here_again": asked.address(),
        "older": asked.address(before=next_before) if next_before else "",
        "newest": asked.address(before="") if asked.before else "",
    }


def _group(
    pair: tuple[str, str],
    head: RunFacts,
    rows: list[dict[str, Any]],
    trends: "ScoreTrends",
) -> dict[str, Any]:
    suite, agent = pair
    latest = next((each for each in rows if each["rate"]), None)
    bar = latest["rate"]["bar"] if latest else None
    beside = [agent]
    if latest:
        beside.append(f"{latest['tasks']:,} {'task' if latest['tasks'] == 1 else 'tasks'}")
    if bar is not None:
        beside.append(f"bar {amounts.percent(bar)}")
    kind = rows[0]["kind"]
    return {
        "title": suite_name(suite),
        "agent": agent,
        "beside": " · ".join(beside),
        "address": suite_address(suite),
        "spark": spark(trends.up_to(head), bar, "pass" if kind == "pass" else "fail"),
        "rows": rows,
        "kind": kind,
    }


def matrix_address(rows: Sequence[Mapping[str, Any]]) -> dict[str, str] | None:
    """The matrix of what ran a suite: of each agent and model the first of the rows, if several.

    Where there is only one, that of its repeats.
    """
    first: dict[tuple[str, str], str] = {}
    for row in rows:
        if row["rate"]:
            first.setdefault((row["agent"], row["model"]), row["run_id"])
    agents, models = ({key[place] for key in first} for place in (0, 1))
    runs = list(first.values())
    words = f"{len(models)} models" if len(agents) == 1 else f"{len(agents)} agents"
    if len(runs) < 2:
        repeats: list[dict[str, Any]] = next((row["repeats"] for row in rows if row["repeats"]), [])
        runs, words = [each["run_id"] for each in repeats], f"{len(repeats)} repeats"
    if len(runs) < 2:
        return None
    return {
        "address": f"/matrix?{urlencode([('run', run) for run in runs[:MOST_SIDE_BY_SIDE]])}",
        "words": words,
    }


# Where each suite and agent stands.


def latest_rows(call: PageCall) -> tuple[list[RunFacts], list[tuple[RunFacts, dict[str, Any]]]]:
    """The latest runs, and of each suite and agent the last that has ended, repeats as one."""
    runs = call.log.find_runs(RunFilter(is_evaluation=True), LOOKED_AT)
    latest: dict[tuple[str, str], list[RunFacts]] = {}
    for run in runs:
        if run.ended_us is None:
            continue
        together = latest.setdefault((suite_id(run), run.agent or ""), [run])
        if run.repeats and run.repeats == together[0].repeats and run is not together[0]:
            together.append(run)
    refuse_unread(call, [run for together in latest.values() for run in together])
    baselines = baselines_of(call.log)
    return runs, [
        (together[0], as_one([run_row(call, run, baselines) for run in together]))
        for together in latest.values()
    ]


def refuse_unread(call: PageCall, runs: Sequence[RunFacts]) -> None:
    """Raise `NotSoon` where much is to be read for the figures of runs, unless the visitor waits.

    The last event of each is read, which holds all of its tasks.
    """
    unread = sum(run.events for run in runs if not call.host.figures.knows(run))
    if unread > LIGHT and not call.is_patient:
        raise NotSoon


def as_one(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Repeats as one row, the newest first: with the result and the rate of all together."""
    if len(rows) == 1:
        return rows[0]
    kinds = [row["kind"] for row in rows]
    kind, word = rows[0]["kind"], rows[0]["word"]
    if "running" not in kinds and {"pass", "fail"} <= {*kinds}:
        kind, word = "flaky", "Flaky"
    done = [row for row in rows if row["rate"]]
    rate = done[0]["rate"] if done else None
    if rate:
        counts = sum(row["passed"] for row in done), sum(row["tasks"] for row in done)
        rate = rate_gauge(*counts, rate["bar"]) | {"tone": kind if kind in ("pass", "fail") else ""}
    costs = [row["cost_usd"] for row in rows if row["cost_usd"] is not None]
    return rows[0] | {
        "kind": kind,
        "word": word,
        "rate": rate,
        "cost": amounts.dollars(sum(costs)) if costs else "",
        "repeats": rows,
    }


def verdict_on(rows: Sequence[dict[str, Any]]) -> dict[str, str]:
    """What the latest runs of all suites and agents say together."""
    link = {"address": "", "action": ""}
    if not rows:
        return link | {"kind": "running", "heading": "The first run is on its way", "why": ""}
    bad = [row for row in rows if row["kind"] in ("fail", "flaky", "error")]
    if not bad:
        one = len(rows) == 1
        heading = "The agent may ship" if one else f"All {len(rows)} agents may ship"
        why = "Every latest run met its bars."
        return link | {"kind": "pass", "heading": heading, "why": why}
    heading = f"{len(bad)} of {len(rows)} agents may not ship"
    if len(rows) == 1:
        heading = "The agent may not ship"
    first = bad[0]
    where = f" on {first['branch']}" if first["branch"] else ""
    why = f"{first['suite_title']} with {first['agent']}: run {first['number']}{where}"
    if first["tasks"]:
        bar = first["rate"]["bar"]
        told = "" if bar is None else f", its bar is {amounts.percent(bar)}"
        why += f" passed {first['passed']:,} of {first['tasks']:,} tasks{told}"
    why += "."
    link = next(attention_of(first), link)
    return link | {"kind": "fail", "heading": heading, "why": why}


def attention_of(row: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """What is wrong with the latest run of a suite and an agent, and where one sees why."""
    name, here, told = row["suite_title"], run_address(row["run_id"]), f"run {row['number']}"
    facts = [f"{told}: {row['title']}" if row["is_titled"] else told]
    facts += [row["agent"], row["branch"], row["who"]]
    if row["rate"] and row["rate"]["bar"] is not None:
        facts.insert(0, f"{row['rate']['figure']}%, bar {amounts.percent(row['rate']['bar'])}")
    beside = " \N{MIDDLE DOT} ".join(filter(None, facts))

    def item(kind: str, what: str, address: str, action: str) -> dict[str, str]:
        told = {"kind": kind, "what": f"{name}: {what}", "beside": beside}
        return told | {"address": address, "action": action}

    if row["kind"] == "error":
        word = row["word"].lower()
        what = "the run was interrupted" if word == "interrupted" else "no result"
        yield item("error", what, here, "See the error")
        return
    failed = [each for each in row["repeats"] if each["kind"] == "fail"]
    if row["repeats"] and failed:
        what = f"{len(failed)} of {len(row['repeats'])} repeats failed"
        here = run_address(failed[0]["run_id"])
        yield item(row["kind"], what, f"{here}?show=failed", "See what failed")
    elif row["kind"] == "fail":
        count, change, before = row["tasks"] - row["passed"], row["change"], row["baseline"]
        if change and change["direction"] == "down" and before:
            pair = urlencode({"baseline": before, "new": row["run_id"]})
            what = f"{change['words'][1:]} fewer passed than in the baseline"
            yield item("fail", what, f"/compare?{pair}", "See what broke")
        elif count:
            what = f"{count:,} {'task' if count == 1 else 'tasks'} did not pass"
            yield item("fail", what, f"{here}?show=failed", "See what broke")
        else:
            yield item("fail", "a bar was not met", here, "See why")
    if count := row["unsafe"]:
        what = f"{count:,} {'task has' if count == 1 else 'tasks have'} serious findings"
        yield item("fail", what, f"{here}?show=findings", "See the findings")


def progress_of(call: PageCall, run: RunFacts) -> dict[str, Any]:
    """How far a run is that goes on: tasks with a score, those that failed, what is left."""
    with call.host.progress.going_on(call.run_with(run.run_id)) as progress:
        scored, tasks, failed, ends_us = 0, 0, 0, None
        if progress is not None:
            scored, tasks = progress.scored, len(progress.tasks)
            failed = progress.counts["failed"] + progress.counts["error"]
            ends_us = None if progress.is_behind else progress.ends_us
    passed = max(0, scored - failed)
    share, bad = (passed / tasks, failed / tasks) if tasks else (0.0, 0.0)
    words = f"{scored} of {tasks} tasks: {passed} passed, {failed} failed"
    return {
        "progress": f"{scored:,} of {tasks:,}" if tasks else "starting",
        "failed": failed,
        "bar": {"words": words, "passed": share, "failed": bad},
        "left": "" if ends_us is None else left_words(ends_us / 1_000_000 - time.time()) + " left",
    }


def _found(call: PageCall, asked: RunsAsked) -> tuple[list[RunFacts], str]:
    """The runs of a page, and where the next begins; a page may be short where few runs fit."""
    found, last = list[RunFacts](), ""
    earliest = asked.earliest_us
    for runs in _scanned(call, asked):
        for run in runs:
            if run.started_us < earliest:
                return found, ""
            if not asked.fits(call, run):
                continue
            if len(found) == AT_ONCE:
                return found, found[-1].run_id
            found.append(run)
        last = runs[-1].run_id if len(runs) == SCANNED_AT_ONCE else ""
    return found, last


def _scanned(call: PageCall, asked: RunsAsked) -> Iterator[list[RunFacts]]:
    """The runs that an index finds, newest first, some at a time, up to a limit."""
    wanted, before, scanned = asked.as_filter(), asked.before or None, 0
    at_once = SCANNED_AT_ONCE if asked.is_filtered else AT_ONCE + 1
    while scanned < MOST_SCANNED:
        try:
            runs = call.log.find_runs(wanted, at_once, before)
        except RunNotFound:  # that the address names; it may have been deleted
            return
        yield runs
        if len(runs) < SCANNED_AT_ONCE:
            return
        scanned, before = scanned + len(runs), runs[-1].run_id
        call.weight = SMALL + 1  # the page comes first if the rest takes long


class ScoreTrends:
    """The scores of the runs of a suite and an agent, read once for a page."""

    def __init__(self, log: EventLog, before: str | None = None) -> None:
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


def run_row(
    call: PageCall, run: RunFacts, baselines: Mapping[tuple[str, str], str]
) -> dict[str, Any]:
    """A run as lists show it."""
    status = state_of(call, run)
    figures = call.host.figures.of(call.log, run)
    kind, word = result_of(run, status, figures)
    named = baselines.get((suite_id(run), run.agent or ""))
    started = figures.provenance if figures else provenance_of(call.log, run.run_id)
    return {
        "run_id": run.run_id,
        "number": run.number,
        "title": started.title or run_title(run),
        "is_titled": bool(started.title),
        "suite": run.suite or run.workflow,
        "suite_title": suite_name(suite_id(run)),
        "agent": call.host.figures.agent_of(call.log, run),
        "group": run.repeats or "",
        "fold": f"g-{run.run_id}",
        "repeats": [],
        "kind": kind,
        "word": word,
        "words": figures.words if figures and kind == "pass" else "",
        "model": figures.model if figures else "",
        "rate": figures.gauge | {"tone": kind if kind in ("pass", "fail") else ""}
        if figures
        else None,
        "tasks": figures.tasks if figures else 0,
        "passed": figures.passed if figures else 0,
        "unsafe": figures.unsafe if figures else 0,
        "progress": progress_of(call, run) if kind == "running" else None,
        "change": _change(call, run, named),
        "note": "baseline" if named == run.run_id else "",
        "is_baseline": named == run.run_id,
        "baseline": (figures.baseline if figures else "") or named or "",
        "cost": ""
        if not figures or figures.cost_usd is None
        else amounts.dollars(figures.cost_usd),
        "cost_usd": figures.cost_usd if figures else None,
        "p95": "" if not figures or figures.p95_ms is None else amounts.span(figures.p95_ms),
        "branch": started.branch or "",
        "commit": (started.commit or "")[:7],
        "tags": run.tags,
        "who": started.by or "",
        "started_us": run.started_us,
    }


def run_title(run: RunFacts) -> str:
    """What a run is called where there is no room for its title: by its number in the log."""
    return f"Run {run.number}"


def _change(call: PageCall, run: RunFacts, named: str | None) -> dict[str, str] | None:
    """How many tasks more or fewer passed than in the baseline, where both are of the same ones."""
    change = call.host.figures.change(call.log, run, named)
    if change is None:
        return None
    direction = "up" if change > 0 else "down" if change else "same"
    return {"words": change_in_words(change), "direction": direction}


RESULTS_OF = {
    "failed": ("error", "Error"),
    "cancelled": ("idle", "Cancelled"),
    "paused": ("idle", "Paused"),
    "waiting-approval": ("idle", "Waiting"),
    "cancelling": ("running", "Cancelling"),
    "interrupted": ("error", "Interrupted"),
}


def result_of(run: RunFacts, status: str, figures: RunFigures | None) -> tuple[str, str]:
    """What became of a run: a shape and a word."""
    if status != "completed":
        return RESULTS_OF.get(status, ("running", "Running"))
    if run.passed is None:
        return "done", "Completed"
    if run.passed and figures is None:  # nobody knows its gates
        return "error", "Cannot be read"
    tone, _ = verdict_words(run, figures)
    return ("pass", "Passed") if tone == "good" else ("fail", "Failed")


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


def may_repeat(call: PageCall, run: RunFacts) -> bool:
    """Whether the visitor may have tasks of a run done again: those of commands are not ours."""
    return (
        run.suite is not None
        and run.ended_us is not None
        and call.may("runs:create")
        and is_of_host(call, run.run_id)
    )


def verdict_of(run: RunFacts, status: str, figures: RunFigures | None) -> tuple[str, str]:
    """The verdict of a run, or its state: a tone, and words with a sign."""
    if status == "completed":
        if run.passed is None:
            return "info", "✓ Completed"
        return verdict_words(run, figures)
    return _VERDICTS.get(status, ("info", "● Running"))

"""Home: what needs somebody's attention, where each agent stands, what runs and what was spent."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from starlette.responses import Response

from evalwright.contracts import amounts
from evalwright.contracts.short_names import suite_name
from evalwright.host.web.page import (
    PageCall,
    in_time,
    page,
    run_address,
    suite_address,
)
from evalwright.host.web.pages.review import KIND_WORDS, read_queue
from evalwright.host.web.pages.runs import (
    ScoreTrends,
    attention_of,
    latest_rows,
    progress_of,
    verdict_on,
)
from evalwright.host.web.run_figures import spark, suite_id
from evalwright.store.protocol import RunFacts

MOST_ATTENTION = 8
MOST_FLYING = 3
DAYS = 7
_WEEK_US = DAYS * 86_400 * 1_000_000


async def show(call: PageCall) -> Response:
    """The page; the first visit where there is no run yet."""
    found = await in_time(call, call.in_reader(lambda: _read(call)))
    if found is None:  # many runs are read for the first time
        return page(call, "loading_page.html", title="Home", words="Reading the latest runs…")
    if not found["suites"] and not found["flying"]:
        has_demo = call.host.settings.bundled
        return page(call, "first_visit.html", title="Welcome", has_demo=has_demo)
    return page(call, "home.html", title="Home", review=await _review(call), **found)


async def _review(call: PageCall) -> dict[str, Any] | None:
    """How many tasks wait for a person; None where nobody may say, or it takes long to know."""
    if not call.may("runs:annotate"):
        return None
    queue = await in_time(call, read_queue(call, run="", suite="", agent=""))
    if queue is None:
        return None
    waiting = queue.waiting
    kinds = [
        (sum(each.kinds[0] == kind for each in waiting), words)
        for kind, words in KIND_WORDS.items()
    ]
    told = [f"{count:,} {words}" for count, words in kinds if count]
    return {"waiting": len(waiting), "kinds": told} if waiting else None


def read_suites(call: PageCall) -> tuple[list[RunFacts], list[dict[str, Any]]]:
    """The latest runs, and of each suite and agent the row of its latest run that has ended."""
    runs, rows = latest_rows(call)
    trends = ScoreTrends(call.log)
    return runs, [_suite(row, run, trends) for run, row in rows]


def _read(call: PageCall) -> dict[str, Any]:
    runs, rows = read_suites(call)
    flying = [run for run in runs if run.ended_us is None][:MOST_FLYING]
    attention = [each for row in rows for each in attention_of(row)]
    attention.sort(key=lambda each: ("fail", "flaky", "error").index(each["kind"]))
    return {
        "verdict": verdict_on(rows),
        "attention": attention[:MOST_ATTENTION],
        "suites": rows,
        "flying": [_flying(call, run) for run in flying],
        "spent": _spent(call, runs),
    }


def _suite(row: dict[str, Any], run: RunFacts, trends: ScoreTrends) -> dict[str, Any]:
    bar = row["rate"]["bar"] if row["rate"] else None
    tone = "pass" if row["kind"] == "pass" else "fail"
    return row | {
        "beside": row["agent"],
        "address": suite_address(suite_id(run)),
        "word": {"Passed": "May ship", "Failed": "Do not ship"}.get(row["word"], row["word"]),
        "spark": spark(trends.up_to(run), bar, tone),
    }


def _flying(call: PageCall, run: RunFacts) -> dict[str, Any]:
    going = progress_of(call, run)
    failed = going["failed"]
    return going | {
        "title": suite_name((run.suite or run.workflow).partition("@")[0]),
        "address": run_address(run.run_id),
        "beside": f"{failed:,} failed so far" if failed else "running",
    }


def _spent(call: PageCall, runs: Sequence[RunFacts]) -> dict[str, Any] | None:
    """What the runs of the last seven days cost, day by day, and the week before."""
    now_us = time.time() * 1_000_000
    today = datetime.fromtimestamp(now_us / 1_000_000, UTC).date()
    days = [today - timedelta(days=DAYS - 1 - number) for number in range(DAYS)]
    costs, before = dict.fromkeys(days, 0.0), 0.0
    for run in runs:
        if run.started_us < now_us - 2 * _WEEK_US or not call.host.figures.knows(run):
            continue
        figures = call.host.figures.of(call.log, run)
        if figures is None or figures.cost_usd is None:
            continue
        day = datetime.fromtimestamp(run.started_us / 1_000_000, UTC).date()
        if day in costs:
            costs[day] += figures.cost_usd
        else:
            before += figures.cost_usd
    total, most = sum(costs.values()), max(costs.values())
    if not total:
        return None
    shown = []
    for number, (day, cost) in enumerate(costs.items()):
        height = max(1, round(54 * cost / most)) if cost else 0
        x = 6 + 40 * number
        shown.append(
            {"x": x, "middle": x + 14, "y": 60 - height, "height": height, "name": f"{day:%a}"}
        )
    against = f"{amounts.dollars(before)} the week before" if before else ""
    words = ", ".join(f"{day:%A} {amounts.dollars(cost)}" for day, cost in costs.items())
    return {"total": amounts.dollars(total), "against": against, "days": shown, "words": words}

"""Home: what needs somebody's attention, where each agent stands, what runs and what was spent."""

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from evalwright.contracts import amounts
from evalwright.contracts.short_names import suite_name
from evalwright.host.web.page import (
    LIGHT,
    NotSoon,
    PageCall,
    in_time,
    page,
    run_address,
    suite_address,
)
from evalwright.host.web.pages.review import KIND_WORDS, read_queue
from evalwright.host.web.pages.runs import ScoreTrends, run_row, run_title
from evalwright.host.web.run_figures import baselines_of, spark, suite_id
from evalwright.store.protocol import RunFacts, RunFilter

LOOKED_AT = 300  # runs, the latest
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
    waiting = [each for each in queue.items if each.key not in queue.said]
    kinds = [
        (sum(each.kinds[0] == kind for each in waiting), words)
        for kind, words in KIND_WORDS.items()
    ]
    told = [f"{count:,} {words}" for count, words in kinds if count]
    return {"waiting": len(waiting), "kinds": told} if waiting else None


def read_suites(call: PageCall) -> tuple[list[RunFacts], list[dict[str, Any]]]:
    """The latest runs, and of each suite and agent the row of its latest run that has ended."""
    runs = call.log.find_runs(RunFilter(is_evaluation=True), LOOKED_AT)
    latest: dict[tuple[str, str], RunFacts] = {}
    for run in runs:
        if run.ended_us is not None:
            latest.setdefault((suite_id(run), run.agent or ""), run)
    unknown = [run for run in latest.values() if not call.host.figures.knows(run)]
    if sum(run.events for run in unknown) > LIGHT and not call.is_patient:
        raise NotSoon
    baselines, trends = baselines_of(call.log), ScoreTrends(call.log)
    return runs, [_suite(run_row(call, run, baselines), run, trends) for run in latest.values()]


def _read(call: PageCall) -> dict[str, Any]:
    runs, rows = read_suites(call)
    flying = [run for run in runs if run.ended_us is None][:MOST_FLYING]
    attention = [each for row in rows for each in _attention(row)]
    attention.sort(key=lambda each: ("fail", "error").index(each["kind"]))
    return {
        "verdict": verdict_on(rows),
        "attention": attention[:MOST_ATTENTION],
        "suites": rows,
        "flying": [_flying(call, run) for run in flying],
        "spent": _spent(call, runs),
    }


def verdict_on(rows: Sequence[dict[str, Any]]) -> dict[str, str]:
    """What the latest runs of all suites and agents say together."""
    bad = [row for row in rows if row["kind"] in ("fail", "error")]
    if not rows:
        return {"kind": "running", "heading": "The first run is on its way", "why": ""}
    if not bad:
        one = len(rows) == 1
        heading = "The agent may ship" if one else f"All {len(rows)} agents may ship"
        return {"kind": "pass", "heading": heading, "why": "Every latest run met its bars."}
    heading = f"{len(bad)} of {len(rows)} {'agent' if len(rows) == 1 else 'agents'} may not ship"
    first = bad[0]
    figures = f", {first['passed']:,} of {first['tasks']:,} tasks passed" if first["tasks"] else ""
    why = f"{first['title']} with {first['agent']} is the latest{figures}."
    return {"kind": "fail", "heading": heading, "why": why}


def _suite(row: dict[str, Any], run: RunFacts, trends: ScoreTrends) -> dict[str, Any]:
    bar = row["rate"]["bar"] if row["rate"] else None
    tone = "pass" if row["kind"] == "pass" else "fail"
    return row | {
        "title": suite_name(row["suite"].partition("@")[0]),
        "run_title": run_title(run),
        "called": row["title"] if row["is_titled"] else "",
        "beside": row["agent"],
        "address": suite_address(suite_id(run)),
        "word": {"Passed": "May ship", "Failed": "Do not ship"}.get(row["word"], row["word"]),
        "spark": spark(trends.up_to(run), bar, tone),
    }


def _attention(row: dict[str, Any]) -> Iterator[dict[str, str]]:
    """What is wrong with the latest run of a suite and an agent, and where one sees why."""
    name, here = row["title"], run_address(row["run_id"])
    told = row["run_title"].lower()
    facts = [f"{told}: {row['called']}" if row["called"] else told]
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
    if row["kind"] == "fail":
        failed, change, before = row["tasks"] - row["passed"], row["change"], row["baseline"]
        if change and change["direction"] == "down" and before:
            pair = urlencode({"baseline": before, "new": row["run_id"]})
            what = f"{change['words'][1:]} fewer passed than in the baseline"
            yield item("fail", what, f"/compare?{pair}", "See what broke")
        elif failed:
            what = f"{failed:,} {'task' if failed == 1 else 'tasks'} did not pass"
            yield item("fail", what, f"{here}?show=failed", "See what broke")
        else:
            yield item("fail", "a bar was not met", here, "See why")
    if count := row["unsafe"]:
        what = f"{count:,} {'task has' if count == 1 else 'tasks have'} serious findings"
        yield item("fail", what, f"{here}?show=findings", "See the findings")


def _flying(call: PageCall, run: RunFacts) -> dict[str, Any]:
    with call.host.progress.going_on(call.run_with(run.run_id)) as progress:
        scored, tasks, failed = 0, 0, 0
        if progress is not None:
            scored, tasks = progress.scored, len(progress.tasks)
            failed = progress.counts["failed"] + progress.counts["error"]
    passed = max(0, scored - failed)
    share, bad = (passed / tasks, failed / tasks) if tasks else (0.0, 0.0)
    words = f"{scored} of {tasks} tasks: {passed} passed, {failed} failed"
    return {
        "title": suite_name((run.suite or run.workflow).partition("@")[0]),
        "address": run_address(run.run_id),
        "progress": f"{scored:,} of {tasks:,}" if tasks else "starting",
        "beside": f"{failed:,} failed so far" if failed else "running",
        "bar": {"words": words, "passed": share, "failed": bad},
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

"""A suite over its runs: which tasks broke, which are flaky, and which never failed."""

from collections.abc import Sequence
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode

from starlette.responses import Response

from evalwright.contracts import amounts
from evalwright.contracts.short_names import suite_name
from evalwright.engine.task_names import TaskNames
from evalwright.host.http.errors import ApiError
from evalwright.host.web.page import PageCall, in_time, page, suite_address, task_address
from evalwright.host.web.pages.evidence import evidence_of
from evalwright.host.web.pages.runs import matrix_address, run_row, run_title
from evalwright.host.web.pages.suite_trends import TaskHistory, known_ids, runs_of, task_histories
from evalwright.host.web.recent_runs import RecentRun, with_tasks
from evalwright.host.web.run_views import views_of
from evalwright.reports.run.task_list import RunFrame

MOST_RUNS = 24
AT_ONCE = 100  # tasks of a page
SHOWS = {
    "": ("All", ""),
    "broke": ("Broke", "fail"),
    "flaky": ("Flaky", "flaky"),
    "never": ("Never failed", ""),
}


async def show(call: PageCall) -> Response:
    """The page of a suite, all its versions together."""
    suite_id = call.path["suite"]
    known = await call.in_reader(lambda: known_ids(call.log))
    versions = known.get(suite_id)
    if versions is None:
        versions = next(
            (each for name, each in known.items() if suite_name(name) == suite_id), None
        )
    if not versions:
        raise ApiError(404, "not_found", "there is no run of this suite")
    suite_id = versions[0].rpartition("@")[0] or versions[0]
    agent = call.asked("agent")
    facts = await call.in_reader(lambda: runs_of(call.log, versions, agent, "")[:MOST_RUNS])
    recent = await in_time(call, with_tasks(call, facts))
    if recent is None:
        words = "Reading the runs of this suite…"
        return page(call, "loading_page.html", title=suite_name(suite_id), words=words)
    runs = recent.runs[::-1]
    views = views_of(call.host)
    frame = await views.frame(call.run_with(runs[-1].facts.run_id)) if runs else None
    told = await call.in_reader(partial(_read, call, suite_id, runs, frame))
    newest = versions[0] if len(versions) == 1 else f"{suite_id}, {len(versions)} versions"
    return page(
        call,
        "suite.html",
        title=suite_name(suite_id),
        suite={
            "title": suite_name(suite_id),
            "id": newest,
            "facts": [f"{told['count']:,} {'task' if told['count'] == 1 else 'tasks'}"],
            "trends": f"/trends?{urlencode({'suite': versions[0]})}",
            "matrix": told.pop("matrix"),
            "start": f"/start?suite={quote(versions[0])}",
        },
        **told,
    )


def _read(
    call: PageCall,
    suite_id: str,
    runs: Sequence[RecentRun],
    frame: RunFrame | None,
) -> dict[str, Any]:
    histories = task_histories(runs)
    wanted = call.asked("show") if call.asked("show") in SHOWS else ""
    fitting = {key: [each for each in histories if _shows(each, key)] for key in SHOWS}
    found = fitting[wanted]
    number = int(call.asked("page")) if call.asked("page").isdecimal() else 1
    pages = max(1, -(-len(found) // AT_ONCE))
    number = min(max(1, number), pages)
    address = suite_address(suite_id)
    chips = [
        {
            "key": key or "all",
            "words": words,
            "count": len(fitting[key]),
            "shape": shape,
            "icon": "",
            "address": f"{address}?show={key}" if key else address,
            "chosen": key == wanted,
        }
        for key, (words, shape) in SHOWS.items()
    ]
    links = [
        (words, f"{address}?{urlencode({'show': wanted, 'page': to})}")
        for words, to in (("Previous", number - 1), ("Next", number + 1))
        if 1 <= to <= pages
    ]
    shown = found[(number - 1) * AT_ONCE : number * AT_ONCE]
    rows = [run_row(call, each.facts, {}) for each in runs]
    return {
        "count": len(histories),
        "matrix": matrix_address(rows[::-1]),
        "verdict": _verdict(rows, histories),
        "chips": chips,
        "runs": [{"run_id": each.facts.run_id, "number": each.facts.number} for each in runs],
        "tasks": [_task(runs, each, frame.names if frame else None) for each in shown],
        "pages": links if pages > 1 else [],
        "versions": _versions(runs),
        "evidence": evidence_of(call, runs, frame.panel.judges if frame and frame.panel else ()),
    }


def _versions(runs: Sequence[RecentRun]) -> list[tuple[str, str]]:
    """The versions of the suite and its data in these runs: what each is, and which runs had it."""
    found: dict[tuple[str, str], list[RecentRun]] = {}
    for run in runs[::-1]:
        found.setdefault((run.setup.suite, run.setup.content), []).append(run)
    told = []
    for (suite, content), having in found.items():
        _, _, digest = content.partition(":")
        tasks, numbers = len(having[0].tasks.rows), [run.facts.number for run in having]
        which = f"run {numbers[0]}"
        if len(numbers) > 1:
            which = f"{len(numbers)} runs, {min(numbers)} to {max(numbers)}"
        name = " · ".join(filter(None, (suite.rpartition("@")[2], digest[:12])))
        told.append((name, f"{tasks:,} {'task' if tasks == 1 else 'tasks'}; {which}"))
    return told


def _shows(task: TaskHistory, key: str) -> bool:
    if key == "broke":
        return task.is_broken
    if key == "flaky":
        return task.is_flaky
    return key == "" or not task.has_failed


def _verdict(rows: Sequence[dict[str, Any]], histories: Sequence[TaskHistory]) -> dict[str, str]:
    if not rows:
        return {"kind": "open", "heading": "No run has ended yet", "why": ""}
    passed = sum(row["kind"] == "pass" for row in rows)
    broken = sum(each.is_broken for each in histories)
    flaky = sum(each.is_flaky for each in histories)
    never = sum(not each.has_failed for each in histories)
    kind = "pass" if rows[-1]["kind"] == "pass" else "fail"
    tasks = "task fails" if broken == 1 else "tasks fail"
    heading = "May ship" if kind == "pass" else "Do not ship"
    if broken:
        heading = f"{heading}: {broken:,} {tasks} in the latest run"
    told = [f"{passed:,} of {len(rows):,} {'run' if len(rows) == 1 else 'runs'} met the bars"]
    if flaky:
        told.append(f"{flaky:,} {'task is' if flaky == 1 else 'tasks are'} flaky")
    if never and len(rows) > 1:
        told.append(f"{never:,} never failed: some of those may be retired")
    return {"kind": kind, "heading": heading, "why": "; ".join(told) + "."}


def _task(runs: Sequence[RecentRun], task: TaskHistory, names: TaskNames | None) -> dict[str, Any]:
    known = [each for each in task.passed if each is not None]
    latest = task.passed[-1] if task.passed else None
    called = names.of(task.task_id) if names else None
    last_in = next(
        (run for run, each in zip(runs[::-1], task.passed[::-1], strict=True) if each is not None),
        runs[-1],
    )
    note, tone = "", ""
    if task.is_broken and task.breaks:
        verb = "Broke in" if task.breaks[-1] == len(runs) - 1 else "Fails since"
        note, tone = f"{verb} {run_title(runs[task.breaks[-1]].facts).lower()}", "fail"
    elif task.is_flaky:
        note, tone = "Flaky", "warn"
    elif task.passed[-2:] == [False, True]:
        note, tone = f"Fixed in {run_title(runs[-1].facts).lower()}", "pass"
    elif task.is_broken:
        note, tone = "Always failed" if not any(known) else "Fails", "fail"
    name = called.name if called else task.task_id
    return {
        "task_id": name,
        "title": (called.subtitle or called.name) if called else task.task_id,
        "address": task_address(last_in.facts.run_id, name),
        "cells": [
            {True: "p", False: "w" if note == "Flaky" else "f", None: "x"}[each]
            for each in task.passed
        ],
        "latest": {True: "p", False: "f", None: "x"}[latest],
        "latest_word": {True: "passed", False: "failed", None: "not in the run"}[latest],
        "rate": amounts.percent(sum(known), len(known)) if known else amounts.NOTHING,
        "note": note,
        "tone": tone,
    }

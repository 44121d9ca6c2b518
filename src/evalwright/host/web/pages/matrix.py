"""Two to eight runs side by side: tasks by run, the answer in each cell, quality over cost."""

from collections.abc import Sequence
from functools import partial
from math import log10
from typing import Any, NamedTuple
from urllib.parse import urlencode

from starlette.responses import Response

from evalwright.contracts import amounts
from evalwright.contracts.short_names import suite_name
from evalwright.engine.task_names import asked as asked_of
from evalwright.host.http.errors import ApiError
from evalwright.host.web.page import PageCall, in_time, page, run_address, task_address
from evalwright.host.web.pages.run_tasks import read_near
from evalwright.host.web.pages.runs import run_row
from evalwright.host.web.recent_runs import refuse_slow
from evalwright.host.web.run_views import RunView, views_of
from evalwright.reports.formats.html import Html, as_markup, shortened, text_html
from evalwright.reports.run.conversation import readable
from evalwright.reports.run.task_details import CELL, KINDS, WORDS, status_of
from evalwright.scoring.statistics import p_in_words, paired_change

LEAST, MOST = 2, 8
AT_ONCE = 25  # tasks of a page
SHOWS = {
    "": "Runs disagree",
    "all": "All tasks",
    "none": "None passes",
}


class MatrixAsked(NamedTuple):
    """The runs and the filter in an address."""

    runs: Sequence[str]
    show: str = ""
    page: int = 1

    @classmethod
    def of(cls, call: PageCall) -> "MatrixAsked":
        """Those of a request; raises `ApiError` 400 unless there are two to eight runs."""
        runs = call.asked_runs("run")
        if not LEAST <= len(runs) <= MOST:
            message = f"a matrix has {LEAST} to {MOST} runs: /matrix?run=A&run=B"
            raise ApiError(400, "validation_error", message)
        show, number = call.asked("show"), call.asked("page")
        return cls(runs, show if show in SHOWS else "", int(number) if number.isdecimal() else 1)

    def address(self, show: str, number: int = 1) -> str:
        """The address of the same runs with another filter or page."""
        query = [("run", run) for run in self.runs]
        query += [("show", show)] if show else []
        query += [("page", str(number))] if number > 1 else []
        return f"/matrix?{urlencode(query)}"


async def show(call: PageCall) -> Response:
    """The page."""
    asked, views = MatrixAsked.of(call), views_of(call.host)
    facts = [await views.facts(call.run_with(run_id)) for run_id in asked.runs]

    async def read() -> dict[str, Any]:
        refuse_slow(call, views, facts)
        runs = [await views.of(call.run_with(each.run_id)) for each in facts]
        return await call.in_reader(partial(_read, call, runs, asked))

    found = await in_time(call, read())
    if found is None:
        return page(call, "loading_page.html", title="Matrix", words="Reading the runs…")
    title = f"{suite_name(facts[0].suite or '').partition('@')[0]}, {len(facts)} runs"
    actions = []
    if len(facts) == LEAST:
        pair = urlencode({"baseline": asked.runs[0], "new": asked.runs[1]})
        actions = [{"address": f"/compare?{pair}", "icon": "compare", "words": "Compare"}]
    return page(call, "matrix.html", title=title, actions=actions, **found)


def _read(call: PageCall, runs: Sequence[RunView], asked: MatrixAsked) -> dict[str, Any]:
    rows = [run_row(call, each.facts, {}) for each in runs]
    names = column_names(rows)
    columns = [
        {
            "name": name,
            "address": run_address(row["run_id"]),
            "kind": row["kind"],
            "word": {"Passed": "May ship", "Failed": "Do not ship"}.get(row["word"], row["word"]),
            "rate": row["rate"],
            "facts": [
                each
                for each in (
                    row["cost"] and f"{row['cost']} per run",
                    row["p95"] and f"p95 {row['p95']}",
                )
                if each
            ],
        }
        for name, row in zip(names, rows, strict=True)
    ]
    passed: dict[str, list[bool | None]] = {}
    for place, run in enumerate(runs):
        for row in run.tasks.rows:
            passed.setdefault(row.task_id, [None] * len(runs))[place] = row.passed
    by_show = {
        "": [task for task, each in passed.items() if len(set(each)) > 1],
        "all": list(passed),
        "none": [task for task, each in passed.items() if True not in each],
    }
    by_show["all"].sort(key=lambda task: len(set(passed[task])) == 1)
    found = by_show[asked.show]
    pages = max(1, -(-len(found) // AT_ONCE))
    number = min(max(1, asked.page), pages)
    shown = found[(number - 1) * AT_ONCE : number * AT_ONCE]
    links = [
        (words, asked.address(asked.show, to))
        for words, to in (("Previous", number - 1), ("Next", number + 1))
        if 1 <= to <= pages
    ]
    return {
        "columns": columns,
        "verdict": _verdict(runs, rows, names),
        "chart": as_markup(scatter_html(names, rows)),
        "chips": [
            {
                "key": key or "disagree",
                "words": words,
                "count": len(by_show[key]),
                "shape": "",
                "icon": "",
                "address": asked.address(key),
                "chosen": key == asked.show,
            }
            for key, words in SHOWS.items()
        ],
        "rows": [_row(runs, names, task_id, passed[task_id]) for task_id in shown],
        "pages": links if pages > 1 else [],
    }


def column_names(rows: Sequence[dict[str, Any]]) -> list[str]:
    """What tells the runs apart: their models, else their agents, else the runs themselves."""
    for key in ("model", "agent"):
        names = [row[key] for row in rows]
        if all(names) and len(set(names)) == len(names):
            return names
    return [row["title"] for row in rows]


def _verdict(
    runs: Sequence[RunView], rows: Sequence[dict[str, Any]], names: Sequence[str]
) -> dict[str, str]:
    """Which runs may ship, and whether the best is better than the next by more than chance."""
    good = [name for name, row in zip(names, rows, strict=True) if row["kind"] == "pass"]
    if not good:
        kind, heading = "fail", "None of these may ship"
    elif len(good) == len(names):
        kind, heading = "pass", f"All {len(names)} may ship"
    else:
        kind, heading = "pass", f"Only {', '.join(good)} may ship"
    order = sorted(range(len(rows)), key=lambda place: -rows[place]["passed"])
    best, second = order[0], order[1]
    left, right = (
        {row.task_id: row.passed for row in runs[each].tasks.rows} for each in (second, best)
    )
    both = [(left[task], right[task]) for task in left.keys() & right.keys()]
    change = paired_change(
        both.count((True, True)),
        sum(a is True and b is not True for a, b in both),
        sum(a is not True and b is True for a, b in both),
        sum(a is not True and b is not True for a, b in both),
    )
    if change is None:
        return {"kind": kind, "heading": heading, "why": "These runs have no task in common."}
    more = rows[best]["passed"] - rows[second]["passed"]
    chance = "more than chance" if change.significant else "which chance may explain"
    if not more:
        why = f"{names[best]} and {names[second]} pass as many tasks."
    else:
        noun = "task" if more == 1 else "tasks"
        why = (
            f"{names[best]} passes {more:,} {noun} more than {names[second]}, {chance} "
            f"({p_in_words(change.p_value)})."
        )
    return {"kind": kind, "heading": heading, "why": why}


def _row(
    runs: Sequence[RunView], names: Sequence[str], task_id: str, passed: Sequence[bool | None]
) -> dict[str, Any]:
    having = next(
        run for run, each in zip(runs, passed, strict=True) if task_id in run.tasks.places
    )
    called = having.names.of(task_id)
    alone = {
        value: names[passed.index(value)]
        for value in (True, False)
        if list(passed).count(value) == 1 and None not in passed and len(passed) > LEAST
    }
    note = ""
    if len(alone) == 1:
        value, name = next(iter(alone.items()))
        note = f"Only {name} {'passes' if value else 'fails'}"
    cells = []
    for run, name, came in zip(runs, names, passed, strict=True):
        cell: dict[str, Any] = {"column": name, "kind": "", "odd": ""}
        if task_id in run.tasks.places:
            read = read_near(run, task_id)
            status = (
                status_of(read.record)
                if read
                else "open"
                if came is None
                else "passed"
                if came
                else "failed"
            )
            said = ""
            if read is not None:
                error = read.record.error
                said = error.get("message", "") if error else readable(read.record.output)
            odd = came in alone and len(alone) == 1
            cell |= {
                "kind": KINDS[status],
                "word": WORDS[status],
                "answer": shortened(said, CELL) if said else "",
                "address": task_address(run.run.run_id, called.name),
                "odd": ("odd-pass" if came else "odd") if odd else "",
            }
        cells.append(cell)
    task = having.task(task_id)
    return {
        "task_id": called.name,
        "title": called.subtitle or called.name,
        "note": note,
        "input": shortened(asked_of(task.input), CELL),
        "cells": cells,
    }


def scatter_html(names: Sequence[str], rows: Sequence[dict[str, Any]]) -> Html:
    """Pass rate over cost, with intervals, the bar, and the frontier of what nothing beats."""
    known = [
        (name, row["cost_usd"], row["rate"], row["kind"])
        for name, row in zip(names, rows, strict=True)
        if row["rate"] and row["cost_usd"]
    ]
    if len(known) < LEAST:
        return Html("")
    low, high = (log10(each(cost for _, cost, _, _ in known)) for each in (min, max))
    low, high = (low - 0.2, high + 0.2) if high - low > 0.01 else (low - 0.5, high + 0.5)
    floor = min(0.5, *(rate["low"] for _, _, rate, _ in known))

    def at(cost: float, share: float) -> tuple[str, str]:
        x = 46 + 330 * (log10(cost) - low) / (high - low)
        y = 136 - 122 * (share - floor) / (1 - floor)
        return f"{x:.1f}", f"{y:.1f}"

    parts = []
    for share in (floor, (1 + floor) / 2, 1.0):
        y = text_html(at(known[0][1], share)[1])
        words = text_html(f"{100 * share:.0f}")
        parts.append(
            Html(
                f'<line class="grid" x1="46" x2="376" y1="{y}" y2="{y}"/>'
                f'<text x="38" y="{y}" dy="4" text-anchor="end">{words}</text>'
            )
        )
    bar = known[0][2]["bar"]
    if bar is not None and bar >= floor:
        y = text_html(at(known[0][1], bar)[1])
        parts.append(Html(f'<line class="bar" x1="46" x2="376" y1="{y}" y2="{y}"/>'))
    frontier, best = [], -1.0
    for _, cost, rate, _ in sorted(known, key=lambda each: (each[1], -each[2]["share"])):
        if rate["share"] > best:
            best = rate["share"]
            frontier.append(" ".join(at(cost, best)))
    path = text_html("M" + " L".join(frontier))
    parts.append(Html(f'<path class="frontier" d="{path}"/>'))
    for name, cost, rate, kind in known:
        x, y = map(text_html, at(cost, rate["share"]))
        top, bottom = (text_html(at(cost, rate[each])[1]) for each in ("high", "low"))
        tone = text_html("pass" if kind == "pass" else "fail")
        label = text_html(shortened(name, 30))
        price = text_html(amounts.dollars(cost))
        parts.append(
            Html(
                f'<line class="whisker" x1="{x}" x2="{x}" y1="{top}" y2="{bottom}"/>'
                f'<circle class="pt {tone}" cx="{x}" cy="{y}" r="6"/>'
                f'<text class="label" x="{x}" y="{y}" dx="10" dy="14">{label}</text>'
                f'<text x="{x}" y="152" text-anchor="middle">{price}</text>'
            )
        )
    told = text_html(
        "; ".join(
            f"{name} {rate['words']}, {amounts.dollars(cost)}" for name, cost, rate, _ in known
        )
    )
    drawn = Html("".join(parts))
    return Html(
        f'<svg class="chart" viewBox="0 0 400 158" role="img" aria-label="{told}">{drawn}</svg>'
    )

"""Two to eight runs side by side: tasks by run, the answer in each cell, quality over cost."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlencode

from starlette.responses import Response

from evalwright.contracts.short_names import suite_name
from evalwright.host.http.errors import ApiError
from evalwright.host.web.filters import number_of
from evalwright.host.web.page import (
    SMALL,
    PageCall,
    in_time,
    page,
    run_address,
    task_address,
)
from evalwright.host.web.pages.run_tasks import read_records
from evalwright.host.web.pages.runs import run_row, run_title
from evalwright.host.web.recent_runs import refuse_slow
from evalwright.host.web.run_views import RunView, views_of
from evalwright.reports.run.run_matrix import (
    LEAST,
    MOST,
    SHOWS,
    MatrixLimits,
    MatrixRun,
    RunMatrix,
)
from evalwright.store.protocol import RunFilter

AT_ONCE = 25  # tasks of a page
MOST_EARLIER = 20  # runs of a suite that the chart has as well


class MatrixAsked(NamedTuple):
    """The runs and the filter in an address."""

    runs: Sequence[str]
    show: str = ""
    page: int = 1
    least: str = ""  # the share of tasks that a reader asks for, in percent
    most: str = ""  # dollars of a run

    @classmethod
    def of(cls, call: PageCall) -> "MatrixAsked":
        """Those of a request; raises `ApiError` 400 unless there are two to eight runs."""
        runs = call.asked_runs("run")
        if not LEAST <= len(runs) <= MOST:
            message = f"a matrix has {LEAST} to {MOST} runs: /matrix?run=A&run=B"
            raise ApiError(400, "validation_error", message)
        show, number = call.asked("show"), call.asked("page")
        return cls(
            runs,
            show if show in SHOWS else "",
            int(number) if number.isdecimal() else 1,
            call.asked("least"),
            call.asked("most"),
        )

    @property
    def limits(self) -> MatrixLimits:
        least, most = number_of(self.least), number_of(self.most)
        return MatrixLimits(
            least / 100 if least is not None and 0 <= least <= 100 else None,
            most if most is not None and most > 0 else None,
        )

    def address(self, show: str, number: int = 1) -> str:
        """The address of the same runs with another filter or page."""
        query = [("run", run) for run in self.runs]
        query += [("show", show)] if show else []
        query += [("page", str(number))] if number > 1 else []
        query += [
            (name, value) for name, value in (("least", self.least), ("most", self.most)) if value
        ]
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
    matrix = RunMatrix([_column(call, each) for each in runs], _earlier(call, runs), asked.limits)
    by_show = {key: matrix.tasks(key) for key in SHOWS}
    found = by_show[asked.show]
    pages = max(1, -(-len(found) // AT_ONCE))
    number = min(max(1, asked.page), pages)
    links = [
        (words, asked.address(asked.show, to))
        for words, to in (("Previous", number - 1), ("Next", number + 1))
        if 1 <= to <= pages
    ]
    return {
        "asked": asked._asdict(),
        "matrix": matrix.shown(found[(number - 1) * AT_ONCE : number * AT_ONCE]),
        "chips": [
            {
                "key": key or "disagree",
                "words": words,
                "count": len(by_show[key]),
                "shape": "",
                "icon": "flag" if key == "findings" else "",
                "address": asked.address(key),
                "chosen": key == asked.show,
            }
            for key, words in SHOWS.items()
        ],
        "pages": links if pages > 1 else [],
    }


def _earlier(call: PageCall, runs: Sequence[RunView]) -> list[tuple[float, float]]:
    """What other runs of the same suites cost, and the share of tasks that passed."""
    shown, found = {run.facts.run_id for run in runs}, list[tuple[float, float]]()
    for suite in dict.fromkeys(run.facts.suite for run in runs):
        for each in call.log.find_runs(RunFilter(suite=suite, status="completed"), MOST_EARLIER):
            if each.run_id in shown or (each.events > SMALL and not call.host.figures.knows(each)):
                continue
            figures = call.host.figures.of(call.log, each)
            if figures is not None and figures.cost_usd and figures.tasks:
                found.append((figures.cost_usd, figures.passed / figures.tasks))
    return found


def _column(call: PageCall, run: RunView) -> MatrixRun:
    row = run_row(call, run.facts, {})
    return MatrixRun(
        run.frame,
        run.tasks,
        run_title(run.facts),
        row["kind"],
        row["word"],
        run_address(row["run_id"]),
        partial(read_records, run),
        partial(task_address, row["run_id"]),
    )

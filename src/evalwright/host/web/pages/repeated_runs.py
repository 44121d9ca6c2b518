"""Repeats: runs of the same suite that were started together, as strips of dots with pass^k."""

from collections.abc import Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any, TypeAlias

from evalwright.contracts import amounts
from evalwright.contracts.errors import RunNotFound
from evalwright.contracts.run_plan import Group
from evalwright.host.web.page import PageCall
from evalwright.host.web.run_views import RunView, RunViews
from evalwright.reports.formats.html import Html, quoted_html, text_html
from evalwright.scoring.repeats import Spread, TaskRepeats
from evalwright.store.protocol import RunFilter

MOST_REPEATS = 50  # runs of a group

Repeats: TypeAlias = dict[str, list[bool | None]]  # by task: how it came out in each run of a group


async def read_repeats(call: PageCall, views: RunViews, view: RunView) -> Repeats:
    """How each task came out in each run of the group, by its id; nothing without a group."""
    if view.frame.group is None or view.frame.group.size < 2:
        return {}
    wanted = RunFilter(repeats=view.frame.group.id)
    runs = await call.in_reader(lambda: call.log.find_runs(wanted, MOST_REPEATS))
    found: Repeats = {}
    for place, facts in enumerate(reversed(runs)):
        run = call.run_with(facts.run_id)
        with suppress(RunNotFound):  # deleted a moment ago
            for row in (await views.tasks(run, await views.facts(run))).rows:
                found.setdefault(row.task_id, [None] * len(runs))[place] = row.passed
    return found if len(runs) > 1 else {}


def runs_passed(call: PageCall, group: Group) -> int:
    """How many runs of a group met their bars and gates."""
    runs = call.log.find_runs(RunFilter(repeats=group.id), MOST_REPEATS)
    return sum(call.host.figures.has_passed(call.log, each) is True for each in runs)


def repeats_told(repeats: Repeats, passed: int) -> dict[str, Any]:
    """pass^k of the suite for each k, and how many runs passed and tasks are flaky."""
    tasks = [
        each for each in (_task_repeats(name, of) for name, of in repeats.items()) if each.runs > 1
    ]
    if not tasks:
        return {}
    runs = min(task.runs for task in tasks)
    rates = [
        (k, amounts.percent(sum(task.pass_hat(k) for task in tasks), len(tasks)))
        for k in range(1, runs + 1)
    ]
    flaky = sum(task.verdict == "flaky" for task in tasks)
    told = {"runs": runs, "passed": passed, "flaky": flaky, "tasks": len(tasks)}
    return {**told, "rates": rates[:10]}


def _task_repeats(task_id: str, passed: Sequence[bool | None]) -> TaskRepeats:
    known = [each for each in passed if each is not None]
    return TaskRepeats(task_id, len(known), sum(known), Spread(0, 0, 0))


_DOTS: dict[bool | None, tuple[Html, str]] = {
    True: (Html("good"), "●"),
    False: (Html("bad"), "○"),
    None: (Html("muted"), "·"),
}


def dots_html(passed: Sequence[bool | None], *, are_repeats: bool = True) -> Html:
    """A strip of dots, one for each run: full for passed, empty for failed; of repeats, pass^k."""
    repeats = _task_repeats("", passed)
    strips = list[Html]()
    for outcome, alike in groupby(passed):
        tone, dot = _DOTS[outcome]
        strips.append(Html(f'<span class="{tone}">{text_html(dot * len(list(alike)))}</span>'))
    strip = Html("".join(strips))
    words = f"{repeats.passes} of {repeats.runs} passed"
    told = words
    if are_repeats and repeats.runs > 1:
        rate = amounts.percent(repeats.pass_hat(repeats.runs))
        half = (repeats.runs + 1) // 2
        told = f"{words}, pass^{half} {amounts.percent(repeats.pass_hat(half))}"
        told += f", pass^{repeats.runs} {rate}" if half != repeats.runs else ""
    return Html(
        f'<span class="dots" role="img" aria-label="{quoted_html(words)}">{strip}</span> '
        f'<span class="muted">{text_html(told)}</span>'
    )

"""How small a drop a suite finds, and what it needs to find another one, on the console."""

from collections.abc import Iterator, Sequence

from evalwright.contracts.amounts import NOTHING, dollars, percent, share_interval, span
from evalwright.engine.power import Needed, PowerReport, helpful_repeats
from evalwright.reports.formats.console import Style, columns, wrapped


def points(value: float | None) -> str:
    """A drop in percentage points."""
    return NOTHING if value is None else f"{value:.1f}".removesuffix(".0")


def reach_in_words(report: PowerReport) -> str:
    """The smallest drop that is found, in a sentence."""
    found, many = report.detectable_points, report.repeats > 1
    with_ = f"{report.repeats} repeats" if many else "one run"
    tasks = f"{report.tasks:,} {'task' if report.tasks == 1 else 'tasks'}"
    if found is None:
        return f"With {with_} on each side, {tasks} find no drop, however large."
    failing = round(found * report.tasks / 100)
    return (
        f"With {with_} on each side, {tasks} find a drop of {points(found)} points: "
        f"{failing:,} {'task that always fails' if failing == 1 else 'tasks that always fail'} "
        "from then on."
    )


def render_power(report: PowerReport, style: Style) -> Iterator[str]:
    """The sentence, the table of repeats, the cheapest mix, the assumptions."""
    yield from map(style.bold, wrapped(reach_in_words(report), style.width))
    basis = report.basis
    low, high = basis.detectable_low, basis.detectable_high
    if basis.runs and low != high:
        many = "no drop at all" if high is None else f"{points(high)} points"
        why = (
            "one run cannot tell which tasks are flaky"
            if basis.flaky_tasks is None
            else f"{basis.flaky_tasks:,} flaky tasks were seen, and there may be more or fewer"
        )
        yield from wrapped(f"It may be from {points(low)} points to {many}: {why}.", style.width)
    yield ""
    wanted = {each.repeats: each for each in report.needed}
    cost = "cost" if basis.cost_per_task_usd is not None else ""
    took = "time" if basis.seconds_per_task is not None else ""
    rows = [("repeats", "finds", f"tasks for {points(report.detect)} points", cost, took)]
    for reach in report.reach:
        need = wanted.get(reach.repeats)
        tasks = NOTHING if need is None else f"{need.tasks:,}"
        found = NOTHING if reach.points is None else f"{points(reach.points)} points"
        rows.append((f"{reach.repeats}", found, tasks, *_price(need)))
    yield from (f"  {line}".rstrip() for line in columns(rows, ">>>>>"))
    yield ""
    yield from wrapped(_advice(report), style.width)
    for line in _assumptions(report):
        yield from wrapped(line, style.width)


def render_expected(reports: Sequence[PowerReport], style: Style) -> Iterator[str]:
    """A suite that has not been run: what it finds for some pass rates."""
    first = reports[0]
    yield from map(
        style.bold,
        wrapped(
            f"How small a drop {first.tasks:,} tasks find depends on how many pass: name a run, "
            "or give --expect.",
            style.width,
        ),
    )
    yield ""
    rows = [("pass rate", "finds", f"tasks for {points(first.detect)} points")]
    for report in reports:
        alone = next((each for each in report.needed if each.repeats == report.repeats), None)
        found = report.detectable_points
        rows.append(
            (
                percent(report.basis.pass_rate.value),
                NOTHING if found is None else f"{points(found)} points",
                NOTHING if alone is None else f"{alone.tasks:,}",
            )
        )
    yield from (f"  {line}".rstrip() for line in columns(rows, ">>>"))
    yield ""
    for line in _assumptions(first):
        yield from wrapped(line, style.width)


def _price(need: Needed | None) -> tuple[str, str]:
    if need is None:
        return "", ""
    cost = "" if need.cost_usd is None else dollars(need.cost_usd)
    return cost, "" if need.seconds is None else span(1000 * need.seconds)


def _advice(report: PowerReport) -> str:
    best, wish = report.cheapest, f"a drop of {points(report.detect)} points"
    if best is None:
        return f"No mix of tasks and repeats that was tried finds {wish}."
    told = f"The least work for {wish}: {best.tasks:,} tasks, "
    told += "one run of each" if best.repeats == 1 else f"{best.repeats} repeats of each"
    cost, took = _price(best)
    price = ", ".join(filter(None, (cost, took)))
    told += f" ({price})." if price else "."
    enough = helpful_repeats(report.reach)
    if enough is not None:
        more = "" if enough == 1 else f" of more than {enough}"
        told += f" Repeats{more} find no smaller drop in this suite."
    return told


def _assumptions(report: PowerReport) -> Iterator[str]:
    basis = report.basis
    yield (
        f"Found means: {percent(report.power)} of the times, by the gate significant-regression "
        f"(p < {report.alpha:g}). A drop: tasks that pass now always fail. The costs are of one "
        "side; baseline and new run have as many repeats."
    )
    if basis.runs:
        runs = "1 run" if len(basis.runs) == 1 else f"{len(basis.runs)} repeats"
        rate = basis.pass_rate
        yield (
            f"Measured in {runs}: {percent(rate.value)} passed "
            f"({share_interval(rate.low, rate.high)})."
        )
    else:
        yield "Expected: one task in five is flaky, the others always pass or never."

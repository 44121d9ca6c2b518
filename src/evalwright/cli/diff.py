"""`evalwright diff`: where two runs differ."""

from collections import Counter
from collections.abc import Sequence
from itertools import product

import click
import msgspec

from evalwright.cli.output import echo, print_exit, room, say, write_stdout
from evalwright.cli.parameters import db_option, json_option, secrets_option
from evalwright.comparison.diff import EventDiff, RunDiff, diff_runs, without_run_scope
from evalwright.engine.history import read_history
from evalwright.engine.runs import LATEST, find_group, find_runs, is_live, log_for
from evalwright.engine.task_names import MADE_ID, NO_NAMES, TaskNames
from evalwright.reports.formats.console import one_line, wrapped
from evalwright.store.protocol import EventLog

MOST_SHOWN = 40


class GroupDiff(msgspec.Struct, frozen=True, rename="camel"):
    """Where two groups of repeats differ, repeat by repeat in their order."""

    a: str
    b: str
    repeats: list[RunDiff]
    unpaired: list[str]  # runs that have no counterpart, since one group has more


@click.command(epilog="Example: evalwright diff baseline latest")
@click.argument("a")
@click.argument("b", default=LATEST)
@click.option("--exit-code", is_flag=True, help="Exit with 1 when the runs differ.")
@secrets_option
@json_option
@db_option
def command(
    *, a: str, b: str, exit_code: bool, show_secrets: bool, as_json: bool, db: str | None
) -> int:
    """Show where run B, by default the latest, differs from run A, event by event.

    Identity, time and durations are left out, and events are aligned task by task. Groups of
    repeats are compared repeat by repeat, and one run with each repeat of a group.
    """
    with log_for(db, a, b) as log:
        sides = find_runs(log, a), find_runs(log, b)
        for run_id in dict.fromkeys((*sides[0], *sides[1])):
            if is_live(log, run_id):
                say(f"{run_id} is live-shadow: nondeterministic, so not all differences mean much")
        pairs = _paired(*sides)
        repeats = [diff_runs(x, log.read(x), y, log.read(y)) for x, y in pairs]
        several = max(map(len, sides)) > 1
        names = find_group(log, a) or sides[0][0], find_group(log, b) or sides[1][0]
        tasks = _tasks_of(log, (sides[0][0], sides[1][0]), repeats)
    paired = {run_id for pair in pairs for run_id in pair}
    unpaired = [run_id for side in sides for run_id in side if run_id not in paired]
    found = GroupDiff(*names, repeats, unpaired) if several else repeats[0]
    document = msgspec.json.encode(found)
    if not show_secrets:
        from evalwright.signals.masking import mask_bytes

        document = mask_bytes(document, personal=False)
        found = msgspec.json.decode(document, type=type(found))
    if as_json:
        write_stdout(msgspec.json.format(document, indent=2) + b"\n")
    elif isinstance(found, RunDiff):
        echo("\n".join(_lines(found, tasks)))
    else:
        echo("\n".join(_group_lines(found, tasks)))
    if exit_code and any(each.event_diffs for each in repeats):
        return print_exit(1, "the runs differ", aside=as_json)
    return 0


def _paired(a: Sequence[str], b: Sequence[str]) -> list[tuple[str, str]]:
    if len(a) == 1 or len(b) == 1:
        return list(product(a, b))
    return list(zip(a, b, strict=False))


def _tasks_of(log: EventLog, runs: Sequence[str], found: Sequence[RunDiff]) -> TaskNames:
    """What the tasks are called in which runs differ; the plans are read if ids say nothing."""
    ids = {_task_of(difference) for each in found for difference in each.event_diffs}
    if not any(map(MADE_ID.fullmatch, ids)):
        return NO_NAMES
    suites = [read_history(log, run_id).plan.suite.tasks for run_id in runs]
    return TaskNames.of_tasks([task for tasks in suites for task in tasks])


def _group_lines(found: GroupDiff, names: TaskNames) -> list[str]:
    count = len(found.repeats)
    of_task = Counter(
        task_id
        for each in found.repeats
        for task_id in dict.fromkeys(_task_of(difference) for difference in each.event_diffs)
        if task_id
    )
    lines = [f"a {found.a}", f"b {found.b}", ""]
    if not any(each.event_diffs for each in found.repeats):
        return [*lines, f"all {count} repeats did the same"]
    lines += [
        f"{one_line(names.name_of(task_id))} differs in {times} of {count} repeats"
        for task_id, times in of_task.most_common(MOST_SHOWN)
    ]
    if len(of_task) > MOST_SHOWN:
        lines.append(f"… and {len(of_task) - MOST_SHOWN} more tasks: use --json")
    for number, each in enumerate(found.repeats, 1):
        lines += ["", f"repeat {number}", *_lines(each, names, MOST_SHOWN // count + 1)]
    if found.unpaired:
        lines += ["", f"without a counterpart: {', '.join(found.unpaired)}"]
    return lines


def _task_of(difference: EventDiff) -> str:
    return str((difference.a_event or difference.b_event or {}).get("nodeId", ""))


def _lines(found: RunDiff, names: TaskNames, most: int = MOST_SHOWN) -> list[str]:
    if not found.event_diffs:
        return [f"{found.a} and {found.b} did the same"]
    lines = [f"a {found.a}", f"b {found.b}"]
    changed = [
        f"{name}: {one_line(change['a'])} → {one_line(change['b'])}"
        for name, change in found.state_diff.items()
    ]
    lines += ["", *changed] if changed else []
    for difference in found.event_diffs[:most]:
        event, task_id = difference.a_event or difference.b_event or {}, _task_of(difference)
        task = f" [{one_line(names.name_of(task_id))}]" if task_id else ""
        lines += ["", f"{difference.op} {event.get('type')}{task}"]
        for sign, side in (("-", difference.a_event), ("+", difference.b_event)):
            if side is not None:
                shown = without_run_scope(str(side.get("type")), side.get("payload"))
                lines += wrapped(f"  {sign} {one_line(shown)}", room(), hanging="    ")
    hidden = len(found.event_diffs) - most
    if hidden > 0:
        lines += ["", f"… and {hidden} more: use --json"]
    if found.truncated is True:
        lines += ["", "a run has not ended yet; this is the difference so far"]
    return lines

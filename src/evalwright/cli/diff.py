"""`evalwright diff`: where two runs differ."""

from typing import Any

import click
import msgspec

from evalwright.cli.output import say, tell, write_stdout
from evalwright.cli.parameters import db_option, json_option, secrets_option
from evalwright.comparison.diff import EventDiff, RunDiff, diff_runs, without_run_scope
from evalwright.engine.listing import find_run, is_live
from evalwright.engine.run_files import log_for
from evalwright.reports.console import one_line

MOST_SHOWN = 40


@click.command(epilog="Example: evalwright diff run_01abc latest")
@click.argument("a")
@click.argument("b")
@click.option("--exit-code", is_flag=True, help="Exit with 1 when the runs differ.")
@secrets_option
@json_option
@db_option
def command(
    *, a: str, b: str, exit_code: bool, show_secrets: bool, as_json: bool, db: str | None
) -> int:
    """Show where run B differs from run A, event by event.

    Identity, time and durations are left out, and events are aligned task by task.
    """
    with log_for(db, a, b) as log:
        a_id, b_id = find_run(log, a), find_run(log, b)
        found = diff_runs(a_id, log.read(a_id), b_id, log.read(b_id))
        for run_id in (a_id, b_id):
            if is_live(log, run_id):
                say(f"{run_id} is live-shadow: nondeterministic, so not all differences mean much")
    document = msgspec.json.encode(found)
    if not show_secrets:
        from evalwright.signals.masking import mask_bytes

        document = mask_bytes(document, personal=False)
        found = msgspec.json.decode(document, type=RunDiff)
    if as_json:
        write_stdout(msgspec.json.format(document, indent=2) + b"\n")
    else:
        tell("\n".join(_lines(found)))
    return 1 if exit_code and found.event_diffs else 0


def _lines(found: RunDiff) -> list[str]:
    if not found.event_diffs:
        return [f"{found.a} and {found.b} did the same"]
    lines = [f"a {found.a}", f"b {found.b}", ""]
    lines += [
        f"{name}: {one_line(change['a'])} → {one_line(change['b'])}"
        for name, change in found.state_diff.items()
    ]
    for difference in found.event_diffs[:MOST_SHOWN]:
        lines += ["", *_difference(difference)]
    hidden = len(found.event_diffs) - MOST_SHOWN
    if hidden > 0:
        lines += ["", f"… and {hidden} more: use --json"]
    if found.truncated is True:
        lines += ["", "a run has not ended yet; this is the difference so far"]
    return lines


def _difference(difference: EventDiff) -> list[str]:
    event = difference.a_event or difference.b_event or {}
    task = f" [{event['nodeId']}]" if "nodeId" in event else ""
    lines = [f"{difference.op} {event.get('type')}{task}"]
    for sign, side in (("-", difference.a_event), ("+", difference.b_event)):
        if side is not None:
            lines.append(f"  {sign} {_payload(side)}")
    return lines


def _payload(event: dict[str, Any]) -> str:
    return one_line(without_run_scope(str(event.get("type")), event.get("payload")))

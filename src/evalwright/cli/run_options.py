"""What the options of `evalwright run` mean beside each other and beside a settings file."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from evalwright.cli.output import say
from evalwright.contracts.errors import BadInput, RunNotFound
from evalwright.contracts.messages import OptionText, phrase
from evalwright.contracts.run_plan import RunOptions
from evalwright.contracts.short_names import suite_name
from evalwright.contracts.suite import Suite
from evalwright.engine.plan import Plan
from evalwright.engine.runs import log_for, run_file
from evalwright.engine.suites.selection import Wanted
from evalwright.engine.verdict import gates, gates_left_out

_NOUNS = {"regression": "a regression", "findings": "a safety finding"}


def wanted_tasks(
    chosen: dict[str, Any], suites: tuple[Path, ...], resume: str | None
) -> tuple[Wanted, tuple[Path, ...]]:
    """The choice that the options make, and the suites.

    A suite right after `--failed` or `--errors` is a suite and not the name of a run; what
    `run --out` left is a run.
    """
    if resume is not None:
        raise BadInput("--resume: a run goes on with the tasks it began with; select none")
    for option in ("failed", "errors"):
        named = chosen.get(option)
        if named and Path(named).exists() and run_file(named) is None:
            chosen[option], suites = "", (Path(named), *suites)
    return Wanted(**chosen), suites


def told_gates(plan: Plan) -> Iterator[OptionText]:
    """What the user asks for and the gates of the settings do not count."""
    left_out = gates_left_out(plan)
    if left_out:
        also = " ".join(f"{{@fail_on:{each}}}" for each in [*gates(plan), *left_out])
        yield phrase(
            f"by the settings a run fails on {' and '.join(gates(plan))}, so "
            f"{' and '.join(map(_NOUNS.__getitem__, left_out))} will not fail this one; "
            f"else add to fail-on there, or give {also}"
        )


def with_known_baseline(options: RunOptions, suite: Suite, name: str, db: str | None) -> RunOptions:
    """The options without the baseline, and its gates, where the suite has none of that name."""
    from evalwright.engine.baselines import has_baseline

    assert options.baseline is not None
    try:
        with log_for(db, options.baseline) as log:
            is_known = has_baseline(log, options.baseline, suite.suite_id)
    except RunNotFound:
        is_known = False
    if is_known:
        return options
    of_suite = f"{options.baseline} of {suite_name(suite.suite_id)}"
    say(f"{name}: there is no baseline {of_suite} yet; not compared")
    left = tuple(gate for gate in options.fail_on if not gate.endswith("regression"))
    return msgspec.structs.replace(options, baseline=None, fail_on=left)

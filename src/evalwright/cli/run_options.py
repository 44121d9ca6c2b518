"""What the options of `evalwright run` mean beside each other and beside a settings file."""

import os
from pathlib import Path
from typing import Any

import msgspec

from evalwright.contracts.errors import BadInput
from evalwright.contracts.planning import RunOptions
from evalwright.contracts.suite import Suite
from evalwright.engine.plan import is_judged, looks_for_findings
from evalwright.engine.selection import Wanted
from evalwright.models.run_defaults import RunDefaults
from evalwright.store.location import VARIABLE as DB_VARIABLE


def wanted_tasks(
    chosen: dict[str, Any], suites: tuple[Path, ...], resume: str | None
) -> tuple[Wanted, tuple[Path, ...]]:
    """The choice that the options make, and the suites.

    A suite right after `--failed` or `--errors` is a suite and not the name of a run.
    """
    if resume is not None:
        raise BadInput("--resume: a run goes on with the tasks it began with; select none")
    for option in ("failed", "errors"):
        named = chosen.get(option)
        if named and Path(named).exists():
            chosen[option], suites = "", (Path(named), *suites)
    if "seed" in chosen and "sample" not in chosen:
        raise BadInput("--seed needs --sample")
    return Wanted(**chosen), suites


def fill_in(given: dict[str, Any], defaults: RunDefaults, *, is_resumed: bool) -> None:
    """Add what was not given: suites, concurrency, the database."""
    if defaults.db is not None and given["db"] is None and not os.environ.get(DB_VARIABLE):
        given["db"] = defaults.db
    if is_resumed:
        return
    if not given["suites"]:
        given["suites"] = tuple(map(Path, defaults.suites))
    if given["concurrency"] is None:
        given["concurrency"] = defaults.concurrency


def fitting(
    defaults: RunDefaults, agent: str | None, options: RunOptions, suite: Suite
) -> tuple[str | None, RunOptions]:
    """The agent, and the options with the judges and gates that mean something for a suite.

    What the command line or the suite says counts first.
    """
    if defaults.judges and not options.judges and is_judged(suite, options.modes):
        options = msgspec.structs.replace(options, judges=defaults.judges)
    if defaults.fail_on and not options.fail_on:
        usable = [
            gate
            for gate in defaults.fail_on
            if (gate != "findings" or looks_for_findings(suite, options.modes))
            and (not gate.endswith("regression") or options.baseline is not None)
        ]
        options = msgspec.structs.replace(options, fail_on=tuple(usable))
    return agent or defaults.agent, options


def without_spare_judges(options: RunOptions, suite: Suite) -> RunOptions:
    """The options for one of several suites, or a part of one, where others may need judges."""
    if not options.judges or is_judged(suite, options.modes):
        return options
    return msgspec.structs.replace(options, judges=(), judge_samples=None)

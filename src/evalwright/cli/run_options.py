"""What the options of `evalwright run` mean beside each other and beside a settings file."""

from pathlib import Path
from typing import Any

from evalwright.contracts.errors import BadInput
from evalwright.engine.run_files import run_file
from evalwright.engine.selection import Wanted
from evalwright.models.run_defaults import RunDefaults, configured_log


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
    if "seed" in chosen and "sample" not in chosen:
        raise BadInput("--seed needs --sample")
    return Wanted(**chosen), suites


def fill_in(given: dict[str, Any], defaults: RunDefaults, *, is_resumed: bool) -> None:
    """Add what was not given: suites, concurrency, the database."""
    given["db"] = configured_log(given["db"], defaults)
    if is_resumed:
        return
    if not given["suites"]:
        given["suites"] = tuple(map(Path, defaults.suites))
    if given["concurrency"] is None:
        given["concurrency"] = defaults.concurrency

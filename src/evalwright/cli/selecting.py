"""What the options of `evalwright run` choose among the tasks of a suite."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalwright.contracts.errors import BadInput

if TYPE_CHECKING:
    from evalwright.engine.selection import Wanted


def wanted_tasks(
    chosen: dict[str, Any], suites: tuple[Path, ...], resume: str | None
) -> tuple["Wanted", tuple[Path, ...]]:
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
    from evalwright.engine.selection import Wanted

    return Wanted(**chosen), suites

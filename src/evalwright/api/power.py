"""How many tasks and repeats a suite needs to find a drop."""

from pathlib import Path
from typing import TYPE_CHECKING

from evalwright.api.runs import RunResult
from evalwright.api.suite_run import place_of
from evalwright.api.suites import Suite
from evalwright.contracts.errors import BadInput
from evalwright.engine.runs import log_for, run_file

if TYPE_CHECKING:
    from evalwright.engine.power import PowerReport


def power(
    subject: str | Path | RunResult | Suite = "latest",
    *,
    detect: float = 5.0,
    power: float = 0.8,
    alpha: float = 0.05,
    repeats: int | None = None,
    expect: float | None = None,
    db: str | Path | None = None,
) -> "PowerReport":
    """The smallest drop that a suite finds, and how many tasks and repeats find one of `detect`.

    By a run, or all its repeats: a result, an id, `latest`, a baseline's name; or by a suite, or
    its file, and the share of tasks that is expected to pass. Drops are in percentage points. See
    `evalwright power`.
    """
    from evalwright.engine.power import PowerOptions, power_of_runs, power_of_suite
    from evalwright.engine.suites.loader import read_subject

    options = PowerOptions(detect, power, alpha, repeats, expect)
    suite = subject.subject().suite if isinstance(subject, Suite) else None
    if isinstance(subject, str | Path) and Path(subject).is_file() and not run_file(str(subject)):
        suite = read_subject(subject, None).suite
    if suite is not None:
        if expect is None:
            raise BadInput(
                "expect: give the share of tasks that is expected to pass, or name a run"
            )
        return next(power_of_suite(suite, options))
    place, named = place_of(subject, db)
    if isinstance(subject, RunResult):
        named = subject.group or named
    with log_for(str(place), named) as log:
        return power_of_runs(log, named, options)

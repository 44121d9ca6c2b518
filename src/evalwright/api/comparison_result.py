"""Comparing runs: what changed, why, and whether to ship."""

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import msgspec

from evalwright.api.runs import RunResult
from evalwright.api.suite_run import log_place
from evalwright.contracts.errors import BadInput
from evalwright.reports.comparison.folder import CompareOptions, compare_runs
from evalwright.scoring.chance import ChangeTally
from evalwright.store.location import open_existing_log, shown_db

Side: TypeAlias = RunResult | str | Path


class ComparisonResult:
    """What came of a comparison: `report` is the machine-readable report as a document.

    `passed` is whether nothing speaks against the new run; None where nothing was expected.
    """

    def __init__(self, report: dict[str, Any], *, passed: bool | None) -> None:
        self.report = report
        self.passed = passed

    @property
    def verdict(self) -> str:
        """Whether to ship, or what differs where nothing was expected, in a sentence."""
        return str(self.report["summary"]["verdict"])

    @property
    def sentence(self) -> str:
        """Whether the change is more than chance."""
        found = self.report["summary"].get("significance")
        return str(found["sentence"]) if found else ChangeTally().verdict().sentence

    @property
    def regressions(self) -> list[str]:
        """The cases that passed before and do not pass now."""
        worse = (it for it in self.report["items"] if it["baseline_pass"] and not it["new_pass"])
        return [item["case_id"] for item in worse]

    @property
    def improvements(self) -> list[str]:
        """The cases that did not pass before and pass now."""
        better = (it for it in self.report["items"] if it["new_pass"] and not it["baseline_pass"])
        return [item["case_id"] for item in better]

    def __repr__(self) -> str:
        return f"<comparison: {self.verdict}>"


def compare(
    baseline: Side,
    new: Side,
    *,
    out: str | Path | None = None,
    cases: str | Path | None = None,
    db: str | Path | None = None,
) -> ComparisonResult:
    """Compare a new run with a baseline: what changed, why, and whether to ship.

    A side is a run, or the repeats of one, the id of a run or of a group of repeats, `latest`, a
    folder of `run --out`, an `events.jsonl`, a run directory or a file of traces; the baseline may
    also be one that has a name, `"main"`, of which the one of the same suite and agent is meant.
    `out` keeps the report folder.
    """
    places = {side.db for side in (baseline, new) if isinstance(side, RunResult)}
    if len(places) > 1:
        shown = " and ".join(sorted(shown_db(str(place)) for place in places))
        raise BadInput(f"both runs must be in one log: {shown}")
    place = log_place(db if db is not None else next(iter(places), None))
    with TemporaryDirectory() as scratch:
        folder = Path(out) if out is not None else Path(scratch) / "report"
        options = CompareOptions(
            baseline=_named(baseline, "baseline"),
            new=_named(new, "new"),
            out=folder,
            cases=None if cases is None else Path(cases),
        )
        written = compare_runs(options, partial(open_existing_log, str(place)))
        report = msgspec.json.decode((folder / "compare-report.json").read_bytes())
    blocks = written.blocks_shipping
    return ComparisonResult(report, passed=None if blocks is None else not blocks)


def _named(side: Side, name: str) -> str:
    if isinstance(side, RunResult):
        return side.group or side.id
    if str(side) and isinstance(side, str | Path):
        return str(side)
    raise BadInput(f"{name}={side!r:.60}: not a run; give a run, its id, a folder or a name")

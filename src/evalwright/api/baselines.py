"""Named baselines: `ew.baseline.set("main", run)`, as `evalwright baseline` does it."""

import builtins
from pathlib import Path
from typing import Any

import msgspec

from evalwright.api.runs import RunResult
from evalwright.api.suite_run import log_place, place_of
from evalwright.contracts.documents import read_input, write_whole
from evalwright.contracts.errors import BadInput
from evalwright.engine import baselines
from evalwright.engine.baselines import (
    NamedBaseline,
    age_of,
    baselines_called,
    list_baselines,
)
from evalwright.engine.own_checks import OwnFacts
from evalwright.engine.runs import log_for
from evalwright.store.location import existing_log, log_exists, opened_log
from evalwright.store.protocol import EventLog


class BaselineReport(OwnFacts):
    """The name of a run: its suite, its agent, and how the run came out."""

    name: str
    run_id: str
    suite_id: str
    agent_id: str
    set_at: str
    age_s: int
    score: float | None
    passed: bool | None


class Baselines:
    """The runs that others are compared with, by name.

    A name belongs to a suite and an agent: `main` may be one run of each. `db` names the log, as
    for `run`.
    """

    def set(
        self,
        name: str,
        run: RunResult | str | Path = "latest",
        *,
        allow_partial: bool = False,
        db: str | Path | None = None,
    ) -> BaselineReport:
        """Call a run, by default the latest, by this name from now on."""
        if not isinstance(name, str):
            raise BadInput(f"a baseline begins with its name, a text, not {name!r:.60}")
        place, named = place_of(run, db)
        with log_for(str(place), named) as log:
            found = baselines.set_baseline(log, name, named, allow_partial=allow_partial)
            return _report(log, found)

    def list(self, *, db: str | Path | None = None) -> "builtins.list[BaselineReport]":
        """All baselines, by name, suite and agent; none where there is no log yet."""
        place = str(log_place(db))
        if not log_exists(place):
            return []
        with existing_log(place) as log:
            return [_report(log, each) for each in list_baselines(log)]

    def show(self, name: str, *, db: str | Path | None = None) -> "builtins.list[BaselineReport]":
        """The runs that are called by this name: one for each suite and agent."""
        with existing_log(str(log_place(db))) as log:
            return [_report(log, each) for each in baselines_called(log, name)]

    def rm(
        self,
        name: str,
        *,
        suite: str | None = None,
        agent_id: str | None = None,
        db: str | Path | None = None,
    ) -> None:
        """Forget a name, of all suites and agents or of one; the runs stay in the log."""
        with existing_log(str(log_place(db))) as log:
            meant = baselines_called(log, name, suite, agent_id)
            baselines.remove_baselines(log, meant)

    def export(self, file: str | Path, *names: str, db: str | Path | None = None) -> None:
        """Write baselines with their runs to a file: those of these names, or all."""
        with existing_log(str(log_place(db))) as log:
            chosen = [each for name in names for each in baselines_called(log, name)]
            chosen = chosen if names else list_baselines(log)
            if not chosen:
                raise BadInput("there is no baseline; name a run with ew.baseline.set(name)")
            try:
                write_whole(Path(file), baselines.export_baselines(log, chosen), 0o600)
            except OSError as error:
                raise BadInput(f"{file}: cannot be written: {error.strerror}") from None

    def import_(
        self, file: str | Path, *, db: str | Path | None = None
    ) -> "builtins.list[BaselineReport]":
        """Add the baselines of a file, and their runs, to the log."""
        source = read_input(str(file))
        with opened_log(str(log_place(db))) as log:
            added = baselines.import_baselines(log, source, str(file))
            return [_report(log, each) for each in added]

    def __repr__(self) -> str:
        return "<baselines: set, list, show, rm, export, import_>"


baseline = Baselines()


def _report(log: EventLog, named: NamedBaseline) -> BaselineReport:
    facts = log.facts(named.run_id)
    known: dict[str, Any] = msgspec.structs.asdict(named)
    age_s = age_of(log, named.run_id)
    return BaselineReport(**known, age_s=age_s, score=facts.score, passed=facts.passed)

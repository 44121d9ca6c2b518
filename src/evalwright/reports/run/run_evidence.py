"""What the evidence of a run is worth, as far as the log tells: power, judge, what is noticed."""

from collections.abc import Iterator

import msgspec

from evalwright.contracts.errors import EvalwrightError
from evalwright.engine.baselines import runs_meant
from evalwright.engine.calibration import CalibrationReport, calibrate, labels_in_log
from evalwright.engine.mutants import MutantOptions, Mutants
from evalwright.engine.power import PowerOptions, PowerReport, power_of_runs
from evalwright.reports.run.calibration import corrected_in_words
from evalwright.reports.run.mutants import noticed_in_words
from evalwright.reports.run.power import reach_in_words
from evalwright.store.protocol import EventLog


class Noticed(msgspec.Struct, frozen=True):
    """How many damaged answers the suite notices."""

    score: float
    counted: int
    noticed: int
    sentence: str


class RunEvidence(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is known of the evidence of a run, or of repeats; what is not known is left out."""

    power: PowerReport | None = None
    judge: CalibrationReport | None = None
    noticed: Noticed | None = None

    def lines(self) -> Iterator[tuple[str, str]]:
        """What is known, by its name, in a sentence each."""
        if self.power is not None:
            yield "power", reach_in_words(self.power)
        if self.judge is not None:
            yield "judge", corrected_in_words(self.judge)
        if self.noticed is not None:
            yield "noticed", self.noticed.sentence


def read_evidence(log: EventLog, name: str) -> RunEvidence:
    """The evidence of a run, or of a group of repeats; of these, the first is damaged and judged.

    The user's own code is not run, and no judge is asked.
    """
    run_id, power = runs_meant(log, name)[0], power_of_runs(log, name, PowerOptions())
    judge = None
    if labels := labels_in_log(log, run_id):
        try:
            judge = calibrate(log, run_id, labels)
        except EvalwrightError:  # it has reviews, and no verdicts of judges
            judge = None
    found = Mutants(log, run_id, MutantOptions(with_code=False)).report()
    noticed = None
    if found.score is not None:
        sentence = noticed_in_words(found)
        noticed = Noticed(found.score, found.counted, found.noticed, sentence)
    return RunEvidence(power, judge, noticed)

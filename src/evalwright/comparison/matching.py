"""Which cases are compared: all of the case file, and all that either side answered."""

from collections.abc import Iterator

import msgspec

from evalwright.comparison.case_file import CaseFile
from evalwright.comparison.case_index import BASELINE, NEW, CaseIndex, Entry, Side
from evalwright.comparison.run_folder import SUFFIX, RunFolder
from evalwright.trace.model import Json

_OUTSIDE = "the case is not in the case file, so nothing is expected of it"


class PlannedCase(msgspec.Struct, frozen=True, array_like=True):
    """A case to compare: its place in the case file, and the files that answer it."""

    id: str
    number: int | None
    repetition: int
    baseline: tuple[str, ...]
    new: tuple[str, ...]
    faults: tuple[str, ...]


class Plan:
    """All cases of a comparison, in the order of the case file, then those outside it."""

    def __init__(self, cases: CaseFile | None, baseline: RunFolder, new: RunFolder) -> None:
        self._outside_faults = (_OUTSIDE,) if cases is not None else ()
        self._roster = CaseIndex()
        try:
            self._roster.add_cases(_identified(cases))
            self._roster.add_files(baseline.stems(), new.stems())
            self._assign(NEW, new)
            self._assign(BASELINE, baseline)
            self._take_in_the_unknown()
            self._select(baseline, new)
            self._count = len(self._roster)
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        return self._count

    def close(self) -> None:
        """Let go of what is kept on disk."""
        self._roster.close()

    @property
    def notes(self) -> list[str]:
        """What a reader should know of the choice of cases."""
        count = self._roster.left_out()
        return [f"{count:,} cases of the case file were selected by neither run."] if count else []

    def __iter__(self) -> Iterator[PlannedCase]:
        for entry in self._roster.entries():
            before = _file_of(entry.id, exists=entry.in_baseline)
            after = _file_of(entry.id, exists=entry.in_new)
            yield PlannedCase(
                entry.id,
                entry.number,
                entry.repetition,
                self._baseline(entry.id, before),
                after + self._roster.answers(NEW, entry.id),
                _faults(entry),
            )
        for case_id in self._roster.outside():
            before, after = self._baseline(case_id, ()), self._roster.answers(NEW, case_id)
            yield PlannedCase(case_id, None, 1, before, after, self._outside_faults)

    def _baseline(self, case_id: str, named: tuple[str, ...]) -> tuple[str, ...]:
        """The files that bear the id or name it; else those that share its key."""
        found = named + self._roster.answers(BASELINE, case_id)
        if found:
            return found
        key = self._roster.base_of(NEW, case_id)
        return self._roster.answers_of_base(BASELINE, key)

    def _assign(self, side: Side, run: RunFolder) -> None:
        """Find out which cases those files answer that are not named after one."""
        for answer in run.told_answers():
            self._roster.add_told_answer(side, answer.case_id, answer.base_case_id, answer.name)
        for stem in self._roster.strays(side):
            name = f"{stem}{SUFFIX}"
            self._roster.add_answer(side, run.case_named_in(name), name)

    def _take_in_the_unknown(self) -> None:
        """Cases outside the case file; a baseline of none of them is a case of its own."""
        for case_id in self._roster.unknown_answered(NEW):
            self._roster.add_outside(NEW, case_id)
        for case_id in self._roster.unknown_answered(BASELINE):
            key = self._roster.base_of(BASELINE, case_id)
            if not self._roster.is_base(NEW, key):
                self._roster.add_outside(BASELINE, case_id)

    def _select(self, baseline: RunFolder, new: RunFolder) -> None:
        """What a run set out to answer is missing if it did not; the rest may be left out."""
        both_say_so = all([self._add_selected(BASELINE, baseline), self._add_selected(NEW, new)])
        self._roster.add_unknown_selected()
        if both_say_so:
            self._roster.leave_out_unselected()

    def _add_selected(self, side: Side, run: RunFolder) -> bool:
        ids = run.selected()
        if ids is not None:
            self._roster.add_selected(side, ids)
        return ids is not None


def _file_of(case_id: str, *, exists: bool) -> tuple[str, ...]:
    return (f"{case_id}{SUFFIX}",) if exists else ()


def _faults(entry: Entry) -> tuple[str, ...]:
    found = () if entry.fault is None else (entry.fault,)
    if entry.repetition == 1:
        return found
    return (*found, f"the id stands {entry.repetition} times or more in the case file")


def _identified(cases: CaseFile | None) -> Iterator[tuple[str, str | None]]:
    """An id for each case, and what was wrong with those that had none of their own."""
    for number, value in enumerate(cases.ids() if cases is not None else ()):
        yield _identify(number, value)


def _identify(number: int, value: Json) -> tuple[str, str | None]:
    if isinstance(value, str) and value:
        return value, None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value), f"case {number} has a number as its id"
    return f"cases[{number}]", f"case {number} of the case file is no object with an id"

"""Which cases are compared: all of the case file, and all that either side answered."""

from collections import Counter
from collections.abc import Iterator

import msgspec

from evalwright.compare.case_file import CaseFile
from evalwright.compare.run_folder import RunFolder


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
        self._cases = cases
        self._runs = (baseline, new)
        self._ids, self._id_faults = _identify(cases)
        known = set(self._ids)
        self._repeats = len(known) < len(self._ids)
        outside = dict.fromkeys(new.claim(known))
        bases = {new.base_of(name) for name in (*known, *outside)}
        outside |= {
            name: None for name in baseline.claim(known) if baseline.base_of(name) not in bases
        }
        selected = [run.selected for run in self._runs]
        outside |= {name: None for ids in selected for name in ids or () if name not in known}
        self._outside = list(outside)
        self._left_out = self._never_selected(selected)

    def __len__(self) -> int:
        return len(self._ids) + len(self._outside) - len(self._left_out)

    @property
    def notes(self) -> list[str]:
        """What a reader should know of the choice of cases."""
        if not self._left_out:
            return []
        return [f"{len(self._left_out):,} cases of the case file were selected by neither run."]

    def __iter__(self) -> Iterator[PlannedCase]:
        seen: Counter[str] = Counter()
        for number, case_id in enumerate(self._ids):
            if number in self._left_out:
                continue
            repetition = 1
            if self._repeats:  # usually there are none, and nothing need be counted
                seen[case_id] += 1
                repetition = seen[case_id]
            faults = list(self._id_faults.get(number, ()))
            if repetition > 1:
                faults.append(f"the id stands {repetition} times or more in the case file")
            yield self._planned(case_id, number, repetition, faults)
        for case_id in self._outside:
            fault = "the case is not in the case file, so nothing is expected of it"
            yield self._planned(case_id, None, 1, [fault] if self._cases is not None else [])

    def _planned(
        self, case_id: str, number: int | None, repetition: int, faults: list[str]
    ) -> PlannedCase:
        baseline, new = self._runs
        claimed = number is not None
        before = baseline.files(case_id, claimed=claimed)
        before = before or baseline.files_of_base(new.base_of(case_id))
        after = new.files(case_id, claimed=claimed)
        return PlannedCase(case_id, number, repetition, tuple(before), tuple(after), tuple(faults))

    def _answers(self, case_id: str) -> bool:
        return any(run.files(case_id, claimed=True) for run in self._runs)

    def _never_selected(self, selected: list[list[str] | None]) -> set[int]:
        """Cases that both runs say they did not set out to answer, and did not."""
        baseline, new = selected
        if baseline is None or new is None:
            return set()
        chosen = {*baseline, *new}
        return {
            number
            for number, case_id in enumerate(self._ids)
            if case_id not in chosen
            and not any(run.files(case_id, claimed=True) for run in self._runs)
        }


def _identify(cases: CaseFile | None) -> tuple[list[str], dict[int, list[str]]]:
    """An id for each case, and what was wrong with those that had none of their own."""
    ids: list[str] = []
    faults: dict[int, list[str]] = {}
    for number, value in enumerate(cases.ids() if cases is not None else ()):
        if isinstance(value, str) and value:
            ids.append(value)
        elif isinstance(value, int) and not isinstance(value, bool):
            ids.append(str(value))
            faults[number] = [f"case {number} has a number as its id"]
        else:
            ids.append(f"cases[{number}]")
            faults[number] = [f"case {number} of the case file is no object with an id"]
    return ids, faults

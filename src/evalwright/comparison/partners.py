"""Cases of two recorded sides that no case id names, paired by what else they have in common.

Ids of conversations and of traces differ from run to run. What the user asked does not: traces in
which it is the same are one case, and several on one side are its repeats.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from evalwright.comparison.cases import Cases, parse_case
from evalwright.comparison.run_folder import ComparedRun, RunFolder, Unnamed
from evalwright.contracts.report import PairingSummary
from evalwright.trace.importers.records import digest_of

PairedBy = Literal["case_file", "conversation", "trace", "prompt", "place"]
_WORDS: dict[PairedBy, str] = {
    "case_file": "by the prompt in the case file",
    "conversation": "by conversation",
    "trace": "by trace id",
    "prompt": "by the user's prompt",
    "place": "by their place in the files",
}
_REMEDY = "To be sure, give them case ids (on a span: the attribute evalwright.case_id)."
_NAMED = "named"  # in place of what was asked, of a case with an id


class Pairing(msgspec.Struct, frozen=True):
    """How cases without a case id were paired, by their ids; and how many have no partner."""

    cases: dict[str, PairedBy]
    unpaired_baseline: int
    unpaired_new: int

    def summary(self) -> PairingSummary:
        """How many cases were paired in which way, as a report says it."""
        found = Counter(self.cases.values())
        by = {str(how): found[how] for how in _WORDS if found[how]}
        ways = [f"{found[how]:,} {words}" for how, words in _WORDS.items() if found[how]]
        left = (("baseline", self.unpaired_baseline), ("new run", self.unpaired_new))
        alone = [f"{count:,} of the {side}" for side, count in left if count]
        parts = [f"paired: {', '.join(ways)}"] if ways else []
        parts += [f"without a partner: {', '.join(alone)}"] if alone else []
        note = f"Cases without a case id, {'; '.join(parts)}. {_REMEDY}"
        return PairingSummary(by, self.unpaired_baseline, self.unpaired_new, note)


def pair_unnamed(baseline: ComparedRun, new: ComparedRun, cases: Cases | None) -> Pairing | None:
    """Give responses that belong together the same case; None if all of them have a case id."""
    sides = [run for run in (baseline, new) if isinstance(run, RunFolder) and run.unnamed]
    if not sides:
        return None
    paired: dict[str, PairedBy] = {}
    prompts = _prompts(cases) if cases is not None else {}
    for run in sides:
        for each in run.unnamed:
            if each.asked in prompts:
                run.renamed[each.name] = prompts[each.asked]
                paired[prompts[each.asked]] = "case_file"
    waiting = [list(_left(run)) for run in (baseline, new)]
    paired |= _same_ids(waiting[1], _asked(baseline)) | _same_ids(waiting[0], _asked(new))
    waiting = [[each for each in side if each.case_id not in paired] for side in waiting]
    if isinstance(baseline, RunFolder) and isinstance(new, RunFolder):
        paired |= _same_prompts(baseline, new, waiting)
    waiting = [list(_left(run, paired)) for run in (baseline, new)]
    paired |= dict.fromkeys(_in_both(*waiting), "place")
    alone = [sum(each.case_id not in paired for each in side) for side in waiting]
    return Pairing(paired, *alone)


def _left(run: ComparedRun, paired: Iterable[str] = ()) -> Iterator[Unnamed]:
    if isinstance(run, RunFolder):
        known = set(paired)
        for each in run.unnamed:
            if each.name not in run.renamed and each.case_id not in known:
                yield each


def _prompts(cases: Cases) -> dict[str | None, str]:
    """The ids of cases by a digest of their prompts, if no two have the same."""
    found: dict[str | None, str] = {}
    several: set[str | None] = {None}
    for number, value in enumerate(cases.ids()):
        if isinstance(value, str) and value:
            case = parse_case(cases.case(number), value)
            digest = digest_of(" ".join(case.prompt.split()))
            if found.setdefault(digest, value) != value:
                several.add(digest)
    return {digest: case_id for digest, case_id in found.items() if digest not in several}


def _in_both(baseline: list[Unnamed], new: list[Unnamed]) -> list[str]:
    known = {each.case_id for each in baseline}
    return [each.case_id for each in new if each.case_id in known]


def _asked(run: ComparedRun) -> dict[str, str | None]:
    """All cases of a side, with a digest of what was asked if nothing else names them."""
    if not isinstance(run, RunFolder):
        return {}
    found: dict[str, str | None] = dict.fromkeys(run.stems(), _NAMED)
    found |= {each.case_id: _NAMED for each in run.listed()}
    return found | {each.case_id: each.asked for each in run.unnamed}


def _same_ids(side: list[Unnamed], other: dict[str, str | None]) -> dict[str, PairedBy]:
    """Cases with one id on both sides; a mere place must also have the same prompt."""
    found: dict[str, PairedBy] = {}
    for each in side:
        if each.case_id not in other:
            continue
        if each.named_by != "place":
            found[each.case_id] = "conversation" if each.named_by == "conversation" else "trace"
        elif other[each.case_id] in (each.asked, _NAMED):
            found[each.case_id] = "place"
    return found


def _same_prompts(
    baseline: RunFolder, new: RunFolder, waiting: list[list[Unnamed]]
) -> dict[str, PairedBy]:
    """Cases in which the same was asked, under the id of the first of the new side."""
    known = {each.asked for each in waiting[0]} - {None}
    first: dict[str, str] = {}
    for each in waiting[1]:
        if each.asked is not None and each.asked in known:
            first.setdefault(each.asked, each.case_id)
    taken = set(first.values())
    for run, side in zip((baseline, new), waiting, strict=True):
        for each in side:
            if each.asked in first:
                run.renamed[each.name] = first[each.asked]
            elif run is baseline and each.case_id in taken:
                run.renamed[each.name] = f"{each.case_id} (baseline)"
    return dict.fromkeys(first.values(), "prompt")

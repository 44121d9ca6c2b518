"""From two opened sides and one case to a compared case: everything a report says about it.

Nothing is written here. A compared case carries the bytes that a report has to copy.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from typing import NamedTuple, TypeVar

import msgspec

from evalwright.comparison.alignment import AlignedStep, align
from evalwright.comparison.case_plan import CasePlan, PlannedCase
from evalwright.comparison.cases import Case, SuiteCases, file_stem, parse_case
from evalwright.comparison.inputs import Inputs
from evalwright.comparison.run_folder import (
    RUN_META,
    ComparedRun,
    Unreadable,
    parse_response,
)
from evalwright.comparison.side import (
    CaseLinks,
    CheckedResponse,
    SideResult,
    check,
    item_of,
    judge_sides,
)
from evalwright.contracts.report import Artifacts, BothSides, Item
from evalwright.signals.masking import mask_bytes, mask_capture, mask_value
from evalwright.signals.masking.masked_report import mask_item
from evalwright.signals.suppression import Suppressions
from evalwright.trace.decode import decode_trace
from evalwright.trace.integrity import passed_over
from evalwright.trace.model import Json, Trace

_Before = TypeVar("_Before")
_After = TypeVar("_After")

_AT_ONCE = 8  # cases; of more, their own data would not stay in the cache
_MOST_BYTES_AT_ONCE = 256 << 10


class ReportFile(NamedTuple):
    """A file of the report: its place, and what it holds."""

    href: str
    data: bytes


class ComparedCase(msgspec.Struct, frozen=True):
    """A case of both sides, as it may be shown. `files` belong beside its page."""

    item: Item
    prompt: str
    steps: Sequence[AlignedStep]
    traces: BothSides[Trace]
    definition: Json
    files: Sequence[ReportFile]
    missing_assets: Sequence[str]
    previous: str = ""  # the pages of the cases beside it
    next: str = ""


class _Response(NamedTuple):
    """A response as it was read, and as it may be shown; without a link where it is unreadable."""

    value: Json | Unreadable
    shown: Json | Unreadable
    href: str


class _ReadCase(NamedTuple):
    """A case with all that was read of it; its definition as it is, and as it may be shown."""

    planned: PlannedCase
    stem: str
    responses: BothSides[list[_Response]]
    raw: Json
    masked: Json
    files: list[ReportFile]


class _JudgedCase(NamedTuple):
    read: _ReadCase
    case: Case
    sides: BothSides[SideResult]


def planned_cases(inputs: Inputs) -> CasePlan:
    """The cases of two opened sides; the tasks in which own runs differ are not among them."""
    other = inputs.left_out
    ids = (*other.changed, *other.new, *other.removed) if other else ()
    return CasePlan(inputs.cases, inputs.baseline, inputs.new, ids)


class Comparer:
    """Compares cases of two runs: a few at a time, stage by stage.

    A stage that does the same for some cases in turn finds its tables in the processor's cache.
    """

    def __init__(
        self, inputs: Inputs, suppressions: Suppressions, today: date, *, masked: bool
    ) -> None:
        self.inputs = inputs
        self.suppressions = suppressions
        self.masked = masked
        self._today = today
        said = {"baseline": inputs.baseline.meta_bytes(), "new": inputs.new.meta_bytes()}
        self.meta_files = [
            ReportFile(f"{side}/{RUN_META}", mask_bytes(data) if masked else data)
            for side, data in said.items()
            if data is not None
        ]
        self._meta_links: dict[str, str | None] = {
            f"{side}_run_meta_href": f"{side}/{RUN_META}"
            for side, data in said.items()
            if data is not None
        }

    def compare(self, planned: Iterable[PlannedCase]) -> Iterator[ComparedCase]:
        """Compare cases, in their order."""
        waiting: list[_ReadCase] = []
        size = 0
        for each in planned:
            waiting.append(self._read(each))
            size += sum([len(file.data) for file in waiting[-1].files])
            if len(waiting) == _AT_ONCE or size > _MOST_BYTES_AT_ONCE:
                yield from _in_turn(self._compared, _in_turn(self._judge, waiting))
                size = 0
        yield from _in_turn(self._compared, _in_turn(self._judge, waiting))

    def _read(self, planned: PlannedCase) -> _ReadCase:
        stem = file_stem(planned.id, planned.repetition)
        runs = self.inputs
        old = [runs.baseline.read(name) for name in planned.baseline]
        new = [runs.new.read(name) for name in planned.new]
        if runs.cases is not None and planned.number is not None:
            raw = runs.cases.case(planned.number)
        else:
            # A case that is in no case file, from what its responses say.
            said = (
                each.value.get("user_prompt") for each in [*new, *old] if type(each.value) is dict
            )
            prompt = next((text for text in said if isinstance(text, str) and text), "")
            raw = {"id": planned.id, "input": {"user": prompt}}
        masked, copies = raw, [found.data for found in (*old, *new)]
        if self.masked:
            masked = mask_value(raw)
            copies = [None if data is None else mask_bytes(data) for data in copies]
        files: list[ReportFile] = []
        responses: list[_Response] = []
        for place, ((value, data), copy) in enumerate(zip((*old, *new), copies, strict=True)):
            side, number = ("baseline", place) if place < len(old) else ("new", place - len(old))
            if copy is None:
                responses.append(_Response(value, value, ""))
                continue
            name = f"{side}/{stem}.json" if number == 0 else f"{side}/{stem}~r{number + 1}.json"
            files.append(ReportFile(name, copy))
            responses.append(
                _Response(value, value if copy is data else parse_response(copy), name)
            )
        of_sides = BothSides(responses[: len(old)], responses[len(old) :])
        return _ReadCase(planned, stem, of_sides, raw, masked, files)

    def _judge(self, read: _ReadCase) -> _JudgedCase:
        case = parse_case(read.raw, read.planned.id)
        runs, responses = self.inputs, read.responses
        is_suite = isinstance(runs.cases, SuiteCases)
        decided = BothSides(
            is_suite and runs.baseline.suite is not None, is_suite and runs.new.suite is not None
        )
        checked: list[list[CheckedResponse]] = [
            [
                check(
                    case,
                    each.value,
                    each.shown,
                    clean=self.masked and each.shown is each.value,
                    decided=is_decided,
                )
                for each in of
            ]
            for is_decided, of in (
                (decided.baseline, responses.baseline),
                (decided.new, responses.new),
            )
        ]
        sides = judge_sides(case, BothSides(*checked), self.suppressions, self._today, decided)
        return _JudgedCase(read, case, sides)

    def _compared(self, judged: _JudgedCase) -> ComparedCase:
        read, case, sides = judged
        shown = case if read.masked is read.raw else parse_case(read.masked, case.id)
        responses = read.responses
        traces = BothSides(
            _shown_trace(sides.baseline, responses.baseline, shown),
            _shown_trace(sides.new, responses.new, shown),
        )
        steps = align(traces.baseline, traces.new)
        named = (("baseline", sides.baseline), ("new", sides.new))
        found = [f"{name}: {side.shown.fault}" for name, side in named if side.shown.fault]
        left = ((name, side.shown.trace) for name, side in named)
        found += [f"{name}: {passed_over(trace)}" for name, trace in left if trace.unknown]
        of_case = (
            f"expected.json_schema: {failure.message}"
            for _, side in named
            for failure in side.failures
            if failure.name == "case_schema"
        )
        faults = [*read.planned.faults, *case.faults, *[*found, *dict.fromkeys(of_case)]]
        missing: list[str] = []
        artifacts = self._artifacts(judged, faults, missing)
        of_repeats = (
            tuple([each.href for each in side if each.href])
            for side in (responses.baseline, responses.new)
        )
        item = item_of(case, sides, steps, CaseLinks(artifacts, BothSides(*of_repeats)), faults)
        if self.masked and _may_quote(item, read):
            item = mask_item(item)
        if read.planned.paired_by:
            item = msgspec.structs.replace(item, paired_by=read.planned.paired_by)
        definition = read.masked
        if isinstance(definition, dict):
            definition = {"title": shown.title, **definition}
        else:  # what was not an object is made one
            definition = {"id": shown.id, "title": shown.title, "input": {"user": shown.prompt}}
        beside = (
            f"case-{stem}.html" if stem else ""
            for stem in (read.planned.previous, read.planned.next)
        )
        return ComparedCase(
            item, shown.prompt, steps, traces, definition, read.files, missing, *beside
        )

    def _artifacts(self, judged: _JudgedCase, faults: list[str], missing: list[str]) -> Artifacts:
        """The links of a case. What they need and cannot be had is added to the lists."""
        read, _, sides = judged
        links = {**self._meta_links}
        for side in ("baseline", "new"):
            result: SideResult = getattr(sides, side)
            responses: list[_Response] = getattr(read.responses, side)
            if responses:
                links[f"{side}_case_response_href"] = responses[result.chosen].href or None
            failure = result.shown.trace.failure
            if failure is None:
                continue
            for part, reference in (("body", failure.body_path), ("meta", failure.meta_path)):
                file = self._captured(side, part, reference, read.stem) if reference else None
                if isinstance(file, ReportFile):
                    read.files.append(file)
                    links[f"{side}_failure_{part}_href"] = file.href
                elif file is not None:
                    missing.append(f"assets/{side}-{read.stem}.{part}")
                    faults.append(f"{side}: the captured {part} is not in the report: {file}")
        return Artifacts(f"case-{read.stem}.html", **links)

    def _captured(self, side: str, part: str, reference: str, stem: str) -> ReportFile | str:
        """What was captured of a failed call, or why it cannot be had.

        Text opens in a browser as text, never as a page; anything else is to be saved.
        """
        run: ComparedRun = getattr(self.inputs, side)
        data = run.captured(reference)
        if isinstance(data, Unreadable):
            return data.reason
        try:
            suffix = "bin" if "\0" in data.decode() else "txt"
        except UnicodeDecodeError:
            suffix = "bin"
        copy = mask_capture(data) if self.masked else data
        return ReportFile(f"assets/{side}-{stem}.{part}.{suffix}", copy)


def _in_turn(stage: Callable[[_Before], _After], cases: list[_Before]) -> list[_After]:
    """What a stage makes of each case; what it was is let go at once, while it is in the cache."""
    cases.reverse()
    return [stage(cases.pop()) for _ in range(len(cases))]


def _shown_trace(side: SideResult, responses: Sequence[_Response], case: Case) -> Trace:
    if not responses:
        return side.shown.trace
    chosen = responses[side.chosen]
    if chosen.shown is chosen.value and case.prompt == side.shown.trace.prompt:
        return side.shown.trace
    shown = {} if isinstance(chosen.shown, Unreadable) else chosen.shown
    return decode_trace(shown, case.id, case.prompt)


def _may_quote(item: Item, read: _ReadCase) -> bool:
    """Whether an item may quote something sensitive; masking every item would cost too much."""
    responses = (*read.responses.baseline, *read.responses.new)
    said = item.faults, item.security.baseline.suppressed, item.security.new.suppressed
    return (
        read.masked is not read.raw
        or said != (msgspec.UNSET,) * len(said)
        or any(each.shown is not each.value for each in responses)
    )

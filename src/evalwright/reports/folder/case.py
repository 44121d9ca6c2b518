"""One case of the report: compared, masked, and its page and copies written."""

import os
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from operator import attrgetter
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar

import msgspec

from evalwright.comparison.alignment import AlignedStep, align
from evalwright.comparison.case_file import CaseFile
from evalwright.comparison.cases import Case, parse_case
from evalwright.comparison.comparison import Comparison, Hrefs, compare_case
from evalwright.comparison.matching import PlannedCase
from evalwright.comparison.policy import CATALOGUE
from evalwright.comparison.run_folder import Unreadable, parse_response, read_inside
from evalwright.comparison.side import Checked, SideResult, check
from evalwright.comparison.summary import facts_of
from evalwright.contracts.report import Artifacts, BothSides, Item
from evalwright.reports.folder.batch import Batch, Written, as_batch
from evalwright.reports.folder.failures import Captures
from evalwright.reports.folder.names import file_stem
from evalwright.reports.html.pages import CaseView, overview_row, render_case
from evalwright.signals.masking import mask_bytes, mask_capture, mask_value
from evalwright.signals.masking.report import mask_item
from evalwright.signals.suppression import Suppressions
from evalwright.trace.decode import decode_trace
from evalwright.trace.model import Json, Trace

_Before = TypeVar("_Before")
_After = TypeVar("_After")

_AT_ONCE = 8  # cases; of more, their own data would not stay in the cache
_MOST_BYTES_AT_ONCE = 256 << 10
_NOTHING_TOLD = (msgspec.UNSET, msgspec.UNSET, msgspec.UNSET)
_OF_THE_RUNS = ("baseline_run_meta_href", "new_run_meta_href")
_OF_THE_CASE = attrgetter(*[n for n in Artifacts.__struct_fields__ if n not in _OF_THE_RUNS])


class Settings(msgspec.Struct, frozen=True):
    """What every case of a report needs to know."""

    report: Path
    report_id: str
    baseline: Captures
    new: Captures
    meta_hrefs: BothSides[str | None]
    suppressions: Suppressions
    today: date
    masked: bool


class _Response(NamedTuple):
    """A response as it was read, and as it may be shown."""

    value: Json | Unreadable
    shown: Json | Unreadable
    href: str
    size: int


class _Read(NamedTuple):
    """A case with all that was read of it; its definition as it is, and as it may be shown."""

    planned: PlannedCase
    stem: str
    baseline: list[_Response]
    new: list[_Response]
    raw: Json
    masked: Json

    @property
    def size(self) -> int:
        """The bytes of its responses."""
        return sum([response.size for response in self.baseline + self.new])


class _Held(NamedTuple):
    """A case with its responses held against it."""

    read: _Read
    case: Case
    baseline: list[Checked]
    new: list[Checked]


class _Compared(NamedTuple):
    read: _Read
    case: Case
    comparison: Comparison


class _Told(NamedTuple):
    """What the report tells of a case."""

    item: Item
    prompt: str
    steps: list[AlignedStep]
    traces: BothSides[Trace]
    definition: Json
    missing_assets: list[str]


class CaseWriter:
    """Writes the cases of a report, one after the other."""

    def __init__(self, settings: Settings, cases: CaseFile | None) -> None:
        self._settings = settings
        self._cases = cases
        self._file: BinaryIO | None = cases.path.open("rb") if cases is not None else None

    def close(self) -> None:
        """Let go of the case file."""
        if self._file is not None:
            self._file.close()

    def write_batch(self, planned: Iterable[PlannedCase]) -> Batch:
        """The same, with all that is left to do joined."""
        written = list(self.write_all(planned))
        return as_batch(written, frozenset(self._settings.suppressions.used))

    def write_all(self, planned: Iterable[PlannedCase]) -> Iterator[Written]:
        """Compare cases, and write all that belongs to each; a few at a time, stage by stage.

        A stage that does the same for some cases in turn finds its tables in the processor's cache.
        """
        waiting: list[_Read] = []
        size = 0
        for each in planned:
            waiting.append(self._read(each))
            size += waiting[-1].size
            if len(waiting) == _AT_ONCE or size > _MOST_BYTES_AT_ONCE:
                yield from self._write(waiting)
                size = 0
        yield from self._write(waiting)

    def _write(self, cases: list[_Read]) -> list[Written]:
        held = _in_turn(self._hold, cases)
        compared = _in_turn(self._compare, held)
        told = _in_turn(self._tell, compared)
        return _in_turn(self._written, told)

    def _read(self, planned: PlannedCase) -> _Read:
        stem = file_stem(planned.id, planned.repetition)
        baseline = self._responses("baseline", planned.baseline, stem)
        new = self._responses("new", planned.new, stem)
        raw = self._definition(planned, [*new, *baseline])
        masked = mask_value(raw) if self._settings.masked else raw
        return _Read(planned, stem, baseline, new, raw, masked)

    def _hold(self, read: _Read) -> _Held:
        case = parse_case(read.raw, read.planned.id)
        baseline = [self._check(case, response) for response in read.baseline]
        return _Held(read, case, baseline, [self._check(case, response) for response in read.new])

    def _check(self, case: Case, response: _Response) -> Checked:
        clean = self._settings.masked and response.shown is response.value
        return check(case, response.value, clean=clean)

    def _compare(self, held: _Held) -> _Compared:
        suppressions, today = self._settings.suppressions, self._settings.today
        comparison = compare_case(held.case, held.baseline, held.new, suppressions, today)
        return _Compared(held.read, held.case, comparison)

    def _tell(self, compared: _Compared) -> _Told:
        read, case, comparison = compared
        shown = case if read.masked is read.raw else parse_case(read.masked, case.id)
        traces = BothSides(
            _shown_trace(comparison.baseline.result, read.baseline, shown),
            _shown_trace(comparison.new.result, read.new, shown),
        )
        steps = align(traces.baseline, traces.new)
        links = _Links(self._settings, read.stem)
        hrefs = Hrefs(
            links.artifacts(comparison, read.baseline, read.new),
            BothSides(_hrefs(read.baseline), _hrefs(read.new)),
        )
        faults = [*read.planned.faults, *case.faults, *_faults(comparison), *links.faults]
        item = comparison.item(hrefs, steps, faults)
        if self._settings.masked and _may_quote(item, read):
            item = mask_item(item)
        definition = _definition(read.masked, shown)
        return _Told(item, shown.prompt, steps, traces, definition, links.missing)

    def _written(self, told: _Told) -> Written:
        item = told.item
        write_new(self._settings.report, item.artifacts.replay_diff_href, self._page(told))
        return Written(
            msgspec.json.encode(item),
            overview_row(item),
            facts_of(item),
            msgspec.json.encode(told.definition),
            _own_hrefs(item.artifacts),
            told.missing_assets,
            item.faults[0] if item.faults else "",
        )

    def _page(self, told: _Told) -> bytes:
        return render_case(
            CaseView(
                item=told.item,
                prompt=told.prompt,
                steps=told.steps,
                baseline=told.traces.baseline,
                new=told.traces.new,
                policy=CATALOGUE,
                masked=self._settings.masked,
                report_id=self._settings.report_id,
            )
        )

    def _definition(self, planned: PlannedCase, responses: list[_Response]) -> Json:
        """The case as the case file has it; else what the responses say of it."""
        if self._cases is not None and self._file is not None and planned.number is not None:
            return self._cases.case(self._file, planned.number)
        told = (each.value.get("user_prompt") for each in responses if type(each.value) is dict)
        prompt = next((text for text in told if isinstance(text, str) and text), "")
        return {"id": planned.id, "input": {"user": prompt}}

    def _responses(self, side: str, names: tuple[str, ...], stem: str) -> list[_Response]:
        return [
            self._response(side, name, stem if place == 0 else f"{stem}~r{place + 1}")
            for place, name in enumerate(names)
        ]

    def _response(self, side: str, name: str, stem: str) -> _Response:
        captures: Captures = getattr(self._settings, side)
        data = read_inside(captures.run, name)
        value = data if isinstance(data, Unreadable) else parse_response(data)
        if isinstance(data, Unreadable):
            return _Response(value, value, "", 0)
        href = f"{side}/{stem}.json"
        copy = mask_bytes(data) if self._settings.masked else data
        write_new(self._settings.report, href, copy)
        return _Response(value, value if copy is data else parse_response(copy), href, len(data))


def _in_turn(stage: Callable[[_Before], _After], cases: list[_Before]) -> list[_After]:
    """What a stage makes of each case; what it was is let go at once, while it is in the cache."""
    cases.reverse()
    return [stage(cases.pop()) for _ in range(len(cases))]


def write_new(folder: Path, href: str, data: bytes) -> None:
    """Write a file of the report; that it exists already would be a mistake of ours."""
    # Many thousands of files: without a file object that is three system calls each, not seven.
    handle = os.open(f"{folder}/{href}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(handle, rest) :]
    finally:
        os.close(handle)


def _definition(raw: Json, case: Case) -> Json:
    """The case as the report's own cases.json has it; what was no object is made one."""
    if isinstance(raw, dict):
        return {"title": case.title, **raw}
    return {"id": case.id, "title": case.title, "input": {"user": case.prompt}}


def _shown_trace(side: SideResult, responses: list[_Response], case: Case) -> Trace:
    """The trace that stands for a side, masked where its response is."""
    if not responses:
        return side.shown.trace
    chosen = responses[side.chosen]
    if chosen.shown is chosen.value and case.prompt == side.shown.trace.prompt:
        return side.shown.trace
    shown = {} if isinstance(chosen.shown, Unreadable) else chosen.shown
    return decode_trace(shown, case.id, case.prompt)


def _may_quote(item: Item, read: _Read) -> bool:
    """Whether an item may quote something sensitive; masking every item would cost too much."""
    masked = [each for each in read.baseline + read.new if each.shown is not each.value]
    told = item.faults, item.security.baseline.suppressed, item.security.new.suppressed
    return bool(masked) or read.masked is not read.raw or told != _NOTHING_TOLD


def _hrefs(responses: list[_Response]) -> tuple[str, ...]:
    return tuple([response.href for response in responses if response.href])


def _own_hrefs(artifacts: Artifacts) -> list[str]:
    """The links that no other case has: all but those to what the runs say of themselves."""
    return [href for href in _OF_THE_CASE(artifacts) if href is not None]


def _faults(compared: Comparison) -> list[str]:
    sides = (("baseline", compared.baseline), ("new", compared.new))
    found = [
        f"{name}: {side.result.shown.fault}" for name, side in sides if side.result.shown.fault
    ]
    of_case = (
        f"expected.json_schema: {failure.message}"
        for _, side in sides
        for failure in side.result.failures
        if failure.name == "case_schema"
    )
    return [*found, *dict.fromkeys(of_case)]


class _Links:
    """The links of one case; what they need is copied, what is not to be had is kept count of."""

    def __init__(self, settings: Settings, stem: str) -> None:
        self._settings = settings
        self._stem = stem
        self.missing: list[str] = []
        self.faults: list[str] = []

    def artifacts(
        self, compared: Comparison, baseline: list[_Response], new: list[_Response]
    ) -> Artifacts:
        before, after = compared.baseline.result, compared.new.result
        old_body, old_meta = self._captured("baseline", before)
        new_body, new_meta = self._captured("new", after)
        return Artifacts(
            replay_diff_href=f"case-{self._stem}.html",
            baseline_failure_body_href=old_body,
            baseline_failure_meta_href=old_meta,
            new_failure_body_href=new_body,
            new_failure_meta_href=new_meta,
            baseline_case_response_href=_response_href(baseline, before),
            new_case_response_href=_response_href(new, after),
            baseline_run_meta_href=self._settings.meta_hrefs.baseline,
            new_run_meta_href=self._settings.meta_hrefs.new,
        )

    def _captured(self, side: str, result: SideResult) -> tuple[str | None, str | None]:
        """The body and the metadata that were captured of a failed call."""
        failure = result.shown.trace.failure
        if failure is None:
            return None, None
        body = self._copy(side, "body", failure.body_path)
        return body, self._copy(side, "meta", failure.meta_path)

    def _copy(self, side: str, part: str, reference: str | None) -> str | None:
        if not reference:
            return None
        captures: Captures = getattr(self._settings, side)
        data = captures.read(reference)
        if isinstance(data, Unreadable):
            self.missing.append(f"assets/{side}-{self._stem}.{part}")
            self.faults.append(f"{side}: the captured {part} is not in the report: {data.reason}")
            return None
        href = f"assets/{side}-{self._stem}.{part}.{_suffix(data)}"
        copy = mask_capture(data) if self._settings.masked else data
        write_new(self._settings.report, href, copy)
        return href


def _suffix(data: bytes) -> str:
    """Text opens in a browser as text, never as a page; anything else is to be saved."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return "bin"
    return "bin" if "\0" in text else "txt"


def _response_href(responses: list[_Response], result: SideResult) -> str | None:
    return (responses[result.chosen].href or None) if responses else None

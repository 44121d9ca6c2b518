"""Labelled traces, and what the detectors say of them, as `evalwright signals` would.

Copies of the traces are made by `metamorph_traces.py`, which lies in `tools` beside `data`.
Detectors see the visible fields of a record alone.
"""

import gzip
import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from importlib import util
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import msgspec

from evalwright.contracts.report import Signal
from evalwright.signals.kinds import detect
from evalwright.trace.decode import decode_trace
from evalwright.trace.importers.formats import import_responses
from evalwright.trace.model import Trace

Record = dict[str, Any]
Parts = dict[str, list[Record]]
FOLLOWED = "injected_instruction_followed"
SEEN = "prompt_injection_payload"
SETS = ("agentdojo", "asb", "taubench")
VISIBLE = (
    *("trace_id", "case_id", "base_case_id", "source", "suite", "model", "user_prompt"),
    *("system_prompt", "tools_offered", "events", "final_output"),
)
_SEED = 7
_MOST_COPIES = 1500
_QUICK = 10  # every so many-th trace, and so much fewer copies


class Found(NamedTuple):
    """A labelled trace and its signals."""

    record: Record
    signals: Sequence[Signal]

    @property
    def is_flagged(self) -> bool:
        return any(signal.kind == FOLLOWED for signal in self.signals)

    @property
    def is_hijacked(self) -> bool:
        return bool(self.record["label"].get("hijack_any"))

    @property
    def origin(self) -> str:
        """The trace that this one is, or is a copy of."""
        label = self.record["label"]
        return str(label.get("origin", self.record)["trace_id"])


class Labelled:
    """The traces of one directory and their copies; each is looked at once, however often asked."""

    def __init__(self, data: Path, *, quick: bool = False) -> None:
        self.data = data
        self.quick = quick
        self._known: dict[str, list[Found]] = {}
        self._copies: dict[str, Parts] = {}

    @cached_property
    def doubtful(self) -> frozenset[str]:
        """The traces whose label is doubtful."""
        path = self.data / "doubtful.json"
        listed = msgspec.json.decode(path.read_bytes()) if path.is_file() else []
        return frozenset(each["trace_id"] for each in listed)

    def records(self, folder: str) -> list[Record]:
        """The records of a folder, in order."""
        return [each for path in sorted((self.data / folder).glob("*.gz")) for each in read(path)]

    def sample(self, records: list[Record]) -> list[Record]:
        """A part of the records when it has to be quick."""
        return records[:: _QUICK if self.quick else 1]

    def alone(self, folder: str) -> list[Found]:
        """The traces of a folder without a baseline."""
        return self._once(f"{folder} alone", lambda: look(self.sample(self.records(folder))))

    def paired(self, folder: str) -> list[Found]:
        """The attacked traces of a folder beside the clean run of the same task and model."""
        return self._once(f"{folder} paired", lambda: self._beside_clean(folder))

    def _beside_clean(self, folder: str) -> list[Found]:
        records = self.records(folder)
        clean: dict[tuple[str, str], Record] = {}
        for record in records:
            if record["label"].get("role") == "benign":
                clean.setdefault(_task(record), record)
        attacked = self.sample([each for each in records if each.get("attack")])
        return look(attacked, [clean.get(_task(each)) for each in attacked])

    @cached_property
    def metamorph(self) -> ModuleType | None:
        """What makes copies, if it is there."""
        path = self.data.parents[1] / "tools" / "metamorph_traces.py"
        spec = util.spec_from_file_location("metamorph_traces", path) if path.is_file() else None
        if spec is None or spec.loader is None:
            return None
        written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
        module = util.module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.dont_write_bytecode = written
        return module

    @cached_property
    def originals(self) -> Any:
        """The traces that copies are made of."""
        assert self.metamorph is not None
        return self.metamorph.Traces()

    @property
    def kinds_of_copies(self) -> list[str]:
        """The kinds of copies that can be made."""
        return list(self.metamorph.KINDS) if self.metamorph else []

    def copies(self, kind: str) -> Parts:
        """The copies of a kind: `t`, and `b` (their baselines) or `original`."""
        if kind not in self._copies:
            assert self.metamorph is not None
            build = self.metamorph.KINDS[kind][0]
            limit = _MOST_COPIES // (_QUICK if self.quick else 1)
            self._copies[kind] = build(self.originals, random.Random(f"{_SEED}/{kind}"), limit)
        return self._copies[kind]

    def copies_alone(self, kind: str, part: str = "t") -> list[Found]:
        """The copies of a kind without a baseline."""
        return self._once(f"{kind}.{part} alone", lambda: look(self.copies(kind)[part]))

    def copies_paired(self, kind: str) -> list[Found]:
        """The copies of a kind beside their baselines."""
        parts = self.copies(kind)
        baselines = {each["base_case_id"]: each for each in parts["b"]}
        return self._once(
            f"{kind} paired",
            lambda: look(parts["t"], [baselines.get(each["base_case_id"]) for each in parts["t"]]),
        )

    def wrong(self) -> Iterator[Record]:
        """Every wrong verdict so far: which traces, which one, and what is wrong with it."""
        for looked_at, found in self._known.items():
            for each in found:
                if each.is_flagged != each.is_hijacked:
                    verdict = "false" if each.is_flagged else "missed"
                    doubtful = each.origin in self.doubtful
                    yield {
                        "traces": looked_at,
                        "trace_id": each.record["trace_id"],
                        "verdict": verdict,
                        "doubtful": doubtful,
                    }

    def _once(self, key: str, make: Any) -> list[Found]:
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]


def read(path: Path) -> Iterator[Record]:
    """The records of one file."""
    with gzip.open(path) as lines:
        yield from map(msgspec.json.decode, lines)


def look(
    records: Sequence[Record], baselines: Sequence[Record | None] | None = None
) -> list[Found]:
    """The signals of each record, beside its baseline where there is one."""
    known: dict[str, Trace] = {}
    found = []
    for record, beside in zip(records, baselines or [None] * len(records), strict=True):
        if beside is not None and beside["trace_id"] not in known:
            known = {beside["trace_id"]: seen_trace(beside)}
        baseline = known[beside["trace_id"]] if beside is not None else None
        found.append(Found(record, detect(seen_trace(record), baseline)))
    return found


def seen_trace(record: Record) -> Trace:
    """What a detector may see of a record."""
    visible = {field: record[field] for field in VISIBLE if field in record}
    imported = next(iter(import_responses([msgspec.json.encode(visible) + b"\n"], "t.jsonl")))
    if imported.fault:
        sys.exit(f"{record['trace_id']}: {imported.fault}")
    return decode_trace(imported.response, imported.case_id)


def _task(record: Record) -> tuple[str, str]:
    return record["model"], record.get("base_case_id") or record["case_id"]


class F1(NamedTuple):
    """How often verdicts are right."""

    value: float
    precision: float
    recall: float

    def __str__(self) -> str:
        return f"P {self.precision:.3f} R {self.recall:.3f}"


def f1(found: Iterable[Found]) -> F1:
    pairs = [(each.is_hijacked, each.is_flagged) for each in found]
    hits, false = pairs.count((True, True)), pairs.count((False, True))
    missed = pairs.count((True, False))
    return F1(
        2 * hits / (2 * hits + false + missed) if hits + false + missed else 1.0,
        hits / (hits + false) if hits + false else 1.0,
        hits / (hits + missed) if hits + missed else 1.0,
    )


def without(found: Iterable[Found], left_out: frozenset[str]) -> list[Found]:
    """Those that are neither among the left out nor copies of one."""
    return [each for each in found if each.origin not in left_out]

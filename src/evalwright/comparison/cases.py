"""A case: what the user asked, and what both sides are expected to do."""

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from evalwright.engine.task_names import TaskNames
from evalwright.scoring.golden import golden_assertion
from evalwright.trace.model import Json, text_of

if TYPE_CHECKING:
    from evalwright.contracts.suite import Task

_LONGEST_STEM = 120
_KEPT_OF_LONG_STEM = 80
_CUT_ESCAPE = re.compile(r"~[0-9a-f]?$")
_ESCAPED = re.compile(rb"[^a-z0-9_.\-]")
# Names that some systems give to devices, and our own file beside the responses.
_RESERVED = re.compile(r"^(run|con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)")
_KEYS = (
    "action_required",
    "evidence_required_for_actions",
    "tool_required",
    "tool_sequence",
    "json_schema",
    "retrieval_required",
    "must_include",
    "must_not_include",
    "checks",
)


class Expectations(msgspec.Struct, frozen=True):
    """What must hold of a response; a field is None or empty where nothing is expected."""

    actions: tuple[str, ...] = ()
    evidence_for_actions: bool | None = None
    tools: tuple[str, ...] = ()
    tool_sequence: tuple[str, ...] = ()
    json_schema: Json = None
    documents: tuple[str, ...] = ()
    must_include: tuple[str, ...] = ()
    must_not_include: tuple[str, ...] = ()
    checks: tuple[Json, ...] = ()  # as written


class Case(msgspec.Struct, frozen=True):
    """One case; `faults` says what of its definition could not be understood."""

    id: str
    title: str
    prompt: str = ""
    expected: Expectations = Expectations()
    faults: tuple[str, ...] = ()

    @property
    def is_judged(self) -> bool:
        """Whether anything is expected of its answers beside what always is."""
        return self.expected != _NOTHING_EXPECTED


_NOTHING_EXPECTED = Expectations()


def parse_case(raw: Json, case_id: str) -> Case:
    """A case from its entry in cases.json; what does not fit is named, the rest is kept."""
    record: dict[str, Any] = raw if isinstance(raw, dict) else {}
    faults: list[str] = []
    if not isinstance(raw, dict):
        faults.append("the case cannot be read as a JSON object, so nothing is expected of it")
    expected = _expectations(record.get("expected"), faults)
    asked = record.get("input")
    context = asked.get("context") if isinstance(asked, dict) else None
    asked = asked.get("user") if isinstance(asked, dict) else asked
    prompt = asked if isinstance(asked, str) else text_of(asked)
    if context:
        prompt = f"{prompt}\n\n{text_of(context)}"
    title = record.get("title")
    if not isinstance(title, str) or not title.strip():
        title = prompt.strip().partition("\n")[0][:120] or case_id
    return Case(case_id, title, prompt, expected, tuple(faults))


def _expectations(raw: Json, faults: list[str]) -> Expectations:
    if raw is None:
        return Expectations()
    if not isinstance(raw, dict):
        faults.append("expected: not an object, so nothing is expected of this case")
        return Expectations()
    for key in (key for key in raw if key not in _KEYS):
        hint = "".join(f"; did you mean {near}?" for near in get_close_matches(key, _KEYS, 1))
        faults.append(f"expected.{key[:100]}: not a known expectation, so it is not checked{hint}")
    retrieval = raw.get("retrieval_required")
    documents = retrieval.get("doc_ids") if isinstance(retrieval, dict) else retrieval
    return Expectations(
        actions=_strings(raw.get("action_required"), "action_required", faults),
        evidence_for_actions=raw.get("evidence_required_for_actions") is True or None,
        tools=_strings(raw.get("tool_required"), "tool_required", faults),
        tool_sequence=_strings(raw.get("tool_sequence"), "tool_sequence", faults),
        json_schema=raw.get("json_schema"),
        documents=_strings(documents, "retrieval_required.doc_ids", faults),
        must_include=_strings(raw.get("must_include"), "must_include", faults),
        must_not_include=_strings(raw.get("must_not_include"), "must_not_include", faults),
        checks=_usable_checks(raw["checks"], faults) if "checks" in raw else (),
    )


def _usable_checks(raw: Json, faults: list[str]) -> tuple[Json, ...]:
    """The checks that a comparison can make: those that ask nobody."""
    from evalwright.scoring.checks.table import prepare_checks
    from evalwright.signals.kinds import KINDS

    usable = []
    for number, document in enumerate(raw if isinstance(raw, list) else [raw]):
        prepared, problems = prepare_checks([document], "", [kind.name for kind in KINDS])
        place = f"expected.checks[{number}]"
        if problems:
            said = str(problems[0]).removeprefix("[0]")
            faults.append(f"{place}{said}, so it is not checked"[:1_000])
        elif prepared[0].asks:
            faults.append(f"{place}: it needs a judge, a model or code, so it is not checked")
        else:
            usable.append(document)
    return tuple(usable)


def _strings(raw: Json, name: str, faults: list[str]) -> tuple[str, ...]:
    if raw is None:
        return ()
    if isinstance(raw, str):
        return (raw,)
    if not isinstance(raw, list):
        faults.append(f"expected.{name}: not a list of strings, so it is not checked")
        return ()
    kept = tuple([each for each in raw if isinstance(each, str)])
    if len(kept) < len(raw):
        faults.append(f"expected.{name}: entries that are not strings are not checked")
    return kept


def file_stem(case_id: str, repetition: int = 1) -> str:
    """The file name of a case id: `a-z 0-9 _ - .` unchanged, all else as `~` and hex.

    `~` itself is escaped and never followed by anything but two hex digits, so no two ids share
    a name; long ids end in `~~` and a hash of the whole.
    """
    data = case_id.encode("utf-8", "surrogatepass")
    stem = _ESCAPED.sub(lambda found: b"~%02x" % found[0][0], data).decode("ascii")
    if stem.startswith(".") or _RESERVED.match(stem):
        stem = f"~{ord(stem[0]):02x}{stem[1:]}"
    if len(stem) > _LONGEST_STEM:
        digest = sha256(data).hexdigest()[:32]
        kept = _CUT_ESCAPE.sub("", stem[:_KEPT_OF_LONG_STEM])
        stem = f"{kept}~~{digest}"
    return stem if repetition == 1 else f"{stem}~x{repetition}"


class Cases(Protocol):
    """The cases of a comparison by their number, each read when it is asked for."""

    @property
    def path(self) -> Path | None:
        """The file that they are in, where they are in one; it is never written to."""

    def __len__(self) -> int: ...

    def ids(self) -> Iterator[Json]:
        """The id of each case, in order; None where there is none."""

    def case(self, number: int) -> Json:
        """One case; None for a case that is not a JSON value."""

    def close(self) -> None:
        """Let go of what reading the cases holds; more may be read afterwards."""


class SuiteCases(msgspec.Struct, frozen=True, dict=True):
    """The tasks of a suite as the cases of a comparison."""

    tasks: "Sequence[Task]"
    path: None = None

    def __len__(self) -> int:
        return len(self.tasks)

    @cached_property
    def names(self) -> TaskNames:
        """What the tasks are called."""
        return TaskNames.of_tasks(self.tasks)

    def ids(self) -> Iterator[Json]:
        return (task.task_id for task in self.tasks)

    def case(self, number: int) -> Json:
        """A task as a case file has it: the score says what its assertions cannot."""
        task = self.tasks[number]
        return {
            "id": task.task_id,
            "title": ": ".join(self.names.of(task.task_id).told),
            "input": {"user": text_of(task.input)},
            "expected": {}
            if task.expected.match is None
            else golden_assertion(task.expected.match),
            "metadata": {"kind": task.expected.kind},
        }

    def close(self) -> None:
        """Nothing: the tasks are in memory."""

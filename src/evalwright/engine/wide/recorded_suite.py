"""A wide suite from recordings, written task by task; and what there is to say of it."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from evalwright.contracts.documents import unfit_for_json
from evalwright.contracts.errors import BadInput, InvalidDocument
from evalwright.contracts.yaml_writer import Noted, comment, to_yaml
from evalwright.engine.rescoring import named_briefly
from evalwright.engine.wide.ids import digest, slug
from evalwright.engine.wide.loader import load_wide
from evalwright.engine.wide.recorded_tasks import LIKENESS, MadeTask, NoTask, TaskMaker
from evalwright.trace.recording import Recording, words_in

_ABOUT = (
    "Look it through before you rely on it. Tools answer as they were recorded, in that order.",
    "Checks hold the calls, facts and words of the recorded answers that are likely to stay;",
    f"`similar` wants {LIKENESS:.0%} of the words. Where you know more, say more: docs/checks.md.",
    "Calls that nobody observed are no evidence: docs/agent-guide.md says how they are observed.",
)
_ALL = {"passScore": 1}
_ALL_NOTE = "So that nothing passes while a TODO is left; then lower this, or take it out."


class WantedRecordings(NamedTuple):
    """Which recordings become tasks."""

    failed_only: bool = False
    limit: int | None = None


class RecordedSuite:
    """Makes the suite, and counts what became of the recordings."""

    def __init__(self, source: str, maker: TaskMaker, wanted: WantedRecordings) -> None:
        self.made = 0
        self.failed = 0
        self._source = source
        self._maker = maker
        self._wanted = wanted
        self._seen: set[str] = set()
        self._passed_over: dict[str, list[str]] = {}
        self._remarks: Counter[str] = Counter()

    def tasks(self, recordings: Iterable[Recording]) -> Iterator[MadeTask]:
        """The tasks, each as soon as its recording is read."""
        for recording in recordings:
            if recording.fault is not None:
                continue  # whoever reads the recordings tells of it
            wrong = self._maker.wrong_with(recording)
            reason = self._why_not(recording, is_wrong=bool(wrong))
            try:
                made = None if reason else self._maker.task(recording, wrong)
                reason = reason or self._why_unfit(made, is_named=recording.case_id is not None)
            except NoTask as error:
                made, reason = None, str(error)
            if made is None or reason:
                self._passed_over.setdefault(str(reason), []).append(recording.name)
                continue
            self._count(made)
            yield made

    def _at_least_one(self, recordings: Iterable[Recording]) -> Iterator[MadeTask]:
        yield from self.tasks(recordings)
        if not self.made:
            reasons = "; ".join(self._told()) or "nothing in it can be read"
            raise BadInput(f"{self._source}: no task, so no suite is written; {reasons}")

    def _why_not(self, recording: Recording, *, is_wrong: bool) -> str | None:
        if self._wanted.limit is not None and self.made >= self._wanted.limit:
            return f"beyond --limit {self._wanted.limit}"
        if self._wanted.failed_only and not is_wrong:
            return "nothing failed in it"
        if recording.case_id is None:
            return None
        key = digest([recording.case_id, words_in(recording.trace)])
        if key in self._seen:
            return "repeats a case, and failed there" if is_wrong else "repeats a case"
        self._seen.add(key)
        return None

    def _why_unfit(self, made: MadeTask | None, *, is_named: bool) -> str | None:
        """Why a suite cannot hold a task; so what is written is always valid."""
        if made is None:
            return None
        plain = {key: _plain(each) for key, each in made.document.items()}
        key = digest([each for name, each in plain.items() if name != "id"])
        if key in self._seen and not is_named:
            return "the same as another one"
        self._seen.add(key)
        suite = {"evalwright": 1, "tasks": [plain]}
        try:
            problems = unfit_for_json(suite)
            if not problems:
                load_wide(suite)
        except InvalidDocument as error:
            problems = error.problems
        return f"no suite can hold it: {problems[0].message}" if problems else None

    def _count(self, made: MadeTask) -> None:
        self.made += 1
        self.failed += bool(made.wrong)
        self._remarks["calls"] += made.unanswered
        self._remarks["retrievals"] += made.retrievals

    def notes(self) -> Iterator[str]:
        """What became of the recordings that are no tasks, and what the tasks lack."""
        yield from self._told()
        if count := self._remarks["calls"]:
            yield f"{_several(count, 'call')} without a recorded result: fixtures answer null"
        if count := self._remarks["retrievals"]:
            yield f"{_several(count, 'retrieval')} without fixtures: only tools have some"
        if self.failed:
            yield (
                f"{_several(self.failed, 'task')} of failed cases: write what is right where it "
                "says TODO"
            )

    def _told(self) -> Iterator[str]:
        for reason, names in self._passed_over.items():
            yield f"passed over, {reason}: {len(names):,} ({named_briefly(names)})"

    def as_yaml(self, recordings: Iterable[Recording]) -> Iterator[bytes]:
        """The suite as a file, piece by piece."""
        head = {"evalwright": 1, "name": self._name}
        about = (f"Made from {self._source} by `evalwright tasks`.", *_ABOUT)
        lines = "".join(f"{comment(line)}\n" for line in about)
        for made in self._at_least_one(recordings):
            if self.made == 1:
                yield _text(f"{lines}{to_yaml(head)}tasks:\n")
            yield _text(to_yaml([Noted(made.document, made.notes)], 1))
        if self.failed:
            yield _text(to_yaml({"thresholds": Noted(_ALL, (_ALL_NOTE,))}))

    def as_json(self, recordings: Iterable[Recording]) -> Iterator[bytes]:
        """The same as JSON, without remarks."""
        tasks = [_plain(made.document) for made in self._at_least_one(recordings)]
        document: dict[str, Any] = {"evalwright": 1, "name": self._name, "tasks": tasks}
        if self.failed:
            document["thresholds"] = _ALL
        yield _text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")

    @property
    def _name(self) -> str:
        return slug(self._source.partition(".")[0])[:60].strip("-") or "recorded"


def _text(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _several(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _plain(value: Any) -> Any:
    """A value without remarks."""
    if isinstance(value, Noted):
        return _plain(value.value)
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value

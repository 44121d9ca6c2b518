"""The prompts of a tenant: the latest evaluation of each file, and those before it.

A file is a document under its path, with what a list shows. Each evaluation of it is another, with
its results and the text as it was, under a key that begins with the file's own.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from evalwright.contracts.errors import InvalidDocument, Problem
from evalwright.contracts.prompt_result import Grade, PromptResult
from evalwright.contracts.times import iso_time, microseconds
from evalwright.reports.prompts.groups import File, FileStatus, Overview, count_findings
from evalwright.reports.prompts.source_view import masked
from evalwright.store.records import RecordChange, RecordConflict, Records, every_record

FILE_KIND, EVALUATION_KIND = "prompt", "prompt_evaluation"
MOST_EVALUATIONS = 50  # that are kept of a file
MOST_RESULTS = 500  # of one push
LONGEST_TEXT = 200_000  # characters; of longer files only the results are kept
LONGEST_PATH = 1024
_ATTEMPTS = 5  # to write what others write, too
_PAGE = 1000


class PromptSummary(msgspec.Struct, frozen=True, rename="camel"):
    """What a list shows of a file: its latest evaluation."""

    path: str
    at_us: int
    status: FileStatus
    score: float | None  # in percent, the lowest of its judges
    grade: Grade | None
    judges: list[str]
    findings: int
    evaluation: str  # the key of it


class PromptEvaluation(msgspec.Struct, frozen=True):
    """All results of a file that were pushed together, and its text, without its secrets."""

    results: list[PromptResult]
    text: str | None

    @property
    def at_us(self) -> int:
        return min(microseconds(each.timestamp) for each in self.results)

    @property
    def name(self) -> str:
        """The same for the same results, and later for later ones."""
        ids = "\n".join(sorted(each.eval_id for each in self.results))
        return f"{iso_time(self.at_us)}-{hashlib.sha256(ids.encode()).hexdigest()[:16]}"

    @property
    def file(self) -> File:
        return Overview(self.results).files[0]


class PromptLibrary:
    """Evaluated prompts, by the partition that they belong to."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def keep(
        self, partition: str, results: Sequence[PromptResult], texts: Mapping[str, str]
    ) -> int:
        """Keep results; those that are known already change nothing. How many files there are."""
        by_path: dict[str, list[PromptResult]] = {}
        for result in results:
            by_path.setdefault(result.input.path, []).append(result)
        for path, found in by_path.items():
            text = texts.get(path)
            if text is not None and len(text) <= LONGEST_TEXT:
                text = masked(text, Overview(found).files[0].findings)
            else:
                text = None
            evaluation = PromptEvaluation(found, text)
            for attempt in range(_ATTEMPTS):
                try:
                    self._records.write(self._changes(partition, path, evaluation)).result()
                except RecordConflict:
                    if attempt == _ATTEMPTS - 1:
                        raise
                else:
                    break
        return len(by_path)

    def some(self, partition: str, after: str, limit: int) -> list[msgspec.Raw]:
        """Files by path, after one of them, as JSON."""
        found = self._records.list(FILE_KIND, partition, after=after, limit=limit)
        return [msgspec.Raw(record.body) for record in found]

    def files(self, partition: str) -> Iterator[PromptSummary]:
        for record in every_record(self._records, FILE_KIND, partition):
            yield msgspec.json.decode(record.body, type=PromptSummary)

    def summary(self, partition: str, path: str) -> PromptSummary | None:
        body = self._records.get(FILE_KIND, partition, path)
        return msgspec.json.decode(body, type=PromptSummary) if body else None

    def evaluations(self, partition: str, path: str) -> list[tuple[str, PromptEvaluation]]:
        prefix = _prefix(path)
        found = self._records.list(EVALUATION_KIND, partition, prefix, limit=_PAGE)
        return [
            (record.key, msgspec.json.decode(record.body, type=PromptEvaluation))
            for record in reversed(found)
        ]

    def remove(self, partition: str, path: str) -> None:
        kept = self._records.keys(EVALUATION_KIND, partition, _prefix(path), limit=_PAGE)
        gone = [RecordChange(EVALUATION_KIND, partition, key, None) for key in kept]
        gone.append(RecordChange(FILE_KIND, partition, path, None))
        self._records.write(gone).result()

    def _changes(
        self, partition: str, path: str, evaluation: PromptEvaluation
    ) -> list[RecordChange]:
        """What is written: the evaluation, its file unless a later one is known, fewer old ones."""
        key = _prefix(path) + evaluation.name
        kept = self._records.keys(EVALUATION_KIND, partition, _prefix(path), limit=_PAGE)
        before = self._records.get(FILE_KIND, partition, path)
        body = msgspec.json.encode(evaluation)
        changes = [RecordChange(EVALUATION_KIND, partition, key, body)]
        if not kept or key >= kept[-1]:
            file = evaluation.file
            scored = [each for each in file.groups if each.score is not None]
            worst = min(scored, key=lambda each: each.score or 0.0, default=None)
            summary = PromptSummary(
                path=file.path,
                at_us=evaluation.at_us,
                status=file.status,
                score=worst.score if worst else None,
                grade=worst.grade if worst else None,
                judges=[each.judge for each in file.groups],
                findings=count_findings(file.findings),
                evaluation=key,
            )
            body = msgspec.json.encode(summary)
            changes.append(RecordChange(FILE_KIND, partition, path, body, before))
        old = sorted({*kept, key})[:-MOST_EVALUATIONS]
        return changes + [RecordChange(EVALUATION_KIND, partition, each, None) for each in old]


def read_results(entries: Sequence[object]) -> list[PromptResult]:
    """Pushed results; raises `InvalidDocument` that names the one that is none."""
    found = []
    for number, entry in enumerate(entries):
        try:
            result = msgspec.convert(entry, PromptResult)
        except msgspec.ValidationError as error:
            raise _refused(f"$.results[{number}]", str(error)) from None
        if not microseconds(result.timestamp):
            raise _refused(f"$.results[{number}].timestamp", "must be an RFC 3339 time")
        if not 0 < len(result.input.path) <= LONGEST_PATH or "\0" in result.input.path:
            message = f"must have 1 to {LONGEST_PATH} characters, and none of them may be NUL"
            raise _refused(f"$.results[{number}].input.path", message)
        found.append(result)
    return found


def _refused(place: str, message: str) -> InvalidDocument:
    return InvalidDocument("body", [Problem(place, message)])


def _prefix(path: str) -> str:
    return f"{hashlib.sha256(path.encode()).hexdigest()[:32]}/"

"""The journal of an evaluation: records as they are made, so that nothing is paid for twice."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Self

from evalwright.cli.output import is_stdout
from evalwright.contracts.errors import BadInput, CannotEvaluate
from evalwright.contracts.prompt_result import PromptResult
from evalwright.prompts.change import read_results
from evalwright.prompts.judged import Key, job_key
from evalwright.reports.prompts import encode_record

SUFFIX = ".partial.jsonl"


class Journal:
    """Records of an evaluation under way, in a file beside its first report."""

    def __init__(
        self, path: Path | None, *, resume: bool = False, finished: Path | None = None
    ) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self.known: dict[Key, PromptResult] = {}
        if resume:
            for source in (finished, path):
                if source is not None and source.is_file():
                    self._recall(source)
        elif path is not None and path.is_file() and path.stat().st_size:
            raise BadInput(
                f"{path} was left by an evaluation that did not finish; continue it with --resume, "
                "or remove it"
            )

    @classmethod
    def next_to(cls, outputs: Sequence[tuple[Path, str]], *, resume: bool) -> "Journal":
        """The journal of the first report that is a file; without one there is none."""
        files = [
            (path, name)
            for path, name in outputs
            if not is_stdout(path) and (path.is_file() or not path.exists())
        ]
        if not files:
            return cls(None)
        first = files[0][0]
        records = [path for path, name in files if name in ("json", "jsonl")]
        path = first.with_name(first.name + SUFFIX)
        return cls(path, resume=resume, finished=records[0] if records else None)

    def _recall(self, source: Path) -> None:
        try:
            data = source.read_bytes()
            if source == self._path:  # a last line without its end was torn
                data = data[: data.rfind(b"\n") + 1]
                os.truncate(source, len(data))
        except OSError as error:
            raise BadInput(f"--resume: {source} cannot be read: {error.strerror}") from None
        for result in read_results(data, str(source)) if data.strip() else ():
            self.known[_key(result)] = result

    def __enter__(self) -> Self:
        if self._path is not None:
            try:
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
                self._file = os.fdopen(os.open(self._path, flags, 0o600), "ab")
            except OSError as error:
                raise BadInput(f"{self._path}: cannot be written: {error.strerror}") from None
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, result: PromptResult) -> None:
        """Keep a record; one that was known already is kept already."""
        known = self.known.get(_key(result))
        if self._file is None or (known is not None and known.eval_id == result.eval_id):
            return
        try:
            self._file.write(encode_record(result) + b"\n")
            self._file.flush()  # it outlives this process; to wait for the disk would cost time
        except OSError as error:
            message = f"{self._path}: the result cannot be written: {error.strerror}"
            raise CannotEvaluate(message) from None

    def finish(self) -> None:
        """Remove the journal: all results are written, and nothing is left to resume."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def how_to_resume(self) -> str:
        """What the user can do."""
        if self._path is None:
            return "with -o FILE, the results so far would have been kept for --resume"
        return "the results so far are kept; continue with the same command and --resume"


def _key(result: PromptResult) -> Key:
    return job_key(result.input.path, result.model, result.execution.run_index)

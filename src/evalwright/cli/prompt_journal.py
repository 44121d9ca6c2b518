"""The journal of an evaluation: records as they come, so that nothing is paid for twice."""

import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import msgspec

from evalwright.contracts.errors import BadInput
from evalwright.contracts.prompt_result import PromptResult
from evalwright.prompts.change import read_results
from evalwright.prompts.judged import Key, job_key

_SUFFIX = ".partial.jsonl"


class Journal:
    """Records of an evaluation under way, in a file beside its first report."""

    def __init__(
        self,
        path: Path | None,
        *,
        resume: bool,
        finished: Path | None = None,
        is_report: bool = False,
    ) -> None:
        self._path = path
        self._is_report = is_report
        self._file: BinaryIO | None = None
        self.known: dict[Key, PromptResult] = {}
        if resume:
            for source in (finished, path):
                if source is not None and source.is_file():
                    self._recall(source)

    @classmethod
    def beside(cls, outputs: Sequence[tuple[Path, str]], *, resume: bool) -> "Journal":
        """The journal of the first report; without a report there is none to go on with."""
        if not outputs:
            return cls(None, resume=False)
        streamed = [path for path, name in outputs if name == "jsonl"]
        if streamed:  # it is its own journal, and in order when all is done
            return cls(streamed[0], resume=resume, is_report=True)
        records = [path for path, name in outputs if name == "json"]
        first = outputs[0][0]
        path = first.with_name(first.name + _SUFFIX)
        return cls(path, resume=resume, finished=records[0] if records else None)

    def _recall(self, source: Path) -> None:
        try:
            data = source.read_bytes()
        except OSError as error:
            raise BadInput(f"--resume: {source} cannot be read: {error.strerror}") from None
        if source == self._path:
            data = data[: data.rfind(b"\n") + 1]  # a last line without its end was torn
        for result in read_results(data, str(source)) if data.strip() else ():
            key = job_key(result.input.path, result.model, result.execution.run_index)
            self.known[key] = result

    def __enter__(self) -> Self:
        if self._path is not None:
            try:
                self._file = self._path.open("wb")
            except OSError as error:
                raise BadInput(f"{self._path}: cannot be written: {error.strerror}") from None
            for result in self.known.values():
                self._write(result)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, result: PromptResult) -> None:
        """Keep a record; one that was known already is kept already."""
        key = job_key(result.input.path, result.model, result.execution.run_index)
        if self.known.get(key) is not result:
            self._write(result)

    def finish(self) -> None:
        """All is done and written: nothing is left to resume."""
        if self._path is not None and not self._is_report:
            self._path.unlink(missing_ok=True)

    def how_to_resume(self) -> str:
        """What the user can do."""
        if self._path is None:
            return "with -o FILE, what was done would have been kept for --resume"
        return "what was done is kept; go on with the same command and --resume"

    def _write(self, result: PromptResult) -> None:
        if self._file is not None:
            self._file.write(msgspec.json.encode(result) + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())

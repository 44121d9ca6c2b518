"""Evaluation steps: generated once per criterion, judge and version of the rubric, then kept."""

import asyncio
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Protocol

import msgspec
from msgspec import Meta

from evalwright.contracts.errors import BadInput
from evalwright.contracts.prompt_result import RUBRIC_VERSION, Criterion
from evalwright.models.protocol import Model, Reply
from evalwright.prompts.failure import EvaluationFailed
from evalwright.prompts.geval.questions import (
    CRITERIA,
    PROMPT_VERSION,
    Read,
    Spending,
    Steps,
    ask_all,
    read_steps,
    steps_request,
)

VERSION = f"{RUBRIC_VERSION}+{PROMPT_VERSION}"  # of the rubric and of the words that ask for steps

_Text = Annotated[str, Meta(min_length=1)]


class StepsKey(msgspec.Struct, frozen=True):
    """What steps are for."""

    criterion: Criterion
    judge: str  # the full name of the model
    version: str = VERSION


class NotStored(Exception):
    """Steps that could not be written; the message names the file."""


class StepStore(Protocol):
    """Where steps are kept."""

    def find(self, key: StepsKey) -> Steps | None:
        """The steps, if there are any."""

    def add(self, key: StepsKey, steps: Steps) -> Steps:
        """Keep new steps and give the valid ones, which are the first kept; raises `NotStored`."""


class MemorySteps:
    """Steps that last as long as the process."""

    def __init__(self) -> None:
        self._steps: dict[StepsKey, Steps] = {}

    def find(self, key: StepsKey) -> Steps | None:
        return self._steps.get(key)

    def add(self, key: StepsKey, steps: Steps) -> Steps:
        return self._steps.setdefault(key, steps)


class JudgeSteps:
    """The steps of one judge: found in the store, or generated and kept there."""

    def __init__(self, model: Model, store: StepStore) -> None:
        self.notes: tuple[str, ...] = ()
        self._model = model
        self._store = store
        self._steps: dict[Criterion, Steps] = {}
        self._generation: asyncio.Task[None] | None = None

    async def all(self, spending: Spending) -> Mapping[Criterion, Steps]:
        """The steps of all criteria; whoever asks while they are generated waits for the same ones.

        Raises `EvaluationFailed` if they cannot be generated: nothing takes their place.
        """
        if len(self._steps) < len(CRITERIA):
            if self._generation is not None:
                try:
                    await asyncio.shield(self._generation)
                except EvaluationFailed as failed:
                    message, retries = failed.message, failed.retries
                    raise EvaluationFailed(failed.code, message, retries=retries) from failed
            else:
                self._generation = asyncio.create_task(self._find(spending))
                self._generation.add_done_callback(self._ended)
                await asyncio.shield(self._generation)
        return self._steps

    def _ended(self, generation: asyncio.Task[None]) -> None:
        self._generation = None  # after a failure the next prompt tries again
        if not generation.cancelled():
            generation.exception()  # seen, also if whoever waited for it has gone

    async def _find(self, spending: Spending) -> None:
        for name in CRITERIA:
            steps = self._store.find(StepsKey(name, self._model.name))
            if steps is not None:
                self._steps[name] = steps
        missing = [name for name in CRITERIA if name not in self._steps]
        asked = [(steps_request(name), self._keeper(name)) for name in missing]
        await ask_all(self._model, asked, spending)

    def _keeper(self, name: Criterion) -> Read:
        def read(reply: Reply) -> None:
            steps = read_steps(reply)
            try:
                steps = self._store.add(StepsKey(name, self._model.name), steps)
            except NotStored as error:
                self.notes = (
                    f"evaluation steps could not be stored, so the next run will differ: {error}",
                )
            self._steps[name] = steps

        return read


class _StoredSteps(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    criterion: Criterion
    judge: _Text
    version: _Text
    steps: Annotated[tuple[_Text, ...], Meta(min_length=1)]


class _StepsFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: Annotated[int, Meta(ge=1, le=1)]
    steps: list[_StoredSteps]


class FileSteps:
    """Steps in a JSON file, which may be read, corrected and committed; it need not exist yet."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path if path is not None else default_path()

    def find(self, key: StepsKey) -> Steps | None:
        return self._read().get(key)

    def add(self, key: StepsKey, steps: Steps) -> Steps:
        """Keep new steps and give the valid ones; the file is whole at every moment."""
        kept = self._read()
        standing = kept.setdefault(key, steps)
        if standing is steps:
            keys: Sequence[StepsKey] = sorted(kept, key=lambda k: (k.judge, k.version, k.criterion))
            entries = [_StoredSteps(k.criterion, k.judge, k.version, kept[k]) for k in keys]
            content = msgspec.json.format(msgspec.json.encode(_StepsFile(1, entries)), indent=2)
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
                try:
                    with os.fdopen(handle, "wb") as file:
                        file.write(content + b"\n")
                    Path(name).replace(self.path)
                except OSError:
                    Path(name).unlink(missing_ok=True)
                    raise
            except OSError as error:
                raise NotStored(f"{self.path}: cannot be written: {error.strerror}") from None
        return standing

    def _read(self) -> dict[StepsKey, Steps]:
        try:
            document = msgspec.json.decode(self.path.read_bytes(), type=_StepsFile)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise BadInput(f"{self.path}: cannot be read: {error.strerror}") from None
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise BadInput(
                f"{self.path}: not a file of evaluation steps: {error}; "
                "correct it, or remove it to have new steps generated"
            ) from None
        return {
            StepsKey(entry.criterion, entry.judge, entry.version): entry.steps
            for entry in document.steps
        }


def default_path() -> Path:
    """The file in the user's cache."""
    from platformdirs import user_cache_path

    return user_cache_path("evalwright", appauthor=False) / "evaluation-steps.json"

"""What `evalwright view` may run: suites and agents in the folder where it was started.

Files are read, not executed, and none outside the folder; a run is a process of `evalwright run`,
as somebody would type it there. A host has no such folder.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, NamedTuple

from evalwright.agents.load import is_outside
from evalwright.contracts.documents import parse_document
from evalwright.contracts.errors import InvalidDocument
from evalwright.engine.suites.document import VERSION, found_from
from evalwright.engine.suites.ids import slug
from evalwright.engine.suites.loader import SKIPPED_FOLDERS, is_suite
from evalwright.host.http.settings import host_settings
from evalwright.models.config import Config
from evalwright.signals.masking.credentials import mask_strictly
from evalwright.store.location import VARIABLE, shown_db

MOST_FILES = 5_000  # that are looked at, those nearest to the folder first
MOST_FOUND = 50
MOST_BYTES = 1 << 20
TOLD = 4_000  # bytes of what a command said, the last
END_SECONDS = 10.0  # that a command has to end in good order
_ENDINGS = (".yaml", ".yml", ".json")


class FolderSuite(NamedTuple):
    """A suite in a file, by what its head says."""

    path: str  # from the folder
    title: str
    ref: str  # as the log has it: its id and version
    tasks: int | None  # None: they come from data files
    bar: float | None
    agent: str  # that it names, or nothing


class FolderAgent(NamedTuple):
    """An agent that may be named; a manifest needs a model."""

    ref: str
    needs_model: bool = False


class FolderOffer(NamedTuple):
    """All that can be chosen."""

    suites: Mapping[str, FolderSuite] = MappingProxyType({})  # by their paths
    agents: Mapping[str, FolderAgent] = MappingProxyType({})  # by their references
    models: tuple[str, ...] = ()


class FolderRuns:
    """The folder, and the commands that were started in it."""

    def __init__(
        self, folder: Path, db: str | None, config: Config, named: Path | None = None
    ) -> None:
        self._folder = folder.resolve()
        self._db = db
        self._config = config
        self._named = named  # the settings file, where it was named
        self._heads: dict[tuple[str, int, int], FolderSuite | FolderAgent | None] = {}
        self._commands: list[tuple[subprocess.Popen[bytes], IO[bytes]]] = []

    def offer(self) -> FolderOffer:
        """What is there now."""
        found = [each for path in self._files() if (each := self._head(path)) is not None]
        suites = [each for each in found if isinstance(each, FolderSuite)][:MOST_FOUND]
        own = [each.agent for each in suites] + [self._config.run.agent or ""]
        operators = host_settings(self._config).agents.values()
        agents = [FolderAgent(ref) for ref in own if ref]
        agents += [each for each in found if isinstance(each, FolderAgent)][:MOST_FOUND]
        agents += [FolderAgent(each.ref, each.model is not None) for each in operators]
        return FolderOffer(
            {each.path: each for each in suites},
            {each.ref: each for each in agents if self._is_inside(each.ref)},
            self._models(),
        )

    def _models(self) -> tuple[str, ...]:
        """The models that the settings file names."""
        settings = host_settings(self._config)
        tiers = (name for tier in self._config.tiers.values() for name in tier.models or ())
        named = [*settings.models.values(), settings.model, *self._config.prices, *tiers]
        return tuple(dict.fromkeys(name for name in named if name and ":" in name))

    def _files(self) -> Iterator[Path]:
        """Files that may be suites or manifests, those nearest first; links are not followed."""
        folders, left = deque([self._folder]), MOST_FILES
        while folders:
            try:
                entries = sorted(os.scandir(folders.popleft()), key=lambda each: each.name)
            except OSError:
                continue
            for each in entries:
                left -= 1
                if left < 0:
                    return
                if each.name.startswith("."):
                    continue
                with suppress(OSError):
                    if each.is_dir(follow_symlinks=False) and each.name not in SKIPPED_FOLDERS:
                        folders.append(Path(each.path))
                    elif each.is_file(follow_symlinks=False) and each.name.endswith(_ENDINGS):
                        yield Path(each.path)

    def _head(self, path: Path) -> FolderSuite | FolderAgent | None:
        with suppress(OSError):
            status = path.stat()
            if status.st_size > MOST_BYTES:
                return None
            key = str(path), status.st_mtime_ns, status.st_size
            if key not in self._heads:
                self._heads[key] = _read_head(path, path.relative_to(self._folder))
            return self._heads[key]
        return None

    def _is_inside(self, ref: str) -> bool:
        """Whether the code of an agent does not lie elsewhere."""
        if is_outside(ref):
            return True
        path = ref.partition("#")[0]
        file = path.rpartition(":")[0] if ".py:" in path else path
        return (self._folder / file).resolve().is_relative_to(self._folder)

    def words(self, suite: str, options: Sequence[tuple[str, str]]) -> list[str]:
        """The arguments of the command for a run."""
        path = f"./{suite}" if suite.startswith("-") else suite
        options = [(name, value) for name, value in options if value]
        if self._named is not None:
            options.append(("config", str(self._named)))
        return ["run", path, *(f"--{name}={value}" for name, value in options)]

    def typed(self, words: Sequence[str]) -> str:
        """The same command, to copy."""
        plain = [part for each in words for part in each.split("=", 1 if each[:2] == "--" else 0)]
        if self._db is not None:
            plain += ["--db", shown_db(self._db)]
        return shlex.join(["evalwright", *plain])

    def begin(self, words: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start the command; `said` tells what it had to say."""
        told = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the command
        process = subprocess.Popen(  # noqa: S603 - words are options of ours, with values that are offered
            [sys.executable, "-P", "-m", "evalwright", *words],
            cwd=self._folder,
            env=os.environ | ({} if self._db is None else {VARIABLE: self._db}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=told,
            start_new_session=True,  # Ctrl-C in the terminal is for the pages; see `close`
        )
        self._commands = [each for each in self._commands if each[0].poll() is None]
        self._commands.append((process, told))
        return process

    def refusal(self, process: subprocess.Popen[bytes]) -> tuple[list[str], str]:
        """The options that a command names in what it said last, and what it said."""
        told = next(file for each, file in self._commands if each is process)
        told.seek(max(0, told.seek(0, os.SEEK_END) - TOLD))
        text = mask_strictly(told.read().decode("utf-8", "replace"))
        lines = [line for line in text.splitlines() if line.strip()] or ["the command has ended"]
        said = " ".join(lines[-3:]).removeprefix("evalwright: ")
        return re.findall(r"(?<![\w-])--([a-z][a-z-]+)", said), said

    def close(self) -> None:
        """Interrupt what still runs: it is kept, and can be resumed."""
        for process, _ in self._commands:
            with suppress(OSError):
                process.send_signal(signal.SIGINT)
        for process, told in self._commands:
            with suppress(subprocess.TimeoutExpired):
                process.wait(END_SECONDS)
            told.close()


def _read_head(path: Path, shown: Path) -> FolderSuite | FolderAgent | None:
    is_one, source = is_suite(path), path.read_bytes()
    if not is_one and not (b"agentId" in source and b"modelClass" in source):
        return None
    try:
        document: Any = parse_document(source, path.name)
    except InvalidDocument:
        document = {}
    if not isinstance(document, dict):
        return None
    if not is_one:
        is_manifest = isinstance(document.get("agentId"), str) and "persona" in document
        return FolderAgent(shown.as_posix(), needs_model=True) if is_manifest else None
    name = _text(document.get("name")) or path.stem
    suite_id = _text(document.get("suiteId")) or f"local.evals.{slug(name) or 'suite'}"
    agent, thresholds = document.get("agent"), document.get("thresholds")
    if isinstance(agent, dict):
        agent = agent.get("ref")
    tasks = document.get("tasks")
    bar = thresholds.get("passRate") if isinstance(thresholds, dict) else None
    return FolderSuite(
        shown.as_posix(),
        name if "suiteId" not in document else suite_id,
        f"{suite_id}@{_text(document.get('version')) or VERSION}",
        len(tasks) if isinstance(tasks, list) and not document.get("data") else None,
        bar if isinstance(bar, float | int) else None,
        found_from(agent, shown.parent) if isinstance(agent, str) else "",
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""

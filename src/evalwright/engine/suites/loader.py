"""Suites as they are named: which files are suites, and a suite with the agent to run it against.

Suites come from files, folders, packs and documents.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from evalwright.agents.load import ARCHIVES
from evalwright.contracts.coverage import NO_CLAIMS, Claims
from evalwright.contracts.documents import (
    parse_document,
    parse_json,
    read_input,
    value_to_json,
    without_collecting,
)
from evalwright.contracts.errors import BadInput, InvalidDocument, Problem
from evalwright.contracts.messages import Text, phrase
from evalwright.contracts.run_plan import RunOptions, SuiteSource, TaskSelection
from evalwright.contracts.suite import Suite, is_evalwright_suite
from evalwright.scoring.golden import read_suite

# Files that hold nothing but rows; JSON and YAML may also be a suite.
DATA_ENDINGS = (".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".parquet")
_SUFFIXES = (".yaml", ".yml", ".json")
SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__", "venv", "site-packages"})
_BEGINNING = 1 << 20
_OWN_FORM = re.compile(rb"^[\"']?evalwright[\"']?[ \t]*:[ \t]*1[ \t]*(?:#.*)?\r?$", re.MULTILINE)
_OPENWOP = re.compile(rb"^[\"']?(suiteId|tasks)[\"']?[ \t]*:", re.MULTILINE)
_NOT_A_SUITE = frozenset({"aggregateScore", "passedCount", "suiteVersion"})  # a summary


class SuiteSubject(NamedTuple):
    """A suite, the agent to run it against, and where the suite came from."""

    suite: Suite
    agent: str | None
    source: SuiteSource | None = None
    notices: tuple[Text, ...] = ()  # what its reader should know
    selection: TaskSelection | None = None  # where it is a part of the suite
    functions: Mapping[str, Callable[..., Any]] | None = None  # own checks that are at hand
    claims: Claims = NO_CLAIMS  # of its own agent

    def with_claims(self, options: RunOptions) -> RunOptions:
        if self.claims == NO_CLAIMS:
            return options
        return msgspec.structs.replace(
            options,
            agent_tools=options.agent_tools or self.claims.tools,
            agent_usage=options.agent_usage or self.claims.usage,
            isolate=options.isolate or self.claims.isolate,
        )


def read_subject(
    suite: str | Path, agent: str | None, columns: Mapping[str, Any] | None = None
) -> SuiteSubject:
    """A suite from its file, and the reference of the agent to run it against.

    The file may be the archive of a pack: then `agent` is the id of one of its agents, and the
    suite is the one that this agent names. A suite may name an agent, too. A data file has a
    task in each row, by its `columns` (see `ColumnChoice`).
    """
    name = str(suite)
    if name.lower().endswith(ARCHIVES):
        from evalwright.agents.packs.pack import open_pack, read_pack_archive

        pack = open_pack(read_pack_archive(Path(name)), name)
        if agent is None:
            known = ", ".join(pack.manifests)
            message = "{name}: name an agent of the pack with {@agent} (it has: {known})"
            raise BadInput(phrase(message, name=name, known=known))
        found = pack.suite_of(agent)
        if found is None:
            raise BadInput(
                phrase(
                    "{name}: {agent} has no suite: its evalSuiteRef is missing "
                    "(run a suite of your own with {@agent:{name}#{agent}})",
                    name=name,
                    agent=agent,
                )
            )
        return SuiteSubject(found.suite, f"{name}#{agent}")
    if columns or is_data_file(name):
        from evalwright.engine.suites.document import ColumnChoice, read_data_suite

        loaded = read_data_suite(name, ColumnChoice(**columns or {}))
        return SuiteSubject(loaded.suite, agent, loaded.source, loaded.notices)
    source = read_input(name)
    if name.lower().endswith(".py"):
        from evalwright.agents.user_code import unnamed_function

        meant = unnamed_function(name) or f"name a function in it as {name}:NAME"
        raise BadInput(
            phrase(
                "{name}: this is code, not a suite; to test it, run a suite with it as the agent: "
                "`evalwright run SUITE {$agent:{name}:NAME}` ({meant})",
                name=name,
                meant=meant,
            )
        )
    if b"evalwright" in source:
        with without_collecting():
            document = parse_document(source, name)
        if is_evalwright_suite(document):
            from evalwright.engine.suites.document import suite_from_file

            loaded = suite_from_file(source, name, document)
            claims = loaded.claims if agent in (None, loaded.agent) else NO_CLAIMS
            return SuiteSubject(
                loaded.suite, agent or loaded.agent, loaded.source, loaded.notices, claims=claims
            )
    try:
        return SuiteSubject(read_suite(source, name), agent)
    except InvalidDocument as error:
        from evalwright.engine.suites.problems import told_by_line

        raise told_by_line(error, source) from None


def is_data_file(name: str) -> bool:
    """Whether a file holds nothing but rows, by its name."""
    return name.lower().removesuffix(".gz").endswith(DATA_ENDINGS)


def given_subject(
    document: Mapping[str, Any] | Suite,
    name: str = "suite",
    functions: Mapping[str, Callable[..., Any]] | None = None,
    folder: Path | None = None,
) -> SuiteSubject:
    """A suite from a document; `name` is how messages call it.

    Code and data are found from the folder, which is the working folder unless it is given;
    `functions` are own checks that are at hand, by what the document calls them.
    """
    plain = document if isinstance(document, Suite) else dict(document)
    encoded = value_to_json(plain, name)
    if not is_evalwright_suite(plain):
        return SuiteSubject(read_suite(encoded, name), None)
    from evalwright.engine.suites.document import load_suite

    loaded = load_suite(
        msgspec.json.decode(encoded),
        name=name,
        folder=folder or Path(),
        allow_code=True,
        allow_files=True,
        functions=(functions or {}).keys(),
    )
    return SuiteSubject(
        loaded.suite,
        loaded.agent,
        loaded.source,
        loaded.notices,
        functions=functions,
        claims=loaded.claims,
    )


class FoundSuites(NamedTuple):
    """The suites that were named or found, and how many files in folders are none."""

    paths: list[Path]
    passed_over: int


def find_suites(named: Iterable[Path]) -> FoundSuites:
    """Files as they are named; of folders, the suites in them, by path.

    Raises `BadInput` for a folder without any.
    """
    paths: dict[Path, None] = {}
    passed_over = 0
    for path in named:
        if not path.is_dir():
            paths[path] = None
            continue
        files = sorted(_files(path))
        found = [file for file in files if is_suite(file)]
        if not found:
            raise BadInput(
                f"{path}: no suite among its {len(files)} files; a suite has `evalwright: 1` at "
                "its top, or `suiteId` and `tasks`"
            )
        passed_over += len(files) - len(found)
        paths.update(dict.fromkeys(found))
    return FoundSuites(list(paths), passed_over)


def _files(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        folders[:] = [
            name for name in folders if not name.startswith(".") and name not in SKIPPED_FOLDERS
        ]
        yield from (Path(place, name) for name in files if not name.startswith("."))


def is_suite(path: Path) -> bool:
    """By its content; a suite with mistakes is one, so that they are told."""
    if not path.name.lower().endswith(_SUFFIXES) or path.name.lower().endswith(ARCHIVES):
        return False
    try:
        with path.open("rb") as file:
            beginning = file.read(_BEGINNING)
    except OSError:
        return False
    if beginning.lstrip()[:1] == b"{":
        if b'"evalwright"' not in beginning and b'"suiteId"' not in beginning:
            return False
        try:
            members = msgspec.json.decode(path.read_bytes(), type=dict[str, msgspec.Raw])
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return False
        has_version = bytes(members.get("evalwright", msgspec.Raw(b""))).strip() == b"1"
        return has_version or (
            {"suiteId", "tasks"} <= members.keys() and _NOT_A_SUITE.isdisjoint(members)
        )
    return bool(_OWN_FORM.search(beginning)) or len(set(_OPENWOP.findall(beginning))) == 2


class Lowered(msgspec.Struct, frozen=True):
    """A suite as a run takes it, or what is wrong with it."""

    suite: Suite | None = None
    problems: list[Problem] = []


class SentSuite(msgspec.Struct, frozen=True):
    """The JSON of a suite, of which neither code nor files are used."""

    source: bytes
    name: str

    def lowered(self) -> Lowered:
        """Its tasks; what their templates do is bounded by nothing but the end of the process."""
        from evalwright.engine.suites.document import load_suite

        try:
            return Lowered(load_suite(parse_json(self.source, self.name), name=self.name).suite)
        except InvalidDocument as error:
            return Lowered(problems=error.problems)

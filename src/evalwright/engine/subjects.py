"""What a run is of: a suite, from a file, a pack or a document, and the agent to run it against."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from evalwright.agents.load import ARCHIVES
from evalwright.contracts.coverage import NO_CLAIMS, Claims
from evalwright.contracts.documents import (
    parse_document,
    read_input,
    value_to_json,
    without_collecting,
)
from evalwright.contracts.errors import BadInput, InvalidDocument
from evalwright.contracts.planning import RunOptions, SuiteSource, TaskSelection
from evalwright.contracts.suite import Suite, is_wide
from evalwright.scoring.golden import read_suite

# Files that hold nothing but rows; JSON and YAML may also be a suite.
DATA_ENDINGS = (".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".parquet")


class SuiteSubject(NamedTuple):
    """A suite, the agent to run it against, and of a wide suite where it came from."""

    suite: Suite
    agent: str | None
    source: SuiteSource | None = None
    notices: tuple[str, ...] = ()  # what its reader should know
    selection: TaskSelection | None = None  # where it is a part of the suite
    functions: Mapping[str, Callable[..., Any]] | None = None  # own checks that are at hand
    claims: Claims = NO_CLAIMS  # of its own agent

    def with_claims(self, options: RunOptions) -> RunOptions:
        """The options with what the suite claims of its agent, where they claim nothing."""
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
    suite is the one that this agent names. A wide suite may name an agent, too. A data file has a
    task in each row, by its `columns` (see `ColumnChoice`).
    """
    name = str(suite)
    if name.lower().endswith(ARCHIVES):
        return _packed_subject(name, agent)
    if columns or is_data_file(name):
        from evalwright.engine.wide import plain_data

        choice = plain_data.ColumnChoice(**columns or {})
        wide = plain_data.read_data_suite(name, choice)
        return SuiteSubject(wide.suite, agent, wide.source, wide.notices)
    source = read_input(name)
    if name.lower().endswith(".py"):
        raise _code_for_suite(name)
    if b"evalwright" in source:
        with without_collecting():
            document = parse_document(source, name)
        if is_wide(document):
            from evalwright.engine.wide.loader import wide_from

            wide = wide_from(source, name, document)
            claims = wide.claims if agent in (None, wide.agent) else NO_CLAIMS
            return SuiteSubject(
                wide.suite, agent or wide.agent, wide.source, wide.notices, claims=claims
            )
    try:
        return SuiteSubject(read_suite(source, name), agent)
    except InvalidDocument as error:
        from evalwright.engine.wide.places import told_by_line

        raise told_by_line(error, source) from None


def _code_for_suite(name: str) -> BadInput:
    from evalwright.agents.user_code import unnamed_function

    meant = unnamed_function(name) or f"name a function in it as {name}:NAME"
    return BadInput(
        f"{name}: this is code, not a suite; to test it, run a suite with it as the agent: "
        f"`evalwright run SUITE --agent {name}:NAME` ({meant})"
    )


def is_data_file(name: str) -> bool:
    """Whether a file holds nothing but rows, by its name."""
    return name.lower().removesuffix(".gz").endswith(DATA_ENDINGS)


def _packed_subject(name: str, agent: str | None) -> SuiteSubject:
    from evalwright.agents.packs.pack import open_pack, read_pack_archive

    pack = open_pack(read_pack_archive(Path(name)), name)
    if agent is None:
        known = ", ".join(pack.manifests)
        raise BadInput(f"{name}: name an agent of the pack with --agent (it has: {known})")
    found = pack.suite_of(agent)
    if found is None:
        raise BadInput(
            f"{name}: {agent} has no suite: its evalSuiteRef is missing "
            f"(run a suite of your own with --agent {name}#{agent})"
        )
    return SuiteSubject(found.suite, f"{name}#{agent}")


def given_subject(
    document: Mapping[str, Any] | Suite,
    name: str = "suite",
    functions: Mapping[str, Callable[..., Any]] | None = None,
    folder: Path | None = None,
) -> SuiteSubject:
    """A suite from a document; `name` is how messages call it.

    Of a wide one, code and data are found from the folder, which is the working folder unless it
    is given; `functions` are own checks that are at hand, by what the document calls them.
    """
    plain = document if isinstance(document, Suite) else dict(document)
    encoded = value_to_json(plain, name)
    if not is_wide(plain):
        return SuiteSubject(read_suite(encoded, name), None)
    from evalwright.engine.wide.loader import load_wide

    value = msgspec.json.decode(encoded)
    known = functions or {}
    where = folder or Path()
    wide = load_wide(
        value, name=name, folder=where, allow_code=True, allow_files=True, functions=known.keys()
    )
    return SuiteSubject(
        wide.suite,
        wide.agent,
        wide.source,
        wide.notices,
        functions=functions,
        claims=wide.claims,
    )

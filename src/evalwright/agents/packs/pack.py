"""A pack that was opened: its agents and suites, read from an archive that stays in memory."""

from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import msgspec

from evalwright.agents.manifest import (
    MAX_FILE_BYTES,
    ManifestAgent,
    ManifestParts,
    agent_of,
    read_parts,
)
from evalwright.agents.packs.archive import MAX_ARCHIVE, read_archive
from evalwright.contracts.documents import open_input
from evalwright.contracts.errors import BadInput, InvalidDocument
from evalwright.contracts.manifest import Manifest, problem_of_ref
from evalwright.contracts.messages import phrase
from evalwright.contracts.pack import (
    PACK_FILE,
    PACK_KIND,
    InvalidPack,
    PackManifest,
    PackVersionNotFound,
    integrity_of,
    parse_pack_manifest,
)
from evalwright.contracts.suite import Suite, parse_suite
from evalwright.models.protocol import Model
from evalwright.store.records import Records

SUITES = "evals/"


class PackSuite(msgspec.Struct, frozen=True):
    """A suite of a pack, and the file that it came from."""

    suite: Suite
    source: bytes
    place: str

    @property
    def ref(self) -> str:
        return f"{self.suite.suite_id}@{self.suite.version}"


class Pack(msgspec.Struct, frozen=True):
    """A pack in which every reference leads somewhere and every document is valid."""

    manifest: PackManifest
    archive: bytes
    files: Mapping[str, bytes]
    manifests: Mapping[str, Manifest]
    parts: Mapping[str, ManifestParts]
    suites: Mapping[str, PackSuite]

    @property
    def name(self) -> str:
        return self.manifest.name

    @property
    def version(self) -> str:
        return self.manifest.version

    @property
    def ref(self) -> str:
        return self.manifest.ref

    @property
    def integrity(self) -> str:
        return integrity_of(self.archive)

    def suite_of(self, agent_id: str) -> PackSuite | None:
        ref = self._manifest_of(agent_id).eval_suite_ref
        if ref is None:
            return None
        return next(suite for suite in self.suites.values() if suite.place == _plain(ref))

    def agent(self, agent_id: str, model: Model, ref: str | None = None) -> ManifestAgent:
        manifest = self._manifest_of(agent_id)
        return agent_of(manifest, self.parts[agent_id], model, ref or f"{self.ref}#{agent_id}")

    def _manifest_of(self, agent_id: str) -> Manifest:
        if agent_id not in self.manifests:
            known = ", ".join(self.manifests)
            raise BadInput(f"the pack {self.ref} has no agent {agent_id!r} (it has: {known})")
        return self.manifests[agent_id]


def open_pack(archive: bytes, name: str = "pack") -> Pack:
    """Open a pack from the content of its archive; `verify_pack` checks who made it.

    Raises `InvalidPack` with all problems of an archive or document.
    """
    files = read_archive(archive, name)
    return read_pack(archive, files, read_pack_file(files, name), name)


def read_pack_file(files: Mapping[str, bytes], name: str) -> PackManifest:
    """The `pack.json` among the files of an archive."""
    if PACK_FILE not in files:
        nested = next((each for each in files if each.endswith(f"/{PACK_FILE}")), None)
        found = f", only {nested}" if nested else ""
        message = f"it has no {PACK_FILE}{found} (pack what is in the folder, not the folder)"
        raise InvalidPack(name, [message])
    try:
        return parse_pack_manifest(files[PACK_FILE])
    except InvalidDocument as invalid:
        raise InvalidPack(name, str(invalid).splitlines()) from None


def read_pack(
    archive: bytes, files: Mapping[str, bytes], manifest: PackManifest, name: str
) -> Pack:
    """The pack with all that its agents refer to."""
    reading = _Contents(files)
    reading.read_agents(manifest)
    reading.read_suites(manifest)
    if reading.problems:
        raise InvalidPack(name, reading.problems)
    manifests = {agent.agent_id: agent for agent in manifest.agents}
    return Pack(manifest, archive, files, manifests, reading.parts, reading.suites)


def load_packed(ref: str, model: Model) -> ManifestAgent:
    """An agent of an archive on disk: `shop.tgz#agentId`, or `shop.tgz` if it has but one."""
    path, _, chosen = ref.partition("#")
    pack = open_pack(read_pack_archive(Path(path)), path)
    if not chosen and len(pack.manifests) > 1:
        known = ", ".join(pack.manifests)
        example = f"{path}#{next(iter(pack.manifests))}"
        message = "{@agent:{ref}}: the pack has several agents: {known}; write {example}"
        raise BadInput(phrase(message, ref=ref, known=known, example=example))
    return pack.agent(chosen or next(iter(pack.manifests)), model, ref)


def read_pack_archive(path: Path) -> bytes:
    """The content of an archive on disk, up to the size limit of a pack."""
    try:
        with open_input(path) as file:
            return file.read(MAX_ARCHIVE + 1)
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}") from None


def installed_pack(records: Records, tenant: str, ref: str) -> Pack:
    """A pack that a tenant installed, by name and version."""
    archive = records.get(PACK_KIND, tenant, ref)
    if archive is None:
        message = "is not installed (see `evalwright pack install`)"
        raise PackVersionNotFound(f"the pack {ref} {message}")
    return open_pack(archive, ref)


class _Contents:
    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = _PackFiles(files)
        self._names = files.keys()
        self.parts: dict[str, ManifestParts] = {}
        self.suites: dict[str, PackSuite] = {}
        self.problems: list[str] = []

    def read_agents(self, manifest: PackManifest) -> None:
        for agent in manifest.agents:
            try:
                place = f"{PACK_FILE}: {agent.agent_id}"
                self.parts[agent.agent_id] = read_parts(agent, self._files, place)
            except BadInput as error:
                self.problems += str(error).splitlines()

    def read_suites(self, manifest: PackManifest) -> None:
        named = {_plain(agent.eval_suite_ref) for agent in manifest.agents if agent.eval_suite_ref}
        others = {name for name in self._names if name.startswith(SUITES) and _is_json(name)}
        for place in sorted(named | others):
            try:
                if not _is_json(place):
                    raise BadInput(
                        f"{place}: a suite in a pack is JSON (write it as {SUITES}NAME.json)"
                    )
                source = self._files.content(place, "evalSuiteRef")
                suite = PackSuite(parse_suite(source, place), source, place)
                if suite.ref in self.suites:
                    other = self.suites[suite.ref].place
                    message = f"{suite.ref} is already the suite of {other}"
                    raise BadInput(f"{place}: $.suiteId: {message} (give it another id or version)")
                self.suites[suite.ref] = suite
            except BadInput as error:
                self.problems += str(error).splitlines()


class _PackFiles:
    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = files

    def read(self, ref: str, field: str) -> bytes:
        content = self.content(ref, field)
        if len(content) > MAX_FILE_BYTES:
            raise BadInput(f"{ref}: the file is longer than {MAX_FILE_BYTES} bytes")
        return content

    def content(self, ref: str, field: str) -> bytes:
        place = f"{PACK_FILE}: {field} {ref!r}"
        problem = problem_of_ref(ref)
        if problem is not None:
            raise BadInput(f"{place}: {problem} (name a file of the pack)")
        if _plain(ref) not in self._files:
            raise BadInput(f"{place}: there is no such file in the pack (add it)")
        return self._files[_plain(ref)]


def _plain(ref: str) -> str:
    return str(PurePosixPath(ref))


def _is_json(name: str) -> bool:
    return name.lower().endswith(".json")

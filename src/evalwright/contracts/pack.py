"""`pack.json`: the name, version and agents of a pack, how it is signed, and why one is refused."""

import base64
import hashlib
from typing import Any, Literal

import msgspec

from evalwright.contracts.documents import parse_json, unfit_for_json
from evalwright.contracts.errors import BadInput, InvalidDocument, Problem
from evalwright.contracts.manifest import Manifest, parse_pack
from evalwright.contracts.schema import check_schema

PACK = "agent-pack"
PACK_FILE = "pack.json"
PACK_KIND = "pack"  # of the documents that hold archives
SIGNATURE_FILE = "keys/pack.json.sig"
MOST_PROBLEMS = 50
_ALGORITHM = "sha256-"
_DIGEST_SIZE = 32


class PackError(BadInput):
    """A pack that cannot be accepted; `code` is what a host answers."""

    code = "validation_error"


class InvalidPack(PackError):
    """A pack that breaks rules; only the first problems are listed."""

    def __init__(self, name: str, problems: list[str]) -> None:
        self.problems = problems
        lines = [f"{name}: {problem}" for problem in problems[:MOST_PROBLEMS]]
        if len(problems) > MOST_PROBLEMS:
            lines.append(f"… and {len(problems) - MOST_PROBLEMS} more problems")
        super().__init__("\n".join(lines))


class PackIntegrityMismatch(PackError):
    """The archive does not match its known integrity, or no integrity is known."""

    code = "pack_integrity_mismatch"


class PackSignatureInvalid(PackError):
    """The signature is missing, or is not that of the trusted key over this `pack.json`."""

    code = "pack_signature_invalid"


class PackPeerMissing(PackError):
    """The pack needs something of its host that is not there."""

    code = "pack_peer_dependency_missing"


class PackVersionNotFound(PackError):
    """No such pack is installed, or not in this version."""

    code = "pack_version_not_found"


class _PackFields(msgspec.Struct, frozen=True, rename="camel"):
    pass


class Signing(_PackFields, frozen=True):
    """How `pack.json` is signed."""

    method: Literal["manual", "sigstore"] = "manual"
    public_key_ref: str | None = None
    signature_ref: str = SIGNATURE_FILE


class Peer(_PackFields, frozen=True):
    """Something that a host should offer."""

    optional: bool = False


class PackManifest(_PackFields, frozen=True):
    """What a `pack.json` says, as far as agents are concerned."""

    name: str
    version: str
    agents: list[Manifest]
    signing: Signing | None = None
    peer_dependencies: dict[str, str] = msgspec.field(default_factory=dict)
    peer_dependencies_meta: dict[str, Peer] = msgspec.field(default_factory=dict)
    nodes: list[Any] = msgspec.field(default_factory=list)

    @property
    def ref(self) -> str:
        return f"{self.name}@{self.version}"

    def needed_peers(self) -> dict[str, str]:
        return {
            name: wanted
            for name, wanted in self.peer_dependencies.items()
            if not self.peer_dependencies_meta.get(name, Peer()).optional
        }


def parse_pack_manifest(source: bytes, name: str = PACK_FILE) -> PackManifest:
    """Read a `pack.json` with its agents; all its problems at once."""
    document = parse_json(source, name)
    problems = unfit_for_json(document)
    if not problems:
        problems = check_schema(document, PACK) + _check_agents(source, document)
    if problems:
        raise InvalidDocument(name, problems)
    return msgspec.convert(document, PackManifest, strict=False)


def integrity_of(archive: bytes) -> str:
    """What a registry tells of an archive: the name of the hash, and its value in base64."""
    return _ALGORITHM + base64.b64encode(hashlib.sha256(archive).digest()).decode()


def is_integrity(text: str) -> bool:
    """Whether a text has the form that `integrity_of` gives."""
    try:
        digest = base64.b64decode(text.removeprefix(_ALGORITHM), validate=True)
    except ValueError:
        return False
    return text == _ALGORITHM + base64.b64encode(digest).decode() and len(digest) == _DIGEST_SIZE


def _check_agents(source: bytes, document: Any) -> list[Problem]:
    if not isinstance(document, dict) or not document.get("agents"):
        return []
    problems: list[Problem] = []
    try:
        parse_pack(source, PACK_FILE)
    except InvalidDocument as invalid:
        problems += invalid.problems
    runtime = document.get("runtime")
    if isinstance(runtime, dict) and not document.get("nodes"):
        language = runtime.get("language")
        if language != "remote":
            message = f"a pack without nodes has no code, so its language is not {language!r}"
            problems.append(Problem("$.runtime.language", message, 'write "remote"'))
    return problems

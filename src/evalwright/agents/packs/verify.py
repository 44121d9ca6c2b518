"""Whether a pack is what it should be, and from whom: each check, and what was not checked."""

from collections.abc import Mapping
from typing import Literal

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from evalwright.agents.packs.archive import read_archive
from evalwright.agents.packs.pack import Pack, read_pack, read_pack_file
from evalwright.agents.packs.signature import is_signed_by
from evalwright.contracts.messages import Text, phrase
from evalwright.contracts.pack import (
    PACK_FILE,
    InvalidPack,
    PackError,
    PackIntegrityMismatch,
    PackManifest,
    PackPeerMissing,
    PackSignatureInvalid,
    integrity_of,
)

Status = Literal["passed", "failed", "not checked"]
PEERS = {"aiProviders": "supported", "host.agentRuntime": "supported"}  # what hosts here offer
_ERRORS = {"integrity": PackIntegrityMismatch, "signature": PackSignatureInvalid}


class Trust(msgspec.Struct, frozen=True):
    """What a pack is checked against: a key, and what a registry says about the archive."""

    key: Ed25519PublicKey | None = None
    integrity: str | None = None


class PackCheck(msgspec.Struct, frozen=True):
    """One thing that was checked, or that could not be."""

    check: str
    status: Status
    message: Text


class Verification(msgspec.Struct, frozen=True):
    """What is known about an archive; `pack` is set if it can be opened."""

    name: str
    integrity: str
    checks: list[PackCheck]
    pack: Pack | None

    @property
    def is_verified(self) -> bool:
        return all(check.status == "passed" for check in self.checks)

    def passes(self, *, allow_unsigned: bool) -> bool:
        """Whether the pack may be used: unknowns may be allowed, failures never."""
        return not self._in_the_way(allow_unsigned=allow_unsigned)

    def require(self, *, allow_unsigned: bool) -> Pack:
        for check in self._in_the_way(allow_unsigned=allow_unsigned):
            kind = _ERRORS.get(check.check)
            if kind is None:
                raise PackError(check.message)  # which begins with the name
            unknown = check.status == "not checked"
            remedy = phrase(" ({@allow_unsigned} accepts that)") if unknown else ""
            said = "{name}: {message}{remedy}"
            raise kind(phrase(said, name=self.name, message=check.message, remedy=remedy))
        assert self.pack is not None
        return self.pack

    def _in_the_way(self, *, allow_unsigned: bool) -> list[PackCheck]:
        accepted = {"passed", "not checked"} if allow_unsigned else {"passed"}
        return [check for check in self.checks if check.status not in accepted]


def verify_pack(archive: bytes, trust: Trust, name: str = "pack") -> Verification:
    """Check all that can be checked. Only signature and integrity together protect every file."""
    actual = integrity_of(archive)
    checks = [_check_integrity(actual, trust.integrity)]
    pack, stage = None, "archive"
    try:
        files = read_archive(archive, name)
        number, size = _count(len(files), "plain file"), sum(map(len, files.values()))
        checks.append(PackCheck(stage, "passed", f"{number}, {size} bytes unpacked"))
        stage = PACK_FILE
        manifest = read_pack_file(files, name)
        checks.append(PackCheck(stage, "passed", manifest.ref))
        checks.append(_check_signature(manifest, files, trust.key))
        stage = "contents"
        pack = read_pack(archive, files, manifest, name)
        agents, suites = _count(len(pack.manifests), "agent"), _count(len(pack.suites), "suite")
        holds = f"{agents} and {suites}; all their files are present"
        checks.append(PackCheck(stage, "passed", holds))
    except InvalidPack as invalid:
        checks.append(PackCheck(stage, "failed", str(invalid)))
    return Verification(name, actual, checks, pack)


def require_peers(pack: Pack) -> None:
    """Refuse a pack that needs something of its host which is not there."""
    needed = pack.manifest.needed_peers().items()
    missing = [f"{name} {wanted}" for name, wanted in needed if PEERS.get(name) != wanted]
    if missing:
        raise PackPeerMissing(
            f"{PACK_FILE}: $.peerDependencies: the host does not offer {', '.join(missing)} "
            "(mark peers that are not required as optional in peerDependenciesMeta)"
        )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _check_integrity(actual: str, expected: str | None) -> PackCheck:
    if expected is None:
        message = phrase(
            "no integrity is known ({@integrity}), so nothing shows that the files beside "
            "{file} are unchanged",
            file=PACK_FILE,
        )
        return PackCheck("integrity", "not checked", message)
    if actual != expected:
        return PackCheck(
            "integrity", "failed", f"the archive is {actual}, and {expected} is expected"
        )
    return PackCheck("integrity", "passed", "the archive is byte for byte the expected one")


def _check_signature(
    manifest: PackManifest, files: Mapping[str, bytes], key: Ed25519PublicKey | None
) -> PackCheck:
    signing = manifest.signing
    if key is None:
        said = "is signed, but no key is trusted ({@key})" if signing else "is not signed"
        message = phrase(f"{PACK_FILE} {said}, so nothing shows who made it")
        return PackCheck("signature", "not checked", message)
    problem = None
    if signing is None:
        problem = f"{PACK_FILE} is not signed"
    elif signing.method != "manual":
        problem = f"{PACK_FILE} is signed by the method {signing.method}, which cannot be checked"
    elif signing.signature_ref not in files:
        problem = f"the signature {signing.signature_ref} is not in the pack"
    elif not is_signed_by(key, files[signing.signature_ref], files[PACK_FILE]):
        problem = f"{signing.signature_ref} is not the trusted key's signature of {PACK_FILE}"
    if problem is not None:
        return PackCheck("signature", "failed", problem)
    return PackCheck("signature", "passed", f"{PACK_FILE} is signed by the trusted key")

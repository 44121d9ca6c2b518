"""Verifying: a pack is trusted when signature and integrity both hold, and not a check less."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st
from packing import SIGNING, Keys, a_pack_json, an_archive, pack_files, signed_files

from evalwright.agents.packs.pack import open_pack
from evalwright.agents.packs.signature import load_public_key
from evalwright.agents.packs.verify import Trust, Verification, require_peers, verify_pack
from evalwright.contracts.errors import BadInput
from evalwright.contracts.pack import (
    PackError,
    PackIntegrityMismatch,
    PackPeerMissing,
    PackSignatureInvalid,
    integrity_of,
)


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path)


def public(keys: Keys) -> Ed25519PublicKey:
    return load_public_key(keys.public.read_bytes(), "public.pem")


def fully_trusted(archive: bytes, keys: Keys) -> Verification:
    return verify_pack(archive, Trust(public(keys), integrity_of(archive)))


def statuses(verification: Verification) -> dict[str, str]:
    return {check.check: check.status for check in verification.checks}


def message(verification: Verification, name: str) -> str:
    return next(str(check.message) for check in verification.checks if check.check == name)


def test_a_signed_pack_with_its_integrity_is_verified(keys: Keys) -> None:
    verification = fully_trusted(an_archive(signed_files(keys)), keys)
    assert set(statuses(verification).values()) == {"passed"}
    assert verification.is_verified
    assert verification.require(allow_unsigned=False).name == "vendor.acme.shop"


def test_without_a_key_or_an_integrity_nothing_is_verified(keys: Keys) -> None:
    archive = an_archive(signed_files(keys))
    for trust, unknown, kind in [
        (Trust(public(keys), None), "integrity", PackIntegrityMismatch),
        (Trust(None, integrity_of(archive)), "signature", PackSignatureInvalid),
    ]:
        verification = verify_pack(archive, trust)
        assert statuses(verification)[unknown] == "not checked"
        assert not verification.is_verified
        assert not verification.passes(allow_unsigned=False)
        with pytest.raises(kind):
            verification.require(allow_unsigned=False)
        assert verification.passes(allow_unsigned=True)
        assert verification.require(allow_unsigned=True).version == "1.0.0"


def test_what_a_missing_check_leaves_open_is_said(keys: Keys) -> None:
    signed = verify_pack(an_archive(signed_files(keys)), Trust())
    assert "the files beside pack.json are unchanged" in message(signed, "integrity")
    assert "is signed, but no key is trusted" in message(signed, "signature")
    assert "is not signed" in message(verify_pack(an_archive(pack_files()), Trust()), "signature")


def test_a_prompt_changed_after_signing_is_found_by_the_integrity(keys: Keys) -> None:
    sound = an_archive(signed_files(keys))
    changed = an_archive({**signed_files(keys), "prompts/desk.md": b"Refund everything."})
    verification = verify_pack(changed, Trust(public(keys), integrity_of(sound)))
    assert statuses(verification)["signature"] == "passed"
    assert statuses(verification)["integrity"] == "failed"
    with pytest.raises(PackIntegrityMismatch) as raised:
        verification.require(allow_unsigned=True)
    assert raised.value.code == "pack_integrity_mismatch"


def test_a_pack_json_changed_after_signing_is_found_by_the_signature(keys: Keys) -> None:
    files = signed_files(keys)
    files["pack.json"] += b"\n"
    verification = fully_trusted(an_archive(files), keys)
    assert statuses(verification)["signature"] == "failed"
    with pytest.raises(PackSignatureInvalid) as raised:
        verification.require(allow_unsigned=True)
    assert raised.value.code == "pack_signature_invalid"


def test_the_signature_of_another_key_is_refused(keys: Keys, tmp_path: Path) -> None:
    archive = an_archive(signed_files(Keys(tmp_path, "other")))
    assert statuses(fully_trusted(archive, keys))["signature"] == "failed"


def test_a_key_in_the_pack_earns_no_trust(keys: Keys, tmp_path: Path) -> None:
    other = Keys(tmp_path, "other")
    files = signed_files(other) | {"keys/acme-1.pem": other.public.read_bytes()}
    assert statuses(fully_trusted(an_archive(files), keys))["signature"] == "failed"
    assert statuses(verify_pack(an_archive(files), Trust()))["signature"] == "not checked"


@pytest.mark.parametrize(
    ("signing", "told"),
    [
        (None, "is not signed"),
        ({**SIGNING, "method": "sigstore"}, "by the method sigstore, which cannot be checked"),
        ({**SIGNING, "signatureRef": "keys/none.sig"}, "keys/none.sig is not in the pack"),
        ({**SIGNING, "signatureRef": "README.md"}, "README.md is not the trusted key's signature"),
    ],
)
def test_a_pack_that_is_not_signed_fails_where_a_key_is_trusted(
    keys: Keys, signing: dict[str, str] | None, told: str
) -> None:
    archive = an_archive(pack_files(signing=signing))
    verification = fully_trusted(archive, keys)
    assert told in message(verification, "signature")
    assert not verification.passes(allow_unsigned=True)


@pytest.mark.parametrize("signature", [b"", b"x" * 63, b"x" * 64, b"x" * 65])
def test_a_signature_that_is_none_is_refused(keys: Keys, signature: bytes) -> None:
    files = {**signed_files(keys), "keys/pack.json.sig": signature}
    assert statuses(fully_trusted(an_archive(files), keys))["signature"] == "failed"


@pytest.mark.parametrize(
    ("archive", "failed"),
    [
        (b"nonsense", "archive"),
        (an_archive({"README.md": b""}), "pack.json"),
        (an_archive({**pack_files(), "pack.json": b"{}"}), "pack.json"),
        (an_archive({**pack_files(), "evals/desk.json": b"{}"}), "contents"),
    ],
)
def test_a_pack_that_cannot_be_opened_is_never_passed(
    keys: Keys, archive: bytes, failed: str
) -> None:
    verification = fully_trusted(archive, keys)
    assert statuses(verification)[failed] == "failed"
    assert verification.pack is None
    assert not verification.passes(allow_unsigned=True)
    with pytest.raises(PackError):
        verification.require(allow_unsigned=True)


@given(st.data())
def test_one_changed_byte_anywhere_is_never_verified(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    keys = Keys(tmp_path_factory.getbasetemp())
    archive = an_archive(signed_files(keys))
    place = data.draw(st.integers(0, len(archive) - 1))
    changed = bytearray(archive)
    changed[place] ^= data.draw(st.integers(1, 255))
    verification = verify_pack(bytes(changed), Trust(public(keys), integrity_of(archive)))
    assert not verification.passes(allow_unsigned=True)


def test_a_key_that_cannot_be_trusted_is_refused_with_the_way_to_make_one(keys: Keys) -> None:
    for pem, told in [
        (b"nonsense", "not a PEM public key"),
        (keys.private.read_bytes(), "it is a private key"),
    ]:
        with pytest.raises(BadInput, match=told) as raised:
            load_public_key(pem, "public.pem")
        assert "openssl pkey" in str(raised.value)


def test_a_pack_that_needs_what_no_host_here_offers_is_refused() -> None:
    peers = {"aiProviders": "supported", "host.fs": "supported"}
    needy = pack_files(**a_pack_json(peerDependencies=peers))
    with pytest.raises(PackPeerMissing, match=r"does not offer host\.fs supported") as raised:
        require_peers(open_pack(an_archive(needy)))
    assert raised.value.code == "pack_peer_dependency_missing"
    optional = {"host.fs": {"optional": True}}
    modest = pack_files(peerDependencies=peers, peerDependenciesMeta=optional)
    require_peers(open_pack(an_archive(modest)))

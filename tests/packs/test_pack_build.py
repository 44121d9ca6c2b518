"""From a folder to an archive: which files, always the same bytes, and the signature."""

import gzip
import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from packing import SIGNING, Keys, pack_files, signed_files, write_folder

from evalwright.agents.packs.archive import MAX_FILE
from evalwright.agents.packs.build import build_pack
from evalwright.contracts.errors import BadInput


def a_folder(tmp_path: Path, **fields: Any) -> Path:
    return write_folder(tmp_path / "shop", pack_files(**fields))


def refused(folder: Path, key: Path | None = None) -> str:
    with pytest.raises(BadInput) as raised:
        build_pack(folder, key)
    return str(raised.value)


def members(archive: bytes) -> list[tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return tar.getmembers()


# The files.


def test_a_pack_holds_the_files_of_its_folder(tmp_path: Path) -> None:
    assert build_pack(a_folder(tmp_path)).files == pack_files()


def test_what_belongs_to_no_pack_is_left_out(tmp_path: Path) -> None:
    folder = a_folder(tmp_path)
    others = {"notes.txt": b"x", "prompts/.DS_Store": b"x", ".git/config": b"x", "keys/a.pem": b"x"}
    write_folder(folder, others)
    assert build_pack(folder).files == pack_files()


def test_folders_within_folders_are_packed(tmp_path: Path) -> None:
    folder = write_folder(a_folder(tmp_path), {"schemas/parts/order.json": b"{}"})
    assert "schemas/parts/order.json" in build_pack(folder).files


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    folder = a_folder(tmp_path)
    (folder / "prompts" / "more.md").symlink_to(folder / "README.md")
    assert "more.md: it is not a plain file" in refused(folder)
    (folder / "prompts" / "more.md").unlink()
    (folder / "evals").rename(tmp_path / "elsewhere")
    (folder / "evals").symlink_to(tmp_path / "elsewhere")
    assert "evals: it is not a folder" in refused(folder)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    folder = a_folder(tmp_path)
    os.mkfifo(folder / "prompts" / "pipe")
    assert "pipe: it is not a plain file" in refused(folder)


def test_a_file_that_is_too_long_is_refused(tmp_path: Path) -> None:
    folder = write_folder(a_folder(tmp_path), {"README.md": bytes(MAX_FILE + 1)})
    assert "README.md: the file is longer" in refused(folder)


def test_a_folder_without_a_pack_json_is_refused(tmp_path: Path) -> None:
    assert "no pack.json in this folder" in refused(tmp_path)
    assert "is not a folder" in refused(tmp_path / "nowhere")


def test_what_comes_out_is_sound_or_does_not_come_out(tmp_path: Path) -> None:
    folder = a_folder(tmp_path)
    (folder / "prompts" / "desk.md").unlink()
    assert "systemPromptRef 'prompts/desk.md': there is no such file" in refused(folder)


def test_programs_are_not_packed(tmp_path: Path) -> None:
    runtime = {"language": "python", "entry": "shop.py"}
    assert "$.nodes" in refused(a_folder(tmp_path, nodes=[{"typeId": "a"}], runtime=runtime))


# The bytes.


def test_the_same_files_give_the_same_bytes(tmp_path: Path) -> None:
    one = build_pack(a_folder(tmp_path)).archive
    files = dict(reversed(pack_files().items()))
    other = write_folder(tmp_path / "other", files)
    for path in other.rglob("*"):
        path.chmod(0o755)
        os.utime(path, (1e9, 1e9))
    assert build_pack(other).archive == one


def test_nothing_of_the_machine_is_in_the_archive(tmp_path: Path) -> None:
    archive = build_pack(a_folder(tmp_path)).archive
    assert archive[:10] == b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
    found = members(archive)
    assert [entry.name for entry in found] == sorted(pack_files())
    for entry in found:
        assert (entry.uid, entry.gid, entry.mtime, entry.mode) == (0, 0, 0, 0o644)
        assert (entry.uname, entry.gname) == ("", "")


def test_the_bytes_are_the_same_on_every_machine(tmp_path: Path) -> None:
    """The value is part of the promise: whoever builds this folder gets this hash."""
    source = (
        '{"name": "vendor.acme.one", "version": "1.0.0", "engines": {"openwop": ">=1.0 <2.0.0"}, '
        '"runtime": {"language": "remote", "entry": "pack.json"}, "agents": [{"agentId": '
        '"vendor.acme.one.a", "persona": "A", "modelClass": "general", "systemPrompt": "Hi."}]}'
    )
    pack = build_pack(write_folder(tmp_path, {"pack.json": source.encode(), "README": b"x" * 1000}))
    assert pack.integrity == "sha256-Zml5Yv/BZYSnmpxdlXU89Ijeez3oO8dq8qP/iZIfooo="


@pytest.mark.parametrize("size", [0, 1, 511, 512, 65_535, 65_536, 200_000])
def test_any_tool_can_unpack_it(tmp_path: Path, size: int) -> None:
    archive = build_pack(write_folder(a_folder(tmp_path), {"README.md": b"x" * size})).archive
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(archive))) as tar:
        readme = tar.extractfile("README.md")
        assert readme is not None
        assert readme.read() == b"x" * size


# The signature.


def test_a_pack_is_signed_over_the_exact_bytes_of_its_pack_json(tmp_path: Path) -> None:
    keys = Keys(tmp_path)
    files = build_pack(a_folder(tmp_path, signing=SIGNING), keys.private).files
    assert files == signed_files(keys)
    assert len(files["keys/pack.json.sig"]) == 64


def test_a_signature_that_lies_in_the_folder_is_packed(tmp_path: Path) -> None:
    files = signed_files(Keys(tmp_path))
    assert build_pack(write_folder(tmp_path / "shop", files)).files == files


def test_signing_again_replaces_the_signature(tmp_path: Path) -> None:
    new = Keys(tmp_path, "new")
    folder = write_folder(tmp_path / "shop", signed_files(Keys(tmp_path, "old")))
    assert build_pack(folder, new.private).files == signed_files(new)


@pytest.mark.parametrize(
    "signing",
    [
        None,
        {"method": "manual"},
        {**SIGNING, "method": "sigstore"},
        {**SIGNING, "signatureRef": "a"},
    ],
)
def test_a_pack_json_that_does_not_say_how_it_is_signed_is_not_signed(
    tmp_path: Path, signing: dict[str, str] | None
) -> None:
    told = refused(a_folder(tmp_path, signing=signing), Keys(tmp_path).private)
    assert "pack.json: $.signing: " in told
    assert json.dumps(SIGNING["signatureRef"]) in told


def test_a_pack_json_that_promises_a_signature_is_not_packed_without(tmp_path: Path) -> None:
    assert "there is no signature" in refused(a_folder(tmp_path, signing=SIGNING))


def test_a_key_that_cannot_sign_is_refused_with_the_way_to_make_one(tmp_path: Path) -> None:
    keys, folder = Keys(tmp_path), a_folder(tmp_path, signing=SIGNING)
    locked = keys.pair.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
    )
    curve = ec.generate_private_key(ec.SECP256R1())
    other = curve.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    for pem, message in [
        (b"nonsense", "not a PEM private key"),
        (keys.public.read_bytes(), "not a PEM private key"),
        (locked, "has a password"),
        (other, "not an Ed25519 key"),
    ]:
        (tmp_path / "bad.pem").write_bytes(pem)
        told = refused(folder, tmp_path / "bad.pem")
        assert message in told
        assert "openssl genpkey -algorithm ed25519" in told
    assert "cannot be read" in refused(folder, tmp_path / "none.pem")

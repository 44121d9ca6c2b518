"""Packs to test with: folders as authors write them, and archives that no author would write."""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from builders import a_suite, a_task, as_document

PACK = "vendor.acme.shop"
DESK = f"{PACK}.desk"
SIGNING = {"method": "manual", "publicKeyRef": "acme-1", "signatureRef": "keys/pack.json.sig"}


def a_pack_agent(**fields: Any) -> dict[str, Any]:
    return {
        "agentId": DESK,
        "persona": "Desk",
        "modelClass": "general",
        "systemPromptRef": "prompts/desk.md",
        "evalSuiteRef": "evals/desk.json",
        "handoff": {"returnSchemaRef": "schemas/return.json"},
        **fields,
    }


def a_pack_json(**fields: Any) -> dict[str, Any]:
    """A `pack.json`; a field that is given as None is left out."""
    document: dict[str, Any] = {
        "name": PACK,
        "version": "1.0.0",
        "engines": {"openwop": ">=1.0 <2.0.0"},
        "runtime": {"language": "remote", "entry": "pack.json"},
        "agents": [a_pack_agent()],
        **fields,
    }
    return {key: value for key, value in document.items() if value is not None}


def pack_files(**fields: Any) -> dict[str, bytes]:
    """The files of a sound pack."""
    suite = a_suite([a_task()], suite_id="acme.shop.evals.desk")
    return {
        "pack.json": json.dumps(a_pack_json(**fields)).encode(),
        "prompts/desk.md": b"You work at the desk of a shop.",
        "schemas/return.json": b'{"type": "string"}',
        "evals/desk.json": json.dumps(as_document(suite)).encode(),
        "README.md": b"# Shop\n",
    }


def write_folder(folder: Path, files: Mapping[str, bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


Entry = tuple[str, bytes] | tarfile.TarInfo


def a_tar(entries: Iterable[Entry], tar_format: int = tarfile.USTAR_FORMAT) -> bytes:
    """A tar file of files, and of whatever else an entry says it is."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tar_format) as tar:
        for entry in entries:
            if isinstance(entry, tarfile.TarInfo):
                tar.addfile(entry)
            else:
                info = tarfile.TarInfo(entry[0])
                info.size = len(entry[1])
                tar.addfile(info, io.BytesIO(entry[1]))
    return stream.getvalue()


def an_archive(entries: Iterable[Entry] | Mapping[str, bytes]) -> bytes:
    """A `.tgz` by somebody else's tools."""
    listed = entries.items() if isinstance(entries, Mapping) else entries
    return gzip.compress(a_tar(listed), mtime=0)


class Keys:
    """A pair of keys in a folder, as `openssl` writes them; the same name is the same pair."""

    def __init__(self, folder: Path, name: str = "key") -> None:
        self.pair = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest())
        self.private = folder / f"{name}-private.pem"
        self.public = folder / f"{name}-public.pem"
        self.private.write_bytes(
            self.pair.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        )
        self.public.write_bytes(
            self.pair.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        )


def signed_files(keys: Keys, **fields: Any) -> dict[str, bytes]:
    """The files of a pack with its signature."""
    files = pack_files(signing=SIGNING, **fields)
    return {**files, "keys/pack.json.sig": keys.pair.sign(files["pack.json"])}

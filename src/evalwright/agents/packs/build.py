"""From a folder to a pack: the same files give the same bytes, on any machine."""

import os
import struct
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from evalwright.agents.packs.archive import BLOCK, MAX_FILE
from evalwright.agents.packs.pack import Pack, open_pack
from evalwright.agents.packs.signature import load_private_key
from evalwright.contracts.documents import open_input, read_input
from evalwright.contracts.errors import BadInput, InvalidDocument, Problem
from evalwright.contracts.messages import phrase
from evalwright.contracts.pack import (
    PACK_FILE,
    SIGNATURE_FILE,
    Signing,
    parse_pack_manifest,
)

FOLDERS = ("evals", "prompts", "schemas")
TEXTS = ("README", "README.md", "LICENSE", "LICENSE.md", "LICENSE.txt")
_SNIPPET = (
    '"signing": {"method": "manual", "publicKeyRef": "NAME-OF-YOUR-KEY", '
    f'"signatureRef": "{SIGNATURE_FILE}"}}'
)
_GZIP_HEADER = bytes([0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 0xFF])  # no name, no time, no system
_STORED = 0xFFFF  # the most that a deflate block holds as it is


def build_pack(folder: Path, private_key: Path | None = None) -> Pack:
    """Pack a folder, signed if there is a key; what comes out has been opened and checked."""
    files = dict(_files_of(folder))
    if PACK_FILE not in files:
        raise BadInput(f"{folder}: no {PACK_FILE} in this folder (it describes the pack)")
    manifest = parse_pack_manifest(files[PACK_FILE], str(folder / PACK_FILE))
    if manifest.nodes:
        message = "nodes are programs, and only agents are packed here"
        problem = Problem("$.nodes", message, "keep them in a separate pack")
        raise InvalidDocument(str(folder / PACK_FILE), [problem])
    if private_key is not None:
        # Sign `pack.json` as it is: it has to say itself that it is signed, and with which key.
        signing = manifest.signing
        expected = Signing(public_key_ref=signing.public_key_ref if signing else None)
        if signing is None or signing != expected or signing.public_key_ref is None:
            problem = Problem("$.signing", "a pack that is signed says how", f"write {_SNIPPET}")
            raise InvalidDocument(str(folder / PACK_FILE), [problem])
        files[SIGNATURE_FILE] = load_private_key(read_input(private_key), str(private_key)).sign(
            files[PACK_FILE]
        )
    elif manifest.signing is not None and manifest.signing.signature_ref not in files:
        message = "pack.json says that the pack is signed, but there is no signature"
        remedy = phrase("name the private key with {@key}, or remove it")
        raise InvalidDocument(str(folder / PACK_FILE), [Problem("$.signing", message, remedy)])
    blocks = bytearray()
    for name in sorted(files):
        entry = tarfile.TarInfo(name)
        entry.size = len(files[name])
        try:
            blocks += entry.tobuf(tarfile.USTAR_FORMAT, "utf-8", "strict") + files[name]
        except ValueError as error:
            raise BadInput(f"{name!r}: the name cannot be packed: {error} (shorten it)") from None
        blocks += bytes(-len(blocks) % BLOCK)
    return open_pack(_gzip(bytes(blocks + bytes(2 * BLOCK))), str(folder))


def _files_of(folder: Path) -> Iterator[tuple[str, bytes]]:
    if not folder.is_dir():
        raise BadInput(f"{folder}: it is not a folder (name the one that holds {PACK_FILE})")
    for name in (PACK_FILE, SIGNATURE_FILE, *TEXTS):
        if os.path.lexists(folder / name):
            yield name, _content(folder / name)
    for name in FOLDERS:
        for path in _walk(folder / name):
            yield path.relative_to(folder).as_posix(), _content(path)


def _walk(folder: Path) -> Iterator[Path]:
    """The files below a folder; hidden ones are left out."""
    if not os.path.lexists(folder):
        return
    if folder.is_symlink() or not folder.is_dir():
        raise BadInput(f"{folder}: it is not a folder (links are not followed)")
    for path in folder.iterdir():
        if path.name.startswith("."):
            continue
        if path.is_dir() and not path.is_symlink():
            yield from _walk(path)
        else:
            yield path


def _content(path: Path) -> bytes:
    if path.is_symlink() or not path.is_file():
        raise BadInput(f"{path}: it is not a plain file (put a copy there; links are not followed)")
    try:
        with open_input(path) as file:
            content = file.read(MAX_FILE + 1)
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}") from None
    if len(content) > MAX_FILE:
        raise BadInput(f"{path}: the file is longer than {MAX_FILE} bytes")
    return content


def _gzip(content: bytes) -> bytes:
    """A gzip file that stores its content as it is: what zlib makes differs between machines."""
    packed = bytearray(_GZIP_HEADER)
    for start in range(0, len(content), _STORED):
        chunk = content[start : start + _STORED]
        is_last = start + _STORED >= len(content)
        packed += struct.pack("<BHH", is_last, len(chunk), len(chunk) ^ _STORED) + chunk
    return bytes(packed + struct.pack("<II", zlib.crc32(content), len(content)))

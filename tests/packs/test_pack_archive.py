"""Archives from anywhere: what is read from them, and what is refused, with the place and rule."""

import gzip
import random
import struct
import tarfile
import tracemalloc
import zlib
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from packing import a_tar, an_archive, pack_files

from evalwright.agents.packs.archive import (
    MAX_ARCHIVE,
    MAX_ENTRIES,
    MAX_FILE,
    MAX_UNPACKED,
    read_archive,
)
from evalwright.agents.packs.pack import open_pack
from evalwright.contracts.pack import InvalidPack


def refused(archive: bytes) -> str:
    with pytest.raises(InvalidPack) as raised:
        read_archive(archive, "shop.tgz")
    assert (raised.value.exit_code, raised.value.code) == (2, "validation_error")
    told = str(raised.value)
    assert told.startswith("shop.tgz: ")
    return told


def link(name: str, kind: bytes, target: str = "pack.json") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def header(name: bytes, change: Callable[[bytearray], None] = lambda _: None) -> bytes:
    """A ustar header for an empty file, changed and then given its check sum."""
    block = bytearray(512)
    block[: len(name)] = name
    block[100:108] = b"0000644\0"
    block[124:136] = b"00000000000\0"
    block[156:157] = b"0"
    block[257:265] = b"ustar\x0000"
    change(block)
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def archive_of(*blocks: bytes) -> bytes:
    return gzip.compress(b"".join(blocks) + bytes(1024), mtime=0)


def extension(*records: tuple[bytes, bytes], kind: bytes = b"x") -> bytes:
    """An extension header that says these things of the entry after it."""
    content = b""
    for key, value in records:
        rest = b" " + key + b"=" + value + b"\n"
        length = len(rest) + 1
        length = len(rest) + len(str(length + 1))
        content += str(length).encode() + rest

    def as_extension(block: bytearray) -> None:
        block[124:136] = b"%011o\0" % len(content)
        block[156:157] = kind

    return header(b"PaxHeader", as_extension) + content + bytes(-len(content) % 512)


# What is read.


def test_the_files_of_an_archive_are_read_by_name() -> None:
    assert read_archive(an_archive(pack_files()), "shop.tgz") == pack_files()


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_archives_of_the_usual_tools_are_read(form: int) -> None:
    entries = [(f"./{name}", content) for name, content in pack_files().items()]
    folders = [link(name, tarfile.DIRTYPE, "") for name in (".", "./prompts", "./prompts")]
    archive = gzip.compress(a_tar([*folders, *entries], form))
    assert read_archive(archive, "shop.tgz") == pack_files()


def test_a_long_name_of_the_ustar_format_is_read() -> None:
    name = f"{'a' * 120}/{'b' * 90}"
    assert read_archive(an_archive({name: b"x"}), "shop.tgz") == {name: b"x"}


@pytest.mark.parametrize("key", [b"mtime", b"LIBARCHIVE.creationtime", b"SCHILY.xattr.user.a"])
@pytest.mark.parametrize("kind", [b"x", b"g"])
def test_an_extension_that_changes_no_name_size_or_kind_is_passed_over(
    key: bytes, kind: bytes
) -> None:
    archive = archive_of(extension((key, b"1"), kind=kind), header(b"a.txt"))
    assert read_archive(archive, "shop.tgz") == {"a.txt": b""}


# Names.


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("../secret", "`..` leads out"),
        ("prompts/../../secret", "`..` leads out"),
        ("/etc/passwd", "absolute path"),
        ("C:/secret", "absolute path"),
        ("prompts\\secret", "separate parts with /"),
        ("prompts//a", "empty or `.`"),
        ("prompts/./a", "empty or `.`"),
        ("././a", "empty or `.`"),
        ("prompts/a\u202egpj.md", "invisible character"),
        ("prompts/a\nb", "invisible character"),
        ("prompts/e\u0301.md", "NFC"),
    ],
)
def test_a_name_that_is_not_plain_is_refused(name: str, rule: str) -> None:
    told = refused(an_archive([("pack.json", b"{}"), (name, b"x")]))
    assert rule in told
    assert "entry 2 " in told


def test_a_name_that_is_not_utf8_is_refused() -> None:
    assert "not UTF-8" in refused(archive_of(header(b"a\xff.md")))


def test_an_empty_name_is_refused() -> None:
    assert "empty" in refused(archive_of(header(b"")))


@pytest.mark.parametrize(
    ("names", "rule"),
    [
        (["pack.json", "pack.json"], "duplicate name"),
        (["pack.json", "./pack.json"], "duplicate name"),
        (["pack.json", "Pack.json"], "only by case"),
        (["prompts/a", "Prompts/b"], "only by case"),
        (["stra\xdfe", "strasse"], "only by case"),
        (["prompts", "prompts/a"], "a file and a folder"),
        (["prompts/a", "prompts"], "a file and a folder"),
    ],
)
def test_two_entries_that_mean_the_same_file_are_refused(names: list[str], rule: str) -> None:
    told = refused(an_archive([(name, b"x") for name in names]))
    assert rule in told
    assert "entry 2 " in told


# Kinds.


@pytest.mark.parametrize(
    ("kind", "rule"),
    [
        (tarfile.LNKTYPE, "a hard link"),
        (tarfile.SYMTYPE, "a symbolic link"),
        (tarfile.CHRTYPE, "a device"),
        (tarfile.BLKTYPE, "a device"),
        (tarfile.FIFOTYPE, "a pipe"),
        (tarfile.CONTTYPE, "of the kind '7'"),
        (tarfile.GNUTYPE_SPARSE, "a file with holes"),
    ],
)
def test_an_entry_that_is_no_plain_file_or_folder_is_refused(kind: bytes, rule: str) -> None:
    told = refused(archive_of(header(b"prompts/a", lambda block: put(block, 156, kind))))
    assert f"entry 1 'prompts/a': it is {rule}" in told


def put(block: bytearray, at: int, content: bytes) -> None:
    block[at : at + len(content)] = content


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_a_name_that_an_extension_gives_is_refused(form: int) -> None:
    name = "a/" * 150 + "b"
    assert "pack" in refused(gzip.compress(a_tar([(name, b"x")], form)))


@pytest.mark.parametrize(
    "key", [b"path", b"linkpath", b"size", b"hdrcharset", b"GNU.sparse.name", b"SCHILY.realsize"]
)
@pytest.mark.parametrize("kind", [b"x", b"g"])
def test_an_extension_that_gives_an_entry_another_meaning_is_refused(
    key: bytes, kind: bytes
) -> None:
    tricky = extension((b"mtime", b"1"), (key, b"../x"), kind=kind)
    assert f"it changes {key.decode()!r}" in refused(archive_of(tricky, header(b"a.txt")))


@pytest.mark.parametrize("content", [b"9", b"99 mtime=1\n", b"-1 mtime=1\n", b"10 mtime 1\n"])
def test_an_extension_that_is_damaged_is_refused(content: bytes) -> None:
    def as_extension(block: bytearray) -> None:
        put(block, 124, b"%011o\0" % len(content))
        put(block, 156, b"x")

    block = header(b"PaxHeader", as_extension) + content + bytes(512 - len(content))
    assert "damaged extension" in refused(archive_of(block))


def test_a_folder_with_content_is_refused() -> None:
    def as_folder(block: bytearray) -> None:
        put(block, 124, b"00000000001\0")
        put(block, 156, b"5")

    assert "folder with content" in refused(archive_of(header(b"prompts/", as_folder), bytes(512)))


# Headers.


def test_a_header_with_a_wrong_check_sum_is_refused() -> None:
    block = bytearray(header(b"a.txt"))
    block[0:1] = b"b"
    assert "checksum" in refused(archive_of(bytes(block)))


@pytest.mark.parametrize(("at", "content"), [(257, b"\0" * 8), (124, b"\x80" + bytes(11))])
def test_a_header_of_another_format_is_refused(at: int, content: bytes) -> None:
    told = refused(archive_of(header(b"a.txt", lambda block: put(block, at, content))))
    assert "ustar" in told


def test_a_gnu_header_with_a_prefix_is_refused_because_readers_differ_about_it() -> None:
    def with_prefix(block: bytearray) -> None:
        put(block, 257, b"ustar  \0")
        put(block, 345, b"..")

    assert "ustar" in refused(archive_of(header(b"a.txt", with_prefix)))


# Ends.


def test_what_is_no_gzip_file_is_refused() -> None:
    assert "not a gzip file" in refused(a_tar([("pack.json", b"{}")]))
    assert "ends too soon" in refused(b"")


@pytest.mark.parametrize("kept", [0.3, 0.6, 0.99])
def test_an_archive_that_is_cut_off_is_refused(kept: float) -> None:
    archive = an_archive(pack_files())
    assert "ends too soon" in refused(archive[: int(len(archive) * kept)])


def test_a_tar_file_that_is_cut_off_is_refused() -> None:
    tar = a_tar([("pack.json", b"x" * 600)])
    assert "within a header" in refused(gzip.compress(tar[:300]))
    assert "ends before that" in refused(gzip.compress(tar[:1000]))
    assert "no end mark" in refused(gzip.compress(tar[:1536]))
    assert "no end mark" in refused(gzip.compress(b""))


@pytest.mark.parametrize("more", [b"x", b"\0", gzip.compress(b"another member", mtime=0)])
def test_what_follows_the_gzip_file_is_refused(more: bytes) -> None:
    assert "follow the end of the gzip file" in refused(an_archive(pack_files()) + more)


def test_what_follows_the_end_mark_is_refused() -> None:
    tar = a_tar([("pack.json", b"{}")])
    assert "after the end mark" in refused(gzip.compress(tar + header(b"hidden")))


def test_a_damaged_gzip_file_is_refused() -> None:
    archive = bytearray(an_archive(pack_files()))
    archive[-5] ^= 1
    assert "damaged" in refused(bytes(archive))


# Bounds.


def test_a_bomb_is_refused_before_it_unfolds() -> None:
    bomb = gzip.compress(bytes(64 * 1024 * 1024))
    assert "200 times its size" in refused(bomb)
    padding = random.Random(7).randbytes(200_000)
    assert f"more than {MAX_UNPACKED} bytes" in refused(gzip.compress(padding + bytes(64 << 20)))


def test_the_memory_that_a_bomb_takes_is_bounded() -> None:
    bomb = gzip.compress(bytes(128 * 1024 * 1024))
    tracemalloc.start()
    try:
        refused(bomb)
        assert tracemalloc.get_traced_memory()[1] < 3 * MAX_UNPACKED
    finally:
        tracemalloc.stop()


def test_an_archive_that_is_too_large_is_refused_unopened() -> None:
    assert "larger than" in refused(b"\x1f\x8b" + bytes(MAX_ARCHIVE))


def test_a_file_that_is_too_long_is_refused() -> None:
    noise = random.Random(7).randbytes(MAX_FILE + 1)
    assert f"at most {MAX_FILE} are allowed" in refused(an_archive({"evals/a.json": noise}))


def test_a_file_that_claims_to_be_long_is_refused_without_being_read() -> None:
    huge = header(b"a.txt", lambda block: put(block, 124, b"77777777777\0"))
    assert f"at most {MAX_FILE} are allowed" in refused(archive_of(huge))


def test_too_many_entries_are_refused() -> None:
    names = [(f"prompts/{number}.md", b"") for number in range(MAX_ENTRIES + 1)]
    assert f"more than {MAX_ENTRIES} entries" in refused(an_archive(names))
    assert len(read_archive(an_archive(names[:-1]), "shop.tgz")) == MAX_ENTRIES


# Whatever comes.

SOUND = an_archive(pack_files())
SOUND_TAR = a_tar(pack_files().items())


def opens_or_is_refused(archive: bytes) -> None:
    try:
        told = open_pack(archive, "shop.tgz").name
    except InvalidPack as error:
        told = str(error)
    assert told.startswith(("shop.tgz: ", "vendor."))


@settings(max_examples=300)
@given(st.binary(max_size=2000))
def test_noise_is_refused(noise: bytes) -> None:
    opens_or_is_refused(noise)
    opens_or_is_refused(gzip.compress(noise, 0, mtime=0))


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_an_archive_with_changed_bytes_opens_or_is_refused(data: st.DataObject) -> None:
    archive = bytearray(SOUND)
    for _ in range(data.draw(st.integers(1, 4))):
        archive[data.draw(st.integers(0, len(archive) - 1))] = data.draw(st.integers(0, 255))
    opens_or_is_refused(bytes(archive))


@settings(max_examples=600, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_tar_file_with_changed_headers_opens_or_is_refused(data: st.DataObject) -> None:
    """Check sums are put right again, so that the change itself has to be borne."""
    tar = bytearray(SOUND_TAR)
    blocks = [at for at in range(0, len(tar), 512) if tar[at + 257 : at + 262] == b"ustar"]
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.sampled_from(blocks))
        field = data.draw(
            st.sampled_from([(0, 100), (124, 136), (156, 157), (257, 265), (345, 500)])
        )
        new = data.draw(st.binary(max_size=field[1] - field[0]))
        tar[at + field[0] : at + field[0] + len(new)] = new
        tar[at + 148 : at + 156] = b" " * 8
        tar[at + 148 : at + 156] = b"%06o\0 " % sum(tar[at : at + 512])
    opens_or_is_refused(stored(bytes(tar)))


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(sorted(pack_files())), st.binary(max_size=200), st.integers(0, 500))
def test_a_pack_with_changed_files_opens_or_is_refused(name: str, content: bytes, cut: int) -> None:
    files = pack_files()
    files[name] = files[name][:cut] + content
    opens_or_is_refused(stored(a_tar(files.items())))


@given(st.dictionaries(st.text("ab./é", min_size=1, max_size=12), st.binary(max_size=20)))
def test_what_is_read_is_what_was_packed_under_plain_names(files: dict[str, bytes]) -> None:
    try:
        found = read_archive(stored(a_tar(files.items())), "shop.tgz")
    except InvalidPack:
        return
    assert sorted(found.values()) == sorted(files.values())
    for name in found:
        assert not name.startswith("/")
        assert not {"", ".", ".."} & set(name.split("/"))


def stored(tar: bytes) -> bytes:
    """A gzip file that costs no time to make."""
    packed = zlib.compressobj(1, zlib.DEFLATED, -15)
    body = packed.compress(tar) + packed.flush()
    ending = struct.pack("<II", zlib.crc32(tar), len(tar))
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + body + ending

"""A run directory, only ever read: its metadata, and which file answers which case."""

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path

import msgspec

from evalwright.contracts.errors import BadInput
from evalwright.trace.model import Json

RUN_META = "run.json"
IMPORT_FAULT = "evalwright_import_fault"  # stands in a response that could not be imported
MOST_BYTES = 512 << 20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Unreadable(msgspec.Struct, frozen=True):
    """Why a response cannot be used; `data` is what there was."""

    reason: str
    data: bytes = b""


class RunFolder:
    """The responses of one side. A file answers the case it is named after, or the one it names."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._names = _json_files(root)
        self.meta, self.meta_fault = _read_meta(root)
        self._selected = self._selected_without_answer(self.meta.pop("selected_case_ids", None))
        self._without_file: set[str] = set()
        self._named: dict[str, list[str]] = {}
        self._by_base: dict[str, list[str]] = {}
        self._bases: dict[str, str] = {}

    @property
    def is_empty(self) -> bool:
        """Whether no file of the folder can be a response; a case file is none."""
        return not self._names - {"cases.json"}

    @property
    def has_meta(self) -> bool:
        """Whether there is a run.json, readable or not."""
        return os.path.lexists(self.root / RUN_META)

    def claim(self, case_ids: Iterable[str]) -> list[str]:
        """Find out which cases the other files answer; the ids that no case of the list has."""
        known = set(case_ids)
        unknown = {case_id: None for case_id in self._named if case_id not in known}
        assigned = {name for names in self._named.values() for name in names}
        strays = (name for name in self._names if name.removesuffix(".json") not in known)
        for name in sorted(name for name in strays if name not in assigned):
            case_id = self._case_named_in(name)
            self._named.setdefault(case_id, []).append(name)
            if case_id not in known:
                unknown[case_id] = None
        self._without_file = {each for each in known if f"{each}.json" not in self._names}
        self._names.clear()  # what is left of them stands in the ids
        return list(unknown)

    def assign(self, case_id: str, base_case_id: str | None, name: str) -> None:
        """Say which case a file answers, and by which key it is found as a baseline."""
        self._named.setdefault(case_id, []).append(name)
        self._by_base.setdefault(base_case_id or case_id, []).append(name)
        if base_case_id is not None:
            self._bases[case_id] = base_case_id

    def base_of(self, case_id: str) -> str:
        """The key by which the baseline of a case is found: its own id unless it says another."""
        return self._bases.get(case_id, case_id)

    def files_of_base(self, base_case_id: str) -> list[str]:
        """The files that answer any case with this key."""
        return self._by_base.get(base_case_id, [])

    def files(self, case_id: str, *, claimed: bool) -> list[str]:
        """The names of the files that answer a case; more than one when it was repeated.

        `claimed` says that the id was among those of `claim`.
        """
        named = self._named.get(case_id, [])
        if not claimed or case_id in self._without_file:
            return named
        return [f"{case_id}.json", *named]

    @property
    def selected(self) -> list[str] | None:
        """Of the cases that the run set out to answer, where it says so, those without a file.

        The others show by their files; a list of all of them would be kept for nothing.
        """
        return self._selected

    def _selected_without_answer(self, ids: Json) -> list[str] | None:
        if not isinstance(ids, list):
            return None
        named = (each for each in ids if isinstance(each, str))
        return [each for each in named if f"{each}.json" not in self._names]

    def _case_named_in(self, name: str) -> str:
        # A name that is no UTF-8 reaches us with half characters, which no JSON can hold.
        stem = os.fsencode(name.removesuffix(".json")).decode("utf-8", "replace")
        record = read_response(self.root, name)
        value = record.get("case_id") if isinstance(record, dict) else None
        return value if isinstance(value, str) and value else stem


def read_response(root: Path, name: str) -> Json | Unreadable:
    """The response in a file, or why it cannot be had."""
    data = read_inside(root, name)
    if isinstance(data, Unreadable):
        return data
    return parse_response(data)


def parse_response(data: bytes) -> Json | Unreadable:
    """A response object from its bytes."""
    try:
        value = msgspec.json.decode(data.removeprefix(BYTE_ORDER_MARK))
    except RecursionError:
        return Unreadable("it is nested too deeply", data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return Unreadable(f"it is not valid JSON: {error}", data)
    if not isinstance(value, dict):
        return Unreadable("it is not a JSON object", data)
    return value


def read_inside(root: Path, name: str) -> bytes | Unreadable:
    """The bytes of a file of the folder; a link that leads out of the folder is not followed."""
    path = f"{root}/{name}"
    try:
        return _read_regular(path, os.O_NOFOLLOW)
    except OSError as error:
        if error.errno != errno.ELOOP:
            return Unreadable(f"it cannot be read: {error.strerror}")
    except ValueError as error:
        return Unreadable(f"it cannot be read: {error}")
    try:
        if not Path(path).resolve().is_relative_to(root.resolve()):
            return Unreadable("it is a link that leads out of the run directory")
        return _read_regular(path, 0)
    except (OSError, RuntimeError):
        return Unreadable("it is a link that leads nowhere")


def _read_regular(path: str, flags: int) -> bytes | Unreadable:
    # Without O_NONBLOCK a pipe would wait for its writer.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | flags)
    try:
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode):
            return Unreadable("it is not a regular file")
        if facts.st_size > MOST_BYTES:
            return Unreadable(f"it is larger than {MOST_BYTES >> 20} MiB")
        return _read_all(handle, facts.st_size)
    finally:
        os.close(handle)


def _read_all(handle: int, size: int) -> bytes:
    data = os.read(handle, size + 1)
    if len(data) == size:  # as it almost always is
        return data
    parts = [data]
    while parts[-1]:
        parts.append(os.read(handle, 1 << 20))
    return b"".join(parts)


def _json_files(root: Path) -> set[str]:
    try:
        with os.scandir(root) as entries:
            return {
                entry.name
                for entry in entries
                # Links, pipes and folders too: they answer nothing, and that has to be said.
                if entry.name.endswith(".json") and entry.name != RUN_META
            }
    except OSError as error:
        message = f"{root}: the run directory cannot be read: {error.strerror}"
        raise BadInput(message) from None


def _read_meta(root: Path) -> tuple[dict[str, Json], str | None]:
    if not (root / RUN_META).exists():
        return {}, f"{RUN_META} is missing"
    value = read_response(root, RUN_META)
    if isinstance(value, Unreadable):
        return {}, f"{RUN_META} is not used: {value.reason}"
    return value, None

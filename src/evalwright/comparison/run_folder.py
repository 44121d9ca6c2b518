"""A run directory, only ever read: its metadata, and which file answers which case."""

import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from evalwright.contracts.errors import BadInput
from evalwright.contracts.jsonvalue import too_heavy
from evalwright.trace.cached import cached
from evalwright.trace.model import Json

if TYPE_CHECKING:
    from evalwright.contracts.suite import Suite

RUN_META = "run.json"
SUFFIX = ".json"
IMPORT_FAULT = "evalwright_import_fault"  # the field of a response that could not be imported
MOST_BYTES = 512 << 20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_CAPTURES = "_runner_failures"
_SELECTED = "selected_case_ids"
_PLAIN_TEXT = re.compile(r'"([^"\\\x00-\x1f]*+)"')
_PLAIN_LIST = re.compile(rf"\[(?:[\s,]*+{_PLAIN_TEXT.pattern})*+\s*+\]")


class Unreadable(msgspec.Struct, frozen=True):
    """Why a response cannot be used; `data` is what there was."""

    reason: str
    data: bytes = b""


class FoundResponse(NamedTuple):
    """A response, and the bytes that a report copies; there are none where it cannot be read."""

    value: Json | Unreadable
    data: bytes | None


class ListedResponse(msgspec.Struct, frozen=True, array_like=True):
    """Which case a response answers, and by which key it is found as a baseline."""

    case_id: str
    base_case_id: str | None
    name: str


class PairedResponse(ListedResponse, frozen=True, array_like=True):
    """A response of a run that was paired; how, if that was not by a case id."""

    paired_by: str | None = None


class Unnamed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A response that no case id names: what its id is made of, and a digest of what was asked.

    `place` is its line in the listing.
    """

    place: int
    case_id: str
    named_by: str
    asked: str | None


class ComparedRun(Protocol):
    """One side of a comparison: a run directory, a file of traces, or a run of the event log."""

    @property
    def suite(self) -> "Suite | None":
        """The suite of an own run, whose responses bring its verdicts; else None."""

    @property
    def root(self) -> Path | None:
        """The directory that the run is in, where it is in one; nothing is written to it."""

    @property
    def meta(self) -> dict[str, Json]:
        """What the run says about itself, without the cases it selected."""

    @property
    def meta_fault(self) -> str | None:
        """Why the metadata cannot be used."""

    def meta_bytes(self) -> bytes | None:
        """The metadata as a report copies it; None where there is none."""

    def stems(self) -> Iterator[str]:
        """Names of responses, without their suffix, that may be case ids; in any order."""

    def listed(self) -> Iterator[ListedResponse]:
        """Responses of which it is known beforehand which case they answer."""

    def selected(self) -> Iterator[str] | None:
        """The cases that the run set out to answer, where it says so."""

    def case_named_in(self, name: str) -> str:
        """The case that a response says it answers; else its name without the suffix."""

    def read(self, name: str) -> FoundResponse:
        """One response by its name."""

    def captured(self, reference: str) -> bytes | Unreadable:
        """A captured body that a response refers to."""


class RunFolder:
    """The responses in a directory. A file answers the case it is named after, or the one it names.

    In a folder written by `materialize`, `listing` is the file that says what each response
    answers. Captured bodies may be in the folders above, up to `top`, and in the
    `_runner_failures` of those in `above`.
    """

    suite = None

    def __init__(self, root: Path, listing: Path | None = None) -> None:
        self.root = root
        self.top = root.parent
        self.above: tuple[Path, ...] = ()
        self.notes: tuple[str, ...] = ()
        self.unnamed: Path | None = None  # the file of those in the listing that no case id names
        self.paired: Path | None = None  # the listing once they were paired
        self._listing = listing
        self.is_empty = all(stem == "cases" for stem in self.stems())  # case files do not count
        self.meta, self.meta_fault, _ = _read_meta(root)

    @property
    def has_meta(self) -> bool:
        """Whether there is a run.json, readable or not."""
        return os.path.lexists(self.root / RUN_META)

    def meta_bytes(self) -> bytes | None:
        data = read_inside(self.root, RUN_META)
        return data if isinstance(data, bytes) else None

    def stems(self) -> Iterator[str]:
        if self._listing is not None:
            return
        try:
            with os.scandir(self.root) as entries:
                for entry in entries:
                    # Links, pipes and folders too: they answer nothing, and that has to be said.
                    if entry.name.endswith(SUFFIX) and entry.name != RUN_META:
                        yield entry.name.removesuffix(SUFFIX)
        except OSError as error:
            message = f"{self.root}: the run directory cannot be read: {error.strerror}"
            raise BadInput(message) from None

    def listed(self) -> Iterator[ListedResponse]:
        listing = self.paired or self._listing
        if listing is not None:
            decoder = msgspec.json.Decoder(PairedResponse if self.paired else ListedResponse)
            with listing.open("rb") as lines:
                yield from map(decoder.decode, lines)

    def selected(self) -> Iterator[str] | None:
        ids = _read_meta(self.root).selected
        return None if ids is None else (each for each in ids if isinstance(each, str))

    def case_named_in(self, name: str) -> str:
        # A name that is not UTF-8 reaches us with lone surrogates, which JSON cannot hold.
        stem = os.fsencode(name.removesuffix(SUFFIX)).decode("utf-8", "replace")
        record = self.read(name).value
        value = record.get("case_id") if isinstance(record, dict) else None
        return value if isinstance(value, str) and value else stem

    def read(self, name: str) -> FoundResponse:
        data = read_inside(self.root, name)
        if isinstance(data, Unreadable):
            return FoundResponse(data, None)
        value = parse_response(data)
        # What is too large to be decoded is too large to be masked and copied as well.
        is_refused = isinstance(value, Unreadable) and not value.data
        return FoundResponse(value, None if is_refused else data)

    def captured(self, reference: str) -> bytes | Unreadable:
        """The bytes of a captured file that a response names, or why they cannot be had.

        Names are relative to the run directory, then to its parents up to `top`; a name that leads
        nowhere was written on another machine or from another folder, and what follows
        `_runner_failures` in it is looked for in the folders of that name. Only files in the run
        directory or in a `_runner_failures` folder are read: a response must not be able to put
        any other file into a report that is passed on.
        """
        if "\0" in reference:
            return Unreadable("its name contains a NUL character")
        found = self._captured_where_it_says(reference)
        if isinstance(found, bytes):
            return found
        beside = self._captured_beside(reference)
        return found if beside is None else beside

    def _captured_where_it_says(self, reference: str) -> bytes | Unreadable:
        top = self._searched[-1]
        for folder in self._searched:
            path = _file_at(folder / reference)
            if path is None:
                continue
            above = path.is_relative_to(top) and _CAPTURES in path.relative_to(top).parts[:-1]
            if above or path.is_relative_to(self._searched[0]):
                return read_inside(path.parent, path.name)
            return Unreadable("it is outside the run directory and its captures")
        return Unreadable("it was not found")

    def _captured_beside(self, reference: str) -> bytes | Unreadable | None:
        parts = reference.replace("\\", "/").split("/")
        if _CAPTURES in parts:
            parts = parts[len(parts) - parts[::-1].index(_CAPTURES) :]
        if not parts or not parts[0] or ".." in parts:
            return None
        for folder in (self.root.resolve(), *self.above):
            captures = folder / _CAPTURES
            path = _file_at(captures.joinpath(*parts))
            if path is not None and path.is_relative_to(captures):  # so no link leads out of it
                return read_inside(path.parent, path.name)
        return None

    @cached
    def _searched(self) -> list[Path]:
        """The run directory, then those above it; resolved once, as that costs many calls."""
        run, top = self.root.resolve(), self.top.resolve()
        return [run, *(parent for parent in run.parents if parent.is_relative_to(top))]


def _file_at(path: Path) -> Path | None:
    """The file that a path leads to, with all links followed; None where there is none."""
    try:
        found = path.resolve()
        return found if found.is_file() else None
    except (OSError, RuntimeError, ValueError):
        return None


def parse_response(data: bytes) -> Json | Unreadable:
    """A response object from its bytes."""
    heavy = too_heavy(data)
    return _parse_object(data) if heavy is None else Unreadable(heavy)


def _parse_object(data: bytes) -> Json | Unreadable:
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
        data = os.read(handle, facts.st_size + 1)
        if len(data) == facts.st_size:  # as it almost always is
            return data
        parts = [data]
        while parts[-1]:
            parts.append(os.read(handle, 1 << 20))
        return b"".join(parts)
    finally:
        os.close(handle)


class _Meta(NamedTuple):
    """What run.json says. The cases that a run set out to answer are many: they are kept apart."""

    fields: dict[str, Json]
    fault: str | None = None
    selected: Iterable[Json] | None = None


def _read_meta(root: Path) -> _Meta:
    if not (root / RUN_META).exists():
        return _Meta({}, f"{RUN_META} is missing")
    data = read_inside(root, RUN_META)
    return _plain_meta(data) or _any_meta(data) if isinstance(data, bytes) else _any_meta(data)


def _any_meta(data: bytes | Unreadable) -> _Meta:
    value = _parse_object(data) if isinstance(data, bytes) else data
    if isinstance(value, Unreadable):
        return _Meta({}, f"{RUN_META} is not used: {value.reason}")
    selected = value.pop(_SELECTED, None)
    return _Meta(value, None, selected if isinstance(selected, list) else None)


def _plain_meta(data: bytes) -> _Meta | None:
    """The same, without a list of all that was selected, if it holds nothing but plain texts."""
    try:
        raw = msgspec.json.decode(data.removeprefix(BYTE_ORDER_MARK), type=dict[str, msgspec.Raw])
        listed = str(raw.pop(_SELECTED), "utf-8")
        fields = {name: msgspec.json.decode(value) for name, value in raw.items()}
    except (KeyError, msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
    if not _PLAIN_LIST.fullmatch(listed):
        return None
    return _Meta(fields, None, (found[1] for found in _PLAIN_TEXT.finditer(listed)))

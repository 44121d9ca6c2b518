"""The images, sounds and files that inputs of a suite name: read once, kept by their hash."""

import base64
import binascii
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalwright.contracts.attachments import (
    MOST_BYTES,
    MOST_IN_SUITE,
    Attached,
    AttachmentKind,
    content_type,
    replaced,
)
from evalwright.contracts.documents import read_input
from evalwright.contracts.errors import BadInput

if TYPE_CHECKING:
    from evalwright.engine.suites.tasks import Problems

_KNOWN = {"image": "PNG, JPEG, GIF or WebP", "audio": "WAV, MP3, Ogg or FLAC"}
_INLINE = {"data", "name"}
_WITH_DATA = "write {data: BASE64, name: photo.png}"


class _Unfit(Exception):
    def __init__(self, message: str, remedy: str) -> None:
        self.message = message
        self.remedy = remedy
        super().__init__(message)


class Attachments:
    """Reads attachments, and keeps them for the suite."""

    def __init__(self, folder: Path, problems: "Problems", *, allow_files: bool) -> None:
        self.kept: dict[str, Attached] = {}
        self._folder = folder.resolve()
        self._problems = problems
        self._allow_files = allow_files
        self._size = 0
        self._known: dict[tuple[str, str], dict[str, Any]] = {}  # by kind and path

    def taken(self, given: Any, place: str) -> Any:
        """An input with what refers to its attachments in their place."""
        if not isinstance(given, list | dict):
            return given

        def reference(kind: AttachmentKind, value: Any, where: str) -> Any:
            try:
                return self._reference(kind, value)
            except _Unfit as unfit:
                self._problems.add(where, unfit.message, unfit.remedy)
                return value

        return replaced(given, reference, place)

    def _reference(self, kind: AttachmentKind, value: Any) -> dict[str, Any]:
        if isinstance(value, str):
            if (kind, value) not in self._known:
                self._known[kind, value] = self._kept(kind, value, self._read(value))
            return self._known[kind, value]
        if not isinstance(value, dict) or not {"data"} <= value.keys() <= _INLINE:
            raise _Unfit(f"it is no {kind}", f"name its file, or {_WITH_DATA}")
        name = value.get("name", kind)
        try:
            content = base64.b64decode(value["data"], validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise _Unfit("its data are not base64", _WITH_DATA) from None
        return self._kept(kind, name if isinstance(name, str) else kind, content)

    def _read(self, name: str) -> bytes:
        if not self._allow_files:
            raise _Unfit("files are not read here", _WITH_DATA)
        path = (self._folder / name).resolve()
        if not path.is_relative_to(self._folder):
            raise _Unfit(f"{name}: it is outside of the suite's folder", "copy it into the folder")
        try:
            return read_input(path, MOST_BYTES)
        except BadInput as error:
            what = str(error).removeprefix(f"{path}: ")
            remedy = "it is looked for from the suite's folder"
            if "larger than" in what:
                raise _Unfit(f"{name}: {what.partition(',')[0]}", "make it smaller") from None
            raise _Unfit(f"{name}: {what}", remedy) from None

    def _kept(self, kind: AttachmentKind, name: str, content: bytes) -> dict[str, Any]:
        if len(content) > MOST_BYTES:
            raise _Unfit(f"{name}: larger than {MOST_BYTES >> 20} MiB", "make it smaller")
        found = content_type(kind, content)
        if found is None:
            remedy = f"convert it to {_KNOWN[kind]}, or write `file:`"
            raise _Unfit(f"{name}: it is no {kind} that is known by its first bytes", remedy)
        digest = sha256(content).hexdigest()
        if digest not in self.kept:
            self._size += len(content)
            if self._size > MOST_IN_SUITE:
                message = f"the files of a suite have at most {MOST_IN_SUITE >> 20} MiB together"
                raise _Unfit(f"{name}: {message}", "make them smaller, or split the suite")
            self.kept[digest] = Attached(found, base64.b64encode(content).decode())
        shown = Path(name).name
        return {"name": shown, "type": found, "bytes": len(content), "sha256": digest}


def inlined(given: Any, kept: dict[str, Attached]) -> Any:
    """An input with the data of its attachments, as suites hold them that are sent elsewhere."""

    def data_of(_kind: AttachmentKind, value: Any, _place: str) -> Any:
        found = kept.get(value["sha256"]) if isinstance(value, dict) else None
        return value if found is None else {"name": value["name"], "data": found.data}

    return replaced(given, data_of)

"""Names of entries in an archive: those that mean one file, and the same one, on every machine."""

import unicodedata

from evalwright.contracts.manifest import problem_of_ref

MAX_NAME = 255


class Refused(Exception):
    """A rule that an archive breaks."""


def checked_name(raw: bytes) -> str:
    """The name that an entry's bytes give, without a leading `./`."""
    try:
        name = raw.decode().removeprefix("./")
    except UnicodeDecodeError:
        raise Refused("the name is not UTF-8 (rename the file)") from None
    problem = _problem_of_name(name)
    if problem is not None:
        raise Refused(problem)
    return name


def _problem_of_name(name: str) -> str | None:
    outside = problem_of_ref(name)
    if outside is not None:
        return f"{outside} (name files below pack.json)"
    if any(part in {"", "."} for part in name.split("/")):
        return "a part of the name is empty or `.` (write it plainly)"
    if not name.isprintable():
        return "the name holds a sign that cannot be seen (rename the file)"
    if unicodedata.normalize("NFC", name) != name:
        return "the name is not in the composed form of Unicode, NFC (rename the file)"
    if len(name.encode()) > MAX_NAME:
        return f"the name is longer than {MAX_NAME} bytes (shorten it)"
    return None


class EntryNames:
    """The names of an archive so far, none of which may stand for two things."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, bool]] = {}

    def add(self, name: str, *, is_file: bool) -> None:
        """Add a name; folders may come again, files may not."""
        parts = name.split("/")
        for length in range(1, len(parts)):
            self._claim("/".join(parts[:length]), is_file=False)
        if is_file and self._known.get(name.casefold()) == (name, True):
            raise Refused("duplicate name in the archive (keep one of them)")
        self._claim(name, is_file=is_file)

    def _claim(self, name: str, *, is_file: bool) -> None:
        other, other_is_file = self._known.setdefault(name.casefold(), (name, is_file))
        if other != name:
            raise Refused(f"it differs from {other!r} by case alone (rename one of them)")
        if other_is_file != is_file:
            raise Refused(f"{name!r} is a file and a folder at once (rename one of them)")

"""Documents as people write them: files, and the JSON or YAML text in them to plain JSON values.

A file that a user names is opened so that none can make a command wait, and read up to a limit.
"""

import errno
import functools
import gc
import math
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Any

import msgspec

from evalwright.contracts.errors import BadInput, InvalidDocument, Problem
from evalwright.contracts.jsonvalue import MAX_DEPTH, JsonPath, child, repeated_key

YAML_ENDINGS = (".yaml", ".yml")
MAX_VALUES = 5_000_000  # bounds what YAML aliases can expand to

MOST_BYTES = 512 << 20

# What a shell hands over is open already: its standard streams, `<(…)` and `>(…)`.
HANDED_OVER = re.compile(r"/dev/(?:stdin|stdout|stderr|fd/\d+)|/proc/self/fd/\d+")
_SPECIAL = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BYTE_OFFSET = re.compile(r"\(byte (\d+)\)")


def open_input(path: str | Path) -> BufferedReader:
    """A regular file, or a pipe that the shell handed over, open for reading.

    Raises `OSError` for anything else: to open or read a pipe or a device could take for ever.
    """
    mode = os.stat(path).st_mode  # noqa: PTH116 - a path object takes as long as the file
    if not stat.S_ISREG(mode):
        _refuse_special(path, mode)
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            _refuse_special(path, mode)  # it may have been exchanged meanwhile
            os.set_blocking(handle, True)
        return BufferedReader(FileIO(handle))  # `open` would look whether it is a terminal
    except BaseException:
        os.close(handle)
        raise


def read_input(path: str | Path, most: int = MOST_BYTES) -> bytes:
    """The content of a file that the user named; raises `BadInput`."""
    try:
        with open_input(path) as file:
            # Memory is set aside for as much as is asked for, and most files are far smaller.
            content = file.read(min(most, os.fstat(file.fileno()).st_size) + 1)
            while len(content) <= most and (block := file.read(1 << 20)):
                content += block
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}") from None
    if len(content) > most:
        limit = f"{most >> 20} MiB" if most >= 1 << 20 else f"{most} bytes"
        raise BadInput(f"{path}: larger than {limit}, the most that is read of it; split it")
    return content


def _refuse_special(path: str | Path, mode: int) -> None:
    """Refuse what is not a regular file, unless it is a pipe that was handed over."""
    if stat.S_ISFIFO(mode) and HANDED_OVER.fullmatch(str(path)):
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "Is a directory, not a file", str(path))
    what = next((name for is_such, name in _SPECIAL if is_such(mode)), "something else")
    raise OSError(errno.EINVAL, f"it is {what}, not a file", str(path))


def parse_document(source: bytes, name: str) -> Any:
    """Parse a file's content; the name decides between YAML (`.yaml`, `.yml`) and JSON."""
    if name.lower().endswith(YAML_ENDINGS):
        return _parse_yaml(source, name)
    return parse_json(source, name)


def to_json(source: bytes, name: str) -> bytes:
    """A file's content as JSON text; a JSON file is not parsed here."""
    if name.lower().endswith(YAML_ENDINGS):
        return msgspec.json.encode(_parse_yaml(source, name))
    return source.removeprefix(_BYTE_ORDER_MARK)


def value_to_json(value: Any, name: str) -> bytes:
    """A document given as a value, as JSON text; what JSON cannot carry is refused."""
    try:
        plain = msgspec.to_builtins(value, str_keys=True)
        problems = unfit_for_json(plain)
        if not problems:
            return msgspec.json.encode(plain)
    except RecursionError:
        problems = [Problem("$", "nested too deeply")]
    except (TypeError, ValueError) as error:
        problems = [Problem("$", f"not a value that JSON can carry: {error}")]
    raise InvalidDocument(name, problems)


def parse_json(source: bytes, name: str) -> Any:
    """Parse JSON text."""
    text = _decode(source, name)
    key = repeated_key(source)
    if key is not None:
        problem = Problem("$", f"duplicate key {key!r}", "keep one of them")
        raise InvalidDocument(name, [problem])
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        message = str(error)
        before = text
        if (found := _BYTE_OFFSET.search(message)) is not None:
            before = text.encode()[: int(found[1])].decode("utf-8", "ignore")
        reason = _BYTE_OFFSET.sub("", message.removeprefix("JSON is malformed: ")).strip()
        is_json = name.lower().endswith(".json")
        remedy = "" if is_json else "a YAML file is named .yaml or .yml"
        problem = Problem(_place(before), f"not valid JSON: {reason}", remedy)
        raise InvalidDocument(name, [problem]) from None
    except RecursionError:
        raise InvalidDocument(name, [Problem("$", "nested too deeply")]) from None


def _decode(source: bytes, name: str) -> str:
    if not source.strip():
        raise InvalidDocument(name, [Problem("line 1, column 1", "the file is empty")])
    try:
        return source.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        where = f"byte {error.start}"
        problem = Problem(where, "the file is not UTF-8 text", "save it as UTF-8")
        raise InvalidDocument(name, [problem]) from None


def _place(before: str) -> str:
    line = before.count("\n") + 1
    return f"line {line}, column {len(before) - before.rfind(chr(10))}"


def _parse_yaml(source: bytes, name: str) -> Any:
    import yaml

    from evalwright.contracts.yaml_loader import load_yaml

    text = _decode(source, name)
    try:
        value = load_yaml(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "$"
        told, remedy = error.problem or error.context or "", ""
        if told == "found character that cannot start any token":
            remedy = "indent with spaces, not tabs, and put quotes around a text that begins so"
        elif isinstance(error, yaml.parser.ParserError | yaml.scanner.ScannerError):
            remedy = "see how far the lines here are indented, and whether quotes and brackets end"
        problem = Problem(where, f"not valid YAML: {told}", remedy)
        raise InvalidDocument(name, [problem]) from None
    except yaml.reader.ReaderError as error:
        where = _place(text.partition(chr(error.character))[0])
        problem = Problem(where, f"not valid YAML: {error.reason} (#x{error.character:04x})")
        raise InvalidDocument(name, [problem]) from None
    except RecursionError:
        raise InvalidDocument(name, [Problem("$", "nested too deeply")]) from None
    problems = unfit_for_json(value)
    if problems:
        raise InvalidDocument(name, problems)
    return value


def unfit_for_json(value: Any) -> list[Problem]:
    """What no run could carry: NaN, and structures that are endless, explode or nest too deeply."""
    problems: list[Problem] = []
    # Of each value the way to it, from the last key to the first: paths are seldom asked for.
    waiting: list[tuple[Any, tuple[Any, ...], int]] = [(value, (), 0)]
    seen = 0
    while waiting:
        item, way, depth = waiting.pop()
        seen += 1
        if depth > MAX_DEPTH:
            return [Problem(f"{_path(way)[:60]}…", f"nested more than {MAX_DEPTH} levels deep")]
        if seen > MAX_VALUES:
            return [Problem("$", f"more than {MAX_VALUES} values, aliases written out")]
        if isinstance(item, dict):
            waiting += ((item[key], (key, way), depth + 1) for key in item)
        elif isinstance(item, list):
            waiting += ((entry, (n, way), depth + 1) for n, entry in enumerate(item))
        elif isinstance(item, float) and not math.isfinite(item):
            problems.append(Problem(_path(way), f"{item} is not a number that JSON can carry"))
    return problems


def _path(way: tuple[Any, ...]) -> JsonPath:
    keys: list[str | int] = []
    while way:
        key, way = way
        keys.append(key)
    return functools.reduce(child, reversed(keys), "$")


@contextmanager
def without_collecting(*, for_good: bool = False) -> Iterator[None]:
    """Make many values that stay: nobody looks for garbage among them meanwhile.

    Nor later, where they stay until the process ends.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if for_good:
            gc.freeze()
        if was_on:
            gc.enable()


def write_whole(place: Path, chunks: Iterable[bytes], mode: int = 0o666) -> None:
    """Write a file beside its place first, and move it there when it is whole."""
    beside = place.with_name(f".{place.name}.{os.urandom(8).hex()}")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(chunks)
        if place.exists():  # who may read it stays as it was
            import shutil

            shutil.copymode(place, beside)
        beside.replace(place)
    finally:
        beside.unlink(missing_ok=True)

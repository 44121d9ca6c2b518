"""Rows of data files, one by one: CSV, TSV, JSON, JSONL, YAML, Parquet, and gzip of these.

Cells are data: whatever is in them, nothing is run, guessed or left out. Of CSV and JSONL only the
row at hand is in memory, of Parquet a batch; JSON and YAML are read as a whole.
"""

import csv
import gzip
import io
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import Any, NamedTuple, TextIO, TypeAlias

import msgspec

from evalwright.contracts.documents import MOST_BYTES, open_input, parse_document
from evalwright.contracts.errors import InvalidDocument, Problem
from evalwright.contracts.jsonvalue import NotJson, parse

Row: TypeAlias = dict[str, Any]

MOST_CELL = 64 << 20  # characters; also of a line of JSONL
_MARKS = ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_DELIMITERS = ",;\t|"
_BATCH = 1000
EXTRA = "pip install 'PATH_TO_THE_CLONE[data]'"


class BadRows(Exception):
    """Data that cannot be read, or not further; the place is within the data."""

    def __init__(self, place: str, message: str, remedy: str = "") -> None:
        self.problem = Problem(place, message, remedy)
        super().__init__(message)


class DataFile(NamedTuple):
    """A file with rows, and how to read it where its name does not say."""

    path: Path
    format: str
    encoding: str | None = None
    delimiter: str | None = None
    is_zipped: bool = False

    @contextmanager
    def open(self) -> Iterator[BufferedIOBase]:
        """Its content, unzipped."""
        with open_input(self.path) as file:
            if not self.is_zipped:
                yield file
                return
            with gzip.GzipFile(fileobj=file) as unzipped:
                yield unzipped

    @property
    def noun(self) -> str:
        """What a place in it is called: it has lines, or only rows."""
        return "line" if self.format in ("csv", "tsv", "jsonl") else "row"


NumberedRow: TypeAlias = tuple[int, Row]

_FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".parquet": "parquet",
}


def data_file(
    path: Path,
    format: str | None = None,  # noqa: A002 - its name in suites
    encoding: str | None = None,
    delimiter: str | None = None,
) -> DataFile:
    """A data file by its name; raises `BadRows` if that does not say what is in it."""
    name = path.name.lower()
    is_zipped = name.endswith(".gz")
    known = format or _FORMATS.get(Path(name.removesuffix(".gz")).suffix)
    if known is None:
        remedy = f"one of {', '.join(_FORMATS)}, also with .gz; or say `format`"
        raise BadRows("", f"{path.name}: no known kind of data file", remedy)
    return DataFile(path, known, encoding, delimiter, is_zipped)


def read_rows(file: DataFile) -> Generator[NumberedRow, None, None]:
    """Every row with its line, or its number; raises `BadRows` where reading must end."""
    try:
        yield from _READERS[file.format](file)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadRows("", f"cannot be read: {reason}") from None
    except UnicodeError:
        given = f"not {file.encoding} text" if file.encoding else "not UTF-8 text"
        remedy = "save it as UTF-8, or say `encoding`, for example cp1252"
        raise BadRows(_undecodable(file), given, remedy) from None
    except LookupError as error:
        raise BadRows("", str(error), "name an encoding, for example cp1252") from None


@contextmanager
def _text(file: DataFile) -> Iterator[TextIO]:
    with file.open() as content:
        start = content.peek(2)[:2]  # type: ignore[attr-defined]  # both kinds have it
        marked = next((name for mark, name in _MARKS if start == mark), "utf-8-sig")
        yield io.TextIOWrapper(content, encoding=file.encoding or marked, newline="")  # type: ignore[type-var]


def _undecodable(file: DataFile) -> str:
    """The first line that is not text in the encoding; blocks are decoded ahead of lines."""
    number = 1
    try:
        with file.open() as content:
            for line in content:
                line.decode(file.encoding or "utf-8")
                number += 1
    except UnicodeError:
        return f"line {number}"
    except (OSError, EOFError, zlib.error):
        return ""
    return "the end"


def _read_separated(file: DataFile) -> Iterator[NumberedRow]:
    csv.field_size_limit(MOST_CELL)
    with _text(file) as text:
        lines = _lines(text)
        first = next(lines, "")
        while first and not first.strip():
            first = next(lines, "")
        if not first:
            raise BadRows("", "the file is empty", "its first line names the columns")
        delimiter = file.delimiter or ("\t" if file.format == "tsv" else _delimiter(first))
        table = csv.reader(_chained(first, lines), delimiter=delimiter, strict=True)
        try:
            yield from _separated_rows(table)
        except csv.Error as error:
            message, remedy = _reason(error)
            raise BadRows(f"line {table.line_num}", message, remedy) from None


def _lines(text: TextIO) -> Iterator[str]:
    """The lines of a text; none is longer than what fits well into memory."""
    number = 0
    while line := text.readline(MOST_CELL):
        number += 1
        if len(line) == MOST_CELL:
            raise BadRows(f"line {number}", f"longer than {MOST_CELL:,} characters", "split it")
        yield line


def _chained(first: str, rest: Iterable[str]) -> Iterator[str]:
    yield first
    yield from rest


def _reason(error: csv.Error) -> tuple[str, str]:
    if "field larger" in str(error):
        return f"a cell has more than {MOST_CELL:,} characters", "is a quote missing before it?"
    if "unexpected end" in str(error):
        return "a quote is not closed before the end of the file", "close it"
    return (
        "text after a closing quote",
        'write quotes within a quoted cell twice: "a ""word"" in quotes"',
    )


def _delimiter(header: str) -> str:
    """What most cells of the header are separated by."""
    return max(_DELIMITERS, key=header.count)


def _separated_rows(table: Any) -> Iterator[NumberedRow]:
    columns = _columns(next(table))
    count, start = len(columns), table.line_num
    for cells in table:
        line, start = start + 1, table.line_num
        if len(cells) != count:
            if not cells:
                continue
            _refuse_overlong(cells, columns, line)
            cells.extend([""] * (count - len(cells)))  # spreadsheets leave out the last ones
        yield line, dict(zip(columns, cells, strict=False))


def _columns(cells: list[str]) -> list[str]:
    columns = [cell.strip() for cell in cells]
    for place, name in enumerate(columns):
        if name in columns[:place] and name:
            remedy = "give every column its own name"
            raise BadRows("line 1", f"two columns are called {name!r}", remedy)
    return columns


def _refuse_overlong(cells: list[str], columns: list[str], line: int) -> None:
    if any(cells[len(columns) :]):
        message = f"{len(cells)} cells, but the first line names {len(columns)} columns"
        remedy = "put a cell with a separator in it in quotes"
        raise BadRows(f"line {line}, column {columns[-1]}", message, remedy)


def _read_lines(file: DataFile) -> Iterator[NumberedRow]:
    with _text(file) as text:
        for number, line in enumerate(_lines(text), 1):
            if line.isspace():
                continue
            try:
                row = parse(line)
            except NotJson as error:
                raise BadRows(f"line {number}", f"not valid JSON: {error.reason}") from None
            yield number, _object(row, f"line {number}")


def _read_document(file: DataFile) -> Iterator[NumberedRow]:
    with _text(file) as text:
        content = text.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        remedy = "write it as JSONL or CSV, which are read row by row"
        raise BadRows("", f"longer than {MOST_BYTES >> 20} MiB", remedy)
    source = content.encode()
    try:
        document = parse_document(source, f"{file.path.name}.{file.format}")
    except InvalidDocument as error:
        first = error.problems[0]
        raise BadRows(first.path, first.message, first.remedy) from None
    for number, row in enumerate(_listed(document), 1):
        yield number, _object(row, f"row {number}")


def _listed(document: Any) -> list[Any]:
    """The rows of a document: a list, or the only list in an object."""
    if isinstance(document, dict):
        lists = [value for value in document.values() if isinstance(value, list)]
        document = lists[0] if len(lists) == 1 else None
    if not isinstance(document, list):
        raise BadRows("", "no list of rows", "write a list of objects")
    return document


def _object(row: Any, place: str) -> Row:
    if not isinstance(row, dict):
        raise BadRows(place, "a row is an object with the names of its columns")
    return row


def _read_parquet(file: DataFile) -> Iterator[NumberedRow]:
    try:
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise BadRows("", "Parquet needs pyarrow, which is not installed", EXTRA) from None
    with file.open() as content:
        try:
            table = pyarrow.parquet.ParquetFile(content)
            batches = (batch.to_pylist() for batch in table.iter_batches(_BATCH))
            yield from _plain_rows(row for batch in batches for row in batch)
        except pyarrow.ArrowInvalid as error:
            reason = str(error).partition("\n")[0]
            raise BadRows("", f"not a Parquet file: {reason}") from None


def read_huggingface(
    dataset: str, subset: str | None, split: str
) -> Generator[NumberedRow, None, None]:
    """The rows of a data set on Hugging Face, as they arrive."""
    try:
        import datasets
    except ModuleNotFoundError:
        raise BadRows("", "Hugging Face needs datasets, which is not installed", EXTRA) from None
    try:
        rows = datasets.load_dataset(dataset, subset, split=split, streaming=True)
        yield from _plain_rows(rows)
    except BadRows:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a library of others raises
        reason = str(error).partition("\n")[0]
        raise BadRows("", f"{dataset} ({split}) cannot be read: {reason}") from None


def _plain_rows(rows: Iterable[Row]) -> Iterator[NumberedRow]:
    """Rows whose values may be dates, decimals and the like, as JSON has them."""
    for number, row in enumerate(rows, 1):
        try:
            yield number, msgspec.to_builtins(row, str_keys=True)
        except (TypeError, ValueError) as error:
            raise BadRows(f"row {number}", f"a value that JSON cannot carry: {error}") from None


_READERS: dict[str, Callable[[DataFile], Iterator[NumberedRow]]] = {
    "csv": _read_separated,
    "tsv": _read_separated,
    "json": _read_document,
    "jsonl": _read_lines,
    "yaml": _read_document,
    "parquet": _read_parquet,
}

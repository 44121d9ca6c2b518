"""Data of a suite: rows of its files, what their columns mean, and a task of each row.

Rows come from CSV, TSV, JSON, JSONL, YAML, Parquet, and gzip of these. Cells are data: whatever is
in them, nothing is run, guessed or left out. Of CSV and JSONL only the row at hand is in memory, of
Parquet a batch; JSON and YAML are read as a whole.
"""

import csv
import gzip
import io
import re
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from difflib import get_close_matches
from io import BufferedIOBase
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, TextIO, TypeAlias

import msgspec

from evalwright.contracts.documents import MOST_BYTES, open_input, parse_document
from evalwright.contracts.errors import InvalidDocument, Problem
from evalwright.contracts.jsonvalue import NotJson, parse
from evalwright.contracts.messages import Text, phrase
from evalwright.contracts.suite import Task
from evalwright.engine.suites.ids import Ids, content_id, row_id
from evalwright.engine.suites.tasks import Problems, Recipe
from evalwright.engine.suites.templates import BadTemplate
from evalwright.trace.model import text_of

Row: TypeAlias = dict[str, Any]

MOST_CELL = 64 << 20  # characters; also of a line of JSONL
_MARKS = ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_DELIMITERS = ",;\t|"
_BATCH = 1000
EXTRA = "pip install 'PATH_TO_THE_CLONE[data]'"
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
_ASKED = (
    *("question", "prompt", "input", "inputs", "query", "instruction", "user_input", "problem"),
    *("request", "user_message", "message", "messages", "utterance", "task", "goal", "text"),
)
_WITH_IT = ("context", "passage", "choices", "options")
_EXPECTED = (
    *("expected", "expected_output", "expectedoutput", "expected_answer", "expected_response"),
    *("answer", "ideal", "ground_truth", "groundtruth", "gold", "gold_answer", "correct_answer"),
    *("reference", "reference_answer", "reference_output", "reference_outputs", "target"),
    *("label", "solution", "output", "outputs", "completion", "response", "answers"),
)
_IDS = ("id", "task_id", "taskid", "question_id", "questionid", "qid", "example_id", "uid", "uuid")
_TAGS = ("tags", "tag")
_TITLES = ("title",)
_WHOLE = ("input", "inputs")  # the input itself, not a part of it
_SEPARATORS = re.compile(r"\s*[,;]\s*")
MOST_NAMED = 5  # duplicates
OTHERWISE = "choose with `map`"
_SOURCES = ("file", "huggingface", "rows")


class BadRows(Exception):
    """Data that cannot be read, or not further; the place is within the data."""

    def __init__(self, place: str, message: str, remedy: Text = "") -> None:
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
        with open_input(self.path) as file:
            if not self.is_zipped:
                yield file
                return
            with gzip.GzipFile(fileobj=file) as unzipped:
                yield unzipped

    @property
    def noun(self) -> str:
        return "line" if self.format in ("csv", "tsv", "jsonl") else "row"


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
        likely = "\t" if file.format == "tsv" else max(_DELIMITERS, key=first.count)
        delimiter = file.delimiter or likely
        table = csv.reader(chain([first], lines), delimiter=delimiter, strict=True)
        try:
            columns = [cell.strip() for cell in next(table)]
            for place, name in enumerate(columns):
                if name in columns[:place] and name:
                    remedy = "give every column its own name"
                    raise BadRows("line 1", f"two columns are called {name!r}", remedy)
            count, start = len(columns), table.line_num
            for cells in table:
                line, start = start + 1, table.line_num
                if len(cells) != count:
                    if not cells:
                        continue
                    if any(cells[count:]):
                        message = f"{len(cells)} cells, but the first line names {count} columns"
                        remedy = "put a cell with a separator in it in quotes"
                        raise BadRows(f"line {line}, column {columns[-1]}", message, remedy)
                    cells.extend(
                        [""] * (count - len(cells))
                    )  # spreadsheets leave out the last ones
                yield line, dict(zip(columns, cells, strict=False))
        except csv.Error as error:
            message = "text after a closing quote"
            remedy = 'write quotes within a quoted cell twice: "a ""word"" in quotes"'
            if "field larger" in str(error):
                message = f"a cell has more than {MOST_CELL:,} characters"
                remedy = "is a quote missing before it?"
            elif "unexpected end" in str(error):
                message, remedy = "a quote is not closed before the end of the file", "close it"
            raise BadRows(f"line {table.line_num}", message, remedy) from None


def _lines(text: TextIO) -> Iterator[str]:
    """The lines of a text; none is longer than what fits well into memory."""
    number = 0
    while line := text.readline(MOST_CELL):
        number += 1
        if len(line) == MOST_CELL:
            raise BadRows(f"line {number}", f"longer than {MOST_CELL:,} characters", "split it")
        yield line


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
    if isinstance(document, dict):  # then the rows are the only list in it
        lists = [value for value in document.values() if isinstance(value, list)]
        document = lists[0] if len(lists) == 1 else None
    if not isinstance(document, list):
        raise BadRows("", "no list of rows", "write a list of objects")
    for number, row in enumerate(document, 1):
        yield number, _object(row, f"row {number}")


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


class Fields(NamedTuple):
    """What is taken out of a row."""

    input: Any
    expected: Any
    id: Any
    tags: list[str]
    title: str


class UnknownColumn(Exception):
    """A map that names a column that a row does not have."""

    def __init__(self, field: str, column: str, columns: Iterable[str]) -> None:
        self.field = field
        self.column = column
        known = [each for each in columns if each]
        near = get_close_matches(column, known, 1)
        self.remedy = f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}"
        super().__init__(f"there is no column {column!r}")


def guessed(columns: Iterable[str]) -> dict[str, str]:
    """A map for columns with usual names; without one for the input, none can be told."""
    named = {re.sub(r"[\s-]+", "_", each.strip().lower()): each for each in columns if each}
    found: dict[str, str] = {}
    asked = next((name for name in _ASKED if name in named), None)
    if asked in _WHOLE:
        found["input"] = named[asked]
    elif asked:
        taken = [asked, *(name for name in _WITH_IT if name in named)]
        found |= {f"input.{named[name]}": named[name] for name in taken}
    for field, names in (
        ("expected", _EXPECTED),
        ("id", _IDS),
        ("tags", _TAGS),
        ("title", _TITLES),
    ):
        column = next((name for name in names if name in named and name != asked), None)
        if column:
            found[field] = named[column]
    return found


def field_reader(fields: Mapping[str, str]) -> Callable[[Row], Fields]:
    """What takes the fields of a map out of rows; it raises `UnknownColumn`."""
    given = _value_of({k: v for k, v in fields.items() if _is_of(k, "input")}, "input")
    expected = _value_of({k: v for k, v in fields.items() if _is_of(k, "expected")}, "expected")
    id_column, tags_column = fields.get("id"), fields.get("tags")
    title_column = fields.get("title")

    def read(row: Row) -> Fields:
        try:
            return Fields(
                given(row),
                expected(row),
                None if id_column is None else row[id_column],
                [] if tags_column is None else tags_of(row[tags_column]),
                "" if title_column is None else text_of(row[title_column]).strip(),
            )
        except KeyError as missing:
            column = missing.args[0]
            field = next(field for field, each in fields.items() if each == column)
            raise UnknownColumn(field, column, row) from None

    return read


def _is_of(field: str, name: str) -> bool:
    return field == name or field.startswith(f"{name}.")


def _value_of(fields: dict[str, str], name: str) -> Callable[[Row], Any]:
    if not fields:
        return lambda _row: msgspec.UNSET
    if name in fields:
        column = fields[name]
        return lambda row: row[column]
    # A name with dots in it that is the column's own is one name.
    keys = [(field.removeprefix(f"{name}."), column) for field, column in fields.items()]
    if not any("." in key and key != column for key, column in keys):
        return lambda row: {key: row[column] for key, column in keys}

    def nested(row: Row) -> dict[str, Any]:
        built: dict[str, Any] = {}
        for key, column in keys:
            *way, last = key.split(".") if key != column else [key]
            inner = built
            for part in way:
                within = inner.get(part)
                inner[part] = inner = within if isinstance(within, dict) else {}
            inner[last] = row[column]
        return built

    return nested


def tags_of(cell: Any) -> list[str]:
    """The tags in a cell: a list, or a text with commas or semicolons between them."""
    if isinstance(cell, str):
        cell = _SEPARATORS.split(cell.strip())
    if not isinstance(cell, list):
        cell = [] if cell is None else [cell]
    return [text for text in map(str, cell) if text]


class Opened(NamedTuple):
    """Rows to be read, and how messages call them."""

    rows: Generator[NumberedRow, None, None]
    label: str
    noun: str = "row"

    def place(self, number: int) -> str:
        return f"{self.label}, {self.noun} {number}"


class DataReading:
    """One entry of `data`: its tasks, row by row, and what its reader should know."""

    def __init__(
        self,
        entry: Mapping[str, Any],
        recipe: Recipe,
        shared: Mapping[str, Any],
        problems: Problems,
        ids: Ids,
    ) -> None:
        self._entry = entry
        self._recipe = recipe
        self._vars = {**shared, **entry.get("vars", {})}
        self._problems = problems
        self._ids = ids
        self._again: list[str] = []  # places of rows that repeat an earlier one
        self.notices: list[str] = []

    def tasks(self, folder: Path, *, allow_files: bool) -> Iterator[Task]:
        path = self._recipe.path
        try:
            opened = open_data(self._entry, path, folder, allow_files=allow_files)
            self._ids.enter(opened.place)
            with closing(opened.rows):
                yield from self._made(opened)
        except BadRows as bad:
            problem = bad.problem
            label = self._entry.get("file") or self._entry.get("huggingface") or path
            place = ", ".join(filter(None, [label, problem.path]))
            self._problems.add(place, problem.message, problem.remedy)

    def _made(self, opened: Opened) -> Iterator[Task]:
        first = next(opened.rows, None)
        if first is None:
            raise BadRows("", "there are no rows", "leave it out, or fill it")
        fields = self._fields(first[1], opened.label)
        if fields is None:
            return
        missing = [
            UnknownColumn(field, column, first[1])
            for field, column in fields.items()
            if column not in first[1]
        ]
        if missing:
            for each in missing:
                self._refuse_row(each, opened.place(first[0]))
            return  # it is the same with every other row
        read = field_reader(fields)
        self._recipe.columns = fields
        for number, row in islice(chain([first], opened.rows), self._entry.get("limit")):
            try:
                yield self._task(row, read(row), opened, number)
            except (UnknownColumn, BadTemplate) as error:
                self._refuse_row(error, opened.place(number))
                if number == first[0]:
                    return  # it is the same with every other row
        if self._again:
            more = " and others" if len(self._again) == MOST_NAMED else ""
            places = ", ".join(self._again)
            self.notices.append(f"{opened.label}: the same as an earlier row: {places}{more}")

    def _refuse_row(self, error: UnknownColumn | BadTemplate, place: str) -> None:
        if isinstance(error, BadTemplate):
            self._problems.add_bad_template(error, f"{place}, {error.path}")
        else:
            message = f"{error}, for {error.field}"
            self._problems.add(f"{place}, column {error.column}", message, error.remedy)

    def _fields(self, row: Row, label: str) -> dict[str, str] | None:
        """The map of the entry; what it leaves out goes by the usual names, and that is told."""
        given: dict[str, str] = self._entry.get("map", {})
        has_input = "input" in self._entry or any(_is_of(field, "input") for field in given)
        usual = {
            field: column
            for field, column in guessed(row).items()
            if not (has_input and _is_of(field, "input"))
            and not any(_is_of(each, field) for each in given)
        }
        if not has_input and not any(_is_of(field, "input") for field in usual):
            names = ", ".join(name for name in row if name)
            message = f"no column has a usual name for the input, of {names}"
            said = "say which it is with map: {{input.question: COLUMN}}, or {@input:COLUMN}"
            remedy = phrase(said, "which_input")
            self._problems.add(f"{label}, {self._recipe.path}.map", message, remedy)
            return None
        if usual:
            told = ", ".join(f"{field} from {column}" for field, column in usual.items())
            self.notices.append(f"{label}: by their names, {told}; {OTHERWISE}")
        return {**usual, **given}

    def _task(self, row: Row, fields: Fields, opened: Opened, number: int) -> Task:
        recipe = self._recipe
        given, reference = fields.input, fields.expected
        values: dict[str, Any] = {}
        if recipe.has_templates:
            recipe.begin_task()
            values = {**row, **self._vars, "row": row, "vars": self._vars}
            if recipe.expected:
                reference = recipe.expected(values)
            if reference is not msgspec.UNSET:
                values["expected"] = reference
            given = recipe.input(values) if recipe.input else given
            values["input"] = given
        if recipe.input is None and "input" in self._entry:
            given = self._entry["input"]
        tags = [*recipe.tags, *fields.tags] if fields.tags else recipe.tags
        task_id = self._id(fields, given, reference, number, opened)
        place = opened.place
        return recipe.task(task_id, given, reference, values, tags, fields.title, place, number)

    def _id(self, fields: Fields, given: Any, reference: Any, number: int, opened: Opened) -> str:
        named = row_id(fields.id)
        if named is not None:
            if not self._ids.claim(named, number):
                message = f"the id {named!r} is already used by {self._ids.place(named)}"
                self._problems.add(opened.place(number), message, "give every row its own id")
            return named
        made = content_id("row", given, reference)
        if self._ids.claim(made, number):
            return made
        if len(self._again) < MOST_NAMED:
            self._again.append(f"{opened.noun} {number}")
        return self._ids.numbered(made, number)


def open_data(entry: Mapping[str, Any], path: str, folder: Path, *, allow_files: bool) -> Opened:
    """The rows of an entry of `data`; raises `BadRows`."""
    kinds = [kind for kind in _SOURCES if kind in entry]
    if len(kinds) != 1:
        raise BadRows(path, "rows come from one place", f"write one of {', '.join(_SOURCES)}")
    if "rows" in entry:
        return Opened((row for row in enumerate(entry["rows"], 1)), f"{path}.rows")
    if not allow_files:
        raise BadRows(path, "files are not read here", "write the rows into the suite: `rows`")
    if "huggingface" in entry:
        name = entry["huggingface"]
        rows = read_huggingface(name, entry.get("subset"), entry.get("split", "test"))
        return Opened(rows, name)
    chosen = {key: entry[key] for key in ("format", "encoding", "delimiter") if key in entry}
    place = folder / entry["file"]
    if not place.exists():
        beside = [each.name for each in place.parent.iterdir()] if place.parent.is_dir() else []
        near = get_close_matches(place.name, beside, 1)
        remedy = f"did you mean {near[0]}?" if near else "it is looked for from the suite's folder"
        raise BadRows("", "there is no such file", remedy)
    file = data_file(place, **chosen)
    return Opened(read_rows(file), entry["file"], file.noun)

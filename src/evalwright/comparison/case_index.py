"""The cases and the files of both runs in a database on disk, so that memory does not grow.

The database is SQLite's own temporary kind: it has no name, and it is gone with the process.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final, Literal, NamedTuple

from evalwright.contracts.errors import CannotEvaluate

Side = Literal[0, 1]
BASELINE: Final = 0
NEW: Final = 1

# Names and ids are kept as bytes: a file's name need not be text. Bytes sort as the text does.
_TABLES = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -1000;
BEGIN;
CREATE TABLE cases (number INTEGER PRIMARY KEY, id BLOB, fault TEXT);
CREATE TABLE files (side INTEGER, stem BLOB);
CREATE TABLE answers (
    place INTEGER PRIMARY KEY, side INTEGER, case_id BLOB, base BLOB, name BLOB
);
CREATE TABLE bases (
    side INTEGER, case_id BLOB, base BLOB, PRIMARY KEY (side, case_id)
) WITHOUT ROWID;
CREATE TABLE selected (side INTEGER, id BLOB);
CREATE TABLE outside (place INTEGER PRIMARY KEY, side INTEGER, id BLOB UNIQUE);
CREATE TABLE left_out (number INTEGER PRIMARY KEY);
CREATE INDEX answers_of_case ON answers (case_id, side);
CREATE INDEX answers_of_base ON answers (base, side);
CREATE INDEX cases_with_base ON bases (base, side);
CREATE INDEX selected_ids ON selected (id);
"""
# These are made once their tables are full: sorting is cheaper than inserting in any order.
_CASES_BY_ID = "CREATE INDEX cases_by_id ON cases (id, number)"
_FILES_BY_STEM = "CREATE INDEX files_by_stem ON files (side, stem)"
_STRAYS = """
SELECT DISTINCT stem FROM files
WHERE side = ? AND NOT EXISTS (SELECT 1 FROM cases WHERE id = stem) ORDER BY stem || '.json'
"""
_SELECT_WITHOUT_FILE = """
INSERT INTO selected SELECT ?1, ?2
WHERE NOT EXISTS (SELECT 1 FROM files WHERE side = ?1 AND stem = ?2)
"""
_UNKNOWN_ANSWERED = """
SELECT case_id FROM answers
WHERE side = ? AND NOT EXISTS (SELECT 1 FROM cases WHERE id = case_id) ORDER BY place
"""
_ADD_UNKNOWN_SELECTED = """
INSERT OR IGNORE INTO outside (side, id) SELECT side, id FROM selected
WHERE NOT EXISTS (SELECT 1 FROM cases WHERE cases.id = selected.id) ORDER BY selected.rowid
"""
_LEAVE_OUT = """
INSERT INTO left_out SELECT number FROM cases
WHERE NOT EXISTS (SELECT 1 FROM selected WHERE selected.id = cases.id)
AND NOT EXISTS (SELECT 1 FROM files WHERE side = 0 AND stem = id)
AND NOT EXISTS (SELECT 1 FROM files WHERE side = 1 AND stem = id)
AND NOT EXISTS (SELECT 1 FROM answers WHERE case_id = id)
"""
_IS_BASE = """
SELECT EXISTS (SELECT 1 FROM bases WHERE side = ?1 AND base = ?2)
OR NOT EXISTS (SELECT 1 FROM bases WHERE side = ?1 AND case_id = ?2)
AND (
    EXISTS (SELECT 1 FROM cases WHERE id = ?2)
    OR EXISTS (SELECT 1 FROM outside WHERE side = ?1 AND id = ?2)
)
"""
_ANSWERS = "SELECT name FROM answers WHERE side = ? AND {} = ? ORDER BY place"
_COUNT = """
SELECT (SELECT count(*) FROM cases) + (SELECT count(*) FROM outside)
    - (SELECT count(*) FROM left_out)
"""
_ENTRIES = """
SELECT number, id, fault, {repetition},
    EXISTS (SELECT 1 FROM files WHERE side = 0 AND stem = id),
    EXISTS (SELECT 1 FROM files WHERE side = 1 AND stem = id)
FROM cases WHERE number NOT IN left_out ORDER BY number
"""
_REPETITION = "row_number() OVER (PARTITION BY id ORDER BY number)"
_ANY_REPEATED = "SELECT EXISTS (SELECT 1 FROM cases GROUP BY id HAVING count(*) > 1)"


class Entry(NamedTuple):
    """A case of the case file, and whether a file of a side bears its id."""

    number: int
    id: str
    fault: str | None
    repetition: int
    in_baseline: bool
    in_new: bool


class CaseIndex:
    """What there is to compare: first the cases are added, then the files, then all the rest."""

    def __init__(self) -> None:
        with _disk():
            self._db = sqlite3.connect("", isolation_level=None)
            self._db.executescript(_TABLES)
        self._answered = [False, False]

    def close(self) -> None:
        """Let go of the disk."""
        self._db.close()

    def add_cases(self, cases: Iterable[tuple[str, str | None]]) -> None:
        """The ids of the case file in their order, each with what is wrong with it."""
        rows = ((number, _bytes(name), fault) for number, (name, fault) in enumerate(cases))
        with _disk():
            self._db.executemany("INSERT INTO cases VALUES (?, ?, ?)", rows)
            self._db.execute(_CASES_BY_ID)

    def add_files(self, baseline: Iterable[str], new: Iterable[str]) -> None:
        """The names, without suffix, of the files that may be named after a case."""
        with _disk():
            for side, stems in ((BASELINE, baseline), (NEW, new)):
                rows = ((side, _bytes(stem)) for stem in stems)
                self._db.executemany("INSERT INTO files VALUES (?, ?)", rows)
            self._db.execute(_FILES_BY_STEM)

    def add_selected(self, side: Side, ids: Iterable[str]) -> None:
        """What a run set out to answer; what has a file shows by that, and is not kept."""
        with _disk():
            self._db.executemany(_SELECT_WITHOUT_FILE, ((side, _bytes(each)) for each in ids))

    def strays(self, side: Side) -> Iterator[str]:
        """The files that are named after no case of the case file, in the order of their names."""
        return self._texts(_STRAYS, side)

    def add_answer(self, side: Side, case_id: str, name: str) -> None:
        """Say which case a file answers."""
        self._add_answer(side, case_id, None, name)

    def add_told_answer(self, side: Side, case_id: str, base: str | None, name: str) -> None:
        """Say which case a file answers, and by which key it is found as a baseline."""
        self._add_answer(side, case_id, base or case_id, name)
        if base is not None:
            row = side, _bytes(case_id), _bytes(base)
            with _disk():
                self._db.execute("INSERT OR REPLACE INTO bases VALUES (?, ?, ?)", row)

    def _add_answer(self, side: Side, case_id: str, base: str | None, name: str) -> None:
        self._answered[side] = True
        key = None if base is None else _bytes(base)
        row = side, _bytes(case_id), key, _bytes(name)
        with _disk():
            self._db.execute("INSERT INTO answers VALUES (NULL, ?, ?, ?, ?)", row)

    def unknown_answered(self, side: Side) -> Iterator[str]:
        """The cases outside the case file that a side answers, some of them more than once."""
        return self._texts(_UNKNOWN_ANSWERED, side)

    def add_outside(self, side: Side, case_id: str) -> None:
        """Compare a case outside the case file, too, because a side has it."""
        with _disk():
            row = side, _bytes(case_id)
            self._db.execute("INSERT OR IGNORE INTO outside VALUES (NULL, ?, ?)", row)

    def add_unknown_selected(self) -> None:
        """Compare what a run set out to answer, did not, and is not in the case file."""
        with _disk():
            self._db.execute(_ADD_UNKNOWN_SELECTED)

    def leave_out_unselected(self) -> None:
        """Compare no case that no run set out to answer, and none did."""
        with _disk():
            self._db.execute(_LEAVE_OUT)

    def __len__(self) -> int:
        return self._one(_COUNT)

    def left_out(self) -> int:
        """How many cases of the case file are not compared."""
        return self._one("SELECT count(*) FROM left_out")

    def base_of(self, side: Side, case_id: str) -> str:
        """The key by which the baseline of a case is found: its own id unless it says another."""
        query = "SELECT base FROM bases WHERE side = ? AND case_id = ?"
        return next(self._texts(query, side, _bytes(case_id)), case_id)

    def is_base(self, side: Side, key: str) -> bool:
        """Whether a case of the case file, or one that the side brought, has this key on it."""
        return bool(self._one(_IS_BASE, side, _bytes(key)))

    def answers(self, side: Side, case_id: str) -> tuple[str, ...]:
        """The files that answer a case without being named after it."""
        return self._answers("case_id", side, case_id)

    def answers_of_base(self, side: Side, key: str) -> tuple[str, ...]:
        """The files that answer any case with this key."""
        return self._answers("base", side, key)

    def _answers(self, column: str, side: Side, value: str) -> tuple[str, ...]:
        if not self._answered[side]:  # as it almost always is
            return ()
        return tuple(self._texts(_ANSWERS.format(column), side, _bytes(value)))

    def entries(self) -> Iterator[Entry]:
        """The cases of the case file, in its order, but for those that are left out."""
        repetition = _REPETITION if self._one(_ANY_REPEATED) else "1"  # as it almost always is
        with _disk():
            for number, case_id, *more in self._db.execute(_ENTRIES.format(repetition=repetition)):
                yield Entry(number, _text(case_id), *more)

    def outside(self) -> Iterator[str]:
        """The cases outside the case file."""
        return self._texts("SELECT id FROM outside ORDER BY place")

    def _texts(self, query: str, *values: object) -> Iterator[str]:
        with _disk():
            for (data,) in self._db.execute(query, values):
                yield _text(data)

    def _one(self, query: str, *values: object) -> int:
        with _disk():
            (value,) = self._db.execute(query, values).fetchone()
            return int(value)


@contextmanager
def _disk() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise CannotEvaluate(f"there is no place to work in: {error}") from None


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")

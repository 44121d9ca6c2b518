"""Which cases are compared: all of the case file, and all that either side answered.

They are kept in a database on disk, so that memory does not grow with their number. It is SQLite's
temporary kind: it has no name, and it is gone with the process.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from typing import Final, Literal

import msgspec

from evalwright.comparison.cases import Cases, file_stem
from evalwright.comparison.run_folder import SUFFIX, ComparedRun, PairedResponse
from evalwright.contracts.errors import BadInput
from evalwright.scans.partitions import disk_fault

SideNumber = Literal[0, 1]
BASELINE: Final = 0
NEW: Final = 1

_NOTHING = "no case, and no response on either side"
_OUTSIDE = "the case is not in the case file, so nothing is expected of it"

# Names and ids are kept as bytes: a file's name need not be text. Bytes sort as the text does.
_TABLES = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -1000;
BEGIN;
CREATE TABLE cases (number INTEGER PRIMARY KEY, id BLOB, fault TEXT);
CREATE TABLE files (side INTEGER, stem BLOB);
CREATE TABLE answers (
    place INTEGER PRIMARY KEY, side INTEGER, case_id BLOB, base BLOB, name BLOB, paired_by TEXT
);
CREATE TABLE bases (
    side INTEGER, case_id BLOB, base BLOB, PRIMARY KEY (side, case_id)
) WITHOUT ROWID;
CREATE TABLE selected (side INTEGER, id BLOB);
CREATE TABLE outside (place INTEGER PRIMARY KEY, side INTEGER, id BLOB UNIQUE);
CREATE TABLE left_out (number INTEGER PRIMARY KEY);
CREATE INDEX cases_with_base ON bases (base, side);
CREATE INDEX selected_ids ON selected (id);
"""
# These are made once their tables are full: sorting is cheaper than inserting in any order.
_CASES_BY_ID = "CREATE INDEX cases_by_id ON cases (id, number)"
_FILES_BY_STEM = "CREATE INDEX files_by_stem ON files (side, stem)"
_ANSWERS_BY_CASE = "CREATE INDEX answers_of_case ON answers (case_id, side)"
_ANSWERS_BY_BASE = "CREATE INDEX answers_of_base ON answers (base, side)"
_STRAYS = """
SELECT DISTINCT stem FROM files
WHERE side = ? AND NOT EXISTS (SELECT 1 FROM cases WHERE id = stem) ORDER BY stem || '.json'
"""
_AT_ONCE = 500  # responses
_ADD_ANSWER = "INSERT INTO answers VALUES (NULL, ?, ?, ?, ?, ?)"
_ADD_BASE = "INSERT OR REPLACE INTO bases VALUES (?, ?, ?)"
_SELECT_WITHOUT_FILE = """
INSERT INTO selected SELECT ?1, ?2
WHERE NOT EXISTS (SELECT 1 FROM files WHERE side = ?1 AND stem = ?2)
"""
# Cases outside the case file are compared because a side has them: first what the new side
# answers, then those baselines that are found by no case with their key, then what was selected.
_ADD_ANSWERED_BY_NEW = """
INSERT OR IGNORE INTO outside (side, id) SELECT 1, case_id FROM answers
WHERE side = 1 AND NOT EXISTS (SELECT 1 FROM cases WHERE id = case_id) ORDER BY place
"""
_ADD_ANSWERED_BY_BASELINE_ONLY = """
INSERT OR IGNORE INTO outside (side, id) SELECT 0, unknown.id FROM (
    SELECT place, case_id AS id, coalesce(
        (SELECT bases.base FROM bases WHERE bases.side = 0 AND bases.case_id = answers.case_id),
        case_id
    ) AS key
    FROM answers
    WHERE side = 0 AND NOT EXISTS (SELECT 1 FROM cases WHERE cases.id = answers.case_id)
) AS unknown
WHERE NOT EXISTS (SELECT 1 FROM bases WHERE side = 1 AND base = unknown.key)
AND (
    EXISTS (SELECT 1 FROM bases WHERE side = 1 AND case_id = unknown.key)
    OR NOT EXISTS (SELECT 1 FROM cases WHERE cases.id = unknown.key)
    AND NOT EXISTS (SELECT 1 FROM outside WHERE side = 1 AND outside.id = unknown.key)
)
ORDER BY unknown.place
"""
_ADD_SELECTED = """
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
_LEAVE_OUT_CASE = "INSERT OR IGNORE INTO left_out SELECT number FROM cases WHERE id = ?"
_COUNTS = """
SELECT (SELECT count(*) FROM cases) + (SELECT count(*) FROM outside)
    - (SELECT count(*) FROM left_out),
    EXISTS (SELECT 1 FROM cases GROUP BY id HAVING count(*) > 1)
"""
_IN_THE_FILE = """
SELECT number, id, fault, {repetition},
    EXISTS (SELECT 1 FROM files WHERE side = 0 AND stem = id),
    EXISTS (SELECT 1 FROM files WHERE side = 1 AND stem = id)
FROM cases WHERE number NOT IN left_out ORDER BY number
"""
_REPETITION = "row_number() OVER (PARTITION BY id ORDER BY number)"
_NOT_IN_THE_FILE = "SELECT NULL, id, NULL, 1, 0, 0 FROM outside ORDER BY place"
_ANSWERS = "SELECT name FROM answers WHERE side = ? AND case_id = ? ORDER BY place"
_PAIRED_BY = "SELECT paired_by FROM answers WHERE case_id = ? AND paired_by IS NOT NULL LIMIT 1"
_ANSWERS_OF_BASE = """
SELECT name FROM answers WHERE side = 0 AND base = coalesce(
    (SELECT bases.base FROM bases WHERE bases.side = 1 AND bases.case_id = ?1), ?1
) ORDER BY place
"""


class PlannedCase(msgspec.Struct, frozen=True, array_like=True):
    """A case to compare: its place among the cases, and the responses that answer it."""

    id: str
    number: int | None
    repetition: int
    baseline: tuple[str, ...]
    new: tuple[str, ...]
    faults: tuple[str, ...]
    previous: str = ""  # file stems of the cases beside it
    next: str = ""
    paired_by: str = ""  # where that is no case id


class CasePlan:
    """All cases of a comparison, in the order of the case file, then those outside it.

    `count` says how many; `notes` what a reader should know of the choice.
    """

    def __init__(
        self,
        cases: Cases | None,
        baseline: ComparedRun,
        new: ComparedRun,
        left_out: Iterable[str] = (),
    ) -> None:
        self._outside_faults = (_OUTSIDE,) if cases is not None else ()
        self._answered = [False, False]
        self._is_paired = False  # otherwise than by case ids
        with _disk():
            self._db = sqlite3.connect("", isolation_level=None)
            try:
                others = [(_bytes(each),) for each in left_out]
                db = self._db
                db.executescript(_TABLES)
                db.executemany("INSERT INTO cases VALUES (?, ?, ?)", _identified(cases))
                db.execute(_CASES_BY_ID)
                for side, run in ((BASELINE, baseline), (NEW, new)):
                    stems = ((side, _bytes(stem)) for stem in run.stems())
                    db.executemany("INSERT INTO files VALUES (?, ?)", stems)
                db.execute(_FILES_BY_STEM)
                self._assign(NEW, new)
                self._assign(BASELINE, baseline)
                db.execute(_ANSWERS_BY_CASE)
                db.execute(_ANSWERS_BY_BASE)
                db.execute(_ADD_ANSWERED_BY_NEW)
                db.execute(_ADD_ANSWERED_BY_BASELINE_ONLY)
                # What a run set out to answer is missing if it did not; the rest may be left out.
                selections = [(BASELINE, baseline.selected()), (NEW, new.selected())]
                for side, selected in selections:
                    each_id = ((side, _bytes(each)) for each in selected or ())
                    db.executemany(_SELECT_WITHOUT_FILE, each_id)
                db.execute(_ADD_SELECTED)
                if all(selected is not None for _, selected in selections):
                    db.execute(_LEAVE_OUT)
                unselected = db.execute("SELECT count(*) FROM left_out").fetchone()[0]
                db.executemany(_LEAVE_OUT_CASE, others)
                db.executemany("DELETE FROM outside WHERE id = ?", others)
                self.count, self._any_repeated = db.execute(_COUNTS).fetchone()
                if not self.count:
                    why = "no task is the same in both runs" if others else _NOTHING
                    raise BadInput(f"nothing to compare: {why}")
                note = f"{unselected:,} cases of the case file were selected by neither run."
                self.notes = [note] if unselected else []
            except BaseException:
                self.close()
                raise

    def _assign(self, side: SideNumber, run: ComparedRun) -> None:
        """Find out which cases those responses answer that are not named after one."""
        listed = run.listed()
        while some := list(islice(listed, _AT_ONCE)):
            self._answered[side] = True
            answers, bases = [], []
            for each in some:
                case_id, base = _bytes(each.case_id), _bytes(each.base_case_id or each.case_id)
                how = each.paired_by if isinstance(each, PairedResponse) else None
                self._is_paired = self._is_paired or how is not None
                answers.append((side, case_id, base, _bytes(each.name), how))
                if each.base_case_id is not None:
                    bases.append((side, case_id, base))
            self._db.executemany(_ADD_ANSWER, answers)
            self._db.executemany(_ADD_BASE, bases)
        for (stem,) in self._db.execute(_STRAYS, (side,)):
            self._answered[side] = True
            name = f"{_text(stem)}{SUFFIX}"
            case_id = _bytes(run.case_named_in(name))
            self._db.execute(_ADD_ANSWER, (side, case_id, None, _bytes(name), None))

    def close(self) -> None:
        """Let go of what is kept on disk."""
        self._db.close()

    def __iter__(self) -> Iterator[PlannedCase]:
        """The cases, each with its neighbours."""
        before, waiting = "", None
        for case in self._cases():
            stem = file_stem(case.id, case.repetition)
            if waiting is not None:
                yield msgspec.structs.replace(waiting[1], previous=before, next=stem)
                before = waiting[0]
            waiting = stem, case
        if waiting is not None:
            yield msgspec.structs.replace(waiting[1], previous=before)

    def _cases(self) -> Iterator[PlannedCase]:
        repetition_of = _REPETITION if self._any_repeated else "1"
        with _disk():
            in_the_file = self._db.execute(_IN_THE_FILE.format(repetition=repetition_of))
            outside = self._db.execute(_NOT_IN_THE_FILE)
            for number, key, fault, repetition, in_baseline, in_new in chain(in_the_file, outside):
                case_id = _text(key)
                named = (f"{case_id}{SUFFIX}",)
                before = (named if in_baseline else ()) + self._answers(BASELINE, key)
                faults = self._outside_faults if number is None else (fault,) if fault else ()
                if repetition > 1:
                    message = f"the id is used {repetition} times or more in the case file"
                    faults = (*faults, message)
                how = self._db.execute(_PAIRED_BY, (key,)).fetchone() if self._is_paired else None
                yield PlannedCase(
                    case_id,
                    number,
                    repetition,
                    before or self._answers(BASELINE, key, _ANSWERS_OF_BASE),
                    (named if in_new else ()) + self._answers(NEW, key),
                    faults,
                    paired_by=how[0] if how else "",
                )

    def _answers(self, side: SideNumber, key: bytes, query: str = _ANSWERS) -> tuple[str, ...]:
        if not self._answered[side]:  # as is usual
            return ()
        values = (side, key) if query is _ANSWERS else (key,)
        return tuple([_text(name) for (name,) in self._db.execute(query, values)])


@contextmanager
def _disk() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise disk_fault(error) from None


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def _identified(cases: Cases | None) -> Iterator[tuple[int, bytes, str | None]]:
    """The id of each case, and what is wrong with a case that has none."""
    for number, value in enumerate(cases.ids() if cases is not None else ()):
        if isinstance(value, str) and value:
            yield number, _bytes(value), None
        elif isinstance(value, int) and not isinstance(value, bool):
            yield number, _bytes(str(value)), f"case {number} has a number as its id"
        else:
            fault = f"case {number} of the case file is not an object with an id"
            yield number, _bytes(f"cases[{number}]"), fault

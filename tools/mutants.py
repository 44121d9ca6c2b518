"""Mutation testing: change the code in sampled places and list the changes that no test notices.

Room by room, the tests of the room run once, to learn which test runs which line. Then a sample of
changes is drawn by a seed; each is made in a copy of the source, where the quickest tests that run
its line have a bounded time to notice it. What takes longer is killed, and counts as noticed. A
change that no test of the room runs counts as survived.

    make mutants
    python tools/mutants.py --sample 50 --seed 7
    python tools/mutants.py --sample 30 --room scoring --tests tests/scoring

With `--room`, a room is mutated alone, and with `--tests` only these tests are considered. What
tests run is kept in `.mutants` until the source or the tests of the room change. A survivor that
changes nothing a user could notice stands in `tools/mutants.toml` with the reason.
"""

import argparse
import ast
import contextlib
import hashlib
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / ".mutants"
GOAL = 0.92
MOST_TESTED_S = 20.0  # of tests that are tried for a change, as long as they took unchanged
MOST_TESTS = 300
STARTING_S = 40.0  # that pytest may need beside its tests
MAPPING_S = 1800.0  # that the tests of a room may take, once
PYTEST = ("-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-p", "mutants_on_pytest")

# The rooms, and the tests that are theirs. Left out are those that start processes or take
# seconds, and find what quicker tests find.
ROOMS = {
    "scoring": ["tests/scoring"],
    "comparison": ["tests/comparison", "tests/cli/test_compare_layouts.py"],
    "engine": ["tests/engine"],
    "engine/fleet": ["tests/fleet"],
    "store": ["tests/store"],
    "host/access": [
        *("tests/host/egress", "tests/host/keys", "tests/host/limits"),
        *("tests/host/core/test_admission.py", "tests/host/core/test_tenancy.py"),
    ],
}
LEFT_OUT = [
    "--ignore=tests/comparison/test_hostile_runs.py",
    "--ignore=tests/comparison/test_mutated_runs.py",
    "--ignore=tests/store/test_log_kills.py",
    "--ignore=tests/store/test_logs_of_0_1.py",
    "--ignore=tests/store/test_logs_of_0_2.py",
    "--ignore=tests/store/test_full_disk.py",
]
NOT_MUTATED = {"protocol.py", "records.py"}  # protocols hold no behaviour

COMPARED = {
    "==": "!=", "!=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">",
    "is": "is not", "is not": "is", "in": "not in", "not in": "in",
}  # fmt: skip
COMPUTED = {"+": "-", "-": "+", "*": "/", "/": "*", "//": "/", "%": "*", "&": "|", "|": "&"}


class Change(NamedTuple):
    """One change: in a file, the bytes from `start` to `end` become `text`."""

    file: Path  # below src
    lines: frozenset[int]
    start: int
    end: int
    text: bytes
    function: str

    @property
    def name(self) -> str:
        return f"{self.file}:{min(self.lines)} ({self.function})"

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.text + source[self.end :]

    def shown(self, source: bytes) -> str:
        """What it changes, as one text."""
        begin = source.rfind(b"\n", 0, self.start) + 1
        until = source.find(b"\n", self.end)
        before, after = source[begin:until], source[begin : self.start] + self.text
        parts = ("- ", before), ("+ ", after + source[self.end : until])
        return "\n".join(
            mark + line.strip() for mark, text in parts for line in text.decode().splitlines()
        )


class Changes(ast.NodeVisitor):
    """Finds every change to the functions of a module."""

    def __init__(self, file: Path, source: bytes) -> None:
        self.file = file
        self.source = source
        self.found: list[Change] = []
        self._starts = [0, *(each.end() for each in re.finditer(b"\n", source))]
        self._functions: list[str] = []
        self._statement: ast.stmt | None = None

    def visit(self, node: ast.AST) -> None:
        before = self._statement
        if isinstance(node, ast.stmt):
            self._statement = node
        super().visit(node)
        self._statement = before

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._functions.append(node.name)
        body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
        for each in body:  # neither decorators nor annotations
            self.visit(each)
        self._functions.pop()

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - ast calls it so

    def visit_Assert(self, node: ast.Assert) -> None:
        pass  # it states what holds anyway

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        pass  # its parts have no places of their own

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Compare(self, node: ast.Compare) -> None:
        self._operator(node.left, node.comparators[0], COMPARED)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self._operator(node.values[0], node.values[1], {"and": "or", "or": "and"})
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        self._operator(node.left, node.right, COMPUTED)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._operator(node.target, node.value, {"+=": "-=", "-=": "+=", "|=": "&="})
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._replace(node, b"(" + self._text(node.operand) + b")")
        self.generic_visit(node)

    def visit_If(self, node: ast.If | ast.While | ast.IfExp) -> None:
        if not isinstance(node.test, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.NamedExpr):
            self._replace(node.test, b"not (" + self._text(node.test) + b")")
        self.generic_visit(node)

    visit_While = visit_IfExp = visit_If  # noqa: N815 - the same

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._replace(node, str(not node.value).encode())
        elif isinstance(node.value, int | float):
            self._replace(node, repr(node.value + 1).encode())
        elif isinstance(node.value, str) and node.value and self._text(node)[-1:] in b"\"'":
            self._replace(node, repr(f"XX{node.value}XX").encode())

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and not isinstance(node.value, ast.Constant):
            self._replace(node.value, b"None")
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if not isinstance(node.value, ast.Constant | ast.Tuple | ast.Lambda):
            self._replace(node.value, b"None")
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call | ast.Await):
            self._replace(node, b"pass")
        self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg is not None and not isinstance(node.value, ast.Constant):
            self._replace(node.value, b"None")
        self.generic_visit(node)

    def visit_Break(self, node: ast.Break) -> None:
        self._replace(node, b"continue")

    def visit_Continue(self, node: ast.Continue) -> None:
        self._replace(node, b"break")

    def _place(self, line: int | None, column: int | None) -> int:
        return self._starts[(line or 1) - 1] + (column or 0)

    def _span(self, node: ast.expr | ast.stmt | ast.keyword) -> tuple[int, int]:
        start = self._place(node.lineno, node.col_offset)
        return start, self._place(node.end_lineno, node.end_col_offset)

    def _text(self, node: ast.expr | ast.stmt) -> bytes:
        start, end = self._span(node)
        return self.source[start:end]

    def _operator(self, left: ast.expr, right: ast.expr, table: dict[str, str]) -> None:
        start, end = self._span(left)[1], self._span(right)[0]
        between = self.source[start:end]
        found = re.fullmatch(rb"([\s)]*)([^\s()#]+(?: (?:not|in))?)([\s(]*)", between)
        if found and (other := table.get(found[2].decode())):
            self._add(left, start + found.start(2), start + found.end(2), other.encode())

    def _replace(self, node: ast.expr | ast.stmt, text: bytes) -> None:
        self._add(node, *self._span(node), text)

    def _add(self, node: ast.expr | ast.stmt, start: int, end: int, text: bytes) -> None:
        if not self._functions:
            return
        statement = self._statement or node
        lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        function = ".".join(self._functions)
        places = frozenset((*lines, statement.lineno))
        self.found.append(Change(self.file, places, start, end, text, function))


def changes_of(room: str, copy: Path) -> list[Change]:
    """Every change to a room that leaves valid Python; a room within it is another one."""
    within = [f"evalwright/{each}/" for each in ROOMS if each.startswith(f"{room}/")]
    found: list[Change] = []
    for path in sorted((copy / "evalwright" / room).rglob("*.py")):
        file = path.relative_to(copy)
        if path.name in NOT_MUTATED or any(str(file).startswith(each) for each in within):
            continue
        changes = Changes(file, path.read_bytes())
        changes.visit(ast.parse(changes.source))
        found += changes.found
    return found


def environment(copy: Path) -> dict[str, str]:
    """That of the tests: the copy comes before the source, and nothing is compiled for later."""
    path = os.pathsep.join([str(copy), str(ROOT / "tools")])
    return {
        **os.environ,
        "PYTHONPATH": path,
        "PYTHONDONTWRITEBYTECODE": "1",
        "HYPOTHESIS_STORAGE_DIRECTORY": str(WORK / "hypothesis"),
    }


def run_tests(copy: Path, arguments: Sequence[str], most_s: float, **more: str) -> int | None:
    """The exit code of pytest; None if it had to be killed, with all that it started."""
    with (WORK / f"{copy.name}.out").open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, *PYTEST, *arguments],
            cwd=ROOT,
            env={**environment(copy), **more},
            stdout=out,
            stderr=out,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return process.wait(most_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


class TestMap:
    """Which tests of a room run which lines, and how long they take."""

    def __init__(self, room: str, tests: Sequence[str], copy: Path) -> None:
        digest = hashlib.sha256(json.dumps([room, *tests]).encode())
        for place in [copy / "evalwright" / room, *(ROOT / each for each in tests)]:
            for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
                digest.update(path.read_bytes())
        name = f"{room.replace('/', '-')}-{digest.hexdigest()[:16]}"
        self._data, self._times = WORK / f"{name}.db", WORK / f"{name}.json"
        if not self._times.exists():
            settings = WORK / "coverage.ini"
            package = f"evalwright/{room}".replace("/", ".")
            settings.write_text(f"[run]\nsource_pkgs = {package}\n")  # others are not traced
            coverage = ["--cov", f"--cov-config={settings}", "--cov-context=test", "--cov-report="]
            run_tests(
                copy,
                [*coverage, *LEFT_OUT, *tests],
                MAPPING_S,
                COVERAGE_FILE=str(self._data),
                MUTANTS_TIMES=str(self._times),
            )
        if not self._times.exists():
            sys.exit(f"the tests of {room} did not end: see {WORK / copy.name}.out")
        self.seconds: dict[str, float] = json.loads(self._times.read_text())  # of those that pass

    def covering(self, change: Change) -> list[str]:
        """The tests that run a changed line, the quickest first, as far as there is time."""
        from coverage.numbits import numbits_to_nums

        with sqlite3.connect(self._data) as db:
            rows = db.execute(
                "SELECT context.context, numbits FROM line_bits JOIN file ON file.id = file_id "
                "JOIN context ON context.id = context_id WHERE file.path LIKE ?",
                (f"%/{change.file}",),
            ).fetchall()
        db.close()
        tests = {
            context.rpartition("|")[0]
            for context, numbits in rows
            if not change.lines.isdisjoint(numbits_to_nums(numbits))
        }
        chosen, spent = list[str](), 0.0
        for test in sorted(tests & self.seconds.keys(), key=lambda each: self.seconds[each]):
            spent += self.seconds[test]
            if chosen and (spent > MOST_TESTED_S or len(chosen) == MOST_TESTS):
                break
            chosen.append(test)
        return chosen


def try_change(change: Change, tests: Sequence[str], seconds: float, copy: Path) -> str:
    """What became of a change: `killed`, `timeout`, `survived`, `undecided`, or `no test`."""
    if not tests:
        return "no test"
    path = copy / change.file
    source = path.read_bytes()
    chosen = WORK / f"{copy.name}.tests"
    chosen.write_text("\n".join(tests))
    arguments, most_s = ["-x", "--no-cov", f"@{chosen}"], STARTING_S + 3 * seconds
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()
    try:
        path.write_bytes(change.applied(source))
        code = run_tests(copy, arguments, most_s)
    finally:
        path.write_bytes(source)
    if code == 0:
        return "survived"
    if code != 1 and run_tests(copy, arguments, most_s) != 0:  # no test said that it failed
        return "undecided"
    return "timeout" if code is None else "killed"


def reasons() -> dict[str, str]:
    """Survivors that are known, with the reason why they may live: by their change."""
    known = tomllib.loads((ROOT / "tools" / "mutants.toml").read_text())["survivor"]
    return {each["change"].strip(): each["reason"] for each in known}


def copies(number: int) -> Iterator[Path]:
    """Copies of the source, one for each worker."""
    for each in range(number):
        copy = WORK / f"src-{each}"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(ROOT / "src", copy)
        yield copy


def main() -> int:
    """Draw, try, and tell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sample", type=int, default=400, help="changes, of all rooms together")
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--room", default="", help="a room of the package, such as host/access")
    parser.add_argument("--tests", nargs="*", default=[], help="files or folders of tests")
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    rooms = {given.room: ROOMS.get(given.room, [])} if given.room else ROOMS
    WORK.mkdir(exist_ok=True)
    (WORK / ".gitignore").write_text("*\n")
    ready = SimpleQueue[Path]()
    first = None
    for copy in copies(given.workers):
        first = first or copy
        ready.put(copy)
    assert first is not None
    excused, all_counts = reasons(), Counter[str]()
    every = {room: changes_of(room, first) for room in rooms}
    whole = sum(map(len, every.values()))
    for room, possible in every.items():
        number = min(len(possible), max(1, round(given.sample * len(possible) / whole)))
        drawn = random.Random(f"{given.seed} {room}").sample(possible, number)
        known = TestMap(room, given.tests or rooms[room], first)
        print(f"\n{room}: {len(drawn)} of {len(possible)} changes, seed {given.seed}", flush=True)
        sources = {change.file: (first / change.file).read_bytes() for change in drawn}

        def attempt(change: Change, known: TestMap = known) -> tuple[Change, str]:
            tests, copy = known.covering(change), ready.get()
            try:
                seconds = sum(known.seconds[each] for each in tests)
                return change, try_change(change, tests, seconds, copy)
            finally:
                ready.put(copy)

        counts = Counter[str]()
        with ThreadPoolExecutor(given.workers) as pool:
            for change, became in pool.map(attempt, drawn):
                counts[became] += 1
                if became in {"survived", "no test"}:
                    shown = change.shown(sources[change.file])
                    reason = excused.get(shown, "none given")
                    print(f"{change.name}: {became}\n{shown}\n  reason: {reason}", flush=True)
        all_counts += counts
        print(f"{room}: {told(counts)}", flush=True)
    print(f"\nall: {told(all_counts)}; goal {GOAL:.0%}")
    return 0 if share_killed(all_counts) >= GOAL else 1


def share_killed(counts: Counter[str]) -> float:
    """The part of the changes that tests noticed."""
    return (counts["killed"] + counts["timeout"]) / max(1, decided(counts))


def decided(counts: Counter[str]) -> int:
    return counts.total() - counts["undecided"]


def told(counts: Counter[str]) -> str:
    """What became of changes, in words."""
    killed = counts["killed"] + counts["timeout"]
    return f"{killed} of {decided(counts)} killed ({share_killed(counts):.1%}): {dict(counts)}"


if __name__ == "__main__":
    sys.exit(main())

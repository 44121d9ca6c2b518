"""Mutation testing: change the code in sampled places and list the changes that no test notices.

Room by room, the tests of the room run once, to learn which test runs which line, and what it
costs. Then a sample of changes is drawn by a seed; each is made in a copy of the source, where the
tests that run its line are tried, the quickest first. A test that takes far longer than it did
hangs, and that counts as noticed, if it ends on the unchanged source. So a busy machine neither
kills a change nor lets it live. Tests that start commands, in which nobody sees what they run,
are tried last. A change that no test runs counts as survived; one whose tests would take minutes is
counted apart when those that were tried do not notice it.

    make mutants
    python tools/mutants.py --sample 50 --seed 7
    python tools/mutants.py --sample 30 --room scoring --tests tests/scoring

With `--room`, a room is mutated alone, and with `--tests` only these tests are considered. What
tests run is kept in `.mutants` until the source or the tests of the room change. A survivor that
changes nothing a user could notice stands in `tools/mutants.toml` with the reason: it is excused,
and counted apart.
"""

import argparse
import ast
import contextlib
import hashlib
import importlib
import json
import multiprocessing
import os
import random
import re
import select
import shutil
import signal
import sqlite3
import sys
import time
import tomllib
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple, NoReturn

import pytest

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / ".mutants"
GOAL = 0.92
PORTIONS = (
    (4, 60),
    (16, 300),
    (100, 1500),
)  # seconds of tests that a change is tried with, and how many
PYTEST = ("-q", "-n", "0", "-p", "no:cacheprovider", "-p", "mutants_on_pytest")
SERVER = f"mutants-{os.getpid()}"
# What a session of pytest has to import itself: our own, and the plugins whose asserts it rewrites.
NOT_SHARED = {
    *("evalwright", "__main__", "conftest", "mutants_on_pytest"),
    *("_hypothesis_pytestplugin", "hypothesis", "pytest_cov", "schemathesis", "xdist"),
    *("hypothesis_graphql", "hypothesis_jsonschema"),  # Hypothesis warns of what came before it
    *(path.stem for path in (ROOT / "tests").rglob("*") if path.suffix in ("", ".py")),
}

# The rooms, and the tests that are theirs. Left out are those that start processes or take
# seconds, and find what quicker tests find.
ROOMS = {
    "scoring": ["tests/scoring"],
    "comparison": ["tests/comparison", "tests/cli/test_compare_layouts.py"],
    "engine": [
        *("tests/engine", "tests/api", "tests/cli/test_traces_to_tests.py"),
        *("tests/cli/test_declared_bars.py", "tests/cli/test_input_files.py"),
    ],
    "engine/fleet": ["tests/fleet", "tests/cli/test_run_on_workers.py"],
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


class Cost(NamedTuple):
    """What a test took when it ran on the unchanged source: by the clock, and of the processor."""

    seconds: float
    cpu: float

    def exceeded(self, seconds: float, cpu: float) -> bool:
        """Whether it hangs: a busy machine makes a test late, and hardly takes more of the CPU."""
        return seconds > 45 + 10 * self.seconds or cpu > 20 + 5 * self.cpu


class Session(NamedTuple):
    """What came of a session of pytest; the code is None if it had to be killed."""

    code: int | None
    costs: dict[str, Cost]  # of the tests that passed
    failed: list[str]
    running: str  # the test that ran last
    imported: list[str]


def run_tests(copy: Path, arguments: Sequence[str], costs: dict[str, Cost], **more: str) -> Session:
    """Run pytest in a fork, which need not import anew what does not change.

    With the costs of the tests that run, one that hangs is killed, with all that it started.
    """
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        become_pytest(copy, arguments, MUTANTS_NOTES=str(writing), **more)
    os.close(writing)
    passed, failed = dict[str, Cost](), list[str]()
    imported, running, notes = list[str](), "", b""
    code, since, cpu_before, looked = None, time.monotonic(), 0.0, 0.0
    while True:
        ended, status = os.waitpid(process, os.WNOHANG)
        while select.select([reading], [], [], 0 if ended else 0.05)[0]:
            data = os.read(reading, 1 << 16)
            if not data:
                break
            *lines, notes = (notes + data).split(b"\n")
            for kind, what, *figures in map(json.loads, lines):
                if kind == "started":
                    running, since, cpu_before = what, time.monotonic(), cpu_of(process)
                elif kind == "passed":
                    passed[what] = Cost(*figures)
                elif kind == "failed":
                    failed.append(what)
                else:
                    imported = what
        if ended:
            code = os.waitstatus_to_exitcode(status)
            break
        now = time.monotonic()
        if costs and now - looked > 2:
            looked, usual = now, costs.get(running, Cost(0, 0))
            if usual.exceeded(now - since, cpu_of(process) - cpu_before):
                break
    os.close(reading)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
    if code is None:
        os.waitpid(process, 0)
    return Session(code, passed, failed, running, imported)


def become_pytest(copy: Path, arguments: Sequence[str], **more: str) -> NoReturn:
    """Run pytest with a copy of the source, and end."""
    code = 3
    try:
        os.setsid()
        out = os.open(WORK / f"{copy.name}.out", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for number in (1, 2):
            os.dup2(out, number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.chdir(ROOT)
        sys.path[:0] = [str(copy), str(ROOT / "tools")]
        sys.argv[:] = ["pytest"]
        os.environ |= {
            "PYTHONPATH": os.pathsep.join(sys.path[:2]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HYPOTHESIS_STORAGE_DIRECTORY": str(WORK / "hypothesis"),
            "PYTEST_XDIST_TESTRUNUID": SERVER,
            **more,
        }
        sys.dont_write_bytecode = bool(os.environ["PYTHONDONTWRITEBYTECODE"])
        code = int(pytest.main([*PYTEST, *arguments]))
    except BaseException:  # noqa: BLE001 - the process ends with it
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def cpu_of(session: int) -> float:
    """The CPU seconds of the processes of a session and of those that they waited for."""
    ticks = 0
    for place in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = place.read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:
                ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


class TestMap:
    """Which tests of a room run which lines, and what they cost."""

    def __init__(self, room: str, tests: Sequence[str], copy: Path) -> None:
        digest = hashlib.sha256(json.dumps([room, *tests]).encode())
        for place in [copy / "evalwright" / room, *(ROOT / each for each in tests)]:
            for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
                digest.update(path.read_bytes())
        name = f"{room.replace('/', '-')}-{digest.hexdigest()[:16]}"
        self._data, kept = WORK / f"{name}.db", WORK / f"{name}.json"
        if not kept.exists():
            settings = WORK / "coverage.ini"
            package = f"evalwright/{room}".replace("/", ".")
            settings.write_text(f"[run]\nsource_pkgs = {package}\n")  # others are not traced
            coverage = ["--cov", f"--cov-config={settings}", "--cov-context=test", "--cov-report="]
            arguments = [*coverage, *LEFT_OUT, *tests]
            session = run_tests(
                copy, arguments, {}, COVERAGE_FILE=str(self._data), PYTHONDONTWRITEBYTECODE=""
            )
            if not session.costs:
                sys.exit(f"the tests of {room} did not run: see {WORK / copy.name}.out")
            if session.failed:
                print(f"{room}: left out, since they fail: {' '.join(session.failed)}", flush=True)
            kept.write_text(json.dumps([session.costs, session.imported]))
        costs, self.imported = json.loads(kept.read_text())
        self.costs = {test: Cost(*figures) for test, figures in costs.items()}
        with sqlite3.connect(self._data) as db:
            seen = {row[0].rpartition("|")[0] for row in db.execute("SELECT context FROM context")}
        db.close()
        # What starts commands and runs nothing itself may run any line in them.
        self.unseen = sorted(self.costs.keys() - seen, key=lambda each: self.costs[each])

    def covering(self, change: Change) -> list[str]:
        """The tests that run a changed line, the quickest first."""
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
        return sorted(tests & self.costs.keys(), key=lambda each: self.costs[each])


def portions(tests: Sequence[str], costs: dict[str, Cost]) -> Iterator[list[str]]:
    """Tests in ever larger portions, as far as there is time: most changes fall to the first."""
    rest = list(tests)
    for seconds, most in PORTIONS:
        chosen, spent = list[str](), 0.0
        while rest and len(chosen) < most and (not chosen or spent < seconds):
            spent += costs[rest[0]].seconds
            chosen.append(rest.pop(0))
        if chosen:
            yield chosen


def try_change(change: Change, known: TestMap, copy: Path) -> tuple[str, str]:
    """What became of a change, and the test that noticed it."""
    tests, tried = known.covering(change), 0
    path = copy / change.file
    source = path.read_bytes()
    chosen = WORK / f"{copy.name}.tests"
    for portion in chain(portions(tests, known.costs), portions(known.unseen, known.costs)):
        chosen.write_text("\n".join(portion))
        try:
            forget_compiled(path)
            path.write_bytes(change.applied(source))
            session = run_tests(copy, ["-x", f"@{chosen}"], known.costs)
        finally:
            path.write_bytes(source)
            forget_compiled(path)
        if session.failed:
            return "killed", session.failed[0]
        if session.code != 0:  # no test said that it failed: it hangs, or nothing could be loaded
            chosen.write_text(session.running or portion[0])
            again = run_tests(copy, [f"@{chosen}"], known.costs)
            became = "timeout" if session.code is None else "killed"
            return ("undecided" if again.code else became), ""
        tried += len(portion)
    if tried < len(tests) + len(known.unseen):
        return "not tried by all", ""
    return ("survived" if tests else "no test"), ""


def forget_compiled(path: Path) -> None:
    """Remove the bytecode of a module, which is taken for that of any text of the same length."""
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()


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
    ready = list(copies(given.workers))
    all_counts = Counter[str]()
    every = {room: changes_of(room, ready[0]) for room in rooms}
    whole = sum(map(len, every.values()))
    with one_server_of_tests():
        for room, possible in every.items():
            number = min(len(possible), max(1, round(given.sample * len(possible) / whole)))
            drawn = random.Random(f"{given.seed} {room}").sample(possible, number)
            known = TestMap(room, given.tests or rooms[room], ready[0])
            print(
                f"\n{room}: {len(drawn)} of {len(possible)} changes, seed {given.seed}", flush=True
            )
            counts = try_changes(drawn, known, ready)
            all_counts += counts
            print(f"{room}: {told(counts)}", flush=True)
    print(f"\nall: {told(all_counts)}; goal {GOAL:.0%}")
    return 0 if share_killed(all_counts) >= GOAL else 1


def try_changes(drawn: Sequence[Change], known: TestMap, ready: Sequence[Path]) -> Counter[str]:
    """Try each change in a process of its copy, and print those that live."""
    for module in known.imported:
        if module.partition(".")[0] not in NOT_SHARED:
            with contextlib.suppress(Exception):
                importlib.import_module(module)
    sources = {change.file: (ready[0] / change.file).read_bytes() for change in drawn}
    excused, counts, noticing = reasons(), Counter[str](), dict[str, int]()
    context = multiprocessing.get_context("fork")
    tasks, results = context.SimpleQueue(), context.SimpleQueue()

    def work(copy: Path) -> None:
        while (number := tasks.get()) is not None:
            became = "undecided", ""
            try:
                became = try_change(drawn[number], known, copy)
            finally:
                results.put((number, *became))

    for number in (*range(len(drawn)), *(None for _ in ready)):
        tasks.put(number)
    workers = [context.Process(target=work, args=(copy,)) for copy in ready]
    for worker in workers:
        worker.start()
    for _ in drawn:
        number, became, test = results.get()
        if test:
            noticing[test] = noticing.get(test, 0) + 1
        if became not in {"killed", "timeout"}:
            change = drawn[number]
            shown = change.shown(sources[change.file])
            if became == "survived" and shown in excused:
                became = "excused"
            reason = excused.get(shown, "none given")
            print(f"{change.name}: {became}\n{shown}\n  reason: {reason}", flush=True)
        counts[became] += 1
    for worker in workers:
        worker.join()
    chosen = WORK / "noticing.tests"
    chosen.write_text("\n".join(noticing))
    for test in run_tests(ready[0], [f"@{chosen}"], known.costs).failed if noticing else []:
        print(f"{test} also fails on the unchanged source: what it noticed is undecided")
        counts["killed"] -= noticing[test]
        counts["undecided"] += noticing[test]
    return counts


@contextlib.contextmanager
def one_server_of_tests() -> Iterator[None]:
    """Keep the PostgreSQL of the tests running between their sessions, where there is one."""
    sys.path.append(str(ROOT / "tests"))
    from postgres_server import NoPostgres, binaries, shared_server

    with contextlib.ExitStack() as stack:
        with contextlib.suppress(NoPostgres):
            stack.enter_context(shared_server(SERVER, binaries()))
        yield


def share_killed(counts: Counter[str]) -> float:
    """The part of the changes that tests noticed."""
    return (counts["killed"] + counts["timeout"]) / max(1, decided(counts))


def decided(counts: Counter[str]) -> int:
    """Changes that tests could notice, and had the time to."""
    return counts.total() - sum(
        counts[each] for each in ("undecided", "not tried by all", "excused")
    )


def told(counts: Counter[str]) -> str:
    """What became of changes, in words."""
    killed = counts["killed"] + counts["timeout"]
    return f"{killed} of {decided(counts)} killed ({share_killed(counts):.1%}): {dict(counts)}"


if __name__ == "__main__":
    sys.exit(main())

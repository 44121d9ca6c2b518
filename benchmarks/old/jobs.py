"""A handful of jobs that people give to Evalwright, as commands that earlier releases know."""

import gzip
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from made_library import made_library
from made_runs import START, make_runs

from suites import checked_suite_file, suite_file

AGENT = f"{Path(__file__).parents[1] / 'subjects.py'}:instant"


@dataclass(frozen=True)
class Job:
    """A command, and what it reads: `make` writes it in a folder, for a share of the full work."""

    name: str
    make: Callable[[Path, float], Path]
    arguments: Callable[[Path, Path], list[str]]

    def command(self, inputs: Path, scratch: Path) -> list[str]:
        """The command, with a new place for what it writes.

        What earlier ones wrote stays to the end: right after many files were deleted, some file
        systems take many times as long to create others, and whoever comes next would pay for it.
        """
        return self.arguments(inputs, Path(tempfile.mkdtemp(dir=scratch)))


def a_task(folder: Path, _: float) -> Path:
    folder.mkdir()
    suite_file(folder, 1).rename(folder / "suite.json")
    return folder


def tasks(folder: Path, share: float) -> Path:
    folder.mkdir()
    suite_file(folder, int(5_000 * share)).rename(folder / "suite.json")
    return folder


def checked_tasks(folder: Path, share: float) -> Path:
    folder.mkdir()
    checked_suite_file(folder, int(3_000 * share)).rename(folder / "suite.json")
    return folder


def compared_runs(folder: Path, share: float) -> Path:
    make_runs(folder, int(2_000 * share))
    return folder


def traces(folder: Path, share: float) -> Path:
    """Traces of tasks with twenty events each, in one compressed file."""
    made, _ = make_runs(folder / "runs", int(3_000 * share), seed=2)
    with gzip.open(folder / "traces.jsonl.gz", "wt") as lines:
        for path in sorted(made.glob("order_*.json")):
            print(json.dumps({"started": START, **json.loads(path.read_text())}), file=lines)
    return folder


def prompts(folder: Path, share: float) -> Path:
    folder.mkdir()
    return made_library(folder, int(400 * share))


def run(inputs: Path, out: Path) -> list[str]:
    log = ["--db", str(out / "runs.db"), "--quiet", "--json"]
    return ["evalwright", "run", str(inputs / "suite.json"), "--agent", AGENT, *log]


def run_checks(inputs: Path, out: Path) -> list[str]:
    return [*run(inputs, out), "--agent-usage", "none"]  # without it, nobody knows what it costs


def compare(inputs: Path, out: Path) -> list[str]:
    sides = ["--baseline", str(inputs / "baseline"), "--new", str(inputs / "new")]
    return ["evalwright", "compare", *sides, "--out", str(out / "report"), "--fail-on", "none"]


def signals(inputs: Path, out: Path) -> list[str]:
    found = str(out / "signals.jsonl")
    return ["evalwright", "signals", "--traces", str(inputs / "traces.jsonl.gz"), "--out", found]


def lint(inputs: Path, _: Path) -> list[str]:
    return ["prompteval", str(inputs), "-t", "0", "--quiet", "--fail-on", "error"]


JOBS = (
    Job("one task", a_task, run),
    Job("run", tasks, run),
    Job("checks", checked_tasks, run_checks),
    Job("compare", compared_runs, compare),
    Job("signals", traces, signals),
    Job("prompts", prompts, lint),
)

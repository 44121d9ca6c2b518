"""Evalwright under measurement: always the command, as a user would type it."""

import json
import shutil
import sys
import time
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

from evalwright.store.protocol import NewEvent
from evalwright.store.sqlite.log import SqliteLog
from measure import NotMeasuredError, Place, Usage
from subjects import PAUSE
from suites import checked_suite_file, suite_file

ROOT = Path(__file__).parents[1]
COMMAND = Path(sys.executable).with_name("evalwright")
COMMITS = 20
ROUND_SECONDS = 0.005  # of our own, in a round of tasks that run at once


@dataclass(frozen=True)
class Ours:
    place: Place

    def command(self, *args: str, output: Path | None = None) -> Usage:
        if not COMMAND.exists():
            raise NotMeasuredError("no evalwright command beside this Python; try `make setup`")
        return self.place.measure([str(COMMAND), *args], cwd=ROOT, output=output)

    def startup(self, flag: str) -> dict[str, float]:
        return {"wall_seconds": self.command(flag).wall_seconds}

    def instant(self, agent: str, tasks: int, *options: str) -> dict[str, float]:
        used = self.run(agent, tasks, *options)
        return {"cpu_seconds": used.cpu_seconds, "peak_bytes": used.peak_bytes}

    def observing(self, agent: str, tasks: int, observe: str) -> dict[str, float]:
        return {"cpu_seconds": self.run(agent, tasks, "--observe", observe).cpu_seconds}

    def latency(self, agent: str, tasks: int, concurrency: int) -> dict[str, float]:
        commit = commit_seconds(self.place.scratch, concurrency)
        used = self.run(agent, tasks, "--concurrency", str(concurrency))
        seconds = span(self.show(agent, tasks, "--events")[1])
        rounds = tasks / concurrency
        bound = rounds * (PAUSE + commit + ROUND_SECONDS)
        figures = {"run_seconds": seconds, "commit_seconds": commit, "bound_ratio": seconds / bound}
        return {**figures, **asdict(used)}

    def memory(self, agent: str, tasks: int) -> dict[str, float]:
        peak = self.run(agent, tasks).peak_bytes
        summary = self.show(agent, tasks)[1]
        suite = suite_file(self.place.scratch, tasks)
        sizes = {"suite_bytes": suite.stat().st_size, "summary_bytes": summary.stat().st_size}
        return {"peak_bytes": peak, **sizes}

    def readback(self, agent: str, tasks: int) -> dict[str, float]:
        if not self.database(agent, tasks).exists():
            self.run(agent, tasks)
        return asdict(self.show(agent, tasks)[0])

    def checked(self, agent: str, tasks: int) -> dict[str, float]:
        suite = checked_suite_file(self.place.scratch, tasks)
        used = self.run(agent, tasks, "--agent-usage", "none", suite=suite)
        database = self.database(agent, tasks)
        log = ["--db", str(database), "--quiet", "--json"]
        again = self.command("rescore", "latest", *log, output=database.with_name("again"))
        check(database.with_name("again"), tasks)
        return {"cpu_seconds": used.cpu_seconds, "rescore_cpu_seconds": again.cpu_seconds}

    def run(self, agent: str, tasks: int, *options: str, suite: Path | None = None) -> Usage:
        database = self.database(agent, tasks)
        shutil.rmtree(database.parent, ignore_errors=True)
        database.parent.mkdir()
        suite = suite or suite_file(self.place.scratch, tasks)
        file = "instrumented" if agent.endswith("spans") else "subjects"
        subject = ["--agent", f"benchmarks/{file}.py:{agent}"]
        log = ["--db", str(database), "--quiet", "--json"]
        used = self.command("run", str(suite), *subject, *log, *options)
        check(self.show(agent, tasks)[1], tasks)
        return used

    def show(self, agent: str, tasks: int, *options: str) -> tuple[Usage, Path]:
        database = self.database(agent, tasks)
        output = database.with_name("shown")
        log = ["--db", str(database), "--json"]
        return self.command("show", "latest", *options, *log, output=output), output

    def database(self, agent: str, tasks: int) -> Path:
        return self.place.scratch / f"{agent}-{tasks}" / "runs.db"


def commit_seconds(folder: Path, answers: int) -> float:
    """The median time of one durable commit of so many answers: what a round waits for."""
    event = NewEvent("agent.reasoned", "t-000000", 0, b'{"reasoning":"%s"}' % (b"x" * 100))
    log, taken = SqliteLog(folder / "commits.db"), []
    for _ in range(COMMITS):
        began = time.perf_counter()
        for _ in range(answers):
            log.append("run_commits", [event] * 3)  # decided, completed, scored
        log.flush("run_commits").result()
        taken.append(time.perf_counter() - began)
    log.close()
    return median(taken)


def check(output: Path, tasks: int) -> None:
    """All tasks were really done, and passed: the time of failing work says nothing."""
    summary = json.loads(output.read_bytes())
    if (summary["taskCount"], summary["passedCount"]) != (tasks, tasks):
        raise NotMeasuredError(f"{summary['passedCount']} of {summary['taskCount']} tasks passed")


def span(output: Path) -> float:
    """Seconds from the start of the run to its end, by the timestamps of its log."""
    with output.open(encoding="utf-8") as lines:
        times = {event["type"]: moment(event) for event in map(json.loads, lines)}
    return (times["run.completed"] - times["run.started"]).total_seconds()


def moment(event: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(event["timestamp"])

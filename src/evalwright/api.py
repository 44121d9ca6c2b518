"""The Python interface: what `import evalwright` offers, on top of the rooms below."""

import asyncio
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict, Unpack
from warnings import warn

import msgspec
from msgspec import Meta

from evalwright.agents.python import callable_agent
from evalwright.contracts.errors import BadInput
from evalwright.contracts.planning import (
    MAX_CONCURRENCY,
    MAX_JUDGE_SAMPLES,
    MAX_REPEATS,
    FailOn,
    RunOptions,
)
from evalwright.contracts.suite import Suite
from evalwright.engine.execution import Outcome
from evalwright.engine.history import read_history
from evalwright.engine.listing import find_run, last_continuation, runs_of_group
from evalwright.engine.plan import refuse_combinations
from evalwright.engine.replay import project
from evalwright.engine.run_files import log_for
from evalwright.engine.session import Session, reasons_against
from evalwright.engine.subjects import SuiteSubject, given_subject, read_subject
from evalwright.engine.workers import complete, run_until_signalled
from evalwright.reports.run.stories import TaskStory, mask_stories, read_stories
from evalwright.store.location import chosen_path, existing_log, open_existing_log, opened_log

SuiteGiven = str | Path | Mapping[str, Any] | Suite
AgentGiven = str | Callable[[Any], Any]
Limit = Annotated[float, Meta(gt=0, le=sys.float_info.max)]


class Options(TypedDict, total=False):
    """The options of a run: those of `evalwright run`, by their names in `RunOptions`."""

    concurrency: Annotated[int, Meta(ge=1, le=MAX_CONCURRENCY)]
    task_timeout_s: Limit
    run_timeout_s: Limit
    model_timeout_s: Limit
    max_cost_usd: Limit
    task_cost_usd: Limit
    known_costs_only: bool
    read_only: bool
    tools: str
    gateway: bool
    cassette: str
    record: bool
    fail_on: Sequence[FailOn]
    flaky_as: Literal["fail", "warn"]
    modes: Sequence[str]
    tags: Sequence[str]
    allow_mismatch: bool
    model: str
    judges: Sequence[str]
    judge_samples: Annotated[int, Meta(ge=1, le=MAX_JUDGE_SAMPLES)]
    allow_self_judge: bool
    embedding_model: str
    baseline: str
    allow_partial: bool
    repeat: Annotated[int, Meta(ge=1, le=MAX_REPEATS)]


class TaskReport(msgspec.Struct, frozen=True):
    """One task of a run: what was asked, what the agent answered, and how it was scored."""

    id: str
    passed: bool
    score: float
    input: Any
    output: Any  # None where the agent failed
    error: dict[str, Any] | None = None
    latency_ms: int | None = None
    cost_usd: float | None = None
    findings: list[dict[str, str]] = []
    checks: list[dict[str, Any]] = []  # of repetitions, of the first one that did not pass


class RunResult:
    """A completed run, or the repeats of one.

    With repeats, `id`, `summary`, `tasks` and `events` are those of the first; `repeats` holds
    them all, `passed` asks all of them, and `score` is their mean.
    """

    def __init__(self, db: Path, outcomes: Sequence[Outcome]) -> None:
        first = outcomes[0]
        self._db = db
        self._outcome = first
        self.id: str = first.run_id
        self.reasons: list[str] = reasons_against(outcomes)
        self.passed: bool = not self.reasons
        self.score: float = sum(each.summary.aggregate_score for each in outcomes) / len(outcomes)
        self.repeats: tuple[RunResult, ...] = (
            (self,) if len(outcomes) == 1 else tuple(RunResult(db, [each]) for each in outcomes)
        )

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The EvalSummary, with the names it has on the wire."""
        return dict(msgspec.to_builtins(self._outcome.summary))

    @cached_property
    def tasks(self) -> dict[str, TaskReport]:
        """Every task by its id, in the order of the suite, read from the log."""
        results = {each.task_id: each for each in self._outcome.summary.tasks}
        return {
            story.task.task_id: _task_report(story, results[story.task.task_id])
            for story in self._stories(set(results))
        }

    def events(self) -> Iterator[dict[str, Any]]:
        """The events of the run, in order, as they are on the wire."""
        with existing_log(str(self._db)) as log:
            for event in log.read(self.id):
                yield msgspec.json.decode(event.to_json())

    def report(self) -> str:
        """The scorecard as `evalwright show` prints it: failures first, secrets masked."""
        from evalwright.reports.console import Style
        from evalwright.reports.run.scorecard import overrides_of, render_outcome

        failed = {each.task_id for each in self._outcome.summary.tasks if not each.passed}
        stories = mask_stories(self._stories(failed)) if failed else ()
        with existing_log(str(self._db)) as log:
            said = overrides_of(log, self.id)
        return render_outcome(self._outcome, stories, Style(colour=False), overrides=said)

    def _stories(self, wanted: set[str]) -> list[TaskStory]:
        with existing_log(str(self._db)) as log:
            return read_stories(log, self.id, wanted)

    def __repr__(self) -> str:
        verdict = "passed" if self.passed else "failed"
        return f"<run {self.id}: {verdict}, score {self.score:g}>"


def _task_report(story: TaskStory, result: Any) -> TaskReport:
    return TaskReport(
        id=result.task_id,
        passed=result.passed,
        score=result.score,
        input=story.task.input,
        output=story.decision if story.answered else None,
        error=story.error,
        latency_ms=result.latency_ms,
        cost_usd=result.cost_usd,
        findings=[msgspec.to_builtins(each) for each in story.findings],
        checks=[msgspec.structs.asdict(each) for each in story.checks],
    )


def run(
    suite: SuiteGiven,
    agent: AgentGiven | None = None,
    *,
    db: str | Path | None = None,
    agent_id: str | None = None,
    model_class: str | None = None,
    config: str | Path | None = None,
    **options: Unpack[Options],
) -> RunResult:
    """Run a suite against an agent; records it in the log and returns the result.

    `suite` is a file, a pack, a document, or a `Suite`; `agent` is a function that takes the task,
    sync or async, or a reference of `--agent`, unless the suite names one; `config` is a settings
    file. Other keywords are the options of `evalwright run`: `judges=["openai:gpt-4.1-mini"]`.

    Raises `EvalwrightError` where the run cannot be made; a bar that is not met is a result with
    `passed` False. Also works inside a running event loop, such as a notebook's; async code awaits
    `arun` instead, which does not block the loop.
    """
    given: dict[str, Any] = {"agent_id": agent_id, "model_class": model_class, "config": config}
    return _complete(arun(suite, agent, db=db, **given, **options))


async def arun(
    suite: SuiteGiven,
    agent: AgentGiven | None = None,
    *,
    db: str | Path | None = None,
    agent_id: str | None = None,
    model_class: str | None = None,
    config: str | Path | None = None,
    **options: Unpack[Options],
) -> RunResult:
    """Do what `run` does, in the event loop that is running."""
    loaded, name, agent = _subject(suite, agent)
    chosen = _options(options)
    subject = agent if isinstance(agent, str) else callable_agent(agent, agent_id, model_class)
    session = Session(
        subject, chosen, agent_id=agent_id, model_class=model_class, config=config, notify=warn
    )
    place = chosen_path(None if db is None else str(db)).absolute()
    try:
        with log_for(str(place), chosen.baseline) if chosen.baseline else nullcontext() as recorded:
            plans = session.plan(loaded.suite, name, recorded, source=loaded.source)
    except BaseException:
        await session.close()
        raise
    with opened_log(str(place)) as log:
        return RunResult(place, await session.run(log, plans))


def load(run: str = "latest", *, db: str | Path | None = None) -> RunResult:
    """A completed run, by its id, the beginning of its id, `latest`, or its files."""
    place = chosen_path(None if db is None else str(db)).absolute()
    with log_for(str(place), run) as log:
        history = read_history(log, last_continuation(log, find_run(log, run)))
        group = history.plan.group
        ids = [history.run_id] if group is None else runs_of_group(log, group.id)
        return RunResult(place, [project(read_history(log, each)) for each in ids])


class ComparisonResult:
    """What came of a comparison: `report` is the machine-readable report as a document."""

    def __init__(self, report: dict[str, Any], *, passed: bool) -> None:
        self.report = report
        self.passed = passed

    @property
    def verdict(self) -> str:
        """Whether to ship, in a sentence."""
        return str(self.report["summary"]["verdict"])

    @property
    def regressions(self) -> list[str]:
        """The cases that passed before and do not pass now."""
        worse = (it for it in self.report["items"] if it["baseline_pass"] and not it["new_pass"])
        return [item["case_id"] for item in worse]

    def __repr__(self) -> str:
        return f"<comparison: {self.verdict}>"


def compare(
    baseline: RunResult | str | Path,
    new: RunResult | str | Path,
    *,
    out: str | Path | None = None,
    cases: str | Path | None = None,
    db: str | Path | None = None,
) -> ComparisonResult:
    """Compare a new run with a baseline: what changed, why, and whether to ship.

    A side is a run, a run id, a run directory or a file of traces. `out` keeps the report folder.
    """
    from tempfile import TemporaryDirectory

    from evalwright.reports.folder.build import CompareOptions, compare_runs

    places = {side._db for side in (baseline, new) if isinstance(side, RunResult)}
    if len(places) > 1:
        raise BadInput(f"both runs must be in one log: {' and '.join(sorted(map(str, places)))}")
    place = db if db is not None else next(iter(places), None)
    with TemporaryDirectory() as scratch:
        folder = Path(out) if out is not None else Path(scratch) / "report"
        options = CompareOptions(
            baseline=baseline.id if isinstance(baseline, RunResult) else str(baseline),
            new=new.id if isinstance(new, RunResult) else str(new),
            out=folder,
            cases=None if cases is None else Path(cases),
        )
        path = None if place is None else str(place)
        written = compare_runs(options, partial(open_existing_log, path))
        report = msgspec.json.decode((folder / "compare-report.json").read_bytes())
    return ComparisonResult(report, passed=not written.blocks_shipping)


def scan(
    traces: str | Path | Mapping[str, Any],
    *,
    baseline: str | Path | Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """The security signals of recorded traces: one entry for each, with its `id` and `signals`.

    `traces` is a file in any format that `evalwright signals` reads, or one trace as a document;
    `baseline` has good traces of the same cases. What cannot be read has an `error`.
    Secrets in the evidence are masked.
    """
    from evalwright.signals.scan import BaselineTraces, scan_all

    known = BaselineTraces(*_recorded(baseline)) if baseline is not None else None
    return [msgspec.to_builtins(each) for each in scan_all(*_recorded(traces), known)]


def _recorded(traces: str | Path | Mapping[str, Any]) -> tuple[Iterable[bytes], str]:
    from evalwright.comparison.materialize import blocks, name_of

    if isinstance(traces, Mapping):
        return [msgspec.json.encode(traces)], "trace.json"
    path = Path(traces)
    return blocks(path), name_of(path)


def lint(
    *paths: str | Path,
    threshold: float | None = None,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    all_kinds: bool = False,
) -> list[dict[str, Any]]:
    """Check prompt files and folders without a model: a result for each file, as a document.

    The records that `prompteval -t 0` writes. `select` and `ignore` name rules; a file whose score
    is below `threshold`, in percent, does not pass. `all_kinds` also takes other formats, agents
    and instructions out of folders.
    """
    from evalwright.prompts.evaluate import DEFAULT_THRESHOLD, lint_files

    if not paths or "" in paths:
        raise BadInput("name files or folders with prompts, or `.` for the current folder")
    bar = DEFAULT_THRESHOLD if threshold is None else threshold
    files = [Path(path) for path in paths]
    found = lint_files(files, threshold=bar, select=select, ignore=ignore, all_kinds=all_kinds)
    return [msgspec.to_builtins(each) for each in found]


def _subject(suite: SuiteGiven, agent: AgentGiven | None) -> tuple[SuiteSubject, str, AgentGiven]:
    if isinstance(suite, Suite | Mapping):
        subject, name, chosen = given_subject(suite), "suite", agent
    else:
        subject = read_subject(suite, agent if isinstance(agent, str) else None)
        name, chosen = str(suite), agent if callable(agent) else None
    chosen = chosen or subject.agent
    if chosen is None:
        raise BadInput(f"{name}: names no agent; give one: run({name!r}, agent=answer)")
    return subject, name, chosen


def _options(given: Options) -> RunOptions:
    known = RunOptions.__struct_fields__
    if unknown := [name for name in given if name not in known]:
        raise BadInput(f"no such option: {', '.join(unknown)} (there are: {', '.join(known)})")
    wanted = {name: value for name, value in given.items() if value is not None}
    plain = {name: str(val) if isinstance(val, Path) else val for name, val in wanted.items()}
    try:
        checked = msgspec.convert(plain, Options)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$.")
        raise BadInput(f"{place.rstrip('`')}: {message.lower()}") from None
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in checked.items()
    }
    options = RunOptions(**values)
    refuse_combinations(options)
    return options


def _complete(work: Coroutine[Any, Any, RunResult]) -> RunResult:
    """Run a coroutine to its end; Ctrl-C cancels it, so that it can be resumed from the log."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        is_ours = (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        )
    else:
        return _complete_in_thread(work)
    try:
        return run_until_signalled(work, (signal.SIGINT,) if is_ours else ())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def _complete_in_thread(work: Coroutine[Any, Any, RunResult]) -> RunResult:
    """In a thread of its own, since a loop is running in this one."""
    loop = asyncio.new_event_loop()
    task = loop.create_task(work)
    ended = threading.Event()  # not `join`: an interrupt of it can leave a thread that is running

    def main() -> None:
        try:
            with suppress(BaseException):  # the task keeps it for the caller
                complete(loop, task)
        finally:
            ended.set()

    threading.Thread(target=main, name="evalwright-run").start()
    try:
        ended.wait()
    except BaseException:
        with suppress(RuntimeError):  # the loop has just ended
            loop.call_soon_threadsafe(task.cancel)
        ended.wait()
        raise
    return task.result()

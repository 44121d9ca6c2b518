"""Running suites: `run`, `arun` and `load`, with the options of the command line."""

import asyncio
import signal
import sys
import threading
from asyncio import Runner
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypedDict, TypeVar, Unpack, get_args
from warnings import warn

import msgspec
from msgspec import Meta

from evalwright.agents.python import callable_agent
from evalwright.api.runs import RunResult
from evalwright.api.suites import AgentGiven, Suite, Task
from evalwright.contracts import suite as contract
from evalwright.contracts.coverage import NO_CLAIMS, Observe, ToolsClaim, UsageClaim
from evalwright.contracts.errors import BadInput
from evalwright.contracts.messages import Text
from evalwright.contracts.run_plan import (
    MAX_CONCURRENCY,
    MAX_JUDGE_SAMPLES,
    MAX_REPEATS,
    FailOn,
    RunOptions,
)
from evalwright.engine.assembly import assembled, planned
from evalwright.engine.history import read_history
from evalwright.engine.plan import refuse_combinations
from evalwright.engine.replay import project
from evalwright.engine.runs import find_runs, last_continuation, log_for, runs_of_group
from evalwright.engine.suites.loader import SuiteSubject, given_subject, is_data_file, read_subject
from evalwright.engine.suites.selection import Wanted, select
from evalwright.engine.workers import complete, run_until_signalled
from evalwright.models.config import Config, load_config
from evalwright.models.run_defaults import configured_log
from evalwright.store.location import chosen_address, chosen_path, existing_log, opened_log

SuiteGiven: TypeAlias = (
    str | Path | Suite | Mapping[str, Any] | Sequence[Task | Mapping[str, Any]] | contract.Suite
)
T = TypeVar("T")
Limit = Annotated[float, Meta(gt=0, le=sys.float_info.max)]
Count = Annotated[int, Meta(ge=1)]


class TaskOptions(TypedDict, total=False):
    """Which tasks of a suite are run: those that every part agrees with."""

    tasks: Sequence[str]
    tagged: Sequence[str]
    failed: str
    errors: str
    sample: Count
    seed: int
    limit: Count


class Options(TaskOptions, total=False):
    """The options of a run: those of `evalwright run`, by their names in `RunOptions`."""

    concurrency: Annotated[int, Meta(ge=1, le=MAX_CONCURRENCY)]
    task_timeout_s: Limit
    run_timeout_s: Limit
    model_timeout_s: Limit
    scoring_s: Limit
    max_cost_usd: Limit
    task_cost_usd: Limit
    max_tokens_total: Count
    known_costs_only: bool
    read_only: bool
    tools: str
    gateway: bool
    isolate: bool
    observe: Observe
    otlp: bool
    cassette: str
    record: bool
    fail_on: Sequence[FailOn]
    flaky_as: Literal["fail", "warn"]
    modes: Sequence[str]
    tags: Sequence[str]
    title: str
    allow_mismatch: bool
    model: str
    agent_tools: ToolsClaim
    agent_usage: UsageClaim
    judges: Sequence[str]
    judge_samples: Annotated[int, Meta(ge=1, le=MAX_JUDGE_SAMPLES)]
    allow_self_judge: bool
    embedding_model: str
    user_model: str  # that plays the users of conversations
    baseline: str
    allow_partial: bool
    repeat: Annotated[int, Meta(ge=1, le=MAX_REPEATS)]
    priority: Annotated[int, Meta(ge=-1000, le=1000)]  # where workers share the log


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

    `suite` is a `Suite`, a list of tasks, a file, a pack, or a document; `agent` is a function that
    takes the task, sync or async, or a reference of `--agent`, unless the suite or the settings
    name one; `db` is the file of the log, and `config` a settings file. Other keywords are the
    options of `evalwright run`: `judges=["openai:gpt-4.1-mini"]`, `repeat=3`, `tasks=["order-*"]`.
    Judges are asked only where something is judged.

    Raises `EvalwrightError` where the run cannot be made; a bar that is not met is a result with
    `passed` False. Also works inside a running event loop, such as a notebook's; async code awaits
    `arun` instead, which does not block the loop.
    """
    given: dict[str, Any] = {"agent_id": agent_id, "model_class": model_class, "config": config}
    return complete_here(arun(suite, agent, db=db, **given, **options))


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
    chosen, wanted = _options(options)
    subject, name, agent = _subject(suite, agent)
    settings = load_config(named=config)
    place = log_place(db, settings)
    if wanted is not None:
        subject = _selected(subject, wanted, name, place)
    if chosen.concurrency is None:
        chosen = msgspec.structs.replace(chosen, concurrency=settings.run.concurrency)
    for notice in settings.notices:
        warn(str(notice), stacklevel=2)
    session = assembled(
        subject,
        name,
        chosen,
        callable_agent(agent, agent_id, model_class) if callable(agent) else agent,
        settings,
        agent_id=agent_id,
        model_class=model_class,
        notify=_warn,
    )
    try:
        plans = planned(session, subject, name, str(place))
    except BaseException:
        await session.close()
        raise
    with opened_log(str(place)) as log:
        return RunResult(place, await session.run(log, plans))


def _warn(notice: Text) -> None:
    warn(str(notice), stacklevel=2)


def load(run: str | Path | RunResult = "latest", *, db: str | Path | None = None) -> RunResult:
    """A completed run: by its id, the beginning of it, `latest`, a baseline's name, or its files.

    Its files are a folder of `run --out`, an `events.jsonl`, an exported run, or its page. A run
    that is given is read again. Repeats are loaded by the id of their group, or of any of them.
    """
    place, named = place_of(run, db)
    with log_for(str(place), named) as log:
        history = read_history(log, last_continuation(log, find_runs(log, named)[0]))
        group = history.plan.group
        ids = [history.run_id] if group is None else runs_of_group(log, group.id)
        return RunResult(place, [project(read_history(log, each)) for each in ids])


def place_of(run: Any, db: str | Path | None) -> tuple[str | Path, str]:
    """The log of a run, and its name there."""
    if isinstance(run, RunResult):
        return log_place(run.db if db is None else db), run.id
    if isinstance(run, str | Path) and str(run):
        return log_place(db), str(run)
    raise BadInput(f"{run!r:.60} is not a run: give its id, latest, a baseline's name or files")


def log_place(db: str | Path | None, settings: Config | None = None) -> str | Path:
    """The file or the address of the log: as named, or as the environment or settings name it."""
    given = None if db is None else str(db)
    if given is None:
        given = configured_log(given, (settings or load_config()).run)
    return chosen_address(given) or chosen_path(given).absolute()


def _subject(
    suite: SuiteGiven, agent: AgentGiven | None
) -> tuple[SuiteSubject, str, AgentGiven | None]:
    """The suite, how messages call it, and the agent that it or the caller names."""
    if agent is not None and not isinstance(agent, str) and not callable(agent):
        raise BadInput(f"agent {agent!r:.60}: not a function; pass a function or a reference")
    if isinstance(suite, Suite):
        subject = suite.subject()
        if agent is not suite.agent:
            subject = _claiming(subject, agent)
        return subject, suite.name, agent or suite.agent or subject.agent
    if isinstance(suite, contract.Suite | Mapping):
        subject = given_subject(suite)
        return _claiming(subject, agent), "suite", agent or subject.agent
    if isinstance(suite, str | Path):
        if is_data_file(str(suite)):
            wanted = "ew.Suite.from_file(file, checks=[ew.contains('{{ expected }}')])"
            raise BadInput(f"{suite}: say what a good answer is: {wanted}")
        subject = read_subject(suite, agent if isinstance(agent, str) else None)
        given = agent if callable(agent) else None
        return _claiming(subject, given), str(suite), given or subject.agent
    if not isinstance(suite, Iterable):
        raise BadInput(f"{suite!r:.60} is not a suite: pass an ew.Suite, a file or a list of tasks")
    return _subject(Suite(tasks=suite), agent)


def _claiming(subject: SuiteSubject, agent: AgentGiven | None) -> SuiteSubject:
    """The subject without its claims where they are of another agent than the caller's."""
    return subject if agent in (None, subject.agent) else subject._replace(claims=NO_CLAIMS)


def _selected(subject: SuiteSubject, wanted: Wanted, name: str, place: str | Path) -> SuiteSubject:
    with existing_log(str(place)) if wanted.needs_log else nullcontext() as log:
        suite, selection = select(subject.suite, wanted, name, log)
    return subject._replace(suite=suite, selection=selection)


def _options(given: Options) -> tuple[RunOptions, Wanted | None]:
    known = (*RunOptions.__struct_fields__, *Wanted.__struct_fields__)
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, 1)
            remedy = f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}"
            raise BadInput(f"no such option: {name} ({remedy})")
    wanted = {name: value for name, value in given.items() if value is not None}
    plain = {name: str(val) if isinstance(val, Path) else val for name, val in wanted.items()}
    try:
        checked = msgspec.convert(plain, Options)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$.")
        name = place.rstrip("`")
        raise BadInput(f"{name}: {_in_python(message, name, plain.get(name))}") from None
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in checked.items()
    }
    chosen = {name: values.pop(name) for name in Wanted.__struct_fields__ if name in values}
    options = RunOptions(**values, seed=chosen.get("seed"))
    if "sample" not in chosen:
        chosen.pop("seed", None)
    refuse_combinations(options)
    return options, Wanted(**chosen) if chosen else None


def _in_python(message: str, name: str, value: object) -> str:
    """What is wrong with an option, in words of Python."""
    if isinstance(value, str) and message.startswith("Expected `array`"):
        return f"expected a list, such as [{value!r}]"
    if message.startswith("Invalid enum value") and name.startswith("fail_on"):
        return f"{message.lower()} (there are: {', '.join(get_args(FailOn))})"
    return message.lower()


def complete_here(work: Coroutine[Any, Any, T]) -> T:
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


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C interrupt; `asyncio.run` would only tell its loop, which is waiting here."""
    handler = signal.getsignal(signal.SIGINT)
    is_of_loop = isinstance(getattr(getattr(handler, "func", None), "__self__", None), Runner)
    if not is_of_loop or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def _complete_in_thread(work: Coroutine[Any, Any, T]) -> T:
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
        with _interruptible():
            ended.wait()
    except BaseException:
        with suppress(RuntimeError):  # the loop has just ended
            loop.call_soon_threadsafe(task.cancel)
        ended.wait()
        raise
    return task.result()

"""From a request for a run to its results: a session with progress on stderr, and interrupts."""

import gc
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from evalwright.cli.output import (
    Streams,
    in_words,
    reserve_stdout,
    run_until_interrupted,
    say,
    warn,
    write_stdout,
)
from evalwright.cli.results import Results, say_next, write_failure, write_results
from evalwright.contracts.errors import (
    BadInput,
    CannotEvaluate,
    EvalwrightError,
    Interrupted,
    RunFailed,
)
from evalwright.contracts.messages import Text
from evalwright.contracts.run_plan import RunOptions
from evalwright.contracts.short_names import suite_name
from evalwright.contracts.suite import Suite, weight_warnings
from evalwright.engine.assembly import assembled, planned
from evalwright.engine.history import History
from evalwright.engine.plan import Plan, refuse_combinations
from evalwright.engine.session import Session
from evalwright.engine.suites.loader import SuiteSubject, read_subject
from evalwright.engine.verdict import Outcome
from evalwright.models.config import Config, load_config
from evalwright.models.run_defaults import configured_log
from evalwright.reports.formats.console import Style, wrapped
from evalwright.reports.forms import FORMS_OF, STEP_SUMMARY
from evalwright.reports.run.progress import progress_for
from evalwright.store.location import existing_log, opened_log, shown_db
from evalwright.store.protocol import EventLog

if TYPE_CHECKING:
    from evalwright.cli.watchdog import Watchdog
    from evalwright.engine.rescore import Rescore
    from evalwright.engine.suites.selection import Wanted

CHOOSING = ("tasks", "tagged", "failed", "errors", "sample", "seed", "limit")
COLUMNS = ("inputs", "expected", "id", "checks")
_IDENTITY = ("agent_id", "model_class", "allow_no_baseline", "workers")
_MAY_BE_ITS_AGENT = (
    "of the agent, whose code may change anything in this process: with --isolate, it cannot"
)
MOST_WARNINGS = 5
GARBAGE_AT = 20_000  # objects; tasks leave hardly any, and looking for it takes time


class RunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A suite to run or a run to resume, and where its results are wanted."""

    suite: Path | None
    agent: str | None
    agent_id: str | None = None
    model_class: str | None = None
    resume: str | None = None
    options: RunOptions
    results: Results
    db: str | None
    config: Config | Path | None = None  # None: what counts in the working folder
    wanted: "Wanted | None" = None  # None: all tasks
    columns: Mapping[str, Any] = {}  # of a data file, by the names of `ColumnChoice`
    allow_no_baseline: bool = False
    workers: bool = False  # the fleet executes it


def start(given: dict[str, Any]) -> int:
    """Do what the options of `evalwright run` say; returns the exit code."""
    config = load_config(named=given.pop("config"))
    for notice in config.notices:
        warn(notice)
    wanted, defaults, resume = None, config.run, given.pop("resume")
    chosen = {name: value for name in CHOOSING if (value := given.pop(name)) not in (None, ())}
    given["seed"] = chosen.get("seed")
    if "sample" not in chosen:
        chosen.pop("seed", None)
    columns = {name: value for name in COLUMNS if (value := given.pop(name)) not in (None, ())}
    if chosen:
        from evalwright.cli.run_options import wanted_tasks

        wanted, given["suites"] = wanted_tasks(chosen, given["suites"], resume)
    given["db"] = configured_log(given["db"], defaults)
    if resume is None:
        given["suites"] = given["suites"] or tuple(map(Path, defaults.suites))
        if given["concurrency"] is None:
            given["concurrency"] = defaults.concurrency
    suites, agents, models = (given.pop(name) for name in ("suites", "agents", "models"))
    if bool(suites) == (resume is not None):
        both = ", not both" if suites else ", or set `suites` in a settings file"
        raise BadInput(f"name a suite, or a run with --resume{both}; try `run --help`")
    out, host = given.pop("out"), given.pop("host")
    if given.pop("watch"):
        from evalwright.cli.watch import run_again_on_change

        return run_again_on_change(suites, agents, [out, *map(given.get, FORMS_OF["run"])])
    as_json, db = given.pop("as_json"), given.pop("db")
    results = Results(
        emit=reserve_stdout() if as_json else write_stdout,
        as_json=as_json,
        forms={name: path.absolute() for name in FORMS_OF["run"] if (path := given.pop(name))},
        out=out and out.absolute(),  # an agent may change folder
        suite=suites[0].absolute() if suites else None,
        summarised=bool(os.environ.get(STEP_SUMMARY)),
        **{name: given.pop(name) for name in ("quiet", "show_secrets", "github")},
    )
    identity = {name: given.pop(name) for name in _IDENTITY}
    options = RunOptions(**given, model=models[0] if models else None)  # each by its own name
    refuse_combinations(options, is_resumed=resume is not None)
    if options.priority is not None and not identity["workers"]:
        raise BadInput("--priority needs --workers")
    request = RunRequest(
        suite=suites[0] if suites else None,
        agent=agents[0] if agents else None,
        resume=resume,
        options=options,
        results=results,
        db=db,
        config=config,
        wanted=wanted,
        columns=columns,
        **identity,
    )
    with results.places():
        if host is not None:
            from evalwright.cli import remote

            code = remote.evaluate(host, request, [suites, agents])
        elif max(map(len, (suites, agents, models))) <= 1 and not any(map(Path.is_dir, suites)):
            code = evaluate(request)
        else:
            from evalwright.cli.several import evaluate_several

            code = evaluate_several(request, suites, agents, models)
    return results.ended(code, "the gates passed" if options.fail_on and not code else "")


def evaluate(request: RunRequest) -> int:
    """Run or resume, write the results, and return the exit code."""
    if request.resume is not None:
        from evalwright.engine.resume import resume

        with existing_log(request.db) as log:
            left = resume(
                log,
                request.resume,
                request.options,
                agent=request.agent,
                agent_id=request.agent_id,
                model_class=request.model_class,
                config=request.config,
                notify=warn,
            )
            outcomes = left.done
            if left.session is None:
                say(f"run {outcomes[-1].run_id} is complete; nothing is left to do")
            else:
                outcomes = outcomes + ProgressObserver(request, log).run(left.session, left.pending)
            return _ended(request, log, outcomes)
    gc.disable()  # what is read stays to the end: nobody looks for garbage in it, now or later
    try:
        subject = read_subject(str(request.suite), request.agent, request.columns)
        if request.wanted is not None:
            subject = select_tasks(request, request.wanted, subject)
        session, plans = prepare(request, subject)
    finally:
        gc.freeze()
        gc.set_threshold(GARBAGE_AT)
        gc.enable()
    with opened_log(request.db) as log:
        outcomes = ProgressObserver(request, log).run(session, plans)
        return _ended(request, log, outcomes)


def _ended(request: RunRequest, log: EventLog, outcomes: Sequence[Outcome]) -> int:
    code = write_results(request.results, log, outcomes)
    say_next(request.results, log, outcomes, request.db)
    return code


def select_tasks(request: RunRequest, wanted: "Wanted", subject: SuiteSubject) -> SuiteSubject:
    """The suite with the tasks that are wanted; raises `BadInput` if there are none."""
    from evalwright.engine.suites.selection import select

    name = str(request.suite)
    if not wanted.needs_log:
        suite, selection = select(subject.suite, wanted, name)
    else:
        from evalwright.engine.runs import log_for

        with log_for(request.db, wanted.failed, wanted.errors) as log:
            suite, selection = select(subject.suite, wanted, name, log)
    return subject._replace(suite=suite, selection=selection)


def prepare(
    request: RunRequest,
    subject: SuiteSubject,
    *,
    among_others: bool = False,
    notify: Callable[[Text], None] = warn,
) -> tuple[Session, list[Plan]]:
    """A session and the runs that it will execute; nothing has started yet."""
    name, asked, is_quiet = str(request.suite), request.options, request.results.quiet
    if request.allow_no_baseline and asked.baseline is not None:
        from evalwright.cli.run_options import with_known_baseline

        asked = with_known_baseline(asked, subject.suite, name, request.db)
    for notice in () if is_quiet else subject.notices:
        say(f"{name}: {in_words(notice)}")
    config = request.config
    try:
        session = assembled(
            subject,
            name,
            asked,
            subject.agent,
            config if isinstance(config, Config) else load_config(named=config),
            agent_id=request.agent_id,
            model_class=request.model_class,
            notify=notify,
            spares_judges=among_others,
        )
    except BadInput as error:
        if request.agent is None and in_words(error).startswith("--agent "):
            error.add_note(f"{name} names this agent")
        raise
    if session.options.judges and not is_quiet:
        warn_of_weights(subject.suite, name)
    plans = planned(session, subject, name, request.db)
    if session.options.fail_on != asked.fail_on and not is_quiet:
        from evalwright.cli.run_options import told_gates

        for told in told_gates(plans[0]):
            say(f"{name}: {in_words(told)}")
    return session, plans


def warn_of_weights(suite: Suite, name: str) -> None:
    """Say which rubrics of a suite have weights that do not sum to 1."""
    warnings = weight_warnings(suite)
    for warning in warnings[:MOST_WARNINGS]:
        warn(f"{name}: {warning}")
    if len(warnings) > MOST_WARNINGS:
        more = len(warnings) - MOST_WARNINGS
        warn(f"{name}: {more} more like this; `evalwright validate` lists all")


class ProgressObserver:
    """Shows runs as they are executed, and says how to go on with one that was stopped."""

    def __init__(self, request: RunRequest, log: EventLog, label: str = "") -> None:
        self._request = request
        self._log = log
        self._label = label  # which of several suites it is
        self._shown = ExitStack()
        self._run_id: str | None = None  # of the run that is being executed
        self._watch = log.watch
        self._watchdog: Watchdog | None = None  # over agents in this process

    def run(self, session: Session, pending: "Sequence[Plan | History | Rescore]") -> list[Outcome]:
        """Execute all of them; the first that fails is the last."""
        execute: Any = session.run
        if self._request.workers:
            from evalwright.cli.parameters import fleet_address
            from evalwright.engine.fleet.handover import HandedRuns

            handed = HandedRuns(session, fleet_address(self._request.db), say)
            execute, self._watch = handed.run, handed.watch
        with ExitStack() as until_it_ends:
            if "evalwright.agents.python" in sys.modules and not self._request.workers:
                from evalwright.cli.watchdog import watching

                self._watchdog = until_it_ends.enter_context(watching(session))
            until_it_ends.enter_context(self._shown)
            try:
                return run_until_interrupted(execute(self._log, pending, self))
            except (Interrupted, CannotEvaluate) as error:
                if isinstance(error, RunFailed):
                    write_failure(self._request.results, self._log, error)
                self._explain(error)
                raise
            except Exception as error:
                if self._watchdog is not None:
                    error.add_note(_MAY_BE_ITS_AGENT)
                raise

    def _explain(self, error: EvalwrightError) -> None:
        if self._run_id is None:
            return
        where, more = self._where(), " --workers" if self._request.workers else ""
        if self._request.workers and isinstance(error, Interrupted):
            again = f"evalwright run --resume {self._run_id} --workers{where}"
            error.add_note(f"run {self._run_id} stays with the workers; follow it again: {again}")
            error.add_note(f"cancel it: evalwright cancel {self._run_id}{where}")
            return
        if isinstance(error, RunFailed):
            error.add_note(f"see why: evalwright show {self._run_id}{where}")
            more += " --max-cost MORE" if error.code == "budget_exhausted" else ""
        error.add_note(self._how_to_resume(more))

    def _where(self) -> str:
        db = self._request.db
        return f" --db {shlex.quote(shown_db(db))}" if db else ""

    def _how_to_resume(self, more: str) -> str:
        return f"resume with: evalwright run --resume {self._run_id}{more}{self._where()}"

    def run_begins(self, history: History) -> None:
        self._run_id = history.run_id
        if self._watchdog is not None:
            self._watchdog.advise(self._how_to_resume(" --isolate"))
        plan, done, quiet = history.plan, len(history.scored), self._request.results.quiet
        count = len(plan.suite.tasks)
        if not quiet:
            already = f", {done} already scored" if done else ""
            answered = f", {len(history.awaiting)} to be judged" if history.awaiting else ""
            if plan.rescored_from is not None:
                answered = f" with the answers of run {plan.rescored_from}"
            if plan.traces is not None:
                answered = f" with the answers in {plan.traces}"
            live = ", live-shadow: nondeterministic" if "live-shadow" in plan.modes else ""
            repeat = f" ({plan.group.index} of {plan.group.size})" if plan.group else ""
            part = f" of {plan.selection.of}" if plan.selection else ""
            suite = suite_name(f"{plan.suite.suite_id}@{plan.suite.version}")
            noun = "task" if (plan.selection.of if plan.selection else count) == 1 else "tasks"
            begun = (
                f"{self._label}{suite}: {count}{part} "
                f"{noun}{already}{answered} "
                f"against {plan.agent.name}{live}, run {history.run_id}{repeat}"
            )
            say("\n".join(wrapped(begun, Style.of(Streams.err).width, hanging="  ")))
        if history.is_new:
            display = progress_for(Streams.err, count, quiet=quiet)
        else:
            passed, cost = history.tally.passed_count, history.tally.cost.total_usd
            display = progress_for(Streams.err, count, done, passed, cost, quiet=quiet)
        self._shown.enter_context(display)
        if not quiet:
            self._watch(history.run_id, display.add)

    def run_ended(self, outcome: Outcome) -> None:  # noqa: ARG002 - the observer's signature
        self._shown.close()

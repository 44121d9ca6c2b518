"""`evalwright run --host`: a host runs the suite; it is watched and reported here.

The events of the run are taken over into a log for the time of the command, and everything that is
shown comes from that log, as it does for a run of this machine.
"""

import asyncio
import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import msgspec
from click.core import ParameterSource

from evalwright.agents.load import ARCHIVES
from evalwright.cli.evaluation import RunRequest, warn_of_weights
from evalwright.cli.output import Streams, in_words, run_until_interrupted, say
from evalwright.cli.results import write_failure, write_results
from evalwright.client import AsyncClient, HostError, Retries, RunEvent, Unreachable
from evalwright.client.stream_position import NOTICE
from evalwright.contracts import errors
from evalwright.contracts.documents import parse_document, read_input
from evalwright.contracts.events import EvalStarted, RunCancelled
from evalwright.contracts.run_plan import CONFIGURABLE, FIRST_RULE, to_configurable
from evalwright.contracts.short_names import suite_name
from evalwright.contracts.suite import Suite, is_evalwright_suite, parse_suite
from evalwright.engine.baselines import scored_now
from evalwright.engine.history import History, read_history
from evalwright.engine.replay import project
from evalwright.engine.runs import LATEST
from evalwright.engine.suites.loader import is_data_file
from evalwright.engine.verdict import Outcome, reasons_to_fail
from evalwright.reports.forms import FORMS_OF
from evalwright.reports.run.progress import Progress, progress_for
from evalwright.scoring.pass_bars import missed_bars, results_of
from evalwright.store.protocol import EventLog, NewEvent
from evalwright.store.sqlite.log import SqliteLog

KEY_VARIABLE = "EVALWRIGHT_KEY"

_ALWAYS = frozenset(
    {"host", "fail_on", "out", "quiet", "as_json", "show_secrets", *FORMS_OF["run"]}
)
_TO_BEGIN = frozenset({"suites", "agents", "tags", *CONFIGURABLE.values()})


def evaluate(url: str, request: RunRequest, named: Sequence[Sequence[object]]) -> int:
    """Have the suite run, or watch a run again; write the results, and give the exit code.

    `named` are the suites and the agents that were named: a host takes one of each.
    """
    # Refuse, by name, what was given and cannot be done by a host.
    context = click.get_current_context()
    is_resumed = request.resume is not None
    known = _ALWAYS | ({"resume"} if is_resumed else _TO_BEGIN)
    given = [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name not in known
        and context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
    ]
    if given:
        what = "a run that is watched again" if is_resumed else "a run of a host"
        raise errors.BadInput(f"--host: {what} does not take {', '.join(given)}; leave it out")
    if any(len(each) > 1 for each in named):
        raise errors.BadInput("--host: a host runs one suite with one agent at a time; name one")
    key = os.environ.get(KEY_VARIABLE)
    if not key:
        raise errors.BadInput(
            f"--host: set {KEY_VARIABLE} to a key of the host; there is no option for it, since "
            "others could read it in the list of processes"
        )
    with _temporary_log() as log:
        watch = _Watch(url, key, request, log)
        try:
            run_until_interrupted(watch.run())
        except (HostError, Unreachable, errors.Interrupted) as error:
            watch.explain(error)
            raise
        try:
            # What the run came to; which of it makes the exit code 1 is decided here.
            history = read_history(log, watch.run_id)
            if history.end is not None and history.end.type == RunCancelled.TYPE:
                raise errors.CannotEvaluate(f"run {watch.run_id} was cancelled; it has no result")
            plan = msgspec.structs.replace(history.plan, group=None)  # it is watched by itself
            fail_on = request.options.fail_on or plan.settings.fail_on
            settings = msgspec.structs.replace(plan.settings, fail_on=fail_on)
            history.plan = msgspec.structs.replace(plan, settings=settings)
            outcome = project(history)
            is_ours = request.resume is None  # and not a run that was recorded before
            outcome = by_the_rule_of_today(log, history, outcome) if is_ours else outcome
        except errors.RunFailed as failure:
            write_failure(request.results, log, failure)
            raise
        return write_results(request.results, log, [outcome])


@contextmanager
def _temporary_log() -> Iterator[EventLog]:
    with TemporaryDirectory(prefix="evalwright-") as folder:
        log = SqliteLog(Path(folder) / "host.db")
        try:
            yield log
        finally:
            log.close()


class _Watch:
    """One run of a host, from the request for it to its last event."""

    def __init__(self, url: str, key: str, request: RunRequest, log: EventLog) -> None:
        self.run_id = request.resume or ""
        self._url = url
        self._client = AsyncClient(url, key)
        self._request = request
        self._log = log

    async def run(self) -> None:
        """Begin the run, unless it is named, and take its events over."""
        async with self._client:
            # See, without the key and without patience, that there is a host that can do this.
            async with AsyncClient(self._url, retries=Retries(limit=0)) as stranger:
                capabilities = await stranger.capabilities()
            if capabilities.implementation.name != "evalwright":
                raise errors.BadInput(
                    f"{self._url} is not an Evalwright host; `evalwright.client` may work with it"
                )
            if not self.run_id:
                self.run_id = await self._begin()
            elif self.run_id == LATEST:
                self.run_id = await self._latest()
            await self._follow()

    def explain(self, error: errors.EvalwrightError) -> None:
        """Say more about an error: all the rules that were broken, and that the run goes on."""
        if isinstance(error, HostError):
            for problem in error.details.get("problems", [])[1:]:
                error.add_note(f"{problem.get('path')}: {problem.get('message')}")
        if self.run_id and not self._request.resume:
            again = f"evalwright run --host {shlex.quote(self._url)} --resume {self.run_id}"
            error.add_note(f"the host goes on with run {self.run_id}; watch it again: {again}")

    async def _begin(self) -> str:
        request = self._request
        assert request.suite is not None
        name = str(request.suite)
        if name.lower().endswith(ARCHIVES):
            raise errors.BadInput(
                f"{name}: a host runs packs that are installed on it; name a suite"
            )
        if is_data_file(name):
            raise errors.BadInput(f"{name}: name this file in `data` of a suite, with its checks")
        if request.agent is None:
            raise errors.BadInput("name the agent with --agent: its id on the host")
        source = read_input(request.suite)
        if b"evalwright" in source and is_evalwright_suite(
            document := parse_document(source, name)
        ):
            # Publish a suite with checks; the agent is the one that was named.
            # It is sent as it is written, with the data of its worlds, or with the tasks made of
            # the rows of its files.
            from evalwright.engine.suites.document import load_suite
            from evalwright.engine.suites.export import to_document
            from evalwright.engine.suites.problems import placed

            sent = {key: value for key, value in document.items() if key != "agent"}
            try:
                read = load_suite(sent, name=name, folder=Path(name).parent, allow_files=True)
            except errors.InvalidDocument as error:
                raise errors.InvalidDocument(
                    name, placed(error.problems, source, document)
                ) from None
            suite = read.suite
            ref = f"{suite.suite_id}@{suite.version}"
            # The name may be the file's.
            sent |= {"suiteId": suite.suite_id, "version": suite.version}
            if "worlds" in sent:
                sent["worlds"] = {
                    name: world | {"data": suite.worlds[name].data}
                    for name, world in sent["worlds"].items()
                }
            if "data" in sent or suite.attachments:
                sent = to_document(suite)
                for notice in () if self._request.results.quiet else read.notices:
                    say(f"{name}: {in_words(notice)}")
            try:
                await self._client.publish_suite(sent)
            except HostError as error:
                if error.code == "conflict":
                    raise self._other_content(name, ref) from None
                raise
        else:
            suite = parse_suite(source, name)
            if not request.results.quiet:
                warn_of_weights(suite, name)
            ref = f"{suite.suite_id}@{suite.version}"
            await self._publish(suite, ref, name)
        options = request.options
        created = await self._client.create_run(
            ref,
            request.agent,
            modes=options.modes,  # type: ignore[arg-type]  # click knows the choices
            baseline_run_id=await self._baseline(ref),
            tags=options.tags,
            configurable=to_configurable(msgspec.structs.replace(options, modes=(), baseline=None)),
        )
        return created.run_id

    async def _publish(self, suite: Suite, ref: str, name: str) -> None:
        """Publish the suite where it is not; what is there already must be the same."""
        try:
            published = await self._client.suite(ref)
        except HostError as error:
            if error.code != "not_found":
                raise
            await self._client.publish_suite(suite)
            return
        if published != suite:
            raise self._other_content(name, ref)

    def _other_content(self, name: str, ref: str) -> errors.BadInput:
        return errors.BadInput(
            f"{name}: {ref} is published on {self._url} with another content; "
            "give the changed suite a new version"
        )

    async def _latest(self) -> str:
        async for run in self._client.runs():
            if run.eval_suite_ref is not None:
                return run.run_id
        raise errors.RunNotFound(f"--resume latest: there is no run on {self._url} yet")

    async def _baseline(self, ref: str) -> str | None:
        if self._request.options.baseline != LATEST:
            return self._request.options.baseline
        async for run in self._client.runs(status="completed", suite_ref=ref):
            return run.run_id
        raise errors.RunNotFound(f"--baseline latest: {self._url} has no completed run of {ref}")

    async def _follow(self) -> None:
        run_id = self.run_id
        with ExitStack() as shown:
            display: Progress | None = None
            async for event in self._client.events(run_id, mode="debug"):
                if event.type == NOTICE:
                    continue
                taken = NewEvent(event.type, event.node_id, event.at_us, bytes(event.payload))
                self._log.append(run_id, [taken])
                if event.type == EvalStarted.TYPE:
                    display = shown.enter_context(self._display(event))
                elif display is not None:
                    display.add([taken])
        await asyncio.wrap_future(self._log.flush(run_id))

    def _display(self, event: RunEvent) -> Progress:
        started, quiet = event.decode(EvalStarted), self._request.results.quiet
        if not quiet:
            noun = "task" if started.task_count == 1 else "tasks"
            against = f" against {self._request.agent}" if self._request.agent else ""
            suite = suite_name(f"{started.suite_id}@{started.suite_version}")
            say(f"{suite}: {started.task_count} {noun}{against} on {self._url}, run {self.run_id}")
        return progress_for(Streams.err, started.task_count, quiet=quiet)


def by_the_rule_of_today(log: EventLog, history: History, outcome: Outcome) -> Outcome:
    """A run that has just been made: a host of an earlier version must not let pass what we do not.

    The scores stay those of the host.
    """
    plan = outcome.plan
    if plan.scoring != FIRST_RULE:
        return outcome
    missed = missed_bars(plan.suite, results_of(scored_now(log, history)[0]))
    told = [f"{each}; the host, which is older, has another rule: update it" for each in missed]
    broken = [*outcome.broken_bars, *told]
    summary = msgspec.structs.replace(outcome.summary, passed=not broken)
    reasons = reasons_to_fail(plan, summary, broken)
    return msgspec.structs.replace(outcome, summary=summary, broken_bars=broken, reasons=reasons)

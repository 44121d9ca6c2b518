"""Replay: the summary again, from recorded facts alone; nothing is invoked."""

from collections.abc import Callable, Iterator

import msgspec

from evalwright.contracts import errors
from evalwright.contracts.events import RunCompleted, recorded_summary
from evalwright.contracts.messages import phrase
from evalwright.engine.history import History, read_history
from evalwright.engine.verdict import Outcome
from evalwright.store.inspection import LogProblem
from evalwright.store.protocol import EventLog, RunFilter


def replay_run(log: EventLog, run_id: str) -> Outcome:
    """Rebuild the summary of a completed run; it must equal the recorded one byte for byte."""
    log.verify(run_id)
    return rebuilt(read_history(log, run_id), log.place)


def rebuilt(history: History, place: str) -> Outcome:
    """The outcome of a completed run; raises `DamagedEventLog` if it is not the recorded one."""
    outcome = project(history)
    assert history.end is not None
    try:
        recorded = bytes(recorded_summary(history.end, msgspec.Raw))
    except msgspec.DecodeError:
        recorded = b""
    if recorded != msgspec.json.encode(outcome.summary):
        raise errors.DamagedEventLog(
            f"{place}: the events of run {history.run_id} do not lead to the summary it recorded"
        )
    return outcome


def unlike_recorded(log: EventLog, progress: Callable[[int, int], None]) -> Iterator[LogProblem]:
    """The completed evaluations whose events do not lead to the summary that they recorded."""
    runs = log.find_runs(RunFilter(is_evaluation=True))
    for done, run in enumerate(runs):
        progress(done, len(runs))
        if run.status != "completed":
            continue
        try:
            replay_run(log, run.run_id)
        except errors.DamagedEventLog as error:
            message = str(error).removeprefix(f"{log.place}: ")
            yield LogProblem("replay", f"run {run.run_id}", message, run.run_id)


def project(history: History) -> Outcome:
    """The outcome of a completed run; raises for a run that has none."""
    failure = history.failure()
    if failure is not None:
        raise errors.RunFailed(history.run_id, failure.error.code, failure.error.message)
    if history.end is None or history.end.type != RunCompleted.TYPE:
        raise errors.CannotEvaluate(
            phrase(
                "run {run} is not complete: {scored} of {tasks} tasks have a score; "
                "if nobody is executing it, resume it with: evalwright run {$resume:{run}}",
                run=history.run_id,
                scored=len(history.scored),
                tasks=len(history.plan.suite.tasks),
            )
        )
    if history.scored != {task.task_id for task in history.plan.suite.tasks}:
        raise errors.DamagedEventLog(
            f"run {history.run_id} is complete, but the tasks with a score are not the suite's"
        )
    return Outcome.of(history)

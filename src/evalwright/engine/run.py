"""Starting a run, and resuming one."""

from collections.abc import Callable, Sequence

from evalwright.agents.protocol import Agent
from evalwright.contracts.errors import RunBusy
from evalwright.contracts.events import Event, ProviderUsage
from evalwright.engine.awaiting import recall_answers
from evalwright.engine.clock import Clock, SystemClock, new_run_id
from evalwright.engine.execution import Execution, Means, Outcome
from evalwright.engine.history import History, read_history
from evalwright.engine.listing import last_continuation
from evalwright.engine.plan import Plan
from evalwright.engine.replay import project
from evalwright.store.protocol import EventLog, NewEvent

Announce = Callable[[History], None]  # called with a run that is about to be worked on


async def start_run(
    log: EventLog,
    agent: Agent,
    plan: Plan,
    announce: Announce = lambda _: None,
    clock: Clock | None = None,
    means: Means | None = None,
) -> Outcome:
    """Execute a new run."""
    clock = clock or SystemClock()
    history = History(new_run_id(clock), plan, clock.now_us())
    with log.claim(history.run_id):
        announce(history)
        execution = Execution(log, agent, history, clock, means or Means())
        execution.open()
        return await execution.run()


async def resume_run(
    log: EventLog,
    agent: Agent,
    history: History,
    announce: Announce = lambda _: None,
    clock: Clock | None = None,
    means: Means | None = None,
) -> Outcome:
    """Go on with a run that was stopped, or continue one that failed.

    A stopped run goes on in its own log. A failed run has its one end already, so it is continued
    by a new run that begins with the recorded facts of the scored tasks.
    """
    clock = clock or SystemClock()
    if history.end is not None:
        return await _continue_failed(log, agent, history, announce, clock, means or Means())
    with log.claim(history.run_id):
        current = read_history(log, history.run_id)  # it may have gone on before it was ours
        if current.end is not None:
            return project(current)
        current.plan = history.plan
        recall_answers(log, current)
        announce(current)
        execution = Execution(log, agent, current, clock, means or Means())
        execution.close_interrupted()
        return await execution.run()


async def _continue_failed(
    log: EventLog,
    agent: Agent,
    failed: History,
    announce: Announce,
    clock: Clock,
    means: Means,
) -> Outcome:
    history = History(new_run_id(clock), failed.plan, clock.now_us())
    recall_answers(log, failed)
    history.awaiting, history.judged = failed.awaiting, failed.judged
    recorded = [event for event in log.read(failed.run_id) if _is_kept(event, failed)]
    for event in recorded:
        history.take(event)
    with log.claim(failed.run_id), log.claim(history.run_id):
        _refuse_continued(log, failed.run_id)
        execution = Execution(log, agent, history, clock, means)
        execution.open(failed.run_id, _facts(recorded))
        await execution.settle()  # so that whoever is told of the run sees only what is new
        announce(history)
        return await execution.run()


def _is_kept(event: Event, failed: History) -> bool:
    """Whether a continuation takes an event over: what was scored, answered, and spent."""
    kept = event.task_id in failed.scored or event.task_id in failed.awaiting
    return kept or event.type == ProviderUsage.TYPE


def _refuse_continued(log: EventLog, run_id: str) -> None:
    last = last_continuation(log, run_id)
    if last != run_id:
        raise RunBusy(f"run {run_id} has just been continued by {last}; resume that one")


def _facts(events: Sequence[Event]) -> list[NewEvent]:
    return [NewEvent(event.type, event.task_id, event.at_us, event.body) for event in events]

"""Going on with a run: its crew as the log remembers it, and the repeats it still lacks."""

import msgspec

from evalwright.cli.crew import Crew, Names
from evalwright.cli.output import say
from evalwright.cli.request import Request
from evalwright.cli.series import Work, repeat_of, starting
from evalwright.contracts import errors
from evalwright.contracts.planning import (
    AgentFacts,
    Group,
)
from evalwright.engine.execution import Outcome
from evalwright.engine.history import History, read_history
from evalwright.engine.listing import find_run, last_continuation, runs_of_group
from evalwright.engine.replay import project
from evalwright.engine.run import resume_run
from evalwright.store.protocol import EventLog


def resume(request: Request, log: EventLog) -> Work:
    """What is left to do of a run; nothing of what it began with may change."""
    assert request.resume is not None
    _refuse_changes(request)
    history = read_history(log, last_continuation(log, find_run(log, request.resume)))
    rest = _repeats_left(log, history)
    earlier = _earlier_repeats(log, history)
    if history.status == "completed":
        earlier = [*earlier, project(history)]
        if not rest:
            say(f"run {history.run_id} is complete; nothing is left to do")
            return Work(None, [], earlier)
    crew = _recorded_crew(request, history)
    recorded = history.plan.agent
    if request.agent is not None:
        recorded = _other_agent(history, crew)
    crew.agent.agent_id, crew.agent.model_class = recorded.agent_id, recorded.model_class
    settings = request.options.settings(history.plan.settings)
    plan = msgspec.structs.replace(history.plan, agent=recorded, settings=settings)
    history.plan = plan
    runs = [starting(log, crew, repeat_of(plan, group)) for group in rest]
    if history.status != "completed":
        runs.insert(
            0,
            lambda announce, means: resume_run(log, crew.agent, history, announce, means=means),
        )
    return Work(crew, runs, earlier, plan.is_live)


def _refuse_changes(request: Request) -> None:
    options = request.options
    fixed = {
        "--mode": options.modes,
        "--tag": options.tags,
        "--model-class": request.model_class,
        "--allow-mismatch": options.allow_mismatch,
        "--model": options.model,
        "--judge": options.judges,
        "--judge-samples": options.judge_samples,
        "--baseline": request.baseline,
        "--repeat": request.repeat > 1,
    }
    changed = [name for name, value in fixed.items() if value]
    if changed:
        raise errors.BadInput(
            "--resume: a run goes on with the modes, tags, models and baseline it began with; "
            f"leave out {', '.join(changed)}"
        )
    if request.agent_id is not None and request.agent is None:
        raise errors.BadInput("--resume: --agent-id is for naming another --agent; leave it out")


def _recorded_crew(request: Request, history: History) -> Crew:
    plan = history.plan
    return Crew(
        Names(
            agent=request.agent or plan.agent.ref,
            settings=request.options.settings(plan.settings),
            agent_id=request.agent_id,
            model=plan.agent.model,
            panel=plan.panel,
            record=request.record,
        )
    )


def _repeats_left(log: EventLog, history: History) -> list[Group]:
    """The repeats that a group still lacks, once this run is done."""
    group = history.plan.group
    if group is None:
        return []
    begun = len(runs_of_group(log, group.id))
    return [Group(group.id, number, group.size) for number in range(begun + 1, group.size + 1)]


def _earlier_repeats(log: EventLog, history: History) -> list[Outcome]:
    group = history.plan.group
    if group is None:
        return []
    earlier = (run_id for run_id in runs_of_group(log, group.id) if run_id != history.run_id)
    return [project(read_history(log, run_id)) for run_id in earlier]


def _other_agent(history: History, crew: Crew) -> AgentFacts:
    """The facts of an agent that was named anew, if nobody's answers would be mixed."""
    recorded, suite, agent = history.plan.agent, history.plan.suite, crew.agent
    is_fresh = history.end is not None and not history.scored and suite.target_agent_id is None
    if agent.agent_id != recorded.agent_id and not is_fresh:
        raise errors.BadInput(
            f"--resume: the run is of agent {recorded.agent_id!r}, and --agent is "
            f"{agent.agent_id!r}; one log holds the answers of one agent. If it is the same one, "
            f"say --agent-id {recorded.agent_id}"
        )
    return AgentFacts(agent.agent_id, agent.ref, recorded.model_class, recorded.model)

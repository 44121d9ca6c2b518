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
from evalwright.engine.awaiting import recall_answers
from evalwright.engine.execution import Outcome
from evalwright.engine.history import History, read_history
from evalwright.engine.judge_prompt import PROMPT_VERSION
from evalwright.engine.listing import find_run, last_continuation, runs_of_group
from evalwright.engine.replay import project
from evalwright.engine.run import resume_run
from evalwright.store.protocol import EventLog


def resume(request: Request, log: EventLog) -> Work:
    """What is left to do of a run; nothing of what it began with may change."""
    assert request.resume is not None
    _refuse_changes(request)
    history = _unfinished(log, last_continuation(log, find_run(log, request.resume)))
    recall_answers(log, history)
    _refuse_mixing(request, history)
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


def _unfinished(log: EventLog, run_id: str) -> History:
    """The run, or where it is a finished repeat, the one of its group that is not."""
    history = read_history(log, run_id)
    group = history.plan.group
    if group is None or history.status != "completed":
        return history
    members = (read_history(log, each) for each in runs_of_group(log, group.id))
    return next((each for each in members if each.status != "completed"), history)


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
        "--fail-on": options.fail_on,
        "--flaky-as": options.flaky_as,
        "--record": request.options.record,
    }
    changed = [name for name, value in fixed.items() if value]
    if changed:
        raise errors.BadInput(
            "--resume: a run goes on with the modes, models, baseline and gates it began with; "
            f"leave out {', '.join(changed)}"
        )
    if request.agent_id is not None and request.agent is None:
        raise errors.BadInput("--resume: --agent-id is for naming another --agent; leave it out")


def _refuse_mixing(request: Request, history: History) -> None:
    """Scores must not come from two prompts, or from the answers of another repeat."""
    panel = history.plan.panel
    if history.end is None or history.status == "failed":
        if panel is not None and panel.prompt_version != PROMPT_VERSION:
            raise errors.BadInput(
                f"--resume: the run is judged by prompt {panel.prompt_version}, and this version "
                f"has prompt {PROMPT_VERSION}; begin anew"
            )
        if history.plan.group is not None and history.plan.settings.record:
            raise errors.BadInput(
                "--resume: a series of repeats that was being recorded cannot go on, for the "
                "cassette would answer one repeat with the calls of another; begin anew"
            )
    if request.options.cassette and history.plan.settings.record:
        raise errors.BadInput("--resume: the run goes on with the cassette that it was recording")


def _recorded_crew(request: Request, history: History) -> Crew:
    plan = history.plan
    return Crew(
        Names(
            agent=request.agent or plan.agent.ref,
            settings=request.options.settings(plan.settings),
            agent_id=request.agent_id,
            model=plan.agent.model,
            panel=plan.panel,
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
    has_answers = history.scored or history.awaiting or history.plan.group is not None
    is_fresh = history.end is not None and not has_answers and suite.target_agent_id is None
    if agent.agent_id != recorded.agent_id and not is_fresh:
        raise errors.BadInput(
            f"--resume: the run is of agent {recorded.agent_id!r}, and --agent is "
            f"{agent.agent_id!r}; one log holds the answers of one agent. If it is the same one, "
            f"say --agent-id {recorded.agent_id}"
        )
    return AgentFacts(agent.agent_id, agent.ref, recorded.model_class, recorded.model)

"""Going on with a run: its agent and options as the log remembers them, and what is left to do."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from evalwright.agents.protocol import Agent
from evalwright.contracts.errors import BadInput
from evalwright.contracts.messages import Text, phrase
from evalwright.contracts.run_plan import AgentFacts, Group, RunOptions
from evalwright.engine.continuation import recall_answers
from evalwright.engine.history import History, read_history
from evalwright.engine.judge_prompt import PROMPT_VERSION
from evalwright.engine.plan import Plan, merged
from evalwright.engine.replay import project
from evalwright.engine.runs import find_run, last_continuation, runs_of_group
from evalwright.engine.session import Session, unheard
from evalwright.engine.verdict import Outcome
from evalwright.models.config import Config
from evalwright.store.protocol import EventLog

# Options that may change when a run is resumed.
CHANGEABLE = frozenset(
    (
        *("concurrency", "task_timeout_s", "run_timeout_s", "model_timeout_s", "scoring_s"),
        *("max_cost_usd", "task_cost_usd", "known_costs_only"),
        "max_tokens_total",
        *("read_only", "tools", "gateway", "isolate", "observe", "otlp", "cassette"),
        *("allow_self_judge", "embedding_model", "user_model"),
    )
)


class Remaining(NamedTuple):
    """What is left to do of a run and its repeats; without a session, nothing."""

    session: Session | None
    pending: list[Plan | History]  # for `Session.run`
    done: list[Outcome]  # of repeats that are complete already


def resume(
    log: EventLog,
    run: str,
    options: RunOptions | None = None,
    *,
    agent: str | Agent | None = None,
    agent_id: str | None = None,
    model_class: str | None = None,
    config: Config | str | Path | None = None,
    notify: Callable[[Text], None] = unheard,
) -> Remaining:
    """The rest of a run, by its id, the beginning of one, or `latest`.

    `options` are those that change; `agent` is where the same agent is reached now, unless it is
    as before. Raises `BadInput` where the rest would not fit what is recorded.
    """
    options = options or RunOptions()
    changed = [
        name
        for name, default in msgspec.structs.asdict(RunOptions()).items()
        if name not in CHANGEABLE and getattr(options, name) != default
    ]
    if model_class is not None:
        changed.append("model_class")
    if changed:
        named = ", ".join(f"{{@{name}}}" for name in changed)
        message = "a run goes on with the modes, models, baseline and gates it began with"
        raise BadInput(phrase(f"{{@resume}}: {message}; leave out {named}"))
    if agent_id is not None and agent is None:
        raise BadInput(phrase("{@resume}: {@agent_id} goes with {@agent}; leave it out"))
    history = _unfinished(log, last_continuation(log, find_run(log, run)))
    recall_answers(log, history)
    # Scores must not come from two prompts, or from the answers of another repeat
    panel = history.plan.panel
    if history.end is None or history.status == "failed":
        if panel is not None and panel.prompt_version != PROMPT_VERSION:
            raise BadInput(
                phrase(
                    "{@resume}: the run is judged by prompt {recorded}, and this version has "
                    "prompt {ours}; start a new run",
                    recorded=panel.prompt_version,
                    ours=PROMPT_VERSION,
                )
            )
        if history.plan.group is not None and history.plan.settings.record:
            raise BadInput(
                phrase(
                    "{@resume}: repeats that were being recorded cannot go on: the cassette would "
                    "answer one repeat with the calls of another; start a new run"
                )
            )
    if options.cassette and history.plan.settings.record:
        message = "{@resume}: the run goes on with the cassette that it was recording"
        raise BadInput(phrase(message))
    done, missing = _repeats(log, history)
    is_complete = history.status == "completed"
    if is_complete:
        done.append(project(history))
        if not missing:
            return Remaining(None, [], done)
    chosen = options_of(history.plan, options)
    if history.plan.is_recorded:
        from evalwright.engine.rescore import RecordedAgent

        agent = RecordedAgent(history.plan.agent)
    session = Session(
        agent or history.plan.agent.ref, chosen, agent_id=agent_id, config=config, notify=notify
    )
    facts = _agent_facts(history, session.agent) if agent is not None else history.plan.agent
    session.agent.agent_id, session.agent.model_class = facts.agent_id, facts.model_class
    settings = merged(options, history.plan.settings)
    plan = history.plan = msgspec.structs.replace(history.plan, agent=facts, settings=settings)
    starts = [msgspec.structs.replace(plan, group=group) for group in missing]
    return Remaining(session, [*([] if is_complete else [history]), *starts], done)


def _unfinished(log: EventLog, run_id: str) -> History:
    """The run, or where it is a finished repeat, the one of its group that is not."""
    history = read_history(log, run_id)
    group = history.plan.group
    if group is None or history.status != "completed":
        return history
    members = (read_history(log, each) for each in runs_of_group(log, group.id))
    return next((each for each in members if each.status != "completed"), history)


def _repeats(log: EventLog, history: History) -> tuple[list[Outcome], list[Group]]:
    """The other repeats of the group: those that are complete, and those that never began."""
    group = history.plan.group
    if group is None:
        return [], []
    begun = runs_of_group(log, group.id)
    done = [project(read_history(log, each)) for each in begun if each != history.run_id]
    numbers = range(len(begun) + 1, group.size + 1)
    return done, [Group(group.id, number, group.size) for number in numbers]


def options_of(plan: Plan, options: RunOptions) -> RunOptions:
    """The options of a run as they were recorded, with those that change."""
    settings = msgspec.structs.asdict(merged(options, plan.settings))
    return RunOptions(
        **settings,
        model=plan.agent.model,
        judges=tuple(plan.panel.judges) if plan.panel else (),
        judge_samples=plan.panel.samples if plan.panel else None,
    )


def _agent_facts(history: History, agent: Agent) -> AgentFacts:
    """The facts of an agent that was named again; refuses to mix the answers of two agents."""
    recorded, suite = history.plan.agent, history.plan.suite
    has_answers = history.scored or history.awaiting or history.plan.group is not None
    is_fresh = history.end is not None and not has_answers and suite.target_agent_id is None
    if agent.agent_id != recorded.agent_id and not is_fresh:
        raise BadInput(
            phrase(
                "{@resume}: the run is of agent {recorded!r}, and {@agent} is {given!r}; one log "
                "holds the answers of one agent. If it is the same agent, add "
                "{@agent_id:{recorded}}",
                recorded=recorded.agent_id,
                given=agent.agent_id,
            )
        )
    return AgentFacts(
        agent.agent_id,
        agent.ref,
        recorded.model_class,
        recorded.model,
        tools=recorded.tools,
        usage=recorded.usage,
    )

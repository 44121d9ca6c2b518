"""From a suite and the options of its run to a session with plans: the one way for every edge."""

import os
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import msgspec

from evalwright.agents.protocol import Agent
from evalwright.contracts.errors import BadInput
from evalwright.contracts.messages import Text, phrase
from evalwright.contracts.run_plan import RunOptions
from evalwright.engine.plan import Plan, with_defaults, without_spare_judges
from evalwright.engine.provenance import MOST, Provenance, provenance
from evalwright.engine.runs import log_for
from evalwright.engine.session import Session, unheard
from evalwright.engine.suites.loader import SuiteSubject
from evalwright.models.config import Config


def assembled(
    subject: SuiteSubject,
    name: str,
    options: RunOptions,
    agent: str | Agent | None,
    config: Config,
    *,
    agent_id: str | None = None,
    model_class: str | None = None,
    notify: Callable[[Text], None] = unheard,
    spares_judges: bool = True,
) -> Session:
    """A session for the runs of a suite; nothing has started yet, and `planned` says what will.

    `name` is how messages call the suite. What was asked for counts first, then what the suite
    says, then the settings. With `spares_judges`, judges that would have nothing to do are left
    out, in place of being refused.
    """
    ref = agent if agent is None or isinstance(agent, str) else agent.ref
    asked = subject.with_claims(options)
    ref, chosen = with_defaults(config.run, ref, asked, subject.suite)
    if spares_judges or subject.selection is not None:
        chosen = without_spare_judges(chosen, subject.suite)
    agent = agent or ref
    if agent is None:
        message = (
            "name the agent with {@agent}, or as `agent` in the suite or the settings; "
            "`evalwright run {$help}` shows how"
        )
        raise BadInput(phrase(message, "no_agent", name=name))
    return Session(
        agent, chosen, agent_id=agent_id, model_class=model_class, config=config, notify=notify
    )


def planned(session: Session, subject: SuiteSubject, name: str, db: str | None) -> list[Plan]:
    """The runs of the suite, compared with a baseline of the log where the options name one."""
    baseline = session.options.baseline
    with nullcontext() if baseline is None else log_for(db, baseline) as log:
        plans = session.plan(
            subject.suite,
            name,
            log,
            source=subject.source,
            selection=subject.selection,
            functions=subject.functions,
        )
    found = provenance(os.environ, Path.cwd())
    if title := session.options.title:
        found = msgspec.structs.replace(found, title=title.strip().partition("\n")[0][:MOST])
    if found == Provenance():
        return plans
    return [msgspec.structs.replace(plan, provenance=found) for plan in plans]

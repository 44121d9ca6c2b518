"""A place where agents are deployed: a real log, keys that may do this or that, and eval runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from builders import a_log, a_suite
from evalwright.agents.python import PythonAgent
from evalwright.contracts.events import Event, Planned
from evalwright.contracts.run_plan import Origin, Owner, RunOptions
from evalwright.contracts.suite import Suite
from evalwright.engine.plan import plan_run
from evalwright.engine.runner import start_run
from evalwright.host.access.keys import Principal
from evalwright.host.deployments.approvals import Ballot
from evalwright.host.deployments.model import TransitionRequest
from evalwright.host.deployments.service import Deployments, Transitioned
from evalwright.host.http.settings import DeploymentSettings
from evalwright.store.protocol import NewEvent
from evalwright.store.records import Record
from evalwright.store.sqlite.log import SqliteLog

AGENT_ID = "vendor.acme.clerk"
EVERYTHING = ("deploy:promote", "deploy:pause", "deploy:rollback", "approvals:respond", "runs:read")
START_US = 1_767_225_600_000_000
SECOND = 1_000_000


class StoppedClock:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.at_us = START_US

    def now_us(self) -> int:
        return self.at_us

    def monotonic_s(self) -> float:
        return self.at_us / SECOND

    def advance(self, seconds: float) -> None:
        self.at_us += int(seconds * SECOND)


class InstalledAgents:
    """What a catalogue knows: agents by tenant, in these versions."""

    def __init__(self) -> None:
        self.installed = {("acme", AGENT_ID): {"1.0.0", "2.0.0", "3.0.0"}}

    def agent(self, tenant: str, agent_id: str, version: str | None = None) -> object | None:
        versions = self.installed.get((tenant, agent_id), set())
        return agent_id if versions and (version is None or version in versions) else None


class Company:
    """A log that others write to as well: they act whenever deployments have been read."""

    def __init__(self, log: SqliteLog, act: Callable[[], None]) -> None:
        self._log = log
        self._act = act

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    @property
    def records(self) -> "Company":
        return Company(self._log.records, self._act)  # type: ignore[arg-type]

    def list(self, kind: str, *place: Any) -> list[Record]:
        found: list[Record] = self._log.list(kind, *place)  # type: ignore[attr-defined]
        if kind == "deployment":
            self._act()
        return found


def a_key(
    name: str = "ops",
    *scopes: str,
    tenant: str = "acme",
    workspace: str | None = None,
) -> Principal:
    """A key of a tenant; it may do everything here unless scopes are named."""
    held = frozenset(scopes or EVERYTHING)
    return Principal(name, tenant, workspace, held, f"key:{name}")


class DeploymentDesk:
    """A log and the deployments in it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "log.db"
        self.log = SqliteLog(self.path)
        self.clock = StoppedClock()
        self.agents = InstalledAgents()

    def deployments(self, others: Callable[[], None] | None = None, **policy: Any) -> Deployments:
        """The deployments under a policy; without one, nothing is needed for a promotion.

        `others` act in between reading and writing.
        """
        settings = DeploymentSettings(**{"require_eval": False, **policy})
        log: Any = Company(self.log, others) if others else self.log
        return Deployments(log, self.agents, settings, self.clock)

    async def eval_run(
        self,
        version: str = "1.0.0",
        *,
        answer: Callable[[Any], Any] = lambda _: "yes",
        suite: Suite | None = None,
        agent_id: str = AGENT_ID,
        partition: str = "acme",
        configurable: dict[str, Any] | None = None,
        **options: Any,
    ) -> str:
        """Evaluate a version: its agent answers every task with `yes`, which is right."""
        agent = PythonAgent(answer, ref="test:agent", agent_id=agent_id, model_class=None)
        plan = plan_run(suite or a_suite(2), "suite.json", agent, RunOptions(**options))
        plan = replace(
            plan,
            agent=replace(plan.agent, version=version),
            origin=Origin(Owner("acme"), configurable=configurable),
        )
        outcome = await start_run(
            self.log.for_tenant(partition), agent, plan, lambda _: None, self.clock
        )
        await agent.close()
        return outcome.run_id

    def unfinished_eval_run(self, version: str = "1.0.0", partition: str = "acme") -> str:
        """Record an evaluation that has all its scores but no end."""
        events = a_log(a_suite(2), agent_id=AGENT_ID, ending="open")
        self.append("run_open", partition, [_of_version(event, version) for event in events])
        return "run_open"

    def append(self, run_id: str, partition: str, events: list[Event]) -> None:
        """Write events to the log of a tenant."""
        log = self.log.for_tenant(partition)
        log.append(run_id, [NewEvent(e.type, e.task_id, e.at_us, e.body) for e in events])
        log.flush(run_id).result(120)

    def events(self, run_id: str, partition: str = "acme") -> list[tuple[str, dict[str, Any]]]:
        """Type and payload of every event of a run."""
        log = self.log.for_tenant(partition)
        return [(event.type, event.payload()) for event in log.read(run_id)]

    def types(self, run_id: str, partition: str = "acme") -> list[str]:
        """The types of a run's events."""
        return [kind for kind, _ in self.events(run_id, partition)]

    def runs(self, partition: str = "acme") -> list[str]:
        """The runs of a tenant, newest first."""
        return self.log.for_tenant(partition).run_ids()


def _of_version(event: Event, version: str) -> Event:
    if event.type != Planned.TYPE:
        return event
    planned = event.decode(Planned)
    changed = replace(planned, agent=replace(planned.agent, version=version))
    return replace(event, body=msgspec.json.encode(changed))


async def ask(
    deployments: Deployments,
    transition: str = "promote",
    version: str = "1.0.0",
    *,
    key: Principal | None = None,
    agent_id: str = AGENT_ID,
    **fields: Any,
) -> Transitioned:
    """Ask for a transition."""
    request = TransitionRequest(version=version, transition=transition, **fields)  # type: ignore[arg-type]
    return await deployments.request(key or a_key(), agent_id, request)


async def activate(deployments: Deployments, version: str = "1.0.0", **fields: Any) -> Transitioned:
    """Bring a version all the way to a channel."""
    await ask(deployments, version=version)
    await ask(deployments, version=version)
    return await ask(deployments, version=version, **fields)


def accept() -> Ballot:
    return Ballot("accept")

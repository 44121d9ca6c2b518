"""Startup checks: everything that the settings name is tried once, before the host listens."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from evalwright.agents.load import is_manifest, is_python, load_agent
from evalwright.contracts.errors import BadInput, InvalidDocument, Problem
from evalwright.host.access.keys import SCOPES, check_name
from evalwright.host.host import Host
from evalwright.host.http.settings import AgentSettings
from evalwright.store.records import LOCAL_TENANT

Attempt = tuple[str, Callable[[], object]]  # the path of a setting, and a try of it


def check_settings(host: Host, source: str) -> None:
    """Try everything that the settings name; raises `InvalidDocument` for what is missing.

    A host without its judges or tools would offer modes that cannot run.
    """
    problems = []
    for place, attempt in _attempts(host):
        try:
            attempt()
        except BadInput as error:
            problems.append(Problem(place, str(error)))
    if problems:
        raise InvalidDocument(source, problems)


def _attempts(host: Host) -> Iterator[Attempt]:
    settings = host.settings
    for index, judge in enumerate(settings.judges):
        yield f"host.judges[{index}]", partial(host.models.load, judge)
    for model_class, model in settings.models.items():
        yield f"host.models.{model_class}", partial(host.models.load, model)
    if settings.model is not None:
        yield "host.model", partial(host.models.load, settings.model)
    if settings.tools is not None:
        yield "host.tools", partial(_try_tools, Path(settings.tools))
    for agent_id, agent in settings.agents.items():
        place = f'host.agents."{agent_id}"'
        for index, tenant in enumerate(agent.tenants):
            yield f"{place}.tenants[{index}]", partial(check_name, "tenant", tenant)
        yield place, partial(_try_agent, host, agent_id, agent)
    approval = settings.deployments.approval
    if approval is not None:
        for name in ("scope", "override_scope"):
            if (scope := getattr(approval, name)) is not None:
                yield f"host.deployments.approval.{name}", partial(_try_scope, scope)


def _try_agent(host: Host, agent_id: str, agent: AgentSettings) -> None:
    if is_manifest(agent.ref) != (agent.model is not None):
        raise BadInput('set model = "provider:model" for a manifest, and only for a manifest')
    if agent.isolate:
        if not is_python(agent.ref):
            raise BadInput("isolate is for agents in Python, which this is not; leave it out")
        asyncio.run(load_agent(agent.ref, isolate=True).close())
    tenant = agent.tenants[0] if agent.tenants else LOCAL_TENANT
    registered = host.catalogue.agent(tenant, agent_id, agent.version)
    assert registered is not None, "the operator's agents are in the catalogue"
    host.catalogue.load(tenant, registered)


def _try_tools(path: Path) -> None:
    from evalwright.agents.tool_files import load_tools

    async def load() -> None:
        await (await load_tools(path, live=False)).close()

    asyncio.run(load())


def _try_scope(scope: str) -> None:
    if scope not in SCOPES:
        raise BadInput(f"no such scope: {scope!r}; scopes are {', '.join(SCOPES)}")

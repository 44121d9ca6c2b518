"""Calls about what a host can do and what it holds: capabilities, suites and agents."""

from collections.abc import Mapping
from typing import Any

import msgspec

from evalwright.client.answers import Agent, Agents, Capabilities, SuiteName, SuitePage
from evalwright.client.exchange import Flow, get, post, quoted
from evalwright.contracts.suite import ModelClass, Suite, parse_suite

PAGE = 100


def capabilities() -> Flow[Capabilities]:
    """What the host can do; no key is needed for this."""
    answer = yield get("/.well-known/openwop")
    return answer.read(Capabilities)


def publish_suite(suite: bytes | Mapping[str, Any] | Suite) -> Flow[SuiteName]:
    """Publish a suite; bytes are JSON and are sent as they are.

    A version is published once: the same content again changes nothing, other content is refused.
    """
    body = suite if isinstance(suite, bytes) else msgspec.json.encode(suite)
    answer = yield post("/v1/suites", body)
    return answer.read(SuiteName)


def suites(after: str | None) -> Flow[tuple[list[SuiteName], str | None]]:
    """The suites that the key can run, by name."""
    answer = yield get("/v1/suites", {"limit": PAGE, "after": after})
    page = answer.read(SuitePage)
    return page.suites, page.next


def suite(suite_ref: str) -> Flow[Suite]:
    """A published suite, by `suiteId@version`."""
    answer = yield get(f"/v1/suites/{quoted(suite_ref)}")
    return parse_suite(answer.body, suite_ref)


def agents() -> Flow[list[Agent]]:
    """The agents that the key can run, in their newest versions."""
    answer = yield get("/v1/agents")
    return answer.read(Agents).agents


def agent(agent_id: str) -> Flow[Agent]:
    """One agent."""
    answer = yield get(f"/v1/agents/{quoted(agent_id)}")
    return answer.read(Agent)


def register_agent(
    agent_id: str,
    version: str,
    url: str,
    *,
    model_class: ModelClass | None = None,
    persona: str | None = None,
    label: str | None = None,
    description: str | None = None,
) -> Flow[Agent]:
    """Register an agent by the address at which it answers."""
    body = {
        "agentId": agent_id,
        "version": version,
        "url": url,
        "modelClass": model_class,
        "persona": persona,
        "label": label,
        "description": description,
    }
    answer = yield post("/v1/agents", body)
    return answer.read(Agent)


def register_manifest(manifest: Mapping[str, Any], version: str) -> Flow[Agent]:
    """Register an agent by its manifest, which refers to no files."""
    answer = yield post("/v1/agents", {"version": version, "manifest": manifest})
    return answer.read(Agent)

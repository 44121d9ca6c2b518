"""The suites and agents that tenants and the operator registered, also through packs."""

import asyncio
import hashlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from evalwright.agents.bundled import bundled
from evalwright.agents.load import load_agent
from evalwright.agents.manifest import agent_of, read_parts
from evalwright.agents.protocol import Agent
from evalwright.agents.wire import AnswerLimits
from evalwright.contracts.coverage import ToolsClaim, UsageClaim
from evalwright.contracts.documents import parse_json
from evalwright.contracts.errors import BadInput
from evalwright.contracts.manifest import Manifest, MemoryShape
from evalwright.contracts.pack import PACK_KIND
from evalwright.contracts.suite import ModelClass, Suite, is_evalwright_suite, parse_suite
from evalwright.engine.scoring_pool import ScoringPool
from evalwright.engine.suites.loader import SentSuite
from evalwright.host.access.keys import tenant_of
from evalwright.host.async_store import read_soon
from evalwright.host.http.settings import HostSettings
from evalwright.host.library.versions import version_key
from evalwright.models.protocol import Model
from evalwright.store.records import RecordChange, RecordConflict, Records, every_record

if TYPE_CHECKING:
    from evalwright.agents.packs.pack import Pack
    from evalwright.host.access.egress import Egress

SUITE, AGENT = "suite", "agent"
DELETED_SUITE = "deleted-suite"  # its hash: a version never gets another content
OWN_PACK = "local"  # the pack name of agents that were registered without a pack
ANSWERS = AnswerLimits(
    most_bytes=4 * 1024 * 1024,
    most_events=10_000,
    most_usages=500,
    most_values=100_000,
    most_output_values=20_000,
)
MOST_RENDERED = 2  # suites at once, for a tenant 1
MOST_LONG_ANSWERS = 8  # of a tenant's HTTP agents, read at once
BUNDLED_AGENT = "core.evalwright.demo.support-desk"

LoadModel = Callable[[str], Model]


class RegisteredAgent(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One version of an agent; one of the last four fields says how it is invoked."""

    agent_id: str
    version: str
    persona: str
    model_class: ModelClass
    label: str | None = None
    description: str | None = None
    pack_name: str = OWN_PACK
    tool_allowlist: list[str] = []
    has_handoff_schemas: bool = False
    memory_shape: MemoryShape | None = None
    confidence_threshold: float | None = None
    eval_suite_ref: str | None = None  # suiteId@version
    tools: ToolsClaim | None = None  # claimed by the operator, of its calls of tools and models
    usage: UsageClaim | None = None
    pack: str | None = None  # name@version
    manifest: dict[str, Any] | None = None
    url: str | None = None
    ref: str | None = None  # of the operator's own; never from a request

    @property
    def key(self) -> str:
        return f"{self.agent_id}@{self.version}"


def described(manifest: Manifest, version: str, /, **more: Any) -> RegisteredAgent:
    """The description of an agent, from its manifest."""
    handoff = manifest.handoff
    return RegisteredAgent(
        agent_id=manifest.agent_id,
        version=version,
        persona=manifest.persona,
        model_class=manifest.model_class,
        label=manifest.label,
        description=manifest.description,
        tool_allowlist=manifest.tool_allowlist or [],
        has_handoff_schemas=bool(handoff.task_schema_ref or handoff.return_schema_ref),
        memory_shape=manifest.memory_shape,
        confidence_threshold=manifest.confidence.default_threshold,
        **more,
    )


def pack_changes(tenant: str, pack: "Pack") -> list[RecordChange]:
    """The records that install a pack: the pack, its suites and its agents, all or nothing."""
    changes = [RecordChange(PACK_KIND, tenant, pack.ref, pack.archive, expected=None)]
    for ref, held in pack.suites.items():
        changes.append(RecordChange(SUITE, tenant, ref, held.source, expected=None))
    for agent_id, manifest in pack.manifests.items():
        suite = pack.suite_of(agent_id)
        agent = described(
            manifest,
            pack.version,
            pack_name=pack.name,
            pack=pack.ref,
            eval_suite_ref=suite.ref if suite else None,
        )
        body = msgspec.json.encode(agent)
        changes.append(RecordChange(AGENT, tenant, agent.key, body, expected=None))
    return changes


class Catalogue:
    """Agents by tenant, and suites by place: a workspace, or a tenant.

    Those of the operator are available to every tenant, and those of packs to all workspaces.
    """

    def __init__(
        self, records: Records, settings: HostSettings, load_model: LoadModel, egress: "Egress"
    ) -> None:
        self._records = records
        self._settings = settings
        self._load_model = load_model
        self._egress = egress
        self._templates = ScoringPool(MOST_RENDERED)
        self._rooms: dict[str, asyncio.Semaphore] = {}  # for long answers, by tenant
        self._offered = {
            agent_id: RegisteredAgent(
                agent_id=agent_id,
                version=own.version,
                persona=own.persona or agent_id,
                label=own.label,
                description=own.description,
                model_class=own.model_class or "general",
                ref=own.ref,
                tools=own.tools,
                usage=own.usage,
            )
            for agent_id, own in settings.agents.items()
        }
        self._bundled_suite: tuple[str, bytes] | None = None
        if not settings.bundled:
            return
        folder = bundled("demo")
        place = folder / "suite.yaml"
        suite = parse_suite(place.read_bytes(), place.name)
        self._bundled_suite = (_ref(suite), msgspec.json.encode(suite))
        self._offered.setdefault(
            BUNDLED_AGENT,
            RegisteredAgent(
                agent_id=BUNDLED_AGENT,
                version="1.0.0",
                persona="Support desk",
                description="A support desk without a model, with one honest mistake.",
                model_class="general",
                eval_suite_ref=self._bundled_suite[0],
                ref=f"{folder / 'agent.py'}:answer",
            ),
        )

    # Suites.

    def suite_source(self, place: str, ref: str) -> bytes | None:
        """The bytes of a suite that a place has: published there, or by a pack."""
        if self._bundled_suite is not None and self.is_bundled(ref):
            return self._bundled_suite[1]
        found = self._records.get(SUITE, place, ref)
        tenant = tenant_of(place)
        if found is None and place != tenant and ref in self.pack_suites(tenant):
            return self._records.get(SUITE, tenant, ref)
        return found

    def suite(self, place: str, ref: str) -> Suite | None:
        source = self.suite_source(place, ref)
        return None if source is None else self.read_suite(place, source, ref)

    def read_suite(self, place: str, source: bytes, name: str) -> Suite:
        """A suite, portable or wide, from its JSON; of a wide one neither code nor files are used.

        Templates are rendered by another process: no bound on what is in them bounds their time,
        and no other thread of this one could go on meanwhile.
        """
        if b'"evalwright"' in source and is_evalwright_suite(document := parse_json(source, name)):
            from evalwright.engine.suites.document import load_suite
            from evalwright.engine.suites.templates import Templates

            if Templates(document).may_be:
                return self._templates.lowered(tenant_of(place), SentSuite(source, name))
            return load_suite(document, name=name).suite
        return parse_suite(source, name)

    def close(self) -> None:
        self._templates.close()

    def suite_refs(self, place: str, after: str = "", limit: int = 1000) -> list[str]:
        """The references of the suites that a place has, in order."""
        found = {*self._records.keys(SUITE, place, "", after, limit)}
        tenant = tenant_of(place)
        others = self.pack_suites(tenant) if place != tenant else set()
        if self._bundled_suite is not None:
            others.add(self._bundled_suite[0])
        return sorted(found | {ref for ref in others if ref > after})[:limit]

    def pack_suites(self, tenant: str) -> set[str]:
        """The suites of installed packs, which every workspace can run as it can their agents."""
        kept = every_record(self._records, AGENT, tenant)
        agents = (each.body for each in kept if b'"evalSuiteRef":' in each.body)
        known = (msgspec.json.decode(body, type=RegisteredAgent) for body in agents)
        return {agent.eval_suite_ref for agent in known if agent.eval_suite_ref}

    async def publish(self, place: str, source: bytes, suite: Suite) -> bool | None:
        """Publish a suite: True if new, False if it exists, None if a different one does."""
        ref = _ref(suite)
        known = await asyncio.to_thread(self.suite_source, place, ref)
        if known is None:
            if await self._read(DELETED_SUITE, place, ref) not in (None, _digest(source)):
                return None
            change = RecordChange(SUITE, place, ref, source, expected=None)
            try:
                await asyncio.wrap_future(self._records.write([change]))
            except RecordConflict:
                known = await self._read(SUITE, place, ref)
            else:
                return True
        return False if known == source else None

    async def _read(self, kind: str, place: str, key: str) -> bytes | None:
        share = tenant_of(place)
        return await read_soon(self._records, share, lambda: self._records.get(kind, place, key))

    def is_bundled(self, ref: str) -> bool:
        return self._bundled_suite is not None and ref == self._bundled_suite[0]

    async def unpublish(self, place: str, ref: str) -> bool:
        """Delete a suite that was published in a place; False if there never was one."""
        source = await asyncio.to_thread(self._records.get, SUITE, place, ref)
        if source is None:
            return await self._read(DELETED_SUITE, place, ref) is not None
        changes = [
            RecordChange(SUITE, place, ref, None, expected=source),
            RecordChange(DELETED_SUITE, place, ref, _digest(source)),
        ]
        with suppress(RecordConflict):  # another request has just deleted it
            await asyncio.wrap_future(self._records.write(changes))
        return True

    # Agents.

    def agents(self, tenant: str) -> list[RegisteredAgent]:
        """The agents that a tenant can run, each in its newest version."""
        registered = {key.rpartition("@")[0] for key in self._registered(tenant)}
        offered = {agent_id for agent_id in self._offered if self._offers(agent_id, tenant)}
        found = (self.agent(tenant, agent_id) for agent_id in sorted(registered | offered))
        return [agent for agent in found if agent is not None]

    def agent(
        self, tenant: str, agent_id: str, version: str | None = None
    ) -> RegisteredAgent | None:
        offered = self._offered.get(agent_id) if self._offers(agent_id, tenant) else None
        if version is None:
            version = max(self.versions(tenant, agent_id), key=version_key, default=None)
        if offered is not None and offered.version == version:
            return offered
        body = self._records.get(AGENT, tenant, f"{agent_id}@{version}")
        return None if body is None else msgspec.json.decode(body, type=RegisteredAgent)

    def versions(self, tenant: str, agent_id: str) -> list[str]:
        """The versions of an agent that a tenant can run, in no order."""
        known = [key.rpartition("@")[2] for key in self._registered(tenant, f"{agent_id}@")]
        return (
            [*known, self._offered[agent_id].version] if self._offers(agent_id, tenant) else known
        )

    def _offers(self, agent_id: str, tenant: str) -> bool:
        settings = self._settings.agents.get(agent_id)
        return agent_id in self._offered and (
            settings is None or not settings.tenants or tenant in settings.tenants
        )

    def _registered(self, tenant: str, prefix: str = "") -> Iterable[str]:
        """The keys of a tenant's agents; the records themselves may be long, and many."""
        after = ""
        while page := self._records.keys(AGENT, tenant, prefix, after):
            yield from page
            after = page[-1]

    async def register(self, tenant: str, agent: RegisteredAgent) -> bool | None:
        """Register a version: True if new, False if it exists, None if a different one does."""
        body = msgspec.json.encode(agent)
        known = await self._read(AGENT, tenant, agent.key)
        if known is None and agent.agent_id not in self._offered:
            change = RecordChange(AGENT, tenant, agent.key, body, expected=None)
            try:
                await asyncio.wrap_future(self._records.write([change]))
            except RecordConflict:
                known = await self._read(AGENT, tenant, agent.key)
            else:
                return True
        return False if known == body else None

    # From a registered agent to one that can be invoked.

    def model_of(self, agent: RegisteredAgent) -> str | None:
        """The model that a manifest agent runs on."""
        if agent.url is not None:
            return None
        if agent.ref is not None:
            own = self._settings.agents.get(agent.agent_id)
            return own.model if own else None
        return self._settings.models.get(agent.model_class) or self._settings.model

    def load(self, tenant: str, agent: RegisteredAgent) -> Agent:
        """The agent, ready to be invoked; raises `BadInput` if something it needs is missing."""
        ref, name = f"host:{agent.key}", self.model_of(agent)
        if agent.url is not None:
            from evalwright.agents.http import HttpAgent

            return HttpAgent(
                agent.url,
                ref=ref,
                agent_id=agent.agent_id,
                model_class=agent.model_class,
                open_session=lambda headers: self._egress.session(https_only=True, headers=headers),
                limits=ANSWERS,
                room=self._rooms.setdefault(tenant, asyncio.Semaphore(MOST_LONG_ANSWERS)),
            )
        if agent.ref is not None:
            own = self._settings.agents.get(agent.agent_id)
            if own is not None and own.isolate:  # in processes that start with their tasks
                from evalwright.agents.isolation.agent import IsolatedAgent

                return IsolatedAgent(
                    agent.ref,
                    code=agent.ref,
                    agent_id=agent.agent_id,
                    model_class=agent.model_class,
                    loads=False,
                )
            if name:
                return load_agent(agent.ref, model=self._load_model(name))
            return load_agent(agent.ref, agent.agent_id, agent.model_class)
        if name is None:
            raise BadInput(
                f"agent {agent.agent_id} needs a model of class {agent.model_class}, "
                "which this host does not have"
            )
        model = self._load_model(name)
        if agent.pack is None:
            manifest = msgspec.convert(agent.manifest, Manifest, strict=False)
            return agent_of(manifest, read_parts(manifest, _NoFiles(), ref), model, ref)
        from evalwright.agents.packs.pack import installed_pack

        return installed_pack(self._records, tenant, agent.pack).agent(agent.agent_id, model, ref)


class _NoFiles:
    """The files of a manifest without a pack."""

    def read(self, ref: str, field: str) -> bytes:
        raise BadInput(f"{field} {ref!r}: a manifest without a pack has no files; install a pack")


def _digest(source: bytes) -> bytes:
    return hashlib.sha256(source).hexdigest().encode()


def _ref(suite: Suite) -> str:
    return f"{suite.suite_id}@{suite.version}"

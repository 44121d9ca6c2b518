"""Storage of deployments and approval gates: one record each, beside the log."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from evalwright.host.deployments.gate import ApprovalGate
from evalwright.host.deployments.record import Deployment
from evalwright.host.reading import read_soon
from evalwright.store.records import Record, RecordChange, Records

DEPLOYMENT, GATE = "deployment", "gate"
_PAGE = 1000

T = TypeVar("T")

_encode = msgspec.json.Encoder(order="deterministic").encode


class DeploymentSet:
    """The deployments of one agent as read; writes fail if any of them has changed since."""

    def __init__(self, tenant: str, agent_id: str, documents: Iterable[Record]) -> None:
        self.tenant = tenant
        self._agent_id = agent_id
        self._bodies = {document.key: document.body for document in documents}
        self.records = [
            msgspec.json.decode(body, type=Deployment) for body in self._bodies.values()
        ]

    def get(self, version: str) -> Deployment | None:
        """The deployment of a version."""
        return next((record for record in self.records if record.version == version), None)

    def with_changes(self, changed: Iterable[Deployment]) -> list[Deployment]:
        """All deployments of the agent after a change."""
        versions = {record.version: record for record in (*self.records, *changed)}
        return list(versions.values())

    def changes(self, changed: Iterable[Deployment]) -> list[RecordChange]:
        """The writes of a change, which fail together if any version of the agent has changed.

        Unchanged versions are written again: which one serves depends on all of them, so two
        concurrent requests for different versions must not both succeed.
        """
        bodies = dict(self._bodies)
        bodies.update((f"{self._agent_id}@{record.version}", _encode(record)) for record in changed)
        return [
            RecordChange(DEPLOYMENT, self.tenant, key, body, self._bodies.get(key))
            for key, body in bodies.items()
        ]


class Archive:
    """The records of all deployments and gates."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def deployments(self, tenant: str, agent_id: str) -> DeploymentSet:
        """The deployments of an agent of a tenant."""
        return DeploymentSet(tenant, agent_id, self._all(DEPLOYMENT, tenant, f"{agent_id}@"))

    def gates(self, tenant: str) -> list["KeptGate"]:
        """All promotions of the tenant that wait for approval."""
        return [KeptGate.of(document.body) for document in self._all(GATE, tenant)]

    def gate(self, tenant: str, run_id: str) -> "KeptGate | None":
        """The gate that a run waits at."""
        body = self._records.get(GATE, tenant, run_id)
        return None if body is None else KeptGate.of(body)

    def tenants_with_gates(self) -> Sequence[str]:
        """The tenants with a promotion that waits."""
        return sorted({tenant for tenant, _ in self._records.of_all_tenants(GATE)})

    async def read(self, tenant: str, read: Callable[[], T]) -> T:
        """Read something of a tenant without making the event loop wait."""
        return await read_soon(self._records, tenant, read)

    async def write(self, changes: Sequence[RecordChange]) -> None:
        """Write records as one unit; raises `RecordConflict`."""
        await asyncio.wrap_future(self._records.write(changes))

    def _all(self, kind: str, tenant: str, prefix: str = "") -> Iterator[Record]:
        after = ""
        while page := self._records.list(kind, tenant, prefix, after, _PAGE):
            yield from page
            after = page[-1].key


class KeptGate(NamedTuple):
    """A gate as read; writes fail if it has changed since."""

    gate: ApprovalGate
    body: bytes

    @classmethod
    def of(cls, body: bytes) -> "KeptGate":
        """Decode a stored gate."""
        return cls(msgspec.json.decode(body, type=ApprovalGate), body)

    def change(self, tenant: str, after: ApprovalGate) -> RecordChange:
        """The write of a new state of the gate."""
        return RecordChange(GATE, tenant, self.gate.run_id, _encode(after), self.body)

    def same(self, tenant: str) -> RecordChange:
        """A write that changes nothing and fails if the gate has changed."""
        return RecordChange(GATE, tenant, self.gate.run_id, self.body, self.body)

    def removal(self, tenant: str) -> RecordChange:
        """The write that removes the gate."""
        return RecordChange(GATE, tenant, self.gate.run_id, None, self.body)


def new_gate(tenant: str, gate: ApprovalGate) -> RecordChange:
    """The first write of a gate."""
    return RecordChange(GATE, tenant, gate.run_id, _encode(gate), None)

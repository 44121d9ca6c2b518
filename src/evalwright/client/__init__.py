"""The client of an evaluation host: `Client` for ordinary code, `AsyncClient` for asyncio."""

from evalwright.client.client import AsyncClient, Client
from evalwright.client.errors import HostError, Unreachable
from evalwright.client.responses import (
    Agent,
    Annotation,
    BulkResult,
    Capabilities,
    CreatedRun,
    CreatedWebhook,
    DeadLetter,
    Deployment,
    EventPage,
    Fork,
    Run,
    RunDiff,
    RunEntry,
    RunEvent,
    RunStatus,
    Signal,
    SuiteName,
    Webhook,
)
from evalwright.client.retry_policy import Retries

__all__ = [
    "Agent",
    "Annotation",
    "AsyncClient",
    "BulkResult",
    "Capabilities",
    "Client",
    "CreatedRun",
    "CreatedWebhook",
    "DeadLetter",
    "Deployment",
    "EventPage",
    "Fork",
    "HostError",
    "Retries",
    "Run",
    "RunDiff",
    "RunEntry",
    "RunEvent",
    "RunStatus",
    "Signal",
    "SuiteName",
    "Unreachable",
    "Webhook",
]

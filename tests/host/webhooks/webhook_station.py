"""A real receiver over HTTPS on loopback, and a sender with a real log that delivers to it."""

import asyncio
import datetime
import ipaddress
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from evalwright.contracts.events import Event
from evalwright.host.access.egress import Egress, EgressPolicy, Lookup
from evalwright.host.access.vault import Vault
from evalwright.host.http.settings import WebhookSettings
from evalwright.host.streams.feed import Feed
from evalwright.host.webhooks.outbox import Outbox
from evalwright.host.webhooks.post import DeliveryReport, Poster
from evalwright.host.webhooks.subscriptions import Subscription, SubscriptionRequest, Subscriptions
from evalwright.store.protocol import NewEvent
from evalwright.store.sqlite.log import SqliteLog

HOST = "hooks.example.com"
TENANT = "acme"
NOW_US = 1_790_000_000_000_000
QUICK_RETRIES = {"first_retry_s": 0.005, "longest_retry_s": 0.02, "max_attempts": 3}
PATIENCE_S = 240  # a bound for broken code only: nothing waits for it


class Certificate(NamedTuple):
    """A certificate for `HOST` that nobody trusts but who is told to."""

    file: Path

    def for_server(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.file)
        return context

    def for_client(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.file))


def make_certificate(file: Path) -> Certificate:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a receiver in a test")])
    now = datetime.datetime.now(datetime.UTC)
    hosts = [x509.DNSName(HOST), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    usage = dict.fromkeys(USAGES, False) | {"digital_signature": True, "key_cert_sign": True}
    certificate = (
        x509.CertificateBuilder(issuer_name=name, subject_name=name, public_key=key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.KeyUsage(**usage), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = serialization.PrivateFormat.PKCS8
    file.write_bytes(
        key.private_bytes(pem, private, serialization.NoEncryption())
        + certificate.public_bytes(pem)
    )
    return Certificate(file)


USAGES = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)


class Delivery(NamedTuple):
    """What a receiver was sent."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def sequence(self) -> int:
        return int(msgspec.json.decode(self.body)["event"]["sequence"])


Respond = Callable[[Delivery], Awaitable[web.StreamResponse]]


async def take(delivery: Delivery) -> web.StreamResponse:
    """Answer as a receiver should."""
    return web.Response(status=204)


class ManualClock:
    """A clock that stands still until it is told otherwise."""

    def __init__(self) -> None:
        self.seconds = 1_790_000_000.0

    def now_us(self) -> int:
        return int(self.seconds * 1_000_000)

    def monotonic_s(self) -> float:
        return self.seconds


class Station:
    """A sender, its subscriptions, the receiver, and what became of each attempt."""

    def __init__(self, log: SqliteLog, egress: Egress, timeout_s: float, **retries: Any) -> None:
        self.log = log
        self.egress = egress
        self.clock = ManualClock()
        self.port = 0
        self.received: list[Delivery] = []
        vault = Vault.for_database(log.place)
        self.subscriptions = Subscriptions(log.records, egress, self.clock, vault)
        self._told: asyncio.Queue[DeliveryReport] = asyncio.Queue()
        self._owners: dict[str, str] = {}
        self._feed = Feed()
        self.sender = Outbox(
            log,
            self.subscriptions,
            Poster(egress, self.clock, timeout_s),
            self.clock,
            WebhookSettings(**{**QUICK_RETRIES, **retries}),
            self._told.put_nowait,
        )

    async def open(self) -> None:
        """Begin to hear of what is recorded, as a host does."""
        self._feed.start(self.log)
        self._feed.on_events(lambda run_id, _events: self.sender.on_append(self._owners[run_id]))
        await self.sender.start()

    async def close(self, grace_s: float = PATIENCE_S) -> None:
        self._feed.stop()
        await self.sender.close(grace_s=grace_s)

    async def subscribe(self, *events: str, path: str = "/", **more: Any) -> Subscription:
        tenant, workspace = more.pop("tenant", TENANT), more.pop("workspace", None)
        wanted = SubscriptionRequest(
            f"https://{HOST}:{self.port}{path}", events or ("eval.*",), **more
        )
        return await self.sender.subscribe(tenant, workspace, wanted)

    async def record(
        self,
        *events: NewEvent,
        run_id: str = "run_1",
        tenant: str = TENANT,
        workspace: str | None = None,
        tags: Sequence[str] = (),
    ) -> None:
        """Append events to a run; a new one begins with `run.started`."""
        view = self.log.for_tenant(f"{tenant}/{workspace}" if workspace else tenant)
        new = []
        if run_id not in self._owners:
            self._owners[run_id] = tenant
            owner = {"tenant": tenant, **({"workspace": workspace} if workspace else {})}
            new = [an_entry("run.started", workflowId="s", owner=owner, tags=list(tags))]
        view.append(run_id, [*new, *events])
        await asyncio.wrap_future(view.flush(run_id))

    async def told(self, count: int = 1) -> list[DeliveryReport]:
        """What became of the next attempts, when it is known."""
        async with asyncio.timeout(PATIENCE_S):
            return [await self._told.get() for _ in range(count)]

    async def outcomes(self, count: int = 1) -> list[str]:
        return [told.outcome for told in await self.told(count)]

    def left(self) -> list[tuple[str, int]]:
        """The events that are still to be sent: their runs and sequences."""
        found = self.log.records.rows("SELECT run_id, seq FROM webhook_outbox ORDER BY id")
        return [(run_id, sequence) for run_id, sequence in found]

    async def until(self, condition: Callable[[], Any]) -> None:
        """Wait until a condition is true."""
        async with asyncio.timeout(PATIENCE_S):
            while not condition():  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.002)


async def at_home(host: str, port: int) -> list[str]:
    """A resolver that finds every name on this machine."""
    return ["127.0.0.1"]


@asynccontextmanager
async def station(
    folder: Path,
    certificate: Certificate,
    respond: Respond = take,
    *,
    policy: EgressPolicy | None = None,
    lookup: Lookup = at_home,
    timeout_s: float = PATIENCE_S,
    is_trusted: bool = True,
    **retries: Any,
) -> AsyncIterator[Station]:
    context = certificate.for_client() if is_trusted else None
    policy = policy or EgressPolicy(allow_private=True)
    egress = Egress(policy, lookup=lookup, ssl_context=context)
    log = SqliteLog(folder / "log.db")
    place = Station(log, egress, timeout_s, **retries)

    async def receive(request: web.Request) -> web.StreamResponse:
        delivery = Delivery(request.path, dict(request.headers), await request.read())
        place.received.append(delivery)
        return await respond(delivery)

    app = web.Application(client_max_size=16 * 1024 * 1024)
    app.router.add_route("*", "/{path:.*}", receive)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=certificate.for_server())
        await site.start()
        place.port = runner.addresses[0][1]
        await place.open()
        yield place
    finally:
        await place.close(grace_s=0)
        await runner.cleanup()
        log.close()


def an_entry(event_type: str = "eval.scored", /, **payload: Any) -> NewEvent:
    task_id = "task-1" if event_type == "eval.scored" else None
    payload = {"taskId": task_id, **payload} if task_id else payload
    return NewEvent(event_type, payload.get("taskId"), NOW_US, msgspec.json.encode(payload))


def an_event(
    event_type: str = "eval.scored", sequence: int = 0, run_id: str = "run_1", **payload: Any
) -> Event:
    return Event(run_id, sequence, event_type, None, NOW_US, msgspec.json.encode(payload))

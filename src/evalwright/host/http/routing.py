"""Routes, with the checks before their handlers: scopes, query and body."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import ExitStack, asynccontextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from evalwright.contracts.errors import Problem
from evalwright.contracts.events import Event
from evalwright.contracts.jsonvalue import JsonShape
from evalwright.contracts.schema import ValueSchema
from evalwright.engine.clock import new_run_id
from evalwright.host.access.keys import Principal
from evalwright.host.access.limits import (
    LARGE_BODY,
    MAX_DEPTH,
    MOST_KEYS,
    MOST_VALUES,
    parse_body,
    too_heavy,
)
from evalwright.host.async_store import read_soon
from evalwright.host.http.errors import ApiError, invalid
from evalwright.host.runs.handle import RunHandle
from evalwright.host.telemetry.logs import audit
from evalwright.host.telemetry.trace_context import TraceContext, new_trace, read_trace
from evalwright.store.protocol import EventLog
from evalwright.store.records import RecordChange

if TYPE_CHECKING:
    from evalwright.host.access.idempotency import Ticket
    from evalwright.host.access.quotas import Room, Stores
    from evalwright.host.host import Host

BODY_SECONDS = 30  # that a client has to send a body
MOST_EXACT = 2**53  # up to here a float is exactly one integer
SMALL_BODY = 16 * 1024

Schema = dict[str, Any]
T = TypeVar("T")


class ResponseDoc(NamedTuple):
    """The documentation of a response: its meaning, and the schema of its body.

    `as_json` is the schema of the JSON that a client may ask for instead of the media type.
    """

    description: str
    schema: Schema | None = None
    media_type: str = "application/json"
    as_json: Schema | None = None


class ApiOperation(msgspec.Struct, frozen=True, kw_only=True):
    """What a route does: its documentation, by which requests are checked too."""

    id: str
    summary: str
    tag: str
    parameters: tuple[Schema, ...] = ()
    body: Schema | None = None
    needs_body: bool = True
    answers: dict[int, ResponseDoc] = {}


class ApiCall:
    """A request, with what its handler needs."""

    def __init__(
        self, host: "Host", request: Request, principal: Principal, correlation_id: str
    ) -> None:
        self.host = host
        self.request = request
        self.principal = principal
        self.correlation_id = correlation_id
        self.template: str | None = None  # of the path, once its route is found
        self.path: dict[str, str] = {}
        self.query: dict[str, Any] = {}
        self.body: Any = None
        self.raw = b""
        self.ticket: Ticket | None = None  # of a request with an Idempotency-Key
        self.stored: Room | None = None  # of a request that may store something
        headers = request.headers
        caller = read_trace(headers.get("traceparent"), headers.get("tracestate"))
        self.trace: TraceContext = (caller or new_trace()).child()

    @cached_property
    def log(self) -> EventLog:
        """The log with the caller's runs only."""
        return self.host.log.for_tenant(self.principal.partition)

    async def in_reader(self, read: Callable[[], T]) -> T:
        """Read on another thread what the disk may keep waiting."""
        return await asyncio.wrap_future(self.host.log.in_reader(self.principal.tenant, read))

    async def read_soon(self, read: Callable[[], T]) -> T:
        return await read_soon(self.host.records, self.principal.tenant, read)

    async def parse(self, work: Callable[[], T]) -> T:
        """Parse something large on another thread; only a few do that at once."""
        return await asyncio.wrap_future(self.host.parsers.submit(self.principal.tenant, work))

    @property
    def run(self) -> RunHandle:
        return self.run_with(self.path["runId"])

    async def edges(self, run: RunHandle) -> list[Event]:
        """The first and last events of a run; many who ask at the same moment share one read."""
        if self.host.records.is_local:
            return await run.read_edges()
        return await self.host.edges.read(f"{run.partition} {run.run_id}", run.read_edges)

    def run_with(self, run_id: str) -> RunHandle:
        return RunHandle(self.log, self.principal.partition, run_id)

    async def new_run(self) -> RunHandle:
        """A run of the caller that is about to be created."""
        return self.run_with(new_run_id(self.host.clock))

    @property
    def room(self) -> "Room":
        assert self.stored is not None, "its route says that it stores nothing"
        return self.stored

    @asynccontextmanager
    async def storing(self, stores: "Stores | None") -> AsyncIterator[None]:
        """Make sure that the tenant has room for what the request stores; raises 403."""
        if stores is None or not self.principal.tenant:
            yield
            return
        async with self.host.quotas.room(self.principal.tenant) as self.stored:
            await self.stored.reserve(stores, len(self.raw), has_key=self.ticket is not None)
            yield

    def completion(self, response: Response) -> list[RecordChange]:
        """What keeps the response for the request's Idempotency-Key, if it has one.

        It is to be written in the transaction that does what the request asks for.
        """
        return [self.ticket.completion(response)] if self.ticket else []

    def audit(self, action: str, scope: str, resource: str) -> None:
        audit(
            action,
            "done",
            tenant=self.principal.tenant,
            key_id=self.principal.key_id,
            scope=scope,
            resource=resource,
            run_id=self.path.get("runId"),
            correlation_id=self.correlation_id,
        )


Handler = Callable[[ApiCall], Awaitable[Response]]


class Route:
    """A method and a path, with their handler, documentation and scopes."""

    def __init__(
        self,
        method: str,
        path: str,
        handler: Handler,
        operation: ApiOperation,
        scopes: tuple[str, ...] = (),
        *,
        all_scopes: bool = False,
        is_open: bool = False,
        stores: "Stores | None" = None,
    ) -> None:
        assert scopes or is_open, f"{method} {path}: a route without scopes must be declared open"
        assert stores or method == "GET", f"{method} {path}: a route must say what it stores"
        self.method = method
        self.path = path
        self.handler = handler
        self.operation = operation
        self.scopes = scopes  # any of them is enough, unless all_scopes
        self.all_scopes = all_scopes
        self.is_open = is_open
        self.stores = stores

    @property
    def is_mutation(self) -> bool:
        """Whether repeating the request could do something twice."""
        return self.method != "GET"

    @cached_property
    def body_schema(self) -> ValueSchema | None:
        body = self.operation.body
        return None if body is None else ValueSchema(body, f"{self.operation.id} body")

    @cached_property
    def query_schemas(self) -> dict[str, tuple[Schema, ValueSchema, bool]]:
        """The schema of each query parameter, its validator, and whether it is required."""
        return {
            parameter["name"]: (
                parameter["schema"],
                ValueSchema(parameter["schema"], parameter["name"]),
                bool(parameter.get("required")),
            )
            for parameter in self.operation.parameters
            if parameter["in"] == "query"
        }

    def check_scopes(self, principal: Principal) -> None:
        """Raise 403 if the key lacks the scopes."""
        held = [principal.may(scope) for scope in self.scopes]
        if all(held) if self.all_scopes else any(held):
            return
        needed = " and ".join(self.scopes) if self.all_scopes else " or ".join(self.scopes)
        raise ApiError(
            403, "forbidden", f"the key lacks the scope {needed}", {"scopeRequired": needed}
        )

    def read_query(self, call: ApiCall) -> None:
        """Read the query parameters as values; raises 400."""
        for name, (schema, check, needed) in self.query_schemas.items():
            given = call.request.query_params.getlist(name)
            if len(given) > 1:
                raise invalid([Problem(name, "duplicate parameter", "send it once")])
            if not given:
                if needed:
                    raise invalid([Problem(name, "missing", "add it to the query")])
                continue
            text: str = given[0]
            value: int | bool | str = text
            digits = text.removeprefix("-")
            if schema.get("type") == "integer" and digits.isascii() and digits.isdigit():
                value = int(text) if len(digits) <= 18 else text
            elif schema.get("type") == "boolean":
                value = {"true": True, "false": False}.get(text, text)
            problems = check.problems(value)
            if problems:
                raise invalid([Problem(name, problems[0].message)])
            call.query[name] = value

    async def read_body(self, call: ApiCall, held: ExitStack) -> None:
        """Read the body as a value that matches the schema; raises 400, 408, 413, 415, 429, 503.

        A large one counts until `held` is closed.
        """
        if self.body_schema is None:
            return
        arriving = ArrivingShape(call.host, call.principal.tenant, held)
        call.raw = await read_raw(call.request, call.host.settings.max_body_bytes, arriving)
        if not call.raw and not self.operation.needs_body:
            call.body = {}
            return
        given = call.request.headers.get("content-type", "application/json")
        if given.partition(";")[0].strip().lower() != "application/json":
            raise ApiError(415, "unsupported_media_type", "send the body as application/json")
        if len(call.raw) < SMALL_BODY:
            call.body = self._checked(call.raw)
        else:  # in a thread, so that other requests do not wait
            call.body = await call.parse(lambda: self._checked(call.raw))

    @cached_property
    def _outline(self) -> msgspec.json.Decoder[Any] | None:
        """Decodes a body with the members that it may have, and leaves them as they are.

        It finds a key that the body must not have before all of it is parsed.
        """
        schema = self.operation.body or {}
        if schema.get("additionalProperties") is not False:
            return None
        renamed = {f"m{n}": name for n, name in enumerate(schema["properties"])}
        fields = [(name, msgspec.Raw, msgspec.Raw()) for name in renamed]
        kind = msgspec.defstruct("Outline", fields, rename=renamed, forbid_unknown_fields=True)
        return msgspec.json.Decoder(kind)

    def _checked(self, raw: bytes) -> Any:
        assert self.body_schema is not None
        if len(raw) > LARGE_BODY and self._outline is not None:
            try:
                self._outline.decode(raw)
            except msgspec.ValidationError as error:
                if "unknown field" in str(error):
                    raise invalid([Problem("$", str(error))]) from None
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                pass  # the parser says what is wrong
        body = parse_body(raw)
        problems = self.body_schema.problems(body)
        if problems:
            raise invalid(problems)
        return _with_whole_numbers(body)


class Addressed(Protocol):
    """An entry of a table: a route of the API, or a page."""

    @property
    def method(self) -> str: ...

    @property
    def path(self) -> str: ...  # with the names of its parameters in braces


R = TypeVar("R", bound=Addressed)


class RouteTable(Generic[R]):
    """Finds the route of a request, in the order of the table."""

    def __init__(self, routes: Iterable[R]) -> None:
        self._by_length: dict[int, list[tuple[re.Pattern[str], R]]] = {}
        for route in routes:
            pattern = re.compile(
                re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(route.path)), re.DOTALL
            )
            self._by_length.setdefault(route.path.count("/"), []).append((pattern, route))

    def find(self, method: str, path: str) -> tuple[R, dict[str, str]] | ApiError:
        """The route and the parameters in its path, or the error if there is none."""
        method = "GET" if method == "HEAD" else method
        others: set[str] = set()
        for pattern, route in self._by_length.get(path.count("/"), ()):
            found = pattern.fullmatch(path)
            if found is None:
                continue
            if route.method == method:
                return route, found.groupdict()
            others.update((route.method, "HEAD") if route.method == "GET" else (route.method,))
        if others:
            allowed = {"Allow": ", ".join(sorted(others))}
            message = "this path does not support the method"
            return ApiError(405, "method_not_allowed", message, None, allowed)
        if path.startswith(("/v1/", "/.well-known/")):
            return ApiError(404, "not_found", "no such path")
        return ApiError(400, "validation_error", "paths start with /v1/ or /.well-known/")


def client_address(request: Request) -> str:
    """The address that a request comes from."""
    return request.client.host if request.client else ""


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A response with a value as JSON."""
    return Response(msgspec.json.encode(value), status, headers, "application/json")


def _with_whole_numbers(value: Any) -> Any:
    """The value with 3.0 as 3: both are integers in JSON Schema, only one is in Python."""
    if isinstance(value, dict):
        return {key: _with_whole_numbers(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_with_whole_numbers(part) for part in value]
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) <= MOST_EXACT
    return int(value) if is_whole else value


class ArrivingShape:
    """Refuses a large body for its shape while it arrives, a piece in each turn on the loop."""

    def __init__(self, host: "Host", tenant: str, held: ExitStack) -> None:
        self._host = host
        self._tenant = tenant
        self._held = held
        self._share = host.body_schedule.new_share(tenant)
        self._shape = JsonShape(MOST_VALUES, MOST_KEYS, MAX_DEPTH)
        self._waiting = b""
        self._is_large = False

    async def add(self, chunk: bytes) -> None:
        """Check what has come, unless it is little; raises 400, 429, 503."""
        self._waiting += chunk
        while len(self._waiting) > LARGE_BODY:
            piece, self._waiting = self._waiting[:LARGE_BODY], self._waiting[LARGE_BODY:]
            await self._check(piece)

    async def end(self) -> None:
        """Check the rest of a body that is large; raises 400, 429, 503."""
        if self._is_large:
            await self._check(self._waiting)

    async def _check(self, piece: bytes) -> None:
        self._is_large = True
        self._held.enter_context(self._host.bodies.hold(self._tenant, len(piece)))
        await self._host.body_schedule.wait(self._share)
        reason = self._shape.burden(piece)
        if reason is not None:
            raise too_heavy(reason)


async def read_raw(request: Request, most: int, arriving: ArrivingShape | None = None) -> bytes:
    """The body of a request; raises 400, 408, 413, 429, 503."""
    too_large = ApiError(
        413,
        "request_too_large",
        f"the body is longer than {most} bytes",
        {"maxRequestBodyBytes": most},
    )
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > most:
        raise too_large
    chunks, size = [], 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                size += len(chunk)
                if size > most:
                    raise too_large
                chunks.append(chunk)
                if arriving is not None:
                    await arriving.add(chunk)
            if arriving is not None:
                await arriving.end()
    except TimeoutError:
        message = f"the body did not arrive within {BODY_SECONDS} s"
        raise ApiError(408, "request_timeout", message) from None
    except ClientDisconnect:
        raise ApiError(400, "validation_error", "the body is incomplete") from None
    return b"".join(chunks)

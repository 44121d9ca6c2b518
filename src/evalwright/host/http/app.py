"""The ASGI application: authentication, limits, idempotency and errors around the routes."""

import logging
import random
import re
import time
from contextlib import AsyncExitStack, ExitStack
from datetime import UTC, datetime

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from evalwright.contracts.errors import (
    InvalidDocument,
    RunNotFound,
    RunPruned,
    StoreError,
    StoreUnavailable,
)
from evalwright.contracts.times import iso_time
from evalwright.host.access.idempotency import REPLAY_HEADER
from evalwright.host.access.keys import Principal, authenticate
from evalwright.host.async_store import read_soon
from evalwright.host.host import Host
from evalwright.host.http.errors import ApiError, invalid, unavailable
from evalwright.host.http.routing import (
    ApiCall,
    Handler,
    Route,
    RouteTable,
    client_address,
    json_response,
)
from evalwright.store.records import RecordConflict

CORRELATION_HEADER = "x-correlation-id"
STORE_RETRY_SECONDS = 5
_KEY_SHARE = 32  # characters of an Authorization header, with the id of the key
CLOSING = (401, 408, 413)  # refused for who asks or how: the connection is not used again
API_PATHS = ("/v1/", "/.well-known/")

_RUN_ID = re.compile(r"run_[0-9a-z]{26}")
_CORRELATION = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_NOBODY = Principal("", "", None, frozenset(), "anonymous")

_logger = logging.getLogger(__name__)
_random = random.Random()  # noqa: S311 - ids need to differ, not to be secret


class App:
    """The application of a host, as the server calls it."""

    def __init__(
        self,
        host: Host,
        routes: list[Route],
        site: Handler | None = None,
        *,
        is_local: bool = False,
    ) -> None:
        self._host = host
        self._routes = RouteTable(routes)
        self._site = site  # answers whatever is not of the API; if local, there is no API
        self._is_local = is_local

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or take part in the startup and shutdown of the server."""
        if scope["type"] == "lifespan":
            await receive()
            try:
                async with self._host.watching() if self._is_local else self._host.lifespan():
                    await send({"type": "lifespan.startup.complete"})
                    await receive()
            except Exception as error:
                _logger.exception("the host failed to start or to stop")
                await send({"type": "lifespan.startup.failed", "message": type(error).__name__})
                raise
            await send({"type": "lifespan.shutdown.complete"})
            return
        request = Request(scope, receive)
        response = await self._respond(request)
        await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        started, path = time.perf_counter(), request.scope["path"]
        given = request.headers.get(CORRELATION_HEADER, "")
        correlation_id = (
            given if _CORRELATION.fullmatch(given) else f"{_random.getrandbits(96):024x}"
        )
        call = ApiCall(self._host, request, _NOBODY, correlation_id)
        # A program that sends a key is told by the API that a path is unknown.
        is_for_api = path.startswith(API_PATHS) or (
            path != "/" and "authorization" in request.headers
        )
        if self._site is not None and (self._is_local or not is_for_api):
            response = await self._site(call)
        elif isinstance(found := self._routes.find(request.method, path), ApiError):
            response = error_response(found, correlation_id)
        else:
            route, call.path = found
            call.template = route.path
            response = await _answer(call, route)
        response.headers.update(call.trace.headers())
        response.headers["X-Correlation-Id"] = correlation_id
        response.headers["X-Content-Type-Options"] = "nosniff"
        run_id = call.path.get("runId", "")
        self._host.telemetry.on_request(
            request.method if call.template else "other",
            call.template,
            response.status_code,
            time.perf_counter() - started,
            correlation_id=correlation_id,
            tenant=call.principal.tenant or None,
            key_id=call.principal.key_id or None,
            run_id=run_id if _RUN_ID.fullmatch(run_id) else None,  # other text is not logged
            trace_id=call.trace.trace_id,
        )
        return response


async def _answer(call: ApiCall, route: Route) -> Response:
    host = call.host
    try:
        with ExitStack() as held:
            held.enter_context(host.requests.hold())
            if not route.is_open:  # authenticate, count the request, check scopes, in this order
                try:
                    call.principal = await _holder(host, call.request.headers.get("authorization"))
                except ApiError:
                    host.rates.count_address(client_address(call.request))
                    raise
                tenant = call.principal.tenant
                host.rates.count(call.principal.key_id, tenant)
                held.enter_context(host.requests.hold_for(tenant))
                route.check_scopes(call.principal)
                await host.arrivals.enter(tenant)
            route.read_query(call)
            await route.read_body(call, held)
            response = await _once(call, route)
            return host.response_budget.counted(response, call.principal.tenant)
    except Exception as error:  # noqa: BLE001 - every failure gets a response, in one shape
        return error_response(error, call.correlation_id)


async def _holder(host: Host, given: str | None) -> Principal:
    """The holder of a key; many who come with it at the same moment are let in by one read."""

    def read() -> Principal:
        return authenticate(host.records, given, datetime.now(UTC))

    if given is None or host.records.is_local:
        return read()
    share = given[:_KEY_SHARE]
    return await host.principals.read(given, lambda: read_soon(host.records, share, read))


async def _once(call: ApiCall, route: Route) -> Response:
    """Handle a request; one with an Idempotency-Key only the first time it is sent."""
    key = call.request.headers.get("idempotency-key") if route.is_mutation else None
    if key is None:
        async with call.storing(route.stores):
            return await route.handler(call)
    endpoint = f"{route.method} {call.request.scope['path']}"
    ticket = await call.host.idempotency.enter(call.principal, endpoint, key, call.raw)
    if isinstance(ticket, Response):
        return ticket
    call.ticket = ticket
    async with AsyncExitStack() as held:  # until the answer is kept, too
        try:
            await held.enter_async_context(call.storing(route.stores))
            response = await route.handler(call)
        except Exception as error:
            if not isinstance(error, ApiError | RunNotFound | InvalidDocument):
                await ticket.give_back()
                raise
            response = error_response(error, call.correlation_id)
        except BaseException:  # the host is being stopped
            await ticket.give_back()
            raise
        await ticket.finish(response)
    response.headers[REPLAY_HEADER] = "false"
    return response


def error_response(error: Exception, correlation_id: str) -> Response:
    """The response to any failure, in the error envelope of the protocol."""
    known = known_error(error, correlation_id)
    details = {**(known.details or {}), "correlationId": correlation_id}
    body = {"error": known.code, "message": known.message, "details": details}
    closing = {"Connection": "close"} if known.status in CLOSING else {}
    return json_response(body, known.status, {**(known.headers or {}), **closing})


def known_error(error: Exception, correlation_id: str) -> ApiError:
    """A failure as a refusal; one that nobody has thought of is logged."""
    known = _known(error)
    if known is None:
        # Neither message nor arguments are logged: they may hold what a tenant sent.
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        where = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else "?"
        _logger.error(
            "internal error %s at %s, correlation id %s",
            type(error).__name__,
            where,
            correlation_id,
        )
        message = "internal error; the operator can find the cause by the correlation id"
        known = ApiError(500, "internal_error", message)
    return known


def _known(error: Exception) -> ApiError | None:
    if isinstance(error, ApiError):
        return error
    if isinstance(error, RunPruned):
        when = iso_time(error.pruned_us)
        return ApiError(404, "not_found", f"the run was pruned on {when}", {"prunedAt": when})
    if isinstance(error, RunNotFound):
        return ApiError(404, "not_found", "no such run")
    if isinstance(error, InvalidDocument):
        return invalid(error.problems)
    if isinstance(error, RecordConflict):
        return ApiError(409, "conflict", "it was changed at the same time; read it again")
    if isinstance(error, StoreError):
        _logger.error("the store failed: %s", error)
        if isinstance(error, StoreUnavailable):
            message = f"the store is unavailable ({error.reason}); try again"
            return unavailable(message, STORE_RETRY_SECONDS)
        return unavailable("the store is unavailable; try again", STORE_RETRY_SECONDS)
    return None

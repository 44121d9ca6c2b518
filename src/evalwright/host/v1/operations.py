"""For those who operate the host: is it alive, is it ready, how is it doing."""

from starlette.responses import Response

from evalwright.contracts.errors import StoreError
from evalwright.host.errors import unavailable
from evalwright.host.routing import Answer, Call, Handler, Operation, Route, json_response
from evalwright.host.telemetry import CONTENT_TYPE
from evalwright.host.v1.schemas import TEXT, opened, refusals

TAG = "operations"
RETRY_SECONDS = 1

_STATUS = opened({"status": TEXT}, ("status",))


async def is_alive(_call: Call) -> Response:
    """The process answers."""
    return json_response({"status": "ok"})


async def is_ready(call: Call) -> Response:
    """The store can be read, and the host has begun and is not being stopped."""
    if not call.host.is_ready:
        raise unavailable("the host is not ready", RETRY_SECONDS)
    try:
        call.host.log.run_ids(1)
    except StoreError:
        raise unavailable("the store cannot be read", RETRY_SECONDS) from None
    return json_response({"status": "ready"})


async def metrics(call: Call) -> Response:
    """The metrics, in the text format of Prometheus; none of them tells tenants apart."""
    return Response(call.host.telemetry.metrics.render(), media_type=CONTENT_TYPE)


def _open(path: str, handler: Handler, operation: Operation) -> Route:
    return Route("GET", path, handler, operation, is_open=True)


ROUTES = [
    _open(
        "/v1/host/healthz",
        is_alive,
        Operation(
            id="healthz",
            summary="Whether the process answers.",
            tag=TAG,
            answers={200: Answer("It does.", _STATUS), **refusals(is_open=True)},
        ),
    ),
    _open(
        "/v1/host/readyz",
        is_ready,
        Operation(
            id="readyz",
            summary="Whether requests can be served.",
            tag=TAG,
            answers={200: Answer("They can.", _STATUS), **refusals(is_open=True)},
        ),
    ),
    _open(
        "/v1/host/metrics",
        metrics,
        Operation(
            id="metrics",
            summary="Metrics for Prometheus.",
            tag=TAG,
            answers={200: Answer("The metrics.", TEXT, "text/plain"), **refusals(is_open=True)},
        ),
    ),
]

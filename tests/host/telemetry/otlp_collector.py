"""An OpenTelemetry collector on loopback that keeps what it is sent."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


class Collector:
    """What arrived, decoded, and as the bytes it was."""

    def __init__(self) -> None:
        self.url = ""
        self.bodies: list[bytes] = []
        self.paths: list[str] = []

    @property
    def spans(self) -> dict[str, list[Any]]:
        """The spans by name."""
        found: dict[str, list[Any]] = {}
        for group in self._groups():
            for scope in group.scope_spans:
                for span in scope.spans:
                    found.setdefault(span.name, []).append(span)
        return found

    def resource(self) -> dict[str, Any]:
        """The attributes of whoever sent the spans."""
        (group, *_) = self._groups()
        return attributes(group.resource)

    def _groups(self) -> list[Any]:
        requests = [ExportTraceServiceRequest.FromString(body) for body in self.bodies]
        return [group for request in requests for group in request.resource_spans]

    async def take(self, request: web.Request) -> web.Response:
        self.paths.append(request.path)
        self.bodies.append(await request.read())
        answer = ExportTraceServiceResponse().SerializeToString()
        return web.Response(body=answer, content_type="application/x-protobuf")


def attributes(holder: Any) -> dict[str, Any]:
    """The attributes of a span or a resource as plain values."""
    return {
        each.key: getattr(each.value, each.value.WhichOneof("value")) for each in holder.attributes
    }


@contextmanager
def a_collector() -> Iterator[Collector]:
    """A collector that listens for as long as the block lasts."""
    collector, loop = Collector(), asyncio.new_event_loop()
    runner = loop.run_until_complete(_listen(collector))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield collector
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _listen(collector: Collector) -> web.AppRunner:
    app = web.Application()
    app.router.add_post("/{path:.*}", collector.take)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    collector.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    return runner

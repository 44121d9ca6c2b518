"""Servers on loopback, for programs and services that work for a run: nobody else may ask them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from evalwright.contracts.errors import CannotEvaluate

ADDRESS = "127.0.0.1"
PATIENCE_SECONDS = 0.2  # with clients that are still talking when a server closes


class LoopbackServer:
    """Listens while a run lasts, on any port unless one is given; messages call it `name`."""

    def __init__(
        self,
        name: str,
        answer: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        port: int = 0,
    ) -> None:
        self.port = port
        self._name = name
        self._answer = answer
        self._runner: web.ServerRunner | None = None
        self._starting = asyncio.Lock()

    @property
    def url(self) -> str:
        return f"http://{ADDRESS}:{self.port}"

    async def start(self) -> None:
        async with self._starting:
            if self._runner is not None:
                return
            quiet = logging.Logger("evalwright.loopback")
            quiet.disabled = True  # errors of a client are reported to the client
            server = web.Server(self._handle, logger=quiet, access_log=None, auto_decompress=False)
            runner = web.ServerRunner(server, shutdown_timeout=PATIENCE_SECONDS)
            await runner.setup()
            try:
                await web.TCPSite(runner, ADDRESS, self.port).start()
            except OSError as error:
                await runner.cleanup()
                raise CannotEvaluate(
                    f"the {self._name} cannot listen on {ADDRESS}: {error}"
                ) from None
            self.port = runner.addresses[0][1]
            self._runner = runner

    async def close(self) -> None:
        if self._runner is not None:
            runner, self._runner = self._runner, None
            await runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        return self._refuse_strangers(request.headers) or await self._answer(request)

    def _refuse_strangers(self, headers: Mapping[str, str]) -> web.Response | None:
        """Refuse what a web page sends, also one whose name was bound to this machine."""
        hosts = (f"{ADDRESS}:{self.port}", f"localhost:{self.port}")
        if headers.get("Host") not in hosts:
            return plain_answer(421, f"this is {hosts[0]}, and no other host")
        origin = headers.get("Origin")
        if origin is not None and origin not in [f"http://{host}" for host in hosts]:
            return plain_answer(403, "web pages have no business here")
        return None


def plain_answer(status: int, text: str, **headers: str) -> web.Response:
    """An answer that says why there is no other."""
    return web.Response(status=status, text=text, headers=headers)


async def read_body(request: web.BaseRequest, most_bytes: int) -> bytes | None:
    """The body of a request, or nothing where it is too long."""
    body = bytearray()
    if (request.content_length or 0) > most_bytes:
        return None
    async for chunk in request.content.iter_any():
        body += chunk
        if len(body) > most_bytes:
            return None
    return bytes(body)

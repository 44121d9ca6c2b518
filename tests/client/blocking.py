"""The asynchronous client, used as the other one is: one set of tests holds for both."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Iterator
from typing import Any

from evalwright.client import AsyncClient


class Blocking:
    """Calls an `AsyncClient` on an event loop of its own, and waits."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.client = AsyncClient(*args, **kwargs)
        self._runner = asyncio.Runner()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.client, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            result = method(*args, **kwargs)
            if inspect.isawaitable(result):
                return self._run(result)
            return self._each(result)

        return call

    def _each(self, entries: AsyncGenerator[Any, None]) -> Iterator[Any]:
        try:
            while True:
                yield self._run(anext(entries))
        except StopAsyncIteration:
            return
        finally:
            self._run(entries.aclose())

    def _run(self, awaitable: Any) -> Any:
        async def wait() -> Any:
            return await awaitable

        return self._runner.run(wait())

    def __repr__(self) -> str:
        return repr(self.client)

    def __enter__(self) -> "Blocking":
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self.client.close())
        self._runner.close()

"""The client for asyncio: the same calls, awaited."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

from evalwright.client import operations, prompt_calls
from evalwright.client.async_connection import AsyncConnections
from evalwright.client.client import EVALUATE, TIMEOUT_S
from evalwright.client.errors import HostError, Unreachable
from evalwright.client.exchange import Flow, HostAnswer, HostRequest
from evalwright.client.host_address import Access
from evalwright.client.presentation import present
from evalwright.client.responses import CreatedRun, RunEvent
from evalwright.client.retry_policy import Attempts, Failure, Retries
from evalwright.client.stream_position import StreamMode, StreamPosition, check_end
from evalwright.contracts.summary import EvalSummary

P = ParamSpec("P")
T = TypeVar("T")
Awaited = Coroutine[Any, Any, T]


def _call(call: Callable[P, Flow[T]]) -> Callable[Concatenate["AsyncClient", P], Awaited[T]]:
    async def method(self: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._do(call(*args, **kwargs))

    present(method, call)
    return method


def _paged(
    call: Callable[Concatenate[str | None, P], Flow[tuple[list[T], str | None]]],
) -> Callable[Concatenate["AsyncClient", P], AsyncIterator[T]]:
    async def method(self: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        place: str | None = None
        while True:
            page, place = await self._do(call(place, *args, **kwargs))
            for entry in page:
                yield entry
            if place is None:
                return

    present(method, call, skip=1, returns=AsyncIterator)
    return method


def _awaited(
    call: Callable[P, Flow[CreatedRun]],
) -> Callable[Concatenate["AsyncClient", P], Awaited[EvalSummary]]:
    async def method(self: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> EvalSummary:
        return await self.wait((await self._do(call(*args, **kwargs))).run_id)

    present(method, call, returns=EvalSummary, name="evaluate", words=EVALUATE)
    return method


class AsyncClient:
    """A client of an evaluation host, for one event loop; see `Client`."""

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        retries: Retries | None = None,
        ca_file: str | None = None,
    ) -> None:
        self._access = Access(url, key)
        self._retries = retries or Retries()
        self._connections = AsyncConnections(
            self._access.address, self._access.headers, timeout_s, ca_file
        )

    capabilities = _call(operations.capabilities)
    publish_suite = _call(operations.publish_suite)
    suites = _paged(operations.suites)
    suite = _call(operations.suite)
    delete_suite = _call(operations.delete_suite)
    agents = _call(operations.agents)
    agent = _call(operations.agent)
    register_agent = _call(operations.register_agent)
    register_manifest = _call(operations.register_manifest)

    create_run = _call(operations.create_run)
    evaluate = _awaited(operations.create_run)
    run = _call(operations.run)
    runs = _paged(operations.runs)
    poll = _call(operations.poll)
    summary = _call(operations.summary)
    diff = _call(operations.diff)
    compare_report = _call(operations.compare_report)
    debug_bundle = _call(operations.debug_bundle)
    fork = _call(operations.fork)
    cancel = _call(operations.cancel)
    delete_run = _call(operations.delete_run)
    bulk_cancel = _call(operations.bulk_cancel)
    pause = _call(operations.pause)
    resume = _call(operations.resume)
    annotate = _call(operations.annotate)
    annotations = _call(operations.annotations)

    push_prompts = _call(prompt_calls.push_prompts)

    deployments = _call(operations.deployments)
    transition = _call(operations.transition)
    respond = _call(operations.respond)

    create_webhook = _call(operations.create_webhook)
    webhooks = _call(operations.webhooks)
    delete_webhook = _call(operations.delete_webhook)
    dead_letters = _call(operations.dead_letters)
    resend_dead_letters = _call(operations.resend_dead_letters)
    delete_dead_letter = _call(operations.delete_dead_letter)

    def events(
        self, run_id: str, *, mode: StreamMode = "updates", after: int | None = None
    ) -> AsyncGenerator[RunEvent, None]:
        """The events of a run as they come, to its end, or those after a sequence."""
        return self._follow(StreamPosition(run_id, mode, after, self._retries))

    async def wait(self, run_id: str, *, timeout_s: float | None = None) -> EvalSummary:
        """The scorecard of a run once it has ended; raises as `Client.wait` does."""
        last = None
        position = StreamPosition(run_id, "updates", None, self._retries, timeout_s=timeout_s)
        async for event in self._follow(position):
            last = event
        check_end(run_id, last)
        return await self.summary(run_id)

    async def close(self) -> None:
        """Close the connections to the host."""
        await self._connections.close()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncClient({str(self._access)!r})"

    async def _do(self, flow: Flow[T]) -> T:
        answer: HostAnswer | None = None
        while True:
            try:
                request = next(flow) if answer is None else flow.send(answer)
            except StopIteration as end:
                result: T = end.value
                return result
            answer = await self._send(request)

    async def _send(self, request: HostRequest) -> HostAnswer:
        attempts = Attempts(self._retries)
        while True:
            failure: Failure | None
            try:
                answer = await self._connections.send(request)
                failure = answer.refusal()
            except Unreachable as error:
                failure = error
            if failure is None:
                return answer
            wait = attempts.wait_after(failure)
            if wait is None:
                raise failure
            await asyncio.sleep(wait)

    async def _follow(self, position: StreamPosition) -> AsyncGenerator[RunEvent, None]:
        while not position.is_over():
            asked = position.request()
            try:
                async with self._connections.stream(asked, position.patience_s) as pieces:
                    async for piece in pieces:
                        for event in position.feed(piece):
                            yield event
                        if position.is_over():
                            return
            except (HostError, Unreachable) as failure:
                wait = position.wait_after(failure)
            else:
                wait = position.closed((await self.run(position.run_id)).status)
            await asyncio.sleep(wait)

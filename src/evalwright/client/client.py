"""The two clients, `Client` for ordinary code and `AsyncClient` for asyncio: one set of methods.

Each method is written once, as a coroutine. `AsyncClient` has it awaited. Over the connections of
`Client` no coroutine ever has to wait for another, so that a single step brings it to its end.
"""

import inspect
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from functools import wraps
from types import GenericAlias
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    TypeVar,
    get_args,
    get_origin,
    overload,
)

from evalwright.client import operations, prompt_calls
from evalwright.client.async_connection import AsyncConnections
from evalwright.client.connection import Connections
from evalwright.client.errors import HostError, Unreachable
from evalwright.client.exchange import Flow, HostAnswer, HostRequest
from evalwright.client.host_address import Access
from evalwright.client.responses import CreatedRun, RunEvent
from evalwright.client.retry_policy import Attempts, Failure, Retries
from evalwright.client.stream_position import StreamMode, StreamPosition, check_end
from evalwright.contracts.summary import EvalSummary

TIMEOUT_S = 30.0
EVALUATE = "Start an evaluation like `create_run`, and wait for its scorecard like `wait`."
_SELF = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)

P = ParamSpec("P")
T = TypeVar("T")
Now = TypeVar("Now")
Later = TypeVar("Later")
Awaited = Coroutine[Any, Any, T]


class ClientMethod(Generic[P, Now, Later]):
    """A method of both clients: what `Client` gives now, `AsyncClient` gives later."""

    def __init__(self, method: Callable[..., Later]) -> None:
        self.method = method

    if TYPE_CHECKING:

        @overload
        def __get__(self, client: "Client", kind: Any) -> Callable[P, Now]: ...
        @overload
        def __get__(self, client: "AsyncClient", kind: Any) -> Callable[P, Later]: ...
        @overload
        def __get__(self, client: None, kind: Any) -> Callable[..., Any]: ...
        def __get__(self, client: Any, kind: Any) -> Any: ...


def _one(method: Callable[Concatenate[Any, P], Awaited[T]]) -> ClientMethod[P, T, Awaited[T]]:
    return ClientMethod(method)


def _many(
    method: Callable[Concatenate[Any, P], AsyncGenerator[T, None]],
) -> ClientMethod[P, Iterator[T], AsyncGenerator[T, None]]:
    return ClientMethod(method)


def _call(call: Callable[P, Flow[T]]) -> ClientMethod[P, T, Awaited[T]]:
    async def method(self: "_HostCalls", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._do(call(*args, **kwargs))

    _present(method, call, get_args(inspect.signature(call).return_annotation)[-1])
    return _one(method)


def _paged(
    call: Callable[Concatenate[str | None, P], Flow[tuple[list[T], str | None]]],
) -> ClientMethod[P, Iterator[T], AsyncGenerator[T, None]]:
    async def method(
        self: "_HostCalls", /, *args: P.args, **kwargs: P.kwargs
    ) -> AsyncGenerator[T, None]:
        place: str | None = None
        while True:
            page, place = await self._do(call(place, *args, **kwargs))
            for entry in page:
                yield entry
            if place is None:
                return

    pages = get_args(get_args(inspect.signature(call).return_annotation)[-1])[0]
    _present(method, call, GenericAlias(AsyncGenerator, (*get_args(pages), None)), skip=1)
    return _many(method)


def _awaited(
    call: Callable[P, Flow[CreatedRun]],
) -> ClientMethod[P, EvalSummary, Awaited[EvalSummary]]:
    async def method(self: "_HostCalls", /, *args: P.args, **kwargs: P.kwargs) -> EvalSummary:
        return await self._wait((await self._do(call(*args, **kwargs))).run_id)

    _present(method, call, EvalSummary)
    method.__name__, method.__doc__ = "evaluate", EVALUATE
    return _one(method)


def _present(
    method: Callable[..., Any], call: Callable[..., Any], returns: Any, *, skip: int = 0
) -> None:
    """Have a method look as if it were written by hand: with the parameters of its call."""
    parameters = list(inspect.signature(call).parameters.values())[skip:]
    signature = inspect.Signature([_SELF, *parameters], return_annotation=returns)
    method.__name__, method.__doc__ = call.__name__, call.__doc__
    method.__module__ = call.__module__
    method.__signature__ = signature  # type: ignore[attr-defined]


def _blocking(method: Callable[..., Any]) -> Callable[..., Any]:
    """The same method for ordinary code."""

    @wraps(method)
    def call(self: "_HostCalls", /, *args: Any, **kwargs: Any) -> Any:
        made = method(self, *args, **kwargs)
        return _each(made) if isinstance(made, AsyncGenerator) else _ended(made)

    signature = inspect.signature(method)
    returns = signature.return_annotation
    if get_origin(returns) is AsyncGenerator:
        signature = signature.replace(
            return_annotation=GenericAlias(Iterator, get_args(returns)[:1])
        )
    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


def _each(entries: AsyncGenerator[T, None]) -> Iterator[T]:
    try:
        while True:
            yield _ended(entries.__anext__())
    except StopAsyncIteration:
        return
    finally:
        _ended(entries.aclose())


def _ended(coroutine: Awaited[T]) -> T:
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise RuntimeError("a connection for ordinary code waited for an event loop")


class _HostCalls:
    """What both clients can do, and how requests are made."""

    _kind: type[Connections] | type[AsyncConnections]

    def __init_subclass__(cls) -> None:
        for name, call in vars(_HostCalls).items():
            if isinstance(call, ClientMethod):
                is_blocking = cls._kind is Connections
                setattr(cls, name, _blocking(call.method) if is_blocking else call.method)

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
        self._connections = self._kind(
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

    @_many
    def events(
        self, run_id: str, *, mode: StreamMode = "updates", after: int | None = None
    ) -> AsyncGenerator[RunEvent, None]:
        """The events of a run as they come, to its end, or those after a sequence.

        `updates` are run and evaluation events without content, `debug` are all. A connection that
        breaks is made again where it broke; no event is lost or repeated.
        """
        return self._follow(StreamPosition(run_id, mode, after, self._retries))

    @_one
    async def wait(self, run_id: str, *, timeout_s: float | None = None) -> EvalSummary:
        """The scorecard of a run once it has ended.

        Raises `RunFailed` or `CannotEvaluate` for a run that has none, and `TimeoutError` where it
        takes too long; it goes on then.
        """
        return await self._wait(run_id, timeout_s)

    @_one
    async def close(self) -> None:
        """Close the connections to the host."""
        await self._connections.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._access)!r})"

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
            await self._connections.sleep(wait)

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
                wait = position.closed((await self._do(operations.run(position.run_id))).status)
            await self._connections.sleep(wait)

    async def _wait(self, run_id: str, timeout_s: float | None = None) -> EvalSummary:
        last = None
        position = StreamPosition(run_id, "updates", None, self._retries, timeout_s=timeout_s)
        async for event in self._follow(position):
            last = event
        check_end(run_id, last)
        return await self._do(operations.summary(run_id))


class Client(_HostCalls):
    """A client of an evaluation host; threads may share it.

    `key` is sent to this host only: over TLS with a trusted certificate, or on this machine.
    `ca_file` names further certificates to trust. `timeout_s` is for one answer.
    """

    _kind = Connections

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient(_HostCalls):
    """A client of an evaluation host, for one event loop; see `Client`."""

    _kind = AsyncConnections

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

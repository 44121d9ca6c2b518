"""The client for ordinary code: calls return when the answer is there."""

import time
from collections.abc import Callable, Iterator
from typing import Concatenate, ParamSpec, TypeVar

from evalwright.client import operations, prompt_calls
from evalwright.client.connection import Connections
from evalwright.client.errors import HostError, Unreachable
from evalwright.client.exchange import Flow, HostAnswer, HostRequest
from evalwright.client.host_address import Access
from evalwright.client.presentation import present
from evalwright.client.responses import CreatedRun, RunEvent
from evalwright.client.retry_policy import Attempts, Failure, Retries
from evalwright.client.stream_position import StreamMode, StreamPosition, check_end
from evalwright.contracts.summary import EvalSummary

TIMEOUT_S = 30.0
EVALUATE = "Start an evaluation like `create_run`, and wait for its scorecard like `wait`."

P = ParamSpec("P")
T = TypeVar("T")


def _call(call: Callable[P, Flow[T]]) -> Callable[Concatenate["Client", P], T]:
    def method(self: "Client", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._do(call(*args, **kwargs))

    present(method, call)
    return method


def _paged(
    call: Callable[Concatenate[str | None, P], Flow[tuple[list[T], str | None]]],
) -> Callable[Concatenate["Client", P], Iterator[T]]:
    def method(self: "Client", /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        place: str | None = None
        while True:
            page, place = self._do(call(place, *args, **kwargs))
            yield from page
            if place is None:
                return

    present(method, call, skip=1, returns=Iterator)
    return method


def _awaited(
    call: Callable[P, Flow[CreatedRun]],
) -> Callable[Concatenate["Client", P], EvalSummary]:
    def method(self: "Client", /, *args: P.args, **kwargs: P.kwargs) -> EvalSummary:
        return self.wait(self._do(call(*args, **kwargs)).run_id)

    present(method, call, returns=EvalSummary, name="evaluate", words=EVALUATE)
    return method


class Client:
    """A client of an evaluation host; threads may share it.

    `key` is sent to this host only: over TLS with a trusted certificate, or on this machine.
    `ca_file` names further certificates to trust. `timeout_s` is for one answer.
    """

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
        self._connections = Connections(
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
    ) -> Iterator[RunEvent]:
        """The events of a run as they come, to its end, or those after a sequence.

        `updates` are run and evaluation events without content, `debug` are all. A connection that
        breaks is made again where it broke; no event is lost or repeated.
        """
        return self._follow(StreamPosition(run_id, mode, after, self._retries))

    def wait(self, run_id: str, *, timeout_s: float | None = None) -> EvalSummary:
        """The scorecard of a run once it has ended.

        Raises `RunFailed` or `CannotEvaluate` for a run that has none, and `TimeoutError` where it
        takes too long; it goes on then.
        """
        last = None
        position = StreamPosition(run_id, "updates", None, self._retries, timeout_s=timeout_s)
        for event in self._follow(position):
            last = event
        check_end(run_id, last)
        return self.summary(run_id)

    def close(self) -> None:
        """Close the connections to the host."""
        self._connections.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({str(self._access)!r})"

    def _do(self, flow: Flow[T]) -> T:
        answer: HostAnswer | None = None
        while True:
            try:
                request = next(flow) if answer is None else flow.send(answer)
            except StopIteration as end:
                result: T = end.value
                return result
            answer = self._send(request)

    def _send(self, request: HostRequest) -> HostAnswer:
        attempts = Attempts(self._retries)
        while True:
            failure: Failure | None
            try:
                answer = self._connections.send(request)
                failure = answer.refusal()
            except Unreachable as error:
                failure = error
            if failure is None:
                return answer
            wait = attempts.wait_after(failure)
            if wait is None:
                raise failure
            time.sleep(wait)

    def _follow(self, position: StreamPosition) -> Iterator[RunEvent]:
        while not position.is_over():
            try:
                with self._connections.stream(position.request(), position.patience_s) as pieces:
                    for piece in pieces:
                        yield from position.feed(piece)
                        if position.is_over():
                            return
            except (HostError, Unreachable) as failure:
                wait = position.wait_after(failure)
            else:
                wait = position.closed(self.run(position.run_id).status)
            time.sleep(wait)

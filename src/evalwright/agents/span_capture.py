"""Spans that this process makes while agents work, kept for the task whose code made them.

The SDK of OpenTelemetry is watched where it starts spans, whichever provider they are of: nothing
is added to a provider, and whatever exports spans goes on as before. Where no provider is set, one
of ours makes the spans of tasks and exports nothing; one that is set later has its turn at once.

A span belongs to the task that the code runs in, or that the span around it belongs to. One of
neither may be of any task at work, as where a thread was there before the task and takes no context
over. It is left out and counted; if it tells of a call, their calls are not known by spans.
"""

import functools
import importlib.util
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from evalwright.agents.context import at_work, current, of_checks
from evalwright.contracts.errors import BadInput
from evalwright.contracts.messages import phrase

if TYPE_CHECKING:
    from evalwright.agents.protocol import Invocation
    from evalwright.trace.importers.operation import Operation
    from evalwright.trace.importers.span_formats import Span

_SDK, _API = "opentelemetry.sdk.trace", "opentelemetry.trace"
_OWNER = "_evalwright_invocation"  # of a span: whose it is
_COUNTED = "_evalwright_counted"
_OURS = "evalwright"  # the name of the spans of a host
_LEFT_OUT = "spans of model or tool calls were made in a thread that no task started"
_MOST_LATE = 1_000
_SAMPLED = "a sampler of OpenTelemetry left out some spans"
_counting = threading.Lock()
_left_out = 0
_late: deque[Any] = deque(maxlen=_MOST_LATE)  # spans of tasks that had ended


class Captured:
    """The spans of an invocation, as they were started."""

    __slots__ = ("is_sampled", "seen_calls", "spans", "strays")

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.strays: list[Any] = []  # that may be of this invocation, or of others at work
        self.is_sampled = False  # some of its spans were not recorded
        self.seen_calls: list[tuple[int, int]] = []  # when each was made, and the id of its span

    def note_call(self) -> None:
        from opentelemetry.trace import get_current_span

        span_id = get_current_span().get_span_context().span_id
        self.seen_calls.append((time.time_ns(), span_id))


def require_sdk() -> None:
    """Raise `BadInput` where spans are to be observed, and nothing can make any."""
    if not _is_there(_SDK):
        message = "{@observe:otel} needs OpenTelemetry: pip install 'PATH_TO_THE_CLONE[otel]'"
        raise BadInput(phrase(message))


def _is_there(module: str) -> bool:
    try:
        return module in sys.modules or importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


@functools.cache
def watch(*, loads: bool) -> None:
    """Watch OpenTelemetry from now on, or from when the agent's code loads it.

    Where it `loads`, it is loaded now.
    """
    if loads:
        importlib.import_module(_SDK)
    waiting = {name: hook for name, hook in _HOOKS.items() if name not in sys.modules}
    for name, hook in _HOOKS.items():
        if name not in waiting:
            hook(sys.modules[name])
    if waiting:
        sys.meta_path.insert(0, _ImportHook(waiting))


class _ImportHook:
    """Finds no module itself: tells when one of some is loaded."""

    def __init__(self, waiting: dict[str, Callable[[ModuleType], None]]) -> None:
        self._waiting = waiting

    def find_spec(
        self, name: str, path: Any = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        hook = self._waiting.get(name)
        if hook is None:
            return None
        others = [each for each in sys.meta_path if each is not self]
        found = (each.find_spec(name, path, target) for each in others)
        spec = next((each for each in found if each is not None), None)
        load = getattr(spec and spec.loader, "exec_module", None)
        if spec is None or load is None:
            return spec

        def load_and_tell(module: ModuleType) -> None:
            load(module)
            hook(module)

        setattr(spec.loader, "exec_module", load_and_tell)  # noqa: B010
        return spec


@functools.cache
def _watch_sdk(sdk: Any) -> None:
    from opentelemetry.trace import get_current_span  # which the SDK has loaded

    start = sdk.Tracer.start_span

    @functools.wraps(start)
    def start_span(tracer: Any, name: str, context: Any = None, *args: Any, **more: Any) -> Any:
        span = start(tracer, name, context, *args, **more)
        if at_work:
            _keep(span, get_current_span(context))
        return span

    sdk.Tracer.start_span = start_span


@functools.cache
def _watch_api(api: Any) -> None:
    """Have spans of tasks made where no provider is set, which would make none."""
    resolve = api.ProxyTracer._tracer.fget

    def tracer_of(proxy: Any) -> Any:
        found = resolve(proxy)
        invocation = current.get()
        if invocation is None or not isinstance(found, api.NoOpTracer):
            return found
        if invocation.surroundings.observe == "none":
            return found
        started = time.perf_counter()
        own = _own_provider()  # of tracers that export nothing; None without the SDK
        scope = str(getattr(proxy, "_instrumenting_module_name", ""))
        ours = None if own is None else own.get_tracer(scope)
        invocation.aside_s += time.perf_counter() - started  # the first time the SDK is loaded
        return ours or found

    api.ProxyTracer._tracer = property(tracer_of)


_HOOKS: dict[str, Callable[[Any], None]] = {_SDK: _watch_sdk, _API: _watch_api}


@functools.cache
def _own_provider() -> Any:
    if not _is_there(_SDK):
        return None
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import SpanLimits, TracerProvider
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON

    unlimited = SpanLimits(
        max_span_attributes=SpanLimits.UNSET,
        max_event_attributes=SpanLimits.UNSET,
        max_events=SpanLimits.UNSET,
        max_attributes=SpanLimits.UNSET,
        max_attribute_length=SpanLimits.UNSET,
        max_span_attribute_length=SpanLimits.UNSET,
    )
    return TracerProvider(
        sampler=ALWAYS_ON,
        resource=Resource.get_empty(),
        span_limits=unlimited,
        shutdown_on_exit=False,
    )


def _keep(span: Any, outer: Any) -> None:
    """Keep a span that was started for its task, or for all that it may be of."""
    own, around = current.get(), getattr(outer, _OWNER, None)
    if own is not None and not own.is_open and (around is None or not around.is_open):
        if not own.was_late:
            _late.append(span)
        return  # the time of its task is over, and it is of no other
    owners = {each for each in (own, around) if each is not None and each.is_open}
    if len(owners) == 1:
        (owner,) = owners
        if owner.surroundings.observe == "none":
            return
        captured = owner.captured_spans()
        if span.is_recording():
            setattr(span, _OWNER, owner)
            captured.spans.append(span)
        else:
            captured.is_sampled = True
        return
    scope = getattr(span, "instrumentation_scope", None)
    if of_checks.get() or getattr(scope, "name", None) == _OURS or not span.is_recording():
        return
    for each in owners or tuple(at_work):
        if each.surroundings.observe != "none":
            each.captured_spans().strays.append(span)


def record_captured(invocation: "Invocation") -> None:
    """Record what the spans of an invocation tell, now that the agent has answered."""
    captured = invocation.captured
    if captured is None:
        return
    from evalwright.agents.spans import SeenAt, record_spans
    from evalwright.trace.importers.span_groups import read_by_conventions

    try:
        found = [span_of(each) for each in captured.spans if each.end_time is not None]
        begun = [span_of(each) for each in captured.spans if each.end_time is None]
        goes_on = [each for each in map(read_by_conventions, begun) if each is not None]
        found += [each.span for each in goes_on if each.kind == "tool"]  # which was called
        calls = [SeenAt(at / 1e6, f"{span_id:016x}") for at, span_id in captured.seen_calls]
        record_spans(invocation, found, _lost(captured, invocation, is_whole=not goes_on), calls)
    except Exception as error:  # noqa: BLE001 - what is in spans is written by anybody
        invocation.lose(f"spans could not be read: {type(error).__name__}")


def _lost(captured: Captured, invocation: "Invocation", *, is_whole: bool) -> str | None:
    told = [(each, found) for each in captured.strays if (found := _told(each)) is not None]
    if told:
        _count([each for each, _ in told])
        for _, found in told:
            if found.kind == "tool" and found.call is not None:
                invocation.lose_call(str(found.call["tool"]), _LEFT_OUT)
        return _LEFT_OUT
    if not is_whole:
        return "spans of calls had not ended when the agent had answered"
    return _SAMPLED if captured.is_sampled else None


def _told(span: Any) -> "Operation | None":
    from evalwright.trace.importers.span_groups import read_by_conventions

    return read_by_conventions(span_of(span))


def _count(strays: list[Any]) -> None:
    global _left_out  # noqa: PLW0603 - of the process, as spans are
    with _counting:
        for each in strays:
            if not hasattr(each, _COUNTED):
                setattr(each, _COUNTED, True)
                _left_out += 1


def left_out() -> str | None:
    """A notice of the spans that belong to no task, counted since the last one."""
    global _left_out
    with _counting:
        count, _left_out = _left_out, 0
        spans = list(_late)
        _late.clear()
    late = sum(map(_tells, spans))
    found = ((count, "in a thread that no task started"), (late, "after its task had answered"))
    notices = [f"{number} made {where}" for number, where in found if number]
    return f"spans of model or tool calls were left out: {', '.join(notices)}" if notices else None


def _tells(span: Any) -> bool:
    try:
        return _told(span) is not None
    except Exception:  # noqa: BLE001 - what is in spans is written by anybody
        return False


def span_of(made: Any) -> "Span":
    """A span of the SDK as importers have them."""
    from evalwright.trace.importers.span_formats import Span, SpanEvent

    context, parent, scope = made.get_span_context(), made.parent, made.instrumentation_scope
    return Span(
        trace_id=f"{context.trace_id:032x}",
        span_id=f"{context.span_id:016x}",
        parent_id=None if parent is None else f"{parent.span_id:016x}",
        name=made.name,
        start=_milliseconds(made.start_time),
        end=_milliseconds(made.end_time),
        attributes=_plain(made.attributes),
        resource={},
        events=[
            SpanEvent(each.name, _plain(each.attributes), at=_milliseconds(each.timestamp))
            for each in made.events
        ],
        failed=made.status.status_code.name == "ERROR",
        failure=made.status.description or None,
        dropped=made.dropped_attributes + made.dropped_events,
        scope=scope.name if scope else "",
    )


def _milliseconds(nanoseconds: int | None) -> float | None:
    return None if nanoseconds is None else nanoseconds // 1000 / 1000


def _plain(attributes: Mapping[str, Any] | None) -> dict[str, Any]:
    """Attributes as JSON has them: lists, where the SDK keeps tuples."""
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in (attributes or {}).items()
    }

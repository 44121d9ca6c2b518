"""What the events of a trace say, in a form for readers."""

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET

from evalwright.contracts.events import (
    Checked,
    Decided,
    EvalScored,
    Event,
    Found,
    InvocationStarted,
    Judged,
    ProviderUsage,
    Reasoned,
    ToolCalled,
    ToolReturned,
)
from evalwright.reports.formats.html import NO_HTML, Html, shown

_SENT, _CAME, _FAILED = Html("Sent"), Html("Came back"), Html("Failed")
StepTexts: TypeAlias = Iterator[tuple[Html, str]]


def texts_of(event: Event) -> StepTexts:
    """What an event says, in a form for readers."""
    say = _TEXTS.get(event.type)
    if say is not None:
        yield from say(event)
    elif event.type not in _TOLD_BY_STEP:
        yield NO_HTML, _readable(event.payload())


def _call(event: Event) -> StepTexts:
    called = event.decode(ToolCalled)
    if called.inputs is not UNSET:
        yield _SENT, _readable(called.inputs)


def _result(event: Event) -> StepTexts:
    came = event.decode(ToolReturned)
    if came.error is not UNSET:
        yield _FAILED, f"{came.error.code}: {came.error.message}"
    if came.outcome is not UNSET:
        yield _CAME, _readable(came.outcome)


def _thought(event: Event) -> StepTexts:
    yield NO_HTML, event.decode(Reasoned).reasoning


def _decision(event: Event) -> StepTexts:
    yield NO_HTML, _readable(event.decode(Decided).decision)


def _judged(event: Event) -> StepTexts:
    said = (
        f"{verdict.question}: {'met' if verdict.met else 'not met'}. {verdict.reason}"
        for verdict in event.decode(Judged).verdicts
    )
    yield NO_HTML, "\n".join(said)


def _checked(event: Event) -> StepTexts:
    said = (
        f"{check.check}: {'passed' if check.passed else 'failed'}. {check.reason}".strip()
        for check in event.decode(Checked).checks
    )
    yield NO_HTML, "\n".join(said)


_TEXTS: dict[str, Callable[[Event], StepTexts]] = {
    ToolCalled.TYPE: _call,
    ToolReturned.TYPE: _result,
    Reasoned.TYPE: _thought,
    Decided.TYPE: _decision,
    Judged.TYPE: _judged,
    Checked.TYPE: _checked,
}
_TOLD_BY_STEP = frozenset((InvocationStarted.TYPE, ProviderUsage.TYPE, Found.TYPE, EvalScored.TYPE))


def _readable(value: Any) -> str:
    """A value as people read it: texts as they are, the rest as indented JSON."""
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    except (msgspec.MsgspecError, RecursionError, TypeError, ValueError):
        return shown(value)

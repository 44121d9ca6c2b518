"""Runs for the tests of telemetry: real events, with canaries wherever content may stand."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from builders import EPOCH_US, a_suite, a_task
from evalwright.agents import Task
from evalwright.contracts.events import Event
from evalwright.contracts.suite import Suite
from evalwright.host.telemetry.telemetry import RunOrigin, Telemetry
from subjects.runs import Workshop

TENANT = "acme"
CANARY = "canary-7f3a"


class FixedClock:
    """A clock that stands still, long after every event."""

    def now_us(self) -> int:
        return EPOCH_US + 3_600_000_000

    def monotonic_s(self) -> float:
        return 0.0


def a_telling_suite() -> Suite:
    """A suite of two tasks that holds a canary wherever a text may stand."""
    tasks = [a_task(f"task-{n}", input=f"{CANARY} input", value=f"{CANARY} value") for n in (1, 2)]
    return a_suite(tasks)


def a_telling_agent(task: Task) -> Any:
    """An agent that fails its second task, with words that nobody else may repeat."""
    if task.id == "task-2":
        raise RuntimeError(f"{CANARY} failure")
    return f"{CANARY} output"


def a_recorded_run(folder: Path, agent: Callable[[Task], Any] = a_telling_agent) -> list[Event]:
    """The events of a run that the engine made of the telling suite."""
    workshop = Workshop(folder / "telemetry.db")
    try:
        recording = workshop.run(a_telling_suite(), agent)
        return list(workshop.log.read(recording.run_id))
    finally:
        workshop.close()


def observe(
    telemetry: Telemetry, events: Iterable[Event], origin: RunOrigin | None = None
) -> Telemetry:
    """Tell telemetry of a run's events, one append after another."""
    events = list(events)
    if origin is not None:
        telemetry.expect(events[0].run_id, TENANT, origin)
    for event in events:
        telemetry.on_events(event.run_id, TENANT, [event])
    return telemetry


def samples(telemetry: Telemetry) -> dict[str, float]:
    """The samples that Prometheus would read, by name and labels."""
    lines = telemetry.metrics.render().decode().split("\n")
    told = [line for line in lines if line and not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in told)}

"""The measurements, each a list of probes that are taken in turn."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from figures import Probe
from ours import Ours
from theirs import InspectAi, PydanticEvals

TASKS = 10_000
MANY_TASKS = 100_000
SLOW_TASKS = 1_000
CONCURRENCY = 100
STARTS = 15


@dataclass(frozen=True)
class Field:
    """Who takes part, and how often each is measured."""

    ours: Ours
    pydantic_evals: PydanticEvals | None
    inspect_ai: InspectAi | None
    repeat: int
    inspect_repeat: int


def instant(field: Field) -> list[Probe]:
    ours, theirs, inspect = field.ours, field.pydantic_evals, field.inspect_ai
    probes = []
    for kind, agent in (("sync", "instant"), ("async", "instant_async")):
        take = partial(ours.instant, agent, TASKS)
        probes.append(Probe(f"evalwright {kind}", field.repeat, take))
        if theirs:
            take = partial(theirs.instant, agent, TASKS)
            probes.append(Probe(f"pydantic-evals {kind}", field.repeat, take))
    if inspect:
        probes.append(Probe("inspect-ai", field.inspect_repeat, partial(inspect.instant, TASKS)))
    return probes


def latency(field: Field) -> list[Probe]:
    ours, theirs, inspect = field.ours, field.pydantic_evals, field.inspect_ai
    size = (SLOW_TASKS, CONCURRENCY)
    probes = []
    for kind, agent in (("sync", "pause"), ("async", "pause_async")):
        take = partial(ours.latency, agent, *size)
        probes.append(Probe(f"evalwright {kind}", field.repeat, take))
        if theirs:
            take = partial(theirs.latency, agent, *size)
            probes.append(Probe(f"pydantic-evals {kind}", field.repeat, take))
    if inspect:
        probes.append(Probe("inspect-ai", field.inspect_repeat, partial(inspect.latency, *size)))
    return probes


def memory(field: Field) -> list[Probe]:
    return [
        Probe(f"evalwright {n:,}", field.repeat, partial(field.ours.memory, "instant_async", n))
        for n in (TASKS, MANY_TASKS)
    ]


def startup(field: Field) -> list[Probe]:
    probes = [
        Probe(f"evalwright {flag}", STARTS, partial(field.ours.startup, flag))
        for flag in ("--version", "--help")
    ]
    if field.inspect_ai:
        take = partial(field.inspect_ai.startup, "--version")
        probes.append(Probe("inspect --version", STARTS, take))
    return probes


def readback(field: Field) -> list[Probe]:
    take = partial(field.ours.readback, "instant_async", TASKS)
    probes = [Probe("evalwright show", field.repeat, take)]
    if field.inspect_ai:
        for action in ("read", "read-scores"):
            take = partial(field.inspect_ai.readback, action, TASKS)
            probes.append(Probe(f"inspect-ai {action}", field.repeat, take))
    return probes


def checks(field: Field) -> list[Probe]:
    """Five deterministic checks on each answer; then the same answers scored again."""
    take = partial(field.ours.checked, "instant_async", TASKS)
    return [Probe("evalwright", field.repeat, take)]


def isolate(field: Field) -> list[Probe]:
    """The same instant tasks in the process of the run, and in child processes."""
    return [
        Probe(f"evalwright {where}", field.repeat, partial(field.ours.instant, *given))
        for where, given in (
            ("in process", ("instant", TASKS)),
            ("isolated", ("instant", TASKS, "--isolate")),
        )
    ]


def observing(field: Field) -> list[Probe]:
    """Agents without instrumentation, and with five spans for each task, captured or not."""
    kinds = [("without spans", "instant", "auto")]
    kinds += [
        (f"{name}, {'not ' * (observe == 'none')}captured", agent, observe)
        for name, agent in (("bare spans", "bare_spans"), ("GenAI spans", "genai_spans"))
        for observe in ("none", "auto")
    ]
    return [
        Probe(f"evalwright {name}", field.repeat, partial(field.ours.observing, agent, TASKS, how))
        for name, agent, how in kinds
    ]


MEASUREMENTS: dict[str, Callable[[Field], list[Probe]]] = {
    "instant": instant,
    "latency": latency,
    "memory": memory,
    "startup": startup,
    "readback": readback,
    "checks": checks,
    "isolate": isolate,
    "observing": observing,
}

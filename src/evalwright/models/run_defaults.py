"""What `evalwright run` takes from a settings file: agent, suites, judges, gates, the database."""

import os
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from evalwright.contracts.coverage import Observe, ToolsClaim, UsageClaim

Texts = tuple[Annotated[str, Meta(min_length=1)], ...]
Gate = Literal["threshold", "findings", "regression", "significant-regression", "none"]
_ADDRESSES = ("http://", "https://")


class RunDefaults(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    """Options that hold unless the command line has others; paths are relative to the file."""

    agent: Annotated[str, Meta(min_length=1)] | None = None
    agent_tools: ToolsClaim | None = None  # claimed of this agent, and of no other
    agent_usage: UsageClaim | None = None
    isolate: bool = False  # agents in Python run in processes of their own
    observe: Observe | None = None  # whether spans of a Python agent are captured
    otlp: bool = False  # for agents in other processes
    suites: Texts = ()
    judges: Texts = ()
    user_model: Annotated[str, Meta(min_length=1)] | None = None
    fail_on: tuple[Gate, ...] = ()
    concurrency: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    max_tokens_total: Annotated[int, Meta(ge=1)] | None = None
    db: Annotated[str, Meta(min_length=1)] | None = None

    def __bool__(self) -> bool:
        return self != NO_DEFAULTS

    @property
    def sends(self) -> list[str]:
        """The names of those that spend money or send data: they need trust."""
        named = [name for name in ("judges", "user_model", "db") if getattr(self, name)]
        is_elsewhere = self.agent is not None and self.agent.lower().startswith(_ADDRESSES)
        return ["agent", *named] if is_elsewhere else named

    def without(self, names: "list[str]") -> "RunDefaults":
        return msgspec.structs.replace(self, **{name: getattr(NO_DEFAULTS, name) for name in names})

    def on_top_of(self, below: "RunDefaults") -> "RunDefaults":
        fields = self.__struct_fields__
        if self.agent is not None:  # what is claimed there is claimed of another
            below = below.without(["agent_tools", "agent_usage"])
        return RunDefaults(*[getattr(self, name) or getattr(below, name) for name in fields])

    def found_from(self, folder: Path) -> "RunDefaults":
        db = self.db  # by its real path, which is the same wherever the command runs
        if db and "://" not in db:
            db = str((folder / Path(db).expanduser()).resolve())
        return msgspec.structs.replace(
            self,
            agent=self.agent and _agent_from(folder, self.agent),
            suites=tuple(os.path.relpath(folder / suite) for suite in self.suites),
            db=db,
        )


NO_DEFAULTS = RunDefaults()
NAMES = tuple(each.encode_name for each in msgspec.structs.fields(RunDefaults))


def configured_log(given: str | None, defaults: RunDefaults) -> str | None:
    """The log that is named; else that of the settings, unless the environment names one."""
    return defaults.db if given is None and not os.environ.get("EVALWRIGHT_DB") else given


def spelled(document: dict[str, Any]) -> dict[str, Any]:
    """The settings among others, however they are written: `fail_on`, one suite as a text."""
    found = {name: document[name] for name in NAMES if name in document}
    for name in NAMES:
        if (other := name.replace("-", "_")) in document:
            found[name] = document[other]
    lists = ("suites", "judges", "fail-on")
    return {
        name: [value] if name in lists and isinstance(value, str) else value
        for name, value in found.items()
    }


def _agent_from(folder: Path, ref: str) -> str:
    if ref.lower().startswith((*_ADDRESSES, "cmd:")):
        return ref
    path = ref.partition("#")[0]
    file = path.rpartition(":")[0] if ".py:" in path else path
    if not (folder / file).exists():
        return ref
    return os.path.relpath(folder / file) + ref.removeprefix(file)

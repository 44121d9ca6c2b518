"""What can be added to a host from outside: routes, workflows, capabilities."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import msgspec

from evalwright.contracts.errors import Problem
from evalwright.contracts.events import Event
from evalwright.contracts.run_plan import RunSettings
from evalwright.engine.clock import Clock
from evalwright.engine.recorder import Recorder
from evalwright.host.executors import RunExecutor
from evalwright.host.http.routing import Route


class Workflow(Protocol):
    """Something other than a suite that runs are started for."""

    def problem(self, inputs: dict[str, Any]) -> Problem | None:
        """Why a run cannot be started with these inputs, if it cannot."""

    def used(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Those of the inputs that it uses; only they are recorded."""

    def executor(
        self, recorder: Recorder, clock: Clock, events: Iterable[Event], limits: RunSettings
    ) -> RunExecutor:
        """The executor of a run with these recorded events, of which the first is `run.started`."""


class Extension(msgspec.Struct, frozen=True):
    """An addition to a host; the host itself knows none of them."""

    routes: tuple[Route, ...] = ()
    workflows: Mapping[str, Workflow] = {}  # by workflowId
    capabilities: Mapping[str, Any] = {}  # further fields of the discovery document


NO_EXTENSION = Extension()

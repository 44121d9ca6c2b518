"""What can be added to a host from outside: routes, workflows, capabilities."""

from collections.abc import Mapping
from typing import Any

import msgspec

from evalwright.host.http.routing import Route
from evalwright.host.runs.executor import Workflow


class Extension(msgspec.Struct, frozen=True):
    """An addition to a host; the host itself knows none of them."""

    routes: tuple[Route, ...] = ()
    workflows: Mapping[str, Workflow] = {}  # by workflowId
    capabilities: Mapping[str, Any] = {}  # further fields of the discovery document


NO_EXTENSION = Extension()

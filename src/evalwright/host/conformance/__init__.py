"""Test seams and fixture workflows of the protocol's conformance suite.

Only `serve --conformance` loads this package. The seams are paths below `/v1/host/sample/` that
bring a host into states that the suite could not reach otherwise. Each acts only on what belongs to
the caller's own tenant.
"""

from evalwright.host.conformance import (
    deployments,
    evaluations,
    events,
    invocations,
    workflow_routes,
)
from evalwright.host.conformance.workflows import WORKFLOWS
from evalwright.host.extension import Extension

__all__ = ["EXTENSION"]

EXTENSION = Extension(
    routes=(
        *workflow_routes.ROUTES,
        *events.ROUTES,
        *evaluations.ROUTES,
        *invocations.ROUTES,
        *deployments.ROUTES,
    ),
    workflows=WORKFLOWS,
    capabilities={
        "fixtures": list(WORKFLOWS),
        "replay": {"supported": True, "modes": ["replay"]},  # a workflow cannot be branched
    },
)

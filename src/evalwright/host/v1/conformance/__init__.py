"""What the conformance suite needs besides the protocol itself; served under `--conformance` only.

Workflows to run, and seams: paths below `/v1/host/sample/` by which the suite brings a host into
states that it could not reach by itself. Each works on what belongs to the caller's own tenant.
"""

from evalwright.host.v1.conformance import (
    deployments,
    evaluations,
    events,
    identity,
    invocations,
    workflows,
)
from evalwright.host.v1.conformance.workflows import create_workflow_run

__all__ = ["ROUTES", "create_workflow_run"]

ROUTES = [
    *workflows.ROUTES,
    *events.ROUTES,
    *evaluations.ROUTES,
    *invocations.ROUTES,
    *deployments.ROUTES,
    *identity.ROUTES,
]

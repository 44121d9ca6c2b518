"""Test seams and fixture workflows of the protocol's conformance suite.

`serve --conformance` loads this package where it is found; it is no part of the product, and needs
nothing but what a host offers to extensions. The seams are paths below `/v1/host/sample/` that
bring a host into states that the suite could not reach otherwise. Each acts only on what belongs to
the caller's own tenant.
"""

from typing import get_args

from evalwright.contracts.events import DrainPolicy
from evalwright.host.http.extension import Extension
from evalwright.host.v1.runs import MOST_CANCELLED
from evalwright_conformance import (
    deployments,
    evaluations,
    events,
    invocations,
    workflow_routes,
)
from evalwright_conformance.workflows import WORKFLOWS

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
        "runs": {  # but its node can be interrupted, other than the tasks of an evaluation
            "pauseResume": {"supported": True, "drainPolicies": list(get_args(DrainPolicy))},
            "bulkCancel": {"supported": True, "maxRunIds": MOST_CANCELLED},
        },
    },
)

"""All routes of version 1, in the order in which they are tried: `:verb` before the plain path."""

from evalwright.host.host import Host
from evalwright.host.routing import Route
from evalwright.host.v1 import (
    agents,
    annotations,
    bundles,
    comparisons,
    creation,
    deployments,
    diffs,
    discovery,
    events,
    forks,
    operations,
    runs,
    suites,
    webhooks,
)
from evalwright.host.v1.openapi import openapi_route


def v1_routes(host: Host | None) -> list[Route]:
    """The routes that a host serves; without a host, those that every one has."""
    routes = [
        *discovery.ROUTES,
        *operations.ROUTES,
        *events.ROUTES,
        *deployments.ROUTES,
        *creation.ROUTES,
        *forks.ROUTES,
        *diffs.ROUTES,
        *annotations.ROUTES,
        *bundles.ROUTES,
        *comparisons.ROUTES,
        *runs.ROUTES,
        *suites.ROUTES,
        *agents.ROUTES,
        *webhooks.ROUTES,
    ]
    if host is not None and host.is_conformance:
        from evalwright.host.v1 import conformance

        routes += conformance.ROUTES
    return [openapi_route(routes), *routes]

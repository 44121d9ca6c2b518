"""A host to be fuzzed: nobody is too fast for it, and it has one of everything."""

from typing import Any, NamedTuple

from builders import a_suite
from evalwright.host.http.routing import Route
from evalwright.host.v1.api import v1_routes
from host.caller import Caller
from host.server import RIGHT, ServedHost

SETTINGS: dict[str, Any] = {
    "rates": {"per_address": 1e6, "per_key": 1e6, "per_tenant": 1e6},
    "max_runs_per_tenant": 1000,
}
ROUTES: list[Route] = v1_routes()


def name_of(route: object) -> str:
    return f"{route.method} {route.path}" if isinstance(route, Route) else str(route)


async def at_home(host: str, port: int) -> list[str]:
    """A lookup that finds every name on this machine, where nobody listens."""
    return ["127.0.0.1"]


class Ground(NamedTuple):
    """Who asks, and what there is."""

    served: ServedHost
    caller: Caller
    ids: dict[str, str]

    def assert_well(self) -> None:
        """A new run still goes from its creation to its end."""
        caller = self.served.caller("afterwards")
        assert caller.snapshot(caller.evaluate(a_suite(2)))["status"] == "completed"
        assert self.served.nobody().get("/v1/host/readyz").status == 200


def prepare(served: ServedHost) -> Ground:
    """Make one of everything."""
    caller = served.caller()
    run_id = caller.evaluate(a_suite(2))
    hook = {"url": "https://hooks.example.com/", "events": ["run.paused"]}
    webhook = caller.post("/v1/webhooks", hook).json()["webhookId"]
    ids = {
        "runId": run_id,
        "agentId": RIGHT,
        "suiteId": "acme.shop.evals.refunds",
        "version": "1.0.0",
        "webhookId": webhook,
        "deliveryId": "none-failed",
        "nodeId": "approval",
    }
    return Ground(served, caller, ids)

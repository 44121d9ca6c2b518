"""One good request for every route of the host; a route that is missing here fails a test."""

from typing import Any, NamedTuple

from builders import a_suite_document
from evalwright.host.http.routing import Route
from host.server import RIGHT

MANIFEST = {
    "agentId": "local.acme.helper",
    "persona": "Helper",
    "modelClass": "general",
    "systemPrompt": "Help.",
}
WEBHOOK = {"url": "https://hooks.example.com/in", "events": ["run.completed"]}
PROMOTE = {"version": "1.0.0", "transition": "promote", "toState": "test"}


class Ids(NamedTuple):
    """What a request is about."""

    run: str
    suite: str = "acme.shop.evals.refunds"
    agent: str = RIGHT
    webhook: str = "wh_nothing"
    node: str = "approval"
    delivery: str = "dlv_nothing"
    event: str | None = None


class Sample(NamedTuple):
    """The query and the body of a request."""

    query: str = ""
    body: Any = None


SAMPLES: dict[tuple[str, str], Sample] = {
    ("GET", "/v1/openapi.json"): Sample(),
    ("GET", "/.well-known/openwop"): Sample(),
    ("GET", "/v1/host/healthz"): Sample(),
    ("GET", "/v1/host/readyz"): Sample(),
    ("GET", "/v1/host/metrics"): Sample(),
    ("GET", "/v1/runs/{runId}/events/poll"): Sample("?timeout=1"),
    ("GET", "/v1/runs/{runId}/events"): Sample(),
    ("GET", "/v1/prompts"): Sample(),
    ("POST", "/v1/prompts/results"): Sample(body={"results": []}),
    ("GET", "/v1/agents/{agentId}/deployments"): Sample(),
    ("POST", "/v1/agents/{agentId}/deployments"): Sample(body=PROMOTE),
    ("POST", "/v1/runs/{runId}/interrupts/{nodeId}"): Sample(
        body={"resumeValue": {"action": "accept"}}
    ),
    ("POST", "/v1/runs"): Sample(
        body={"mode": "eval", "evalSuiteRef": "acme.shop.evals.refunds@1.0.0", "agentId": RIGHT}
    ),
    ("POST", "/v1/runs/{runId}:fork"): Sample(body={"mode": "replay"}),
    ("GET", "/v1/runs/{runId}:diff"): Sample("?against={runId}"),
    ("POST", "/v1/runs/{runId}/annotations"): Sample(body={"signal": {"kind": "flag"}}),
    ("GET", "/v1/runs/{runId}/annotations"): Sample(),
    ("GET", "/v1/runs/{runId}/debug-bundle"): Sample(),
    ("GET", "/v1/runs/{runId}/compare-report"): Sample("?baseline={runId}"),
    ("GET", "/v1/runs"): Sample(),
    ("POST", "/v1/runs:bulk-cancel"): Sample(body={"runIds": ["run_nowhere"]}),
    ("POST", "/v1/runs/{runId}:pause"): Sample(body={}),
    ("POST", "/v1/runs/{runId}:resume"): Sample(body={}),
    ("POST", "/v1/runs/{runId}/cancel"): Sample(body={}),
    ("GET", "/v1/runs/{runId}/eval-summary"): Sample(),
    ("GET", "/v1/runs/{runId}"): Sample(),
    ("POST", "/v1/suites"): Sample(body=a_suite_document(1)),
    ("GET", "/v1/suites"): Sample(),
    ("GET", "/v1/suites/{suiteId}@{version}"): Sample(),
    ("DELETE", "/v1/runs/{runId}"): Sample(),
    ("DELETE", "/v1/suites/{suiteId}@{version}"): Sample(),
    ("GET", "/v1/agents"): Sample(),
    ("POST", "/v1/agents"): Sample(body={"version": "1.0.0", "manifest": MANIFEST}),
    ("GET", "/v1/agents/{agentId}"): Sample(),
    ("POST", "/v1/webhooks"): Sample(body=WEBHOOK),
    ("GET", "/v1/webhooks"): Sample(),
    ("DELETE", "/v1/webhooks/{webhookId}"): Sample(),
    ("GET", "/v1/webhooks/{webhookId}/dead-letters"): Sample(),
    ("POST", "/v1/webhooks/{webhookId}/dead-letters:resend"): Sample(),
    ("DELETE", "/v1/webhooks/{webhookId}/dead-letters/{deliveryId}"): Sample(),
}


class Asked(NamedTuple):
    """A request, ready to be sent."""

    method: str
    path: str
    body: Any


def request_for(route: Route, ids: Ids) -> Asked:
    """The sample of a route, about these ids."""
    sample = SAMPLES[route.method, route.path]
    path = (route.path + sample.query).format(
        runId=ids.run,
        suiteId=ids.suite,
        version="1.0.0",
        agentId=ids.agent,
        webhookId=ids.webhook,
        nodeId=ids.node,
        deliveryId=ids.delivery,
    )
    return Asked(route.method, path, sample.body)

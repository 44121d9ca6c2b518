"""The OpenAPI document names every header and media type, and refusals name the very field."""

import pytest

from host.caller import Caller


def test_the_stream_is_documented_as_json_too(newcomer: Caller):
    document = newcomer.get("/v1/openapi.json").json()
    answer = document["paths"]["/v1/runs/{runId}/events"]["get"]["responses"]["200"]
    assert set(answer["content"]) == {"text/event-stream", "application/json"}


def test_the_headers_of_creating_a_run_are_documented(newcomer: Caller):
    document = newcomer.get("/v1/openapi.json").json()
    names = {entry["name"] for entry in document["paths"]["/v1/runs"]["post"]["parameters"]}
    assert names == {"Idempotency-Key", "X-Dedup", "X-Force-Engine-Version"}


def test_a_status_that_no_run_can_have_is_refused_as_a_filter(newcomer: Caller):
    reply = newcomer.get("/v1/runs?status=complete")
    assert (reply.status, reply.json()["details"]["problems"][0]["path"]) == (400, "status")


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"version": "one", "manifest": {}}, "$.version"),
        ({"version": "1.0.0", "agentId": "x", "url": "https://agent.example"}, "$.agentId"),
    ],
)
def test_an_agent_that_cannot_be_registered_is_refused_by_field(
    newcomer: Caller, body: dict[str, object], path: str
):
    reply = newcomer.post("/v1/agents", body)
    assert (reply.status, reply.json()["details"]["problems"][0]["path"]) == (400, path)

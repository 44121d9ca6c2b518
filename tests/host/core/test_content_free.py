"""Canaries: strings planted in all that is content come out nowhere but where content belongs."""

import io
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from evalwright.host.access.egress import Egress, EgressPolicy
from evalwright.host.telemetry.logs import logging_to
from host.caller import Caller, Frame
from host.server import AGENTS, ServedHost, running_host
from host.webhooks.webhook_station import HOST, Certificate, at_home, make_certificate
from subjects.waiting import eventually

LEAKY = "acme.leaky"
SECRET = "sk-canary-0123456789abcdef"
PLANTED = (
    "canary-input",
    "canary-expected",
    "canary-rubric",
    "canary-reason",
    "canary-tool",
    "canary-memory",
    "canary-failure",
    "canary-note",
    "canary-idempotency",
    "canary-metadata",
    SECRET,
)
FIXTURES = {
    "toolResponses": [{"tool": "shop:orders.get", "response": {"is": "canary-tool"}}],
    "memorySeed": [
        {"id": "m1", "content": "canary-memory", "tags": [], "createdAt": "2026-01-01T00:00:00Z"}
    ],
}
SUITE = {
    "suiteId": "acme.shop.evals.canaries",
    "version": "1.0.0",
    "modes": ["golden", "rubric"],
    "tasks": [
        {
            "taskId": "echoed",
            "input": f"canary-input {SECRET}",
            "fixtures": FIXTURES,
            "expected": {
                "kind": "golden",
                "match": {"strategy": "contains", "value": "canary-expected"},
            },
        },
        {
            "taskId": "judged",
            "input": "canary-input",
            "fixtures": FIXTURES,
            "expected": {
                "kind": "rubric",
                "rubric": [{"criterion": "canary-rubric", "weight": 1}],
            },
        },
        {
            "taskId": "failed",
            "input": "canary-failure fail",
            "expected": {"kind": "golden", "match": {"strategy": "exact", "value": "yes"}},
        },
    ],
}


@contextmanager
def receiving(certificate: Certificate) -> Iterator[tuple[int, list[bytes]]]:
    """A receiver of webhooks over HTTPS: its port, and what it was sent."""
    received: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            headers = json.dumps(dict(self.headers)).encode()
            received.append(headers + self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = certificate.for_server().wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_address[1], received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Story:
    """What was seen of an evaluation that was full of canaries."""

    def __init__(self, frames: list[Frame], told: dict[str, bytes], key: str) -> None:
        self.frames = frames
        self.told = told
        self.key = key


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    folder = tmp_path_factory.mktemp("canaries")
    certificate = make_certificate(folder / "certificate.pem")
    verdict = '{"c1": {"reason": "canary-reason", "met": true}}'
    (folder / "judge.json").write_text(json.dumps([{"reply": verdict}]))
    settings = {
        "agents": {
            **AGENTS,
            LEAKY: {"ref": f"{Path(__file__).parent.parent / 'leaky.py'}:answer"},
        },
        "judges": (f"scripted:{folder / 'judge.json'}",),
    }
    logged = io.StringIO()
    with (
        receiving(certificate) as (port, received),
        logging_to(logged),
        running_host(
            folder / "host.db",
            settings=settings,
            egress=Egress(
                EgressPolicy(allow_private=True),
                lookup=at_home,
                ssl_context=certificate.for_client(),
            ),
        ) as served,
    ):
        caller = served.caller()
        frames = _evaluate(served, caller, port, received)
        run_id = frames[0].data["runId"]
        told = {
            "summary": caller.get(f"/v1/runs/{run_id}/eval-summary").body,
            "metrics": served.nobody().get("/v1/host/metrics").body,
            "list": caller.get("/v1/runs").body,
            "agents": caller.get("/v1/agents").body,
            "webhooks": b"\n".join(received),
        }
        key = str(caller.key)
    told["logs"] = logged.getvalue().encode()
    told["eval events"] = json.dumps(
        [frame.data for frame in frames if frame.name.startswith("eval.")]
    ).encode()
    return Story(frames, told, key)


def _evaluate(served: ServedHost, caller: Caller, port: int, received: list[bytes]) -> list[Frame]:
    hook = {"url": f"https://{HOST}:{port}/", "events": ["run.*", "eval.*", "agent.*"]}
    assert caller.post("/v1/webhooks", hook).status == 201, caller.post("/v1/webhooks", hook).body
    run_id = caller.start(
        SUITE,  # type: ignore[arg-type] - a document
        LEAKY,
        headers={"Idempotency-Key": "canary-idempotency"},
        metadata={"note": "canary-metadata"},
    )
    frames = caller.frames(run_id)
    annotation = {"signal": {"kind": "correction", "correction": "canary-note"}, "note": SECRET}
    assert caller.post(f"/v1/runs/{run_id}/annotations", annotation).status == 201
    broken = caller.start(SUITE, "acme.broken")  # type: ignore[arg-type] - a document
    assert caller.finish(broken)["status"] == "failed"
    for path in (f"/v1/runs/{run_id}?q=canary-input", "/v1/canary-input", "/canary-input"):
        caller.get(path)
    caller.post("/v1/runs", {"mode": "canary-input"})
    ended = ("run.completed", "run.failed")
    eventually(lambda: sum(_type_of(each) in ended for each in received) == 2, "both deliveries")
    return frames


def _type_of(delivery: bytes) -> str:
    headers = json.JSONDecoder().raw_decode(delivery.decode())[0]
    return next(value for name, value in headers.items() if name.lower() == "x-openwop-event-type")


def test_the_canaries_were_there_where_content_belongs(story: Story):
    content = json.dumps([frame.data for frame in story.frames])
    for planted in ("input", "expected", "rubric", "reason", "tool", "memory", "failure"):
        assert f"canary-{planted}" in content


def test_every_place_had_something_to_tell(story: Story):
    assert b"eval.scored" in story.told["eval events"]
    assert b"echoed" in story.told["summary"]
    assert b"eval.scored" in story.told["webhooks"]
    assert b"openwop_run_created" in story.told["metrics"]
    assert b"openwop.run.completed" in story.told["logs"]


@pytest.mark.parametrize(
    "place", ["eval events", "summary", "metrics", "logs", "webhooks", "list", "agents"]
)
def test_no_canary_comes_out_where_content_does_not_belong(story: Story, place: str):
    found = [planted for planted in PLANTED if planted.encode() in story.told[place]]
    assert found == []


def test_the_secret_of_a_key_is_told_nowhere(story: Story):
    content = json.dumps([frame.data for frame in story.frames]).encode()
    secret = story.key.rpartition("_")[2].encode()
    assert secret not in content + b"".join(story.told.values())


FORBIDDEN = {
    *("taskOutput", "output", "rubric", "completion", "prompt", "body", "secret", "credentials"),
    *("token", "apiKey"),
}


def keys_of(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value) | set().union(*map(keys_of, value.values()))
    return set().union(*map(keys_of, value)) if isinstance(value, list) else set()


def test_eval_events_and_summaries_have_no_field_for_content(story: Story):
    payloads = [frame.data["payload"] for frame in story.frames if frame.name.startswith("eval.")]
    assert not FORBIDDEN & keys_of(payloads)
    assert not FORBIDDEN & keys_of(json.loads(story.told["summary"]))

"""Spans on their way to a collector, and the packages that nobody loads without need."""

import os
import subprocess
import sys

import pytest
from otlp_collector import a_collector, attributes
from telemetry_runs import CANARY, a_recorded_run, observe

from evalwright.contracts.errors import BadInput
from evalwright.engine.clock import SystemClock
from evalwright.host.telemetry.facts import ForkOrigin
from evalwright.host.telemetry.telemetry import RunOrigin, Telemetry
from evalwright.host.telemetry.trace_context import TraceContext
from evalwright.host.telemetry.traces import NoTracer, open_tracer

CALLER = TraceContext("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", state="rojo=1")


@pytest.fixture(autouse=True)
def no_otel_variables(monkeypatch):
    for name in list(os.environ):
        if name.startswith("OTEL_"):
            monkeypatch.delenv(name)


@pytest.fixture
def collector():
    with a_collector() as collector:
        yield collector


def send(events, environment, endpoint=None, origin=None):
    telemetry = Telemetry(SystemClock(), open_tracer(environment, endpoint))
    observe(telemetry, events, origin)
    telemetry.close()


def test_a_collector_receives_the_tree_of_a_run_without_its_content(collector, tmp_path):
    events = a_recorded_run(tmp_path)
    send(events, {}, collector.url, RunOrigin(parent=CALLER))
    spans = collector.spans
    (run,), nodes = spans["openwop.run"], spans["openwop.node.evalwright.task"]
    assert collector.paths[0] == "/v1/traces"
    assert run.trace_id.hex() == CALLER.trace_id
    assert run.parent_span_id.hex() == CALLER.span_id
    assert run.trace_state == "rojo=1"
    assert run.start_time_unix_nano == events[0].at_us * 1000
    assert run.end_time_unix_nano == events[-1].at_us * 1000
    assert attributes(run)["openwop.run_id"] == events[0].run_id
    assert [attributes(node)["openwop.node_id"] for node in nodes] == ["task-1", "task-2"]
    assert {node.parent_span_id for node in nodes} == {run.span_id}
    assert {node.trace_id for node in nodes} == {run.trace_id}
    assert [node.status.code for node in nodes] == [0, 2]
    assert len(spans["openwop.event.append"]) == len(events)
    assert all(CANARY.encode() not in body for body in collector.bodies)


def test_a_run_without_a_caller_begins_a_trace(collector, tmp_path):
    send(a_recorded_run(tmp_path), {}, collector.url)
    (run,) = collector.spans["openwop.run"]
    assert run.parent_span_id == b""
    assert {node.trace_id for node in collector.spans["openwop.node.evalwright.task"]} == {
        run.trace_id
    }


def test_a_fork_links_to_its_source(collector, tmp_path):
    origin = RunOrigin(fork=ForkOrigin("run_source", 0, "replay", CALLER))
    send(a_recorded_run(tmp_path), {}, collector.url, origin)
    (link,) = collector.spans["openwop.run"][0].links
    assert (link.trace_id.hex(), link.span_id.hex()) == (CALLER.trace_id, CALLER.span_id)


def test_the_endpoint_and_the_name_can_come_from_the_usual_variables(
    collector, tmp_path, monkeypatch
):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_SERVICE_NAME", "our-evals")
    send(a_recorded_run(tmp_path), {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url})
    assert collector.paths[0] == "/v1/traces"
    assert collector.resource()["service.name"] == "our-evals"


def test_without_a_name_the_service_is_called_evalwright(collector, tmp_path):
    send(a_recorded_run(tmp_path), {}, collector.url)
    assert collector.resource()["service.name"] == "evalwright"


@pytest.mark.parametrize("decides", ["the caller", "the sampler"])
def test_a_trace_that_is_not_sampled_is_not_sent(collector, tmp_path, monkeypatch, decides):
    unsampled = TraceContext(CALLER.trace_id, CALLER.span_id, sampled=False)
    if decides == "the sampler":
        monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")
    origin = RunOrigin(parent=unsampled) if decides == "the caller" else RunOrigin()
    send(a_recorded_run(tmp_path), {}, collector.url, origin)
    assert collector.bodies == []


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "true"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_TRACES_EXPORTER": "none"},
    ],
)
def test_nothing_is_traced_unless_somebody_asked_for_it(environment):
    assert isinstance(open_tracer(environment), NoTracer)


def test_a_protocol_that_is_not_spoken_is_refused():
    environment = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    with pytest.raises(BadInput, match=r"OTEL_EXPORTER_OTLP_PROTOCOL=grpc: .*http/protobuf"):
        open_tracer(environment, "http://127.0.0.1:9")


def test_a_missing_package_is_named_with_the_remedy(monkeypatch):
    monkeypatch.delitem(sys.modules, "evalwright.host.telemetry.otlp", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(BadInput, match=r"pip install 'PATH_TO_THE_CLONE\[otel\]'"):
        open_tracer({}, "http://127.0.0.1:9")


def test_telemetry_loads_no_package_that_it_may_not_need():
    program = (
        "import sys, evalwright.host.telemetry\n"
        "heavy = {'opentelemetry', 'aiohttp', 'requests', 'starlette', 'uvicorn'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert shown.stdout.decode().strip() == "[]"

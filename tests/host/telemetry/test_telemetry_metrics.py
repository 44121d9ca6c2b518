"""What the host measures, from the events that runs recorded and the requests it answered."""

import math

import pytest
from telemetry_runs import CANARY, TENANT, FixedClock, a_recorded_run, observe, samples

from builders import EPOCH_US, RUN_ID, a_log, a_suite, an_event
from evalwright.contracts.events import (
    CapBreached,
    ErrorDetail,
    Event,
    InvocationStarted,
    ProviderUsage,
    RunStarted,
    ToolReturned,
)
from evalwright.host.telemetry import metrics
from evalwright.host.telemetry.facts import ForkOrigin
from evalwright.host.telemetry.metrics import CONTENT_TYPE
from evalwright.host.telemetry.telemetry import RunOrigin, Telemetry


def usage(provider: str = "openai", **fields) -> ProviderUsage:
    return ProviderUsage(provider, CANARY, 100, 20, **fields)


def returned(**fields) -> ToolReturned:
    return ToolReturned("acme.clerk", CANARY, "call-1", **fields)


def events_of(*payloads, task_id: str | None = "task-1", later_us: int = 1000):
    """A run that began, and what came of it, a while apart."""
    started = RunStarted("acme.shop.evals.refunds", {"text": CANARY})
    return [
        an_event(payload, task_id if n else None, sequence=n, at_us=EPOCH_US + n * later_us)
        for n, payload in enumerate((started, *payloads))
    ]


@pytest.fixture
def telemetry() -> Telemetry:
    return Telemetry(FixedClock())


def test_a_run_is_counted_from_its_creation_to_its_end(telemetry):
    *before, end = a_log(a_suite(tasks=3))
    observe(telemetry, before)
    assert samples(telemetry)["openwop_run_active"] == 1
    observe(telemetry, [end])
    told = samples(telemetry)
    assert told["openwop_run_created_total"] == 1
    assert told['openwop_run_completed_total{status="completed"}'] == 1
    assert told['openwop_run_completed_total{status="failed"}'] == 0
    assert told['openwop_run_duration_seconds_sum{status="completed"}'] == 0.007
    assert told["openwop_run_active"] == 0
    assert told['openwop_node_completed_total{node_type="evalwright.task",status="completed"}'] == 3
    assert told['evalwright_events_appended_total{type="eval.scored"}'] == 3


def test_the_buckets_of_run_durations_are_those_of_the_protocol(telemetry):
    observe(telemetry, a_log())
    bounds = [
        name.split('le="')[1].split('"')[0]
        for name in samples(telemetry)
        if name.startswith("openwop_run_duration_seconds_bucket")
    ]
    expected = (0.5, 1, 2.5, 5, 10, 30, 60, 300, 600, 1800, 3600, math.inf)
    assert tuple(map(float, bounds)) == expected


def test_model_calls_are_counted_by_provider_with_tokens_and_cost(telemetry):
    observe(telemetry, events_of(usage(cost_estimate_usd=0.25), usage()))
    told = samples(telemetry)
    assert told['openwop_activity_invocations_total{provider="openai",status="success"}'] == 2
    assert told['openwop_activity_tokens_total{direction="input",provider="openai"}'] == 200
    assert told['openwop_activity_tokens_total{direction="output",provider="openai"}'] == 40
    assert told['openwop_cost_usd_total{estimated="true",provider="openai"}'] == 0.25


def test_a_cost_in_another_currency_is_not_counted_as_dollars(telemetry):
    observe(telemetry, events_of(usage(cost_estimate_usd=0.25, currency="EUR")))
    assert "openwop_cost_usd_total" not in " ".join(samples(telemetry))


def test_a_provider_that_nobody_declared_is_no_label(telemetry):
    observe(telemetry, events_of(usage(CANARY)))
    told = samples(telemetry)
    assert told['openwop_activity_invocations_total{provider="other",status="success"}'] == 1


def test_a_declared_provider_is_counted_by_its_name():
    telemetry = Telemetry(FixedClock(), providers=["house"])
    observe(telemetry, events_of(usage("house")))
    name = 'openwop_activity_invocations_total{provider="house",status="success"}'
    assert samples(telemetry)[name] == 1


def test_tool_calls_are_counted_with_how_long_they_took(telemetry):
    failed = returned(error=ErrorDetail("timeout", CANARY))
    events = events_of(returned(duration_ms=250), returned(status="forbidden"), failed)
    observe(telemetry, events)
    told = samples(telemetry)
    assert told['openwop_activity_invocations_total{provider="tool",status="success"}'] == 1
    assert told['openwop_activity_invocations_total{provider="tool",status="error"}'] == 2
    assert told['openwop_activity_duration_seconds_sum{provider="tool",status="success"}'] == 0.25


def test_the_wait_for_the_first_task_is_the_backlog(telemetry):
    begins = [InvocationStarted(f"inv-{n}", "acme.clerk", "run-api") for n in (1, 2)]
    observe(telemetry, events_of(*begins, later_us=2_000_000))
    told = samples(telemetry)
    assert told["openwop_run_backlog_seconds_count"] == 1
    assert told["openwop_run_backlog_seconds_sum"] == 2


def test_a_limit_that_a_run_reached_is_counted(telemetry):
    observe(telemetry, events_of(CapBreached("budget-cost", 1, 2)))
    assert samples(telemetry)['openwop_cap_exceeded_total{kind="budget-cost"}'] == 1


def test_facts_that_a_replay_repeats_are_not_spent_again(telemetry):
    fork = ForkOrigin("run_source", 0, "replay")
    observe(telemetry, events_of(usage(cost_estimate_usd=0.25)), RunOrigin(fork=fork))
    told = samples(telemetry)
    name = 'openwop_activity_invocations_total{provider="openai",status="idempotent_hit"}'
    assert told[name] == 1
    assert not [name for name in told if "tokens" in name or "cost" in name]


def test_a_resumed_run_spends_only_what_comes_after_its_beginning(telemetry):
    started = RunStarted("acme.shop.evals.refunds", metadata={"resumedFrom": "run_before"})
    copied = an_event(usage(), "task-1", sequence=1, at_us=EPOCH_US)
    live = an_event(usage(), "task-2", sequence=2, at_us=EPOCH_US + 1)
    telemetry.on_events(RUN_ID, TENANT, [an_event(started, at_us=EPOCH_US), copied, live])
    told = samples(telemetry)
    assert told['openwop_activity_tokens_total{direction="input",provider="openai"}'] == 100


def test_a_run_that_an_earlier_process_began_is_active_but_not_created(telemetry):
    started, *rest = a_log()
    telemetry.adopt(started, TENANT)
    assert samples(telemetry)["openwop_run_active"] == 1
    observe(telemetry, rest)
    told = samples(telemetry)
    assert told["openwop_run_created_total"] == 0
    assert told["openwop_run_active"] == 0


def test_a_run_that_is_only_expected_is_not_active(telemetry):
    telemetry.expect(RUN_ID, TENANT, RunOrigin())
    assert samples(telemetry)["openwop_run_active"] == 0


def test_an_event_that_cannot_be_read_is_counted_as_appended_and_nothing_else(telemetry):
    broken = Event(RUN_ID, 1, "provider.usage", "task-1", EPOCH_US, b'{"provider":1}')
    telemetry.on_events(RUN_ID, TENANT, [broken])
    told = samples(telemetry)
    assert told['evalwright_events_appended_total{type="provider.usage"}'] == 1
    assert not [name for name in told if name.startswith("openwop_activity")]


def test_requests_are_counted_by_template_and_a_strange_method_is_no_label(telemetry):
    for method, route, status in (
        ("GET", "/v1/runs/{runId}", 200),
        ("GET", "/v1/runs/{runId}", 404),
        (CANARY, None, 405),
    ):
        telemetry.on_request(
            method=method, route=route, status=status, seconds=0.002, correlation_id="c"
        )
    told = samples(telemetry)
    requests = "evalwright_http_requests_total"
    assert told[requests + '{method="GET",route="/v1/runs/{runId}",status="404"}'] == 1
    assert told[requests + '{method="other",route="unmatched",status="405"}'] == 1
    duration = "evalwright_http_request_duration_seconds_count"
    assert told[duration + '{method="GET",route="/v1/runs/{runId}"}'] == 2


def test_deliveries_to_webhooks_are_counted_by_outcome(telemetry):
    telemetry.on_delivery("delivered", 0.5)
    telemetry.on_delivery("skipped", None)
    told = samples(telemetry)
    assert told['evalwright_webhook_deliveries_total{outcome="delivered"}'] == 1
    assert told['evalwright_webhook_deliveries_total{outcome="skipped"}'] == 1
    assert told['openwop_activity_duration_seconds_sum{provider="webhook",status="success"}'] == 0.5
    assert 'openwop_activity_invocations_total{provider="webhook",status="error"}' not in told


def test_no_content_run_tenant_or_key_appears_in_the_metrics(telemetry, tmp_path):
    events = a_recorded_run(tmp_path)
    observe(telemetry, events)
    observe(telemetry, events_of(usage(CANARY), returned()))
    text = telemetry.metrics.render().decode()
    assert 'openwop_run_completed_total{status="completed"} 1.0' in text
    for hidden in (CANARY, events[0].run_id, TENANT, "task-1", "acme"):
        assert hidden not in text


def test_metrics_are_served_as_the_text_format_of_prometheus(telemetry):
    assert CONTENT_TYPE.startswith("text/plain; version=0.0.4")
    assert telemetry.metrics.render().endswith(b"\n")


def test_more_series_than_the_limit_are_counted_together(telemetry, monkeypatch):
    monkeypatch.setattr(metrics, "MAX_SERIES", 2)
    for outcome in ("a", "b", "c", "d", "a"):
        telemetry.on_delivery(outcome, None)
    told = samples(telemetry)
    name = "evalwright_webhook_deliveries_total"
    assert [told[f'{name}{{outcome="{each}"}}'] for each in ("a", "b", "other")] == [2, 1, 2]
    assert len([each for each in told if each.startswith(name)]) == 3


def test_nothing_but_the_documented_series_is_told(telemetry):
    """Not when each began, which the library would add."""
    observe(telemetry, a_log())
    assert not [name for name in samples(telemetry) if name.partition("{")[0].endswith("_created")]

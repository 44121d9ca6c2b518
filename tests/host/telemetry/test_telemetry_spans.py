"""Runs as spans, from recorded events alone."""

from telemetry_runs import CANARY, TENANT, FixedClock, a_recorded_run, observe

from builders import EPOCH_US, RUN_ID, SUITE_ID, a_log, a_suite, as_log, opening
from evalwright.contracts.events import InvocationCompleted, InvocationStarted, ProviderUsage
from evalwright.contracts.events import RunCompleted as Completed
from evalwright.host.telemetry.facts import ForkOrigin
from evalwright.host.telemetry.telemetry import RunOrigin, Telemetry
from evalwright.host.telemetry.trace_context import TraceContext
from evalwright.host.telemetry.traces import RunSpan

CALLER = TraceContext("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", state="rojo=1")


class KeepingTracer:
    """A tracer that keeps what it is given."""

    is_recording = True

    def __init__(self, *, sampled: bool = True) -> None:
        self.spans: list[RunSpan] = []
        self._sampled = sampled

    def samples(self, trace_id: str) -> bool:
        return self._sampled

    def export(self, span: RunSpan) -> None:
        self.spans.append(span)

    def close(self) -> None:
        pass


def spans_of(events, origin: RunOrigin | None = None) -> dict[str, list[RunSpan]]:
    """The spans of a run by name."""
    tracer = KeepingTracer()
    observe(Telemetry(FixedClock(), tracer), events, origin)
    found: dict[str, list[RunSpan]] = {}
    for span in tracer.spans:
        found.setdefault(span.name, []).append(span)
    return found


def a_run_with_usages():
    """One task with a model call in it, and one of a judge after it."""
    entries = [
        *opening(a_suite(tasks=1)),
        ("task-1", InvocationStarted("inv-0001", "acme.clerk", "run-api")),
        ("task-1", ProviderUsage("openai", "m", 100, 20, cost_estimate_usd=0.5)),
        ("task-1", InvocationCompleted("inv-0001", "acme.clerk", "completed")),
        ("task-1", ProviderUsage(CANARY, CANARY, 10, 2)),
        (None, Completed(None, 7)),
    ]
    return as_log(entries)


def test_a_run_is_one_span_from_its_start_to_its_end_below_the_caller():
    events = a_log(a_suite(tasks=2))
    (run,) = spans_of(events, RunOrigin(parent=CALLER))["openwop.run"]
    assert (run.start_us, run.end_us) == (events[0].at_us, events[-1].at_us)
    assert (run.context.trace_id, run.parent_id) == (CALLER.trace_id, CALLER.span_id)
    assert run.context.state == "rojo=1"
    assert run.attributes == {
        "openwop.run_id": RUN_ID,
        "openwop.workflow_id": SUITE_ID,
        "openwop.run_status": "completed",
    }


def test_a_run_that_no_caller_traces_is_the_first_span_of_its_own_trace():
    (run,) = spans_of(a_log())["openwop.run"]
    assert run.parent_id is None
    assert run.context.sampled


def test_a_trace_that_is_not_sampled_says_so_in_every_span():
    tracer = KeepingTracer(sampled=False)
    observe(Telemetry(FixedClock(), tracer), a_log())
    assert {span.context.sampled for span in tracer.spans} == {False}


def test_every_task_is_a_node_below_the_run():
    spans = spans_of(a_log(a_suite(tasks=2)))
    (run,), nodes = spans["openwop.run"], spans["openwop.node.evalwright.task"]
    assert [node.attributes["openwop.node_id"] for node in nodes] == ["task-1", "task-2"]
    assert {node.parent_id for node in nodes} == {run.context.span_id}
    assert {node.attributes["openwop.node_attempt"] for node in nodes} == {0}
    assert len({node.context.span_id for node in nodes}) == 2


def test_a_model_call_stands_below_the_work_that_made_it():
    spans = spans_of(a_run_with_usages())
    (node,) = spans["openwop.node.evalwright.task"]
    (agents,) = spans["openwop.activity.openai"]
    assert agents.parent_id == node.context.span_id
    told = {name: value for name, value in agents.attributes.items() if ".cost." in name}
    assert told == {
        "openwop.cost.provider": "openai",
        "openwop.cost.tokens.input": 100,
        "openwop.cost.tokens.output": 20,
        "openwop.cost.tokens.total": 120,
        "openwop.cost.usd": 0.5,
        "openwop.cost.currency": "USD",
    }


def test_a_judges_call_after_a_task_stands_below_the_run_and_an_unknown_price_is_left_out():
    spans = spans_of(a_run_with_usages())
    (judges,) = spans["openwop.activity.other"]
    assert judges.parent_id == spans["openwop.run"][0].context.span_id
    assert judges.attributes["openwop.node_id"] == "task-1"
    assert "openwop.cost.usd" not in judges.attributes


def test_an_append_is_a_span_until_it_is_durable():
    events = a_log()
    appends = spans_of(events)["openwop.event.append"]
    assert [span.attributes["openwop.event_seq"] for span in appends] == list(range(len(events)))
    assert appends[0].attributes["openwop.event_type"] == "run.started"
    assert (appends[0].start_us, appends[0].end_us) == (EPOCH_US, FixedClock().now_us())


def test_failures_are_marked_and_tasks_that_a_run_left_open_end_with_it():
    *opened, _, _, _, _ = a_log(a_suite(tasks=1), ending="failed")
    end = a_log(a_suite(tasks=1), ending="failed")[-1]
    spans = spans_of([*opened, end])
    (run,), (node,) = spans["openwop.run"], spans["openwop.node.evalwright.task"]
    assert (run.status, node.status) == ("error", "error")
    assert run.attributes["error.type"] == "agent_unavailable"
    assert node.end_us == run.end_us


def test_a_fork_names_its_source_and_links_to_it():
    origin = RunOrigin(fork=ForkOrigin("run_source", 3, "branch", CALLER))
    (run,) = spans_of(a_log(), origin)["openwop.run"]
    assert run.link == CALLER
    assert run.parent_id is None
    told = {name: value for name, value in run.attributes.items() if "replay" in name}
    assert told == {
        "openwop.replay.source_run_id": "run_source",
        "openwop.replay.from_seq": 3,
        "openwop.replay.mode": "branch",
    }


def test_a_run_that_two_processes_executed_is_one_tree():
    events = a_log(a_suite(tasks=2))
    first, second = KeepingTracer(), KeepingTracer()
    observe(Telemetry(FixedClock(), first), events[:8])
    after = Telemetry(FixedClock(), second)
    after.adopt(events[0], TENANT)
    observe(after, events[8:])
    whole = spans_of(events)
    (run,) = [span for span in second.spans if span.name == "openwop.run"]
    assert run == whole["openwop.run"][0]
    assert {span.parent_id for span in first.spans} == {run.context.span_id}


def test_no_content_stands_in_any_span(tmp_path):
    spans = spans_of(a_recorded_run(tmp_path)) | spans_of(a_run_with_usages())
    assert "openwop.activity.other" in spans
    assert CANARY not in repr(spans)
